//! What is said about charges by an id.

use std::borrow::Cow;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tidegate::limit::{MAX_LIMITS, Quota};
use tidegate::{Cost, Key};

use super::api::{Subject, TakeOne};
use crate::api::{borrowing, pattern, subject};

/// The body of a charge of several limits by an id.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "an object with id, key and limits")]
pub(crate) struct ChargeAll<'a> {
    /// The caller's own: sent twice it charges once.
    #[serde(borrow)]
    #[schemars(length(min = 1, max = 255))]
    pub(crate) id: Cow<'a, str>,
    #[serde(default, borrow, skip_serializing_if = "Subject::is_everyone")]
    pub(crate) key: Subject<'a>,
    #[serde(borrow)]
    #[schemars(length(min = 1, max = MAX_LIMITS))]
    pub(crate) limits: Vec<TakeOne<'a>>,
}

/// The body of its release.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "an object with id, key and limits")]
pub(crate) struct ReleaseAll<'a> {
    /// What it was charged by.
    #[serde(borrow)]
    #[schemars(length(min = 1, max = 255))]
    pub(crate) id: Cow<'a, str>,
    #[serde(default, borrow, skip_serializing_if = "Subject::is_everyone")]
    pub(crate) key: Subject<'a>,
    /// The names of all limits that were charged.
    #[serde(borrow)]
    #[schemars(length(min = 1, max = MAX_LIMITS), inner(regex(pattern = pattern::NAME)))]
    pub(crate) limits: Vec<Cow<'a, str>>,
}

borrowing!(ChargeAll, ReleaseAll);

/// What is charged by an id.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Charge {
    pub(crate) id: String,
    /// `null` is no subject at all.
    pub(crate) key: Option<String>,
    pub(crate) state: String,
    /// Where each limit stands now.
    pub(crate) limits: Vec<ChargedLimit>,
}

/// One limit of a charge.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct ChargedLimit {
    pub(crate) limit: String,
    pub(crate) cost: u64,
    pub(crate) capacity: u64,
    pub(crate) remaining: u64,
    pub(crate) reset_after_ms: u64,
    pub(crate) window_size_seconds: u64,
}

impl Charge {
    pub(crate) fn new(id: &str, key: Key<'_>, limits: impl Iterator<Item = ChargedLimit>) -> Self {
        let key = subject(key).map(str::to_owned);
        Self { id: id.to_owned(), key, state: "charged".to_owned(), limits: limits.collect() }
    }
}

impl ChargedLimit {
    pub(crate) fn new(limit: &str, cost: Cost, quota: &Quota) -> Self {
        let Quota { capacity, remaining, reset_after_ms, window_size_seconds } = *quota;
        Self {
            limit: limit.to_owned(),
            cost: cost.get(),
            capacity,
            remaining,
            reset_after_ms,
            window_size_seconds,
        }
    }
}

/// What is given back by an id.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Released {
    pub(crate) id: String,
    /// `null` is no subject at all.
    pub(crate) key: Option<String>,
    pub(crate) state: String,
    /// Whether this request did it, and not an earlier one.
    pub(crate) is_new: bool,
}

impl Released {
    pub(crate) fn new(id: &str, key: Key<'_>, is_new: bool) -> Self {
        let key = subject(key).map(str::to_owned);
        Self { id: id.to_owned(), key, state: "released".to_owned(), is_new }
    }
}
