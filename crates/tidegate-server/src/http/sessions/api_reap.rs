//! What is said about sessions that were left behind.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tidegate::clock::Timestamp;
use tidegate::session::{Answer, Claim, Claims, Generation, Refusal, SessionId, Swept};

use crate::api::json::from_text;

/// What a claim found.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "SessionClaims")]
pub(crate) struct Claimed {
    pub(crate) space: String,
    pub(crate) claims: Vec<InClaim>,
    pub(crate) lapsed: u64,
    pub(crate) buried: u64,
    pub(crate) missing: u64,
    pub(crate) invalid: u64,
    pub(crate) lag_ms: u64,
    pub(crate) is_more: bool,
    #[serde(flatten)]
    pub(crate) held: ReapHold,
}

/// The hold that keeps a call from reaping, in some partition at least.
#[derive(Debug, Default, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "SessionHold")]
pub(crate) struct ReapHold {
    pub(crate) held_until_ms: Option<u64>,
    pub(crate) retry_after_ms: Option<u64>,
}

impl ReapHold {
    fn new(swept: &Swept) -> Self {
        let held_until_ms = swept.held_until.map(Timestamp::as_millis);
        Self { held_until_ms, retry_after_ms: swept.retry_after_ms }
    }
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "SessionClaimed")]
pub(crate) struct InClaim {
    pub(crate) id: String,
    pub(crate) generation: u64,
    pub(crate) broadcaster: String,
    pub(crate) config: Box<RawValue>,
    pub(crate) value: Box<RawValue>,
    pub(crate) since_ms: u64,
    pub(crate) attempt: u64,
    pub(crate) until_ms: u64,
}

impl Claimed {
    pub(crate) fn new(space: &str, claims: &Claims) -> Self {
        let row = |it: &Claim| InClaim {
            id: it.id.to_string(),
            generation: it.generation.get(),
            broadcaster: it.broadcaster.clone(),
            config: from_text(&it.config).into_owned(),
            value: from_text(&it.value).into_owned(),
            since_ms: it.since.as_millis(),
            attempt: it.attempt,
            until_ms: it.until.as_millis(),
        };
        let Swept { lapsed, buried, missing, invalid, lag_ms, is_more, .. } = claims.swept;
        let held = ReapHold::new(&claims.swept);
        let claims = claims.claims.iter().map(row).collect();
        Self { space: space.to_owned(), claims, lapsed, buried, missing, invalid, lag_ms, is_more, held }
    }
}

/// A claim that was renewed.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "SessionClaimRenewed")]
pub(crate) struct Renewed {
    pub(crate) space: String,
    pub(crate) id: String,
    pub(crate) generation: u64,
    pub(crate) attempt: u64,
    pub(crate) until_ms: u64,
}

/// What became of acknowledgements, in their order.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "SessionAcked")]
pub(crate) struct Acked {
    pub(crate) space: String,
    pub(crate) deleted: usize,
    pub(crate) acks: Vec<InAcks>,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "SessionAckOutcome")]
pub(crate) struct InAcks {
    pub(crate) id: String,
    pub(crate) generation: u64,
    pub(crate) outcome: String,
}

impl Acked {
    pub(crate) fn new(space: &str, acks: &[(SessionId, Generation)], answers: &[Answer<()>]) -> Self {
        let row = |((id, generation), answer): (&(SessionId, Generation), &Answer<()>)| InAcks {
            id: id.to_string(),
            generation: generation.get(),
            outcome: answer.refusal().map_or("deleted", Refusal::as_str).to_owned(),
        };
        let deleted = answers.iter().filter(|it| it.is_done()).count();
        Self { space: space.to_owned(), deleted, acks: acks.iter().zip(answers).map(row).collect() }
    }
}

/// What a cleanup did, or would do.
#[derive(Debug, Default, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "SessionCleaned")]
pub(crate) struct Cleaned {
    /// `true` of one that says only what would be done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) dry_run: Option<bool>,
    pub(crate) space: String,
    pub(crate) deleted: u64,
    pub(crate) lapsed: u64,
    pub(crate) buried: u64,
    pub(crate) missing: u64,
    pub(crate) invalid: u64,
    pub(crate) lag_ms: u64,
    #[serde(flatten)]
    pub(crate) held: ReapHold,
}

impl Cleaned {
    pub(crate) fn new(space: &str, is_dry: bool, swept: &Swept) -> Self {
        let Swept { deleted, lapsed, buried, missing, invalid, lag_ms, .. } = *swept;
        Self {
            dry_run: is_dry.then_some(true),
            space: space.to_owned(),
            deleted,
            lapsed,
            buried,
            missing,
            invalid,
            lag_ms,
            held: ReapHold::new(swept),
        }
    }
}

/// A dead session that can be claimed again.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "SessionRetried")]
pub(crate) struct Retried {
    pub(crate) space: String,
    pub(crate) id: String,
    pub(crate) state: String,
}
