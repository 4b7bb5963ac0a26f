//! A run in this process: what is known of it, and how it is read at a moment.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use compact_str::CompactString;

use crate::clock::{Timestamp, deciding};
use crate::run::options::Bounds;
use crate::run::types::{Attempt, Failure, Granted, Listed, Refusal, Run, RunState};

/// What failed, of one item.
#[derive(Debug, Clone)]
pub(super) struct FailedItem {
    pub(super) reason: Box<str>,
    /// Of the call that was counted last.
    pub(super) id: CompactString,
    pub(super) count: u64,
    pub(super) first_ms: u64,
    pub(super) last_ms: u64,
}

/// A task that was started.
#[derive(Debug, Clone, Copy)]
pub(super) struct TaskEntry {
    pub(super) attempt: u64,
    pub(super) started_ms: u64,
    pub(super) finished_ms: Option<u64>,
}

/// A run, or what is left of one that was deleted.
#[derive(Debug)]
pub(super) struct Entry {
    /// None of one that was deleted: its attempt is remembered for the rest of its life.
    pub(super) state: Option<RunState>,
    pub(super) attempt: u64,
    pub(super) started_ms: u64,
    pub(super) attempt_started_ms: u64,
    /// The latest moment that anything was done at.
    pub(super) updated_ms: u64,
    pub(super) finished_ms: Option<u64>,
    pub(super) ends_ms: u64,
    /// It ends no later, whatever is done.
    pub(super) latest_end_ms: Option<u64>,
    pub(super) total: Option<u64>,
    /// Items that were processed before this attempt.
    pub(super) processed_before: u64,
    pub(super) fields: BTreeMap<String, String>,
    pub(super) processed: HashSet<CompactString>,
    pub(super) failures: HashMap<CompactString, FailedItem>,
    /// Items by when they failed last.
    pub(super) failed_at: BTreeSet<(u64, CompactString)>,
    /// Those of them that were not processed since.
    pub(super) to_retry: BTreeSet<(u64, CompactString)>,
    pub(super) tasks: BTreeMap<CompactString, TaskEntry>,
}

/// How a run is read at a moment. One that was changed absurdly far ahead of the clock, by a clock
/// that was wrong, is as if it were changed now.
#[derive(Debug, Clone, Copy)]
pub(super) struct Moment {
    pub(super) now_ms: u64,
    pub(super) updated_ms: u64,
    pub(super) ends_ms: u64,
    pub(super) latest_end_ms: Option<u64>,
}

impl Moment {
    fn is_over(&self) -> bool {
        self.ends_ms <= self.now_ms
    }
}

impl Entry {
    /// One that is started now.
    pub(super) fn new(now_ms: u64, ttl_ms: u64, attempt: u64) -> Self {
        Self {
            state: Some(RunState::Running),
            attempt,
            started_ms: now_ms,
            attempt_started_ms: now_ms,
            updated_ms: now_ms,
            finished_ms: None,
            ends_ms: now_ms + ttl_ms,
            latest_end_ms: None,
            total: None,
            processed_before: 0,
            fields: BTreeMap::new(),
            processed: HashSet::new(),
            failures: HashMap::new(),
            failed_at: BTreeSet::new(),
            to_retry: BTreeSet::new(),
            tasks: BTreeMap::new(),
        }
    }

    /// What is left of it when it is deleted.
    pub(super) fn tombstone(&self, at: &Moment) -> Self {
        let mut left = Self::new(at.now_ms, 0, self.attempt);
        (left.state, left.ends_ms, left.latest_end_ms) = (None, at.ends_ms, Some(at.ends_ms));
        left
    }

    /// How it is read by this clock; none if it is over.
    pub(super) fn at(&self, bounds: &Bounds, clock_ms: u64) -> Option<Moment> {
        let (now_ms, is_absurd) = deciding(clock_ms, self.updated_ms, bounds.absurd_ms);
        let Self { updated_ms, ends_ms, latest_end_ms, .. } = *self;
        let moment = match is_absurd {
            false => Moment { now_ms, updated_ms, ends_ms, latest_end_ms },
            true => {
                Moment { now_ms, updated_ms: now_ms, ends_ms: now_ms + bounds.ttl_ms, latest_end_ms: None }
            }
        };
        (!moment.is_over()).then_some(moment)
    }

    /// It was changed: it lives from now on again.
    pub(super) fn touch(&mut self, bounds: &Bounds, at: &Moment) {
        let ends_ms = at.ends_ms.max(at.now_ms + bounds.ttl_ms);
        self.updated_ms = at.now_ms;
        self.latest_end_ms = at.latest_end_ms;
        self.ends_ms = at.latest_end_ms.map_or(ends_ms, |latest_ms| ends_ms.min(latest_ms));
    }

    /// Its state, if it can be changed by who means `attempt`.
    pub(super) fn live(&self, attempt: Option<Attempt>) -> Granted<RunState> {
        let state = self.meant(attempt)?;
        match state.is_terminal() {
            true => Err(Refusal::Ended { state, attempt: Attempt(self.attempt) }),
            false => Ok(state),
        }
    }

    /// Its state, if this is the attempt that is meant.
    pub(super) fn meant(&self, attempt: Option<Attempt>) -> Granted<RunState> {
        let state = self.state.ok_or(Refusal::Unknown)?;
        match attempt {
            Some(attempt) if attempt.0 != self.attempt => {
                Err(Refusal::Stale { current: Attempt(self.attempt) })
            }
            _ => Ok(state),
        }
    }

    pub(super) fn listed(&self, id: &str, at: &Moment) -> Option<Listed> {
        Some(Listed {
            id: id.to_owned(),
            state: self.state?,
            attempt: Attempt(self.attempt),
            started_at: Timestamp::from_millis(self.started_ms),
            updated_at: Timestamp::from_millis(at.updated_ms),
            finished_at: self.finished_ms.map(Timestamp::from_millis),
            ends_at: Timestamp::from_millis(at.ends_ms),
            total: self.total,
        })
    }

    pub(super) fn run(&self, id: &str, at: &Moment) -> Option<Run> {
        Some(Run {
            id: id.to_owned(),
            state: self.state?,
            attempt: Attempt(self.attempt),
            started_at: Timestamp::from_millis(self.started_ms),
            attempt_started_at: Timestamp::from_millis(self.attempt_started_ms),
            updated_at: Timestamp::from_millis(at.updated_ms),
            finished_at: self.finished_ms.map(Timestamp::from_millis),
            ends_at: Timestamp::from_millis(at.ends_ms),
            total: self.total,
            fields: self.fields.clone(),
        })
    }

    /// The failures of an item.
    pub(super) fn failure(&self, item: &str) -> Option<Failure> {
        let failed = self.failures.get(item)?;
        Some(Failure {
            item: item.to_owned(),
            reason: failed.reason.to_string(),
            count: failed.count,
            first_at: Timestamp::from_millis(failed.first_ms),
            last_at: Timestamp::from_millis(failed.last_ms),
            to_retry: self.to_retry.contains(&(failed.last_ms, item.into())),
        })
    }

    /// Notes that an item was processed: whatever it failed with before, it is not to be retried.
    pub(super) fn settle(&mut self, item: &str) {
        if let Some(failed) = self.failures.get(item) {
            self.to_retry.remove(&(failed.last_ms, item.into()));
        }
    }
}
