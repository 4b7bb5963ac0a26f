//! Runs as they should be: a list that is gone through for every question.

use std::collections::BTreeMap;
use std::time::Duration;

use super::Granted;
use crate::clock::Timestamp;
use crate::run::{
    Attempt, Failure, FailureNoted, Finished, Hour, Listed, Processed, Progress, Refusal, Run, RunFailure,
    RunOptions, RunState, Started, Task, TaskStarted, Update, Updated,
};

/// How much longer than they live runs are kept on a clock that a test moves.
const KEPT_MS: u64 = 3_600_000;

/// Says what a space must answer.
#[derive(Debug, Clone)]
pub struct RunModel {
    options: RunOptions,
    runs: Vec<Kept>,
}

#[derive(Debug, Clone)]
struct Kept {
    id: String,
    is_deleted: bool,
    state: RunState,
    attempt: u64,
    started: u64,
    attempt_started: u64,
    updated: u64,
    finished: Option<u64>,
    ends: u64,
    latest_end: u64,
    total: Option<u64>,
    processed_before: u64,
    fields: BTreeMap<String, String>,
    processed: Vec<String>,
    failures: Vec<(Failure, String)>,
    tasks: Vec<Task>,
}

fn at(ms: u64) -> Timestamp {
    Timestamp::from_millis(ms)
}

impl RunModel {
    /// Of a space with these options.
    pub fn new(options: RunOptions) -> Self {
        Self { options, runs: Vec::new() }
    }

    fn ttl(&self) -> u64 {
        self.options.state_ttl.as_millis() as u64
    }

    /// What the run was last changed at, if that is not absurdly far ahead.
    fn now(&self, clock: u64, run: &Kept) -> u64 {
        let is_absurd = run.updated > clock + self.ttl().max(60_000);
        if is_absurd { clock } else { clock.max(run.updated) }
    }

    /// The place of a run whose time is not over. One of an absurd clock was changed now.
    fn find(&mut self, clock: u64, id: &str) -> Option<usize> {
        let place = self.runs.iter().position(|run| run.id == id)?;
        (self.ends(clock, &self.runs[place]) > self.now(clock, &self.runs[place])).then_some(place)
    }

    fn is_absurd(&self, clock: u64, run: &Kept) -> bool {
        self.now(clock, run) < run.updated
    }

    fn ends(&self, clock: u64, run: &Kept) -> u64 {
        if self.is_absurd(clock, run) { clock + self.ttl() } else { run.ends }
    }

    fn known(&mut self, clock: u64, id: &str) -> Granted<usize> {
        self.find(clock, id).filter(|place| !self.runs[*place].is_deleted).ok_or(Refusal::Unknown)
    }

    fn meant(&mut self, clock: u64, id: &str, attempt: Option<Attempt>) -> Granted<usize> {
        let place = self.known(clock, id)?;
        let current = Attempt::new(self.runs[place].attempt);
        match attempt {
            Some(attempt) if attempt != current => Err(Refusal::Stale { current }),
            _ => Ok(place),
        }
    }

    fn live(&mut self, clock: u64, id: &str, attempt: Option<Attempt>) -> Granted<usize> {
        let place = self.meant(clock, id, attempt)?;
        let Kept { state, attempt, .. } = self.runs[place];
        match state.is_terminal() {
            true => Err(Refusal::Ended { state, attempt: Attempt::new(attempt) }),
            false => Ok(place),
        }
    }

    /// A run is changed at this moment.
    fn touch(&mut self, clock: u64, place: usize) -> u64 {
        let (now, ttl) = (self.now(clock, &self.runs[place]), self.ttl());
        let (is_absurd, ends) =
            (self.is_absurd(clock, &self.runs[place]), self.ends(clock, &self.runs[place]));
        let run = &mut self.runs[place];
        run.latest_end = if is_absurd { u64::MAX } else { run.latest_end };
        run.ends = ends.max(now + ttl).min(run.latest_end);
        run.updated = now;
        now
    }

