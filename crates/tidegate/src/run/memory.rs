//! Runs in this process: one table, with an index by time for all that is found otherwise.

mod entry;
mod failed_hours;
mod items;
mod lists;

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use compact_str::CompactString;

use self::entry::{Entry, Moment};
use self::failed_hours::FailedHours;
use super::options::Bounds;
use super::types::{Attempt, Finished, Granted, Refusal, Run, RunState, Started, Update, Updated};
use crate::clock::Timestamp;
use crate::key::Key;
use crate::page::{Cursor, member};

/// What one partition of a space has.
#[derive(Debug)]
pub(super) struct Partition {
    bounds: Bounds,
    /// How much longer than it lives a run is kept.
    slack_ms: u64,
    runs: HashMap<CompactString, Entry>,
    /// By when they were started, per state.
    started: [BTreeSet<Cursor>; RunState::ALL.len()],
    /// By when they end, deleted ones among them.
    due: BTreeSet<(u64, CompactString)>,
    failed: FailedHours,
}

impl Partition {
    pub(super) fn new(bounds: Bounds, slack_ms: u64) -> Self {
        Self {
            bounds,
            slack_ms,
            runs: HashMap::new(),
            started: Default::default(),
            due: BTreeSet::new(),
            failed: FailedHours::default(),
        }
    }

    /// A run that is not over, deleted or not, and the moment it is read at.
    fn find(&self, clock_ms: u64, run: Key<'_>) -> Granted<(&Entry, Moment)> {
        let entry = self.runs.get(run.as_str()).ok_or(Refusal::Unknown)?;
        entry.at(&self.bounds, clock_ms).map(|at| (entry, at)).ok_or(Refusal::Unknown)
    }

    /// The same of one that was not deleted.
    fn read(&self, clock_ms: u64, run: Key<'_>) -> Granted<(&Entry, Moment)> {
        let (entry, at) = self.find(clock_ms, run)?;
        entry.meant(None)?;
        Ok((entry, at))
    }

    /// Changes a live run by who means `attempt`. `change` also says whether the run lives from now on
    /// again; indices by state and end are brought up to date.
    fn change<T>(
        &mut self,
        clock_ms: u64,
        run: Key<'_>,
        attempt: Option<Attempt>,
        change: impl FnOnce(&mut Entry, &Moment, &Bounds) -> Granted<(T, bool)>,
    ) -> Granted<T> {
        let (entry, at) = self.read(clock_ms, run)?;
        entry.live(attempt)?;
        self.change_any(run, &at, change)
    }

    /// The same of a run that was found, ended or not.
    fn change_any<T>(
        &mut self,
        run: Key<'_>,
        at: &Moment,
        change: impl FnOnce(&mut Entry, &Moment, &Bounds) -> Granted<(T, bool)>,
    ) -> Granted<T> {
        let bounds = self.bounds;
        let entry = self.runs.get_mut(run.as_str()).ok_or(Refusal::Unknown)?;
        let before = (entry.state, entry.ends_ms);
        let (answer, is_changed) = change(entry, at, &bounds)?;
        if is_changed {
            entry.touch(&bounds, at);
        }
        self.file(run, before);
        Ok(answer)
    }

    /// Lists a run where it belongs, that had this state and this end before.
    fn file(&mut self, run: Key<'_>, (state, ends_ms): (Option<RunState>, u64)) {
        let Some(entry) = self.runs.get(run.as_str()) else { return };
        if entry.ends_ms != ends_ms {
            self.due.remove(&(ends_ms, run.as_str().into()));
            self.due.insert((entry.ends_ms, run.as_str().into()));
        }
        if entry.state != state {
            let place = Cursor { at_ms: entry.started_ms, member: run.as_str().into() };
            if let Some(state) = state {
                self.started[state as usize].remove(&place);
            }
            if let Some(state) = entry.state {
                self.started[state as usize].insert(place);
            }
        }
    }

    /// Takes a run out of the table and every index.
    fn remove(&mut self, run: Key<'_>) -> Option<Entry> {
        let entry = self.runs.remove(run.as_str())?;
        self.due.remove(&(entry.ends_ms, run.as_str().into()));
        if let Some(state) = entry.state {
            let place = Cursor { at_ms: entry.started_ms, member: run.as_str().into() };
            self.started[state as usize].remove(&place);
        }
        for (at_ms, item) in &entry.failed_at {
            self.failed.remove(&Cursor { at_ms: *at_ms, member: member(run, item) });
        }
        Some(entry)
    }

    /// Puts a run into the table and the indices.
    fn insert(&mut self, run: Key<'_>, entry: Entry) {
        let id = CompactString::from(run.as_str());
        self.due.insert((entry.ends_ms, id.clone()));
        if let Some(state) = entry.state {
            self.started[state as usize].insert(Cursor { at_ms: entry.started_ms, member: id.clone() });
        }
        self.runs.insert(id, entry);
    }

