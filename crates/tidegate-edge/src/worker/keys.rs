//! Which keys of rules for one path are in the database: the filter, and what stands beside it while it grows.
//!
//! A filter that is full is made anew from the database's keys, which takes a while. Until then what comes is in a bounded
//! set beside it, and every change of a key is noted, so that the new filter, which is of some other place in the log, is
//! brought to this one. Nothing is ever missing: if the set is full too, every key may be there.

use std::collections::VecDeque;

use hashbrown::HashSet;

use super::filter::Filter;
use crate::truth::{Digest, Seq};

/// Keys beside a full filter, at most; and what one may take: a table from which some have gone is up to four times as large.
const MAX_OVERFLOW: usize = 65_536;
const OVERFLOW_BYTES: usize = 48;

/// Changes that are noted while a filter is made, at most: with more than these it is made once more. And what one may take with
/// the digest behind it, half of the room being free.
const MAX_NOTED: usize = 262_144;
const NOTED_BYTES: usize = 2 * (size_of::<Noted>() + size_of::<u64>());

/// The keys that may be there.
#[derive(Debug)]
pub(crate) struct Keys {
    filter: Filter,
    overflow: HashSet<u64>,
    /// Whether a key that should be here is not.
    is_blind: bool,
    growth: Option<Growth>,
    /// The filter that the database's keys need is larger than there is room for: none is made.
    has_no_room: bool,
    /// How large it may be, how many keys there may be beside it, and changes that are noted.
    max_filter_bytes: usize,
    max_overflow: usize,
    max_noted: usize,
}

/// What keys may take, in bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct KeyBounds {
    /// A filter. While another is made there are two.
    pub(crate) filter: usize,
    /// What comes beside it while another is made, and what is noted of that as many.
    pub(crate) notes: usize,
}

/// A filter that is on its way.
#[derive(Debug)]
struct Growth {
    /// Changes of keys since it was asked for.
    noted: VecDeque<Noted>,
    is_too_long: bool,
    /// Where this was when it was asked for, and the first half of the digest there and at each place after it.
    begun: Seq,
    digests: VecDeque<u64>,
    /// It, once it was made, and its place.
    made: Option<(Filter, Point)>,
}

/// A place of the log, and a number for all rules there: one that a database has come to by another way, after it had gone
/// back, has another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Point {
    pub(crate) seq: Seq,
    pub(crate) digest: Digest,
}

/// A change of a key. Two words, since there may be many.
#[derive(Debug, Clone, Copy)]
struct Noted {
    hash: u64,
    /// Its number, and in the lowest bit whether the key was added.
    seq_and_added: u64,
}

impl Noted {
    fn new(hash: u64, seq: Seq, is_added: bool) -> Self {
        Self { hash, seq_and_added: seq.0 << 1 | u64::from(is_added) }
    }

    fn seq(self) -> Seq {
        Seq(self.seq_and_added >> 1)
    }

    fn is_added(self) -> bool {
        self.seq_and_added & 1 == 1
    }
}

impl Growth {
    /// Where this is.
    fn applied(&self) -> Seq {
        Seq(self.begun.0 + self.digests.len() as u64 - 1)
    }

    /// Whether this was there.
    fn was_at(&self, at: Point) -> bool {
        let digest = at.seq.0.checked_sub(self.begun.0).and_then(|it| self.digests.get(it as usize));
        digest == Some(&at.digest.first_half())
    }
}

impl Keys {
    /// These, all of which are in the filter.
    pub(crate) fn of(filter: Filter, bounds: KeyBounds) -> Self {
        Self {
            filter,
            overflow: HashSet::new(),
            is_blind: false,
            growth: None,
            has_no_room: false,
            max_filter_bytes: bounds.filter,
            max_overflow: (bounds.notes / OVERFLOW_BYTES).min(MAX_OVERFLOW),
            max_noted: (bounds.notes / NOTED_BYTES).min(MAX_NOTED),
        }
    }

