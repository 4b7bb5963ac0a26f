//! Hot pages in this process. The rules are those of `hot.lua`, step by step; the
//! differential test holds the two together.

use std::collections::{BTreeSet, HashSet, VecDeque};

use compact_str::CompactString;
use hashbrown::HashMap;

use super::edit::{Edit, EditRef, Event, EventKind, HotPage, Recorded, Stats};
use super::options::{ACTIVITY_MS, Bounds, HOUR_MS, SPIKE_MS, absurd_ms};
use crate::clock::Timestamp;

/// Pages whose window is looked after at most by an edit that finds no room.
pub(super) const SETTLED_BY_EDIT: usize = 64;

/// Events that are kept.
pub(super) const MAX_EVENTS: usize = 1000;

/// One partition of a space. Everything in it happens under one lock.
#[derive(Debug)]
pub(super) struct Partition {
    bounds: Bounds,
    pages: HashMap<CompactString, Entry, foldhash::fast::RandomState>,
    /// Activity in the order it began; what has ended since is still in it.
    queue: VecDeque<(u64, CompactString)>,
    activities: u64,
    /// Hot pages by when their oldest edit leaves the window.
    due: BTreeSet<(u64, CompactString)>,
    /// Hot pages, the coldest first.
    rank: BTreeSet<(u64, CompactString)>,
    sequence: u64,
    /// The latest moment that anything was done at.
    stamp_ms: u64,
    bytes: usize,
    events: VecDeque<Event>,
    event_number: u64,
}

#[derive(Debug)]
enum Entry {
    Activity(Activity),
    Hot(Box<Page>),
}

#[derive(Debug)]
struct Activity {
    number: u64,
    first_ms: u64,
    edits: Vec<Member>,
}

#[derive(Debug)]
struct Page {
    /// By time, then id.
    members: VecDeque<Member>,
    total: u64,
    first_ms: u64,
    last_ms: u64,
    last_byte_change: i64,
    /// The id of the edit it is from: of two at once the greater.
    last_id: CompactString,
    is_trending: bool,
    is_spiking: bool,
    /// Edits have left for want of room, up to this moment.
    cut_ms: u64,
}

#[derive(Debug, Clone)]
struct Member {
    at_ms: u64,
    id: CompactString,
    editor: CompactString,
    byte_change: i64,
}

impl Member {
    fn bytes(&self) -> usize {
        size_of::<Self>() + self.texts()
    }

    /// What its texts have outside of it.
    fn texts(&self) -> usize {
        heap(&self.id) + heap(&self.editor)
    }

    fn key(&self) -> (u64, &str) {
        (self.at_ms, &self.id)
    }
}

/// What an allocation costs beside what was asked for.
const ALLOCATION: usize = 16;

/// What a string has outside of itself.
fn heap(text: &CompactString) -> usize {
    if text.is_heap_allocated() { text.capacity() + ALLOCATION } else { 0 }
}

/// An entry with its names in the map, the queue and the indices, which are half empty
/// at times.
fn entry_bytes(page: &CompactString) -> usize {
    2 * size_of::<(CompactString, Entry)>()
        + 4 * size_of::<(u64, CompactString)>()
        + 3 * heap(page)
        + ALLOCATION
}

/// An entry that is not hot, without its edits.
fn activity_bytes(page: &CompactString) -> usize {
    entry_bytes(page) + ALLOCATION
}

/// An event with its texts.
fn event_bytes(event: &Event) -> usize {
    size_of::<Event>() + event.cursor.capacity() + event.page.capacity() + 2 * ALLOCATION
}

/// What an edit did, beside what its sender is told.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Effects {
    pub(super) activity: u64,
    pub(super) promoted: u64,
    pub(super) rejected: u64,
    pub(super) expired: u64,
}

impl Page {
    /// Where it stands: edits first, then the latest one.
    fn rank(&self) -> u64 {
        (self.members.len() as u64) << 41 | self.last_ms.min((1 << 41) - 1)
    }

    fn since(&self, from_ms: u64) -> u64 {
        (self.members.len() - self.members.partition_point(|member| member.at_ms < from_ms)) as u64
    }

