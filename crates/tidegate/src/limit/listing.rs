//! What a limit has of overrides and pending reservations, page by page.
//!
//! Both are listed in the order in which they end, from an index by time: on Redis a sorted
//! set per limit and partition, here a set. Nothing is found by looking at all keys. What
//! has ended, been cleared, committed or released is not listed, though the index may know
//! of it a little longer.

use std::collections::BTreeSet;
use std::fmt;
use std::ops::Bound;
use std::str::FromStr;
use std::time::Duration;

use compact_str::CompactString;
use parking_lot::Mutex;

use super::reservation::Reservation;
use crate::bounds::{MAX_COUNT, Rate};
use crate::error::{Error, Result};
use crate::key::{Key, MAX_KEY_BYTES};

/// The most that a page may have.
pub const MAX_PAGE: usize = 1000;

/// Some of a list, and where it goes on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page<T> {
    /// The first to end first. Fewer than were asked for, or none, does not mean the end.
    pub items: Vec<T>,
    /// Where the next page begins; none at the end.
    pub next: Option<Cursor>,
}

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

/// A place in a list, behind something that ends at a time. Opaque as text: it is for the
/// next question.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cursor {
    pub(super) ends_at_ms: u64,
    pub(super) member: CompactString,
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-", self.ends_at_ms)?;
        self.member.bytes().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl FromStr for Cursor {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let read = || {
            let (ends_at, hex) = text.split_once('-')?;
            let is_plain = !ends_at.is_empty() && ends_at.bytes().all(|byte| byte.is_ascii_digit());
            let ends_at_ms = ends_at.parse().ok().filter(|at| is_plain && *at <= MAX_COUNT)?;
            let digits: Vec<u8> =
                hex.chars().map(|digit| Some(digit.to_digit(16)? as u8)).collect::<Option<_>>()?;
            // A member is two texts and a length at most.
            if !digits.len().is_multiple_of(2) || digits.len() > 2 * (2 * MAX_KEY_BYTES + 4) {
                return None;
            }
            let bytes = digits.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]).collect();
            Some(Self { ends_at_ms, member: CompactString::from(String::from_utf8(bytes).ok()?) })
        };
        read().ok_or_else(|| {
            let shown: String = text.chars().take(60).collect();
            Error::invalid(format!("{shown:?} is not a place in a list: the `next` of a page is"))
        })
    }
}

/// How many a page may have.
pub(super) fn check(limit: usize) -> Result<()> {
    match limit {
        1..=MAX_PAGE => Ok(()),
        _ => Err(Error::invalid(format!("a page of {limit} is not allowed: 1 to {MAX_PAGE} are"))),
    }
}

/// What the index calls a reservation: no two have the same.
pub(super) fn member(key: Key<'_>, id: &str) -> CompactString {
    compact_str::format_compact!("{}:{}{id}", key.as_str().len(), key.as_str())
}

/// Key and id of a member.
pub(super) fn key_and_id(member: &str) -> Option<(&str, &str)> {
    let (length, texts) = member.split_once(':')?;
    texts.split_at_checked(length.parse().ok()?)
}

/// What one partition has behind a place.
pub(super) struct Part<T> {
    /// With the place of each.
    pub(super) found: Vec<(Cursor, T)>,
    /// How far it has looked, if there may be more behind that.
    pub(super) looked_to: Option<Cursor>,
}

/// One page out of what the partitions have: in order, and nothing behind the place that
/// one of them has not looked beyond.
pub(super) fn merge<T>(parts: Vec<Part<T>>, limit: usize) -> Page<T> {
    let bound = parts.iter().filter_map(|part| part.looked_to.clone()).min();
    let mut found: Vec<(Cursor, T)> = parts.into_iter().flat_map(|part| part.found).collect();
    found.sort_by(|one, other| one.0.cmp(&other.0));
    let within = |place: &Cursor| bound.as_ref().is_none_or(|bound| place <= bound);
    let count = found.iter().take(limit).take_while(|(place, _)| within(place)).count();
    let is_cut = count < found.len();
    found.truncate(count);
    let last = found.last().map(|(place, _)| place.clone());
    // Where a page is full, the next begins behind its last.
    let next = if is_cut && count == limit { last } else { bound.or(last.filter(|_| is_cut)) };
    Page { items: found.into_iter().map(|(_, item)| item).collect(), next }
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
        let at = |ends_at_ms| Cursor { ends_at_ms, member: member.into() };
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
                Some(first) if first.ends_at_ms <= now_ms => index.pop_first(),
                _ => return,
            };
        }
    }

    /// The first `limit` that end after `now_ms` and are behind a place; and whether there
    /// are more.
    pub(super) fn page(&self, now_ms: u64, after: Option<&Cursor>, limit: usize) -> (Vec<Cursor>, bool) {
        // The first place at which nothing is over.
        let over = Cursor { ends_at_ms: now_ms + 1, member: CompactString::default() };
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

#[cfg(test)]
mod tests {
    use super::*;

    fn cursor(ends_at_ms: u64, member: &str) -> Cursor {
        Cursor { ends_at_ms, member: member.into() }
    }

    #[test]
    fn places_survive_being_text() {
        for place in [cursor(0, ""), cursor(1_700_000_000_000, "3:a/ü9:id"), cursor(5, &"k".repeat(514))] {
            assert_eq!(place.to_string().parse::<Cursor>().unwrap(), place);
        }
        for bad in
            ["", "-", "1", "x-61", "+1-61", "1-6", "1-zz", "1-ff", "9007199254740992-61", &"1-".repeat(9)]
        {
            assert!(bad.parse::<Cursor>().is_err(), "{bad}");
        }
    }

    #[test]
    fn members_are_taken_apart_again() {
        for (key, id) in [("k", "id"), ("", "id"), ("1:2", "3:4"), ("ü", "ü")] {
            let key = Key::raw(key);
            assert_eq!(key_and_id(&member(key, id)), Some((key.as_str(), id)));
        }
    }

    #[test]
    fn a_page_never_goes_beyond_what_one_partition_has_looked_at() {
        let part = |ends: &[u64], looked_to: Option<u64>| Part {
            found: ends.iter().map(|at| (cursor(*at, "m"), *at)).collect(),
            looked_to: looked_to.map(|at| cursor(at, "m")),
        };
        let page = merge(vec![part(&[1, 4], None), part(&[2, 3], None)], 3);
        assert_eq!((page.items, page.next), (vec![1, 2, 3], Some(cursor(3, "m"))));
        let page = merge(vec![part(&[1, 4], None), part(&[2, 3], None)], 4);
        assert_eq!((page.items, page.next), (vec![1, 2, 3, 4], None));
        let page = merge(vec![part(&[1, 9], None), part(&[], Some(5))], 4);
        assert_eq!((page.items, page.next), (vec![1], Some(cursor(5, "m"))));
        let page = merge(vec![part(&[1, 2], Some(2)), part(&[3, 4], Some(4))], 2);
        assert_eq!((page.items, page.next), (vec![1, 2], Some(cursor(2, "m"))));
        let page = merge(vec![part(&[], None), part(&[], None)], 2);
        assert_eq!((page.items, page.next), (vec![], None));
    }
}
