//! What can be asked of a partition that only counts.

use super::{Counted, Counting};
use crate::clock::{Timestamp, absurd_ms, deciding};
use crate::hot::edit::{EditRef, HotPage, Stats};
use crate::hot::memory::hottest::hottest;
use crate::hot::options::HOUR_MS;
use crate::hot::position::{News, Position};

impl Counting {
    /// How many pages are hot, and activities. Looks after none.
    pub(in crate::hot) fn hot_and_remembered(&mut self, now_ms: u64) -> (u64, u64) {
        let now_ms = self.advance(now_ms);
        let due = self.pages.due(now_ms, self.due_ahead_ms(now_ms));
        let over = due.filter(|page| !self.is_within(now_ms, page)).count();
        ((self.pages.len() - over) as u64, self.activities.len() as u64)
    }

    /// Whether a page has a count in its window, and none absurdly far ahead.
    fn is_within(&self, now_ms: u64, page: &Counted) -> bool {
        page.last_ms() + self.bounds.window_ms > now_ms && page.last_ms() <= self.ahead_ms(now_ms)
    }

    /// The `limit` hottest pages, of those behind `after`. Looks after none.
    pub(in crate::hot) fn list(
        &mut self,
        now_ms: u64,
        after: Option<&HotPage>,
        limit: usize,
    ) -> Vec<HotPage> {
        let now_ms = self.advance(now_ms);
        self.pages.refresh(self.grid);
        let from = after.map(HotPage::rank);
        // What is ranked higher and has lost counts since may be behind by now.
        let ahead_ms = self.due_ahead_ms(now_ms);
        let higher = from
            .into_iter()
            .flat_map(|from| self.pages.due(now_ms, ahead_ms).filter(move |page| page.indexed_rank > from));
        let ranked = self.pages.hottest_first(from).map(|(rank, page)| (Some(rank), page));
        let all = higher.map(|page| (None, page)).chain(ranked);
        hottest(all, after, limit, Counted::name_text, |page| {
            self.is_within(now_ms, page).then(|| (page.edits(now_ms, self.grid), page.last_ms()))
        })
    }

    /// Whether a page is hot. Changes nothing.
    pub(in crate::hot) fn is_hot(&self, clock_ms: u64, name: &str) -> bool {
        let (now_ms, _) = deciding(clock_ms, self.stamp_ms, absurd_ms(self.bounds.window_ms));
        self.hot(name).is_some_and(|page| self.is_within(now_ms, page))
    }

    /// What is known of a page. Changes nothing of it.
    pub(in crate::hot) fn stats(&mut self, now_ms: u64, name: &str) -> Stats {
        let now_ms = self.advance(now_ms);
        let page = self.hot(name).filter(|page| self.is_within(now_ms, page));
        let Some(page) = page else { return Stats::default() };
        let grid = self.grid;
        let edits = page.edits(now_ms, grid);
        Stats {
            is_hot: true,
            is_trending: edits >= self.bounds.promotion_threshold,
            is_spiking: page.spikes(&self.bounds, now_ms, grid, edits),
            edits_last_hour: page.edits_of_last(HOUR_MS, now_ms, grid),
            edits_last_5_minutes: page.edits_lately(now_ms, grid, edits),
            covered_ms: page.covered_ms(now_ms, grid).min(HOUR_MS),
            grain_ms: grid.grain_ms(),
            total_edits: page.total(),
            first_seen: Timestamp::from_millis(page.first_ms()),
            last_seen: Timestamp::from_millis(page.last_ms()),
            ..Stats::default()
        }
    }

    /// No edit is kept. It stamps, as every question does.
    pub(in crate::hot) fn window(&mut self, now_ms: u64, _: &str, _: u64, _: u64) -> Vec<EditRef> {
        self.advance(now_ms);
        Vec::new()
    }

    /// What happened after a position, or the latest position.
    pub(in crate::hot) fn events(&self, clock_ms: u64, after: Option<Position>, limit: usize) -> News {
        self.events.after(clock_ms, after, limit)
    }
}
