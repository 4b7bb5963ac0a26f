//! What is due, found without looking at what is not.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::clock::Timestamp;

/// Slots by the time at which they are due, 8 bytes each. Finding the `k` that
/// are due takes `O(k log n)`; nothing is ever scanned. On Redis the same is a
/// sorted set, see `index_*` in `prelude.lua`.
///
/// It is lazy: a slot whose time has changed meanwhile is put in again when it
/// comes up, so that using an entry costs nothing here.
///
/// ```
/// use tidegate::clock::Timestamp;
/// use tidegate::store::TimeIndex;
/// let mut index = TimeIndex::default();
/// index.insert(Timestamp::from_millis(20), 7);
/// index.insert(Timestamp::from_millis(10), 8);
/// assert_eq!(index.pop_due(Timestamp::from_millis(15)), Some((Timestamp::from_millis(10), 8)));
/// assert_eq!(index.pop_due(Timestamp::from_millis(15)), None);
/// assert_eq!(index.len(), 1);
/// ```
#[derive(Debug, Clone, Default)]
pub struct TimeIndex(BinaryHeap<Reverse<u64>>);

/// Bits of a slot in the index; the time has the others, until the year 2109.
const SLOT_BITS: u32 = 22;

impl TimeIndex {
    /// Slots are below this.
    pub const MAX_SLOTS: u32 = 1 << SLOT_BITS;

    /// Adds `slot`, due at `at`.
    pub fn insert(&mut self, at: Timestamp, slot: u32) {
        debug_assert!(slot < Self::MAX_SLOTS);
        if self.0.len() == self.0.capacity() {
            // An eighth more: doubling would cost 8 bytes a slot.
            self.0.reserve_exact(self.0.len() / 8 + 8);
        }
        let at = at.as_millis().min(u64::MAX >> SLOT_BITS);
        self.0.push(Reverse(at << SLOT_BITS | u64::from(slot)));
    }

    /// Removes and returns the first slot that is due at `now`.
    pub fn pop_due(&mut self, now: Timestamp) -> Option<(Timestamp, u32)> {
        if self.next_due()? > now {
            return None;
        }
        self.pop()
    }

    /// Removes and returns the first slot.
    pub(super) fn pop(&mut self) -> Option<(Timestamp, u32)> {
        let Reverse(packed) = self.0.pop()?;
        Some((Timestamp::from_millis(packed >> SLOT_BITS), packed as u32 & (Self::MAX_SLOTS - 1)))
    }

    /// The first slot.
    pub(super) fn first(&self) -> Option<u32> {
        self.0.peek().map(|Reverse(packed)| *packed as u32 & (Self::MAX_SLOTS - 1))
    }

    /// When the first slot is due.
    pub fn next_due(&self) -> Option<Timestamp> {
        self.0.peek().map(|Reverse(packed)| Timestamp::from_millis(packed >> SLOT_BITS))
    }

    /// How many slots there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
