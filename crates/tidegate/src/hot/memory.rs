//! Hot pages in this process. The rules are those of `hot.lua`, step by step; the
//! differential test holds the two together.
//!
//! One look-up finds a page, hot or not. What is not hot lies without gaps in the order
//! it began; what is hot has a window of its own and two indices that edits need not
//! touch.

mod activities;
mod activity;
mod counted;
mod counted_pages;
mod counting;
mod events;
mod hottest;
mod member;
mod packed;
mod page;
mod pages;
mod place;
mod questions;
mod record;
mod ring;
#[cfg(test)]
mod tests;
mod texts;

use std::hash::{BuildHasher as _, Hasher as _};
use std::sync::Arc;

use hashbrown::HashTable;

use self::activities::Activities;
use self::activity::Activity;
pub(super) use self::counting::Counting;
use self::events::Events;
use self::member::Made;
use self::page::Page;
use self::pages::{PLACES, Pages};
use self::place::{At, PLACE, Place, spread};
use super::edit::{EventCounts, EventKind, Rank, Recorded, Removed};
use super::options::{ACTIVITY_MS, Bounds, ring_exponent};
use crate::clock::{absurd_ms, deciding};

/// Pages whose window is looked after at most by an edit that finds no room.
const SETTLED_BY_EDIT: usize = 64;

/// Events that are kept.
const MAX_EVENTS: usize = 1000;

/// What begins and how it ends.
const TRENDING: [EventKind; 2] = [EventKind::Trending, EventKind::TrendingEnded];
const SPIKING: [EventKind; 2] = [EventKind::Spiking, EventKind::SpikingEnded];

/// What an allocation costs beside what was asked for.
const ALLOCATION: usize = 16;

/// One partition of a space. Everything in it happens under one lock.
#[derive(Debug)]
pub(super) struct Partition {
    bounds: Bounds,
    /// Of the slots of a ring.
    grain_ms: u64,
    hasher: foldhash::fast::RandomState,
    table: HashTable<Place>,
    activities: Activities<Activity>,
    pages: Pages,
    events: Events,
    /// What the clock said last.
    clock_ms: u64,
    /// The latest moment that anything was done at.
    stamp_ms: u64,
    /// Without the events.
    bytes: usize,
}

/// What an edit did, beside what its sender is told.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct Effects {
    pub(super) activity: u64,
    pub(super) promoted: u64,
    pub(super) rejected: u64,
    pub(super) expired: u64,
    /// In a box, since most have none.
    pub(super) events: Option<Box<EventCounts>>,
}

impl Effects {
    /// The same of so many counts of a page that are counted as one.
    pub(super) fn of_counts(self, counts: usize) -> Self {
        let counts = counts as u64;
        Self { activity: self.activity * counts, rejected: self.rejected * counts, ..self }
    }

    /// What was done on the way is done with the rest.
    #[cfg(feature = "redis")]
    pub(super) fn add(&mut self, other: Self) {
        self.activity += other.activity;
        self.promoted += other.promoted;
        self.rejected += other.rejected;
        self.expired += other.expired;
        match (&mut self.events, other.events) {
            (Some(events), Some(other)) => events.iter_mut().zip(*other).for_each(|(it, more)| *it += more),
            (None, other) => self.events = other,
            _ => {}
        }
    }
}

/// What a cleanup did and found.
#[derive(Debug)]
pub(super) struct Cleaned {
    pub(super) effects: Effects,
    /// Pages are left to look after.
    pub(super) is_more: bool,
    /// More activity may be over.
    pub(super) is_more_activity: bool,
    pub(super) tracked: u64,
    pub(super) activities: u64,
}

impl Partition {
    pub(super) fn new(bounds: Bounds) -> Self {
        Self {
            bounds,
            grain_ms: 1 << ring_exponent(&bounds, bounds.window_ms),
            hasher: foldhash::fast::RandomState::default(),
            table: HashTable::new(),
            activities: Activities::new(),
            pages: Pages::default(),
            events: Events::new(),
            clock_ms: 0,
            stamp_ms: 0,
            bytes: 0,
        }
    }

    /// The time that decides.
    #[inline]
    fn advance(&mut self, clock_ms: u64) -> u64 {
        let (now_ms, is_absurd) = deciding(clock_ms, self.stamp_ms, absurd_ms(self.bounds.window_ms));
        if is_absurd {
            self.pages.index_all(self.bounds.window_ms);
        }
        (self.clock_ms, self.stamp_ms) = (clock_ms, now_ms);
        now_ms
    }

