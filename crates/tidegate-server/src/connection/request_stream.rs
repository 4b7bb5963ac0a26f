//! What a connection sends, as hyper may have it: only heads that [`Head`] has nothing against.
//!
//! hyper does not say to a service what was wrong with a head, nor all that was in it, and answers
//! some of them with an empty 400. So heads are judged here, in front of it, and bodies are
//! followed to their end to know where the next one begins. In place of a head that is refused
//! hyper is given the last request of the connection, which the service answers with the
//! refusal: behind the answers to all requests before it.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::chunks::{Chunked, Chunks};
use super::request_head::{BodyLength, Head, MAX_HEAD_BYTES};
use crate::http::Problem;

/// What the connection's service has to know of the heads that it is given. Clones share it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Heads(Arc<Mutex<Seen>>);

#[derive(Debug, Default)]
struct Seen {
    /// Heads that were let through, and requests that the service has had.
    passed: u64,
    served: u64,
    /// What is said of the head behind them.
    refusal: Option<Problem>,
    /// A part of the next head has come.
    is_begun: bool,
}

impl Heads {
    /// Must be called once for every request: what to answer if it stands for a head that was
    /// refused.
    pub(crate) fn refusal(&self) -> Option<Problem> {
        let mut seen = self.0.lock();
        seen.served += 1;
        match seen.served > seen.passed {
            true => seen.refusal.take(),
            false => None,
        }
    }

    /// Whether a part of the next head has come.
    pub(crate) fn is_begun(&self) -> bool {
        self.0.lock().is_begun
    }
}

#[derive(Debug)]
enum Expected {
    Head,
    Body(u64),
    Chunks(Chunks),
    /// The rest is not ours to read.
    Nothing,
}

/// The reading side of `S`, with its heads judged.
#[derive(Debug)]
pub(crate) struct RequestStream<S> {
    stream: S,
    heads: Heads,
    expected: Expected,
    /// What has been read and not given on: at most a head and one read.
    buffer: Vec<u8>,
    /// How much of that may be given on.
    judged: usize,
    /// Up to where the head at the end of the buffer has been looked at.
    looked_at: usize,
    is_over: bool,
}

/// As much as is read at once.
const READ_BYTES: usize = 4096;

impl<S> RequestStream<S> {
    pub(crate) fn new(stream: S) -> (Self, Heads) {
        let heads = Heads::default();
        let stream = Self {
            stream,
            heads: heads.clone(),
            expected: Expected::Head,
            buffer: Vec::new(),
            judged: 0,
            looked_at: 0,
            is_over: false,
        };
        (stream, heads)
    }

    /// Judges what is in the buffer, as far as it goes.
    fn judge(&mut self) {
        while self.judged < self.buffer.len() {
            let rest = &self.buffer[self.judged..];
            match &mut self.expected {
                Expected::Head => {
                    // Only the end of a line can make anything else of it.
                    let is_same = self.looked_at > 0 && !rest[self.looked_at..].contains(&b'\n');
                    if is_same && rest.len() < MAX_HEAD_BYTES {
                        self.looked_at = rest.len();
                        break;
                    }
                    match Head::read(rest) {
                        Head::Begun => {
                            self.looked_at = rest.len();
                            break;
                        }
                        Head::Whole(length, body) => self.pass(length, body),
                        Head::Refused(problem) => self.refuse(problem),
                    }
                }
                Expected::Body(left) => {
                    let here = (*left).min(rest.len() as u64);
                    *left -= here;
                    // No more than the buffer has.
                    self.judged += here as usize;
                    if *left == 0 {
                        self.expected = Expected::Head;
                    }
                }
                Expected::Chunks(chunks) => match chunks.read(rest) {
                    Chunked::More => self.judged = self.buffer.len(),
                    Chunked::End(length) => {
                        self.judged += length;
                        self.expected = Expected::Head;
                    }
                    // Whoever reads it reports it; what comes then is no request.
                    Chunked::Broken(length) => {
                        self.judged += length;
                        self.buffer.truncate(self.judged);
                        self.expected = Expected::Nothing;
                        self.is_over = true;
                    }
                },
                Expected::Nothing => self.buffer.truncate(self.judged),
            }
        }
        let is_begun = matches!(self.expected, Expected::Head) && self.judged < self.buffer.len();
        self.heads.0.lock().is_begun = is_begun;
    }

    fn pass(&mut self, length: usize, body: BodyLength) {
        self.heads.0.lock().passed += 1;
        self.judged += length;
        self.looked_at = 0;
        self.expected = match body {
            BodyLength::Known(0) => Expected::Head,
            BodyLength::Known(length) => Expected::Body(length),
            BodyLength::Chunked => Expected::Chunks(Chunks::new()),
        };
    }

    fn refuse(&mut self, problem: Problem) {
        // An answer to HEAD has no body, whatever it is.
        let method = if self.buffer[self.judged..].starts_with(b"HEAD ") { "HEAD" } else { "GET" };
        self.buffer.truncate(self.judged);
        self.buffer.extend_from_slice(method.as_bytes());
        self.buffer.extend_from_slice(b" / HTTP/1.1\r\nhost:\r\nconnection: close\r\n\r\n");
        self.judged = self.buffer.len();
        self.expected = Expected::Nothing;
        self.heads.0.lock().refusal = Some(problem);
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for RequestStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        loop {
            if this.judged > 0 {
                let length = this.judged.min(into.remaining());
                into.put_slice(&this.buffer[..length]);
                this.buffer.drain(..length);
                this.judged -= length;
                return Poll::Ready(Ok(()));
            }
            if this.is_over {
                return Poll::Ready(Ok(()));
            }
            if let Expected::Body(left) = &mut this.expected {
                // Nothing to be judged: it goes where it is going.
                let most = usize::try_from(*left).unwrap_or(usize::MAX).min(into.remaining());
                let mut body = ReadBuf::new(into.initialize_unfilled_to(most));
                ready!(Pin::new(&mut this.stream).poll_read(cx, &mut body))?;
                let filled = body.filled().len();
                into.advance(filled);
                *left -= filled as u64;
                if *left == 0 {
                    this.expected = Expected::Head;
                }
                return Poll::Ready(Ok(()));
            }
            let mut bytes = [0; READ_BYTES];
            let mut read = ReadBuf::new(&mut bytes);
            ready!(Pin::new(&mut this.stream).poll_read(cx, &mut read))?;
            if read.filled().is_empty() {
                // A refusal is on its way: who hears an end before it hangs up at once.
                if matches!(this.expected, Expected::Nothing) {
                    return Poll::Pending;
                }
                // What has come of a head was no request.
                this.buffer.clear();
                this.is_over = true;
                continue;
            }
            if !matches!(this.expected, Expected::Nothing) {
                this.buffer.extend_from_slice(read.filled());
                this.judge();
            }
        }
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for RequestStream<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