    /// See [`Runs::start`](crate::run::Runs::start).
    pub fn start(&mut self, clock: u64, id: &str) -> Granted<Started> {
        let (mut number, mut now) = (1, clock);
        if let Some(place) = self.find(clock, id) {
            let run = &self.runs[place];
            let (state, attempt) = (run.state, Attempt::new(run.attempt));
            match (run.is_deleted, state.is_terminal()) {
                (true, _) => (number, now) = (run.attempt + 1, self.now(clock, run)),
                (false, true) => return Err(Refusal::Ended { state, attempt }),
                (false, false) => return Ok(Started { attempt, state, is_new: false }),
            }
        }
        let others = |runs: &[Kept]| runs.iter().filter(|run| run.id != id).count();
        if others(&self.runs) >= self.options.max_runs {
            self.runs.retain(|run| run.ends > clock);
        }
        if others(&self.runs) >= self.options.max_runs {
            return Err(Refusal::TooManyRuns);
        }
        self.runs.retain(|run| run.id != id);
        self.runs.push(Kept {
            id: id.to_owned(),
            is_deleted: false,
            state: RunState::Running,
            attempt: number,
            started: now,
            attempt_started: now,
            updated: now,
            finished: None,
            ends: now + self.ttl(),
            latest_end: u64::MAX,
            total: None,
            processed_before: 0,
            fields: BTreeMap::new(),
            processed: Vec::new(),
            failures: Vec::new(),
            tasks: Vec::new(),
        });
        Ok(Started { attempt: Attempt::new(number), state: RunState::Running, is_new: true })
    }

    fn listed(&self, clock: u64, run: &Kept) -> Listed {
        let updated = if self.is_absurd(clock, run) { clock } else { run.updated };
        Listed {
            id: run.id.clone(),
            state: run.state,
            attempt: Attempt::new(run.attempt),
            started_at: at(run.started),
            updated_at: at(updated),
            finished_at: run.finished.map(at),
            ends_at: at(self.ends(clock, run)),
            total: run.total,
        }
    }

    /// See [`Runs::get`](crate::run::Runs::get).
    pub fn get(&mut self, clock: u64, id: &str) -> Option<Run> {
        let place = self.known(clock, id).ok()?;
        let run = &self.runs[place];
        let listed = self.listed(clock, run);
        Some(Run {
            id: listed.id,
            state: listed.state,
            attempt: listed.attempt,
            started_at: listed.started_at,
            attempt_started_at: at(run.attempt_started),
            updated_at: listed.updated_at,
            finished_at: listed.finished_at,
            ends_at: listed.ends_at,
            total: listed.total,
            fields: run.fields.clone(),
        })
    }

    /// All of [`Runs::list`](crate::run::Runs::list).
    pub fn list(&mut self, clock: u64, state: Option<RunState>) -> Vec<Listed> {
        let ids: Vec<_> = self.runs.iter().map(|run| run.id.clone()).collect();
        let places: Vec<_> = ids.iter().filter_map(|id| self.known(clock, id).ok()).collect();
        let mut all: Vec<_> = places.iter().map(|place| self.listed(clock, &self.runs[*place])).collect();
        all.retain(|run| state.is_none_or(|state| run.state == state));
        all.sort_by(|one, other| (other.started_at, &other.id).cmp(&(one.started_at, &one.id)));
        all
    }

    /// See [`Runs::update`](crate::run::Runs::update).
    pub fn update(
        &mut self,
        clock: u64,
        id: &str,
        attempt: Option<Attempt>,
        update: &Update,
    ) -> Granted<Updated> {
        let place = self.live(clock, id, attempt)?;
        let mut fields = self.runs[place].fields.clone();
        for (name, value) in &update.fields {
            fields.remove(name);
            fields.extend(value.clone().map(|value| (name.clone(), value)));
        }
        let known = self.runs[place].fields.len();
        if fields.len() > self.options.max_fields && fields.len() > known {
            return Err(Refusal::TooManyFields);
        }
        self.touch(clock, place);
        let run = &mut self.runs[place];
        run.fields = fields;
        run.state = update.state.unwrap_or(run.state);
        run.total = update.total.or(run.total);
        Ok(Updated { attempt: Attempt::new(run.attempt), state: run.state, ends_at: at(run.ends) })
    }

