//! What is right about hot pages, as plainly as possible: every edit is kept, and
//! every question answered by going through all of them.

mod counting;
mod counts;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use crate::clock::Timestamp;
use crate::hot::{Edit, EditRef, EventKind, HotOptions, HotPage, Recorded, Removed, Stats, WhenFull};

#[derive(Debug, Clone)]
struct Kept {
    at: u64,
    id: String,
    editor: String,
    byte_change: i64,
}

#[derive(Debug, Clone)]
struct Page {
    kept: Vec<Kept>,
    total: u64,
    first: u64,
    last: (u64, String, i64),
    is_trending: bool,
    is_spiking: bool,
    /// The latest edit that counts and is not kept.
    cut: u64,
    /// Once an edit is not kept any more: when each edit was made, whether it is kept or not, and that it is one. Until
    /// what is not kept has left the window. In a space that only counts: when was counted, and how many.
    counted: Option<Vec<(u64, u64)>>,
}

#[derive(Debug, Clone)]
struct Activity {
    began: u64,
    number: u64,
    kept: Vec<Kept>,
    /// In a space that only counts: when, and how many.
    counts: Vec<(u64, u64)>,
    /// How many in all.
    total: u64,
}

/// The model of a space with one partition.
#[derive(Debug)]
pub struct HotModel {
    options: HotOptions,
    hot: BTreeMap<String, Page>,
    activity: BTreeMap<String, Activity>,
    latest: u64,
    number: u64,
    /// Whether counts wait for a flush, and those that do.
    gathers: bool,
    gathered: Vec<(String, u64)>,
    /// What happened, in order: kind, page, edits, when.
    pub events: Vec<(EventKind, String, u64, u64)>,
}

const MINUTE: u64 = 60_000;

impl HotModel {
    /// A model of a space with these options.
    pub fn new(options: HotOptions) -> Self {
        Self {
            options,
            hot: BTreeMap::new(),
            activity: BTreeMap::new(),
            latest: 0,
            number: 0,
            gathers: false,
            gathered: Vec::new(),
            events: Vec::new(),
        }
    }

    /// The same, where counts are gathered if the options say so.
    pub fn gathering(self, gathers: bool) -> Self {
        let gathers = gathers && !self.options.gather.is_zero();
        Self { gathers, ..self }
    }

    fn window(&self) -> u64 {
        self.options.window_duration.as_millis() as u64
    }

    fn now(&mut self, clock: u64) -> u64 {
        self.latest = match self.latest > clock + self.window().max(MINUTE) {
            true => clock,
            false => self.latest.max(clock),
        };
        self.latest
    }

    /// What is dated later was dated by a clock that was wrong.
    fn ahead(&self, now: u64) -> u64 {
        now + self.window().max(MINUTE)
    }

    fn tell(&mut self, kind: EventKind, page: &str, edits: u64, now: u64) {
        self.events.push((kind, page.to_owned(), edits, now));
    }

    /// The pages whose first edit has left its window, or is absurdly far ahead.
    fn due(&self, now: u64) -> Vec<String> {
        let mut due: Vec<(u64, String)> = self
            .hot
            .iter()
            .filter_map(|(name, page)| Some((self.first_due(page)?, name.clone())))
            .filter(|(oldest, _)| oldest + self.window() <= now || *oldest > self.ahead(now))
            .collect();
        due.sort();
        due.into_iter().map(|(_, name)| name).collect()
    }

    /// The first edit that counts, or the end of its slot.
    fn first_due(&self, page: &Page) -> Option<u64> {
        let counted = page.counted.iter().flatten().map(|it| Self::slot_end(it.0, self.grain()));
        page.kept.iter().map(|it| it.at).chain(counted).chain([page.last.0]).min()
    }

