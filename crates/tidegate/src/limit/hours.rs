//! What was used at most, hour by hour, of limits that are charged together: of the day that ends now.

use std::collections::BTreeMap;

use parking_lot::Mutex;

use super::calendar::Period;
use crate::clock::Timestamp;

/// How many hours are kept, this one included: `hours.lua` has the same number.
const KEPT: u64 = 24;

/// One hour.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Hour {
    /// Since 1970, in UTC.
    pub(crate) number: u64,
    pub(crate) first_charge: Timestamp,
    /// The most that counted at a charge, of each limit.
    pub(crate) most: Vec<u64>,
}

impl Hour {
    /// The hour of a moment.
    pub(crate) fn number_at(now_ms: u64) -> u64 {
        now_ms / Period::Hour.as_millis()
    }
}

/// The first charge of an hour.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HourChange {
    /// The last hour before it in which something was charged, if that is within a day.
    pub(crate) previous: Option<Hour>,
}

/// Hours, where the limits are in this process; elsewhere the store has them, and this is empty.
#[derive(Debug, Default)]
pub(crate) struct Hours(Mutex<BTreeMap<u64, Hour>>);

impl Hours {
    /// Notes what `charge` says is used; nothing if it says nothing. Nobody else notes meanwhile.
    pub(super) fn note<T>(
        &self,
        now_ms: u64,
        charge: impl FnOnce() -> (T, Option<Vec<u64>>),
    ) -> (T, Option<HourChange>) {
        let mut hours = self.0.lock();
        let (done, used) = charge();
        let Some(used) = used else { return (done, None) };
        let number = Hour::number_at(now_ms);
        if let Some(hour) = hours.get_mut(&number) {
            hour.most.resize(hour.most.len().max(used.len()), 0);
            hour.most.iter_mut().zip(used).for_each(|(most, used)| *most = used.max(*most));
            return (done, None);
        }
        hours.retain(|hour, _| is_kept(*hour, number));
        let previous = hours.last_key_value().map(|(_, hour)| hour.clone());
        hours.insert(number, Hour { number, first_charge: Timestamp::from_millis(now_ms), most: used });
        (done, Some(HourChange { previous }))
    }

    /// Those of the day that ends now, the last first.
    pub(super) fn list(&self, now_ms: u64) -> Vec<Hour> {
        let number = Hour::number_at(now_ms);
        self.0.lock().values().rev().filter(|hour| is_kept(hour.number, number)).cloned().collect()
    }
}

fn is_kept(hour: u64, now: u64) -> bool {
    hour <= now && now < hour + KEPT
}
