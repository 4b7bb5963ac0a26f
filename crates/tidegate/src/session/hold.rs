//! Holds: nobody is reaped for a silence that was not theirs.
//!
//! Every call leaves a stamp in its partition, and every process that has a space open calls
//! at least every sixth of a lease. Whoever finds no stamp of the last half of a lease knows
//! that the store, or all who use it, were away, and that holders could not renew. They get
//! the length of a lease to do so: until then no lease ends, and nothing is reaped.
//!
//! [`Hold`] is how leases are read then, in this process; `space.lua` has the same for
//! Redis. [`HoldLog`] tells people what each partition's [`HoldWatch`] sees.

use std::sync::Arc;

use parking_lot::Mutex;

use super::metrics::SessionMetrics;
use crate::log;
use crate::metrics::{Counter, Gauge};
use crate::outage::OutageReason;

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

/// What a store said that took no stamp.
#[derive(Debug)]
pub(super) struct NoStamp {
    pub(super) reason: Option<OutageReason>,
    pub(super) text: String,
}

/// Why a hold runs. One that has begun for want of writes is that until it is over: when they are
/// taken again, the next stamp is one after a long time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cause {
    Unseen,
    NoStamp,
}

/// Sees the holds of one partition.
#[derive(Debug)]
pub(super) struct HoldWatch {
    partition: u32,
    log: Arc<HoldLog>,
    seen: Mutex<Seen>,
}

#[derive(Debug, Default)]
struct Seen {
    /// The store's time when it was last looked at.
    at_ms: u64,
    /// Why one ran then, if one did.
    cause: Option<Cause>,
}

impl HoldWatch {
    pub(super) fn new(log: Arc<HoldLog>, partition: u32) -> Self {
        Self { partition, log, seen: Mutex::default() }
    }

    /// At `at_ms`, by the store's clock, a hold ran until `until_ms`, or none. The store may have
    /// refused to be stamped.
    pub(super) fn note(&self, at_ms: u64, until_ms: Option<u64>, no_stamp: Option<NoStamp>) {
        let mut seen = self.seen.lock();
        // Answers overtake each other; a clock that has stepped back by more is another.
        if at_ms < seen.at_ms && seen.at_ms - at_ms < 60_000 {
            return;
        }
        seen.at_ms = at_ms;
        let before = seen.cause;
        seen.cause = until_ms.map(|_| match (before, &no_stamp) {
            (Some(Cause::NoStamp), _) | (_, Some(_)) => Cause::NoStamp,
            _ => Cause::Unseen,
        });
        let (cause, partition) = (seen.cause, self.partition);
        self.log.changed(before, cause);
        match (until_ms, no_stamp) {
            (Some(until_ms), None) if before.is_none() => {
                self.log.unseen(partition, until_ms.saturating_sub(at_ms));
            }
            (Some(_), Some(no_stamp)) => self.log.no_stamp(partition, at_ms, &no_stamp),
            _ => {}
        }
    }
}

impl Drop for HoldWatch {
    fn drop(&mut self) {
        if self.seen.get_mut().cause.is_some() {
            self.log.running.dec();
        }
    }
}

/// Tells of the holds of a space: that there is one, and why, once for all partitions and for as
/// long as it runs, however often its end changes; and that there is none any more.
#[derive(Debug)]
pub(super) struct HoldLog {
    space: String,
    begun: Counter,
    running: Gauge,
    logged: Mutex<Logged>,
}

#[derive(Debug, Default)]
struct Logged {
    /// Partitions that are held, for either reason.
    unseen: u32,
    no_stamp: u32,
    /// What was logged of those, and whether anything was.
    is_unseen_logged: bool,
    is_no_stamp_logged: bool,
    is_logged: bool,
    /// When it was last logged that the store takes no stamps.
    no_stamp_ms: Option<u64>,
}

impl HoldLog {
    pub(super) fn new(space: &str, metrics: &SessionMetrics) -> Self {
        let (begun, running) = (metrics.holds.clone(), metrics.held_partitions.clone());
        Self { space: space.to_owned(), begun, running, logged: Mutex::default() }
    }

    /// A partition that was held for one reason, or not at all, is for another.
    fn changed(&self, before: Option<Cause>, cause: Option<Cause>) {
        if before == cause {
            return;
        }
        let mut logged = self.logged.lock();
        for (cause, by) in [(before, -1), (cause, 1)] {
            match cause {
                Some(Cause::Unseen) => logged.unseen = logged.unseen.saturating_add_signed(by),
                Some(Cause::NoStamp) => logged.no_stamp = logged.no_stamp.saturating_add_signed(by),
                None => {}
            }
        }
        match (before, cause) {
            // Many partitions are held at once; that is one time.
            (None, Some(_)) if self.running.inc() == 0 => drop(self.begun.inc()),
            (Some(_), None) => drop(self.running.dec()),
            _ => {}
        }
        logged.is_unseen_logged &= logged.unseen > 0;
        logged.is_no_stamp_logged &= logged.no_stamp > 0;
        if logged.unseen + logged.no_stamp == 0 && std::mem::take(&mut logged.is_logged) {
            log::info!(space = self.space, "the hold is over: sessions are reaped again");
        }
    }

    /// One has begun since there was no stamp.
    fn unseen(&self, partition: u32, lasts_ms: u64) {
        let mut logged = self.logged.lock();
        if logged.is_unseen_logged {
            return;
        }
        (logged.is_unseen_logged, logged.is_logged) = (true, true);
        log::warn!(
            space = self.space,
            partition,
            lasts_ms,
            "nobody was there for half a lease, or the store has lost something: until holders have had the time \
             to renew, no session is reaped"
        );
    }

    /// One runs since the store takes none. Where that comes and goes, it is logged once a minute.
    fn no_stamp(&self, partition: u32, at_ms: u64, no_stamp: &NoStamp) {
        let mut logged = self.logged.lock();
        // A clock that was set back has the last time ahead of it.
        let is_lately = logged.no_stamp_ms.is_some_and(|logged_ms| at_ms.abs_diff(logged_ms) < 60_000);
        if logged.is_no_stamp_logged || is_lately {
            return;
        }
        (logged.is_no_stamp_logged, logged.is_logged, logged.no_stamp_ms) = (true, true, Some(at_ms));
        log::warn!(
            space = self.space,
            partition,
            reason = no_stamp.reason.map_or("unknown", OutageReason::as_str),
            error = no_stamp.text.trim(),
            "the store takes no writes, and so no heartbeats: until it does, and holders have had the time to renew, \
             no session is reaped"
        );
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
                    let is_ended = hold.ended_by(at_ms).is_some_and(|ended_ms| until_ms <= ended_ms);
                    assert_eq!(is_over, is_ended, "{hold:?} at {at_ms}, given until {until_ms}");
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
