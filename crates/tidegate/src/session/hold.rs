//! Holds: nobody is reaped for a silence that was not theirs.
//!
//! Every call leaves a stamp in its partition, and every process that has a space open calls
//! at least every sixth of a lease. Whoever finds no stamp of the last half of a lease knows
//! that the store, or all who use it, were away, and that holders could not renew. They get
//! the length of a lease to do so: until then no lease ends, and nothing is reaped.
//!
//! [`Hold`] is how leases are read then, in this process; `session.lua` has the same for
//! Redis. [`HoldWatch`] tells people.

use parking_lot::Mutex;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;

/// The hold of a partition: the one that runs, or the last that did.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Hold {
    /// Until when it runs.
    pub(super) until_ms: u64,
    /// Leases that had ended by then are over for all that.
    from_ms: u64,
    /// The end of the hold before.
    past_ms: u64,
}

impl Hold {
    /// Begins at `now_ms`, for `lease_ms`, after a stamp of `seen_ms`. One that still ran then
    /// is the same with another end.
    pub(super) fn begin(&mut self, seen_ms: u64, now_ms: u64, lease_ms: u64) {
        let seen_ms = seen_ms.min(now_ms);
        if self.until_ms <= seen_ms {
            (self.past_ms, self.from_ms) = (self.until_ms, seen_ms);
        }
        self.until_ms = now_ms + lease_ms;
        self.past_ms = self.past_ms.min(now_ms);
        self.from_ms = self.from_ms.min(now_ms);
    }

    /// When a lease that was given until `until_ms` ends.
    pub(super) fn ends_ms(&self, until_ms: u64) -> u64 {
        until_ms.max(if until_ms > self.from_ms { self.until_ms } else { self.past_ms })
    }

    /// The other way round: leases that were given until then, or before, have ended at
    /// `at_ms`; none have if there is no such time.
    pub(super) fn ended_by(&self, at_ms: u64) -> Option<u64> {
        if at_ms >= self.until_ms {
            return Some(at_ms);
        }
        (at_ms >= self.past_ms).then(|| at_ms.min(self.from_ms))
    }
}

/// Tells of the holds of one partition as this process sees them.
#[derive(Debug)]
pub(super) struct HoldWatch {
    space: String,
    partition: u32,
    begun: Counter,
    running: Gauge,
    seen: Mutex<Seen>,
}

#[derive(Debug, Default)]
struct Seen {
    /// The store's time when it was last looked at.
    at_ms: u64,
    /// The end of the one that ran then.
    until_ms: Option<u64>,
}

impl HoldWatch {
    pub(super) fn new(space: &str, partition: u32, begun: Counter, running: Gauge) -> Self {
        Self { space: space.to_owned(), partition, begun, running, seen: Mutex::default() }
    }

    /// At `at_ms`, by the store's clock, a hold ran until `until_ms`, or none.
    pub(super) fn note(&self, at_ms: u64, until_ms: Option<u64>) {
        let mut seen = self.seen.lock();
        // Answers overtake each other; a clock that has stepped back by more is another.
        if at_ms < seen.at_ms && seen.at_ms - at_ms < 60_000 {
            return;
        }
        seen.at_ms = at_ms;
        let before = std::mem::replace(&mut seen.until_ms, until_ms);
        let (space, partition) = (&self.space, self.partition);
        match (before, until_ms) {
            (before, Some(until_ms)) if before != Some(until_ms) => {
                // Many partitions are held at once; that is one time.
                if before.is_none() && self.running.inc() == 0 {
                    self.begun.inc();
                }
                let lasts_ms = until_ms.saturating_sub(at_ms);
                tracing::warn!(
                    space,
                    partition,
                    lasts_ms,
                    "nobody was there for half a lease, or the store has lost something: until holders \
                     have had the time to renew, no session is reaped"
                );
            }
            (Some(_), None) => {
                self.running.dec();
                tracing::info!(space, partition, "the hold is over: sessions are reaped again");
            }
            _ => {}
        }
    }
}

impl Drop for HoldWatch {
    fn drop(&mut self) {
        if self.seen.get_mut().until_ms.is_some() {
            self.running.dec();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Both ways of reading agree, whatever came before.
    #[test]
    fn what_has_ended_by_a_moment_is_what_ends_by_then() {
        let random = |seed: &mut u64| {
            *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (*seed >> 33) % 60
        };
        for mut seed in 0..2000 {
            let (mut hold, mut now_ms) = (Hold::default(), 100);
            for _ in 0..3 {
                let seen_ms = now_ms + random(&mut seed);
                now_ms = seen_ms + 20 + random(&mut seed);
                hold.begin(seen_ms, now_ms, 40);
                now_ms += random(&mut seed);
            }
            for at_ms in now_ms - 90..now_ms + 90 {
                for until_ms in now_ms - 200..now_ms + 100 {
                    let is_over = hold.ends_ms(until_ms) <= at_ms;
                    let told = hold.ended_by(at_ms).is_some_and(|ended_ms| until_ms <= ended_ms);
                    assert_eq!(is_over, told, "{hold:?} at {at_ms}, given until {until_ms}");
                }
            }
        }
    }

    /// However holds follow each other, nothing ends earlier than each of them has said.
    #[test]
    fn a_later_hold_takes_nothing_back() {
        let mut hold = Hold::default();
        hold.begin(100, 200, 40);
        assert_eq!([90, 100, 101, 230, 250].map(|it| hold.ends_ms(it)), [90, 100, 240, 240, 250]);
        // While it runs, another: all is as before, but for the end.
        hold.begin(210, 235, 40);
        assert_eq!([90, 100, 101, 230, 290].map(|it| hold.ends_ms(it)), [90, 100, 275, 275, 290]);
        // After it: those that it kept were left at its end.
        hold.begin(300, 400, 40);
        assert_eq!([101, 230, 290, 300, 301].map(|it| hold.ends_ms(it)), [275, 275, 290, 300, 440]);
    }
}
