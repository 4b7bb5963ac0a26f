//! A space of runs as a caller sees it, and how a store makes fresh ones.
//!
//! Small on purpose: whoever puts the space behind something else, like HTTP, implements these and
//! has the whole suite.

use std::time::Duration;

use crate::Tidegate;
use crate::clock::{ManualClock, Timestamp};
use crate::error::Result;
use crate::key::Key;
use crate::page::{Cursor, Page};
use crate::run::{
    Answer, Attempt, Failure, FailureNoted, Finished, Hour, Listed, Processed, Progress, Refusal, Run,
    RunFailure, RunOptions, RunState, Runs, Started, Task, TaskStarted, Update, Updated,
};

/// What was asked for, or why not: an [`Answer`] that `?` can be used on.
pub type Granted<T> = std::result::Result<T, Refusal>;

/// A space as a caller sees it.
pub trait Face {
    /// The clock that a case moves.
    fn clock(&self) -> &ManualClock;
    /// A run begins.
    fn start(&self, run: &str) -> impl Future<Output = Result<Granted<Started>>>;
    /// A run as it is.
    fn get(&self, run: &str) -> impl Future<Output = Result<Option<Run>>>;
    /// Runs, the newest first.
    fn list(
        &self,
        state: Option<RunState>,
        after: Option<&Cursor>,
        limit: usize,
    ) -> impl Future<Output = Result<Page<Listed>>>;
    /// Another live state, fields, the total.
    fn update(
        &self,
        run: &str,
        attempt: Option<Attempt>,
        update: &Update,
    ) -> impl Future<Output = Result<Granted<Updated>>>;
    /// The end of a run.
    fn finish(
        &self,
        run: &str,
        attempt: Option<Attempt>,
        state: RunState,
    ) -> impl Future<Output = Result<Granted<Finished>>>;
    /// The next attempt.
    fn retry(&self, run: &str, from: Attempt) -> impl Future<Output = Result<Granted<Started>>>;
    /// A shorter life.
    fn expire(
        &self,
        run: &str,
        attempt: Option<Attempt>,
        after: Duration,
    ) -> impl Future<Output = Result<Granted<Timestamp>>>;
    /// A run is gone, but for its attempt.
    fn delete(&self, run: &str, attempt: Option<Attempt>) -> impl Future<Output = Result<Granted<()>>>;
    /// Items are processed.
    fn processed(
        &self,
        run: &str,
        attempt: Option<Attempt>,
        items: &[&str],
    ) -> impl Future<Output = Result<Granted<Processed>>>;
    /// Whether they are.
    fn is_processed(&self, run: &str, items: &[&str]) -> impl Future<Output = Result<Granted<Vec<bool>>>>;
    /// How far it is.
    fn progress(&self, run: &str) -> impl Future<Output = Result<Granted<Progress>>>;
    /// A task begins.
    fn task_started(
        &self,
        run: &str,
        attempt: Option<Attempt>,
        task: &str,
    ) -> impl Future<Output = Result<Granted<TaskStarted>>>;
    /// A task is finished.
    fn task_finished(
        &self,
        run: &str,
        attempt: Option<Attempt>,
        task: &str,
    ) -> impl Future<Output = Result<Granted<Duration>>>;
    /// All tasks.
    fn tasks(&self, run: &str) -> impl Future<Output = Result<Granted<Vec<Task>>>>;
    /// An item failed.
    fn failed(
        &self,
        run: &str,
        attempt: Option<Attempt>,
        item: &str,
        reason: &str,
        id: &str,
    ) -> impl Future<Output = Result<Granted<FailureNoted>>>;
    /// What failed, the latest first.
    fn failures(
        &self,
        run: &str,
        after: Option<&Cursor>,
        limit: usize,
    ) -> impl Future<Output = Result<Granted<Page<Failure>>>>;
    /// What failed and was not processed since, the longest ago first.
    fn retry_list(
        &self,
        run: &str,
        after: Option<&Cursor>,
        limit: usize,
    ) -> impl Future<Output = Result<Granted<Page<Failure>>>>;
    /// What failed in an hour, of all runs.
    fn failures_in_hour(
        &self,
        hour: Hour,
        after: Option<&Cursor>,
        limit: usize,
    ) -> impl Future<Output = Result<Page<RunFailure>>>;
    /// Takes away what is over.
    fn cleanup(&self) -> impl Future<Output = Result<usize>>;
}