    /// More of them than there is room for a filter over: each may be there.
    pub(crate) fn without_filter(bounds: KeyBounds) -> Self {
        Self { is_blind: true, has_no_room: true, ..Self::of(Filter::with_capacity(0), bounds) }
    }

    /// Whether there may be such a key. If not, there is none.
    #[inline]
    pub(crate) fn may_contain(&self, hash: u64) -> bool {
        self.filter.contains(hash)
            || self.is_blind
            || !self.overflow.is_empty() && self.overflow.contains(&hash)
    }

    pub(crate) fn add(&mut self, hash: u64, seq: Seq) {
        self.note(Noted::new(hash, seq, true));
        // One key may be here and one with the same bits in the filter: only what is not in the set is in the filter.
        if self.growth.is_none() && self.filter.insert(hash).is_ok() {
            return;
        }
        if self.overflow.len() < self.max_overflow {
            self.overflow.insert(hash);
        } else {
            self.is_blind = true;
        }
    }

    pub(crate) fn remove(&mut self, hash: u64, seq: Seq) {
        self.note(Noted::new(hash, seq, false));
        // While it is blind a key may be in neither: taking it out of the filter would take another's.
        if self.overflow.remove(&hash) || self.is_blind {
            return;
        }
        self.filter.remove(hash);
        if self.growth.is_none()
            && self.filter.is_sparse()
            && let Ok(halved) = self.filter.halved()
        {
            self.filter = halved;
            self.has_no_room = false;
        }
    }

    fn note(&mut self, noted: Noted) {
        let Some(growth) = &mut self.growth else { return };
        if growth.noted.len() >= self.max_noted {
            growth.is_too_long = true;
        } else {
            growth.noted.push_back(noted);
        }
    }

    /// Whether a larger filter is to be made from the database's keys.
    pub(crate) fn wants_growth(&self) -> bool {
        let is_full = self.filter.len() >= self.filter.capacity() || !self.overflow.is_empty();
        self.growth.is_none() && !self.has_no_room && (is_full || self.is_blind)
    }

    /// Whether there is soon no room for what comes while a larger filter is made.
    pub(crate) fn is_crowded(&self) -> bool {
        let noted = self.growth.as_ref().map_or(0, |growth| growth.noted.len());
        self.is_blind || self.overflow.len() > self.max_overflow / 2 || noted > self.max_noted / 2
    }

    /// Keys that are there, at least.
    pub(crate) fn len(&self) -> usize {
        self.filter.len() + self.overflow.len()
    }

    /// One is being made, of keys at this place, which is here, or later.
    pub(crate) fn begin_growth(&mut self, at: Point) {
        let digests = VecDeque::from([at.digest.first_half()]);
        let noted = VecDeque::new();
        self.growth = Some(Growth { noted, is_too_long: false, begun: at.seq, digests, made: None });
    }

    /// It came to nothing.
    pub(crate) fn give_up_growth(&mut self) {
        self.growth = None;
    }

    /// It would be larger than there is room for. What is here goes on while there is room beside it.
    pub(crate) fn has_no_room_to_grow(&mut self) {
        self.growth = None;
        self.has_no_room = true;
    }

    /// Whether a larger one is being made.
    pub(crate) fn is_growing(&self) -> bool {
        self.growth.is_some()
    }

    /// There is no room for two filters: until the larger one is made, if it still is, each key may be there.
    pub(crate) fn let_go(&mut self) -> Option<Filter> {
        self.growth.as_ref()?;
        self.is_blind = true;
        self.overflow = HashSet::new();
        Some(std::mem::replace(&mut self.filter, Filter::with_capacity(0)))
    }

    /// It is made, of the keys at `at`. It takes the place of the one that is here once all changes up to there were
    /// applied, if that is where they lead to.
    pub(crate) fn grown(&mut self, filter: Filter, at: Point) {
        if let Some(growth) = &mut self.growth {
            growth.made = Some((filter, at));
        }
        self.take_grown();
    }

