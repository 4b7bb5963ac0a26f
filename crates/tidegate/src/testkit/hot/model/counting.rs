//! Spaces that only count: every count is kept with its moment, and every question answered by going through all of them.

use std::collections::BTreeMap;

use super::{HotModel, Page};
use crate::hot::{Count, EventKind, Recorded};

/// The most that counts of a page at a time.
const MOST: u64 = (1 << 40) - 1;

impl HotModel {
    /// Counts so many of a page, or gathers them.
    pub fn count(&mut self, clock: u64, name: &str, count: u64) -> Recorded {
        if self.gathers {
            self.gathered.push((name.to_owned(), count));
            return Recorded::Gathered;
        }
        self.count_now(clock, name, count)
    }

    /// Counts what was gathered, now.
    pub fn flush(&mut self, clock: u64) {
        let gathered = std::mem::take(&mut self.gathered);
        self.count_summed(clock, gathered.iter().map(|(page, count)| (page.as_str(), *count)));
    }

    fn count_now(&mut self, clock: u64, name: &str, count: u64) -> Recorded {
        let now = self.now(clock);
        self.settle(name, now);
        if let Some(page) = self.hot.get(name) {
            let added = count.min(MOST - self.edits(page, now));
            let page = self.hot.get_mut(name).expect("it is hot");
            page.total += count;
            page.last.0 = page.last.0.max(now);
            page.cut = page.last.0;
            page.counted.get_or_insert_default().push((now, added));
            self.judge(name, now);
            return Recorded::Counted;
        }
        self.begin(name, now);
        let (window, grain) = (self.window(), self.grain());
        let activity = self.activity.get_mut(name).expect("it has begun");
        let is_in = |at: u64| Self::slot_end(at, grain) + window > now;
        let counted: u64 = activity.counts.iter().filter(|it| is_in(it.0)).map(|it| it.1).sum();
        activity.total += count;
        activity.counts.push((now, count.min(MOST - counted)));
        if activity.total < u64::from(self.options.hot_threshold) {
            return Recorded::Remembered;
        }
        self.promote_counts(name, now)
    }

    fn promote_counts(&mut self, name: &str, now: u64) -> Recorded {
        let activity = self.activity[name].clone();
        let (window, grain) = (self.window(), self.grain());
        let mut counts = activity.counts;
        let last = counts.iter().map(|it| it.0).max().unwrap_or(now);
        counts.retain(|(at, _)| Self::slot_end(*at, grain) + window > now);
        let edits = counts.iter().map(|it| it.1).sum();
        let Ok(replaced) = self.make_room(edits, last, now) else { return Recorded::Rejected };
        self.activity.remove(name);
        let page = Page {
            kept: Vec::new(),
            total: activity.total,
            first: activity.began,
            last: (last, String::new(), 0),
            is_trending: false,
            is_spiking: false,
            cut: last,
            counted: Some(counts),
        };
        self.hot.insert(name.to_owned(), page);
        self.tell(EventKind::Promoted, name, edits, now);
        self.judge(name, now);
        Recorded::Promoted { replaced }
    }

    /// Counts many: page by page, in the order of their names, those of a page together.
    pub fn count_many(&mut self, clock: u64, counts: &[Count<'_>]) -> Vec<Recorded> {
        if self.gathers {
            return counts.iter().map(|it| self.count(clock, it.page.as_str(), it.count)).collect();
        }
        let met = self.count_summed(clock, counts.iter().map(|it| (it.page.as_str(), it.count)));
        counts.iter().map(|it| met[it.page.as_str()].clone()).collect()
    }

    fn count_summed<'a>(
        &mut self,
        clock: u64,
        counts: impl Iterator<Item = (&'a str, u64)>,
    ) -> BTreeMap<&'a str, Recorded> {
        let mut sums: BTreeMap<&str, u64> = BTreeMap::new();
        for (page, count) in counts {
            let sum = sums.entry(page).or_default();
            *sum = (*sum + count).min(MOST);
        }
        sums.into_iter().map(|(page, sum)| (page, self.count_now(clock, page, sum))).collect()
    }
}
