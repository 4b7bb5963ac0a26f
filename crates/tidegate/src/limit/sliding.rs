//! The sliding limit's numbers: how much, over what window, on which grid.

use std::time::Duration;

use super::divisor::Divisor;
use crate::bounds::{Rate, Window};
use crate::clock;
use crate::error::{Error, Result};

/// A window never has more buckets than this.
const MAX_BUCKETS: u64 = 128;

/// At most `rate × window` permits in any stretch of time as long as the window.
///
/// Charges are kept in buckets on a grid of `coalesce`. A bucket counts until its
/// *end* plus the window, so the bound holds for every window wherever it
/// starts; the price is at most `coalesce / window` of the throughput.
///
/// ```
/// use std::time::Duration;
/// use tidegate::limit::Sliding;
/// let limit = Sliding::new("5/s".parse()?, Duration::from_secs(60))?;
/// assert_eq!(limit.capacity(), 300);
/// assert_eq!(limit.coalesce(), Duration::from_millis(600));
/// # Ok::<(), tidegate::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sliding {
    rate: Rate,
    window: Window,
    capacity: u64,
    grid: Grid,
}

impl Sliding {
    /// A limit of `rate` over `window`, coalescing over a hundredth of it.
    pub fn new(rate: Rate, window: Duration) -> Result<Self> {
        let window = Window::new(window)?;
        let capacity = rate.capacity(window)?;
        Ok(Self { rate, window, capacity, grid: Grid::new(window, window.as_millis() / 100) })
    }

    /// The same limit with buckets of `coalesce`: at least a 128th of the
    /// window, at most the window.
    pub fn with_coalesce(self, coalesce: Duration) -> Result<Self> {
        let window_ms = self.window.as_millis();
        let least = window_ms.div_ceil(MAX_BUCKETS);
        let coalesce_ms = u64::try_from(coalesce.as_millis()).unwrap_or(u64::MAX);
        if !(least..=window_ms).contains(&coalesce_ms) {
            return Err(Error::invalid(format!(
                "buckets of {coalesce:?} in a window of {} s are not allowed: {least} ms to {window_ms} ms are",
                self.window.as_seconds()
            )));
        }
        Ok(Self { grid: Grid::new(self.window, coalesce_ms), ..self })
    }

    /// The rate.
    pub fn rate(&self) -> Rate {
        self.rate
    }

    /// The window.
    pub fn window(&self) -> Window {
        self.window
    }

    /// Permits per window.
    pub fn capacity(&self) -> u64 {
        self.capacity
    }

    /// The width of a bucket.
    pub fn coalesce(&self) -> Duration {
        Duration::from_millis(self.grid.coalesce_ms)
    }

    #[inline]
    pub(super) fn grid(&self) -> &Grid {
        &self.grid
    }

    /// What scripts are told.
    pub(super) fn numbers(&self) -> [u64; 3] {
        [self.grid.window_ms, self.grid.coalesce_ms, self.grid.absurd_ms]
    }
}

/// Buckets by number, and how long each of them counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Grid {
    pub(super) window_ms: u64,
    pub(super) coalesce_ms: u64,
    /// A key whose newest bucket starts further ahead of the clock than this is
    /// from a clock that was wrong: it starts over.
    pub(super) absurd_ms: u64,
    /// How long a bucket counts, from its start.
    life_ms: u64,
    by_coalesce: Divisor,
}

impl Grid {
    fn new(window: Window, coalesce_ms: u64) -> Self {
        let window_ms = window.as_millis();
        let coalesce_ms = coalesce_ms.max(1);
        let (absurd_ms, life_ms) = (clock::absurd_ms(window_ms), coalesce_ms + window_ms);
        Self { window_ms, coalesce_ms, absurd_ms, life_ms, by_coalesce: Divisor::new(coalesce_ms) }
    }

    /// The bucket that `now_ms` falls into.
    #[inline]
    pub(super) fn bucket(&self, now_ms: u64) -> u64 {
        self.by_coalesce.floor(now_ms)
    }

    /// The first millisecond of a bucket.
    #[inline]
    pub(super) fn start_ms(&self, bucket: u64) -> u64 {
        bucket * self.coalesce_ms
    }

    /// The moment that decides about a key with this newest bucket, and whether that is absurd.
    #[inline(always)]
    pub(super) fn deciding(&self, newest: u64, now_ms: u64) -> (u64, bool) {
        clock::deciding(now_ms, self.start_ms(newest), self.absurd_ms)
    }

    /// The first millisecond at which a bucket no longer counts.
    #[inline]
    pub(super) fn end_of_life_ms(&self, bucket: u64) -> u64 {
        self.start_ms(bucket) + self.life_ms
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn coalescing_stays_between_a_128th_and_the_whole_window() {
        let limit = Sliding::new("5/s".parse().unwrap(), Duration::from_secs(60)).unwrap();
        assert!(limit.with_coalesce(Duration::from_millis(468)).is_err());
        assert!(limit.with_coalesce(Duration::from_millis(469)).is_ok());
        assert!(limit.with_coalesce(Duration::from_secs(60)).is_ok());
        assert!(limit.with_coalesce(Duration::from_millis(60_001)).is_err());
        let second = Sliding::new("5/s".parse().unwrap(), Duration::from_secs(1)).unwrap();
        assert_eq!(second.coalesce(), Duration::from_millis(10));
    }
}