    fn settle(&mut self, name: &str, now: u64) -> bool {
        let (window, ahead, grain) = (self.window(), self.ahead(now), self.grain());
        let Some(page) = self.hot.get_mut(name) else { return false };
        let sizes = |page: &Page| (page.kept.len(), page.counted.as_ref().map(Vec::len));
        let before = sizes(page);
        let is_ahead = page.last.0 > ahead;
        page.kept.retain(|it| it.at + window > now && !is_ahead);
        if page.last.0 + window <= now || is_ahead {
            self.end(name, EventKind::Cooled, 0, now);
            return true;
        }
        if Self::slot_end(page.cut, grain) + window <= now {
            page.counted = None;
        }
        page.counted.iter_mut().for_each(|it| it.retain(|(at, _)| Self::slot_end(*at, grain) + window > now));
        if sizes(page) != before {
            self.judge(name, now);
        }
        false
    }

    /// Drops a page; what was, ends with it.
    fn end(&mut self, name: &str, kind: EventKind, edits: u64, now: u64) {
        let page = self.hot.remove(name).expect("it is hot");
        if page.is_trending {
            self.tell(EventKind::TrendingEnded, name, edits, now);
        }
        if page.is_spiking {
            self.tell(EventKind::SpikingEnded, name, edits, now);
        }
        self.tell(kind, name, edits, now);
    }

    fn covered(&self, page: &Page, now: u64) -> u64 {
        now.saturating_sub(page.first).min(self.window())
    }

    /// Whether a page is trending and spiking.
    fn judged(&self, page: &Page, now: u64) -> (bool, bool) {
        let (edits, covered, recent) =
            (self.edits(page, now), self.covered(page, now), self.lately(page, now));
        let ratio = self.options.spike_ratio / if page.is_spiking { 2.0 } else { 1.0 };
        let is_spiking = covered > 5 * MINUTE && recent >= u64::from(self.options.spike_minimum) && {
            let base = (edits - recent) as f64 / (covered - 5 * MINUTE) as f64;
            recent as f64 / (5 * MINUTE) as f64 >= ratio * base
        };
        (edits >= u64::from(self.options.promotion_threshold), is_spiking)
    }

    fn judge(&mut self, name: &str, now: u64) {
        let Some(page) = self.hot.get(name) else { return };
        let edits = self.edits(page, now);
        let (is_trending, is_spiking) = self.judged(page, now);
        let (was_trending, was_spiking) = (page.is_trending, page.is_spiking);
        if let Some(page) = self.hot.get_mut(name) {
            (page.is_trending, page.is_spiking) = (is_trending, is_spiking);
        }
        if is_trending != was_trending {
            let kind = if is_trending { EventKind::Trending } else { EventKind::TrendingEnded };
            self.tell(kind, name, edits, now);
        }
        if is_spiking != was_spiking {
            let kind = if is_spiking { EventKind::Spiking } else { EventKind::SpikingEnded };
            self.tell(kind, name, edits, now);
        }
    }

    fn is_over(&self, activity: &Activity, now: u64) -> bool {
        activity.began + 10 * MINUTE <= now || activity.began > self.ahead(now)
    }

    /// Edits, then the latest; of many edits a double has not all of the latter.
    fn rank(edits: u64, last: u64) -> u64 {
        (edits as f64 * 2_f64.powi(41) + last as f64).to_bits()
    }

    /// Pages from the coldest to the hottest.
    fn ranked(&self, now: u64) -> Vec<(u64, String, u64)> {
        let one = |(name, page): (&String, &Page)| {
            let edits = self.edits(page, now);
            (Self::rank(edits, page.last.0), name.clone(), edits)
        };
        let mut ranked: Vec<_> = self.hot.iter().map(one).collect();
        ranked.sort();
        ranked
    }

    /// Records an edit.
    pub fn record(&mut self, clock: u64, edit: &Edit<'_>) -> Recorded {
        self.record_many(clock, &[*edit]).remove(0)
    }