    #[inline]
    fn hash(&self, text: &str) -> u32 {
        let mut hasher = self.hasher.build_hasher();
        hasher.write(text.as_bytes());
        hasher.finish() as u32
    }

    #[inline]
    fn find(&self, hash: u32, name: &str) -> Option<At> {
        let is_it = |place: &Place| {
            place.hash == hash
                && match place.at() {
                    At::Activity(at) => self.activities.get(at).name() == name.as_bytes(),
                    At::Hot(at) => self.pages.get(at).is_some_and(|page| &*page.name == name),
                }
        };
        self.table.find(spread(hash), is_it).map(|place| place.at())
    }

    fn hot(&self, name: &str) -> Option<u32> {
        match self.find(self.hash(name), name) {
            Some(At::Hot(at)) => Some(at),
            _ => None,
        }
    }

    /// Whether a page has become, or is no longer, trending or spiking.
    #[inline]
    fn judge(&mut self, now_ms: u64, at: u32) {
        let Some(page) = self.pages.get_mut(at) else { return };
        let count = page.count();
        let is_trending = count >= self.bounds.promotion_threshold;
        let is_spiking = page.spikes(&self.bounds, now_ms, 0);
        let was = [page.is_trending, page.is_spiking];
        (page.is_trending, page.is_spiking) = (is_trending, is_spiking);
        if was == [is_trending, is_spiking] {
            return;
        }
        for (kinds, was, is) in [(TRENDING, was[0], is_trending), (SPIKING, was[1], is_spiking)] {
            if was != is {
                let kind = if is { kinds[0] } else { kinds[1] };
                self.events.tell(self.clock_ms, now_ms, kind, page.name.clone(), count);
            }
        }
    }

    /// Tells what ends with a page, and why it does.
    fn tell_end(&mut self, now_ms: u64, page: Page, kind: EventKind, edits: u64) {
        for (kinds, was) in [(TRENDING, page.is_trending), (SPIKING, page.is_spiking)] {
            if was {
                self.events.tell(self.clock_ms, now_ms, kinds[1], page.name.clone(), edits);
            }
        }
        self.events.tell(self.clock_ms, now_ms, kind, page.name, edits);
    }

    /// Forgets all that is known of a page.
    pub(super) fn remove(&mut self, now_ms: u64, name: &str) -> (Removed, Effects) {
        let now_ms = self.advance(now_ms);
        let mut effects = Effects::default();
        let removed = match self.find(self.hash(name), name) {
            Some(At::Hot(at)) if self.settle_page(now_ms, at) => {
                effects.expired += 1;
                Removed::Unknown
            }
            Some(At::Hot(at)) => {
                if let Some(page) = self.drop_page(at) {
                    let edits = page.count();
                    self.tell_end(now_ms, page, EventKind::Removed, edits);
                }
                Removed::Hot
            }
            Some(At::Activity(at)) => {
                let is_over = self.is_over(self.activities.get(at), now_ms);
                self.forget_activity(at);
                if is_over { Removed::Unknown } else { Removed::Remembered }
            }
            None => Removed::Unknown,
        };
        effects.events = self.events.count();
        (removed, effects)
    }

    /// Begins to remember a page.
    #[inline]
    fn begin(
        &mut self,
        now_ms: u64,
        hash: u32,
        name: &str,
        made: &Made<'_>,
        effects: &mut Effects,
    ) -> Recorded {
        let at = match self.activities.oldest() {
            // In its place: most of the time there is no other room.
            Some(oldest) if self.activities.len() as u64 >= self.bounds.max_activity => {
                self.leave(Place::new(self.activities.get(oldest).hash, At::Activity(oldest)));
                self.bytes -= PLACE + self.activities.get(oldest).bytes();
                self.activities.renew(oldest);
                oldest
            }
            _ => self.activities.push(Activity::default()),
        };
        let activity = self.activities.get_mut(at);
        activity.begin(hash, name, now_ms, made);
        self.bytes += PLACE + activity.bytes();
        self.enter(Place::new(hash, At::Activity(at)));
        effects.activity += 1;
        if self.bounds.hot_threshold > 1 { Recorded::Remembered } else { self.promote(now_ms, at, effects) }
    }