    /// All changes up to this place were applied.
    pub(crate) fn reached(&mut self, applied: Point) {
        let Some(growth) = &mut self.growth else { return };
        // One comes after the other: whoever leaves one out reads all anew.
        if growth.digests.len() >= self.max_noted || applied.seq != growth.applied().next() {
            growth.is_too_long = true;
        } else {
            growth.digests.push_back(applied.digest.first_half());
        }
        self.take_grown();
    }

    fn take_grown(&mut self) {
        let is_due = |growth: &Growth| {
            growth.made.as_ref().is_some_and(|(_, at)| growth.is_too_long || at.seq <= growth.applied())
        };
        let Some(mut growth) = self.growth.take_if(|growth| is_due(growth)) else { return };
        let Some((mut filter, at)) = growth.made.take() else { return };
        // Of another past than this one it has other keys: it is made once more.
        if growth.is_too_long || !growth.was_at(at) {
            return;
        }
        let at = at.seq;
        let mut overflow = HashSet::new();
        for noted in growth.noted.into_iter().filter(|it| it.seq() > at) {
            let hash = noted.hash;
            if noted.is_added() {
                if filter.insert(hash).is_err() {
                    overflow.insert(hash);
                }
            } else if !overflow.remove(&hash) {
                filter.remove(hash);
            }
        }
        *self = Self { filter, overflow, is_blind: false, growth: None, ..*self };
    }

    /// Whether all keys are known.
    pub(crate) fn is_complete(&self) -> bool {
        !self.is_blind
    }

    /// Whether there is no filter for want of room, though there is room for one over so many keys.
    pub(crate) fn has_room_again(&self, keys: u64) -> bool {
        self.is_blind && self.has_no_room && filter_bytes(keys) <= self.max_filter_bytes
    }

    /// Whether it is for want of room that not all are known.
    pub(crate) fn lacks_room(&self) -> bool {
        self.is_blind && self.has_no_room
    }

    pub(crate) fn bytes(&self) -> usize {
        let growth = self.growth.as_ref().map_or(0, |growth| {
            let made = growth.made.as_ref().map_or(0, |(filter, _)| filter.bytes());
            made + growth.noted.capacity() * size_of::<Noted>() + growth.digests.capacity() * size_of::<u64>()
        });
        self.filter.bytes() + self.overflow.allocation_size() + growth
    }
}

/// What a filter over so many keys takes. It is somewhat larger than it has to be: what comes next does not make it grow.
pub(crate) fn filter_bytes(keys: u64) -> usize {
    Filter::bytes_for(filter_keys(keys))
}

