//! Hot pages that are only counted, and their two indices.
//!
//! As in `pages.rs`, a count touches neither: the ranking is behind for pages that are stale, and the index by when the
//! first slot leaves the window may say so too early. Neither has names, which would be most of it: pages with the same
//! number are told apart by name where they are read.

use std::collections::BTreeSet;

use super::counted::{Counted, Grid, Mark};
use super::packed::U48;
use crate::hot::edit::Rank;

/// Pages whose rank may be behind.
const MAX_STALE: usize = 4096;

/// Pages of equal standing that are put in the order of their names. It bounds what that takes; beyond it those that became
/// hot first come first.
const MAX_EQUAL: usize = 1024;

/// Pages per allocation.
const CHUNK: usize = 256;

/// Bits of where a page is: fewer than 2^20 are hot.
const AT_BITS: u32 = 20;
const LAST_AT: u32 = (1 << AT_BITS) - 1;

/// When, and where a page is.
type Due = u64;

/// A rank and where a page is, the highest bits first: ten bytes instead of sixteen.
type Ranked = [u16; 5];

/// Ranks are doubles from 2^41, one edit, to 2^81: what all of them have in front of the six bits that they differ in.
const LEAST_RANK: u64 = (1023 + 40) << 52;

fn due_key(due_ms: u64, at: u32) -> Due {
    due_ms << AT_BITS | u64::from(at)
}

fn due_at(key: Due) -> (u64, u32) {
    (key >> AT_BITS, key as u32 & LAST_AT)
}

fn ranked(rank: Rank, at: u32) -> Ranked {
    let bits = u128::from(rank.bits().saturating_sub(LEAST_RANK)) << AT_BITS | u128::from(at);
    [64, 48, 32, 16, 0].map(|from| (bits >> from) as u16)
}

fn ranked_at([.., high, low]: Ranked) -> u32 {
    (u32::from(high) << 16 | u32::from(low)) & LAST_AT
}

/// What its places in the indices take: nodes of trees are two thirds full.
pub(super) const PLACES: usize = (size_of::<Due>() + size_of::<Ranked>()) * 3 / 2 + 8;

#[derive(Debug, Default)]
pub(super) struct CountedPages {
    chunks: Vec<Vec<Option<Counted>>>,
    free: Vec<u32>,
    /// The coldest first.
    ranking: BTreeSet<Ranked>,
    due: BTreeSet<Due>,
    stale: Vec<u32>,
}

impl CountedPages {
    pub(super) fn len(&self) -> usize {
        self.due.len()
    }

    #[inline]
    pub(super) fn get(&self, at: u32) -> Option<&Counted> {
        self.chunks.get(at as usize / CHUNK)?.get(at as usize % CHUNK)?.as_ref()
    }

    #[inline]
    pub(super) fn get_mut(&mut self, at: u32) -> Option<&mut Counted> {
        self.chunks.get_mut(at as usize / CHUNK)?.get_mut(at as usize % CHUNK)?.as_mut()
    }

    /// Adds one; where it is.
    pub(super) fn insert(&mut self, mut page: Counted, grid: Grid) -> u32 {
        let at = self.free.pop().unwrap_or_else(|| self.grow());
        page.indexed_rank = page.rank();
        let due_ms = page.due_ms(grid) + grid.window_ms;
        page.indexed_due = U48::new(due_ms);
        self.ranking.insert(ranked(page.indexed_rank, at));
        self.due.insert(due_key(due_ms, at));
        self.chunks[at as usize / CHUNK][at as usize % CHUNK] = Some(page);
        at
    }

    /// One more place.
    fn grow(&mut self) -> u32 {
        if self.chunks.last().is_none_or(|chunk| chunk.len() == CHUNK) {
            // The first one grows as it fills: a space with few pages is small.
            let room = if self.chunks.is_empty() { 4 } else { CHUNK };
            self.chunks.push(Vec::with_capacity(room));
        }
        let before = (self.chunks.len() - 1) * CHUNK;
        self.chunks.last_mut().map_or(0, |chunk| {
            chunk.push(None);
            (before + chunk.len() - 1) as u32
        })
    }

    pub(super) fn remove(&mut self, at: u32) -> Option<Counted> {
        let page = self.chunks.get_mut(at as usize / CHUNK)?.get_mut(at as usize % CHUNK)?.take()?;
        self.free.push(at);
        self.ranking.remove(&ranked(page.indexed_rank, at));
        self.due.remove(&due_key(page.indexed_due.get(), at));
        Some(page)
    }

    /// Notes that the rank of a page has changed.
    #[inline]
    pub(super) fn changed(&mut self, at: u32, grid: Grid) {
        let Some(page) = self.get_mut(at) else { return };
        if !page.is(Mark::Stale) {
            page.mark(Mark::Stale, true);
            self.stale.push(at);
            if self.stale.len() >= MAX_STALE {
                self.refresh(grid);
            }
        }
    }

