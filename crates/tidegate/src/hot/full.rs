//! Says that a space is full: once a minute at most, with how many pages it had no room for.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::bounds::WhenFull;
use crate::log;

/// From one warning to the next.
const EVERY_MS: u64 = 60_000;

/// Promotions refused that nobody has been told of.
#[derive(Debug)]
pub(super) struct Refusals {
    space: String,
    max_tracked: usize,
    when_full: WhenFull,
    count: AtomicU64,
    /// When the last warning was, 0 for never.
    logged_ms: AtomicU64,
}

impl Refusals {
    pub(super) fn new(space: &str, max_tracked: usize, when_full: WhenFull) -> Self {
        let (count, logged_ms) = (AtomicU64::new(0), AtomicU64::new(0));
        Self { space: space.to_owned(), max_tracked, when_full, count, logged_ms }
    }

    pub(super) fn add(&self, count: u64, now_ms: u64) {
        self.count.fetch_add(count, Ordering::Relaxed);
        self.tell(now_ms);
    }

    /// Warns if there is something to tell and it is time to.
    pub(super) fn tell(&self, now_ms: u64) {
        let logged_ms = self.logged_ms.load(Ordering::Relaxed);
        // A clock that was set back has the last warning ahead of it.
        if logged_ms > 0 && now_ms.abs_diff(logged_ms) < EVERY_MS || self.count.load(Ordering::Relaxed) == 0 {
            return;
        }
        if self
            .logged_ms
            .compare_exchange(logged_ms, now_ms.max(1), Ordering::Relaxed, Ordering::Relaxed)
            .is_err()
        {
            return;
        }
        let refused = self.count.swap(0, Ordering::Relaxed);
        let (space, max_tracked) = (self.space.as_str(), self.max_tracked);
        let advice = match self.when_full {
            WhenFull::ReplaceColdest => ", and none was colder: raise max_tracked",
            _ => ": raise max_tracked, or set when_full to replace_coldest",
        };
        log::warn!(space, refused, max_tracked, "as many pages are hot as may be{advice}");
    }
}
