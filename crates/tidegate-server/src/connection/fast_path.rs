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
use super::frame::{Framed, MAX_REQUEST_BYTES, frame};
use super::output::Output;
use super::timeouts::TimedStream;
use super::{Begun, Connection, Service, Stream};
use crate::http::{Problem, in_time};

/// Answers are sent once there are so many bytes of them, whatever else was asked meanwhile.
const MAX_WRITTEN_BYTES: usize = 32 << 10;

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
    let mut read = Vec::with_capacity(MAX_REQUEST_BYTES);
    // How much of that was answered.
    let mut done = 0;
    // Answers to requests that came together go together.
    let mut written = Vec::new();
    loop {
        let framed = frame(&read[done..], S::IS_PUBLIC, |head| {
            let request = shared.service.recognise(head)?;
            let access =
                AccessRequest { peer: *peer, method: head.method, path: Some(head.path()), headers: None };
            // Refusals are made on the ordinary way, like all others.
            let admitted = admit(&shared.service, &access).ok()?;
            let logged = log.request(head.method, Some(&head.target));
            let mut output = Output { into: &mut written, stopping, clock: &shared.clock };
            Some((shared.service.begin(request, head, admitted, &mut output), logged))
        });
        let is_other = matches!(framed, Framed::Other);
        let (body, begun, logged) = match framed {
            Framed::Request(body, (begun, logged)) => (done + body.start..done + body.end, begun, logged),
            Framed::Begun | Framed::Other => {
                let is_sent = flush(connection, stream, &mut written, done < read.len(), is_owing).await?;
                if is_sent && is_stopping() {
                    return Ok(None);
                }
                read.drain(..done);
                done = 0;
                if is_other {
                    return Ok(Some(read));
                }
                match stream.read_buf(&mut read).await? {
                    0 if read.is_empty() => return Ok(None),
                    0 => return Ok(Some(read)),
                    _ => continue,
                }
            }
        };
        let answer = match begun {
            Begun::Answered(answer) => {
                is_owing.store(true, Ordering::Relaxed);
                answer
            }
            Begun::Waiting(request, admitted) => {
                // Whoever waits for this one has those before it.
                flush(connection, stream, &mut written, true, is_owing).await?;
                timeouts.head_complete();
                is_owing.store(true, Ordering::Relaxed);
                let since = monotonic();
                let mut output = Output { into: &mut written, stopping, clock: &shared.clock };
                let answer = in_time(shared.settings.request_timeout, async {
                    while read.len() < body.end {
                        if stream.read_buf(&mut read).await? == 0 {
                            return Ok(None);
                        }
                    }
                    let body = &read[body.clone()];
                    Ok(Some(shared.service.respond(request, body, since, admitted, &mut output).await))
                });
                match answer.await {
                    Ok(Ok(Some(answer))) => answer,
                    // A body that ended early.
                    Ok(Ok(None)) => {
                        read.drain(..done);
                        return Ok(Some(read));
                    }
                    Ok(Err(error)) => return Err(error),
                    Err(late) => output.response(&Problem::whole(late)),
                }
            }
        };
        done = body.end;
        shared.service.metrics().responded(answer.status);
        log.response(logged, answer.status);
        if answer.is_last || written.len() >= MAX_WRITTEN_BYTES {
            flush(connection, stream, &mut written, done < read.len(), is_owing).await?;
        }
        if answer.is_last {
            return Ok(None);
        }
    }
}

/// Sends what was written; whether there was anything. `is_begun` says that a part of the next request has come.
async fn flush<S: Service, I: Stream>(
    connection: &Connection<'_, S>,
    stream: &mut TimedStream<I>,
    written: &mut Vec<u8>,
    is_begun: bool,
    is_owing: &AtomicBool,
) -> io::Result<bool> {
    if written.is_empty() {
        return Ok(false);
    }
    connection.timeouts.answered(is_begun);
    stream.write_all(written).await?;
    written.clear();
    is_owing.store(false, Ordering::Relaxed);
    Ok(true)
}