    /// Records many: page by page, in the order of their first edits, and those of a page by time, then id. What is
    /// added to a page is judged when all of it is, and until then no id is forgotten.
    pub fn record_many(&mut self, clock: u64, edits: &[Edit<'_>]) -> Vec<Recorded> {
        let key = |edit: &Edit<'_>| {
            let at = edit.at.map_or(u64::MAX, Timestamp::as_millis);
            (at, edit.page.as_str().to_owned(), edit.id.to_owned(), edit.editor.to_owned(), edit.byte_change)
        };
        let mut order: Vec<usize> = (0..edits.len()).collect();
        order.sort_by_key(|number| (key(&edits[*number]), *number));
        let mut recorded = BTreeMap::new();
        while let Some(first) = order.first() {
            let page = edits[*first].page;
            let its: Vec<_> = order.iter().copied().filter(|it| edits[*it].page == page).collect();
            let (mut is_added, mut known, mut members) = (false, BTreeSet::new(), None);
            for number in &its {
                let (edit, now) = (&edits[*number], self.now(clock));
                let is_late = edit.at.is_some_and(|at| at.as_millis() + self.window() <= now);
                if !is_late && its.len() > 1 {
                    self.settle(page.as_str(), now);
                    let kept = |page: &Page| page.kept.iter().map(|it| it.id.clone()).collect::<Vec<_>>();
                    members = members.or(self.hot.get(page.as_str()).map(kept));
                    if members.iter().flatten().any(|id| id == edit.id) || !known.insert(edit.id) {
                        recorded.insert(*number, Recorded::Duplicate);
                        continue;
                    }
                }
                let one = self.record_one(clock, edit);
                is_added |= matches!(one, Recorded::Added | Recorded::Counted);
                recorded.insert(*number, one);
            }
            if is_added {
                let now = self.now(clock);
                self.judge(page.as_str(), now);
            }
            order.retain(|it| !its.contains(it));
        }
        recorded.into_values().collect()
    }

    /// Records an edit, after which its page is to be judged.
    fn record_one(&mut self, clock: u64, edit: &Edit<'_>) -> Recorded {
        let now = self.now(clock);
        let at = edit.at.map_or(now, Timestamp::as_millis).min(now);
        if at + self.window() <= now {
            return Recorded::TooLate;
        }
        let name = edit.page.as_str();
        let kept = Kept {
            at,
            id: edit.id.to_owned(),
            editor: edit.editor.to_owned(),
            byte_change: edit.byte_change,
        };
        self.settle(name, now);
        if self.hot.contains_key(name) {
            return self.add(name, kept);
        }
        self.begin(name, now);
        let threshold = self.options.hot_threshold as usize;
        let activity = self.activity.get_mut(name).expect("just made");
        if activity.kept.iter().any(|it| it.id == kept.id) {
            return Recorded::Duplicate;
        }
        activity.kept.push(kept);
        if activity.kept.len() > threshold {
            activity.kept.remove(0);
        }
        if activity.kept.len() < threshold {
            return Recorded::Remembered;
        }
        self.promote(name, now)
    }

    /// A page that is not hot is remembered from now on, unless it is already.
    fn begin(&mut self, name: &str, now: u64) {
        if self.activity.get(name).is_some_and(|it| self.is_over(it, now)) {
            self.activity.remove(name);
        }
        if self.activity.contains_key(name) {
            return;
        }
        if self.activity.len() >= self.options.max_activity {
            let oldest = self.activity.iter().min_by_key(|(_, it)| it.number);
            let oldest = oldest.map(|(name, _)| name.clone()).expect("there are some");
            self.activity.remove(&oldest);
        }
        self.number += 1;
        let fresh =
            Activity { began: now, number: self.number, kept: Vec::new(), counts: Vec::new(), total: 0 };
        self.activity.insert(name.to_owned(), fresh);
    }

