//! What a limit by the hour counted at most without a subject, hour by hour: of the day that ends now. Whoever charges it
//! and in whichever way, it is noted, so what is shown is what was enforced.

use std::collections::BTreeMap;

use parking_lot::Mutex;

use super::calendar::Period;
use crate::clock::Timestamp;

/// How many hours are kept, this one included: `hours.lua` has the same number.
const KEPT: u64 = 24;

/// One hour of several limits that are charged together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Hour {
    /// Since 1970, in UTC.
    pub(crate) number: u64,
    pub(crate) first_charge: Timestamp,
    /// The most that counted, of each limit.
    pub(crate) most: Vec<u64>,
}

/// One hour of one limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LimitHour {
    pub(super) number: u64,
    pub(super) first_charge: Timestamp,
    pub(super) most: u64,
}

impl Hour {
    /// The hour of a moment.
    pub(crate) fn number_at(now_ms: u64) -> u64 {
        now_ms / Period::Hour.as_millis()
    }

    /// The hours of several limits together, the last first.
    pub(super) fn of_all(limits: &[Vec<LimitHour>]) -> Vec<Self> {
        let mut hours = BTreeMap::new();
        for (at, of_limit) in limits.iter().enumerate() {
            for LimitHour { number, first_charge, most } in of_limit.iter().copied() {
                let new = || Self { number, first_charge, most: vec![0; limits.len()] };
                let hour: &mut Self = hours.entry(number).or_insert_with(new);
                hour.first_charge = hour.first_charge.min(first_charge);
                hour.most[at] = most;
            }
        }
        hours.into_values().rev().collect()
    }
}

/// The first charge of a quota in an hour.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HourChange {
    /// The last hour before it in which something was charged, if that is within a day.
    pub(crate) previous: Option<Hour>,
}

impl HourChange {
    /// By what each limit has noted of its last hour before.
    pub(super) fn after(previous: &[Option<LimitHour>]) -> Self {
        let previous: Vec<Vec<_>> = previous.iter().map(|hour| hour.iter().copied().collect()).collect();
        Self { previous: Hour::of_all(&previous).into_iter().next() }
    }
}

/// The hours of a limit in this process.
#[derive(Debug, Default)]
pub(super) struct Hours(Mutex<BTreeMap<u64, Noted>>);

#[derive(Debug)]
struct Noted {
    first_charge: Timestamp,
    most: u64,
    /// Whether a quota was charged in it.
    is_said: bool,
}

impl Hours {
    /// Notes what counts after a charge.
    pub(super) fn note(&self, now_ms: u64, used: u64) {
        let (mut hours, number) = (self.0.lock(), Hour::number_at(now_ms));
        if let Some(hour) = hours.get_mut(&number) {
            hour.most = hour.most.max(used);
            return;
        }
        hours.retain(|hour, _| is_kept(*hour, number));
        let first_charge = Timestamp::from_millis(now_ms);
        hours.insert(number, Noted { first_charge, most: used, is_said: false });
    }

    /// A quota was charged: whether that is the first charge of its hour, told once.
    pub(super) fn say(&self, now_ms: u64) -> bool {
        let mut hours = self.0.lock();
        hours
            .get_mut(&Hour::number_at(now_ms))
            .is_some_and(|hour| !std::mem::replace(&mut hour.is_said, true))
    }

    /// The last before the present one.
    pub(super) fn previous(&self, now_ms: u64) -> Option<LimitHour> {
        let number = Hour::number_at(now_ms);
        self.list(now_ms).into_iter().rfind(|hour| hour.number < number)
    }

    /// Those of the day that ends now, the first first.
    pub(super) fn list(&self, now_ms: u64) -> Vec<LimitHour> {
        let now = Hour::number_at(now_ms);
        let hours = self.0.lock();
        let kept = hours.iter().filter(|(number, _)| is_kept(**number, now));
        kept.map(|(number, hour)| LimitHour {
            number: *number,
            first_charge: hour.first_charge,
            most: hour.most,
        })
        .collect()
    }
}

fn is_kept(hour: u64, now: u64) -> bool {
    hour <= now && now < hour + KEPT
}
