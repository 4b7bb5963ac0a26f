//! What is answered about reaping.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::value::RawValue;
use tidegate::clock::Timestamp;
use tidegate::session::{Answer, Claim, Claims, Counts, Generation, SessionId, Swept};

use super::json::from_text;

/// What a claim found.
#[derive(Debug, Serialize)]
pub(super) struct Claimed<'a> {
    space: &'a str,
    claims: Vec<InClaim<'a>>,
    lapsed: u64,
    buried: u64,
    missing: u64,
    invalid: u64,
    lag_ms: u64,
    is_more: bool,
    #[serde(flatten)]
    held: Held,
}

/// The hold that keeps a call from reaping, in some partition at least.
#[derive(Debug, Serialize)]
struct Held {
    held_until_ms: Option<u64>,
    retry_after_ms: Option<u64>,
}

impl Held {
    fn new(swept: &Swept) -> Self {
        let held_until_ms = swept.held_until.map(Timestamp::as_millis);
        Self { held_until_ms, retry_after_ms: swept.retry_after_ms }
    }
}

#[derive(Debug, Serialize)]
struct InClaim<'a> {
    id: String,
    generation: u64,
    broadcaster: &'a str,
    config: Cow<'a, RawValue>,
    value: Cow<'a, RawValue>,
    since_ms: u64,
    attempt: u64,
    until_ms: u64,
}

impl<'a> Claimed<'a> {
    pub(super) fn new(space: &'a str, claims: &'a Claims) -> Self {
        let row = |it: &'a Claim| InClaim {
            id: it.id.to_string(),
            generation: it.generation.get(),
            broadcaster: &it.broadcaster,
            config: from_text(&it.config),
            value: from_text(&it.value),
            since_ms: it.since.as_millis(),
            attempt: it.attempt,
            until_ms: it.until.as_millis(),
        };
        let Swept { lapsed, buried, missing, invalid, lag_ms, is_more, .. } = claims.swept;
        let held = Held::new(&claims.swept);
        let claims = claims.claims.iter().map(row).collect();
        Self { space, claims, lapsed, buried, missing, invalid, lag_ms, is_more, held }
    }
}

/// A claim that was renewed.
#[derive(Debug, Serialize)]
pub(super) struct Renewed<'a> {
    pub(super) space: &'a str,
    pub(super) id: String,
    pub(super) generation: u64,
    pub(super) attempt: u64,
    pub(super) until_ms: u64,
}

/// What a cleanup would do.
#[derive(Debug, Serialize)]
pub(super) struct Foreseen<'a> {
    space: &'a str,
    dry_run: bool,
    deleted: u64,
    claimed: u64,
    lag_ms: u64,
}

impl<'a> Foreseen<'a> {
    pub(super) fn new(space: &'a str, counts: &Counts) -> Self {
        let Counts { orphans, claimed, lag_ms, .. } = *counts;
        Self { space, dry_run: true, deleted: orphans, claimed, lag_ms }
    }
}

/// What became of acknowledgements, in their order.
#[derive(Debug, Serialize)]
pub(super) struct Acked<'a> {
    space: &'a str,
    deleted: usize,
    acks: Vec<InAcks>,
}

#[derive(Debug, Serialize)]
struct InAcks {
    id: String,
    generation: u64,
    outcome: &'static str,
}

impl<'a> Acked<'a> {
    pub(super) fn new(space: &'a str, acks: &[(SessionId, Generation)], answers: &[Answer<()>]) -> Self {
        let row = |((id, generation), answer): (&(SessionId, Generation), &Answer<()>)| InAcks {
            id: id.to_string(),
            generation: generation.get(),
            outcome: answer.map_or_else(|refusal| refusal.as_str(), |()| "deleted"),
        };
        let deleted = answers.iter().filter(|it| it.is_ok()).count();
        Self { space, deleted, acks: acks.iter().zip(answers).map(row).collect() }
    }
}

/// What a cleanup did.
#[derive(Debug, Serialize)]
pub(super) struct Cleaned<'a> {
    space: &'a str,
    deleted: u64,
    lapsed: u64,
    buried: u64,
    missing: u64,
    invalid: u64,
    lag_ms: u64,
    #[serde(flatten)]
    held: Held,
}

impl<'a> Cleaned<'a> {
    pub(super) fn new(space: &'a str, swept: &Swept) -> Self {
        let Swept { deleted, lapsed, buried, missing, invalid, lag_ms, .. } = *swept;
        Self { space, deleted, lapsed, buried, missing, invalid, lag_ms, held: Held::new(swept) }
    }
}

/// A dead session that can be claimed again.
#[derive(Debug, Serialize)]
pub(super) struct Retried<'a> {
    pub(super) space: &'a str,
    pub(super) id: String,
    pub(super) state: &'static str,
}
