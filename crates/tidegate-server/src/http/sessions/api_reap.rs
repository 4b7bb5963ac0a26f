//! What is said about sessions that were left behind.

use serde_json::value::RawValue;
use tidegate::clock::Timestamp;
use tidegate::session::{Answer, Claim, Claims, Generation, Refusal, SessionId, State, Swept};

use crate::api::json::from_text;
use crate::api::response;

response! {
    /// What a claim found.
    #[schemars(rename = "SessionClaims")]
    struct Claimed of(space) from(it: Claims) {
        claims: Vec<InClaim> = it.claims.into_iter().map(InClaim::new).collect(),
        lapsed: u64 = it.swept.lapsed,
        buried: u64 = it.swept.buried,
        missing: u64 = it.swept.missing,
        invalid: u64 = it.swept.invalid,
        lag_ms: u64 = it.swept.lag_ms,
        is_more: bool = it.swept.is_more,
        #[serde(flatten)]
        held: ReapHold = ReapHold::new(&it.swept),
    }

    /// The hold that keeps a call from reaping, in some partition at least.
    #[schemars(rename = "SessionHold")]
    #[derive(Default)]
    struct ReapHold from(it: &Swept) {
        held_until_ms: Option<u64> = it.held_until.map(Timestamp::as_millis),
        retry_after_ms: Option<u64> = it.retry_after_ms,
    }

    #[schemars(rename = "SessionClaimed")]
    struct InClaim from(it: Claim) {
        id: String = it.id.to_string(),
        generation: u64 = it.generation.get(),
        broadcaster: String = it.broadcaster,
        config: Box<RawValue> = from_text(&it.config).into_owned(),
        value: Box<RawValue> = from_text(&it.value).into_owned(),
        since_ms: u64 = it.since.as_millis(),
        attempt: u64 = it.attempt,
        until_ms: u64 = it.until.as_millis(),
    }

    /// A claim that was renewed.
    #[schemars(rename = "SessionClaimRenewed")]
    struct Renewed of(space, id) from(generation: Generation, attempt: u64, until: Timestamp) {
        generation: u64 = generation.get(),
        attempt: u64 = attempt,
        until_ms: u64 = until.as_millis(),
    }

    /// What became of acknowledgements, in their order.
    #[schemars(rename = "SessionAcked")]
    struct Acked of(space) from(acks: &[(SessionId, Generation)], answers: &[Answer<()>]) {
        deleted: usize = answers.iter().filter(|it| it.is_done()).count(),
        acks: Vec<InAcks> = acks.iter().zip(answers).map(|(ack, answer)| InAcks::new(ack, answer)).collect(),
    }

    #[schemars(rename = "SessionAckOutcome")]
    struct InAcks from(ack: &(SessionId, Generation), answer: &Answer<()>) {
        id: String = ack.0.to_string(),
        generation: u64 = ack.1.get(),
        outcome: String = answer.refusal().map_or("deleted", Refusal::as_str).to_owned(),
    }

    /// What a cleanup did, or would do.
    #[schemars(rename = "SessionCleaned")]
    #[derive(Default)]
    struct Cleaned from(space: &str, is_dry: bool, it: &Swept) {
        /// `true` of one that says only what would be done.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        dry_run: Option<bool> = is_dry.then_some(true),
        space: String = space.to_owned(),
        deleted: u64 = it.deleted,
        lapsed: u64 = it.lapsed,
        buried: u64 = it.buried,
        missing: u64 = it.missing,
        invalid: u64 = it.invalid,
        lag_ms: u64 = it.lag_ms,
        #[serde(flatten)]
        held: ReapHold = ReapHold::new(it),
    }

    /// A dead session that can be claimed again.
    #[schemars(rename = "SessionRetried")]
    struct Retried of(space, id) from() {
        state: String = State::Claimed.as_str().to_owned(),
    }
}
