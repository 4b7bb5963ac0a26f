//! How many edits a page has had that edits have left for want of room, on a grid of time.
//!
//! A slot counts until the last edit that could be in it leaves the window: so edits count late, by less than a
//! grain, and never early.

use std::collections::VecDeque;

use super::ALLOCATION;
use crate::hot::options::{LATELY_GRAIN_MS, SPIKE_MS};

/// Edits of a stretch of time: which, and how many.
type Slot = (u64, u64);

/// No moments.
const NONE: (u64, u64) = (u64::MAX, 0);

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

    /// Edits in slots that end at `from_ms` or later, with `more` in the last one.
    fn since(&self, from_ms: u64, more: u64) -> u64 {
        let first = self.first(from_ms);
        let more = if first < self.slots.len() { more } else { 0 };
        self.slots.range(first..).map(|(_, count)| count).sum::<u64>() + more
    }

    /// The moments of the last slot.
    fn last(&self) -> (u64, u64) {
        let moments = |(number, _): &Slot| (number * self.grain_ms, (number + 1) * self.grain_ms - 1);
        self.slots.back().map_or(NONE, moments)
    }

    fn drop_before(&mut self, from_ms: u64) -> u64 {
        let first = self.first(from_ms);
        self.slots.drain(..first).map(|(_, count)| count).sum()
    }
}

#[derive(Debug)]
struct Slots {
    window: Grid,
    lately: Grid,
}

impl Slots {
    /// Edits of a moment; the latest of all is of `last_ms`.
    fn add(&mut self, at_ms: u64, last_ms: u64) {
        self.window.add(at_ms);
        let from_ms = (last_ms + 1).saturating_sub(SPIKE_MS);
        self.lately.drop_before(from_ms);
        if self.lately.end_ms(at_ms) >= from_ms {
            self.lately.add(at_ms);
        }
    }

    fn bytes(&self) -> usize {
        let slots = self.window.slots.capacity() + self.lately.slots.capacity();
        size_of::<Self>() + slots * size_of::<Slot>() + 3 * ALLOCATION
    }
}

/// Most edits are of the slots that the one before was of, and then the slots are not looked at: they are elsewhere in memory,
/// and to fetch them would take as long as all the rest.
#[derive(Debug)]
pub(super) struct Ring {
    slots: Box<Slots>,
    /// Edits in all slots.
    sum: u64,
    /// Of the moments of both last slots, from the first to the last: so many edits are not in them yet.
    last: (u64, u64),
    not_added: u64,
    bytes: usize,
}

impl Ring {
    /// Of edits in order.
    pub(super) fn new(grain_ms: u64, times: impl Iterator<Item = u64>) -> Self {
        let slots = Slots { window: Grid::new(grain_ms), lately: Grid::new(LATELY_GRAIN_MS) };
        let mut ring = Self { slots: Box::new(slots), sum: 0, last: NONE, not_added: 0, bytes: 0 };
        times.for_each(|at_ms| ring.add(at_ms, at_ms));
        ring
    }

    /// Counts an edit; the latest of all is of `last_ms`.
    #[inline]
    pub(super) fn add(&mut self, at_ms: u64, last_ms: u64) {
        self.sum += 1;
        match self.last.0 <= at_ms && at_ms <= self.last.1 {
            true => self.not_added += 1,
            false => self.change(|slots| slots.add(at_ms, last_ms)),
        }
    }

    /// Changes the slots, once all that was counted is in them.
    #[cold]
    fn change<T>(&mut self, change: impl FnOnce(&mut Slots) -> T) -> T {
        let more = std::mem::take(&mut self.not_added);
        for grid in [&mut self.slots.window, &mut self.slots.lately] {
            if let Some((_, count)) = grid.slots.back_mut() {
                *count += more;
            }
        }
        let changed = change(&mut self.slots);
        let (window, lately) = (self.slots.window.last(), self.slots.lately.last());
        self.last = (window.0.max(lately.0), window.1.min(lately.1));
        self.bytes = self.slots.bytes();
        changed
    }

    pub(super) fn grain_ms(&self) -> u64 {
        self.slots.window.grain_ms
    }

    /// The last moment of the slot of a moment.
    pub(super) fn end_ms(&self, at_ms: u64) -> u64 {
        self.slots.window.end_ms(at_ms)
    }

    /// When the first slot ends.
    pub(super) fn first_end_ms(&self) -> u64 {
        let window = &self.slots.window;
        window.slots.front().map_or(u64::MAX, |(number, _)| (number + 1) * window.grain_ms - 1)
    }

    /// Edits in all slots.
    #[inline]
    pub(super) fn sum(&self) -> u64 {
        self.sum
    }

    /// Edits from then on.
    pub(super) fn since(&self, from_ms: u64) -> u64 {
        self.slots.window.since(from_ms, self.not_added)
    }

    /// The same, of the last five minutes at most.
    pub(super) fn lately_since(&self, from_ms: u64) -> u64 {
        self.slots.lately.since(from_ms, self.not_added)
    }

    /// Drops what has ended before `from_ms`.
    pub(super) fn drop_before(&mut self, from_ms: u64) {
        self.sum -= self.change(|slots| slots.window.drop_before(from_ms));
    }

    /// What it has elsewhere.
    #[inline]
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }
}
