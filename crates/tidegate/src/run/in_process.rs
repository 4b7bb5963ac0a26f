//! Runs in this process: synchronous, bounded in number.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use super::memory::Partition;
use super::metrics::RunMetrics;
use super::options::{RunOptions, check_items};
use super::progress::Progress;
use super::types::{
    Answer, Attempt, Failure, FailureNoted, Finished, Listed, Processed, Run, RunFailure, RunState, Started,
    Task, TaskStarted, Update, Updated, check_retry, check_terminal,
};
use crate::clock::{Clock, Timestamp};
use crate::error::Result;
use crate::hour::Hour;
use crate::key::Key;
use crate::metrics::Metrics;
use crate::page::{self, Cursor, Order, Page};
use crate::store::Spread;

/// A space of runs in this process. Clones share it.
///
/// Nothing runs in the background: runs whose time is over are gone for every call, and
/// [`cleanup`](Self::cleanup) frees their memory.
///
/// ```
/// use tidegate::Key;
/// use tidegate::run::{Answer, InProcess, Processed, RunOptions};
///
/// let runs = InProcess::new(RunOptions::new())?;
/// let (run, items) = (Key::new("nightly")?, [Key::new("007")?, Key::new("008")?]);
/// assert!(runs.start(run).is_done());
/// assert_eq!(runs.processed(run, None, &items)?, Answer::Done(Processed { new: 2, processed: 2 }));
/// assert_eq!(runs.processed(run, None, &items)?, Answer::Done(Processed { new: 0, processed: 2 }));
/// # Ok::<(), tidegate::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct InProcess {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    options: RunOptions,
    clock: Clock,
    /// Of runs.
    spread: Spread,
    partitions: Box<[Mutex<Partition>]>,
    metrics: RunMetrics,
}

impl InProcess {
    /// A space on the system's clock.
    pub fn new(options: RunOptions) -> Result<Self> {
        Self::with_clock(options, Clock::system())
    }

    /// A space on `clock`.
    pub fn with_clock(options: RunOptions, clock: Clock) -> Result<Self> {
        options.check()?;
        let metrics = RunMetrics::new(&Metrics::default(), "");
        Ok(Self::counted(options, clock, Spread::ONE, metrics))
    }

    /// One whose options were checked.
    pub(super) fn counted(options: RunOptions, clock: Clock, spread: Spread, metrics: RunMetrics) -> Self {
        let bounds = options.bounds(spread.partitions());
        let partition = |_| Mutex::new(Partition::new(bounds, clock.slack_ms()));
        let partitions = (0..spread.partitions()).map(partition).collect();
        Self { shared: Arc::new(Shared { options, clock, spread, partitions, metrics }) }
    }

    /// How its runs live.
    pub fn options(&self) -> &RunOptions {
        &self.shared.options
    }

    /// Does something with the partition of a run.
    fn on<R>(&self, run: Key<'_>, act: impl FnOnce(&mut Partition, u64) -> R) -> R {
        let partition = &self.shared.partitions[self.shared.spread.partition(run.as_str()) as usize];
        act(&mut partition.lock(), self.shared.clock.now().as_millis())
    }

    /// The same with each.
    fn each<R>(&self, act: impl Fn(&mut Partition, u64) -> R) -> impl Iterator<Item = R> {
        let partitions = self.shared.partitions.iter();
        partitions.map(move |it| act(&mut it.lock(), self.shared.clock.now().as_millis()))
    }

    /// Starts a run, unless it is live already.
    pub fn start(&self, run: Key<'_>) -> Answer<Started> {
        let started = self.on(run, |it, now_ms| it.start(now_ms, run));
        self.shared.metrics.start(&started);
        started.into()
    }

    /// A run as it is.
    pub fn get(&self, run: Key<'_>) -> Option<Run> {
        self.on(run, |it, now_ms| it.get(now_ms, run))
    }

    /// Up to `limit` runs, of one state or all, the one that was started last first; those behind
    /// `after`, the `next` of a page, if there is one.
    pub fn list(
        &self,
        state: Option<RunState>,
        after: Option<&Cursor>,
        limit: usize,
    ) -> Result<Page<Listed>> {
        page::check(limit)?;
        let parts = self.each(|it, now_ms| it.list(now_ms, state, after, limit));
        Ok(page::merge(parts.collect(), limit, Order::NewestFirst))
    }

    /// Changes the state of a run, to another live one, its fields or its total.
    pub fn update(&self, run: Key<'_>, attempt: Option<Attempt>, update: &Update) -> Result<Answer<Updated>> {
        self.shared.options.check_update(update)?;
        let updated = self.on(run, |it, now_ms| it.update(now_ms, run, attempt, update));
        self.shared.metrics.noted(&updated);
        Ok(updated.into())
    }

    /// Ends a run in a terminal state. In the state that it ended in it is a repetition, which
    /// changes nothing.
    pub fn finish(
        &self,
        run: Key<'_>,
        attempt: Option<Attempt>,
        state: RunState,
    ) -> Result<Answer<Finished>> {
        check_terminal(state)?;
        let finished = self.on(run, |it, now_ms| it.finish(now_ms, run, attempt, state));
        self.shared.metrics.finish(&finished);
        Ok(finished.into())
    }

    /// Leads a run on that ended in the attempt `from`, in the next; what was done stays. Repeated
    /// it changes nothing.
    pub fn retry(&self, run: Key<'_>, from: Attempt) -> Result<Answer<Started>> {
        check_retry(from)?;
        let retried = self.on(run, |it, now_ms| it.retry(now_ms, run, from));
        self.shared.metrics.retry(&retried);
        Ok(retried.into())
    }