    /// See [`Runs::finish`](crate::run::Runs::finish).
    pub fn finish(
        &mut self,
        clock: u64,
        id: &str,
        attempt: Option<Attempt>,
        state: RunState,
    ) -> Granted<Finished> {
        let place = self.meant(clock, id, attempt)?;
        let finished = |run: &Kept, is_new| Finished { attempt: Attempt::new(run.attempt), state, is_new };
        if self.runs[place].state == state {
            return Ok(finished(&self.runs[place], false));
        }
        let place = self.live(clock, id, attempt)?;
        let now = self.touch(clock, place);
        let run = &mut self.runs[place];
        (run.state, run.finished) = (state, Some(now));
        Ok(finished(run, true))
    }

    /// See [`Runs::retry`](crate::run::Runs::retry).
    pub fn retry(&mut self, clock: u64, id: &str, from: Attempt) -> Granted<Started> {
        let place = self.known(clock, id)?;
        let run = &self.runs[place];
        let (state, attempt, is_ended) = (run.state, Attempt::new(run.attempt), run.state.is_terminal());
        if run.attempt == from.get() + 1 {
            return match is_ended {
                true => Err(Refusal::Ended { state, attempt }),
                false => Ok(Started { attempt, state, is_new: false }),
            };
        }
        if attempt != from {
            return Err(Refusal::Stale { current: attempt });
        }
        if !is_ended {
            return Err(Refusal::Live { state, attempt });
        }
        let now = self.touch(clock, place);
        let run = &mut self.runs[place];
        run.attempt += 1;
        (run.state, run.finished, run.attempt_started) = (RunState::Running, None, now);
        run.processed_before = run.processed.len() as u64;
        Ok(Started { attempt: Attempt::new(run.attempt), state: run.state, is_new: true })
    }

    /// See [`Runs::expire`](crate::run::Runs::expire).
    pub fn expire(
        &mut self,
        clock: u64,
        id: &str,
        attempt: Option<Attempt>,
        after: Duration,
    ) -> Granted<Timestamp> {
        let place = self.meant(clock, id, attempt)?;
        let now = self.now(clock, &self.runs[place]);
        let ends = self.ends(clock, &self.runs[place]).min(now + after.as_millis() as u64);
        let run = &mut self.runs[place];
        (run.updated, run.ends, run.latest_end) = (now, ends, ends);
        Ok(at(ends))
    }

    /// See [`Runs::delete`](crate::run::Runs::delete).
    pub fn delete(&mut self, clock: u64, id: &str, attempt: Option<Attempt>) -> Granted<()> {
        let place = self.meant(clock, id, attempt)?;
        let now = self.now(clock, &self.runs[place]);
        let ends = self.ends(clock, &self.runs[place]);
        let run = &mut self.runs[place];
        (run.is_deleted, run.updated, run.ends, run.latest_end) = (true, now, ends, ends);
        Ok(())
    }

    /// See [`Runs::processed`](crate::run::Runs::processed).
    pub fn processed(
        &mut self,
        clock: u64,
        id: &str,
        attempt: Option<Attempt>,
        items: &[&str],
    ) -> Granted<Processed> {
        let place = self.live(clock, id, attempt)?;
        self.touch(clock, place);
        let (mut new, mut is_full) = (0, false);
        let run = &mut self.runs[place];
        for item in items {
            let is_known = run.processed.iter().any(|known| known == item);
            if !is_known && run.processed.len() >= self.options.max_processed {
                is_full = true;
                continue;
            }
            if !is_known {
                run.processed.push((*item).to_owned());
                new += 1;
            }
            for (failure, _) in run.failures.iter_mut().filter(|(failure, _)| failure.item == **item) {
                failure.to_retry = false;
            }
        }
        let processed = run.processed.len() as u64;
        if is_full { Err(Refusal::Full { taken: new }) } else { Ok(Processed { new, processed }) }
    }

