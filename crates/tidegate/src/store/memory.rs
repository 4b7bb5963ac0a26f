//! What in-process parts stand on: a table of keys in shards.
//!
//! A shard is one lock over a dense slab of entries, a hash table of slots, and
//! a time index that says which entry may be over. An entry costs its own size,
//! 5 to 10 bytes of table and 8 to 9 of index. Nothing here knows what an
//! entry means.

use std::hash::BuildHasher;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use compact_str::CompactString;
use hashbrown::HashTable;
use parking_lot::{Mutex, MutexGuard};

use super::time_index::TimeIndex;
use crate::clock::Timestamp;

#[cfg(test)]
mod tests;

/// Entries per allocation of the slab: enough that the list of allocations stays
/// in the nearest cache, few enough that growing one is short.
const CHUNK: usize = 1024;

/// Below this many slots a shard is not worth rebuilding.
const SMALL: usize = 256;

/// A table of `T` by key, in shards, never above `max_keys` in all. Each shard has an `S` beside
/// its entries, under the same lock: what counts there needs no atomics.
#[derive(Debug)]
pub(crate) struct Table<T, S = ()> {
    shards: Box<[Shard<T, S>]>,
    hasher: foldhash::fast::RandomState,
    keys: AtomicUsize,
    max_keys: usize,
    /// How long an entry that is over is kept.
    slack_ms: u64,
    /// The shard that the next sweep starts with.
    hand: AtomicUsize,
}

// Two cache lines: neighbours are fetched in pairs.
#[derive(Debug)]
#[repr(align(128))]
struct Shard<T, S> {
    slots: Mutex<Slots<T, S>>,
    /// When the first entry may be over; read without the lock.
    next_due_ms: AtomicU64,
}

/// What the lock of a shard guards.
#[derive(Debug)]
struct Slots<T, S> {
    table: HashTable<u32>,
    chunks: Vec<Vec<Slot<T>>>,
    free: Vec<u32>,
    due: TimeIndex,
    beside: S,
}

#[derive(Debug)]
struct Slot<T> {
    key: CompactString,
    entry: T,
}

/// What an entry must tell the table.
pub(crate) trait Entry: Default {
    /// What the table's owner knows and the entry does not.
    type Context;

    /// When the entry will hold nothing that counts any more.
    fn end_ms(&self, context: &Self::Context) -> u64;

    /// Whether it can only be from a clock that was wrong.
    fn is_absurd(&self, context: &Self::Context, now_ms: u64) -> bool;
}

/// What a sweep did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Swept {
    pub(crate) looked_at: usize,
    pub(crate) dropped: usize,
}

/// Entries of its own shard that an insert looks at.
const SWEPT_BY_INSERT: usize = 2;

/// Entries that are looked at to make room at the cap.
const SWEPT_AT_THE_CAP: usize = 1024;

/// What a table has of a key, locked.
pub(crate) struct Held<'a, T, S> {
    slots: MutexGuard<'a, Slots<T, S>>,
    slot: Option<u32>,
    pub(crate) hash: u64,
}

impl<T: Entry, S: Default> Held<'_, T, S> {
    /// The entry, its [`subject`](Table::subject) and what the shard has beside it.
    #[inline(always)]
    pub(crate) fn entry(&mut self) -> Option<(&mut T, u32, &mut S)> {
        let (entry, beside) = self.slots.entry(self.slot?);
        Some((entry, self.hash as u32, beside))
    }
}

/// Whether a key could be had.
pub(crate) enum Lookup<R> {
    Found(R),
    /// The key is new and the table is full of entries that still count.
    Full,
}

impl<T: Entry, S: Default> Table<T, S> {
    pub(crate) fn new(max_keys: usize, slack_ms: u64) -> Self {
        let cores = std::thread::available_parallelism().map_or(4, usize::from);
        // Enough to keep cores apart, and slots within what the index can name.
        let needed = max_keys.div_ceil(TimeIndex::MAX_SLOTS as usize / 4);
        let shards = (cores * 16).max(needed).next_power_of_two();
        Self {
            shards: (0..shards).map(|_| Shard::default()).collect(),
            hasher: foldhash::fast::RandomState::default(),
            keys: AtomicUsize::new(0),
            max_keys,
            slack_ms,
            hand: AtomicUsize::new(0),
        }
    }

