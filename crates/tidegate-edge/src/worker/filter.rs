//! A cuckoo filter: which keys may be there, and which are certainly not, in two to four and a half bytes each.
//!
//! A key is a 64-bit hash. Sixteen of its bits are its fingerprint, kept in one of two buckets of four; each bucket is
//! known from the other and the fingerprint, so that a fingerprint can be moved without its key. What is promised:
//!
//! - A key that was added and not removed is found, always. An insert that finds no room has changed nothing.
//! - Keys are counted: one that was added twice is there until it was removed twice. Two keys with the same fingerprint
//!   and buckets are the same key here, and counting keeps the one when the other leaves.
//! - Of keys that are not there fewer than one in a thousand are found: 8 of 65,535 are expected in a full filter.
//!
//! What it cannot know: whether a key that is removed was ever added. See [`Filter::remove`].
//!
//! Growth needs the keys' hashes again, from who has the keys: fingerprints do not say where they would be in a larger
//! filter. They do say it for a smaller one, see [`Filter::halved`]. Who makes the next one with
//! [`with_capacity`](Filter::with_capacity) of `len() + 1` once [`len`](Filter::len) has come to
//! [`capacity`](Filter::capacity), and halves it when it [is sparse](Filter::is_sparse), has at most 4.5 bytes per key
//! from 100,000 keys on.

use std::fmt;

#[cfg(test)]
mod tests;

/// Fingerprints per bucket. A bucket is one word, and so never in two cache lines.
const SLOTS: usize = 4;

/// The smallest filter. In one of a quarter of it, one time in seven thousand there is no room before it is as full as it
/// is meant to be.
const MIN_BUCKETS: usize = 1024;

/// How full a filter is meant to be, of 100. The first key that finds no room comes at 96 to 98.
const MAX_LOAD: usize = 95;

/// Below this load a filter has more than 4.5 bytes per key, of 1,000.
const SPARSE_LOAD: usize = 445;

/// Buckets that an insert looks at for room, nearly always enough.
const SEARCHED_FIRST: usize = 24;

/// Buckets that it looks at before it gives up.
const SEARCHED: usize = 512;

/// One in each slot of a bucket.
const EACH: u64 = 0x0001_0001_0001_0001;

/// The highest bit of each slot.
const HIGHEST: u64 = EACH << 15;

/// A filter over 64-bit hashes of keys, whose bits must all be alike: [`key`](super::key) makes such.
///
/// ```
/// use tidegate_edge::worker::filter::Filter;
///
/// let mut filter = Filter::with_capacity(1_000);
/// let key = 0x9E37_79B9_7F4A_7C15;
/// filter.insert(key)?;
/// assert!(filter.contains(key));
/// assert!(filter.remove(key));
/// assert!(!filter.contains(key));
/// # Ok::<_, tidegate_edge::worker::filter::Full>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Filter {
    /// As many as a power of two. An empty slot is 0.
    buckets: Box<[u64]>,
    len: usize,
}

/// There is no room for a key where it would have to be. Nothing was added and nothing lost: a larger filter is needed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Full;

impl Filter {
    /// An empty filter with room for so many different keys.
    pub fn with_capacity(keys: usize) -> Self {
        Self::with_buckets(buckets_for(keys))
    }

    /// What [`bytes`](Self::bytes) of a filter with room for so many keys is.
    pub fn bytes_for(keys: usize) -> usize {
        size_of::<Self>() + buckets_for(keys) * size_of::<u64>()
    }

    fn with_buckets(buckets: usize) -> Self {
        Self { buckets: vec![0; buckets].into_boxed_slice(), len: 0 }
    }

    /// Whether a key may be there. If not, it is not.
    #[inline]
    pub fn contains(&self, hash: u64) -> bool {
        let fingerprint = fingerprint(hash);
        let bucket = self.bucket(hash);
        let partner = self.partner(bucket, fingerprint);
        // Both are read, so that the one does not wait for the other.
        slot_of(self.buckets[bucket], fingerprint).is_some()
            | slot_of(self.buckets[partner], fingerprint).is_some()
    }