    /// Lets a run end after so long at the latest, whatever is done to it meanwhile; when it does.
    pub fn expire(&self, run: Key<'_>, attempt: Option<Attempt>, after: Duration) -> Answer<Timestamp> {
        let expired = self.on(run, |it, now_ms| it.expire(now_ms, run, attempt, after));
        self.shared.metrics.noted(&expired);
        expired.into()
    }

    /// Deletes a run. For the rest of its life its attempt is remembered: if it is started again
    /// that is in a higher one.
    pub fn delete(&self, run: Key<'_>, attempt: Option<Attempt>) -> Answer<()> {
        let deleted = self.on(run, |it, now_ms| it.delete(now_ms, run, attempt));
        self.shared.metrics.noted(&deleted);
        deleted.into()
    }

    /// Notes that items are processed, up to [`MAX_ITEMS`](super::MAX_ITEMS) of them; how many had
    /// not been.
    pub fn processed(
        &self,
        run: Key<'_>,
        attempt: Option<Attempt>,
        items: &[Key<'_>],
    ) -> Result<Answer<Processed>> {
        check_items(items.len())?;
        let processed = self.on(run, |it, now_ms| it.processed(now_ms, run, attempt, items));
        self.shared.metrics.processed(&processed);
        Ok(processed.into())
    }

    /// Whether each of these items is processed.
    pub fn is_processed(&self, run: Key<'_>, items: &[Key<'_>]) -> Result<Answer<Vec<bool>>> {
        check_items(items.len())?;
        Ok(self.on(run, |it, now_ms| it.is_processed(now_ms, run, items)).into())
    }

    /// How far a run is.
    pub fn progress(&self, run: Key<'_>) -> Answer<Progress> {
        self.on(run, |it, now_ms| it.progress(now_ms, run)).into()
    }

    /// Notes that a task has begun. One that was started in this attempt is left alone, finished or not, so that a
    /// call that comes twice, however late, starts nothing anew: what is done several times in an attempt has a name
    /// for each time. In the next attempt it starts anew.
    pub fn task_started(&self, run: Key<'_>, attempt: Option<Attempt>, task: Key<'_>) -> Answer<TaskStarted> {
        let started = self.on(run, |it, now_ms| it.task_started(now_ms, run, attempt, task));
        self.shared.metrics.noted(&started);
        started.into()
    }

    /// Notes that a task is finished; how long it took. Repeated it changes nothing.
    pub fn task_finished(&self, run: Key<'_>, attempt: Option<Attempt>, task: Key<'_>) -> Answer<Duration> {
        let finished = self.on(run, |it, now_ms| it.task_finished(now_ms, run, attempt, task));
        self.shared.metrics.noted(&finished);
        finished.into()
    }

    /// The tasks of a run, in the order in which they were started.
    pub fn tasks(&self, run: Key<'_>) -> Answer<Vec<Task>> {
        self.on(run, |it, now_ms| it.tasks(now_ms, run)).map(Task::sorted).into()
    }

    /// Notes that an item has failed, and why. `id` is the call's own: the last one again changes
    /// nothing, so that a call whose answer was lost can be made again.
    pub fn failed(
        &self,
        run: Key<'_>,
        attempt: Option<Attempt>,
        item: Key<'_>,
        reason: &str,
        id: Key<'_>,
    ) -> Result<Answer<FailureNoted>> {
        self.shared.options.check_reason(reason)?;
        let failed = self.on(run, |it, now_ms| it.failed(now_ms, run, attempt, item, reason, id));
        self.shared.metrics.failed(&failed);
        Ok(failed.into())
    }

    /// The failures of a run, one per item, the latest first: up to `limit`, those behind `after`.
    pub fn failures(
        &self,
        run: Key<'_>,
        after: Option<&Cursor>,
        limit: usize,
    ) -> Result<Answer<Page<Failure>>> {
        page::check(limit)?;
        let part = self.on(run, |it, now_ms| it.failures(now_ms, run, after, limit));
        Ok(part.map(|part| page::merge(vec![part], limit, Order::NewestFirst)).into())
    }

    /// Items of a run that failed and were not processed since, the longest ago first.
    pub fn retry_list(
        &self,
        run: Key<'_>,
        after: Option<&Cursor>,
        limit: usize,
    ) -> Result<Answer<Page<Failure>>> {
        page::check(limit)?;
        let part = self.on(run, |it, now_ms| it.retry_list(now_ms, run, after, limit));
        Ok(part.map(|part| page::merge(vec![part], limit, Order::OldestFirst)).into())
    }

    /// Items of all runs that failed last in an hour of UTC, the latest first.
    pub fn failures_in_hour(
        &self,
        hour: Hour,
        after: Option<&Cursor>,
        limit: usize,
    ) -> Result<Page<RunFailure>> {
        page::check(limit)?;
        let parts = self.each(|it, now_ms| it.failures_in_hour(now_ms, hour, after, limit));
        Ok(page::merge(parts.collect(), limit, Order::NewestFirst))
    }

    /// Frees the memory of all runs whose time is over; how many there were.
    pub fn cleanup(&self) -> usize {
        let (mut removed, batch) = (0, self.shared.options.batch);
        loop {
            let step = self.sweep(batch);
            removed += step;
            if step == 0 {
                return removed;
            }
        }
    }

    /// The same, up to `limit` in each partition.
    pub(super) fn sweep(&self, limit: usize) -> usize {
        let removed = self.each(|it, now_ms| it.sweep(now_ms, limit)).sum();
        let mut counts = [0; RunState::ALL.len()];
        for part in self.each(|it, _| it.counts()) {
            counts.iter_mut().zip(part).for_each(|(sum, count)| *sum += count);
        }
        self.shared.metrics.removed(removed);
        self.shared.metrics.counted(counts);
        removed
    }
}
