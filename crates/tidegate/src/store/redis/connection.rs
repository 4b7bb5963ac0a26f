//! One connection, shared by all who ask the same server.
//!
//! Commands are written in the order in which they come and answered in that order. What
//! the client library's own connection does not tell, this one does: when it ended, the
//! moment it did, and of each command whether any byte of it was given to the system. One
//! that was not can be sent again on the next connection; one that was may have been
//! carried out, whoever closed the connection and why.

#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};

use bytes::{Buf as _, BytesMut};
use redis::Value;
use tokio::io::ReadBuf;
use tokio::sync::{mpsc, oneshot};

use super::failure::Failure;
use super::resp::{NotRedis, Parser};
use super::stream::{Now, Stream};
use crate::outage::OutageReason;

/// Commands that may wait to be written; who comes then waits to be let in.
const MAX_WAITING: usize = 1024;

/// Gathered before it is written: more would not make fewer packets.
const MAX_GATHERED_BYTES: usize = 64 * 1024;

/// Read at a time.
const READ_BYTES: usize = 16 * 1024;

/// The near end. The connection ends with the last clone.
#[derive(Debug, Clone)]
pub(super) struct Connection {
    requests: mpsc::Sender<Request>,
    goodbye: Goodbye,
}

/// What the other side said before it closed, without having been asked.
type Goodbye = Arc<OnceLock<Failure>>;

#[derive(Debug)]
struct Request {
    bytes: Vec<u8>,
    /// How many replies it gets; the last is the answer.
    replies: usize,
    answer: oneshot::Sender<Result<Value, Failure>>,
}

impl Connection {
    /// Takes a stream into use.
    pub(super) fn start(stream: Stream) -> Self {
        let (requests, waiting) = mpsc::channel(MAX_WAITING);
        let goodbye = Goodbye::default();
        let driver = Driver {
            stream,
            requests: waiting,
            parser: Parser::default(),
            scratch: vec![0; READ_BYTES].into_boxed_slice(),
            unread: BytesMut::new(),
            unwritten: BytesMut::new(),
            queued: 0,
            written: 0,
            in_flight: VecDeque::new(),
            goodbye: goodbye.clone(),
        };
        tokio::spawn(driver.run());
        Self { requests, goodbye }
    }

    /// Sends `bytes`, one or more commands, and waits for the last of their `replies`.
    pub(super) async fn send(&self, bytes: Vec<u8>, replies: usize) -> Result<Value, Failure> {
        let (answer, answered) = oneshot::channel();
        let request = Request { bytes, replies, answer };
        let answer = match self.requests.send(request).await {
            // The driver answers whatever it took; without it the program is ending.
            Ok(()) => answered.await.unwrap_or_else(|_| Err(cut())),
            Err(_) => Err(Failure::Unsent),
        };
        match answer {
            Err(Failure::Unsent) => Err(self.goodbye.get().cloned().unwrap_or(Failure::Unsent)),
            answer => answer,
        }
    }

    /// Whether it has ended: known at once, whoever ended it.
    pub(super) fn is_ended(&self) -> bool {
        self.requests.is_closed()
    }

    /// Waits for the end.
    pub(super) async fn ended(&self) {
        self.requests.closed().await;
    }
}

fn cut() -> Failure {
    let text = "the connection to the store was cut while it was asked: it may have done it, or not";
    Failure::Away(OutageReason::Cut, text.to_owned())
}

/// How a connection ended.
enum End {
    /// The other side closed it, or it broke.
    Closed,
    NotRedis(NotRedis),
    /// Nobody holds it any more.
    Unused,
}

impl From<&NotRedis> for Failure {
    fn from(NotRedis(what): &NotRedis) -> Self {
        Self::Away(OutageReason::NotRedis, format!("the store is no Redis: {what}"))
    }
}

/// A command on its way.
struct InFlight {
    /// How many bytes were queued before it.
    from: u64,
    replies: usize,
    answer: oneshot::Sender<Result<Value, Failure>>,
}

struct Driver {
    stream: Stream,
    requests: mpsc::Receiver<Request>,
    parser: Parser,
    scratch: Box<[u8]>,
    unread: BytesMut,
    unwritten: BytesMut,
    /// Bytes taken from requests so far, and those of them given to the system.
    queued: u64,
    written: u64,
    in_flight: VecDeque<InFlight>,
    goodbye: Goodbye,
}

