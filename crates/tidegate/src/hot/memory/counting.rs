//! A partition of a space that only counts. The rules are those of [`Partition`](super::Partition), with counts on a grid
//! in the place of edits.

mod count;
mod questions;
mod settle;
#[cfg(test)]
mod tests;

use std::hash::{BuildHasher as _, Hasher as _};
use std::sync::Arc;

use hashbrown::HashTable;

use super::activities::{Activities, Linked, Links};
use super::counted::{Counted, Grid, Mark};
use super::counted_pages::{CountedPages, PLACES};
use super::events::Events;
use super::place::{At, PLACE, Place, spread};
use super::{Effects, SPIKING, TRENDING};
use crate::clock::{absurd_ms, deciding};
use crate::hot::edit::{EventKind, Removed};
use crate::hot::options::{ACTIVITY_MS, Bounds};

/// A page that is not hot, and its neighbours.
#[derive(Debug)]
struct Remembered {
    links: Links,
    page: Counted,
}

impl Linked for Remembered {
    fn links(&self) -> Links {
        self.links
    }

    fn links_mut(&mut self) -> &mut Links {
        &mut self.links
    }
}

impl Remembered {
    fn new(page: Counted) -> Self {
        Self { links: Links::default(), page }
    }

    /// With its place in the table.
    fn bytes(&self) -> usize {
        PLACE + size_of::<Self>() + self.page.heap()
    }
}

/// What a hot page takes, with its places in the table and the indices.
fn hot_bytes(page: &Counted) -> usize {
    PLACE + PLACES + size_of::<Counted>() + page.heap()
}

/// One partition of a space that only counts. Everything in it happens under one lock.
#[derive(Debug)]
pub(in crate::hot) struct Counting {
    bounds: Bounds,
    grid: Grid,
    hasher: foldhash::fast::RandomState,
    table: HashTable<Place>,
    activities: Activities<Remembered>,
    pages: CountedPages,
    events: Events,
    /// What the clock said last.
    clock_ms: u64,
    /// The latest moment that anything was done at.
    stamp_ms: u64,
    /// Without the events.
    bytes: usize,
}

impl Counting {
    pub(in crate::hot) fn new(bounds: Bounds) -> Self {
        Self {
            bounds,
            grid: Grid::new(&bounds),
            hasher: foldhash::fast::RandomState::default(),
            table: HashTable::new(),
            activities: Activities::new(),
            pages: CountedPages::default(),
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
            self.pages.index_all(self.grid);
        }
        (self.clock_ms, self.stamp_ms) = (clock_ms, now_ms);
        now_ms
    }

    #[inline]
    fn hash(&self, name: &[u8]) -> u32 {
        let mut hasher = self.hasher.build_hasher();
        hasher.write(name);
        hasher.finish() as u32
    }

    #[inline]
    fn find(&self, hash: u32, name: &str) -> Option<At> {
        let is_it = |place: &Place| {
            place.hash == hash
                && match place.at() {
                    At::Activity(at) => self.activities.get(at).page.name() == name.as_bytes(),
                    At::Hot(at) => self.pages.get(at).is_some_and(|page| page.name() == name.as_bytes()),
                }
        };
        self.table.find(spread(hash), is_it).map(|place| place.at())
    }

    fn hot(&self, name: &str) -> Option<&Counted> {
        match self.find(self.hash(name.as_bytes()), name) {
            Some(At::Hot(at)) => self.pages.get(at),
            _ => None,
        }
    }