    /// All of it: goes through the members.
    fn bytes(&self) -> usize {
        self.own_bytes() + self.members.iter().map(Member::texts).sum::<usize>()
    }

    /// Without the texts of its members.
    fn own_bytes(&self) -> usize {
        size_of::<Self>() + self.members.capacity() * size_of::<Member>() + heap(&self.last_id) + ALLOCATION
    }
}

/// Whether edits come faster than they used to: `is_spiking` is what was.
pub(super) fn spikes(bounds: &Bounds, lately: u64, count: u64, covered_ms: u64, is_spiking: bool) -> bool {
    if covered_ms <= SPIKE_MS {
        return false;
    }
    let ratio = if is_spiking { bounds.spike_ratio / 2.0 } else { bounds.spike_ratio };
    let rate = lately as f64 / SPIKE_MS as f64;
    let base = (count - lately) as f64 / (covered_ms - SPIKE_MS) as f64;
    lately >= bounds.spike_minimum && rate >= ratio * base
}

impl Partition {
    pub(super) fn new(bounds: Bounds) -> Self {
        Self {
            bounds,
            pages: HashMap::default(),
            queue: VecDeque::new(),
            activities: 0,
            due: BTreeSet::new(),
            rank: BTreeSet::new(),
            sequence: 0,
            stamp_ms: 0,
            bytes: 0,
            events: VecDeque::new(),
            event_number: 0,
        }
    }

    /// The time that decides: the clock's, or the latest that was, if the clock is
    /// behind it and not by an absurd amount.
    fn advance(&mut self, now_ms: u64) -> u64 {
        let is_absurd = self.stamp_ms > now_ms + absurd_ms(self.bounds.window_ms);
        self.stamp_ms = if is_absurd { now_ms } else { self.stamp_ms.max(now_ms) };
        self.stamp_ms
    }

    pub(super) fn record(&mut self, now_ms: u64, edit: &Edit<'_>) -> (Recorded, Effects) {
        let now_ms = self.advance(now_ms);
        let mut effects = Effects::default();
        let at_ms = edit.at.map_or(now_ms, Timestamp::as_millis).min(now_ms);
        if at_ms + self.bounds.window_ms <= now_ms {
            return (Recorded::TooLate, effects);
        }
        let member =
            Member { at_ms, id: edit.id.into(), editor: edit.editor.into(), byte_change: edit.byte_change };
        let name = edit.page.as_str();
        if let Some(Entry::Hot(_)) = self.pages.get(name) {
            // Its window may be empty by now.
            effects.expired += u64::from(self.settle_page(now_ms, name));
        }
        let recorded = match self.pages.get_mut(name) {
            Some(Entry::Hot(_)) => self.add(now_ms, name, member),
            _ => self.remember(now_ms, name, member, &mut effects),
        };
        self.keep_within_bytes(&mut effects);
        (recorded, effects)
    }

    /// Adds to the window of a hot page.
    fn add(&mut self, now_ms: u64, name: &str, member: Member) -> Recorded {
        let Some(Entry::Hot(page)) = self.pages.get_mut(name) else { return Recorded::TooLate };
        if page.members.iter().any(|other| other.id == member.id) {
            return Recorded::Duplicate;
        }
        let is_full = page.members.len() as u64 >= self.bounds.max_members;
        if is_full && page.members.front().is_some_and(|oldest| member.key() < oldest.key()) {
            return Recorded::TooLate;
        }
        let (old_rank, old_due) = (page.rank(), page.members.front().map_or(0, |oldest| oldest.at_ms));
        self.bytes -= page.own_bytes();
        if is_full && let Some(oldest) = page.members.pop_front() {
            page.cut_ms = page.cut_ms.max(oldest.at_ms);
            self.bytes -= oldest.texts();
        }
        page.total += 1;
        page.first_ms = page.first_ms.min(member.at_ms);
        if (member.at_ms, &member.id) >= (page.last_ms, &page.last_id) {
            (page.last_ms, page.last_byte_change) = (member.at_ms, member.byte_change);
            page.last_id = member.id.clone();
        }
        let at = page.members.partition_point(|other| other.key() < member.key());
        self.bytes += member.texts();
        page.members.insert(at, member);
        self.bytes += page.own_bytes();
        let key = CompactString::from(name);
        let due_ms = page.members.front().map_or(0, |oldest| oldest.at_ms);
        self.rank.remove(&(old_rank, key.clone()));
        self.rank.insert((page.rank(), key.clone()));
        if due_ms != old_due {
            self.due.remove(&(old_due + self.bounds.window_ms, key.clone()));
            self.due.insert((due_ms + self.bounds.window_ms, key));
        }
        self.judge(now_ms, name);
        Recorded::Added
    }

