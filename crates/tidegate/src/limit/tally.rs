//! How many decisions a limit has made, counted where they are made.

use std::sync::atomic::{AtomicU64, Ordering};

use super::decision::Source;

/// Counts under somebody's lock, which costs next to nothing.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Tally {
    pub(super) admitted: u64,
    pub(super) rejected: u64,
}

impl Tally {
    #[inline(always)]
    pub(super) fn count(&mut self, is_admitted: bool) {
        self.admitted += u64::from(is_admitted);
        self.rejected += u64::from(!is_admitted);
    }

    /// Both outcomes, by who decided.
    pub(super) fn rows(self, source: Source) -> [(&'static str, Source, u64); 2] {
        [("admitted", source, self.admitted), ("rejected", source, self.rejected)]
    }
}

impl std::ops::Add for Tally {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self { admitted: self.admitted + other.admitted, rejected: self.rejected + other.rejected }
    }
}

/// Counts without a lock.
#[derive(Debug, Default)]
pub(super) struct SharedTally {
    admitted: AtomicU64,
    rejected: AtomicU64,
}

impl SharedTally {
    pub(super) fn count(&self, is_admitted: bool) {
        let counter = if is_admitted { &self.admitted } else { &self.rejected };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn read(&self) -> Tally {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Tally { admitted: read(&self.admitted), rejected: read(&self.rejected) }
    }
}

/// Decisions of a limit whose store is elsewhere, by who decided.
#[derive(Debug, Default)]
pub(super) struct TallyBySource([SharedTally; 3]);

impl TallyBySource {
    const SOURCES: [Source; 3] = [Source::Store, Source::Local, Source::Policy];

    /// What was decided by a lease is counted there.
    pub(super) fn count(&self, is_admitted: bool, source: Source) {
        if let Some(row) = Self::SOURCES.iter().position(|known| *known == source) {
            self.0[row].count(is_admitted);
        }
    }

    pub(super) fn rows(&self) -> impl Iterator<Item = (&'static str, Source, u64)> {
        Self::SOURCES.into_iter().zip(&self.0).flat_map(|(source, tally)| tally.read().rows(source))
    }
}
