//! Requests in their plainest form, which is the form of nearly all of them, read and answered
//! without hyper: it costs more than a decision and all else that we do for it.
//!
//! What it knows is little, on purpose: whole bodies of an announced length, on
//! connections that are kept. It never refuses; whatever it does not know, or would have
//! to refuse before a body is read, goes to hyper with all that was read of it, and so
//! does the rest of the connection. Both answer alike, byte by byte: a test compares.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use tidegate::clock::monotonic;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::access::{AccessRequest, admit};
use super::frame::{Framed, MAX_REQUEST_BYTES, PlainHead, frame, is_last, write};
use super::timeouts::TimedStream;
use super::{Connection, Service, Stream};
use crate::http::{Problem, in_time};

/// What is left of a connection.
pub(super) enum Rest<I> {
    /// Another kind of request has come; what was read of it is read once more.
    Other(TimedStream<I>),
    Ended(io::Result<()>),
}

/// Answers requests until another kind comes. `is_owing` says while an answer is owed:
/// at any other time the connection may be dropped.
pub(super) async fn serve<S: Service, I: Stream>(
    connection: &Connection<'_, S>,
    mut stream: TimedStream<I>,
    is_owing: &AtomicBool,
) -> Rest<I> {
    match respond(connection, &mut stream, is_owing).await {
        Ok(Some(read)) => Rest::Other(stream.behind(read)),
        Ok(None) => Rest::Ended(stream.shutdown().await),
        Err(error) => Rest::Ended(Err(error)),
    }
}

/// Returns what was read of another kind of request, or nothing at the connection's end.
async fn respond<S: Service, I: Stream>(
    connection: &Connection<'_, S>,
    stream: &mut TimedStream<I>,
    is_owing: &AtomicBool,
) -> io::Result<Option<Vec<u8>>> {
    let Connection { shared, peer, timeouts, log, stopping } = connection;
    // A server that is gone has stopped too.
    let is_stopping = || stopping.has_changed().unwrap_or(true);
    let recognise = |head: &PlainHead<'_>| {
        let request = shared.service.recognise(head)?;
        let access =
            AccessRequest { peer: *peer, method: head.method, path: Some(head.path()), headers: None };
        // Refusals are made on the ordinary way, like all others.
        let admitted = admit(&shared.service, &access).ok()?;
        Some((request, admitted, log.request(head.method, Some(&head.target))))
    };
    let mut read = Vec::with_capacity(MAX_REQUEST_BYTES);
    let mut written = Vec::new();
    loop {
        let (body, (request, admitted, logged)) = match frame(&read, recognise) {
            Framed::Request(body, recognised) => (body, recognised),
            Framed::Begun if stream.read_buf(&mut read).await? > 0 => continue,
            Framed::Begun if read.is_empty() => return Ok(None),
            Framed::Begun | Framed::Other => return Ok(Some(read)),
        };
        timeouts.head_complete();
        is_owing.store(true, Ordering::Relaxed);
        let since = monotonic();
        let answer = in_time(shared.settings.request_timeout, async {
            while read.len() < body.end {
                if stream.read_buf(&mut read).await? == 0 {
                    return Ok(None);
                }
            }
            Ok(Some(shared.service.respond(request, &read[body.clone()], since, admitted).await))
        });
        let response = match answer.await {
            Ok(Ok(Some(response))) => response,
            // A body that ended early.
            Ok(Ok(None)) => return Ok(Some(read)),
            Ok(Err(error)) => return Err(error),
            Err(late) => Problem::whole(late),
        };
        timeouts.answered(read.len() > body.end);
        shared.service.metrics().responded(response.status());
        log.response(logged, response.status());
        written.clear();
        write(&response, is_stopping(), shared.clock.now(), &mut written);
        stream.write_all(&written).await?;
        is_owing.store(false, Ordering::Relaxed);
        if is_stopping() || is_last(&response) {
            return Ok(None);
        }
        read.drain(..body.end);
    }
}
