//! How many edits a page has had that edits have left for want of room, on a grid of time.
//!
//! A slot counts until the last edit that could be in it leaves the window: so edits count late, by less than a
//! grain, and never early.

use std::collections::VecDeque;

use super::ALLOCATION;
use crate::hot::options::{LATELY_GRAIN_MS, SPIKE_MS};

/// Edits of a stretch of time: which, and how many.
type Slot = (u64, u64);

#[derive(Debug)]
struct Grid {
    grain_ms: u64,
    /// In order; none is without an edit.
    slots: VecDeque<Slot>,
}

impl Grid {
    fn new(grain_ms: u64) -> Self {
        Self { grain_ms, slots: VecDeque::new() }
    }

    /// The last moment of the slot of a moment.
    fn end_ms(&self, at_ms: u64) -> u64 {
        (at_ms / self.grain_ms + 1) * self.grain_ms - 1
    }

    fn add(&mut self, at_ms: u64) {
        let number = at_ms / self.grain_ms;
        // Most are in the last one.
        let at = match self.slots.back() {
            Some((last, _)) if *last > number => self.slots.partition_point(|(it, _)| *it < number),
            Some((last, _)) if *last == number => self.slots.len() - 1,
            _ => self.slots.len(),
        };
        match self.slots.get_mut(at) {
            Some((it, count)) if *it == number => *count += 1,
            _ => self.slots.insert(at, (number, 1)),
        }
    }

    /// The first slot that ends at `from_ms` or later.
    fn first(&self, from_ms: u64) -> usize {
        self.slots.partition_point(|(number, _)| (number + 1) * self.grain_ms - 1 < from_ms)
    }

    /// Edits in slots that end at `from_ms` or later.
    fn since(&self, from_ms: u64) -> u64 {
        self.slots.range(self.first(from_ms)..).map(|(_, count)| count).sum()
    }

    fn drop_before(&mut self, from_ms: u64) -> u64 {
        let first = self.first(from_ms);
        self.slots.drain(..first).map(|(_, count)| count).sum()
    }
}

#[derive(Debug)]
pub(super) struct Ring {
    window: Grid,
    lately: Grid,
    sum: u64,
}

impl Ring {
    /// Of edits in order.
    pub(super) fn new(grain_ms: u64, times: impl Iterator<Item = u64>) -> Self {
        let mut ring = Self { window: Grid::new(grain_ms), lately: Grid::new(LATELY_GRAIN_MS), sum: 0 };
        times.for_each(|at_ms| ring.add(at_ms, at_ms));
        ring
    }

    /// Counts an edit; the latest of all is of `last_ms`.
    pub(super) fn add(&mut self, at_ms: u64, last_ms: u64) {
        self.sum += 1;
        self.window.add(at_ms);
        let from_ms = (last_ms + 1).saturating_sub(SPIKE_MS);
        self.lately.drop_before(from_ms);
        if self.lately.end_ms(at_ms) >= from_ms {
            self.lately.add(at_ms);
        }
    }

    pub(super) fn grain_ms(&self) -> u64 {
        self.window.grain_ms
    }

    /// The last moment of the slot of a moment.
    pub(super) fn end_ms(&self, at_ms: u64) -> u64 {
        self.window.end_ms(at_ms)
    }

    /// When the first slot ends.
    pub(super) fn first_end_ms(&self) -> u64 {
        self.window.slots.front().map_or(u64::MAX, |(number, _)| (number + 1) * self.window.grain_ms - 1)
    }

    /// Edits in all slots.
    #[inline]
    pub(super) fn sum(&self) -> u64 {
        self.sum
    }

    /// Edits from then on.
    pub(super) fn since(&self, from_ms: u64) -> u64 {
        self.window.since(from_ms)
    }

    /// The same, of the last five minutes at most.
    pub(super) fn lately_since(&self, from_ms: u64) -> u64 {
        self.lately.since(from_ms)
    }

    /// Drops what has ended before `from_ms`.
    pub(super) fn drop_before(&mut self, from_ms: u64) {
        self.sum -= self.window.drop_before(from_ms);
    }

    pub(super) fn bytes(&self) -> usize {
        let slots = self.window.slots.capacity() + self.lately.slots.capacity();
        size_of::<Self>() + slots * size_of::<Slot>() + 3 * ALLOCATION
    }
}