    fn add(&mut self, name: &str, kept: Kept) -> Recorded {
        let most = self.options.max_members_per_page;
        let page = self.hot.get_mut(name).expect("it is hot");
        if page.kept.iter().any(|it| it.id == kept.id) {
            return Recorded::Duplicate;
        }
        let place = (kept.at, kept.id.clone());
        let oldest = page.kept.iter().map(|it| (it.at, it.id.clone())).min().expect("it has edits");
        page.total += 1;
        page.first = page.first.min(kept.at);
        let is_full = page.kept.len() >= most;
        if is_full && page.counted.is_none() {
            page.counted = Some(page.kept.iter().map(|it| (it.at, 1)).collect());
        }
        if let Some(counted) = &mut page.counted {
            counted.push((kept.at, 1));
            if place < oldest {
                page.cut = page.cut.max(kept.at);
                return Recorded::Counted;
            }
        }
        if is_full {
            page.kept.retain(|it| (it.at, it.id.clone()) != oldest);
            page.cut = page.cut.max(oldest.0);
        }
        if place >= (page.last.0, page.last.1.clone()) {
            page.last = (kept.at, kept.id.clone(), kept.byte_change);
        }
        page.kept.push(kept);
        Recorded::Added
    }

    fn promote(&mut self, name: &str, now: u64) -> Recorded {
        let mut kept = self.activity[name].kept.clone();
        kept.retain(|it| it.at + self.window() > now && it.at <= self.ahead(now));
        let Some(last) = kept.iter().max_by_key(|it| (it.at, it.id.clone())).cloned() else {
            return Recorded::Remembered;
        };
        let Ok(replaced) = self.make_room(kept.len() as u64, last.at, now) else { return Recorded::Rejected };
        self.activity.remove(name);
        let page = Page {
            total: kept.len() as u64,
            first: kept.iter().map(|it| it.at).min().unwrap_or(now),
            last: (last.at, last.id, last.byte_change),
            is_trending: false,
            is_spiking: false,
            cut: 0,
            counted: None,
            kept,
        };
        let edits = page.total;
        self.hot.insert(name.to_owned(), page);
        self.tell(EventKind::Promoted, name, edits, now);
        self.judge(name, now);
        Recorded::Promoted { replaced }
    }

    /// Makes room for a page with so many edits: the page that left for it, if one had to.
    fn make_room(&mut self, edits: u64, last: u64, now: u64) -> Result<Option<String>, ()> {
        if self.hot.len() >= self.options.max_tracked {
            for due in self.due(now).into_iter().take(64) {
                self.settle(&due, now);
            }
        }
        if self.hot.len() < self.options.max_tracked {
            return Ok(None);
        }
        let (rank, coldest, its_edits) = self.ranked(now).remove(0);
        if self.options.when_full == WhenFull::Refuse || Self::rank(edits, last) <= rank {
            return Err(());
        }
        self.end(&coldest, EventKind::Replaced, its_edits, now);
        Ok(Some(coldest))
    }

    /// Forgets a page; what it was.
    pub fn remove(&mut self, clock: u64, name: &str) -> Removed {
        let now = self.now(clock);
        self.settle(name, now);
        if let Some(page) = self.hot.get(name) {
            let edits = self.edits(page, now);
            self.end(name, EventKind::Removed, edits, now);
            return Removed::Hot;
        }
        match self.activity.remove(name) {
            Some(activity) if !self.is_over(&activity, now) => Removed::Remembered,
            _ => Removed::Unknown,
        }
    }

    /// Drops what is over; how many pages that were.
    pub fn cleanup(&mut self, clock: u64) -> u64 {
        let now = self.now(clock);
        // In the order it began, up to the first that is not over.
        let mut began: Vec<_> = self.activity.iter().map(|(name, it)| (it.number, name.clone())).collect();
        began.sort();
        for (_, name) in began {
            if !self.is_over(&self.activity[&name], now) {
                break;
            }
            self.activity.remove(&name);
        }
        let due = self.due(now);
        due.into_iter().filter(|name| self.settle(name, now)).count() as u64
    }