impl Driver {
    async fn run(mut self) {
        let end = poll_fn(|cx| self.poll(cx)).await;
        if let End::NotRedis(not_redis) = &end {
            self.says_goodbye(not_redis.into());
        }
        // First this: who is told that nothing was sent must not come back here.
        self.requests.close();
        for flight in self.in_flight.drain(..) {
            let failure = match &end {
                End::NotRedis(not_redis) => not_redis.into(),
                _ if flight.from < self.written => cut(),
                _ => Failure::Unsent,
            };
            // The caller may have given up.
            let _ = flight.answer.send(Err(failure));
        }
        // Waits for those too who were let in and have not handed over theirs yet: nobody
        // else would ever answer them.
        while let Some(request) = self.requests.recv().await {
            let _ = request.answer.send(Err(Failure::Unsent));
        }
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<End> {
        loop {
            // Reading comes first: there the end shows, before more is written.
            if let Poll::Ready(end) = self.poll_read(cx) {
                return Poll::Ready(end);
            }
            if let Poll::Ready(end) = self.poll_gather(cx) {
                return Poll::Ready(end);
            }
            if self.unwritten.is_empty() {
                return match self.stream.poll_flush(cx) {
                    Poll::Ready(Err(_)) => Poll::Ready(End::Closed),
                    _ => Poll::Pending,
                };
            }
            if let Some(end) = ready!(self.poll_look()) {
                return Poll::Ready(end);
            }
            match ready!(self.stream.poll_write(cx, &self.unwritten)) {
                Ok(count) if count > 0 => {
                    self.unwritten.advance(count);
                    self.written += count as u64;
                }
                _ => {
                    // TLS may have given away some of it before it failed.
                    if self.stream.is_tls() {
                        self.written = self.queued;
                    }
                    return Poll::Ready(End::Closed);
                }
            }
        }
    }

    /// Reads all there is and hands it out. Ready at the end only.
    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<End> {
        loop {
            let mut buffer = ReadBuf::new(&mut self.scratch);
            match ready!(self.stream.poll_read(cx, &mut buffer)) {
                Ok(()) if !buffer.filled().is_empty() => self.unread.extend_from_slice(buffer.filled()),
                _ => return Poll::Ready(End::Closed),
            }
            if let Some(end) = self.hand_out() {
                return Poll::Ready(end);
            }
        }
    }

    /// Hands out the replies that have been read. An end if there is no more to come.
    fn hand_out(&mut self) -> Option<End> {
        loop {
            let reply = match self.parser.next(&mut self.unread) {
                Ok(Some(reply)) => reply,
                Ok(None) => return None,
                Err(not_redis) => return Some(End::NotRedis(not_redis)),
            };
            let written = self.written;
            let Some(first) = self.in_flight.front_mut().filter(|first| first.from < written) else {
                // It speaks without being asked: to say why it closes.
                if let Err(text) = reply {
                    self.says_goodbye(Failure::Server(text));
                }
                return Some(End::Closed);
            };
            first.replies -= 1;
            if first.replies == 0
                && let Some(flight) = self.in_flight.pop_front()
            {
                // The caller may have given up.
                let _ = flight.answer.send(reply.map_err(Failure::Server));
            }
        }
    }

    fn says_goodbye(&self, why: Failure) {
        // There is only one.
        let _ = self.goodbye.set(why);
    }

    /// Takes what waits to be written. Ready when nobody can come any more.
    fn poll_gather(&mut self, cx: &mut Context<'_>) -> Poll<End> {
        while self.unwritten.len() < MAX_GATHERED_BYTES {
            let Some(request) = ready!(self.requests.poll_recv(cx)) else { return Poll::Ready(End::Unused) };
            // Its caller has been answered: carrying it out now would only do harm.
            if request.answer.is_closed() {
                continue;
            }
            let Request { bytes, replies, answer } = request;
            self.in_flight.push_back(InFlight { from: self.queued, replies, answer });
            self.queued += bytes.len() as u64;
            self.unwritten.extend_from_slice(&bytes);
        }
        Poll::Pending
    }

    /// Asks the system whether the connection has ended, before something is written. The
    /// runtime hears of that when it asks the next time, which may be after this; and the end
    /// may be behind replies that nobody has read, so those are read first.
    fn poll_look(&mut self) -> Poll<Option<End>> {
        loop {
            match self.stream.read_now(&mut self.scratch) {
                Ok(Now::Read(count)) => self.unread.extend_from_slice(&self.scratch[..count]),
                // Reading was tried before this, so the runtime will wake us for it.
                Ok(Now::Unread) => return Poll::Pending,
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return Poll::Ready(None),
                Ok(Now::Ended) | Err(_) => return Poll::Ready(Some(End::Closed)),
            }
            if let Some(end) = self.hand_out() {
                return Poll::Ready(Some(end));
            }
        }
    }
}