    /// Remembers an edit of a page that is not hot; at the threshold it becomes so.
    fn remember(
        &mut self,
        now_ms: u64,
        at: u32,
        name: &str,
        made: &Made<'_>,
        effects: &mut Effects,
    ) -> Recorded {
        let activity = self.activities.get(at);
        if self.is_over(activity, now_ms) {
            let hash = activity.hash;
            self.forget_activity(at);
            return self.begin(now_ms, hash, name, made, effects);
        }
        if activity.has(made.id) {
            return Recorded::Duplicate;
        }
        let activity = self.activities.get_mut(at);
        self.bytes -= activity.bytes();
        activity.push(made);
        if activity.len() as u64 > self.bounds.hot_threshold {
            // No more than what makes it hot.
            activity.pop_first();
        }
        self.bytes += activity.bytes();
        effects.activity += 1;
        let is_enough = activity.len() as u64 >= self.bounds.hot_threshold;
        if is_enough { self.promote(now_ms, at, effects) } else { Recorded::Remembered }
    }

    fn promote(&mut self, now_ms: u64, at: u32, effects: &mut Effects) -> Recorded {
        let (bounds, ahead_ms) = (self.bounds, self.ahead_ms(now_ms));
        let counts = |at_ms: u64| at_ms + bounds.window_ms > now_ms && at_ms <= ahead_ms;
        let live = self.activities.get(at).times().filter(|at_ms| counts(*at_ms));
        let Some((edits, last_ms)) = live.fold(None, |seen: Option<(u64, u64)>, at_ms| {
            let (edits, last_ms) = seen.unwrap_or_default();
            Some((edits + 1, last_ms.max(at_ms)))
        }) else {
            return Recorded::Remembered;
        };
        if self.pages.len() as u64 >= bounds.max_tracked {
            effects.expired += self.settle(now_ms, SETTLED_BY_EDIT) as u64;
        }
        let mut replaced = None;
        if self.pages.len() as u64 >= bounds.max_tracked {
            if !bounds.replaces || self.coldest_rank().is_none_or(|it| it >= Rank::new(edits, last_ms)) {
                effects.rejected += 1;
                return Recorded::Rejected;
            }
            replaced = self.drop_coldest(now_ms).map(|name| name.to_string());
        }
        let Some(activity) = self.forget_activity(at) else { return Recorded::Remembered };
        let (name, hash) = (activity.name_text().to_owned(), activity.hash);
        let mut members = activity.into_members();
        members.retain(|it| counts(it.at_ms));
        members.sort_by(|a, b| a.key().cmp(&b.key()));
        let tags = members.iter().map(|it| self.hash(it.id()) as u16).collect();
        let page = Page::new(&name, hash, members, tags);
        self.bytes += PLACE + PLACES + page.bytes();
        let name = page.name.clone();
        let at = self.pages.insert(page, bounds.window_ms);
        self.enter(Place::new(hash, At::Hot(at)));
        effects.promoted += 1;
        self.events.tell(self.clock_ms, now_ms, EventKind::Promoted, name, edits);
        self.judge(now_ms, at);
        Recorded::Promoted { replaced }
    }

    #[inline]
    fn enter(&mut self, place: Place) {
        self.table.insert_unique(spread(place.hash), place, |it| spread(it.hash));
    }

    /// Takes a place out of the table.
    #[inline]
    fn leave(&mut self, place: Place) {
        if let Ok(found) = self.table.find_entry(spread(place.hash), |it| *it == place) {
            found.remove();
        }
    }

    /// Forgets what was remembered of a page that is not hot.
    fn forget_activity(&mut self, at: u32) -> Option<Activity> {
        self.leave(Place::new(self.activities.get(at).hash, At::Activity(at)));
        let activity = self.activities.remove(at)?;
        let moved = self.activities.len() as u32;
        if at != moved {
            let was = Place::new(self.activities.get(at).hash, At::Activity(moved));
            if let Some(place) = self.table.find_mut(spread(was.hash), |it| *it == was) {
                place.at = at;
            }
        }
        self.bytes -= PLACE + activity.bytes();
        Some(activity)
    }

    fn drop_page(&mut self, at: u32) -> Option<Page> {
        let page = self.pages.remove(at)?;
        self.leave(Place::new(page.hash, At::Hot(at)));
        self.bytes -= PLACE + PLACES + page.bytes();
        Some(page)
    }