    pub(super) fn start(&mut self, clock_ms: u64, run: Key<'_>) -> Granted<Started> {
        let found = self.find(clock_ms, run).map(|(entry, at)| (entry.state, entry.attempt, at.now_ms)).ok();
        let (attempt, now_ms) = match found {
            Some((Some(state), attempt, _)) => {
                let attempt = Attempt(attempt);
                return match state.is_terminal() {
                    true => Err(Refusal::Ended { state, attempt }),
                    false => Ok(Started { attempt, state, is_new: false }),
                };
            }
            Some((None, attempt, now_ms)) => (attempt + 1, now_ms),
            None => (1, clock_ms),
        };
        self.remove(run);
        if self.runs.len() as u64 >= self.bounds.max_runs {
            self.remove_due(clock_ms, usize::MAX);
        }
        if self.runs.len() as u64 >= self.bounds.max_runs {
            return Err(Refusal::TooManyRuns);
        }
        self.insert(run, Entry::new(now_ms, self.bounds.ttl_ms, attempt));
        Ok(Started { attempt: Attempt(attempt), state: RunState::Running, is_new: true })
    }

    pub(super) fn get(&self, clock_ms: u64, run: Key<'_>) -> Option<Run> {
        let (entry, at) = self.read(clock_ms, run).ok()?;
        entry.run(run.as_str(), &at)
    }

    pub(super) fn update(
        &mut self,
        clock_ms: u64,
        run: Key<'_>,
        attempt: Option<Attempt>,
        update: &Update,
    ) -> Granted<Updated> {
        self.change(clock_ms, run, attempt, |entry, at, bounds| {
            let mut fields = entry.fields.clone();
            for (name, value) in &update.fields {
                match value {
                    Some(value) => fields.insert(name.clone(), value.clone()),
                    None => fields.remove(name),
                };
            }
            if fields.len() as u64 > bounds.max_fields && fields.len() > entry.fields.len() {
                return Err(Refusal::TooManyFields);
            }
            entry.fields = fields;
            entry.state = update.state.or(entry.state);
            entry.total = update.total.or(entry.total);
            entry.touch(bounds, at);
            let (attempt, ends_at) = (Attempt(entry.attempt), Timestamp::from_millis(entry.ends_ms));
            Ok((Updated { attempt, state: entry.meant(None)?, ends_at }, false))
        })
    }

    pub(super) fn finish(
        &mut self,
        clock_ms: u64,
        run: Key<'_>,
        attempt: Option<Attempt>,
        state: RunState,
    ) -> Granted<Finished> {
        let (entry, at) = self.read(clock_ms, run)?;
        let finished = Finished { attempt: Attempt(entry.attempt), state, is_new: true };
        if entry.meant(attempt)? == state {
            return Ok(Finished { is_new: false, ..finished });
        }
        entry.live(attempt)?;
        self.change_any(run, &at, |entry, at, _| {
            (entry.state, entry.finished_ms) = (Some(state), Some(at.now_ms));
            Ok((finished, true))
        })
    }

    pub(super) fn retry(&mut self, clock_ms: u64, run: Key<'_>, from: Attempt) -> Granted<Started> {
        let (entry, at) = self.read(clock_ms, run)?;
        let (state, attempt) = (entry.meant(None)?, Attempt(entry.attempt));
        match (attempt.0.checked_sub(from.0), state.is_terminal()) {
            (Some(1), false) => return Ok(Started { attempt, state, is_new: false }),
            (Some(1), true) => return Err(Refusal::Ended { state, attempt }),
            (Some(0), false) => return Err(Refusal::Live { state, attempt }),
            (Some(0), true) => {}
            _ => return Err(Refusal::Stale { current: attempt }),
        }
        self.change_any(run, &at, |entry, at, _| {
            (entry.state, entry.finished_ms) = (Some(RunState::Running), None);
            entry.attempt += 1;
            entry.attempt_started_ms = at.now_ms;
            entry.processed_before = entry.processed.len() as u64;
            let attempt = Attempt(entry.attempt);
            Ok((Started { attempt, state: RunState::Running, is_new: true }, true))
        })
    }

    pub(super) fn expire(
        &mut self,
        clock_ms: u64,
        run: Key<'_>,
        attempt: Option<Attempt>,
        after: Duration,
    ) -> Granted<Timestamp> {
        let (entry, at) = self.read(clock_ms, run)?;
        entry.meant(attempt)?;
        let ends_ms = at.ends_ms.min(at.now_ms.saturating_add(super::age_ms(after)));
        self.change_any(run, &at, |entry, at, _| {
            (entry.updated_ms, entry.ends_ms, entry.latest_end_ms) = (at.now_ms, ends_ms, Some(ends_ms));
            Ok((Timestamp::from_millis(ends_ms), false))
        })
    }

    pub(super) fn delete(&mut self, clock_ms: u64, run: Key<'_>, attempt: Option<Attempt>) -> Granted<()> {
        let (entry, at) = self.read(clock_ms, run)?;
        entry.meant(attempt)?;
        let left = entry.tombstone(&at);
        self.remove(run);
        self.insert(run, left);
        Ok(())
    }

    /// Takes up to `limit` runs out that were over so long ago that no clock brings them back.
    pub(super) fn sweep(&mut self, clock_ms: u64, limit: usize) -> usize {
        self.remove_due(clock_ms.saturating_sub(self.slack_ms), limit)
    }

    /// How many there are, by state.
    pub(super) fn counts(&self) -> [u64; RunState::ALL.len()] {
        std::array::from_fn(|state| self.started[state].len() as u64)
    }

    fn remove_due(&mut self, at_ms: u64, limit: usize) -> usize {
        let due = self.due.iter().take(limit).take_while(|(ends_ms, _)| *ends_ms <= at_ms);
        let due: Vec<_> = due.map(|(_, run)| run.clone()).collect();
        for run in &due {
            self.remove(Key::raw(run));
        }
        due.len()
    }
}