    /// Whether a page has become, or is no longer, trending or spiking.
    fn judge(&mut self, now_ms: u64, name: &str) {
        let bounds = self.bounds;
        let Some(Entry::Hot(page)) = self.pages.get_mut(name) else { return };
        let count = page.members.len() as u64;
        let is_trending = count >= bounds.promotion_threshold;
        let lately = page.since((now_ms + 1).saturating_sub(SPIKE_MS));
        let covered_ms = covered_ms(page, now_ms, bounds.window_ms);
        let is_spiking = spikes(&bounds, lately, count, covered_ms, page.is_spiking);
        let news = [
            (is_trending && !page.is_trending).then_some(EventKind::Trending),
            (is_spiking && !page.is_spiking).then_some(EventKind::Spiking),
        ];
        (page.is_trending, page.is_spiking) = (is_trending, is_spiking);
        for kind in news.into_iter().flatten() {
            self.tell(now_ms, kind, name, count);
        }
    }

    /// Remembers an edit of a page that is not hot; at the threshold it becomes so.
    fn remember(&mut self, now_ms: u64, name: &str, member: Member, effects: &mut Effects) -> Recorded {
        if let Some(Entry::Activity(activity)) = self.pages.get(name)
            && self.is_over(activity, now_ms)
        {
            self.forget_activity(name);
        }
        let threshold = self.bounds.hot_threshold;
        let count = match self.pages.get_mut(name) {
            Some(Entry::Activity(activity)) => {
                if activity.edits.iter().any(|other| other.id == member.id) {
                    return Recorded::Duplicate;
                }
                if activity.edits.len() as u64 >= threshold {
                    // No more than what makes it hot.
                    self.bytes -= activity.edits.remove(0).bytes();
                }
                self.bytes += member.bytes();
                activity.edits.reserve_exact(1);
                activity.edits.push(member);
                activity.edits.len() as u64
            }
            _ => {
                if self.activities >= self.bounds.max_activity {
                    self.forget_oldest();
                }
                let key = CompactString::from(name);
                self.sequence += 1;
                self.bytes += activity_bytes(&key) + member.bytes();
                self.queue.push_back((self.sequence, key.clone()));
                let activity = Activity { number: self.sequence, first_ms: now_ms, edits: vec![member] };
                self.pages.insert(key, Entry::Activity(activity));
                self.activities += 1;
                1
            }
        };
        effects.activity += 1;
        if count < threshold { Recorded::Remembered } else { self.promote(now_ms, name, effects) }
    }

