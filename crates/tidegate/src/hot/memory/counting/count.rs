//! What becomes of counts.

use super::{At, Counted, Counting, Effects, Place, Remembered, hot_bytes};
use crate::hot::edit::{EventKind, Rank, Recorded};
use crate::hot::memory::SETTLED_BY_EDIT;

impl Counting {
    /// Counts `count` more of a page.
    #[inline]
    pub(in crate::hot) fn count(&mut self, now_ms: u64, name: &str, count: u64) -> (Recorded, Effects) {
        let now_ms = self.advance(now_ms);
        let mut effects = Effects::default();
        let hash = self.hash(name.as_bytes());
        let recorded = match self.find(hash, name) {
            Some(At::Hot(at)) if !self.settle_page(now_ms, at) => self.add(now_ms, at, count),
            found => self.count_cold(now_ms, hash, name, count, found, &mut effects),
        };
        self.keep_within_bytes(&mut effects);
        effects.events = self.events.count();
        (recorded, effects)
    }

    /// Adds to a hot page.
    #[inline]
    fn add(&mut self, now_ms: u64, at: u32, count: u64) -> Recorded {
        let grid = self.grid;
        if let Some(page) = self.pages.get_mut(at) {
            let (before, is_before) = (page.heap(), now_ms < page.last_ms());
            if page.add(now_ms, count, grid) {
                self.bytes = self.bytes - before + page.heap();
            }
            if is_before {
                // Its slot may be the first now.
                self.pages.index(at, grid);
            } else {
                self.pages.changed(at, grid);
            }
        }
        self.judge(now_ms, at);
        Recorded::Counted
    }

    #[cold]
    fn count_cold(
        &mut self,
        now_ms: u64,
        hash: u32,
        name: &str,
        count: u64,
        found: Option<At>,
        effects: &mut Effects,
    ) -> Recorded {
        effects.activity += 1;
        let at = match found {
            Some(At::Activity(at)) if !self.is_over(at, now_ms) => {
                self.remember(now_ms, at, count);
                at
            }
            Some(At::Activity(at)) => {
                self.forget_activity(at);
                self.begin(now_ms, hash, name, count)
            }
            Some(At::Hot(_)) => {
                // Its window was empty, and it has left.
                effects.expired += 1;
                self.begin(now_ms, hash, name, count)
            }
            None => self.begin(now_ms, hash, name, count),
        };
        let is_enough = self.activities.get(at).page.total() >= self.bounds.hot_threshold;
        if is_enough { self.promote(now_ms, hash, at, effects) } else { Recorded::Remembered }
    }

    /// Begins to remember a page; where it is.
    fn begin(&mut self, now_ms: u64, hash: u32, name: &str, count: u64) -> u32 {
        let activity = Remembered::new(Counted::new(name, now_ms, count));
        self.bytes += activity.bytes();
        let at = match self.activities.oldest() {
            // In its place: most of the time there is no other room.
            Some(oldest) if self.activities.len() as u64 >= self.bounds.max_activity => {
                let name = self.activities.get(oldest).page.name();
                self.leave(Place::new(self.hash(name), At::Activity(oldest)));
                self.bytes -= self.activities.replace(oldest, activity).bytes();
                oldest
            }
            _ => self.activities.push(activity),
        };
        self.enter(Place::new(hash, At::Activity(at)));
        at
    }

    /// Counts more of a page that is not hot.
    fn remember(&mut self, now_ms: u64, at: u32, count: u64) {
        let (grid, activity) = (self.grid, self.activities.get_mut(at));
        self.bytes -= activity.bytes();
        let page = &mut activity.page;
        if page.due_ms(grid) + grid.window_ms <= now_ms {
            page.drop_over(now_ms, grid);
        }
        page.add(now_ms, count, grid);
        self.bytes += activity.bytes();
    }

    /// Makes a page hot, if there is room for it.
    fn promote(&mut self, now_ms: u64, hash: u32, at: u32, effects: &mut Effects) -> Recorded {
        let bounds = self.bounds;
        let page = &self.activities.get(at).page;
        let (edits, last_ms) = (page.sum(), page.last_ms());
        if self.pages.len() as u64 >= bounds.max_tracked {
            effects.expired += self.settle(now_ms, SETTLED_BY_EDIT) as u64;
        }
        let mut replaced = None;
        if self.pages.len() as u64 >= bounds.max_tracked {
            if !bounds.replaces || self.coldest_rank().is_none_or(|it| it >= Rank::new(edits, last_ms)) {
                effects.rejected += 1;
                return Recorded::Rejected;
            }
            replaced = self.drop_coldest(now_ms);
        }
        let Some(page) = self.forget_activity(at) else { return Recorded::Remembered };
        let name = page.name_text().into();
        self.bytes += hot_bytes(&page);
        let at = self.pages.insert(page, self.grid);
        self.enter(Place::new(hash, At::Hot(at)));
        effects.promoted += 1;
        self.events.tell(self.clock_ms, now_ms, EventKind::Promoted, name, edits);
        self.judge(now_ms, at);
        Recorded::Promoted { replaced }
    }
}
