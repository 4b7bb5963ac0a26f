//! Failed items of all runs by when they failed last, hour by hour.

use std::collections::{BTreeMap, BTreeSet};

use crate::clock::Timestamp;
use crate::hour::Hour;
use crate::page::Cursor;

/// The latest of an hour that are listed; `run.lua` has the same number.
const MAX_HOUR: usize = 100_000;

#[derive(Debug, Default)]
pub(super) struct FailedHours(BTreeMap<Hour, BTreeSet<Cursor>>);

fn hour_of(place: &Cursor) -> Hour {
    Hour::of(Timestamp::from_millis(place.at_ms))
}

impl FailedHours {
    /// Adds one; the oldest of too many is listed no more.
    pub(super) fn insert(&mut self, place: Cursor) {
        let places = self.0.entry(hour_of(&place)).or_default();
        places.insert(place);
        if places.len() > MAX_HOUR {
            places.pop_first();
        }
    }

    pub(super) fn remove(&mut self, place: &Cursor) {
        let hour = hour_of(place);
        let Some(places) = self.0.get_mut(&hour) else { return };
        places.remove(place);
        if places.is_empty() {
            self.0.remove(&hour);
        }
    }

    /// Those of an hour before `end`, in order.
    pub(super) fn of(&self, hour: Hour, end: &Cursor) -> impl DoubleEndedIterator<Item = &Cursor> {
        self.0.get(&hour).into_iter().flat_map(move |places| places.range(..end))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_list_as_many() {
        let lua = include_str!("../run.lua");
        assert!(lua.contains(&format!("MAX_HOUR = math.ceil(ttl_ms / 100), 3600000, {MAX_HOUR}\n")));
    }
}
