//! Exact rules in memory, within so many bytes at every moment.
//!
//! The texts of entries stand one behind the other in a log of segments, and an index says where: a key's hash has the number
//! of a shard and a tag, and a shard is a sorted list of slots, dense, twelve bytes each. So nothing is lost between entries,
//! and what is accounted for is what is taken, whatever sizes come and go. Shards and segments grow alone, by little, and
//! what that takes for a moment is free before. Reading takes a shared reference: recency and clicks are atomics in the slot.
//!
//! Who leaves to make room is who came first, but who was asked for since is written anew behind all others (CLOCK, as a
//! queue). Clicks of those who leave are handed out, so that none is lost.

mod clicks;
mod log;
mod place;
mod reclaim;
mod seen;
mod shard;
mod slot;
mod slots;
mod stats;
mod sweep;

use std::sync::atomic::{AtomicU64, AtomicUsize};

pub use self::clicks::Clicked;
use self::log::Log;
use self::place::{Place, Prefix};
pub(crate) use self::seen::Seen;
use self::shard::Shard;
use self::slot::{Marks, Slot};
use self::slots::Slots;
pub use self::stats::Stats;
pub use self::sweep::Swept;
use super::entry::{Entry, View};
use super::size_class::array;

/// The least that a cache can be bounded by.
pub const MIN_BOUND_BYTES: usize = 16 << 10;
/// The most.
pub const MAX_BOUND_BYTES: usize = 256 << 30;

/// What of the bound is one shard's: some hundreds of rules. With more of them a tag would be searched for longer; with
/// less the shards themselves would not fit into the processor's cache.
const BYTES_PER_SHARD: usize = 64 << 10;

/// So that a prefix of a hash says more than which shard.
const MAX_SHARDS: usize = 1 << 16;

/// Rules by host and path.
#[derive(Debug)]
pub struct Cache {
    shards: Box<[Shard]>,
    log: Log,
    len: usize,
    /// What shards and slots take.
    index_bytes: usize,
    bound_bytes: usize,
    eviction_batch: usize,
    /// The shard whose clicks are taken next.
    next_clicks: AtomicUsize,
    /// Who was not seen when all rules were last read leaves, shard by shard: up to which they have.
    unseen_left_to: Option<usize>,
    stats: Stats,
}

/// What an entry found when it came.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[must_use = "it has clicks that nobody else has"]
pub struct Inserted {
    /// Whether it is there now; not if it is too large.
    pub is_kept: bool,
    /// How many others left to make room.
    pub evicted: usize,
    /// Of those who left, if they had any.
    pub clicks: Vec<Clicked>,
}

impl Cache {
    /// Of at most so many bytes, of [`MIN_BOUND_BYTES`] at least and [`MAX_BOUND_BYTES`] at most. When it is full and something comes, at least `eviction_batch` entries leave, or a
    /// thirty-second of all if that is less: so there is room for the next ones too.
    pub fn new(bound_bytes: usize, eviction_batch: usize) -> Self {
        let bound_bytes = bound_bytes.clamp(MIN_BOUND_BYTES, MAX_BOUND_BYTES);
        let shards = (bound_bytes / BYTES_PER_SHARD).next_power_of_two().min(MAX_SHARDS);
        let mut cache = Self {
            shards: std::iter::repeat_with(Shard::default).take(shards).collect(),
            log: Log::new(bound_bytes),
            len: 0,
            index_bytes: array::<Shard>(shards),
            bound_bytes,
            eviction_batch,
            next_clicks: AtomicUsize::new(0),
            unseen_left_to: None,
            stats: Stats::default(),
        };
        cache.note_peak(0);
        cache
    }

    /// Another of the same size, if nothing was ever kept here.
    pub(super) fn unused(&self) -> Option<Self> {
        let is_unused = self.is_empty() && self.stats.evictions == 0 && self.stats.expired == 0;
        is_unused.then(|| Self::new(self.log.max_bytes(), self.eviction_batch))
    }

