//! A part of the keys.

use std::sync::atomic::{AtomicU64, Ordering};

use super::clicks::Clicked;
use super::log::Log;
use super::slots::Slots;
use crate::worker::entry::View;

/// A line of the processor's cache each.
#[derive(Debug)]
#[repr(align(64))]
pub(super) struct Shard {
    pub(super) slots: Slots,
    /// Which runs of tags have clicks, a bit each.
    pub(super) clicked: AtomicU64,
    /// No slot ends before.
    pub(super) ends_at: u64,
}

impl Default for Shard {
    fn default() -> Self {
        Self { slots: Slots::default(), clicked: AtomicU64::new(0), ends_at: u64::MAX }
    }
}

/// A 64th of all tags is a run.
const RUN_BITS: u32 = u32::BITS - 6;

/// The run that a tag is in, as a bit.
pub(super) fn run_of(tag: u32) -> u64 {
    1 << (tag >> RUN_BITS)
}

/// Notes that a run has a click. Whoever finds the note finds the click.
pub(super) fn note_clicked(clicked: &AtomicU64, run: u64) {
    clicked.fetch_or(run, Ordering::Release);
}

impl Shard {
    /// Where a key is, and what is there; or where it would be.
    #[inline]
    pub(super) fn find<'a>(
        &self,
        log: &'a Log,
        tag: u32,
        host: u32,
        path: &str,
    ) -> Result<(usize, View<'a>), usize> {
        let first = self.slots.first(tag);
        let found = self.slots.up_to(first, tag).find_map(|at| {
            let view = log.view(self.slots.at(at).location);
            (view.path() == path && view.host() == host).then_some((at, view))
        });
        found.ok_or(first)
    }

    /// Clicks of its slots, until there are `max` in all.
    pub(super) fn take_clicks(&self, log: &Log, max: usize, taken: &mut Vec<Clicked>) {
        if self.clicked.load(Ordering::Relaxed) == 0 {
            return;
        }
        // Whatever is clicked from now on is noted anew.
        let mut runs = self.clicked.swap(0, Ordering::Acquire);
        while runs != 0 {
            let first = runs.trailing_zeros() << RUN_BITS;
            let last = first | ((1 << RUN_BITS) - 1);
            for at in self.slots.up_to(self.slots.first(first), last) {
                if taken.len() >= max {
                    return note_clicked(&self.clicked, runs);
                }
                let slot = self.slots.at(at);
                taken.extend(Clicked::of(slot, log.text(slot.location)));
            }
            runs &= runs - 1;
        }
    }
}
