//! What is said about runs. A request that was read is checked by its methods: nothing
//! behind them checks again.

use std::borrow::Cow;
use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tidegate::bounds::MAX_COUNT;
use tidegate::clock::Timestamp;
use tidegate::run::{self, Attempt, RunOptions, RunState};

use crate::api::{Invalid, RequestBody, borrowing, ms, one_length_of_time, pattern, response, whole};

/// What states are called, in the order of [`RunState::ALL`].
pub(crate) const STATE_NAMES: [&str; 6] =
    ["running", "processing", "paused", "succeeded", "failed", "cancelled"];

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
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema, clap::ValueEnum)]
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
    #[schemars(range(min = 1, max = MAX_COUNT))]
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

response! {
    /// A run that was started, retried, updated or has ended.
    #[schemars(rename = "RunChanged")]
    struct Changed of(space, run) from(attempt: Attempt, state: RunState, is_new: bool) {
        attempt: u64 = attempt.get(),
        state: String = state.as_str().to_owned(),
        /// Whether this request did it; if not it was so before.
        is_new: bool = is_new,
    }

    /// A run that was updated.
    #[schemars(rename = "RunUpdated")]
    struct Updated of(space, run) from(it: &run::Updated) {
        attempt: u64 = it.attempt.get(),
        state: String = it.state.as_str().to_owned(),
        /// When it is gone unless it is updated before.
        ends_at_ms: u64 = it.ends_at.as_millis(),
    }

    /// A run whose life was shortened.
    #[schemars(rename = "RunExpires")]
    struct Expires of(space, run) from(ends_at: Timestamp) {
        /// When it is gone, whatever is done to it meanwhile.
        ends_at_ms: u64 = ends_at.as_millis(),
    }

    /// What a cleanup did.
    #[schemars(rename = "RunCleaned")]
    struct Cleaned of(space) from(removed: usize) {
        removed: u64 = removed as u64,
    }

    /// A run as it is.
    #[schemars(rename = "Run")]
    struct One of(space) from(it: run::Run) {
        run: String = it.id,
        state: String = it.state.as_str().to_owned(),
        attempt: u64 = it.attempt.get(),
        started_at_ms: u64 = it.started_at.as_millis(),
        attempt_started_at_ms: u64 = it.attempt_started_at.as_millis(),
        updated_at_ms: u64 = it.updated_at.as_millis(),
        /// `null` while it is live.
        finished_at_ms: Option<u64> = it.finished_at.map(Timestamp::as_millis),
        /// When all of it is gone unless it is updated before.
        ends_at_ms: u64 = it.ends_at.as_millis(),
        /// How many items there are to process, if anybody has said so.
        total: Option<u64> = it.total,
        fields: BTreeMap<String, String> = it.fields,
    }

    /// Runs, the newest first.
    #[schemars(rename = "RunPage")]
    struct Page of(space) from(page: tidegate::Page<run::Listed>) {
        runs: Vec<InList> = page.items.into_iter().map(InList::new).collect(),
        /// Where the next page begins; `null` if there is none.
        next: Option<String> = page.next.map(|next| next.to_string()),
    }

    #[schemars(rename = "RunInList")]
    struct InList from(it: run::Listed) {
        run: String = it.id,
        state: String = it.state.as_str().to_owned(),
        attempt: u64 = it.attempt.get(),
        started_at_ms: u64 = it.started_at.as_millis(),
        updated_at_ms: u64 = it.updated_at.as_millis(),
        /// `null` while it is live.
        finished_at_ms: Option<u64> = it.finished_at.map(Timestamp::as_millis),
        ends_at_ms: u64 = it.ends_at.as_millis(),
        total: Option<u64> = it.total,
    }

    #[schemars(rename = "RunSpace")]
    struct Space of(space) from(options: &RunOptions) {
        prefix: String = options.prefix.clone(),
        state_ttl_ms: u64 = ms(options.state_ttl),
        max_runs: usize = options.max_runs,
        max_fields: usize = options.max_fields,
        max_field_name_bytes: usize = options.max_field_name_bytes,
        max_field_value_bytes: usize = options.max_field_value_bytes,
        max_processed: usize = options.max_processed,
        max_failures: usize = options.max_failures,
        max_reason_bytes: usize = options.max_reason_bytes,
        max_tasks: usize = options.max_tasks,
        cleanup_interval_ms: u64 = ms(options.cleanup_interval),
        batch: usize = options.batch,
    }
}
