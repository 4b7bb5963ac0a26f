//! What is said about what a run has done: items, tasks, failures.

use std::borrow::Cow;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tidegate::Key;
use tidegate::clock::Timestamp;
use tidegate::run::{self, MAX_ITEMS};

use crate::api::{Invalid, borrowing, key};

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

borrowing!(Items, ItemFailed);

/// Items that were noted as processed.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "RunProcessed")]
pub(crate) struct Processed {
    pub(crate) space: String,
    pub(crate) run: String,
    /// How many of them had not been before.
    pub(crate) new: u64,
    /// How many there are now.
    pub(crate) processed: u64,
}

/// Of each item, in the order asked, whether it was processed.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "RunIsProcessed")]
pub(crate) struct IsProcessed {
    pub(crate) space: String,
    pub(crate) run: String,
    pub(crate) processed: Vec<bool>,
}

/// How far a run is.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "RunProgress")]
pub(crate) struct Progress {
    pub(crate) space: String,
    pub(crate) run: String,
    pub(crate) processed: u64,
    /// Items whose failures are known.
    pub(crate) failed: u64,
    /// Those of them that were not processed since.
    pub(crate) to_retry: u64,
    /// How many items there are to process, if anybody has said so.
    pub(crate) total: Option<u64>,
    /// Items per second that were processed in this attempt.
    pub(crate) rate_per_second: f64,
    /// When all will be processed at that rate; of a live run whose total is known.
    pub(crate) estimated_end_ms: Option<u64>,
}

impl Progress {
    pub(crate) fn new(space: &str, run: String, it: &run::Progress) -> Self {
        Self {
            space: space.to_owned(),
            run,
            processed: it.processed,
            failed: it.failed,
            to_retry: it.to_retry,
            total: it.total,
            rate_per_second: it.rate_per_second,
            estimated_end_ms: it.estimated_end.map(Timestamp::as_millis),
        }
    }
}

/// A task that was started.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "RunTaskStarted")]
pub(crate) struct TaskStarted {
    pub(crate) space: String,
    pub(crate) run: String,
    pub(crate) task: String,
    pub(crate) started_at_ms: u64,
    /// Whether this request did it; if not it was under way in this attempt.
    pub(crate) is_new: bool,
}

/// A task that was finished.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "RunTaskFinished")]
pub(crate) struct TaskFinished {
    pub(crate) space: String,
    pub(crate) run: String,
    pub(crate) task: String,
    pub(crate) duration_ms: u64,
}

/// The tasks of a run.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "RunTasks")]
pub(crate) struct Tasks {
    pub(crate) space: String,
    pub(crate) run: String,
    pub(crate) tasks: Vec<Task>,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "RunTask")]
pub(crate) struct Task {
    pub(crate) task: String,
    /// The attempt in which it was last started.
    pub(crate) attempt: u64,
    pub(crate) started_at_ms: u64,
    /// `null` while it is under way.
    pub(crate) finished_at_ms: Option<u64>,
    pub(crate) duration_ms: Option<u64>,
}

impl From<run::Task> for Task {
    fn from(it: run::Task) -> Self {
        Self {
            duration_ms: it.duration().map(ms),
            task: it.name,
            attempt: it.attempt.get(),
            started_at_ms: it.started_at.as_millis(),
            finished_at_ms: it.finished_at.map(Timestamp::as_millis),
        }
    }
}

/// At most sixty days.
pub(crate) fn ms(lasting: Duration) -> u64 {
    lasting.as_millis() as u64
}

/// A failure that was noted.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "RunFailureNoted")]
pub(crate) struct FailureNoted {
    pub(crate) space: String,
    pub(crate) run: String,
    pub(crate) item: String,
    /// How often it has failed.
    pub(crate) count: u64,
    /// Whether this request counted; if not it was the last one again.
    pub(crate) is_new: bool,
    /// An item whose failures were dropped to make room.
    pub(crate) dropped: Option<String>,
}

/// Failures.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "RunFailures")]
pub(crate) struct Failures {
    pub(crate) space: String,
    pub(crate) failures: Vec<Failure>,
    /// Where the next page begins; `null` if there is none.
    pub(crate) next: Option<String>,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "RunFailure")]
pub(crate) struct Failure {
    pub(crate) run: String,
    pub(crate) item: String,
    /// Why, the last time.
    pub(crate) reason: String,
    pub(crate) count: u64,
    pub(crate) first_at_ms: u64,
    pub(crate) last_at_ms: u64,
    /// Whether it was not processed since.
    pub(crate) to_retry: bool,
}

impl Failure {
    pub(crate) fn new(run: String, it: run::Failure) -> Self {
        Self {
            run,
            item: it.item,
            reason: it.reason,
            count: it.count,
            first_at_ms: it.first_at.as_millis(),
            last_at_ms: it.last_at.as_millis(),
            to_retry: it.to_retry,
        }
    }
}
