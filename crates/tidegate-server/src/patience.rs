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

use parking_lot::Mutex;
use tidegate::clock::monotonic;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// What a connection is waited for, and since when. Clones share it.
#[derive(Debug, Clone)]
pub(crate) struct Patience {
    waiting: Arc<Mutex<Waiting>>,
    head: Duration,
    idle: Duration,
}

#[derive(Debug, Clone, Copy)]
enum Waiting {
    /// For a first or a next request.
    ForRequest { until: Instant },
    /// For the rest of a head.
    ForHead { until: Instant },
    /// The client waits for us.
    Not,
}

impl Patience {
    /// With a new connection: its first head is due at once.
    pub(crate) fn new(head: Duration, idle: Duration) -> Self {
        let waiting = Waiting::ForRequest { until: monotonic() + head };
        Self { waiting: Arc::new(Mutex::new(waiting)), head, idle }
    }

    /// When it ends, if it does.
    pub(crate) fn until(&self) -> Option<Instant> {
        match *self.waiting.lock() {
            Waiting::ForRequest { until } | Waiting::ForHead { until } => Some(until),
            Waiting::Not => None,
        }
    }

    /// A head was complete.
    pub(crate) fn asked(&self) {
        *self.waiting.lock() = Waiting::Not;
    }

    /// It was answered; with `is_begun` a part of the next head has come already.
    pub(crate) fn answered(&self, is_begun: bool) {
        let now = monotonic();
        *self.waiting.lock() = match is_begun {
            true => Waiting::ForHead { until: now + self.head },
            false => Waiting::ForRequest { until: now + self.idle },
        };
    }

    /// Bytes came.
    fn received(&self) {
        let mut waiting = self.waiting.lock();
        if let Waiting::ForRequest { .. } = *waiting {
            *waiting = Waiting::ForHead { until: monotonic() + self.head };
        }
    }

    /// `stream`, watched.
    pub(crate) fn watch(&self, stream: TcpStream) -> Watched {
        Watched { stream, read: Vec::new(), patience: self.clone() }
    }
}

/// A stream whose reads are noticed.
#[derive(Debug)]
pub(crate) struct Watched {
    stream: TcpStream,
    /// What comes before the stream.
    read: Vec<u8>,
    patience: Patience,
}

impl Watched {
    /// The stream behind what has been read of it.
    pub(crate) fn behind(self, read: Vec<u8>) -> Self {
        Self { read, ..self }
    }
}

impl AsyncRead for Watched {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if !self.read.is_empty() {
            let length = self.read.len().min(buffer.remaining());
            buffer.put_slice(&self.read[..length]);
            self.read.drain(..length);
            self.patience.received();
            return Poll::Ready(Ok(()));
        }
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(cx, buffer);
        if buffer.filled().len() > before {
            self.patience.received();
        }
        read
    }
}

impl AsyncWrite for Watched {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
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
        Pin::new(&mut self.stream).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