    /// How many keys there are.
    pub(crate) fn len(&self) -> usize {
        self.keys.load(Ordering::Relaxed)
    }

    /// Whether a new key would find no room.
    pub(crate) fn is_full(&self, now: Timestamp) -> bool {
        self.len() >= self.max_keys && self.next_due() > now
    }

    /// Tells keys of this table apart, and from those of others.
    pub(crate) fn subject(&self, key: &str) -> u32 {
        self.hasher.hash_one(key) as u32
    }

    /// Runs `change` on the entry of `key`, made if it is absent and dropped
    /// again if `change` says it need not be kept. `change` is told the key's
    /// [`subject`](Self::subject), and has what the shard has beside it.
    #[inline]
    pub(crate) fn upsert<R>(
        &self,
        key: &str,
        now: Timestamp,
        context: &T::Context,
        change: impl FnOnce(&mut T, u32, &mut S) -> (R, bool),
    ) -> Lookup<R> {
        let mut held = self.hold(key);
        let Held { hash, .. } = held;
        if let Some((entry, subject, beside)) = held.entry() {
            return Lookup::Found(change(entry, subject, beside).0);
        }
        drop(held);
        self.insert(hash, key, now, context, change)
    }

    /// The entry of `key`, if there is one, while nobody else has it. Nothing else of the
    /// table may be asked meanwhile.
    #[inline(always)]
    pub(crate) fn hold(&self, key: &str) -> Held<'_, T, S> {
        let hash = self.hasher.hash_one(key);
        let slots = self.shard(hash).slots.lock();
        let slot = slots.find(hash, key);
        Held { slots, slot, hash }
    }

    /// [`upsert`](Self::upsert) of a key that was not there a moment ago.
    #[inline(never)]
    pub(crate) fn insert<R>(
        &self,
        hash: u64,
        key: &str,
        now: Timestamp,
        context: &T::Context,
        change: impl FnOnce(&mut T, u32, &mut S) -> (R, bool),
    ) -> Lookup<R> {
        let has_room = self.reserve() || (self.make_room(now, context) && self.reserve());
        let shard = self.shard(hash);
        let mut guard = shard.slots.lock();
        let slots = &mut *guard;
        // Somebody else may have made it meanwhile.
        if let Some(slot) = slots.find(hash, key) {
            if has_room {
                self.keys.fetch_sub(1, Ordering::Relaxed);
            }
            let (entry, beside) = slots.entry(slot);
            return Lookup::Found(change(entry, hash as u32, beside).0);
        }
        if !has_room {
            return Lookup::Full;
        }
        let mut entry = T::default();
        let (result, keep) = change(&mut entry, hash as u32, &mut slots.beside);
        // Whoever adds also clears away, so that a table is bounded by its use
        // even if nobody else sweeps it.
        let mut left = SWEPT_BY_INSERT;
        let dropped = slots.sweep(&self.hasher, now, self.slack_ms, &mut left, context);
        self.keys.fetch_sub(dropped, Ordering::Relaxed);
        if keep {
            let due = Timestamp::from_millis(entry.end_ms(context));
            slots.insert(&self.hasher, hash, Slot { key: key.into(), entry }, due);
        } else {
            self.keys.fetch_sub(1, Ordering::Relaxed);
        }
        shard.publish(slots);
        Lookup::Found(result)
    }

    /// Runs `look` on the entry of `key`, if there is one.
    pub(crate) fn get<R>(&self, key: &str, look: impl FnOnce(&mut T) -> R) -> Option<R> {
        let hash = self.hasher.hash_one(key);
        let mut slots = self.shard(hash).slots.lock();
        let slot = slots.find(hash, key)?;
        Some(look(&mut slots.slot(slot).entry))
    }

    /// Looks at up to `limit` entries and drops those that have been over for
    /// the slack.
    pub(crate) fn sweep(&self, now: Timestamp, limit: usize, context: &T::Context) -> Swept {
        self.sweep_until(now, self.slack_ms, limit, usize::MAX, context)
    }

    fn sweep_until(
        &self,
        now: Timestamp,
        slack_ms: u64,
        limit: usize,
        enough: usize,
        context: &T::Context,
    ) -> Swept {
        let (mut left, mut dropped) = (limit, 0);
        let first = self.hand.fetch_add(1, Ordering::Relaxed);
        for turn in 0..self.shards.len() {
            if left == 0 || dropped >= enough {
                break;
            }
            let shard = &self.shards[(first + turn) & (self.shards.len() - 1)];
            let mut slots = shard.slots.lock();
            dropped += slots.sweep(&self.hasher, now, slack_ms, &mut left, context);
            shard.publish(&slots);
        }
        self.keys.fetch_sub(dropped, Ordering::Relaxed);
        Swept { looked_at: limit - left, dropped }
    }

    /// When the first entry may be over.
    pub(crate) fn next_due(&self) -> Timestamp {
        let due = self.shards.iter().map(|shard| shard.next_due_ms.load(Ordering::Relaxed));
        Timestamp::from_millis(due.min().unwrap_or(u64::MAX))
    }

    /// What the shards have beside their entries, added up.
    pub(crate) fn beside(&self) -> S
    where
        S: Copy + std::ops::Add<Output = S>,
    {
        self.shards.iter().fold(S::default(), |sum, shard| sum + shard.slots.lock().beside)
    }

    /// Takes one of `max_keys` places.
    fn reserve(&self) -> bool {
        let claim = |keys| (keys < self.max_keys).then_some(keys + 1);
        self.keys.fetch_update(Ordering::Relaxed, Ordering::Relaxed, claim).is_ok()
    }

    /// At the cap: drops entries that no longer count, wherever they are.
    fn make_room(&self, now: Timestamp, context: &T::Context) -> bool {
        self.sweep_until(now, 0, SWEPT_AT_THE_CAP, 1, context).dropped > 0
    }

    #[inline]
    fn shard(&self, hash: u64) -> &Shard<T, S> {
        // The top bits choose within hashbrown, the next ones here.
        &self.shards[(hash >> 40) as usize & (self.shards.len() - 1)]
    }
}

