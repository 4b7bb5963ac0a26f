//! What is said about runs. A request that was read is checked by its methods: nothing
//! behind them checks again.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tidegate::bounds::MAX_COUNT;
use tidegate::clock::Timestamp;
use tidegate::run::{self, Attempt, RunOptions, RunState};

use super::api_items::ms;
use crate::api::{Invalid, RequestBody, borrowing, lasting, one_length_of_time, pattern, whole};

/// The body of an update.
#[derive(Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "an object with state, fields and total")]
#[schemars(rename = "RunUpdate")]
pub(crate) struct Update {
    /// A live state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) state: Option<LiveState>,
    /// Fields by name, with their new values; `null` removes one.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) fields: BTreeMap<String, Option<String>>,
    /// How many items there are to process.
    #[serde(default, deserialize_with = "whole::optional", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = MAX_COUNT))]
    pub(crate) total: Option<u64>,
}

impl Update {
    pub(crate) fn into_update(self) -> run::Update {
        let mut update = run::Update::new();
        update.state = self.state.map(Into::into);
        update.fields = self.fields;
        update.total = self.total;
        update
    }
}

/// A state that a run can be in and go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "RunLiveState")]
pub(crate) enum LiveState {
    Running,
    Processing,
    Paused,
}

impl From<LiveState> for RunState {
    fn from(state: LiveState) -> Self {
        match state {
            LiveState::Running => Self::Running,
            LiveState::Processing => Self::Processing,
            LiveState::Paused => Self::Paused,
        }
    }
}

/// The body of a finish.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "an object with state")]
#[schemars(rename = "RunFinish")]
pub(crate) struct Finish {
    #[schemars(with = "TerminalState")]
    pub(crate) state: String,
}

impl Finish {
    pub(crate) fn state(&self) -> Result<RunState, Invalid> {
        let state = RunState::ALL.into_iter().find(|it| it.is_terminal() && it.as_str() == self.state);
        state.ok_or_else(|| {
            let start: String = self.state.chars().take(40).collect();
            Invalid(format!("a run cannot end {start:?}: succeeded, failed and cancelled are allowed"))
        })
    }
}

/// A state that a run ends in, as it is described.
#[derive(JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "RunTerminalState")]
#[allow(dead_code, reason = "read from text")]
enum TerminalState {
    Succeeded,
    Failed,
    Cancelled,
}

/// The body of a retry.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "an object with from_attempt")]
#[schemars(rename = "RunRetry")]
pub(crate) struct Retry {
    /// The attempt that has ended; sent again it is retried once.
    #[serde(deserialize_with = "whole::required")]
    #[schemars(range(min = 0, max = MAX_COUNT))]
    pub(crate) from_attempt: u64,
}

/// The body of an expiry.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "an object with lasting_ms or lasting")]
#[schemars(rename = "RunExpire", transform = one_length_of_time)]
pub(crate) struct Expire<'a> {
    /// At most what is left of its life.
    #[serde(default, deserialize_with = "whole::optional", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = MAX_COUNT))]
    pub(crate) lasting_ms: Option<u64>,
    /// The same in words, like 1h.
    #[serde(default, borrow, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("pattern" = pattern::LENGTH_OF_TIME))]
    pub(crate) lasting: Option<Cow<'a, str>>,
}

impl Expire<'_> {
    pub(crate) fn lasting(&self) -> Result<Duration, Invalid> {
        lasting(self.lasting_ms, self.lasting.as_deref())
    }
}

borrowing!(Expire);

impl RequestBody for Update {
    type Read<'a> = Self;
}

impl RequestBody for Finish {
    type Read<'a> = Self;
}

impl RequestBody for Retry {
    type Read<'a> = Self;
}

pub(crate) fn attempt(number: u64) -> Result<Attempt, Invalid> {
    match number {
        0..=MAX_COUNT => Ok(Attempt::new(number)),
        _ => Err(Invalid(format!(
            "an attempt of {number} is not allowed: whole numbers up to {MAX_COUNT} are"
        ))),
    }
}

/// A run that was started, retried, updated or has ended.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "RunChanged")]
pub(crate) struct Changed {
    pub(crate) space: String,
    pub(crate) run: String,
    pub(crate) attempt: u64,
    pub(crate) state: String,
    /// Whether this request did it; if not it was so before.
    pub(crate) is_new: bool,
}

/// A run that was updated.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "RunUpdated")]
pub(crate) struct Updated {
    pub(crate) space: String,
    pub(crate) run: String,
    pub(crate) attempt: u64,
    pub(crate) state: String,
    /// When it is gone unless it is updated before.
    pub(crate) ends_at_ms: u64,
}