/// All of a list, read page by page; no page is larger than it may be.
async fn all_pages<T, E>(
    limit: usize,
    read: impl AsyncFn(Option<&Cursor>) -> std::result::Result<Page<T>, E>,
) -> std::result::Result<Vec<T>, E> {
    let (mut all, mut after) = (Vec::new(), None);
    loop {
        let page = read(after.as_ref()).await?;
        assert!(page.items.len() <= limit, "a page of {} for {limit}", page.items.len());
        all.extend(page.items);
        match page.next {
            // Places survive being text.
            Some(next) => after = Some(next.to_string().parse().expect("a place")),
            None => return Ok(all),
        }
    }
}

/// All runs, in pages of `limit`.
pub async fn all_runs(face: &impl Face, state: Option<RunState>, limit: usize) -> Vec<Listed> {
    all_pages(limit, async |after| face.list(state, after, limit).await).await.expect("a list")
}

/// All failures of a run, in pages of `limit`.
pub async fn all_failures(face: &impl Face, run: &str, limit: usize) -> Granted<Vec<Failure>> {
    all_pages(limit, async |after| face.failures(run, after, limit).await.expect("a list")).await
}

/// All items of a run to retry, in pages of `limit`.
pub async fn all_to_retry(face: &impl Face, run: &str, limit: usize) -> Granted<Vec<Failure>> {
    all_pages(limit, async |after| face.retry_list(run, after, limit).await.expect("a list")).await
}

/// All failures of an hour, in pages of `limit`.
pub async fn all_in_hour(face: &impl Face, hour: Hour, limit: usize) -> Vec<RunFailure> {
    all_pages(limit, async |after| face.failures_in_hour(hour, after, limit).await).await.expect("a list")
}

/// A space of the library.
#[derive(Debug)]
pub struct Library {
    /// What its keys start with.
    pub namespace: String,
    runs: Runs,
    clock: ManualClock,
}

impl Library {
    /// The space `main` of `gate`, whose namespace and clock these are.
    pub fn new(gate: &Tidegate, options: RunOptions, namespace: String, clock: ManualClock) -> Self {
        Self { runs: gate.runs("main", options).expect("a space"), namespace, clock }
    }
}

fn keys<'a>(texts: &[&'a str]) -> Result<Vec<Key<'a>>> {
    texts.iter().map(|text| Key::new(text)).collect()
}

impl Face for Library {
    fn clock(&self) -> &ManualClock {
        &self.clock
    }

    async fn start(&self, run: &str) -> Result<Granted<Started>> {
        self.runs.start(Key::new(run)?).await.map(Answer::into_result)
    }

    async fn get(&self, run: &str) -> Result<Option<Run>> {
        self.runs.get(Key::new(run)?).await
    }

    async fn list(
        &self,
        state: Option<RunState>,
        after: Option<&Cursor>,
        limit: usize,
    ) -> Result<Page<Listed>> {
        self.runs.list(state, after, limit).await
    }

    async fn update(&self, run: &str, attempt: Option<Attempt>, update: &Update) -> Result<Granted<Updated>> {
        self.runs.update(Key::new(run)?, attempt, update).await.map(Answer::into_result)
    }

    async fn finish(
        &self,
        run: &str,
        attempt: Option<Attempt>,
        state: RunState,
    ) -> Result<Granted<Finished>> {
        self.runs.finish(Key::new(run)?, attempt, state).await.map(Answer::into_result)
    }

    async fn retry(&self, run: &str, from: Attempt) -> Result<Granted<Started>> {
        self.runs.retry(Key::new(run)?, from).await.map(Answer::into_result)
    }