impl<T: Entry, S> Shard<T, S> {
    fn publish(&self, slots: &Slots<T, S>) {
        let next = slots.due.next_due().map_or(u64::MAX, Timestamp::as_millis);
        self.next_due_ms.store(next, Ordering::Relaxed);
    }
}

impl<T, S: Default> Default for Shard<T, S> {
    fn default() -> Self {
        Self { slots: Mutex::default(), next_due_ms: AtomicU64::new(u64::MAX) }
    }
}

impl<T, S: Default> Default for Slots<T, S> {
    fn default() -> Self {
        Self {
            table: HashTable::new(),
            chunks: Vec::new(),
            free: Vec::new(),
            due: TimeIndex::default(),
            beside: S::default(),
        }
    }
}

impl<T: Entry, S: Default> Slots<T, S> {
    /// A loop of our own, since a closure is not always inlined into the table's.
    #[inline(always)]
    fn find(&self, hash: u64, key: &str) -> Option<u32> {
        for slot in self.table.iter_hash(hash) {
            if same(&self.at(*slot).key, key) {
                return Some(*slot);
            }
        }
        None
    }

    #[inline]
    fn at(&self, slot: u32) -> &Slot<T> {
        &self.chunks[slot as usize / CHUNK][slot as usize % CHUNK]
    }

    #[inline]
    fn slot(&mut self, slot: u32) -> &mut Slot<T> {
        &mut self.chunks[slot as usize / CHUNK][slot as usize % CHUNK]
    }

    #[inline]
    fn entry(&mut self, slot: u32) -> (&mut T, &mut S) {
        (&mut self.chunks[slot as usize / CHUNK][slot as usize % CHUNK].entry, &mut self.beside)
    }