/// For how many keys a filter is made if there are so many.
pub(crate) fn filter_keys(keys: u64) -> usize {
    usize::try_from(keys).unwrap_or(usize::MAX).saturating_add(1)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// More than any of this needs.
    const ROOM: KeyBounds = KeyBounds { filter: 64 << 20, notes: 64 << 20 };

    fn place(seq: u64) -> Point {
        Point { seq: Seq(seq), digest: Digest::of("", seq, "") }
    }

    /// Spreads small numbers over all bits.
    fn hash(number: u64) -> u64 {
        let mut bits = number.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        bits = (bits ^ (bits >> 32)).wrapping_mul(0xD6E8_FEB8_6659_FD93);
        bits ^ (bits >> 32)
    }

    proptest! {
        /// E12: whatever comes and goes while a filter is made, no key that is there is missing.
        #[test]
        fn no_key_is_ever_missing(
            steps in proptest::collection::vec((0..6_u8, 0..600_u64), 1..900),
        ) {
            let mut keys = Keys::of(Filter::with_capacity(16), ROOM);
            let mut there = std::collections::BTreeSet::new();
            let mut history = vec![there.clone()];
            // A filter that is being made: of which place, if that was read yet.
            let mut reading: Option<u64> = None;
            for (kind, number) in steps {
                let seq = history.len() as u64;
                match kind {
                    0..=2 if there.insert(number) => keys.add(hash(number), Seq(seq)),
                    3 if there.remove(&number) => keys.remove(hash(number), Seq(seq)),
                    4 if keys.wants_growth() => {
                        keys.begin_growth(place(seq - 1));
                        reading = Some(seq - 1);
                        continue;
                    }
                    5 if reading.is_some() => {
                        // It was read at any place between when it was asked for and now.
                        let from = reading.take().unwrap();
                        let at = from + number % (seq - from);
                        let of: Vec<_> = history[at as usize].iter().copied().collect();
                        let mut filter = Filter::with_capacity(of.len() + 1);
                        of.iter().for_each(|it| filter.insert(hash(*it)).unwrap());
                        keys.grown(filter, place(at));
                        continue;
                    }
                    _ => continue,
                }
                keys.reached(place(seq));
                history.push(there.clone());
                for number in &there {
                    prop_assert!(keys.may_contain(hash(*number)), "{number} at {seq}");
                }
            }
            if reading.is_none() && keys.is_complete() && keys.overflow.is_empty() {
                prop_assert_eq!(keys.filter.len(), there.len());
            }
        }
    }

    #[test]
    fn a_filter_of_a_later_place_waits_for_it() {
        let mut keys = Keys::of(Filter::with_capacity(16), ROOM);
        keys.add(hash(1), Seq(1));
        keys.begin_growth(place(1));
        let mut filter = Filter::with_capacity(1000);
        [1, 2].iter().for_each(|it| filter.insert(hash(*it)).unwrap());
        keys.grown(filter, place(2));
        assert!(!keys.may_contain(hash(2)), "here there is none yet");
        keys.add(hash(2), Seq(2));
        keys.reached(place(2));
        assert!(keys.may_contain(hash(2)) && keys.growth.is_none());
        keys.remove(hash(2), Seq(3));
        assert!(!keys.may_contain(hash(2)), "it is there once");
    }

    /// A database that was put back under the same name has other keys at places of the same numbers.
    #[test]
    fn a_filter_of_another_past_is_not_taken() {
        let mut keys = Keys::of(Filter::with_capacity(16), ROOM);
        (1..=9).for_each(|number| keys.add(hash(number), Seq(number)));
        for at in [place(2), Point { seq: Seq(9), ..place(2) }] {
            keys.begin_growth(place(9));
            keys.grown(Filter::with_capacity(100), at);
            assert!(keys.growth.is_none() && (1..=9).all(|number| keys.may_contain(hash(number))), "{at:?}");
        }
    }

    #[test]
    fn what_comes_meanwhile_takes_no_more_than_its_room() {
        for bytes in [1000, 4000, 100_000] {
            let mut keys = Keys::of(Filter::with_capacity(16), KeyBounds { notes: bytes, ..ROOM });
            let filter = keys.bytes();
            keys.begin_growth(place(0));
            for seq in 1..10_000 {
                keys.add(hash(seq), Seq(seq));
                keys.reached(place(seq));
                assert!(keys.bytes() <= filter + 2 * bytes, "{} of {bytes} at {seq}", keys.bytes() - filter);
            }
            assert!(keys.may_contain(hash(9999)));
        }
    }

    #[test]
    fn without_room_every_key_may_be_there() {
        let mut keys = Keys::of(Filter::with_capacity(16), ROOM);
        keys.begin_growth(place(0));
        for number in 0..MAX_OVERFLOW as u64 + 1 {
            keys.add(hash(number), Seq(number + 1));
            keys.reached(place(number + 1));
        }
        assert!(!keys.is_complete() && keys.may_contain(hash(u64::MAX - 5)));
        let mut filter = Filter::with_capacity(MAX_OVERFLOW + 10);
        (0..=MAX_OVERFLOW as u64).for_each(|it| filter.insert(hash(it)).unwrap());
        let end = place(MAX_OVERFLOW as u64 + 1);
        keys.grown(filter, end);
        assert!(keys.is_complete() && keys.may_contain(hash(0)) && !keys.may_contain(hash(u64::MAX - 5)));
    }
}
