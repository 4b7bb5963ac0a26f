//! Where an entry is, with what is noted of it while others read.

use std::sync::atomic::{AtomicU32, Ordering};

use super::log::Location;

#[derive(Debug, Default)]
pub(super) struct Slot {
    /// Of its key's hash, what is not in the shard's number.
    pub(super) tag: u32,
    pub(super) location: Location,
    pub(super) marks: Marks,
}

/// What is noted by who has a shared reference. In four bytes, since there is one for each rule.
#[derive(Debug, Default)]
pub(super) struct Marks(AtomicU32);

impl Marks {
    /// It was asked for since its turn to leave last came.
    const VISITED: u32 = 1;
    /// It has a time at which it ends.
    const ENDS: u32 = 2;
    /// It was seen among all rules when they were last read.
    const SEEN: u32 = 4;
    const CLICK: u32 = 8;
    /// Half of what there is room for, so that as many can come too late as there are threads.
    pub(super) const MAX_CLICKS: u32 = 1 << 28;

    /// Not visited: of those who have just come most are never asked for again, so who was asked for goes before them.
    pub(super) fn new(ends: bool, is_seen: bool) -> Self {
        let mut marks = Self::default();
        marks.set(Self::ENDS, ends);
        marks.set(Self::SEEN, is_seen);
        marks
    }

    #[inline]
    pub(super) fn touch(&self) {
        // Most were touched already: then nobody else's copy of the line is spoilt.
        if self.0.load(Ordering::Relaxed) & Self::VISITED == 0 {
            self.0.fetch_or(Self::VISITED, Ordering::Relaxed);
        }
    }

    /// Counts one. Whether it is the first since they were taken.
    #[inline]
    pub(super) fn click(&self) -> bool {
        let before = self.0.fetch_add(Self::CLICK, Ordering::Relaxed);
        if before >= Self::MAX_CLICKS * Self::CLICK {
            self.0.fetch_sub(Self::CLICK, Ordering::Relaxed);
        }
        before < Self::CLICK
    }

    /// Clicks since this was last asked.
    pub(super) fn take_clicks(&self) -> u64 {
        u64::from(self.0.fetch_and(Self::CLICK - 1, Ordering::Relaxed) / Self::CLICK)
    }

    #[cfg(test)]
    pub(super) fn set_clicks(&mut self, clicks: u32) {
        *self.0.get_mut() = *self.0.get_mut() % Self::CLICK + clicks * Self::CLICK;
    }

    pub(super) fn ends(&self) -> bool {
        self.0.load(Ordering::Relaxed) & Self::ENDS != 0
    }

    pub(super) fn set_ends(&mut self, ends: bool) {
        self.set(Self::ENDS, ends);
    }

    #[inline]
    pub(super) fn is_seen(&self) -> bool {
        self.0.load(Ordering::Relaxed) & Self::SEEN != 0
    }

    pub(super) fn set_seen(&mut self, is_seen: bool) {
        self.set(Self::SEEN, is_seen);
    }

    /// The same by who has a shared reference: one at a time.
    pub(super) fn note_seen(&self, is_seen: bool) {
        if self.is_seen() != is_seen {
            self.0.fetch_xor(Self::SEEN, Ordering::Relaxed);
        }
    }

    fn set(&mut self, mark: u32, is_set: bool) {
        let marks = self.0.get_mut();
        *marks = *marks & !mark | if is_set { mark } else { 0 };
    }

    /// Whether it was visited, which it is not from now on.
    pub(super) fn was_visited(&mut self) -> bool {
        let marks = self.0.get_mut();
        let was_visited = *marks & Self::VISITED != 0;
        *marks &= !Self::VISITED;
        was_visited
    }
}