    /// Whether a page has become, or is no longer, trending or spiking.
    #[inline]
    fn judge(&mut self, now_ms: u64, at: u32) {
        let Some(page) = self.pages.get_mut(at) else { return };
        let is_trending = page.sum() >= self.bounds.promotion_threshold;
        let is_spiking = page.spikes(&self.bounds, now_ms, self.grid, page.sum());
        let was = [page.is(Mark::Trending), page.is(Mark::Spiking)];
        if was == [is_trending, is_spiking] {
            return;
        }
        page.mark(Mark::Trending, is_trending);
        page.mark(Mark::Spiking, is_spiking);
        let (name, edits): (Arc<str>, u64) = (page.name_text().into(), page.sum());
        for (kinds, was, is) in [(TRENDING, was[0], is_trending), (SPIKING, was[1], is_spiking)] {
            if was != is {
                let kind = if is { kinds[0] } else { kinds[1] };
                self.events.tell(self.clock_ms, now_ms, kind, name.clone(), edits);
            }
        }
    }

    /// Tells what ends with a page, and why it does.
    fn tell_end(&mut self, now_ms: u64, page: &Counted, kind: EventKind, edits: u64) {
        let name: Arc<str> = page.name_text().into();
        for (kinds, was) in [(TRENDING, page.is(Mark::Trending)), (SPIKING, page.is(Mark::Spiking))] {
            if was {
                self.events.tell(self.clock_ms, now_ms, kinds[1], name.clone(), edits);
            }
        }
        self.events.tell(self.clock_ms, now_ms, kind, name, edits);
    }

    /// Forgets all that is known of a page.
    pub(in crate::hot) fn remove(&mut self, now_ms: u64, name: &str) -> (Removed, Effects) {
        let now_ms = self.advance(now_ms);
        let mut effects = Effects::default();
        let removed = match self.find(self.hash(name.as_bytes()), name) {
            Some(At::Hot(at)) if self.settle_page(now_ms, at) => {
                effects.expired += 1;
                Removed::Unknown
            }
            Some(At::Hot(at)) => {
                if let Some(page) = self.drop_page(at) {
                    self.tell_end(now_ms, &page, EventKind::Removed, page.sum());
                }
                Removed::Hot
            }
            Some(At::Activity(at)) => {
                let is_over = self.is_over(at, now_ms);
                self.forget_activity(at);
                if is_over { Removed::Unknown } else { Removed::Remembered }
            }
            None => Removed::Unknown,
        };
        effects.events = self.events.count();
        (removed, effects)
    }

    #[inline]
    fn enter(&mut self, place: Place) {
        self.table.insert_unique(spread(place.hash), place, |it| spread(it.hash));
    }

    /// Takes a place out of the table.
    fn leave(&mut self, place: Place) {
        if let Ok(found) = self.table.find_entry(spread(place.hash), |it| *it == place) {
            found.remove();
        }
    }

    /// Forgets what was remembered of a page that is not hot.
    fn forget_activity(&mut self, at: u32) -> Option<Counted> {
        self.leave(Place::new(self.hash(self.activities.get(at).page.name()), At::Activity(at)));
        let activity = self.activities.remove(at)?;
        let moved = self.activities.len() as u32;
        if at != moved {
            let was = Place::new(self.hash(self.activities.get(at).page.name()), At::Activity(moved));
            if let Some(place) = self.table.find_mut(spread(was.hash), |it| *it == was) {
                place.at = at;
            }
        }
        self.bytes -= activity.bytes();
        Some(activity.page)
    }

    fn drop_page(&mut self, at: u32) -> Option<Counted> {
        let page = self.pages.remove(at)?;
        self.leave(Place::new(self.hash(page.name()), At::Hot(at)));
        self.bytes -= hot_bytes(&page);
        Some(page)
    }

    /// What is dated later was dated by a clock that was wrong.
    #[inline]
    fn ahead_ms(&self, now_ms: u64) -> u64 {
        now_ms + absurd_ms(self.bounds.window_ms)
    }

    /// Whether what is remembered is over.
    fn is_over(&self, at: u32, now_ms: u64) -> bool {
        let began_ms = self.activities.get(at).page.first_ms();
        began_ms + ACTIVITY_MS <= now_ms || began_ms > self.ahead_ms(now_ms)
    }

    #[inline]
    pub(in crate::hot) fn bytes(&self) -> usize {
        self.bytes + self.events.bytes()
    }
}