    fn promote(&mut self, now_ms: u64, name: &str, effects: &mut Effects) -> Recorded {
        let bounds = self.bounds;
        let Some(Entry::Activity(activity)) = self.pages.get(name) else { return Recorded::Remembered };
        let mut members: Vec<Member> = activity.edits.clone();
        let ahead_ms = self.ahead_ms(now_ms);
        members.retain(|it| it.at_ms + bounds.window_ms > now_ms && it.at_ms <= ahead_ms);
        members.sort_by(|a, b| a.key().cmp(&b.key()));
        let Some(last) = members.last().cloned() else { return Recorded::Remembered };
        let mut page = Page {
            total: members.len() as u64,
            first_ms: members.first().map_or(now_ms, |first| first.at_ms),
            last_ms: last.at_ms,
            last_byte_change: last.byte_change,
            last_id: last.id,
            members: members.into(),
            is_trending: false,
            is_spiking: false,
            cut_ms: 0,
        };
        page.members.shrink_to_fit();
        if self.rank.len() as u64 >= bounds.max_tracked {
            effects.expired += self.settle(now_ms, SETTLED_BY_EDIT) as u64;
        }
        let mut replaced = None;
        if self.rank.len() as u64 >= bounds.max_tracked {
            match self.rank.first().cloned() {
                Some((rank, coldest)) if bounds.replaces && rank < page.rank() => {
                    let edits = rank >> 41;
                    self.drop_page(&coldest);
                    self.tell(now_ms, EventKind::Replaced, &coldest, edits);
                    replaced = Some(coldest.into_string());
                }
                _ => {
                    effects.rejected += 1;
                    return Recorded::Rejected;
                }
            }
        }
        self.forget_activity(name);
        let key = CompactString::from(name);
        self.bytes += entry_bytes(&key) + page.bytes();
        let (count, due_ms) = (page.members.len() as u64, page.members.front().map_or(now_ms, |it| it.at_ms));
        self.rank.insert((page.rank(), key.clone()));
        self.due.insert((due_ms + bounds.window_ms, key.clone()));
        self.pages.insert(key, Entry::Hot(Box::new(page)));
        effects.promoted += 1;
        self.tell(now_ms, EventKind::Promoted, name, count);
        self.judge(now_ms, name);
        Recorded::Promoted { replaced }
    }

    /// Forgets what was remembered of a page that is not hot.
    fn forget_activity(&mut self, name: &str) {
        if let Some((key, Entry::Activity(activity))) = self.pages.remove_entry(name) {
            let edits: usize = activity.edits.iter().map(Member::bytes).sum();
            self.bytes -= activity_bytes(&key) + edits;
            self.activities -= 1;
        }
        // What is left of it in the queue goes with what comes before.
        while let Some((number, name)) = self.queue.front()
            && !matches!(self.pages.get(name), Some(Entry::Activity(it)) if it.number == *number)
        {
            self.queue.pop_front();
        }
        if self.queue.len() as u64 > 2 * self.activities + 1000 {
            let pages = &self.pages;
            self.queue.retain(
                |(number, name)| matches!(pages.get(name), Some(Entry::Activity(it)) if it.number == *number),
            );
        }
    }

    /// Forgets the activity that began first.
    fn forget_oldest(&mut self) -> bool {
        while let Some((number, name)) = self.queue.pop_front() {
            if matches!(self.pages.get(&name), Some(Entry::Activity(it)) if it.number == number) {
                self.forget_activity(&name);
                return true;
            }
        }
        false
    }

    fn drop_page(&mut self, name: &str) {
        if let Some((key, Entry::Hot(page))) = self.pages.remove_entry(name) {
            self.bytes -= entry_bytes(&key) + page.bytes();
            let due_ms = page.members.front().map_or(0, |it| it.at_ms) + self.bounds.window_ms;
            self.rank.remove(&(page.rank(), key.clone()));
            self.due.remove(&(due_ms, key));
        }
    }

    /// Drops what has left the window of a page; whether it was the last of it.
    fn settle_page(&mut self, now_ms: u64, name: &str) -> bool {
        let window_ms = self.bounds.window_ms;
        let Some(Entry::Hot(page)) = self.pages.get_mut(name) else { return false };
        let is_over = |member: &Member| member.at_ms + window_ms <= now_ms;
        let is_ahead = page.last_ms > now_ms + absurd_ms(window_ms);
        if !is_ahead && !page.members.front().is_some_and(is_over) {
            return false;
        }
        if is_ahead || page.members.back().is_some_and(is_over) {
            self.drop_page(name);
            self.tell(now_ms, EventKind::Cooled, name, 0);
            return true;
        }
        let old_rank = page.rank();
        let old_due = page.members.front().map_or(0, |it| it.at_ms) + window_ms;
        self.bytes -= page.own_bytes();
        while let Some(member) = page.members.pop_front_if(|member| is_over(member)) {
            self.bytes -= member.texts();
        }
        if page.members.capacity() > 4 * page.members.len() {
            page.members.shrink_to(2 * page.members.len());
        }
        self.bytes += page.own_bytes();
        let key = CompactString::from(name);
        self.rank.remove(&(old_rank, key.clone()));
        self.rank.insert((page.rank(), key.clone()));
        self.due.remove(&(old_due, key.clone()));
        self.due.insert((page.members.front().map_or(0, |it| it.at_ms) + window_ms, key));
        self.judge(now_ms, name);
        false
    }

