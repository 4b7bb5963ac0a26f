//! Hot pages, and their two indices.
//!
//! An edit does not touch them. The one by rank is behind for pages that are noted as
//! stale, and brought up to date before it is read. The one by when the oldest edit
//! leaves says it too early for some, never too late; who comes up before its time is
//! put in again.

use std::collections::BTreeSet;
use std::ops::Bound;
use std::sync::Arc;

use super::page::Page;
use crate::hot::edit::Rank;

/// Pages whose rank may be behind. It bounds how long it takes to read it, and is
/// paid by edits: one each.
const MAX_STALE: usize = 4096;

/// By a number, then name; and where it is.
type Indexed<T> = (T, Arc<str>, u32);
type Index<T> = BTreeSet<Indexed<T>>;

#[derive(Debug, Default)]
pub(super) struct Pages {
    slots: Vec<Option<Box<Page>>>,
    free: Vec<u32>,
    /// The coldest first.
    ranking: Index<Rank>,
    due: Index<u64>,
    stale: Vec<u32>,
}

/// What the slot of a page and its places in the indices take, which are half empty
/// at times.
pub(super) const PLACES: usize = 5 * size_of::<Indexed<u64>>() + 2 * size_of::<usize>();

impl Pages {
    pub(super) fn len(&self) -> usize {
        self.due.len()
    }

    #[inline]
    pub(super) fn get(&self, at: u32) -> Option<&Page> {
        self.slots.get(at as usize)?.as_deref()
    }

    #[inline]
    pub(super) fn get_mut(&mut self, at: u32) -> Option<&mut Page> {
        self.slots.get_mut(at as usize)?.as_deref_mut()
    }

    /// Adds one; where it is.
    pub(super) fn insert(&mut self, mut page: Page, window_ms: u64) -> u32 {
        let at = self.free.pop().unwrap_or(self.slots.len() as u32);
        (page.indexed_rank, page.indexed_due_ms) = (page.rank(), page.due_ms() + window_ms);
        self.ranking.insert((page.indexed_rank, page.name.clone(), at));
        self.due.insert((page.indexed_due_ms, page.name.clone(), at));
        match self.slots.get_mut(at as usize) {
            Some(slot) => *slot = Some(Box::new(page)),
            None => self.slots.push(Some(Box::new(page))),
        }
        at
    }

    pub(super) fn remove(&mut self, at: u32) -> Option<Page> {
        let page = *self.slots.get_mut(at as usize)?.take()?;
        self.free.push(at);
        self.ranking.remove(&(page.indexed_rank, page.name.clone(), at));
        self.due.remove(&(page.indexed_due_ms, page.name.clone(), at));
        Some(page)
    }

    /// Notes that the rank of a page has changed.
    #[inline]
    pub(super) fn changed(&mut self, at: u32, window_ms: u64) {
        let Some(page) = self.get_mut(at) else { return };
        if !page.is_stale {
            page.is_stale = true;
            self.stale.push(at);
            if self.stale.len() >= MAX_STALE {
                self.refresh(window_ms);
            }
        }
    }

    /// Brings the ranking up to date.
    pub(super) fn refresh(&mut self, window_ms: u64) {
        for at in std::mem::take(&mut self.stale) {
            // If another page is in its place by now, that does no harm.
            self.index(at, window_ms);
        }
    }

    /// Puts a page where it belongs, in both.
    pub(super) fn index(&mut self, at: u32, window_ms: u64) {
        let Self { slots, ranking, due, .. } = self;
        let Some(page) = slots.get_mut(at as usize).and_then(Option::as_deref_mut) else { return };
        page.is_stale = false;
        let (rank, due_ms) = (page.rank(), page.due_ms() + window_ms);
        fn moved<T: Ord + Copy>(index: &mut Index<T>, name: &Arc<str>, at: u32, was: &mut T, is: T) {
            if *was != is {
                index.remove(&(*was, name.clone(), at));
                index.insert((is, name.clone(), at));
                *was = is;
            }
        }
        moved(ranking, &page.name, at, &mut page.indexed_rank, rank);
        moved(due, &page.name, at, &mut page.indexed_due_ms, due_ms);
    }

    /// After a clock that was wrong, when what comes last is of interest too.
    pub(super) fn index_all(&mut self, window_ms: u64) {
        (0..self.slots.len() as u32).for_each(|at| self.index(at, window_ms));
        self.stale.clear();
    }

    /// A page whose oldest edit leaves its window by `now_ms`, the first one; or else one
    /// that is due at `ahead_ms` or later.
    pub(super) fn next_due(&mut self, now_ms: u64, ahead_ms: u64, window_ms: u64) -> Option<u32> {
        while let Some((due_ms, _, at)) = self.due.first()
            && *due_ms <= now_ms
        {
            let (due_ms, at) = (*due_ms, *at);
            if self.get(at)?.due_ms() + window_ms == due_ms {
                return Some(at);
            }
            self.index(at, window_ms);
        }
        let (last_ms, ..) = self.due.last()?;
        if *last_ms < ahead_ms {
            return None;
        }
        self.due.range((ahead_ms, Arc::from(""), 0)..).next().map(|(.., at)| *at)
    }

    /// Pages whose oldest edit may leave its window by `now_ms`, and those that are due at
    /// `ahead_ms` or later.
    pub(super) fn due(&self, now_ms: u64, ahead_ms: u64) -> impl Iterator<Item = &Page> {
        let end = (now_ms + 1, Arc::from(""), 0);
        let far = self.due.iter().rev().take_while(move |(due_ms, ..)| *due_ms >= ahead_ms);
        self.due.range(..end).chain(far).filter_map(|(.., at)| self.get(*at))
    }

    /// The rank of the coldest and where it is, once the ranking is up to date.
    pub(super) fn coldest(&self) -> Option<(Rank, u32)> {
        self.ranking.first().map(|(rank, _, at)| (*rank, *at))
    }

    /// All that are colder than a rank and a name, the hottest first, with the rank they are
    /// indexed by, once the ranking is up to date.
    pub(super) fn hottest_first(&self, than: Option<(Rank, &str)>) -> impl Iterator<Item = (Rank, &Page)> {
        let end = match than {
            Some((rank, name)) => Bound::Excluded((rank, name.into(), 0)),
            None => Bound::Unbounded,
        };
        let colder = self.ranking.range::<Indexed<Rank>, _>((Bound::Unbounded, end));
        colder.rev().filter_map(|(rank, _, at)| Some((*rank, self.get(*at)?)))
    }

    /// Whether all of it holds together.
    #[cfg(test)]
    pub(super) fn check(&self, window_ms: u64) {
        let pages = self.slots.iter().flatten();
        assert_eq!((self.ranking.len(), self.due.len()), (pages.clone().count(), pages.clone().count()));
        for page in pages {
            assert!(page.indexed_due_ms <= page.due_ms() + window_ms);
            assert!(page.is_stale || page.indexed_rank == page.rank());
        }
    }

    #[cfg(test)]
    pub(super) fn iter(&self) -> impl Iterator<Item = &Page> {
        self.slots.iter().flatten().map(|page| &**page)
    }
}
