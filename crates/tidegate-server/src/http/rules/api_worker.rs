//! What workers say, and what is said to them.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tidegate::bounds::MAX_COUNT;
use tidegate_edge::rule::MAX_ID_BYTES;
use tidegate_edge::{stream, truth};

use crate::api::{RequestBody, response, whole};

response! {
    /// Who follows this server's stream, or did within the last hour.
    #[schemars(rename = "RuleWorkers")]
    struct Workers from(seq: u64, workers: Vec<stream::Worker>) {
        /// The last change.
        seq: u64 = seq,
        workers: Vec<Worker> = workers.into_iter().map(Worker::new).collect(),
    }

    /// One of them.
    #[serde(rename_all = "camelCase")]
    #[schemars(rename = "RuleWorker")]
    struct Worker from(worker: stream::Worker) {
        name: String = worker.name,
        connected: bool = worker.connected,
        /// Since when it follows, or does not, in milliseconds.
        since: u64 = worker.since,
        /// When it was last heard of, in milliseconds.
        seen_at: u64 = worker.seen_at,
        /// The last change that it has applied, as it has told.
        applied_seq: Option<u64> = worker.applied_seq,
        /// Changes that it had not applied by then.
        lag: Option<u64> = worker.lag,
    }

    /// Whether a report was counted.
    #[schemars(rename = "RuleClicksCounted")]
    struct ClicksCounted from(is_new: bool) {
        /// If not, it had been before.
        counted: bool = is_new,
    }

    /// How often a rule has redirected.
    #[serde(rename_all = "camelCase")]
    #[schemars(rename = "RuleClicks")]
    struct Clicked from(id: &str, clicked: truth::Clicked) {
        id: String = id.to_owned(),
        clicks: u64 = clicked.clicks,
        /// When the last were told of, in milliseconds.
        last_click_at: Option<u64> = clicked.last_click_at,
        /// Per day of UTC on which they were told of, the latest first: at most 90 days that had some.
        days: Vec<DayClicks> = clicked.days.into_iter().map(DayClicks::new).collect(),
    }

    /// Those of a day.
    #[schemars(rename = "RuleDayClicks")]
    struct DayClicks from(of: truth::DayClicks) {
        day: String = of.day,
        clicks: u64 = of.clicks,
    }
}

/// How far a worker is.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "RuleApplied")]
pub(crate) struct Applied {
    /// The last change that it has applied.
    #[serde(deserialize_with = "whole::required")]
    #[schemars(range(min = 0, max = MAX_COUNT))]
    pub(crate) seq: u64,
}

impl RequestBody for Applied {
    type Read<'a> = Self;
}

/// Asks for permits of a rule with so many clicks.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "RuleBlockAsk")]
pub(crate) struct Ask {
    /// Of which rule.
    #[schemars(length(min = 1, max = MAX_ID_BYTES))]
    pub(crate) rule: String,
    /// How many it would like.
    #[serde(deserialize_with = "whole::required")]
    #[schemars(range(min = 1, max = MAX_COUNT))]
    pub(crate) wanted: u64,
}

impl RequestBody for Ask {
    type Read<'a> = Self;
}

/// What it gets.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "outcome", rename_all = "lowercase", rename_all_fields = "camelCase")]
#[schemars(rename = "RuleBlock")]
pub(crate) enum Block {
    /// So many redirects, to be spent or returned in that time, counted from before they were asked for.
    Granted {
        permits: u64,
        life_ms: u64,
        epoch: String,
        /// When the rule was made, in milliseconds: another one of its id was made at another time.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        created_at: Option<u64>,
    },
    /// Others hold what is left.
    Wait {
        retry_after_ms: u64,
        /// When the rule was made.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        created_at: Option<u64>,
    },
    /// There are none any more.
    Spent {
        /// When the rule was made.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        created_at: Option<u64>,
    },
    /// The rule has no bound.
    Unbounded,
}

/// Gives a block back.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "RuleBlockReturn")]
pub(crate) struct Return {
    /// What of it was spent.
    #[serde(deserialize_with = "whole::required")]
    #[schemars(range(min = 0, max = MAX_COUNT))]
    pub(crate) spent: u64,
}

impl RequestBody for Return {
    type Read<'a> = Self;
}

/// Clicks of rules that need no permits, since the last report.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
#[schemars(rename = "RuleClicksReport")]
pub(crate) struct Report {
    /// Rules by id, and how often each has redirected; at most 10,000.
    #[schemars(extend("maxProperties" = 10_000, "propertyNames" = {"minLength": 1, "maxLength": 128}))]
    pub(crate) clicks: BTreeMap<String, Clicks>,
    /// When each of them was made, in milliseconds: another one of its id is not meant. Those that are not here count for
    /// whichever has the id.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 10_000, "propertyNames" = {"minLength": 1, "maxLength": 128}))]
    pub(crate) created_at: BTreeMap<String, Moment>,
}

/// A time in milliseconds.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
#[schemars(rename = "RuleMoment")]
pub(crate) struct Moment(
    #[serde(deserialize_with = "whole::required")]
    #[schemars(range(min = 0, max = MAX_COUNT))]
    pub(crate) u64,
);

/// Clicks of one rule, since the last report.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
#[schemars(rename = "RuleClicksOfOne")]
pub(crate) struct Clicks(
    #[serde(deserialize_with = "whole::required")]
    #[schemars(range(min = 0, max = MAX_CLICKS))]
    pub(crate) u64,
);

/// More than anybody serves between two reports.
pub(crate) const MAX_CLICKS: u64 = 1_000_000_000;

impl RequestBody for Report {
    type Read<'a> = Self;
}
