//! What is said about charges by an id.

use std::borrow::Cow;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tidegate::limit::{MAX_LIMITS, Quota};
use tidegate::{Cost, Key};

use super::api::{Subject, TakeOne};
use crate::api::{borrowing, pattern, response, subject};

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

response! {
    /// What is charged by an id.
    struct Charge of(id) from(key: Key<'_>, limits: Vec<ChargedLimit>) {
        /// `null` is no subject at all.
        key: Option<String> = subject(key).map(str::to_owned),
        state: String = "charged".to_owned(),
        /// Where each limit stands now.
        limits: Vec<ChargedLimit> = limits,
    }

    /// One limit of a charge.
    struct ChargedLimit of(limit) from(cost: Cost, it: &Quota) {
        cost: u64 = cost.get(),
        capacity: u64 = it.capacity,
        remaining: u64 = it.remaining,
        reset_after_ms: u64 = it.reset_after_ms,
        window_size_seconds: u64 = it.window_size_seconds,
    }

    /// What is given back by an id.
    struct Released of(id) from(key: Key<'_>, is_new: bool) {
        /// `null` is no subject at all.
        key: Option<String> = subject(key).map(str::to_owned),
        state: String = "released".to_owned(),
        /// Whether this request did it, and not an earlier one.
        is_new: bool = is_new,
    }
}
