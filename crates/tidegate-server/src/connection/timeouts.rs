//! How long a connection may keep us waiting.
//!
//! A slow head ties up a connection and is cut soon. An idle connection costs
//! little, and a client that keeps it for its next request must not find it
//! closed just then: it is kept for long. hyper has one timeout for both, so we
//! watch for ourselves: bytes come in, a request is answered, and what we wait
//! for is known from that.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use axum::body::{Body, Bytes, HttpBody};
use hyper::body::{Frame, SizeHint};
use parking_lot::Mutex;
use tidegate::clock::monotonic;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// What a connection is waited for, and since when. Clones share it.
#[derive(Debug, Clone)]
pub(crate) struct Timeouts {
    waiting: Arc<Mutex<Waiting>>,
    head: Duration,
    idle: Duration,
    stall: Duration,
}

#[derive(Debug, Clone, Copy)]
enum Waiting {
    /// For a first or a next request; from now on, if nobody has asked yet until when.
    ForRequest { until: Option<Instant> },
    /// For the rest of a head; the same.
    ForHead { until: Option<Instant> },
    /// The client waits for us.
    Not,
    /// For it to take some of a response without an end, if there is any that it has not.
    ToTake { until: Option<Instant> },
    /// For a next request, whatever else is sent before it.
    ForStream { until: Instant },
}

impl Timeouts {
    /// With a new connection: its first head is due at once.
    pub(crate) fn new(head: Duration, idle: Duration, stall: Duration) -> Self {
        let waiting = Waiting::ForRequest { until: Some(monotonic() + head) };
        Self { waiting: Arc::new(Mutex::new(waiting)), head, idle, stall }
    }

    /// When it ends, if it does. It is asked whenever there is nothing to do but to wait: most of what is noted is over by
    /// then, and costs no reading of a clock.
    pub(crate) fn until(&self) -> Option<Instant> {
        match &mut *self.waiting.lock() {
            Waiting::ForRequest { until } => Some(*until.get_or_insert_with(|| monotonic() + self.idle)),
            Waiting::ForHead { until } => Some(*until.get_or_insert_with(|| monotonic() + self.head)),
            Waiting::ForStream { until } => Some(*until),
            Waiting::Not => None,
            Waiting::ToTake { until } => *until,
        }
    }

    /// A head was complete.
    pub(crate) fn head_complete(&self) {
        *self.waiting.lock() = Waiting::Not;
    }

    /// It was answered; with `is_begun` a part of the next head has come already.
    pub(crate) fn answered(&self, is_begun: bool) {
        *self.waiting.lock() = match is_begun {
            true => Waiting::ForHead { until: None },
            false => Waiting::ForRequest { until: None },
        };
    }

    /// No request is under way on a connection that has several at once.
    pub(crate) fn no_streams(&self) {
        *self.waiting.lock() = Waiting::ForStream { until: monotonic() + self.idle };
    }

    /// It is being answered with `body`, and is answered when that has ended.
    pub(crate) fn answered_with(&self, body: Body) -> Body {
        Body::new(TimedBody { body, timeouts: self.clone() })
    }

    /// It is being answered, and nobody knows until when.
    pub(crate) fn streaming(&self) {
        *self.waiting.lock() = Waiting::ToTake { until: None };
    }

    /// Some of an answer was taken, or there was no room for any.
    fn wrote(&self, is_taken: bool) {
        if let Waiting::ToTake { until } = &mut *self.waiting.lock() {
            *until = (!is_taken).then(|| until.unwrap_or_else(|| monotonic() + self.stall));
        }
    }

    /// Bytes came.
    fn received(&self) {
        let mut waiting = self.waiting.lock();
        if let Waiting::ForRequest { .. } = *waiting {
            *waiting = Waiting::ForHead { until: None };
        }
    }

