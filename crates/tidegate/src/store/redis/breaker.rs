//! Fails fast while a partition's server is away.
//!
//! Closed, calls go through. A broken connection, or two batches in a row that
//! got no answer, open it: then calls are refused at once while the lane probes
//! in the background, and the first probe that succeeds closes it again.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use parking_lot::Mutex;

use crate::error::{Error, Result};

/// Unanswered batches in a row that open the breaker.
const TOLERATED_SILENCE: u32 = 2;

#[derive(Debug)]
pub(super) struct Breaker {
    open: AtomicBool,
    silent: AtomicU32,
    /// Why, in words. Whatever it is, a call that is refused can be made again.
    reason: Mutex<String>,
}

impl Breaker {
    /// Open until the first probe has succeeded.
    pub(super) fn new() -> Self {
        let reason = Mutex::new("the store has not been reached yet".to_owned());
        Self { open: AtomicBool::new(true), silent: AtomicU32::new(0), reason }
    }

    /// Refuses while open.
    pub(super) fn check(&self) -> Result<()> {
        if self.is_open() { Err(Error::unavailable(self.reason.lock().clone())) } else { Ok(()) }
    }

    pub(super) fn is_open(&self) -> bool {
        self.open.load(Ordering::Acquire)
    }

    pub(super) fn succeeded(&self) {
        self.silent.store(0, Ordering::Relaxed);
    }

    pub(super) fn close(&self) {
        self.succeeded();
        self.open.store(false, Ordering::Release);
    }

    /// Opens, or stays open for another reason; whether it was closed before.
    pub(super) fn open(&self, reason: &Error) -> bool {
        *self.reason.lock() = reason.to_string();
        !self.open.swap(true, Ordering::AcqRel)
    }

    /// A batch got no answer; whether that opened the breaker.
    pub(super) fn was_silent(&self, reason: &Error) -> bool {
        self.silent.fetch_add(1, Ordering::Relaxed) + 1 >= TOLERATED_SILENCE && self.open(reason)
    }
}