    /// Adds a key, once more if it is there. Up to eight times there is room for the same one, if others can make it.
    ///
    /// # Errors
    ///
    /// [`Full`] if there is no room. The filter is as it was.
    pub fn insert(&mut self, hash: u64) -> Result<(), Full> {
        self.insert_at(self.bucket(hash), fingerprint(hash))
    }

    fn insert_at(&mut self, bucket: usize, fingerprint: u16) -> Result<(), Full> {
        let partner = self.partner(bucket, fingerprint);
        if !self.put(bucket, fingerprint) && !self.put(partner, fingerprint) {
            let near = self.make_room::<SEARCHED_FIRST>(bucket, partner);
            let bucket = near.or_else(|| self.make_room::<SEARCHED>(bucket, partner)).ok_or(Full)?;
            self.put(bucket, fingerprint);
        }
        self.len += 1;
        Ok(())
    }

    /// Takes one copy of a key out, and says whether there was one. Only what was added may be removed: the copy of
    /// another key with the same fingerprint and buckets would go instead, and that key be missed from then on. Of keys
    /// that are absent as many do so as [`contains`](Self::contains) takes for present, one in 8,000 of a full filter;
    /// for all others this answers `false` and has changed nothing. So `false` proves a mistake, and `true` proves
    /// nothing.
    pub fn remove(&mut self, hash: u64) -> bool {
        let fingerprint = fingerprint(hash);
        let bucket = self.bucket(hash);
        for bucket in [bucket, self.partner(bucket, fingerprint)] {
            if let Some(slot) = slot_of(self.buckets[bucket], fingerprint) {
                self.take(bucket, slot);
                self.len -= 1;
                return true;
            }
        }
        false
    }

    /// How many keys there are, each as often as it was added.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// How many keys it is made for. More may find room, until one does not.
    pub fn capacity(&self) -> usize {
        self.buckets.len() * SLOTS * MAX_LOAD / 100
    }

    /// All memory that it takes.
    pub fn bytes(&self) -> usize {
        size_of::<Self>() + self.buckets.len() * size_of::<u64>()
    }

    /// Whether so few keys are left that half of it would do.
    pub fn is_sparse(&self) -> bool {
        self.buckets.len() > min_buckets() && self.len * 1000 < self.buckets.len() * SLOTS * SPARSE_LOAD
    }

    /// The same keys in half the memory. Needs no key: a smaller filter goes by fewer bits of the same places.
    ///
    /// # Errors
    ///
    /// [`Full`] if they do not fit.
    pub fn halved(&self) -> Result<Self, Full> {
        // A key has two buckets, always.
        if self.buckets.len() == 2 {
            return Err(Full);
        }
        let mut half = Self::with_buckets(self.buckets.len() / 2);
        for (bucket, slots) in self.buckets.iter().enumerate() {
            for slot in 0..SLOTS {
                let fingerprint = fingerprint_in(*slots, slot);
                if fingerprint != 0 {
                    half.insert_at(bucket & half.mask(), fingerprint)?;
                }
            }
        }
        Ok(half)
    }

    fn mask(&self) -> usize {
        self.buckets.len() - 1
    }

    /// Where a key is first looked for, by the low bits of its hash.
    fn bucket(&self, hash: u64) -> usize {
        hash as usize & self.mask()
    }

    /// Where it is otherwise: the partner's partner is the bucket itself. They are never the same, since the lowest bit
    /// differs.
    fn partner(&self, bucket: usize, fingerprint: u16) -> usize {
        let mixed = u64::from(fingerprint).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
        (bucket ^ (mixed as usize | 1)) & self.mask()
    }

    /// Into a free slot of this bucket, if there is one.
    fn put(&mut self, bucket: usize, fingerprint: u16) -> bool {
        let slots = &mut self.buckets[bucket];
        let Some(free) = slot_of(*slots, 0) else { return false };
        *slots |= u64::from(fingerprint) << (16 * free);
        true
    }