    /// See [`Runs::is_processed`](crate::run::Runs::is_processed).
    pub fn is_processed(&mut self, clock: u64, id: &str, items: &[&str]) -> Granted<Vec<bool>> {
        let place = self.known(clock, id)?;
        let processed = &self.runs[place].processed;
        Ok(items.iter().map(|item| processed.iter().any(|known| known == item)).collect())
    }

    /// See [`Runs::progress`](crate::run::Runs::progress).
    pub fn progress(&mut self, clock: u64, id: &str) -> Granted<Progress> {
        let place = self.known(clock, id)?;
        let run = &self.runs[place];
        let until = run.finished.unwrap_or(self.now(clock, run));
        let (processed, elapsed) = (run.processed.len() as u64, until.saturating_sub(run.attempt_started));
        let done = processed - run.processed_before;
        let rate = if elapsed == 0 { 0.0 } else { done as f64 * 1_000_000.0 / elapsed as f64 };
        let left =
            run.total.filter(|_| !run.state.is_terminal()).map(|total| total.saturating_sub(processed));
        let estimated_end = match left {
            None => None,
            Some(0) => Some(at(until)),
            Some(_) if done == 0 => None,
            // Small numbers: nothing overflows.
            Some(left) => Some(at(until + (left * elapsed).div_ceil(done))),
        };
        Ok(Progress {
            processed,
            failed: run.failures.len() as u64,
            to_retry: run.failures.iter().filter(|(failure, _)| failure.to_retry).count() as u64,
            total: run.total,
            rate_per_second: rate.round() / 1000.0,
            estimated_end,
            lost_at: None,
        })
    }

    /// See [`Runs::task_started`](crate::run::Runs::task_started).
    pub fn task_started(
        &mut self,
        clock: u64,
        id: &str,
        attempt: Option<Attempt>,
        name: &str,
    ) -> Granted<TaskStarted> {
        let place = self.live(clock, id, attempt)?;
        let run = &self.runs[place];
        let attempt = Attempt::new(run.attempt);
        match run.tasks.iter().find(|task| task.name == name) {
            Some(task) if task.attempt == attempt => {
                return Ok(TaskStarted { started_at: task.started_at, is_new: false });
            }
            None if run.tasks.len() >= self.options.max_tasks => return Err(Refusal::TooManyTasks),
            _ => {}
        }
        let started_at = at(self.touch(clock, place));
        let run = &mut self.runs[place];
        run.tasks.retain(|task| task.name != name);
        run.tasks.push(Task { name: name.to_owned(), attempt, started_at, finished_at: None });
        Ok(TaskStarted { started_at, is_new: true })
    }

    /// See [`Runs::task_finished`](crate::run::Runs::task_finished).
    pub fn task_finished(
        &mut self,
        clock: u64,
        id: &str,
        attempt: Option<Attempt>,
        name: &str,
    ) -> Granted<Duration> {
        let place = self.live(clock, id, attempt)?;
        let number = self.runs[place].tasks.iter().position(|task| task.name == name);
        let number = number.ok_or(Refusal::UnknownTask)?;
        if self.runs[place].tasks[number].finished_at.is_none() {
            let finished_at = at(self.touch(clock, place));
            self.runs[place].tasks[number].finished_at = Some(finished_at);
        }
        Ok(self.runs[place].tasks[number].duration().unwrap_or_default())
    }

    /// See [`Runs::tasks`](crate::run::Runs::tasks).
    pub fn tasks(&mut self, clock: u64, id: &str) -> Granted<Vec<Task>> {
        let place = self.known(clock, id)?;
        let mut tasks = self.runs[place].tasks.clone();
        tasks.sort_by(|one, other| (one.started_at, &one.name).cmp(&(other.started_at, &other.name)));
        Ok(tasks)
    }

