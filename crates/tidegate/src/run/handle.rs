//! A space of runs on a store: the same calls wherever that is.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use super::in_process::InProcess;
use super::metrics::RunMetrics;
use super::options::{RunOptions, check_items};
use super::progress::Progress;
use super::redis::OnRedis;
use super::types::{
    Answer, Attempt, Failure, FailureNoted, Finished, Listed, Processed, Run, RunFailure, RunState, Started,
    Task, TaskStarted, Update, Updated, check_retry, check_terminal,
};
use crate::clock::Timestamp;
use crate::error::Result;
use crate::hour::Hour;
use crate::key::{Key, Name};
use crate::metrics::Metrics;
use crate::page::{self, Cursor, Order, Page};
use crate::reaper::{self, Reaper, ReaperMetrics, Rhythm};
use crate::registry::OpenPart;
use crate::store::{self, MemoryStore, Part, PartKind, Spread, Store, partitions};
use crate::{Background, Tidegate};

/// A space of runs on a store. Clones share it.
#[derive(Debug, Clone)]
pub struct Runs {
    core: Arc<Core>,
    /// What runs in the background for it, for as long as somebody holds it.
    _background: Option<Arc<Background>>,
}

#[derive(Debug)]
struct Core {
    space: Name,
    options: RunOptions,
    /// Of runs.
    spread: Spread,
    backend: Backend,
    metrics: RunMetrics,
}

#[derive(Debug)]
enum Backend {
    Memory(InProcess),
    Redis(Box<[OnRedis]>),
}

impl OpenPart for Runs {
    const KIND: PartKind = PartKind::Runs;
    type Options = RunOptions;

    fn open(store: &Store, name: Name, options: &RunOptions, metrics: &Metrics) -> Result<Self> {
        options.check()?;
        let metrics = RunMetrics::new(metrics, name.as_str());
        let (backend, spread) = match store.backend() {
            store::Backend::Memory(MemoryStore { clock, spread, .. }) => {
                let space = InProcess::counted(options.clone(), clock.clone(), *spread, metrics.clone());
                (Backend::Memory(space), *spread)
            }
            store::Backend::Redis(store) => {
                let spread = store.subjects();
                let bounds = options.bounds(spread.partitions());
                let partition = |it| OnRedis::new(store.clone(), &name, options, bounds, it);
                (Backend::Redis((0..spread.partitions()).map(partition).collect()), spread)
            }
        };
        let core = Core { space: name, options: options.clone(), spread, backend, metrics };
        Ok(Self { core: Arc::new(core), _background: None })
    }

    fn part_name(&self) -> &Name {
        self.space()
    }

    fn has(&self, options: &RunOptions) -> bool {
        self.options() == options
    }

    fn declared(&self) -> (Part, Duration) {
        let Core { space, options, .. } = &*self.core;
        (options.declared(space), options.state_ttl)
    }

    fn reapers(&self, metrics: &Metrics) -> Vec<Reaper> {
        let Core { space, options, .. } = &*self.core;
        let batch = NonZeroUsize::new(options.batch).unwrap_or(NonZeroUsize::MIN);
        let rhythm = Rhythm { interval: options.cleanup_interval, batch };
        let metrics = ReaperMetrics::new(metrics, "run").in_space(space.as_str());
        vec![Reaper::of(self, rhythm, metrics, async |it, batch| it.sweep(batch).await)]
    }

    fn with(&self, background: &Arc<Background>) -> Self {
        Self { core: self.core.clone(), _background: Some(background.clone()) }
    }
}

impl Tidegate {
    /// The space of runs called `name`. Asked again with the same options it is the same space;
    /// with others it is an error.
    pub fn runs(&self, name: &str, options: RunOptions) -> Result<Runs> {
        self.open_space(name, &options)
    }
}

impl Runs {
    /// The name.
    pub fn space(&self) -> &Name {
        &self.core.space
    }

    /// How its runs live.
    pub fn options(&self) -> &RunOptions {
        &self.core.options
    }

    /// The space in this process, if that is where it is: its calls need no `await`.
    pub fn in_process(&self) -> Option<&InProcess> {
        match &self.core.backend {
            Backend::Memory(space) => Some(space),
            Backend::Redis(_) => None,
        }
    }