/// A run whose life was shortened.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "RunExpires")]
pub(crate) struct Expires {
    pub(crate) space: String,
    pub(crate) run: String,
    /// When it is gone, whatever is done to it meanwhile.
    pub(crate) ends_at_ms: u64,
}

/// What a cleanup did.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "RunCleaned")]
pub(crate) struct Cleaned {
    pub(crate) space: String,
    pub(crate) removed: u64,
}

/// A run as it is.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Run")]
pub(crate) struct One {
    pub(crate) space: String,
    pub(crate) run: String,
    pub(crate) state: String,
    pub(crate) attempt: u64,
    pub(crate) started_at_ms: u64,
    pub(crate) attempt_started_at_ms: u64,
    pub(crate) updated_at_ms: u64,
    /// `null` while it is live.
    pub(crate) finished_at_ms: Option<u64>,
    /// When all of it is gone unless it is updated before.
    pub(crate) ends_at_ms: u64,
    /// How many items there are to process, if anybody has said so.
    pub(crate) total: Option<u64>,
    pub(crate) fields: BTreeMap<String, String>,
}

impl One {
    pub(crate) fn new(space: &str, it: run::Run) -> Self {
        Self {
            space: space.to_owned(),
            run: it.id,
            state: it.state.as_str().to_owned(),
            attempt: it.attempt.get(),
            started_at_ms: it.started_at.as_millis(),
            attempt_started_at_ms: it.attempt_started_at.as_millis(),
            updated_at_ms: it.updated_at.as_millis(),
            finished_at_ms: it.finished_at.map(Timestamp::as_millis),
            ends_at_ms: it.ends_at.as_millis(),
            total: it.total,
            fields: it.fields,
        }
    }
}

/// Runs, the newest first.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "RunPage")]
pub(crate) struct Page {
    pub(crate) space: String,
    pub(crate) runs: Vec<InList>,
    /// Where the next page begins; `null` if there is none.
    pub(crate) next: Option<String>,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "RunInList")]
pub(crate) struct InList {
    pub(crate) run: String,
    pub(crate) state: String,
    pub(crate) attempt: u64,
    pub(crate) started_at_ms: u64,
    pub(crate) updated_at_ms: u64,
    /// `null` while it is live.
    pub(crate) finished_at_ms: Option<u64>,
    pub(crate) ends_at_ms: u64,
    pub(crate) total: Option<u64>,
}

impl From<run::Listed> for InList {
    fn from(it: run::Listed) -> Self {
        Self {
            run: it.id,
            state: it.state.as_str().to_owned(),
            attempt: it.attempt.get(),
            started_at_ms: it.started_at.as_millis(),
            updated_at_ms: it.updated_at.as_millis(),
            finished_at_ms: it.finished_at.map(Timestamp::as_millis),
            ends_at_ms: it.ends_at.as_millis(),
            total: it.total,
        }
    }
}

/// The spaces and how their runs live.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "RunSpaces")]
pub(crate) struct Spaces {
    pub(crate) spaces: Vec<Space>,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "RunSpace")]
pub(crate) struct Space {
    pub(crate) space: String,
    pub(crate) prefix: String,
    pub(crate) state_ttl_ms: u64,
    pub(crate) max_runs: usize,
    pub(crate) max_fields: usize,
    pub(crate) max_field_name_bytes: usize,
    pub(crate) max_field_value_bytes: usize,
    pub(crate) max_processed: usize,
    pub(crate) max_failures: usize,
    pub(crate) max_reason_bytes: usize,
    pub(crate) max_tasks: usize,
    pub(crate) cleanup_interval_ms: u64,
    pub(crate) batch: usize,
}

impl Spaces {
    pub(crate) fn of<'a>(spaces: impl Iterator<Item = (&'a str, &'a RunOptions)>) -> Self {
        Self { spaces: spaces.map(|(name, options)| Space::new(name, options)).collect() }
    }
}

impl Space {
    fn new(space: &str, options: &RunOptions) -> Self {
        Self {
            space: space.to_owned(),
            prefix: options.prefix.clone(),
            state_ttl_ms: ms(options.state_ttl),
            max_runs: options.max_runs,
            max_fields: options.max_fields,
            max_field_name_bytes: options.max_field_name_bytes,
            max_field_value_bytes: options.max_field_value_bytes,
            max_processed: options.max_processed,
            max_failures: options.max_failures,
            max_reason_bytes: options.max_reason_bytes,
            max_tasks: options.max_tasks,
            cleanup_interval_ms: ms(options.cleanup_interval),
            batch: options.batch,
        }
    }
}
