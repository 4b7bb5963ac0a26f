//! Fails fast while a partition's server is away.
//!
//! Closed, calls go through. A server that cannot be reached or used, or two batches in
//! a row that got no answer, open it: then calls are refused at once while the lane's
//! keeper probes in the background, and the first probe that succeeds closes it again.
//! A connection that ends is no reason: the next call makes another. Nor is a server that
//! takes no writes, because its memory is full: that is an outage to be told of, but who
//! only reads is answered, and who writes is refused by the server itself.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Instant;

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::clock::{self, SystemClock, Timestamp};
use crate::error::{Error, Result};
use crate::outage::OutageReason;

/// Unanswered batches in a row that open the breaker.
const TOLERATED_SILENCE: u32 = 2;

#[derive(Debug)]
pub(super) struct Breaker {
    is_open: AtomicBool,
    was_closed: AtomicBool,
    silent: AtomicU32,
    /// How often in a row the server was asked, by a batch or a check, and was of no use.
    failures: AtomicU32,
    /// Calls refused since it opened.
    refused: AtomicU64,
    /// There while it is open, or writes are refused; behind a lock that only those take
    /// who find it so.
    outage: Mutex<Option<Outage>>,
    /// The last outage, until somebody has told of it.
    over: Mutex<Option<Over>>,
    clock: SystemClock,
    /// Wakes the keeper.
    pub(super) opened: Notify,
    /// Wakes those who wait, when it is closed or open for another reason.
    turned: Notify,
    /// Wakes the log, which all lanes of a store share.
    changed: Arc<Notify>,
}

/// Whether a server is there, and only does not answer for now.
pub(super) fn is_passing(error: &Error) -> bool {
    matches!(error.reason(), Some(OutageReason::Timeout | OutageReason::Busy | OutageReason::Loading))
}

/// Whether a server refuses writes and nothing else.
pub(super) fn is_about_writes(error: &Error) -> bool {
    use OutageReason::{Misconf, NoReplicas, OutOfMemory};
    matches!(error.reason(), Some(OutOfMemory | Misconf | NoReplicas))
}

/// Why it is open, or what else there is to be told of, and since when.
#[derive(Debug, Clone)]
pub(super) struct Outage {
    pub(super) server: String,
    pub(super) since: Timestamp,
    pub(super) started: Instant,
    pub(super) error: Error,
}

/// An outage that is over.
#[derive(Debug)]
pub(super) struct Over {
    pub(super) outage: Outage,
    pub(super) refused: u64,
}

impl Breaker {
    /// Open until the first probe has succeeded.
    pub(super) fn new(server: String, changed: Arc<Notify>) -> Self {
        let clock = SystemClock::new();
        let error = Error::unavailable("the store has not been reached yet");
        let outage = Outage { server, since: clock.now(), started: clock::monotonic(), error };
        Self {
            is_open: AtomicBool::new(true),
            was_closed: AtomicBool::new(false),
            silent: AtomicU32::new(0),
            failures: AtomicU32::new(0),
            refused: AtomicU64::new(0),
            outage: Mutex::new(Some(outage)),
            over: Mutex::default(),
            clock,
            opened: Notify::new(),
            turned: Notify::new(),
            changed,
        }
    }

    /// Refuses while open.
    pub(super) fn check(&self) -> Result<()> {
        if !self.is_open() {
            return Ok(());
        }
        self.outage.lock().as_ref().map_or(Ok(()), |outage| Err(outage.error.clone().into_unavailable()))
    }

    /// Waits until it is closed; refuses once a server keeps it open that is not there,
    /// and at `deadline`.
    pub(super) async fn wait(&self, deadline: tokio::time::Instant) -> Result<()> {
        loop {
            let mut turned = std::pin::pin!(self.turned.notified());
            turned.as_mut().enable();
            let Err(refusal) = self.check() else { return Ok(()) };
            if !is_passing(&refusal) || tokio::time::timeout_at(deadline, turned).await.is_err() {
                return Err(refusal);
            }
        }
    }

    pub(super) fn is_open(&self) -> bool {
        self.is_open.load(Ordering::Acquire)
    }

    /// Whether it was ever closed.
    pub(super) fn was_closed(&self) -> bool {
        self.was_closed.load(Ordering::Relaxed)
    }

    /// Counts a call that had no answer.
    pub(super) fn count_refused(&self) {
        if self.outage.lock().is_some() {
            self.refused.fetch_add(1, Ordering::Relaxed);
        }
    }

    pub(super) fn succeeded(&self) {
        self.silent.store(0, Ordering::Relaxed);
    }

    /// The server was asked and answered. Who answers reads only is of no use until it takes
    /// writes: then it is closed.
    pub(super) fn was_reached(&self) {
        // Mostly there is nothing to forget.
        if self.failures.load(Ordering::Relaxed) > 0 && self.outage.lock().is_none() {
            self.failures.store(0, Ordering::Relaxed);
        }
    }

    /// The server was asked, and was of no use.
    pub(super) fn was_missed(&self) {
        self.failures.fetch_add(1, Ordering::Relaxed);
    }

    /// How often in a row that was so.
    pub(super) fn consecutive_failures(&self) -> u32 {
        self.failures.load(Ordering::Relaxed)
    }

    pub(super) fn close(&self) {
        self.succeeded();
        self.failures.store(0, Ordering::Relaxed);
        self.was_closed.store(true, Ordering::Relaxed);
        let mut current = self.outage.lock();
        self.is_open.store(false, Ordering::Release);
        self.turned.notify_waiters();
        // To be reached at the first attempt is no end of an outage.
        if let Some(outage) = current.take()
            && outage.error.reason().is_some()
        {
            let refused = self.refused.swap(0, Ordering::Relaxed);
            let mut over = self.over.lock();
            match &mut *over {
                Some(earlier) => earlier.refused += refused,
                None => *over = Some(Over { outage, refused }),
            }
            self.changed.notify_one();
        }
    }

    /// Opens, or stays open for another reason; whether it was closed before. Where only
    /// writes are refused it lets all calls pass.
    pub(super) fn open(&self, error: &Error, server: impl FnOnce() -> String) -> bool {
        let mut current = self.outage.lock();
        let is_open = !is_about_writes(error);
        let was_open = self.is_open.swap(is_open, Ordering::AcqRel);
        if !is_open {
            // It was reached.
            self.was_closed.store(true, Ordering::Relaxed);
        }
        if let Some(outage) = &mut *current {
            if outage.error.reason().is_none() {
                // The first attempt of all has failed.
                self.changed.notify_one();
            }
            outage.error = error.clone();
            self.turned.notify_waiters();
            return is_open && !was_open;
        }
        let (since, started) = (self.clock.now(), clock::monotonic());
        *current = Some(Outage { server: server(), since, started, error: error.clone() });
        self.opened.notify_one();
        self.changed.notify_one();
        is_open
    }

    /// A batch got no answer; whether that opened the breaker.
    pub(super) fn was_silent(&self, error: &Error, server: impl FnOnce() -> String) -> bool {
        self.silent.fetch_add(1, Ordering::Relaxed) + 1 >= TOLERATED_SILENCE && self.open(error, server)
    }

    /// Why and since when it is open, or refuses writes.
    pub(super) fn outage(&self) -> Option<Outage> {
        self.outage.lock().clone()
    }

    /// Calls refused since it opened.
    pub(super) fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    /// The outage that is over, once.
    pub(super) fn take_over(&self) -> Option<Over> {
        self.over.lock().take()
    }
}