    /// The partition of a run.
    fn number(&self, run: Key<'_>) -> usize {
        self.core.spread.partition(run.as_str()) as usize
    }

    /// Starts a run, unless it is live already. One that has ended is refused: only a
    /// [`retry`](Self::retry) leads on.
    pub async fn start(&self, run: Key<'_>) -> Result<Answer<Started>> {
        match &self.core.backend {
            Backend::Memory(space) => Ok(space.start(run)),
            Backend::Redis(partitions) => {
                let started = partitions[self.number(run)].start(run).await?;
                self.core.metrics.start(&started);
                Ok(started.into())
            }
        }
    }

    /// A run as it is.
    pub async fn get(&self, run: Key<'_>) -> Result<Option<Run>> {
        match &self.core.backend {
            Backend::Memory(space) => Ok(space.get(run)),
            Backend::Redis(partitions) => partitions[self.number(run)].get(run).await,
        }
    }

    /// Up to `limit` runs, of one state or all, the one that was started last first; those behind
    /// `after`, the `next` of a page, if there is one.
    pub async fn list(
        &self,
        state: Option<RunState>,
        after: Option<&Cursor>,
        limit: usize,
    ) -> Result<Page<Listed>> {
        let partitions = match &self.core.backend {
            Backend::Memory(space) => return space.list(state, after, limit),
            Backend::Redis(partitions) => partitions,
        };
        page::check(limit)?;
        let parts = partitions::all(partitions.iter().map(|it| it.list(state, after, limit))).await?;
        Ok(page::merge(parts, limit, Order::NewestFirst))
    }

    /// Changes the state of a run, to another live one, its fields or its total.
    ///
    /// Like every call that changes a run it may name the attempt that it belongs to: if the run is
    /// in another it is refused, and without one it is for the attempt that the run is in.
    pub async fn update(
        &self,
        run: Key<'_>,
        attempt: Option<Attempt>,
        update: &Update,
    ) -> Result<Answer<Updated>> {
        match &self.core.backend {
            Backend::Memory(space) => space.update(run, attempt, update),
            Backend::Redis(partitions) => {
                self.core.options.check_update(update)?;
                let updated = partitions[self.number(run)].update(run, attempt, update).await?;
                self.core.metrics.noted(&updated);
                Ok(updated.into())
            }
        }
    }

    /// Ends a run in a terminal state. In the state that it ended in it is a repetition, which
    /// changes nothing.
    pub async fn finish(
        &self,
        run: Key<'_>,
        attempt: Option<Attempt>,
        state: RunState,
    ) -> Result<Answer<Finished>> {
        match &self.core.backend {
            Backend::Memory(space) => space.finish(run, attempt, state),
            Backend::Redis(partitions) => {
                check_terminal(state)?;
                let finished = partitions[self.number(run)].finish(run, attempt, state).await?;
                self.core.metrics.finish(&finished);
                Ok(finished.into())
            }
        }
    }

    /// Leads a run on that ended in the attempt `from`, in the next; what was done stays. Repeated
    /// it changes nothing.
    pub async fn retry(&self, run: Key<'_>, from: Attempt) -> Result<Answer<Started>> {
        match &self.core.backend {
            Backend::Memory(space) => space.retry(run, from),
            Backend::Redis(partitions) => {
                check_retry(from)?;
                let retried = partitions[self.number(run)].retry(run, from).await?;
                self.core.metrics.retry(&retried);
                Ok(retried.into())
            }
        }
    }

    /// Lets a run end after so long at the latest, whatever is done to it meanwhile; when it does.
    /// It is never made to live longer. One that has ended can be made to end earlier too.
    pub async fn expire(
        &self,
        run: Key<'_>,
        attempt: Option<Attempt>,
        after: Duration,
    ) -> Result<Answer<Timestamp>> {
        match &self.core.backend {
            Backend::Memory(space) => Ok(space.expire(run, attempt, after)),
            Backend::Redis(partitions) => {
                let expired = partitions[self.number(run)].expire(run, attempt, after).await?;
                self.core.metrics.noted(&expired);
                Ok(expired.into())
            }
        }
    }

