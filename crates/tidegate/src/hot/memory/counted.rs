//! A page that is only counted, hot or not.
//!
//! Its counts are on two grids of time: slots of the window, and half minutes of the last five minutes. Those of the
//! newest slot of each are what is left of the sum, so that most counts touch three numbers and nothing else; the
//! others are packed behind the name.

use super::packed::{Bytes, Slot, U40, U48, pack, unpack};
use crate::hot::edit::{MAX_COUNTED, MAX_TOTAL, Rank};
use crate::hot::options::{Bounds, LATELY_GRAIN_MS, SPIKE_MS, ring_exponent};

/// The grid of a window: slots are powers of two of milliseconds.
#[derive(Debug, Clone, Copy)]
pub(super) struct Grid {
    exponent: u64,
    pub(super) window_ms: u64,
}

impl Grid {
    pub(super) fn new(bounds: &Bounds) -> Self {
        Self { exponent: ring_exponent(bounds, bounds.window_ms), window_ms: bounds.window_ms }
    }

    pub(super) fn grain_ms(self) -> u64 {
        1 << self.exponent
    }

    #[inline]
    fn number(self, at_ms: u64) -> u64 {
        at_ms >> self.exponent
    }

    /// The last moment of a slot.
    fn end_ms(self, number: u64) -> u64 {
        ((number + 1) << self.exponent) - 1
    }

    /// The first moment of the window that ends now.
    fn window_start_ms(self, now_ms: u64) -> u64 {
        (now_ms + 1).saturating_sub(self.window_ms)
    }
}

/// Which half minute.
#[inline]
fn half(at_ms: u64) -> u64 {
    at_ms / LATELY_GRAIN_MS
}

fn half_end_ms(number: u64) -> u64 {
    (number + 1) * LATELY_GRAIN_MS - 1
}

/// What a page is beside its counts.
#[derive(Debug, Clone, Copy)]
pub(super) enum Mark {
    Trending = 1,
    Spiking = 2,
    /// Its rank may be behind.
    Stale = 4,
}

#[derive(Debug)]
pub(super) struct Counted {
    /// Where it is in the indices of hot pages; the ranking may be behind.
    pub(super) indexed_rank: Rank,
    pub(super) indexed_due: U48,
    /// When it began, and of its latest count.
    first: U48,
    last: U48,
    /// All counts since it began.
    total: U48,
    /// Of all slots, and of all half minutes.
    sum: U40,
    lately: U40,
    slots_len: u16,
    halves_len: u8,
    name_len: u8,
    marks: u8,
    /// The name, slots, half minutes.
    bytes: Bytes,
}

impl Counted {
    pub(super) fn new(name: &str, now_ms: u64, count: u64) -> Self {
        Self {
            indexed_rank: Rank::default(),
            indexed_due: U48::default(),
            first: U48::new(now_ms),
            last: U48::new(now_ms),
            total: U48::new(count),
            sum: U40::new(count),
            lately: U40::new(count),
            slots_len: 0,
            halves_len: 0,
            name_len: name.len() as u8,
            marks: 0,
            bytes: Bytes::new([name.as_bytes(), &[], &[]]),
        }
    }

    #[inline]
    pub(super) fn name(&self) -> &[u8] {
        &self.bytes.get()[..self.name_len.into()]
    }

    pub(super) fn name_text(&self) -> &str {
        // It was made of a text as a whole.
        std::str::from_utf8(self.name()).unwrap_or_default()
    }

    pub(super) fn first_ms(&self) -> u64 {
        self.first.get()
    }

    #[inline]
    pub(super) fn last_ms(&self) -> u64 {
        self.last.get()
    }

    #[inline]
    pub(super) fn total(&self) -> u64 {
        self.total.get()
    }

    #[inline]
    pub(super) fn is(&self, mark: Mark) -> bool {
        self.marks & mark as u8 != 0
    }

    #[inline]
    pub(super) fn mark(&mut self, mark: Mark, is: bool) {
        self.marks = self.marks & !(mark as u8) | if is { mark as u8 } else { 0 };
    }

    /// Counts of all slots: those in the window, if none has left it since it was looked after; never fewer.
    #[inline]
    pub(super) fn sum(&self) -> u64 {
        self.sum.get()
    }

    pub(super) fn rank(&self) -> Rank {
        Rank::new(self.sum(), self.last_ms())
    }

    /// The slots before the newest, the newest first.
    fn older(&self, grid: Grid) -> impl Iterator<Item = Slot> {
        let start = usize::from(self.name_len);
        unpack(grid.number(self.last_ms()), &self.bytes.get()[start..start + usize::from(self.slots_len)])
    }

    fn older_halves(&self) -> impl Iterator<Item = Slot> {
        let start = usize::from(self.name_len) + usize::from(self.slots_len);
        unpack(half(self.last_ms()), &self.bytes.get()[start..start + usize::from(self.halves_len)])
    }

    /// All slots, the newest first; it may be without a count.
    fn slots(&self, grid: Grid) -> impl Iterator<Item = Slot> {
        let newest = self.sum() - self.older(grid).map(|(_, count)| count).sum::<u64>();
        [(grid.number(self.last_ms()), newest)].into_iter().chain(self.older(grid))
    }

    fn halves(&self) -> impl Iterator<Item = Slot> {
        let newest = self.lately.get() - self.older_halves().map(|(_, count)| count).sum::<u64>();
        [(half(self.last_ms()), newest)].into_iter().chain(self.older_halves())
    }

