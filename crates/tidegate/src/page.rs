//! Lists that are read page by page, in the order of an index by time.
//!
//! A place in such a list is a time and what stands there, so that the next page begins behind the
//! last whatever has come or gone meanwhile. Over several partitions a page is made of what each of
//! them has.

use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

use compact_str::CompactString;

use crate::bounds::MAX_COUNT;
use crate::error::{Error, Result};
use crate::key::{Key, MAX_KEY_BYTES};

/// The most that a page may have.
pub const MAX_PAGE: usize = 1000;

/// Some of a list, and where it goes on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page<T> {
    /// In the order of the list. Fewer than were asked for, or none, does not mean the end.
    pub items: Vec<T>,
    /// Where the next page begins; none at the end.
    pub next: Option<Cursor>,
}

/// A place in a list, behind something that stands there at a time. Opaque as text: it is for the
/// next question.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cursor {
    pub(crate) at_ms: u64,
    pub(crate) member: CompactString,
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-", self.at_ms)?;
        self.member.bytes().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl FromStr for Cursor {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let read = || {
            let (at, hex) = text.split_once('-')?;
            let is_plain = !at.is_empty() && at.bytes().all(|byte| byte.is_ascii_digit());
            let at_ms = at.parse().ok().filter(|at| is_plain && *at <= MAX_COUNT)?;
            let digits: Vec<u8> =
                hex.chars().map(|digit| Some(digit.to_digit(16)? as u8)).collect::<Option<_>>()?;
            // A member is two texts and a length at most.
            if !digits.len().is_multiple_of(2) || digits.len() > 2 * (2 * MAX_KEY_BYTES + 4) {
                return None;
            }
            let bytes = digits.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]).collect();
            Some(Self { at_ms, member: CompactString::from(String::from_utf8(bytes).ok()?) })
        };
        read().ok_or_else(|| {
            let shown: String = text.chars().take(60).collect();
            Error::invalid(format!("{shown:?} is not a place in a list: the `next` of a page is"))
        })
    }
}

/// How many a page may have.
pub(crate) fn check(limit: usize) -> Result<()> {
    match limit {
        1..=MAX_PAGE => Ok(()),
        _ => Err(Error::invalid(format!("a page of {limit} is not allowed: 1 to {MAX_PAGE} are"))),
    }
}

/// What an index calls two texts that belong together: no other two have the same.
pub(crate) fn member(key: Key<'_>, other: &str) -> CompactString {
    compact_str::format_compact!("{}:{}{other}", key.as_str().len(), key.as_str())
}

/// The two texts of a member.
pub(crate) fn texts_of(member: &str) -> Option<(&str, &str)> {
    let (length, texts) = member.split_once(':')?;
    texts.split_at_checked(length.parse().ok()?)
}

/// Which end of an index a list begins at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Order {
    OldestFirst,
    NewestFirst,
}

impl Order {
    pub(crate) fn compare(self, one: &Cursor, other: &Cursor) -> Ordering {
        match self {
            Self::OldestFirst => one.cmp(other),
            Self::NewestFirst => other.cmp(one),
        }
    }
}

/// What one partition has behind a place.
#[derive(Debug)]
pub(crate) struct Part<T> {
    /// With the place of each.
    pub(crate) found: Vec<(Cursor, T)>,
    /// How far it has looked, if there may be more behind that.
    pub(crate) looked_to: Option<Cursor>,
}

/// One page out of what the partitions have: in order, and nothing behind the place that
/// one of them has not looked beyond.
pub(crate) fn merge<T>(parts: Vec<Part<T>>, limit: usize, order: Order) -> Page<T> {
    let looked_to = parts.iter().filter_map(|part| part.looked_to.clone());
    let bound = looked_to.min_by(|one, other| order.compare(one, other));
    let mut found: Vec<(Cursor, T)> = parts.into_iter().flat_map(|part| part.found).collect();
    found.sort_by(|one, other| order.compare(&one.0, &other.0));
    let within = |place: &Cursor| bound.as_ref().is_none_or(|bound| order.compare(place, bound).is_le());
    let count = found.iter().take(limit).take_while(|(place, _)| within(place)).count();
    let is_cut = count < found.len();
    found.truncate(count);
    let last = found.last().map(|(place, _)| place.clone());
    // Where a page is full, the next begins behind its last.
    let next = if is_cut && count == limit { last } else { bound.or(last.filter(|_| is_cut)) };
    Page { items: found.into_iter().map(|(_, item)| item).collect(), next }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cursor(at_ms: u64, member: &str) -> Cursor {
        Cursor { at_ms, member: member.into() }
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
        for (key, other) in [("k", "id"), ("", "id"), ("1:2", "3:4"), ("ü", "ü")] {
            let key = Key::raw(key);
            assert_eq!(texts_of(&member(key, other)), Some((key.as_str(), other)));
        }
    }

    #[test]
    fn a_page_never_goes_beyond_what_one_partition_has_looked_at() {
        let part = |times: &[u64], looked_to: Option<u64>| Part {
            found: times.iter().map(|at| (cursor(*at, "m"), *at)).collect(),
            looked_to: looked_to.map(|at| cursor(at, "m")),
        };
        let merge_oldest = |parts, limit| merge(parts, limit, Order::OldestFirst);
        let page = merge_oldest(vec![part(&[1, 4], None), part(&[2, 3], None)], 3);
        assert_eq!((page.items, page.next), (vec![1, 2, 3], Some(cursor(3, "m"))));
        let page = merge_oldest(vec![part(&[1, 4], None), part(&[2, 3], None)], 4);
        assert_eq!((page.items, page.next), (vec![1, 2, 3, 4], None));
        let page = merge_oldest(vec![part(&[1, 9], None), part(&[], Some(5))], 4);
        assert_eq!((page.items, page.next), (vec![1], Some(cursor(5, "m"))));
        let page = merge_oldest(vec![part(&[1, 2], Some(2)), part(&[3, 4], Some(4))], 2);
        assert_eq!((page.items, page.next), (vec![1, 2], Some(cursor(2, "m"))));
        let page = merge_oldest(vec![part(&[], None), part(&[], None)], 2);
        assert_eq!((page.items, page.next), (vec![], None));

        let merge_newest = |parts, limit| merge(parts, limit, Order::NewestFirst);
        let page = merge_newest(vec![part(&[4, 1], None), part(&[3, 2], None)], 3);
        assert_eq!((page.items, page.next), (vec![4, 3, 2], Some(cursor(2, "m"))));
        let page = merge_newest(vec![part(&[9, 1], None), part(&[], Some(5))], 4);
        assert_eq!((page.items, page.next), (vec![9], Some(cursor(5, "m"))));
    }
}
