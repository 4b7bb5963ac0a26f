//! What can be asked of a partition.

use std::collections::HashSet;

use super::Partition;
use super::member::Member;
use super::page::Page;
use crate::clock::Timestamp;
use crate::hot::edit::{EditRef, HotPage, Stats};
use crate::hot::options::{HOUR_MS, SPIKE_MS};
use crate::hot::position::{News, Position};

impl Partition {
    /// Pages there are, of which some may be over.
    pub(in crate::hot) fn tracked(&self) -> u64 {
        self.pages.len() as u64
    }

    /// How many pages are hot, and activities; nothing, if the windows of more than `most`
    /// pages may have changed. Looks after none.
    pub(in crate::hot) fn count(&mut self, now_ms: u64, most: usize) -> Option<(u64, u64)> {
        let now_ms = self.advance(now_ms);
        let (window_ms, ahead_ms) = (self.bounds.window_ms, self.ahead_ms(now_ms));
        let is_over = |page: &Page| page.last_ms() + window_ms <= now_ms || page.last_ms() > ahead_ms;
        let (mut seen, mut over) = (0, 0);
        for page in self.pages.due(now_ms, ahead_ms + window_ms + 1) {
            if seen == most {
                return None;
            }
            seen += 1;
            over += u64::from(is_over(page));
        }
        Some((self.tracked() - over, self.activities()))
    }

    pub(in crate::hot) fn activities(&self) -> u64 {
        self.activities.len() as u64
    }

    /// The `limit` hottest pages. What is known of a rank is never too low, since counts
    /// fall by the passing of time alone: it goes down from the highest and makes each
    /// exact that it meets. Nothing, if that were more than `most` pages, and how many
    /// are not hot any more.
    pub(in crate::hot) fn list(
        &mut self,
        now_ms: u64,
        after: Option<&HotPage>,
        limit: usize,
        most: usize,
    ) -> (Option<Vec<HotPage>>, u64) {
        let now_ms = self.advance(now_ms);
        self.pages.refresh(self.bounds.window_ms);
        let mut last = after.map(|after| (after.rank(), after.page.as_str().into(), 0));
        let (mut hottest, mut expired, mut settled) = (Vec::new(), 0, 0);
        while hottest.len() < limit
            && let Some(next) = self.pages.hottest(last.as_ref()).cloned()
            && let Some(page) = self.pages.get(next.2)
        {
            if self.is_due(now_ms, page) {
                if settled == most {
                    return (None, expired);
                }
                settled += 1;
                expired += u64::from(self.settle_due(now_ms, next.2));
                continue;
            }
            let last_seen = Timestamp::from_millis(page.last_ms());
            hottest.push(HotPage { page: page.name.to_string(), edits: page.count(), last_seen });
            last = Some(next);
        }
        (Some(hottest), expired)
    }

    /// Whether a page is hot. Changes nothing.
    pub(in crate::hot) fn is_hot(&self, clock_ms: u64, name: &str) -> bool {
        let now_ms = match self.stamp_ms > self.ahead_ms(clock_ms) {
            true => clock_ms,
            false => self.stamp_ms.max(clock_ms),
        };
        let last_ms = self.hot(name).and_then(|at| self.pages.get(at)).map(Page::last_ms);
        last_ms.is_some_and(|it| it + self.bounds.window_ms > now_ms && it <= self.ahead_ms(now_ms))
    }

    pub(in crate::hot) fn stats(&mut self, now_ms: u64, name: &str) -> (Stats, u64) {
        let now_ms = self.advance(now_ms);
        let Some(at) = self.hot(name) else { return (Stats::default(), 0) };
        if self.settle_page(now_ms, at) {
            return (Stats::default(), 1);
        }
        self.judge(now_ms, at);
        let Some(page) = self.pages.get(at) else { return (Stats::default(), 0) };
        let editors = page.members().iter().map(Member::editor).filter(|editor| !editor.is_empty());
        let editors: HashSet<&str> = editors.collect();
        let stats = Stats {
            is_hot: true,
            is_trending: page.is_trending,
            is_spiking: page.is_spiking,
            edits_last_hour: page.since((now_ms + 1).saturating_sub(HOUR_MS)),
            edits_last_5_minutes: page.since((now_ms + 1).saturating_sub(SPIKE_MS)),
            covered_ms: page.covered_ms(now_ms, self.bounds.window_ms).min(HOUR_MS),
            unique_editors: editors.len() as u64,
            last_byte_change: page.last_byte_change(),
            total_edits: page.total,
            first_seen: Timestamp::from_millis(page.first_ms),
            last_seen: Timestamp::from_millis(page.last_ms()),
        };
        let mut effects = super::Effects::default();
        self.keep_within_bytes(&mut effects);
        (stats, effects.expired)
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
        let asked =
            |member: &&Member| (from_ms..=to_ms).contains(&member.at_ms) && member.at_ms + window_ms > now_ms;
        let reference = |member: &Member| EditRef {
            id: member.id().to_owned(),
            at: Timestamp::from_millis(member.at_ms),
            editor: member.editor().to_owned(),
            byte_change: member.byte_change,
        };
        page.members().iter().filter(asked).map(reference).collect()
    }

    /// What happened after a position, or the latest position.
    pub(in crate::hot) fn events(&self, clock_ms: u64, after: Option<Position>, limit: usize) -> News {
        self.events.after(clock_ms, after, limit)
    }
}