    /// See [`Runs::failed`](crate::run::Runs::failed).
    pub fn failed(
        &mut self,
        clock: u64,
        id: &str,
        attempt: Option<Attempt>,
        item: &str,
        reason: &str,
        call: &str,
    ) -> Granted<FailureNoted> {
        let place = self.live(clock, id, attempt)?;
        let known = self.runs[place].failures.iter().position(|(failure, _)| failure.item == item);
        if let Some(known) = known
            && self.runs[place].failures[known].1 == call
        {
            let count = self.runs[place].failures[known].0.count;
            return Ok(FailureNoted { count, is_new: false, dropped: None });
        }
        let now = at(self.touch(clock, place));
        let failures = &mut self.runs[place].failures;
        let before = known.map(|known| failures.remove(known).0);
        let mut dropped = None;
        if before.is_none() && failures.len() >= self.options.max_failures {
            let oldest =
                (0..failures.len()).min_by_key(|it| (failures[*it].0.last_at, &failures[*it].0.item));
            dropped = oldest.map(|oldest| failures.remove(oldest).0.item);
        }
        let failure = Failure {
            item: item.to_owned(),
            reason: reason.to_owned(),
            count: before.as_ref().map_or(1, |before| before.count + 1),
            first_at: before.map_or(now, |before| before.first_at),
            last_at: now,
            to_retry: true,
        };
        let count = failure.count;
        failures.push((failure, call.to_owned()));
        Ok(FailureNoted { count, is_new: true, dropped })
    }

    /// All of [`Runs::failures`](crate::run::Runs::failures).
    pub fn failures(&mut self, clock: u64, id: &str) -> Granted<Vec<Failure>> {
        let place = self.known(clock, id)?;
        let mut all: Vec<_> = self.runs[place].failures.iter().map(|(failure, _)| failure.clone()).collect();
        all.sort_by(|one, other| (other.last_at, &other.item).cmp(&(one.last_at, &one.item)));
        Ok(all)
    }

    /// All of [`Runs::retry_list`](crate::run::Runs::retry_list).
    pub fn retry_list(&mut self, clock: u64, id: &str) -> Granted<Vec<Failure>> {
        let mut all = self.failures(clock, id)?;
        all.retain(|failure| failure.to_retry);
        all.reverse();
        Ok(all)
    }

    /// All of [`Runs::failures_in_hour`](crate::run::Runs::failures_in_hour).
    pub fn failures_in_hour(&mut self, clock: u64, hour: Hour) -> Vec<RunFailure> {
        let mut all = Vec::new();
        for run in self.list(clock, None) {
            let now = self.runs.iter().find(|it| it.id == run.id).map_or(clock, |it| self.now(clock, it));
            for failure in self.failures(clock, &run.id).unwrap_or_default() {
                if Hour::of(failure.last_at) == hour && failure.last_at.as_millis() + self.ttl() > now {
                    all.push(RunFailure { run: run.id.clone(), failure });
                }
            }
        }
        // Those of one moment by how the index calls them.
        let name = |it: &RunFailure| format!("{}:{}{}", it.run.len(), it.run, it.failure.item);
        all.sort_by_key(|it| std::cmp::Reverse((it.failure.last_at, name(it))));
        all
    }

    /// See [`Runs::cleanup`](crate::run::Runs::cleanup).
    pub fn cleanup(&mut self, clock: u64) {
        self.runs.retain(|run| run.ends + KEPT_MS > clock);
    }

    /// The attempt that a run is in, deleted or not.
    pub fn attempt(&self, id: &str) -> Option<u64> {
        self.runs.iter().find(|run| run.id == id).map(|run| run.attempt)
    }

    /// When runs end, and when their keys are renewed: the edges of time.
    pub fn edges(&self) -> Vec<u64> {
        let edges = |run: &Kept| [run.ends, run.updated, run.ends + KEPT_MS, run.updated + self.ttl() / 100];
        self.runs.iter().flat_map(edges).collect()
    }
}