    /// Looks after up to `limit` pages whose window has changed; how many are not hot
    /// any more.
    fn settle(&mut self, now_ms: u64, limit: usize) -> usize {
        let mut expired = 0;
        for _ in 0..limit {
            let Some(name) = self.next_due(now_ms).cloned() else { break };
            expired += usize::from(self.settle_page(now_ms, &name));
        }
        expired
    }

    /// A page whose window has changed, or one that is absurdly far ahead.
    fn next_due(&self, now_ms: u64) -> Option<&CompactString> {
        let due = self.due.first().filter(|(due_ms, _)| *due_ms <= now_ms);
        let far_ms = self.ahead_ms(now_ms) + self.bounds.window_ms + 1;
        let far = || self.due.range((far_ms, CompactString::default())..).next();
        due.or_else(far).map(|(_, name)| name)
    }

    /// What is dated later was dated by a clock that was wrong.
    fn ahead_ms(&self, now_ms: u64) -> u64 {
        now_ms + absurd_ms(self.bounds.window_ms)
    }

    /// Whether what is remembered is over.
    fn is_over(&self, activity: &Activity, now_ms: u64) -> bool {
        activity.first_ms + ACTIVITY_MS <= now_ms || activity.first_ms > self.ahead_ms(now_ms)
    }

    /// At the bound on bytes: forgets activity first, then the coldest pages.
    fn keep_within_bytes(&mut self, effects: &mut Effects) {
        while self.bytes > self.bounds.max_bytes {
            if self.forget_oldest() {
                continue;
            }
            let Some((rank, coldest)) = self.rank.first().cloned() else { return };
            self.drop_page(&coldest);
            self.tell(self.stamp_ms, EventKind::Replaced, &coldest, rank >> 41);
            effects.expired += 1;
        }
    }

    fn tell(&mut self, now_ms: u64, kind: EventKind, name: &str, edits: u64) {
        // By the time, so that a process that is started again goes on from there.
        self.event_number = now_ms.max(self.event_number + 1);
        if self.events.len() >= MAX_EVENTS
            && let Some(oldest) = self.events.pop_front()
        {
            self.bytes -= event_bytes(&oldest);
        }
        let cursor = format!("{}-0", self.event_number);
        let at = Timestamp::from_millis(now_ms);
        let event = Event { cursor, kind, page: name.to_owned(), edits, at };
        self.bytes += event_bytes(&event);
        self.events.push_back(event);
    }

    /// Looks after up to `limit` pages, and forgets as much activity that is over: how
    /// many pages are not hot any more, and whether there are more pages and more
    /// activity.
    pub(super) fn cleanup(&mut self, now_ms: u64, limit: usize) -> (u64, bool, bool) {
        let now_ms = self.advance(now_ms);
        let mut effects = Effects { expired: self.settle(now_ms, limit) as u64, ..Effects::default() };
        for _ in 0..limit {
            if !self.is_front_over(now_ms) {
                break;
            }
            let Some((number, name)) = self.queue.pop_front() else { break };
            if matches!(self.pages.get(&name), Some(Entry::Activity(it)) if it.number == number) {
                self.forget_activity(&name);
            }
        }
        self.keep_within_bytes(&mut effects);
        (effects.expired, self.next_due(now_ms).is_some(), self.is_front_over(now_ms))
    }

    /// Whether the first of the queue can go.
    fn is_front_over(&self, now_ms: u64) -> bool {
        self.queue.front().is_some_and(|(number, name)| match self.pages.get(name) {
            Some(Entry::Activity(it)) if it.number == *number => self.is_over(it, now_ms),
            _ => true,
        })
    }