    fn insert(&mut self, hasher: &foldhash::fast::RandomState, hash: u64, new: Slot<T>, due: Timestamp) {
        let slot = match self.free.pop() {
            Some(slot) => {
                *self.slot(slot) = new;
                slot
            }
            None => self.append(new),
        };
        let chunks = &self.chunks;
        let rehash =
            |slot: &u32| hasher.hash_one(&*chunks[*slot as usize / CHUNK][*slot as usize % CHUNK].key);
        self.table.insert_unique(hash, slot, rehash);
        self.due.insert(due, slot);
    }

    fn append(&mut self, new: Slot<T>) -> u32 {
        let slot = match self.chunks.last() {
            Some(last) => (self.chunks.len() - 1) * CHUNK + last.len(),
            None => 0,
        };
        if slot % CHUNK == 0 {
            // Grows as it fills: a table with few keys is small.
            self.chunks.push(Vec::new());
        }
        if let Some(last) = self.chunks.last_mut() {
            last.push(new);
        }
        slot as u32
    }

    /// An entry is indexed by the end it had when it was last looked at. If it
    /// has been used since, it is indexed anew: once per life, not per use.
    fn sweep(
        &mut self,
        hasher: &foldhash::fast::RandomState,
        now: Timestamp,
        slack_ms: u64,
        left: &mut usize,
        context: &T::Context,
    ) -> usize {
        let over_by = Timestamp::from_millis(now.as_millis().saturating_sub(slack_ms));
        let mut dropped = 0;
        while *left > 0
            && let Some((_, slot)) = self.due.pop_due(over_by)
        {
            *left -= 1;
            let end = Timestamp::from_millis(self.at(slot).entry.end_ms(context));
            if end <= over_by {
                self.drop_slot(hasher, slot);
                dropped += 1;
            } else {
                self.due.insert(end, slot);
            }
        }
        // What a clock that was far ahead left behind comes last; once it is first,
        // nothing else is left. It goes only for want of room: should the clock
        // have been right after all, it still counts.
        while slack_ms == 0
            && *left > 0
            && let Some(slot) = self.due.first()
            && self.at(slot).entry.is_absurd(context, now.as_millis())
        {
            *left -= 1;
            self.due.pop();
            self.drop_slot(hasher, slot);
            dropped += 1;
        }
        if dropped > 0 {
            self.shrink(hasher);
        }
        dropped
    }

    /// Empties a slot that is no longer in the index.
    fn drop_slot(&mut self, hasher: &foldhash::fast::RandomState, slot: u32) {
        let hash = hasher.hash_one(&*self.at(slot).key);
        if let Ok(found) = self.table.find_entry(hash, |other| *other == slot) {
            found.remove();
        }
        *self.slot(slot) = Slot { key: CompactString::default(), entry: T::default() };
        self.free.push(slot);
    }

    /// Gives memory back when three quarters of the slots are empty.
    fn shrink(&mut self, hasher: &foldhash::fast::RandomState) {
        let slots: usize = self.chunks.iter().map(Vec::len).sum();
        if slots < SMALL || self.table.len() * 4 > slots {
            return;
        }
        let old = std::mem::take(self);
        self.beside = old.beside;
        let mut is_free = vec![false; slots];
        for slot in &old.free {
            is_free[*slot as usize] = true;
        }
        let mut due_at = vec![Timestamp::default(); slots];
        let mut due = old.due;
        while let Some((at, slot)) = due.pop() {
            due_at[slot as usize] = at;
        }
        let entries = old.chunks.into_iter().flatten().zip(due_at).zip(is_free);
        for ((slot, due), _) in entries.filter(|(_, is_free)| !is_free) {
            let hash = hasher.hash_one(&*slot.key);
            self.insert(hasher, hash, slot, due);
        }
    }
}

/// Whether two keys are the same. Most are short, and two words are compared
/// faster than a function is called.
#[inline]
fn same(a: &str, b: &str) -> bool {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    match (a, b) {
        _ if a.len() != b.len() => false,
        _ if a.len() > 16 => a == b,
        _ => match (a.first_chunk::<8>(), b.first_chunk::<8>(), a.last_chunk::<8>(), b.last_chunk::<8>()) {
            (Some(a_first), Some(b_first), Some(a_last), Some(b_last)) => {
                a_first == b_first && a_last == b_last
            }
            _ => a == b,
        },
    }
}