    /// Deletes a run, whatever state it is in. For the rest of its life its attempt is remembered:
    /// if it is started again that is in a higher one.
    pub async fn delete(&self, run: Key<'_>, attempt: Option<Attempt>) -> Result<Answer<()>> {
        match &self.core.backend {
            Backend::Memory(space) => Ok(space.delete(run, attempt)),
            Backend::Redis(partitions) => {
                let deleted = partitions[self.number(run)].delete(run, attempt).await?;
                self.core.metrics.noted(&deleted);
                Ok(deleted.into())
            }
        }
    }

    /// Notes that items are processed, up to [`MAX_ITEMS`](super::MAX_ITEMS) of them; how many had
    /// not been. Repeated it changes nothing, and finds none that are new.
    ///
    /// More than a thousand are added some at a time. If it fails in between, those before stay
    /// added, and the call can be made again; if the run ends in between, the refusal says how many
    /// ([`Interrupted`](super::Refusal::Interrupted)).
    pub async fn processed(
        &self,
        run: Key<'_>,
        attempt: Option<Attempt>,
        items: &[Key<'_>],
    ) -> Result<Answer<Processed>> {
        match &self.core.backend {
            Backend::Memory(space) => space.processed(run, attempt, items),
            Backend::Redis(partitions) => {
                check_items(items.len())?;
                let processed = partitions[self.number(run)].processed(run, attempt, items).await?;
                self.core.metrics.processed(&processed);
                Ok(processed.into())
            }
        }
    }

    /// Whether each of these items is processed, up to [`MAX_ITEMS`](super::MAX_ITEMS) of them.
    pub async fn is_processed(&self, run: Key<'_>, items: &[Key<'_>]) -> Result<Answer<Vec<bool>>> {
        match &self.core.backend {
            Backend::Memory(space) => space.is_processed(run, items),
            Backend::Redis(partitions) => {
                check_items(items.len())?;
                Ok(partitions[self.number(run)].is_processed(run, items).await?.into())
            }
        }
    }

    /// How far a run is.
    pub async fn progress(&self, run: Key<'_>) -> Result<Answer<Progress>> {
        match &self.core.backend {
            Backend::Memory(space) => Ok(space.progress(run)),
            Backend::Redis(partitions) => Ok(partitions[self.number(run)].progress(run).await?.into()),
        }
    }

    /// Notes that a task has begun. One that was started in this attempt is left alone, finished or not, so that a
    /// call that comes twice, however late, starts nothing anew: what is done several times in an attempt has a name
    /// for each time. In the next attempt it starts anew.
    pub async fn task_started(
        &self,
        run: Key<'_>,
        attempt: Option<Attempt>,
        task: Key<'_>,
    ) -> Result<Answer<TaskStarted>> {
        match &self.core.backend {
            Backend::Memory(space) => Ok(space.task_started(run, attempt, task)),
            Backend::Redis(partitions) => {
                let started = partitions[self.number(run)].task_started(run, attempt, task).await?;
                self.core.metrics.noted(&started);
                Ok(started.into())
            }
        }
    }

    /// Notes that a task is finished; how long it took. Repeated it changes nothing.
    pub async fn task_finished(
        &self,
        run: Key<'_>,
        attempt: Option<Attempt>,
        task: Key<'_>,
    ) -> Result<Answer<Duration>> {
        match &self.core.backend {
            Backend::Memory(space) => Ok(space.task_finished(run, attempt, task)),
            Backend::Redis(partitions) => {
                let finished = partitions[self.number(run)].task_finished(run, attempt, task).await?;
                self.core.metrics.noted(&finished);
                Ok(finished.into())
            }
        }
    }

    /// The tasks of a run, in the order in which they were started.
    pub async fn tasks(&self, run: Key<'_>) -> Result<Answer<Vec<Task>>> {
        match &self.core.backend {
            Backend::Memory(space) => Ok(space.tasks(run)),
            Backend::Redis(partitions) => {
                Ok(partitions[self.number(run)].tasks(run).await?.map(Task::sorted).into())
            }
        }
    }

