//! The truth's time, as a worker knows it: what it was last told, and how long ago that was.

use tidegate::clock::MonotonicClock;

/// A step back up to this is held: the clock stands until it is reached again.
const HELD_MS: u64 = 60_000;

/// What a worker counts time by between two readings of the truth's. It never steps.
#[derive(Debug, Clone)]
pub(crate) enum Pace {
    /// The system's.
    Monotonic(MonotonicClock),
    /// A test's.
    #[cfg(test)]
    Manual(tidegate::clock::ManualClock),
}

impl Pace {
    pub(crate) fn new() -> Self {
        Self::Monotonic(MonotonicClock::new())
    }

    /// Milliseconds since some moment.
    #[inline]
    pub(crate) fn elapsed_ms(&self) -> u64 {
        match self {
            Self::Monotonic(clock) => clock.elapsed_ms(),
            #[cfg(test)]
            Self::Manual(clock) => clock.now().as_millis(),
        }
    }
}

/// The truth's time. Between two readings it goes on by itself.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct TruthTime {
    is_known: bool,
    read_ms: u64,
    at_ms: u64,
    /// What was said last; nothing earlier is.
    floor_ms: u64,
}

impl TruthTime {
    /// The time now.
    #[inline]
    pub(crate) fn now_ms(&self, elapsed_ms: u64) -> u64 {
        (self.read_ms + elapsed_ms.saturating_sub(self.at_ms)).max(self.floor_ms)
    }

    /// Whether the truth has said anything yet.
    pub(crate) fn is_known(&self) -> bool {
        self.is_known
    }

    /// What was said last.
    pub(crate) fn last_ms(&self) -> u64 {
        self.floor_ms.max(self.read_ms)
    }

    /// The truth has said what time it is. By how much it has gone back, if that is believed.
    pub(crate) fn told(&mut self, read_ms: u64, elapsed_ms: u64) -> Option<u64> {
        let now_ms = self.now_ms(elapsed_ms);
        let back_ms = now_ms.saturating_sub(read_ms);
        let is_believed = back_ms > HELD_MS;
        let floor_ms = if is_believed { read_ms } else { now_ms };
        *self = Self { is_known: true, read_ms, at_ms: elapsed_ms, floor_ms };
        is_believed.then_some(back_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_steps_back_are_held_and_large_ones_believed() {
        let mut time = TruthTime::default();
        assert_eq!(time.told(1_000_000, 10), None);
        assert_eq!(time.now_ms(510), 1_000_500);
        assert_eq!(time.told(940_500, 510), None, "a minute back");
        assert_eq!(time.now_ms(510), 1_000_500, "it stands");
        assert_eq!(time.now_ms(60_510), 1_000_500);
        assert_eq!(time.now_ms(60_511), 1_000_501, "and goes on from there");
        assert_eq!(time.told(940_499, 60_511), Some(60_002));
        assert_eq!(time.now_ms(60_512), 940_500);
        assert_eq!(time.told(2_000_000, 60_513), None, "forward it is always believed");
        assert_eq!(time.now_ms(60_513), 2_000_000);
    }
}
