//! How many edits count: those that are kept, or all by a grid.

use super::{HotModel, MINUTE, Page};

impl HotModel {
    /// The grid that edits are counted on: a slot of the window, rounded up to a power of two.
    pub(super) fn grain(&self) -> u64 {
        (0..64)
            .map(|it| 1 << it)
            .find(|it| it * u64::from(self.options.count_slots) >= self.window())
            .expect("one is")
    }

    /// The last moment of the slot that a moment is in: an edit counts as if it were made then.
    pub(super) fn slot_end(at: u64, grain: u64) -> u64 {
        at - at % grain + grain - 1
    }

    /// Edits that count at `now`: of a page that has edits that are not kept, all by the grid.
    pub(super) fn edits(&self, page: &Page, now: u64) -> u64 {
        self.within(page, now, self.window())
    }

    /// The same of the last so many milliseconds.
    pub(super) fn within(&self, page: &Page, now: u64, ms: u64) -> u64 {
        match self.counted(page, now) {
            Some(counted) => {
                let grain = self.grain();
                let is_in = |at: u64| Self::slot_end(at, grain) + ms.min(self.window()) > now;
                counted.iter().filter(|it| is_in(it.0)).map(|it| it.1).sum()
            }
            None => {
                page.kept.iter().filter(|it| it.at + ms > now && it.at + self.window() > now).count() as u64
            }
        }
    }

    /// The same of the last five minutes, by a finer grid.
    pub(super) fn lately(&self, page: &Page, now: u64) -> u64 {
        match self.counted(page, now).filter(|_| self.window() > 5 * MINUTE) {
            Some(counted) => {
                let until = now.max(page.last.0);
                let recent =
                    counted.iter().filter(|it| Self::slot_end(it.0, MINUTE / 2) + 5 * MINUTE > until);
                recent.map(|it| it.1).sum::<u64>().min(self.edits(page, now))
            }
            None => self.within(page, now, 5 * MINUTE),
        }
    }

    /// All edits, if some in the window are not kept, by the slot of the last of them.
    pub(super) fn counted<'a>(&self, page: &'a Page, now: u64) -> Option<&'a Vec<(u64, u64)>> {
        let counts = Self::slot_end(page.cut, self.grain()) + self.window() > now;
        page.counted.as_ref().filter(|_| counts)
    }
}