    /// The page as a reader sees it, who changes nothing: without what has left its window.
    fn seen(&self, name: &str, now: u64) -> Option<Page> {
        let mut page = self.hot.get(name)?.clone();
        page.kept.retain(|it| it.at + self.window() > now);
        (page.last.0 + self.window() > now && page.last.0 <= self.ahead(now)).then_some(page)
    }

    /// The hottest pages.
    pub fn list(&mut self, clock: u64, limit: usize) -> Vec<HotPage> {
        if limit == 0 {
            return Vec::new();
        }
        let now = self.now(clock);
        let seen = |name: &String| Some((name.clone(), self.seen(name, now)?));
        let mut pages: Vec<_> = self.hot.keys().filter_map(seen).collect();
        let rank = |page: &Page| Self::rank(self.edits(page, now), page.last.0);
        pages.sort_by_key(|(name, page)| Reverse((rank(page), name.clone())));
        let listed = |(page, it): (String, Page)| HotPage {
            page,
            edits: self.edits(&it, now),
            last_seen: Timestamp::from_millis(it.last.0),
        };
        pages.into_iter().take(limit).map(listed).collect()
    }

    /// How many pages are hot, of which it looks after none.
    pub fn tracked(&mut self, clock: u64) -> u64 {
        let now = self.now(clock);
        let due = self.due(now);
        let last = |name: &String| self.hot[name].last.0;
        let is_over = |name: &&String| last(name) + self.window() <= now || last(name) > self.ahead(now);
        (self.hot.len() - due.iter().filter(is_over).count()) as u64
    }

    /// Whether a page is hot, which changes nothing.
    pub fn is_hot(&self, clock: u64, name: &str) -> bool {
        let now = if self.latest > self.ahead(clock) { clock } else { self.latest.max(clock) };
        let last = self.hot.get(name).map(|page| page.last.0);
        last.is_some_and(|last| last <= self.ahead(now) && last + self.window() > now)
    }

    /// What is known of a page.
    pub fn stats(&mut self, clock: u64, name: &str) -> Stats {
        let now = self.now(clock);
        let Some(page) = self.seen(name, now) else { return Stats::default() };
        let (is_trending, is_spiking) = self.judged(&page, now);
        let editors: BTreeSet<_> =
            page.kept.iter().map(|it| &it.editor).filter(|it| !it.is_empty()).collect();
        Stats {
            is_hot: true,
            is_trending,
            is_spiking,
            edits_last_hour: self.within(&page, now, 60 * MINUTE),
            edits_last_5_minutes: self.lately(&page, now),
            covered_ms: self.covered(&page, now).min(60 * MINUTE),
            grain_ms: if self.counted(&page, now).is_some() { self.grain() } else { 0 },
            unique_editors: editors.len() as u64,
            members: page.kept.len() as u64,
            last_byte_change: page.last.2,
            total_edits: page.total,
            first_seen: Timestamp::from_millis(page.first),
            last_seen: Timestamp::from_millis(page.last.0),
        }
    }

    /// The edits of a page between two moments.
    pub fn window_of(&mut self, clock: u64, name: &str, from: u64, to: u64) -> Vec<EditRef> {
        let now = self.now(clock);
        let (window, to) = (self.window(), to.min(self.ahead(now)));
        let mut kept = self.hot.get(name).map(|page| page.kept.clone()).unwrap_or_default();
        kept.retain(|it| from <= it.at && it.at <= to && it.at + window > now);
        kept.sort_by_key(|it| (it.at, it.id.clone()));
        kept.into_iter()
            .map(|it| EditRef {
                id: it.id,
                at: Timestamp::from_millis(it.at),
                editor: it.editor,
                byte_change: it.byte_change,
            })
            .collect()
    }
}
