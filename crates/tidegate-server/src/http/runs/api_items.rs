//! What is said about what a run has done: items, tasks, failures.

use std::borrow::Cow;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tidegate::clock::Timestamp;
use tidegate::run::{self, MAX_ITEMS};
use tidegate::{Cursor, Key};

use crate::api::{Invalid, RequestBody, borrowing, key, ms, response};

/// Items that were processed, or of which it is asked whether they were.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "an object with items")]
#[schemars(rename = "RunItems")]
pub(crate) struct Items<'a> {
    #[serde(borrow)]
    #[schemars(length(max = MAX_ITEMS), inner(length(min = 1, max = 255)))]
    pub(crate) items: Vec<Cow<'a, str>>,
}

impl Items<'_> {
    pub(crate) fn keys(&self) -> Result<Vec<Key<'_>>, Invalid> {
        self.items.iter().map(|item| key("an item", item)).collect()
    }
}

/// An item that failed.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "an object with item, reason and id")]
#[schemars(rename = "RunItemFailed")]
pub(crate) struct ItemFailed<'a> {
    #[serde(borrow)]
    #[schemars(length(min = 1, max = 255))]
    pub(crate) item: Cow<'a, str>,
    #[serde(default, borrow)]
    pub(crate) reason: Cow<'a, str>,
    /// Sent again with the same it counts once.
    #[serde(borrow)]
    #[schemars(length(min = 1, max = 255))]
    pub(crate) id: Cow<'a, str>,
}

borrowing!(ItemFailed);

impl RequestBody for Items<'static> {
    type Read<'a> = Items<'a>;
    /// As many items as are allowed at once, of the longest that are, are no more bytes than this
    /// unless most of them have to be escaped.
    const LEAST_BYTES: usize = 4 << 20;
}

response! {
    /// Items that were noted as processed.
    #[schemars(rename = "RunProcessed")]
    struct Processed of(space, run) from(it: &run::Processed) {
        /// How many of them had not been before.
        new: u64 = it.new,
        /// How many there are now.
        processed: u64 = it.processed,
    }

    /// Of each item, in the order asked, whether it was processed.
    #[schemars(rename = "RunIsProcessed")]
    struct IsProcessed of(space, run) from(processed: Vec<bool>) {
        processed: Vec<bool> = processed,
    }

    /// How far a run is.
    #[schemars(rename = "RunProgress")]
    struct Progress of(space, run) from(it: &run::Progress) {
        processed: u64 = it.processed,
        /// Items whose failures are known.
        failed: u64 = it.failed,
        /// Those of them that were not processed since.
        to_retry: u64 = it.to_retry,
        /// How many items there are to process, if anybody has said so.
        total: Option<u64> = it.total,
        /// Items per second that were processed in this attempt.
        rate_per_second: f64 = it.rate_per_second,
        /// When all will be processed at that rate; of a live run whose total is known.
        estimated_end_ms: Option<u64> = it.estimated_end.map(Timestamp::as_millis),
        /// When the store was last found to have lost writes since the run was started: what was noted before may be
        /// missing.
        lost_at_ms: Option<u64> = it.lost_at.map(Timestamp::as_millis),
    }

    /// A task that was started.
    #[schemars(rename = "RunTaskStarted")]
    struct TaskStarted of(space, run, task) from(it: &run::TaskStarted) {
        started_at_ms: u64 = it.started_at.as_millis(),
        /// Whether this request did it; if not it was started before in this attempt, and may be finished.
        is_new: bool = it.is_new,
    }

    /// A task that was finished.
    #[schemars(rename = "RunTaskFinished")]
    struct TaskFinished of(space, run, task) from(duration: Duration) {
        duration_ms: u64 = ms(duration),
    }

    /// The tasks of a run.
    #[schemars(rename = "RunTasks")]
    struct Tasks of(space, run) from(tasks: Vec<run::Task>) {
        tasks: Vec<Task> = tasks.into_iter().map(Task::new).collect(),
    }

    #[schemars(rename = "RunTask")]
    struct Task from(it: run::Task) {
        task: String = it.name.clone(),
        /// The attempt in which it was last started.
        attempt: u64 = it.attempt.get(),
        started_at_ms: u64 = it.started_at.as_millis(),
        /// `null` while it is under way.
        finished_at_ms: Option<u64> = it.finished_at.map(Timestamp::as_millis),
        duration_ms: Option<u64> = it.duration().map(ms),
    }

    /// A failure that was noted.
    #[schemars(rename = "RunFailureNoted")]
    struct FailureNoted of(space, run) from(item: &str, it: run::FailureNoted) {
        item: String = item.to_owned(),
        /// How often it has failed.
        count: u64 = it.count,
        /// Whether this request counted; if not it was the last one again.
        is_new: bool = it.is_new,
        /// An item whose failures were dropped to make room.
        dropped: Option<String> = it.dropped,
    }

    /// Failures.
    #[schemars(rename = "RunFailures")]
    struct Failures of(space) from(failures: Vec<Failure>, next: Option<Cursor>) {
        failures: Vec<Failure> = failures,
        /// Where the next page begins; `null` if there is none.
        next: Option<String> = next.map(|next| next.to_string()),
    }

    #[schemars(rename = "RunFailure")]
    struct Failure of(run) from(it: run::Failure) {
        item: String = it.item,
        /// Why, the last time.
        reason: String = it.reason,
        count: u64 = it.count,
        first_at_ms: u64 = it.first_at.as_millis(),
        last_at_ms: u64 = it.last_at.as_millis(),
        /// Whether it was not processed since.
        to_retry: bool = it.to_retry,
    }
}