    fn coldest_rank(&mut self) -> Option<Rank> {
        self.pages.refresh(self.bounds.window_ms);
        self.pages.coldest().map(|(rank, ..)| rank)
    }

    /// Drops the coldest page for want of room; its name.
    fn drop_coldest(&mut self, now_ms: u64) -> Option<Arc<str>> {
        self.pages.refresh(self.bounds.window_ms);
        let (_, at) = self.pages.coldest()?;
        let page = self.drop_page(at)?;
        let (name, edits) = (page.name.clone(), page.count());
        self.tell_end(now_ms, page, EventKind::Replaced, edits);
        Some(name)
    }

    /// Whether a window has changed, or is absurdly far ahead.
    #[inline]
    fn is_due(&self, now_ms: u64, page: &Page) -> bool {
        // It is indexed by then at the latest, so most need no look at their oldest edit.
        page.indexed_due_ms <= now_ms && page.due_ms() + self.bounds.window_ms <= now_ms
            || page.last_ms() > self.ahead_ms(now_ms)
    }

    /// Drops what has left the window of a page; whether it was the last of it.
    #[inline]
    fn settle_page(&mut self, now_ms: u64, at: u32) -> bool {
        self.pages.get(at).is_some_and(|page| self.is_due(now_ms, page)) && self.settle_due(now_ms, at)
    }

    #[cold]
    fn settle_due(&mut self, now_ms: u64, at: u32) -> bool {
        let (window_ms, ahead_ms) = (self.bounds.window_ms, self.ahead_ms(now_ms));
        let Some(page) = self.pages.get_mut(at) else { return false };
        if page.last_ms() > ahead_ms || page.last_ms() + window_ms <= now_ms {
            if let Some(page) = self.drop_page(at) {
                self.tell_end(now_ms, page, EventKind::Cooled, 0);
            }
            return true;
        }
        let before = page.bytes();
        page.drop_before((now_ms + 1).saturating_sub(window_ms));
        self.bytes = self.bytes - before + page.bytes();
        self.pages.index(at, window_ms);
        self.judge(now_ms, at);
        false
    }

    /// Looks after up to `limit` pages whose window has changed; how many are not hot
    /// any more.
    fn settle(&mut self, now_ms: u64, limit: usize) -> usize {
        let mut expired = 0;
        for _ in 0..limit {
            let Some(at) = self.next_due(now_ms) else { break };
            expired += usize::from(self.settle_due(now_ms, at));
        }
        expired
    }

    /// A page whose window has changed, or one that is absurdly far ahead.
    fn next_due(&mut self, now_ms: u64) -> Option<u32> {
        let ahead_ms = self.ahead_ms(now_ms) + self.bounds.window_ms + 1;
        self.pages.next_due(now_ms, ahead_ms, self.bounds.window_ms)
    }

    /// What is dated later was dated by a clock that was wrong.
    #[inline]
    fn ahead_ms(&self, now_ms: u64) -> u64 {
        now_ms + absurd_ms(self.bounds.window_ms)
    }

    /// Whether what is remembered is over.
    fn is_over(&self, activity: &Activity, now_ms: u64) -> bool {
        activity.first_ms + ACTIVITY_MS <= now_ms || activity.first_ms > self.ahead_ms(now_ms)
    }

    /// At the bound on bytes: forgets activity first, then the coldest pages.
    #[inline]
    fn keep_within_bytes(&mut self, effects: &mut Effects) {
        while self.bytes() > self.bounds.max_bytes {
            match self.activities.oldest() {
                Some(oldest) => drop(self.forget_activity(oldest)),
                None if self.drop_coldest(self.stamp_ms).is_some() => effects.expired += 1,
                None => return,
            }
        }
    }

    /// Looks after up to `limit` pages, and forgets as much activity that is over.
    pub(super) fn cleanup(&mut self, now_ms: u64, limit: usize) -> Cleaned {
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
        Cleaned {
            effects,
            is_more: self.next_due(now_ms).is_some(),
            is_more_activity: self.next_over(now_ms).is_some(),
            tracked: self.tracked(),
            activities: self.activities(),
        }
    }

    /// The activity that began first, if it is over.
    fn next_over(&self, now_ms: u64) -> Option<u32> {
        self.activities.oldest().filter(|at| self.is_over(self.activities.get(*at), now_ms))
    }

    #[inline]
    pub(super) fn bytes(&self) -> usize {
        self.bytes + self.events.bytes()
    }
}