    /// Notes that an item has failed, and why. `id` is the call's own: the last one again changes
    /// nothing, so that a call whose answer was lost can be made again.
    ///
    /// One entry is kept per item, of [`max_failures`](RunOptions::max_failures) items; then that
    /// leaves which has not failed for longest, and is told.
    pub async fn failed(
        &self,
        run: Key<'_>,
        attempt: Option<Attempt>,
        item: Key<'_>,
        reason: &str,
        id: Key<'_>,
    ) -> Result<Answer<FailureNoted>> {
        match &self.core.backend {
            Backend::Memory(space) => space.failed(run, attempt, item, reason, id),
            Backend::Redis(partitions) => {
                self.core.options.check_reason(reason)?;
                let failed = partitions[self.number(run)].failed(run, attempt, item, reason, id).await?;
                self.core.metrics.failed(&failed);
                Ok(failed.into())
            }
        }
    }

    /// The failures of a run, one per item, the latest first: up to `limit`, those behind `after`.
    pub async fn failures(
        &self,
        run: Key<'_>,
        after: Option<&Cursor>,
        limit: usize,
    ) -> Result<Answer<Page<Failure>>> {
        match &self.core.backend {
            Backend::Memory(space) => space.failures(run, after, limit),
            Backend::Redis(partitions) => {
                page_of(&partitions[self.number(run)], run, Order::NewestFirst, after, limit).await
            }
        }
    }

    /// Items of a run that failed and were not processed since, the longest ago first.
    pub async fn retry_list(
        &self,
        run: Key<'_>,
        after: Option<&Cursor>,
        limit: usize,
    ) -> Result<Answer<Page<Failure>>> {
        match &self.core.backend {
            Backend::Memory(space) => space.retry_list(run, after, limit),
            Backend::Redis(partitions) => {
                page_of(&partitions[self.number(run)], run, Order::OldestFirst, after, limit).await
            }
        }
    }

    /// Items of all runs that failed last in an hour of UTC, the latest first; not those whose run
    /// has ended or was deleted, nor those that failed longer ago than
    /// [`state_ttl`](RunOptions::state_ttl).
    pub async fn failures_in_hour(
        &self,
        hour: Hour,
        after: Option<&Cursor>,
        limit: usize,
    ) -> Result<Page<RunFailure>> {
        let partitions = match &self.core.backend {
            Backend::Memory(space) => return space.failures_in_hour(hour, after, limit),
            Backend::Redis(partitions) => partitions,
        };
        page::check(limit)?;
        let parts = partitions.iter().map(|it| it.failures_in_hour(hour, after, limit));
        Ok(page::merge(partitions::all(parts).await?, limit, Order::NewestFirst))
    }

    /// Takes all runs away whose time is over; how many there were. It is done in the background
    /// anyway, and for every other call they are gone when their time is over.
    pub async fn cleanup(&self) -> Result<usize> {
        let mut removed = 0;
        loop {
            let step = self.sweep(self.core.options.batch).await?;
            removed += step.items;
            if !step.is_more {
                return Ok(removed);
            }
        }
    }

    /// One step of it.
    async fn sweep(&self, limit: usize) -> Result<reaper::Progress> {
        let partitions = match &self.core.backend {
            Backend::Memory(space) => {
                let items = space.sweep(limit);
                return Ok(reaper::Progress { items, is_more: items > 0 });
            }
            Backend::Redis(partitions) => partitions,
        };
        let (steps, failed) = partitions::reached(partitions.iter().map(|it| it.cleanup(limit))).await?;
        let removed = steps.iter().map(|step| step.removed).sum();
        let is_more = steps.iter().any(|step| step.is_more);
        self.core.metrics.removed(removed);
        failed?;
        let mut counts = [0; RunState::ALL.len()];
        for step in &steps {
            counts.iter_mut().zip(step.counts).for_each(|(sum, count)| *sum += count);
        }
        self.core.metrics.counted(counts);
        Ok(reaper::Progress { items: removed, is_more })
    }
}

/// Failures of a run: all, the latest first, or those to retry, the longest ago first.
async fn page_of(
    partition: &OnRedis,
    run: Key<'_>,
    order: Order,
    after: Option<&Cursor>,
    limit: usize,
) -> Result<Answer<Page<Failure>>> {
    page::check(limit)?;
    let part = partition.failures(run, order == Order::OldestFirst, after, limit).await?;
    Ok(part.map(|part| page::merge(vec![part], limit, order)).into())
}