    pub(super) fn count(&self) -> u64 {
        self.rank.len() as u64
    }

    pub(super) fn activities(&self) -> u64 {
        self.activities
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The hottest pages. Whoever calls this has cleaned up.
    pub(super) fn list(&self, limit: usize) -> Vec<HotPage> {
        let page = |(_, name): &(u64, CompactString)| match self.pages.get(name) {
            Some(Entry::Hot(page)) => Some(HotPage {
                page: name.to_string(),
                edits: page.members.len() as u64,
                last_seen: Timestamp::from_millis(page.last_ms),
            }),
            _ => None,
        };
        self.rank.iter().rev().take(limit).filter_map(page).collect()
    }

    pub(super) fn stats(&mut self, now_ms: u64, name: &str) -> (Stats, u64) {
        let now_ms = self.advance(now_ms);
        let expired = u64::from(self.settle_page(now_ms, name));
        self.judge(now_ms, name);
        let Some(Entry::Hot(page)) = self.pages.get(name) else { return (Stats::default(), expired) };
        let editors: HashSet<&str> = page.members.iter().map(|member| &*member.editor).collect();
        let stats = Stats {
            is_hot: true,
            is_trending: page.is_trending,
            is_spiking: page.is_spiking,
            edits_last_hour: page.since((now_ms + 1).saturating_sub(HOUR_MS)),
            edits_last_5_minutes: page.since((now_ms + 1).saturating_sub(SPIKE_MS)),
            covered_ms: covered_ms(page, now_ms, self.bounds.window_ms).min(HOUR_MS),
            unique_editors: editors.len() as u64,
            last_byte_change: page.last_byte_change,
            total_edits: page.total,
            first_seen: Timestamp::from_millis(page.first_ms),
            last_seen: Timestamp::from_millis(page.last_ms),
        };
        let mut effects = Effects { expired, ..Effects::default() };
        self.keep_within_bytes(&mut effects);
        (stats, effects.expired)
    }

    pub(super) fn window(&mut self, now_ms: u64, name: &str, from_ms: u64, to_ms: u64) -> Vec<EditRef> {
        let now_ms = self.advance(now_ms);
        let (window_ms, to_ms) = (self.bounds.window_ms, to_ms.min(self.ahead_ms(now_ms)));
        let Some(Entry::Hot(page)) = self.pages.get(name) else { return Vec::new() };
        let asked =
            |member: &&Member| (from_ms..=to_ms).contains(&member.at_ms) && member.at_ms + window_ms > now_ms;
        let reference = |member: &Member| EditRef {
            id: member.id.to_string(),
            at: Timestamp::from_millis(member.at_ms),
            editor: member.editor.to_string(),
            byte_change: member.byte_change,
        };
        page.members.iter().filter(asked).map(reference).collect()
    }

    /// Events after `cursor`, or none and the latest cursor if it is not given.
    pub(super) fn events(&self, cursor: Option<&str>, limit: usize) -> (Vec<Event>, String) {
        let number = |cursor: &str| cursor.split('-').next().and_then(|text| text.parse::<u64>().ok());
        let Some(after) = cursor else { return (Vec::new(), format!("{}-0", self.event_number)) };
        let after = number(after).unwrap_or(0);
        let news = self.events.iter().filter(|event| number(&event.cursor).is_some_and(|it| it > after));
        let news: Vec<_> = news.take(limit).cloned().collect();
        let last = news.last().map_or(after, |event| number(&event.cursor).unwrap_or(after));
        (news, format!("{last}-0"))
    }
}

/// How far back the window of a page reaches: to its first edit, unless edits have
/// left for want of room.
fn covered_ms(page: &Page, now_ms: u64, window_ms: u64) -> u64 {
    let reach = now_ms.saturating_sub(page.first_ms).min(window_ms);
    let oldest_ms = page.members.front().map_or(now_ms, |it| it.at_ms);
    let is_cut = page.cut_ms > 0 && page.cut_ms + window_ms > now_ms;
    if is_cut { reach.min(now_ms.saturating_sub(oldest_ms)) } else { reach }
}

#[cfg(test)]
mod tests;