    /// Brings the ranking up to date.
    pub(super) fn refresh(&mut self, grid: Grid) {
        for at in std::mem::take(&mut self.stale) {
            // If another page is in its place by now, that does no harm.
            self.index(at, grid);
        }
    }

    /// Puts a page where it belongs, in both.
    pub(super) fn index(&mut self, at: u32, grid: Grid) {
        let Some(page) = self.get_mut(at) else { return };
        page.mark(Mark::Stale, false);
        let (rank, due_ms) = (page.rank(), page.due_ms(grid) + grid.window_ms);
        let (was_rank, was_due_ms) = (page.indexed_rank, page.indexed_due.get());
        (page.indexed_rank, page.indexed_due) = (rank, U48::new(due_ms));
        if was_rank != rank {
            self.ranking.remove(&ranked(was_rank, at));
            self.ranking.insert(ranked(rank, at));
        }
        if was_due_ms != due_ms {
            self.due.remove(&due_key(was_due_ms, at));
            self.due.insert(due_key(due_ms, at));
        }
    }

    /// After a clock that was wrong, when what comes last is of interest too.
    pub(super) fn index_all(&mut self, grid: Grid) {
        let places = (self.chunks.len() * CHUNK) as u32;
        (0..places).for_each(|at| self.index(at, grid));
        self.stale.clear();
    }

    /// Pages whose first slot leaves the window by `now_ms`, those that are first, in the order of their names; or else some
    /// that are due at `ahead_ms` or later.
    pub(super) fn next_due(&mut self, now_ms: u64, ahead_ms: u64, grid: Grid) -> Vec<u32> {
        while let Some((due_ms, at)) = self.due.first().map(|key| due_at(*key))
            && due_ms <= now_ms
        {
            let is_true =
                |at: u32| self.get(at).is_some_and(|page| page.due_ms(grid) + grid.window_ms == due_ms);
            if is_true(at) {
                return self.due_by_name(due_ms, is_true);
            }
            self.index(at, grid);
        }
        match self.due.range(due_key(ahead_ms, 0)..).next() {
            Some(key) => self.due_by_name(due_at(*key).0, |_| true),
            None => Vec::new(),
        }
    }

    fn due_by_name(&self, due_ms: u64, is_true: impl Fn(u32) -> bool) -> Vec<u32> {
        let equal = self.due.range(due_key(due_ms, 0)..due_key(due_ms + 1, 0)).map(|key| due_at(*key).1);
        let mut pages: Vec<u32> = equal.filter(|at| is_true(*at)).take(MAX_EQUAL).collect();
        pages.sort_by_key(|at| self.get(*at).map(Counted::name));
        pages
    }

    /// Whether there is one to look after.
    pub(super) fn is_due(&mut self, now_ms: u64, ahead_ms: u64, grid: Grid) -> bool {
        !self.next_due(now_ms, ahead_ms, grid).is_empty()
    }

    /// Pages whose first slot may leave the window by `now_ms`, and those that are due at `ahead_ms` or later.
    pub(super) fn due(&self, now_ms: u64, ahead_ms: u64) -> impl Iterator<Item = &Counted> {
        let far = self.due.range(due_key(ahead_ms, 0)..);
        self.due.range(..due_key(now_ms + 1, 0)).chain(far).filter_map(|key| self.get(due_at(*key).1))
    }

    /// The rank of the coldest and where it is, once the ranking is up to date.
    pub(super) fn coldest(&self) -> Option<(Rank, u32)> {
        let lowest = self.get(ranked_at(*self.ranking.first()?))?.indexed_rank;
        let equal = self.ranking.range(..=ranked(lowest, LAST_AT)).map(|it| ranked_at(*it)).take(MAX_EQUAL);
        let named = equal.filter_map(|at| Some((self.get(at)?, at)));
        let (page, at) = named.min_by_key(|(page, _)| page.name())?;
        Some((page.indexed_rank, at))
    }

    /// All of a rank or a lower one, the hottest first, with the rank they are indexed by, once the ranking is up to date.
    pub(super) fn hottest_first(&self, from: Option<Rank>) -> impl Iterator<Item = (Rank, &Counted)> {
        let end = from.map_or([u16::MAX; 5], |rank| ranked(rank, LAST_AT));
        let colder = self.ranking.range(..=end).rev().filter_map(|it| self.get(ranked_at(*it)));
        colder.map(|page| (page.indexed_rank, page))
    }

    /// Whether all of it holds together.
    #[cfg(test)]
    pub(super) fn check(&self, grid: Grid) {
        let count = self.iter().count();
        assert_eq!((self.ranking.len(), self.due.len()), (count, count));
        for page in self.iter() {
            assert!(page.indexed_due.get() <= page.due_ms(grid) + grid.window_ms);
            assert!(page.is(Mark::Stale) || page.indexed_rank == page.rank());
        }
    }

    #[cfg(test)]
    pub(super) fn iter(&self) -> impl Iterator<Item = &Counted> {
        self.chunks.iter().flatten().flatten()
    }
}
