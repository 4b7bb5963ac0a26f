//! What can be asked of a partition.

use std::collections::HashSet;

use super::Partition;
use super::hottest::hottest;
use super::member::Member;
use super::page::Page;
use crate::clock::{Timestamp, absurd_ms, deciding};
use crate::hot::edit::{EditRef, HotPage, Rank, Stats};
use crate::hot::options::HOUR_MS;
use crate::hot::position::{News, Position};

impl Partition {
    /// Pages there are, of which some may be over.
    pub(in crate::hot) fn tracked(&self) -> u64 {
        self.pages.len() as u64
    }

    /// How many pages are hot, and activities. Looks after none.
    pub(in crate::hot) fn hot_and_remembered(&mut self, now_ms: u64) -> (u64, u64) {
        let now_ms = self.advance(now_ms);
        let ahead_ms = self.ahead_ms(now_ms) + self.bounds.window_ms + 1;
        let over = self.pages.due(now_ms, ahead_ms).filter(|page| !self.is_within(now_ms, page)).count();
        (self.tracked() - over as u64, self.activities())
    }

    /// Whether a page has an edit in its window, and none absurdly far ahead.
    fn is_within(&self, now_ms: u64, page: &Page) -> bool {
        page.last_ms() + self.bounds.window_ms > now_ms && page.last_ms() <= self.ahead_ms(now_ms)
    }

    pub(in crate::hot) fn activities(&self) -> u64 {
        self.activities.len() as u64
    }

    /// The `limit` hottest pages, of those behind `after`. What is known of a rank is never too
    /// low, since counts fall by the passing of time alone: it goes down from the highest,
    /// counts anew those whose edits have left the window in part, and ends where none that
    /// follow can be among the hottest. Looks after none.
    pub(in crate::hot) fn list(
        &mut self,
        now_ms: u64,
        after: Option<&HotPage>,
        limit: usize,
    ) -> Vec<HotPage> {
        let now_ms = self.advance(now_ms);
        let window_ms = self.bounds.window_ms;
        self.pages.refresh(window_ms);
        let behind = after.map(|after| (after.rank(), after.page.as_str()));
        let is_behind = |place: (Rank, &str)| behind.is_none_or(|behind| place < behind);
        // What is ranked higher and has lost edits since may be behind by now.
        let ahead_ms = self.ahead_ms(now_ms) + window_ms + 1;
        let higher = after.is_some().then(|| self.pages.due(now_ms, ahead_ms)).into_iter().flatten();
        let higher = higher.filter(|page| !is_behind((page.indexed_rank, &page.name)));
        let higher = higher.map(|page| (None, page));
        let ranked = self.pages.hottest_first(behind).map(|(rank, page)| (Some(rank), page));
        hottest(
            higher.chain(ranked),
            after,
            limit,
            |page| &page.name,
            |page| {
                let edits = || page.edits(now_ms, window_ms, page.over(now_ms, window_ms));
                self.is_within(now_ms, page).then(|| (edits(), page.last_ms()))
            },
        )
    }

    /// Whether a page is hot. Changes nothing.
    pub(in crate::hot) fn is_hot(&self, clock_ms: u64, name: &str) -> bool {
        let (now_ms, _) = deciding(clock_ms, self.stamp_ms, absurd_ms(self.bounds.window_ms));
        let last_ms = self.hot(name).and_then(|at| self.pages.get(at)).map(Page::last_ms);
        last_ms.is_some_and(|it| it + self.bounds.window_ms > now_ms && it <= self.ahead_ms(now_ms))
    }

    /// What is known of a page. Changes nothing of it.
    pub(in crate::hot) fn stats(&mut self, now_ms: u64, name: &str) -> Stats {
        let now_ms = self.advance(now_ms);
        let page = self.hot(name).and_then(|at| self.pages.get(at));
        let Some(page) = page.filter(|page| self.is_within(now_ms, page)) else { return Stats::default() };
        let window_ms = self.bounds.window_ms;
        let over = page.over(now_ms, window_ms);
        let editors: HashSet<&str> = page
            .members()
            .iter()
            .skip(over)
            .map(Member::editor)
            .filter(|editor| !editor.is_empty())
            .collect();
        Stats {
            is_hot: true,
            is_trending: page.edits(now_ms, window_ms, over) >= self.bounds.promotion_threshold,
            is_spiking: page.spikes(&self.bounds, now_ms, over),
            edits_last_hour: page.edits_of_last(HOUR_MS, now_ms, window_ms),
            edits_last_5_minutes: page.edits_lately(now_ms, window_ms),
            covered_ms: page.covered_ms(now_ms, window_ms).min(HOUR_MS),
            grain_ms: page.grain_ms(now_ms, window_ms),
            unique_editors: editors.len() as u64,
            members: (page.members().len() - over) as u64,
            last_byte_change: page.last_byte_change(),
            total_edits: page.total,
            first_seen: Timestamp::from_millis(page.first_ms),
            last_seen: Timestamp::from_millis(page.last_ms()),
        }
    }

    pub(in crate::hot) fn window(
        &mut self,
        now_ms: u64,
        name: &str,
        from_ms: u64,
        to_ms: u64,
    ) -> Vec<EditRef> {
        let now_ms = self.advance(now_ms);
        let (window_ms, to_ms) = (self.bounds.window_ms, to_ms.min(self.ahead_ms(now_ms)));
        let Some(page) = self.hot(name).and_then(|at| self.pages.get(at)) else { return Vec::new() };
        let is_in_range =
            |member: &&Member| (from_ms..=to_ms).contains(&member.at_ms) && member.at_ms + window_ms > now_ms;
        let reference = |member: &Member| EditRef {
            id: member.id().to_owned(),
            at: Timestamp::from_millis(member.at_ms),
            editor: member.editor().to_owned(),
            byte_change: member.byte_change,
        };
        page.members().iter().filter(is_in_range).map(reference).collect()
    }

    /// What happened after a position, or the latest position.
    pub(in crate::hot) fn events(&self, clock_ms: u64, after: Option<Position>, limit: usize) -> News {
        self.events.after(clock_ms, after, limit)
    }
}