    /// What is kept for a host, by its number, and a path; asked for, it stays longer. Keys are told apart by themselves: a
    /// hash only says where to look, by its upper bits.
    #[inline]
    pub fn get(&self, hash: u64, host: u32, path: &str) -> Option<Hit<'_>> {
        let place = self.place(hash);
        let shard = &self.shards[place.shard];
        let (at, view) = shard.find(&self.log, place.tag, host, path).ok()?;
        let marks = &shard.slots.at(at).marks;
        if !self.is_there(marks) {
            return None;
        }
        marks.touch();
        Some(Hit { view, marks, clicked: &shard.clicked, run: shard::run_of(place.tag) })
    }

    /// The same as if nobody had asked.
    pub fn peek(&self, hash: u64, host: u32, path: &str) -> Option<View<'_>> {
        let place = self.place(hash);
        let shard = &self.shards[place.shard];
        let (at, view) = shard.find(&self.log, place.tag, host, path).ok()?;
        self.is_there(&shard.slots.at(at).marks).then_some(view)
    }

    /// Keeps an entry, in place of what there was for its host and path. Clicks stay with it if it is the same rule's.
    pub fn insert(&mut self, hash: u64, entry: &Entry, now_ms: u64) -> Inserted {
        let mut inserted = Inserted::default();
        let view = entry.view();
        let place = self.place(hash);
        let (found, index_growth) = loop {
            let shard = &self.shards[place.shard];
            let found = shard.find(&self.log, place.tag, view.host(), view.path()).map(|(at, _)| at);
            let index_growth = if found.is_err() { shard.slots.growth_bytes() } else { 0 };
            let Some(log_growth) = self.log.growth_bytes(Log::record_len(entry)) else {
                // Too large; and what there was is not so any more.
                let removed = self.remove(hash, view.host(), view.path());
                inserted.clicks.extend(removed.filter(|it| it.clicks > 0));
                return inserted;
            };
            let needed = index_growth + log_growth;
            if self.bytes() + needed <= self.bound_bytes {
                break (found, index_growth);
            }
            inserted.evicted += self.make_room(needed, now_ms, &mut inserted.clicks);
        };
        inserted.is_kept = true;
        let location = self.log.append(Prefix::new(hash), entry.text());
        self.note_peak(index_growth);
        let shard = &mut self.shards[place.shard];
        shard.ends_at = shard.ends_at.min(view.expires_at().unwrap_or(u64::MAX));
        let (ends, is_seen) = (view.expires_at().is_some(), self.unseen_left_to.is_some());
        match found {
            Ok(at) => {
                let slot = shard.slots.at_mut(at);
                let old = std::mem::replace(&mut slot.location, location);
                slot.marks.set_ends(ends);
                slot.marks.set_seen(is_seen);
                let before = self.log.view(old);
                if (before.id(), before.created_at()) != (view.id(), view.created_at()) {
                    inserted.clicks.extend(Clicked::of(slot, self.log.text(old)));
                }
                self.log.bury(old);
                self.compact();
            }
            Err(at) => {
                let before = shard.slots.bytes();
                shard.slots.insert(at, Slot { tag: place.tag, location, marks: Marks::new(ends, is_seen) });
                self.index_bytes = self.index_bytes + shard.slots.bytes() - before;
                self.len += 1;
            }
        }
        inserted
    }

    /// Forgets what is kept for a host and a path.
    pub fn remove(&mut self, hash: u64, host: u32, path: &str) -> Option<Clicked> {
        let place = self.place(hash);
        let (at, view) = self.shards[place.shard].find(&self.log, place.tag, host, path).ok()?;
        let none = Clicked::by(&view, 0);
        let clicked = self.take_out(place.shard, at).unwrap_or(none);
        self.compact();
        Some(clicked)
    }

    /// Whether it could be kept with nobody leaving.
    pub fn has_room_for(&self, hash: u64, entry: &Entry) -> bool {
        let index_growth = self.shards[self.place(hash).shard].slots.growth_bytes();
        let log_growth = self.log.growth_bytes(Log::record_len(entry));
        log_growth.is_some_and(|it| self.bytes() + index_growth + it <= self.bound_bytes)
    }

    /// Bounds it anew, by no more than it was made for; those leave who have no room any more. It is never bounded by less
    /// than one entry needs.
    #[must_use = "it has clicks that nobody else has"]
    pub fn set_bound_bytes(&mut self, bound_bytes: usize, now_ms: u64) -> Vec<Clicked> {
        let least = self.empty_index_bytes() + Slots::default().growth_bytes() + self.log.min_bytes();
        self.bound_bytes = bound_bytes.min(self.log.max_bytes()).max(least);
        let mut clicks = Vec::new();
        let reserve = self.log.growth_bytes(0).unwrap_or_default();
        if self.bytes() + reserve > self.bound_bytes {
            self.make_room(reserve, now_ms, &mut clicks);
        }
        clicks
    }

    #[inline]
    fn place(&self, hash: u64) -> Place {
        Place::new(hash, self.shard_bits())
    }

    #[inline]
    fn shard_bits(&self) -> u32 {
        self.shards.len().trailing_zeros()
    }

    fn empty_index_bytes(&self) -> usize {
        array::<Shard>(self.shards.len())
    }

    /// With what is taken beside for a moment.
    fn note_peak(&mut self, more: usize) {
        self.stats.peak_bytes = self.stats.peak_bytes.max(self.bytes() + more);
    }

    /// Takes one out of index and log, and its clicks if it has any.
    fn take_out(&mut self, shard: usize, at: usize) -> Option<Clicked> {
        let slot = self.remove_slot(shard, at);
        let clicked = Clicked::of(&slot, self.log.text(slot.location));
        self.log.bury(slot.location);
        clicked
    }

    fn remove_slot(&mut self, shard: usize, at: usize) -> Slot {
        let slots = &mut self.shards[shard].slots;
        let before = slots.bytes();
        let slot = slots.remove(at);
        self.index_bytes = self.index_bytes + slots.bytes() - before;
        self.len -= 1;
        slot
    }
}

/// What was found.
#[derive(Debug, Clone, Copy)]
pub struct Hit<'a> {
    view: View<'a>,
    marks: &'a Marks,
    clicked: &'a AtomicU64,
    run: u64,
}

impl<'a> Hit<'a> {
    /// What it says.
    #[inline]
    pub fn view(&self) -> &View<'a> {
        &self.view
    }

    /// Counts a redirect.
    #[inline]
    pub fn click(&self) {
        if self.marks.click() {
            shard::note_clicked(self.clicked, self.run);
        }
    }
}

#[cfg(test)]
mod tests;