    /// Has these slots from now on, which are in order, the newest first.
    fn set(&mut self, grid: Grid, slots: &[Slot], halves: &[Slot]) {
        fn packed(newest: u64, all: &[Slot]) -> (Vec<u8>, u64) {
            let older = all.iter().filter(|(number, count)| *number < newest && *count > 0);
            (pack(newest, older.copied()), all.iter().map(|(_, count)| count).sum())
        }
        let (slots, sum) = packed(grid.number(self.last_ms()), slots);
        let (halves, lately) = packed(half(self.last_ms()), halves);
        let bytes = Bytes::new([self.name(), &slots, &halves]);
        (self.slots_len, self.halves_len) = (slots.len() as u16, halves.len() as u8);
        (self.sum, self.lately) = (U40::new(sum), U40::new(lately));
        self.bytes = bytes;
    }

    /// Counts `count` more, as many as may count at a time; whether that began a slot or a half minute.
    #[inline]
    pub(super) fn add(&mut self, now_ms: u64, count: u64, grid: Grid) -> bool {
        self.total = U48::new((self.total() + count).min(MAX_TOTAL));
        let (count, last_ms) = (count.min(MAX_COUNTED - self.sum()), self.last_ms());
        if now_ms >= last_ms && grid.number(now_ms) == grid.number(last_ms) && half(now_ms) == half(last_ms) {
            self.last = U48::new(now_ms);
            self.sum = U40::new(self.sum() + count);
            self.lately = U40::new(self.lately.get() + count);
            return false;
        }
        self.begin_slot(now_ms, count, grid);
        true
    }

    #[cold]
    fn begin_slot(&mut self, now_ms: u64, count: u64, grid: Grid) {
        fn put(slots: &mut Vec<Slot>, number: u64, count: u64) {
            let at = slots.partition_point(|(it, _)| *it > number);
            match slots.get_mut(at) {
                Some((it, counted)) if *it == number => *counted += count,
                _ => slots.insert(at, (number, count)),
            }
        }
        let mut slots: Vec<Slot> = self.slots(grid).collect();
        let mut halves: Vec<Slot> = self.halves().collect();
        self.last = U48::new(self.last_ms().max(now_ms));
        let from_ms = (self.last_ms() + 1).saturating_sub(SPIKE_MS);
        put(&mut slots, grid.number(now_ms), count);
        put(&mut halves, half(now_ms), count);
        halves.retain(|(number, _)| half_end_ms(*number) >= from_ms);
        self.set(grid, &slots, &halves);
    }

    /// Drops slots that have left the window.
    pub(super) fn drop_over(&mut self, now_ms: u64, grid: Grid) {
        let from_ms = grid.window_start_ms(now_ms);
        let slots: Vec<Slot> =
            self.slots(grid).filter(|(number, _)| grid.end_ms(*number) >= from_ms).collect();
        let halves: Vec<Slot> = self.halves().collect();
        self.set(grid, &slots, &halves);
    }

    /// When the first of what counts leaves a window, less that window.
    pub(super) fn due_ms(&self, grid: Grid) -> u64 {
        self.older(grid).last().map_or(self.last_ms(), |(number, _)| grid.end_ms(number).min(self.last_ms()))
    }

    /// Counts in the window.
    pub(super) fn edits(&self, now_ms: u64, grid: Grid) -> u64 {
        self.edits_of_last(grid.window_ms, now_ms, grid)
    }

    /// Counts of the last `ms`, of the window at most.
    pub(super) fn edits_of_last(&self, ms: u64, now_ms: u64, grid: Grid) -> u64 {
        let from_ms = (now_ms + 1).saturating_sub(ms.min(grid.window_ms));
        let within = self.slots(grid).take_while(|(number, _)| grid.end_ms(*number) >= from_ms);
        within.map(|(_, count)| count).sum()
    }

    /// Those of the last five minutes, of `edits` in the window.
    pub(super) fn edits_lately(&self, now_ms: u64, grid: Grid, edits: u64) -> u64 {
        if grid.window_ms <= SPIKE_MS {
            return edits;
        }
        // None has left them in the half minute of the last count, before its last millisecond.
        let until_ms = now_ms.max(self.last_ms());
        if half(until_ms + 1) == half(self.last_ms()) {
            return self.lately.get().min(edits);
        }
        let from_ms = (until_ms + 1).saturating_sub(SPIKE_MS);
        let within = self.halves().take_while(|(number, _)| half_end_ms(*number) >= from_ms);
        within.map(|(_, count)| count).sum::<u64>().min(edits)
    }

    /// How far back the window reaches: to the first count.
    #[inline]
    pub(super) fn covered_ms(&self, now_ms: u64, grid: Grid) -> u64 {
        now_ms.saturating_sub(self.first_ms()).min(grid.window_ms)
    }

    /// Whether counts come faster than they used to, of a page with so many in its window.
    #[inline]
    pub(super) fn spikes(&self, bounds: &Bounds, now_ms: u64, grid: Grid, edits: u64) -> bool {
        let covered_ms = self.covered_ms(now_ms, grid);
        // What is at hand of the last minutes is never too low.
        covered_ms > SPIKE_MS
            && self.lately.get() >= bounds.spike_minimum
            && bounds.is_spike(
                self.is(Mark::Spiking),
                edits,
                self.edits_lately(now_ms, grid, edits),
                covered_ms,
            )
    }

    /// What it has elsewhere.
    #[inline]
    pub(super) fn heap(&self) -> usize {
        self.bytes.heap()
    }
}
