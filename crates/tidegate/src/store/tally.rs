//! What is counted of a store on Redis, by part: operations, how long they took, how many there
//! were in each hour, and what its servers said of their memory.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::health::{PartHealth, PeakHour, ResponseTimes, ServerMemory, StoreHealth};
use super::response_times::{Summed, Times};
use crate::PartKind;
use crate::clock::Timestamp;
use crate::hour::Hour;

/// How far back the hour with the most operations is looked for.
const HOURS: u64 = 24;

/// What no part has asked for is counted beside them.
const ROWS: usize = PartKind::ALL.len() + 1;

/// A moment, by the clock that only goes on, and by the one that knows the hour.
pub(super) type Moment = (Instant, Timestamp);

#[derive(Debug, Default)]
pub(super) struct Tally {
    operations: [AtomicU64; ROWS],
    failures: [AtomicU64; ROWS],
    /// Taken once per round trip, by whoever has just had one.
    recent: Mutex<Recent>,
    /// By server, as it last said.
    memory: Mutex<Vec<ServerMemory>>,
}

#[derive(Debug, Default)]
struct Recent {
    times: [Times; ROWS],
    /// Operations by hour, each in the place of its hour of the day.
    hours: [Option<(Hour, u64)>; HOURS as usize],
}

fn row(part: Option<PartKind>) -> usize {
    part.map_or(PartKind::ALL.len(), |part| part as usize)
}

impl Tally {
    pub(super) fn operation(&self, part: Option<PartKind>) {
        self.operations[row(part)].fetch_add(1, Ordering::Relaxed);
    }

    /// An operation that was counted has failed.
    pub(super) fn failure(&self, part: Option<PartKind>) {
        self.failures[row(part)].fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a round trip of so many calls.
    pub(super) fn round_trip(&self, part: Option<PartKind>, calls: u64, took: Duration, now: Moment) {
        if calls == 0 {
            return;
        }
        let hour = Hour::of(now.1);
        let mut recent = self.recent.lock();
        recent.times[row(part)].count(calls, took, now.0);
        let place = &mut recent.hours[hour.of_day() as usize];
        match place {
            Some((of, count)) if *of == hour => *count += calls,
            // Of another day.
            place => *place = Some((hour, calls)),
        }
    }

    /// What a server has said.
    pub(super) fn measured(&self, memory: ServerMemory) {
        let mut all = self.memory.lock();
        match all.iter_mut().find(|known| known.server == memory.server) {
            Some(known) => *known = memory,
            None => all.push(memory),
        }
    }

    /// All of it, into `health`; of memory that of `servers`, which are there.
    pub(super) fn tell(&self, health: &mut StoreHealth, now: Moment, servers: &BTreeSet<String>) {
        let mut recent = self.recent.lock();
        let mut whole = Summed::default();
        recent.times.iter_mut().for_each(|times| times.add_to(&mut whole, now.0));
        // A quota has no operations of its own: it stands on limits.
        let parts = PartKind::ALL.into_iter().filter(|part| *part != PartKind::Quota);
        let parts = parts.map(|part| {
            let mut sum = Summed::default();
            recent.times[row(Some(part))].add_to(&mut sum, now.0);
            let failures = self.failures[row(Some(part))].load(Ordering::Relaxed);
            let operations = self.operations[row(Some(part))].load(Ordering::Relaxed);
            PartHealth { part, operations, failures, response_times: told(&sum) }
        });
        let sum = |counts: &[AtomicU64]| counts.iter().map(|it| it.load(Ordering::Relaxed)).sum();
        let mut memory = self.memory.lock();
        // Servers come and go.
        memory.retain(|it| servers.contains(&it.server));
        memory.sort_by(|one, other| one.server.cmp(&other.server));
        health.failures = sum(&self.failures);
        health.operations = sum(&self.operations);
        health.response_times = told(&whole);
        health.parts = parts.collect();
        health.memory = memory.clone();
        health.peak_hour = recent.peak_hour(now.1);
    }
}

fn told(sum: &Summed) -> ResponseTimes {
    ResponseTimes { average: sum.average(), p99: sum.p99() }
}

impl Recent {
    /// The hour with the most operations of a day's, the later of two.
    fn peak_hour(&self, now: Timestamp) -> Option<PeakHour> {
        let latest = Hour::of(now);
        let lately =
            self.hours.iter().flatten().filter(|(hour, _)| *hour <= latest && latest.since(*hour) < HOURS);
        let (hour, operations) = lately.max_by_key(|(hour, count)| (*count, *hour)).copied()?;
        Some(PeakHour { hour, operations })
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use super::*;
    use crate::clock;

    fn at(hour: u64, ms: u64) -> Moment {
        (clock::monotonic(), Timestamp::from_millis((500_000 + hour) * 3_600_000 + ms))
    }

    fn peak(tally: &Tally, now: Moment) -> Option<(Hour, u64)> {
        let mut health = StoreHealth::new(NonZeroU32::MIN);
        tally.tell(&mut health, now, &BTreeSet::new());
        health.peak_hour.map(|it| (it.hour, it.operations))
    }

    #[test]
    fn the_peak_hour_is_that_of_the_last_day() {
        let (tally, took) = (Tally::default(), Duration::from_millis(1));
        let count = |calls, now| tally.round_trip(Some(PartKind::Hot), calls, took, now);
        assert_eq!(peak(&tally, at(0, 0)), None);
        count(5, at(0, 0));
        count(5, at(0, 3_599_999));
        count(9, at(1, 0));
        assert_eq!(peak(&tally, at(1, 0)), Some((Hour::of(at(0, 0).1), 10)));
        assert_eq!(peak(&tally, at(23, 3_599_999)), Some((Hour::of(at(0, 0).1), 10)));
        // A day later it is over, whether or not its place was taken.
        assert_eq!(peak(&tally, at(24, 0)), Some((Hour::of(at(1, 0).1), 9)));
        count(9, at(24, 0));
        assert_eq!(peak(&tally, at(24, 1)), Some((Hour::of(at(24, 0).1), 9)), "the later of two");
        assert_eq!(peak(&tally, at(48, 0)), None);
        assert_eq!(tally.recent.lock().hours.len(), 24);
    }

    /// What the clock said before it was set back is not lately.
    #[test]
    fn an_hour_that_has_not_come_is_no_peak() {
        let tally = Tally::default();
        tally.round_trip(None, 100, Duration::ZERO, at(30, 0));
        tally.round_trip(None, 1, Duration::ZERO, at(2, 0));
        assert_eq!(peak(&tally, at(2, 0)), Some((Hour::of(at(2, 0).1), 1)));
    }
}