    async fn expire(
        &self,
        run: &str,
        attempt: Option<Attempt>,
        after: Duration,
    ) -> Result<Granted<Timestamp>> {
        self.runs.expire(Key::new(run)?, attempt, after).await.map(Answer::into_result)
    }

    async fn delete(&self, run: &str, attempt: Option<Attempt>) -> Result<Granted<()>> {
        self.runs.delete(Key::new(run)?, attempt).await.map(Answer::into_result)
    }

    async fn processed(
        &self,
        run: &str,
        attempt: Option<Attempt>,
        items: &[&str],
    ) -> Result<Granted<Processed>> {
        self.runs.processed(Key::new(run)?, attempt, &keys(items)?).await.map(Answer::into_result)
    }

    async fn is_processed(&self, run: &str, items: &[&str]) -> Result<Granted<Vec<bool>>> {
        self.runs.is_processed(Key::new(run)?, &keys(items)?).await.map(Answer::into_result)
    }

    async fn progress(&self, run: &str) -> Result<Granted<Progress>> {
        self.runs.progress(Key::new(run)?).await.map(Answer::into_result)
    }

    async fn task_started(
        &self,
        run: &str,
        attempt: Option<Attempt>,
        task: &str,
    ) -> Result<Granted<TaskStarted>> {
        self.runs.task_started(Key::new(run)?, attempt, Key::new(task)?).await.map(Answer::into_result)
    }

    async fn task_finished(
        &self,
        run: &str,
        attempt: Option<Attempt>,
        task: &str,
    ) -> Result<Granted<Duration>> {
        self.runs.task_finished(Key::new(run)?, attempt, Key::new(task)?).await.map(Answer::into_result)
    }

    async fn tasks(&self, run: &str) -> Result<Granted<Vec<Task>>> {
        self.runs.tasks(Key::new(run)?).await.map(Answer::into_result)
    }

    async fn failed(
        &self,
        run: &str,
        attempt: Option<Attempt>,
        item: &str,
        reason: &str,
        id: &str,
    ) -> Result<Granted<FailureNoted>> {
        let (run, item, id) = (Key::new(run)?, Key::new(item)?, Key::new(id)?);
        self.runs.failed(run, attempt, item, reason, id).await.map(Answer::into_result)
    }

    async fn failures(
        &self,
        run: &str,
        after: Option<&Cursor>,
        limit: usize,
    ) -> Result<Granted<Page<Failure>>> {
        self.runs.failures(Key::new(run)?, after, limit).await.map(Answer::into_result)
    }

    async fn retry_list(
        &self,
        run: &str,
        after: Option<&Cursor>,
        limit: usize,
    ) -> Result<Granted<Page<Failure>>> {
        self.runs.retry_list(Key::new(run)?, after, limit).await.map(Answer::into_result)
    }

    async fn failures_in_hour(
        &self,
        hour: Hour,
        after: Option<&Cursor>,
        limit: usize,
    ) -> Result<Page<RunFailure>> {
        self.runs.failures_in_hour(hour, after, limit).await
    }

    async fn cleanup(&self) -> Result<usize> {
        self.runs.cleanup().await
    }
}

/// Makes fresh spaces on one kind of store.
pub trait Kit {
    /// What it makes.
    type Face: Face;
    /// A space that nobody has used, on a clock that starts at [`START_MS`](super::START_MS).
    fn fresh(&self, options: RunOptions) -> impl Future<Output = Self::Face>;
    /// Whether a space has several partitions: each has its part of the bound on runs.
    fn is_partitioned(&self) -> bool {
        false
    }
    /// What can be seen below a space when a history is over.
    fn look_below(&self, _face: &Self::Face) {}
}

/// The defaults, with nothing in the background unless `set` says otherwise.
pub fn options(set: impl FnOnce(&mut RunOptions)) -> RunOptions {
    let cleanup_interval = Duration::from_secs(24 * 3600);
    let mut options = RunOptions { cleanup_interval, ..RunOptions::default() };
    set(&mut options);
    options
}
