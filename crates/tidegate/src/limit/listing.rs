//! What a limit has of overrides and pending reservations, page by page.
//!
//! Both are listed in the order in which they end, from an index by time: on Redis a sorted
//! set per limit and partition, here a set. Nothing is found by looking at all keys. What
//! has ended, been cleared, committed or released is not listed, though the index may know
//! of it a little longer.

use std::collections::BTreeSet;
use std::ops::Bound;
use std::time::Duration;

use compact_str::CompactString;
use parking_lot::Mutex;

use super::reservation::Reservation;
use crate::bounds::Rate;
pub use crate::page::{Cursor, MAX_PAGE, Page};
pub(super) use crate::page::{Order, Part, check, member, merge, texts_of};

/// An override of some key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyOverride {
    /// The key; empty for no subject.
    pub key: String,
    /// What it is judged by.
    pub rate: Rate,
    /// How much longer.
    pub lasting: Duration,
}

/// A pending reservation of some key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyReservation {
    /// The key; empty for no subject.
    pub key: String,
    /// The id that the caller gave it.
    pub id: String,
    /// The reservation.
    pub reservation: Reservation,
}

/// What ends when, in this process.
#[derive(Debug, Default)]
pub(super) struct Index(Mutex<BTreeSet<Cursor>>);

/// What an addition looks at, at most, to drop what is over.
const LOOKED_AT: usize = 16;

impl Index {
    /// Notes that something ends at another time than before; 0 for none.
    pub(super) fn moved(&self, member: &str, before_ms: u64, after_ms: u64) {
        if before_ms == after_ms {
            return;
        }
        let at = |at_ms| Cursor { at_ms, member: member.into() };
        let mut index = self.0.lock();
        index.remove(&at(before_ms));
        if after_ms > 0 {
            index.insert(at(after_ms));
        }
    }

    /// Drops some of what is over.
    pub(super) fn sweep(&self, now_ms: u64) {
        let mut index = self.0.lock();
        for _ in 0..LOOKED_AT {
            match index.first() {
                Some(first) if first.at_ms <= now_ms => index.pop_first(),
                _ => return,
            };
        }
    }

    /// The first `limit` that end after `now_ms` and are behind a place; and whether there
    /// are more.
    pub(super) fn page(&self, now_ms: u64, after: Option<&Cursor>, limit: usize) -> (Vec<Cursor>, bool) {
        // The first place at which nothing is over.
        let over = Cursor { at_ms: now_ms + 1, member: CompactString::default() };
        let start = match after {
            Some(after) if *after >= over => Bound::Excluded(after),
            _ => Bound::Included(&over),
        };
        let index = self.0.lock();
        let mut behind = index.range::<Cursor, _>((start, Bound::Unbounded));
        let page = behind.by_ref().take(limit).cloned().collect();
        (page, behind.next().is_some())
    }
}