    /// Out of this slot.
    fn take(&mut self, bucket: usize, slot: usize) -> u16 {
        let fingerprint = fingerprint_in(self.buckets[bucket], slot);
        self.buckets[bucket] &= !(0xFFFF << (16 * slot));
        fingerprint
    }

    /// Moves fingerprints on to their other buckets until one of two full buckets has a free slot, and says which. The
    /// nearest free slot is searched for first, breadth first, so that nothing is moved in vain, and no bucket is twice
    /// on the way: from where it came first it would have been nearer.
    fn make_room<const SEARCHED: usize>(&mut self, bucket: usize, partner: usize) -> Option<usize> {
        let mut steps = [Step { bucket: 0, before: 0, slot: 0 }; SEARCHED];
        steps[0].bucket = bucket;
        steps[1].bucket = partner;
        let mut found = 2;
        for at in 0..SEARCHED {
            let full = steps[at].bucket;
            for slot in 0..SLOTS {
                let to = self.partner(full, fingerprint_in(self.buckets[full], slot));
                if slot_of(self.buckets[to], 0).is_some() {
                    return Some(self.shift(&steps, at, slot, to));
                }
                if let Some(step) = steps.get_mut(found) {
                    *step = Step { bucket: to, before: at as u16, slot: slot as u8 };
                    found += 1;
                }
            }
        }
        None
    }

    /// Moves everything on the way to a free slot by one, the last first, and says which bucket has room then.
    fn shift(&mut self, steps: &[Step], mut at: usize, mut slot: usize, mut to: usize) -> usize {
        loop {
            let from = steps[at].bucket;
            let fingerprint = self.take(from, slot);
            let is_put = self.put(to, fingerprint);
            debug_assert!(is_put && self.partner(from, fingerprint) == to, "the way does not lead there");
            // The first two are where the way began.
            if at < 2 {
                return from;
            }
            to = from;
            slot = usize::from(steps[at].slot);
            at = usize::from(steps[at].before);
        }
    }
}

/// A bucket on the way to room: which step of the way leads to it, from which slot there.
#[derive(Clone, Copy)]
struct Step {
    bucket: usize,
    before: u16,
    slot: u8,
}

/// How many buckets so many keys need.
fn buckets_for(keys: usize) -> usize {
    let slots = keys.saturating_mul(100).div_ceil(MAX_LOAD);
    slots.div_ceil(SLOTS).next_power_of_two().max(min_buckets())
}

#[cfg(not(test))]
fn min_buckets() -> usize {
    MIN_BUCKETS
}

#[cfg(test)]
thread_local! {
    /// What is the smallest filter on this thread: a history of a few hundred rules has to see one grow.
    pub(super) static SMALLEST: std::cell::Cell<usize> = const { std::cell::Cell::new(MIN_BUCKETS) };
}

#[cfg(test)]
fn min_buckets() -> usize {
    SMALLEST.get()
}

/// The high bits of a hash; 0 is an empty slot.
fn fingerprint(hash: u64) -> u16 {
    ((hash >> 48) as u16).max(1)
}

fn fingerprint_in(slots: u64, slot: usize) -> u16 {
    (slots >> (16 * slot)) as u16
}

/// The first slot with this fingerprint, all four compared at once: the lowest of those that are equal is where the
/// first borrow comes from.
#[inline]
fn slot_of(slots: u64, fingerprint: u16) -> Option<usize> {
    let differences = slots ^ (u64::from(fingerprint) * EACH);
    let equal = differences.wrapping_sub(EACH) & !differences & HIGHEST;
    (equal != 0).then(|| equal.trailing_zeros() as usize / 16)
}

impl fmt::Debug for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Filter").field("len", &self.len).field("bytes", &self.bytes()).finish_non_exhaustive()
    }
}

impl fmt::Display for Full {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the filter is full")
    }
}

impl std::error::Error for Full {}