    /// `stream`, with its reads and writes noticed.
    pub(crate) fn watch<I>(&self, stream: I) -> TimedStream<I> {
        TimedStream { stream, read: Vec::new(), timeouts: self.clone() }
    }
}

/// A body whose end is noticed.
struct TimedBody {
    body: Body,
    timeouts: Timeouts,
}

impl HttpBody for TimedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl Drop for TimedBody {
    /// Whoever sends it has all of it, or has given it up.
    fn drop(&mut self) {
        self.timeouts.answered(false);
    }
}

/// A stream whose reads are noticed.
#[derive(Debug)]
pub(crate) struct TimedStream<I> {
    stream: I,
    /// What comes before the stream.
    read: Vec<u8>,
    timeouts: Timeouts,
}

impl<I> TimedStream<I> {
    /// Whether what has been read of it begins so.
    pub(crate) fn begins_with(&self, text: &[u8]) -> bool {
        self.read.starts_with(text)
    }

    /// The stream behind what has been read of it.
    pub(crate) fn behind(self, read: Vec<u8>) -> Self {
        Self { read, ..self }
    }
}

impl<I: AsyncRead + Unpin> AsyncRead for TimedStream<I> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if !self.read.is_empty() {
            let length = self.read.len().min(buffer.remaining());
            buffer.put_slice(&self.read[..length]);
            self.read.drain(..length);
            self.timeouts.received();
            return Poll::Ready(Ok(()));
        }
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(cx, buffer);
        if buffer.filled().len() > before {
            self.timeouts.received();
        }
        read
    }
}

impl<I: AsyncWrite + Unpin> AsyncWrite for TimedStream<I> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let wrote = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.timeouts.wrote(wrote.is_ready());
        wrote
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let wrote = Pin::new(&mut self.stream).poll_write_vectored(cx, slices);
        self.timeouts.wrote(wrote.is_ready());
        wrote
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_waited_for_from_when_somebody_waits() {
        let (second, minute, hour) =
            (Duration::from_secs(1), Duration::from_secs(60), Duration::from_secs(3600));
        let timeouts = Timeouts::new(second, minute, hour);
        let is_in = |most: Duration| {
            let (before, until, again) = (monotonic(), timeouts.until().unwrap(), timeouts.until().unwrap());
            assert_eq!(until, again, "it is not put off by who asks");
            until <= monotonic() + most && until + second / 2 > before + most
        };
        assert!(is_in(second), "the first head is due soon");
        timeouts.received();
        assert!(is_in(second), "and so is the rest of one");
        timeouts.answered(true);
        assert!(is_in(second));
        timeouts.answered(false);
        assert!(is_in(minute), "the next request may come later");
        timeouts.received();
        assert!(is_in(second));
        let until = timeouts.until();
        timeouts.received();
        assert_eq!(timeouts.until(), until, "what comes bit by bit has no longer");
        timeouts.head_complete();
        assert_eq!(timeouts.until(), None);
    }

    /// Only who takes nothing while there is something is waited for, from then on.
    #[test]
    fn a_stream_is_waited_for_only_while_nothing_of_it_is_taken() {
        let (second, minute) = (Duration::from_secs(1), Duration::from_secs(60));
        let timeouts = Timeouts::new(second, second, minute);
        timeouts.wrote(false);
        assert!(timeouts.until().is_some_and(|until| until <= monotonic() + second), "of the first head");
        timeouts.streaming();
        assert_eq!(timeouts.until(), None, "a quiet stream may be as long as it likes");
        let before = monotonic();
        timeouts.wrote(false);
        let until = timeouts.until();
        assert!(until.is_some_and(|until| until >= before + minute && until <= monotonic() + minute));
        timeouts.wrote(false);
        assert_eq!(timeouts.until(), until, "since the first time");
        timeouts.received();
        assert_eq!(timeouts.until(), until, "what it sends does not count");
        timeouts.wrote(true);
        assert_eq!(timeouts.until(), None);
    }
}
