//! What leaves: slots of windows, pages without any, the coldest, activity that is over.

use super::Counting;
use crate::hot::edit::{EventKind, Rank};
use crate::hot::memory::place::spread;
use crate::hot::memory::{Cleaned, Effects};

impl Counting {
    /// Drops what has left the window of a page; whether it was the last of it.
    #[inline]
    pub(super) fn settle_page(&mut self, now_ms: u64, at: u32) -> bool {
        // It is indexed by when it is due at the latest, so most need no look at their slots.
        let ahead_ms = self.ahead_ms(now_ms);
        let is_due = |page: &super::Counted| page.indexed_due.get() <= now_ms || page.last_ms() > ahead_ms;
        self.pages.get(at).is_some_and(is_due) && self.settle_due(now_ms, at)
    }

    #[cold]
    fn settle_due(&mut self, now_ms: u64, at: u32) -> bool {
        let (grid, ahead_ms) = (self.grid, self.ahead_ms(now_ms));
        let Some(page) = self.pages.get_mut(at) else { return false };
        if page.last_ms() > ahead_ms || page.last_ms() + grid.window_ms <= now_ms {
            if let Some(page) = self.drop_page(at) {
                self.tell_end(now_ms, &page, EventKind::Cooled, 0);
            }
            return true;
        }
        let is_due = page.due_ms(grid) + grid.window_ms <= now_ms;
        if is_due {
            let before = page.heap();
            page.drop_over(now_ms, grid);
            self.bytes = self.bytes - before + page.heap();
        }
        self.pages.index(at, grid);
        if is_due {
            self.judge(now_ms, at);
        }
        false
    }

    /// Looks after up to `limit` pages whose window has changed; how many are not hot any more.
    pub(super) fn settle(&mut self, now_ms: u64, limit: usize) -> usize {
        let (mut expired, mut left) = (0, limit);
        while left > 0 {
            let (ahead_ms, grid) = (self.due_ahead_ms(now_ms), self.grid);
            let due = self.pages.next_due(now_ms, ahead_ms, grid);
            if due.is_empty() {
                break;
            }
            for at in due.into_iter().take(left) {
                expired += usize::from(self.settle_due(now_ms, at));
                left -= 1;
            }
        }
        expired
    }

    /// When a page is due that is absurdly far ahead.
    pub(super) fn due_ahead_ms(&self, now_ms: u64) -> u64 {
        self.ahead_ms(now_ms) + self.bounds.window_ms + 1
    }

    pub(super) fn coldest_rank(&mut self) -> Option<Rank> {
        self.pages.refresh(self.grid);
        self.pages.coldest().map(|(rank, _)| rank)
    }

    /// Drops the coldest page for want of room; its name.
    pub(super) fn drop_coldest(&mut self, now_ms: u64) -> Option<String> {
        self.pages.refresh(self.grid);
        let (_, at) = self.pages.coldest()?;
        let page = self.drop_page(at)?;
        self.tell_end(now_ms, &page, EventKind::Replaced, page.sum());
        Some(page.name_text().to_owned())
    }

    /// At the bound on bytes: forgets activity first, then the coldest pages.
    #[inline]
    pub(super) fn keep_within_bytes(&mut self, effects: &mut Effects) {
        while self.bytes() > self.bounds.max_bytes {
            match self.activities.oldest() {
                Some(oldest) => drop(self.forget_activity(oldest)),
                None if self.drop_coldest(self.stamp_ms).is_some() => effects.expired += 1,
                None => return,
            }
        }
    }

    /// Looks after up to `limit` pages, and forgets as much activity that is over.
    pub(in crate::hot) fn cleanup(&mut self, now_ms: u64, limit: usize) -> Cleaned {
        let now_ms = self.advance(now_ms);
        let mut effects = Effects { expired: self.settle(now_ms, limit) as u64, ..Effects::default() };
        for _ in 0..limit {
            let Some(oldest) = self.next_over(now_ms) else { break };
            self.forget_activity(oldest);
        }
        self.keep_within_bytes(&mut effects);
        if self.table.capacity() > 8 * self.table.len() + 1024 {
            self.table.shrink_to(2 * self.table.len(), |it| spread(it.hash));
        }
        effects.events = self.events.count();
        let (ahead_ms, grid) = (self.due_ahead_ms(now_ms), self.grid);
        Cleaned {
            effects,
            is_more: self.pages.is_due(now_ms, ahead_ms, grid),
            is_more_activity: self.next_over(now_ms).is_some(),
            tracked: self.pages.len() as u64,
            activities: self.activities.len() as u64,
        }
    }

    /// The activity that began first, if it is over.
    fn next_over(&self, now_ms: u64) -> Option<u32> {
        self.activities.oldest().filter(|at| self.is_over(*at, now_ms))
    }
}
