//! Takes in their plainest form, which is how clients ask all day, read and answered
//! without hyper: it costs more than the decision and all else that we do for it.
//!
//! What it knows is little, on purpose: whole bodies of an announced length, on
//! connections that are kept. It never refuses; whatever it does not know, or would have
//! to refuse before a body is read, goes to hyper with all that was read of it, and so
//! does the rest of the connection. Both answer alike, byte by byte: a test compares.

mod frame;

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};

use tidegate::clock::monotonic;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::watch;

use self::frame::{Framed, MAX_REQUEST_BYTES, frame, is_last, write};
use crate::access_log::AccessLog;
use crate::connection::Connection;
use crate::http::{Problem, in_time};
use crate::timeouts::{TimedStream, Timeouts};

/// What is left of a connection.
pub(crate) enum Rest {
    /// Something else is asked; what was read of it is read once more.
    Other(TimedStream),
    Ended(io::Result<()>),
}

/// Answers takes until something else is asked. `owing` tells while an answer is owed:
/// at any other time the connection may be dropped.
pub(crate) async fn serve(
    connection: &Connection,
    mut stream: TimedStream,
    timeouts: &Timeouts,
    log: &AccessLog,
    stopping: watch::Receiver<()>,
    owing: &AtomicBool,
) -> Rest {
    match takes(connection, &mut stream, timeouts, log, stopping, owing).await {
        Ok(Some(read)) => Rest::Other(stream.behind(read)),
        Ok(None) => Rest::Ended(stream.shutdown().await),
        Err(error) => Rest::Ended(Err(error)),
    }
}

/// Returns what was read of something else, or nothing at the connection's end.
async fn takes(
    connection: &Connection,
    stream: &mut TimedStream,
    timeouts: &Timeouts,
    log: &AccessLog,
    stopping: watch::Receiver<()>,
    owing: &AtomicBool,
) -> io::Result<Option<Vec<u8>>> {
    let app = &connection.app;
    // A server that is gone has stopped too.
    let is_stopping = || stopping.has_changed().unwrap_or(true);
    let mut read = Vec::with_capacity(MAX_REQUEST_BYTES);
    let mut written = Vec::new();
    loop {
        let take = match frame(app, &read) {
            Framed::Take(take) => take,
            Framed::Begun if stream.read_buf(&mut read).await? > 0 => continue,
            Framed::Begun if read.is_empty() => return Ok(None),
            Framed::Begun | Framed::Other => return Ok(Some(read)),
        };
        timeouts.head_complete();
        owing.store(true, Ordering::Relaxed);
        let since = monotonic();
        let logged = log.take(take.served.name(), since);
        let answer = in_time(app.bounds().request_timeout, async {
            while read.len() < take.end {
                if stream.read_buf(&mut read).await? == 0 {
                    return Ok(None);
                }
            }
            Ok(Some(app.take_read(take.served, &read[take.body..take.end], since).await))
        });
        let response = match answer.await {
            Ok(Ok(Some(response))) => response,
            // A body that ended early.
            Ok(Ok(None)) => return Ok(Some(read)),
            Ok(Err(error)) => return Err(error),
            Err(late) => Problem::whole(late),
        };
        timeouts.answered(read.len() > take.end);
        app.metrics().responded(response.status());
        log.response(logged, response.status());
        written.clear();
        write(&response, is_stopping(), connection.clock.now(), &mut written);
        stream.write_all(&written).await?;
        owing.store(false, Ordering::Relaxed);
        if is_stopping() || is_last(&response) {
            return Ok(None);
        }
        read.drain(..take.end);
    }
}
