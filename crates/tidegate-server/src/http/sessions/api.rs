//! What is said about sessions.

use std::borrow::Cow;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tidegate::bounds::MAX_COUNT;
use tidegate::clock::Timestamp;
use tidegate::session::{
    Activated, Counts, Disconnect, Found, Generation, HeldBy, Lease, List, Listed, Reap, Session, SessionId,
    SessionOptions, State,
};

use crate::api::json::from_text;
use crate::api::{Invalid, RequestBody, borrowing, ms, response, whole};

/// The most that are listed, claimed or acknowledged at once: the store is one for all.
pub(crate) const MAX_LIMIT: usize = 1000;

/// Where a session is on its way.
pub(crate) const STATE_NAMES: [&str; 5] = ["active", "disconnected", "orphan", "claimed", "dead"];

/// The body of an activation.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "an object with broadcaster, config and holder")]
#[schemars(rename = "SessionActivate")]
pub(crate) struct Activate<'a> {
    #[serde(borrow)]
    #[schemars(length(min = 1, max = 255))]
    pub(crate) broadcaster: Cow<'a, str>,
    #[serde(borrow)]
    pub(crate) config: &'a RawValue,
    #[serde(default, borrow, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 255))]
    pub(crate) holder: Option<Cow<'a, str>>,
}

/// The body of an update.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "an object with value and generation")]
#[schemars(rename = "SessionUpdate")]
pub(crate) struct Update<'a> {
    #[serde(borrow)]
    pub(crate) value: &'a RawValue,
    #[serde(default, deserialize_with = "whole::optional", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = MAX_COUNT))]
    pub(crate) generation: Option<u64>,
}

/// The body of a claim.
#[derive(Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "an object with limit")]
#[schemars(rename = "SessionClaim")]
pub(crate) struct ClaimRequest {
    #[serde(default, deserialize_with = "whole::optional", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = MAX_LIMIT))]
    pub(crate) limit: Option<u64>,
}

impl ClaimRequest {
    pub(crate) fn limit(&self, default: usize) -> Result<usize, Invalid> {
        match self.limit {
            None => Ok(default),
            Some(limit @ 1..=1000) => Ok(limit as usize),
            Some(limit) => Err(Invalid(format!(
                "a limit of {limit} is not allowed: whole numbers from 1 to {MAX_LIMIT} are"
            ))),
        }
    }
}

/// The body of acknowledgements.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "an object with acks")]
#[schemars(rename = "SessionAcks")]
pub(crate) struct Acks<'a> {
    #[serde(borrow)]
    #[schemars(length(max = MAX_LIMIT))]
    pub(crate) acks: Vec<Ack<'a>>,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "an object with id and generation")]
#[schemars(rename = "SessionAck")]
pub(crate) struct Ack<'a> {
    #[serde(borrow)]
    #[schemars(extend("format" = "uuid"))]
    pub(crate) id: Cow<'a, str>,
    #[serde(deserialize_with = "whole::required")]
    #[schemars(range(min = 1, max = MAX_COUNT))]
    pub(crate) generation: u64,
}

impl Acks<'_> {
    pub(crate) fn claims(&self) -> Result<Vec<(SessionId, Generation)>, Invalid> {
        if self.acks.len() > MAX_LIMIT {
            let count = self.acks.len();
            return Err(Invalid(format!("{count} acks at once are not allowed: up to {MAX_LIMIT} are")));
        }
        self.acks.iter().map(|ack| Ok((ack.id.parse()?, generation(ack.generation)?))).collect()
    }
}

borrowing!(Activate, Update, Acks);

impl RequestBody for ClaimRequest {
    type Read<'a> = Self;
}

pub(crate) fn generation(number: u64) -> Result<Generation, Invalid> {
    match number {
        1..=MAX_COUNT => Ok(Generation::new(number)),
        _ => Err(Invalid(format!(
            "a generation of {number} is not allowed: whole numbers from 1 to {MAX_COUNT} are"
        ))),
    }
}

response! {
    /// An activated session.
    #[schemars(rename = "SessionActivated")]
    struct Active of(space) from(it: &Activated) {
        id: String = it.id.to_string(),
        generation: u64 = it.lease.generation.get(),
        until_ms: u64 = it.lease.until.as_millis(),
        found: String = match it.found {
            Found::Nothing => "nothing",
            Found::Disconnected => "disconnected",
            Found::Active => "active",
        }
        .to_owned(),
    }

    /// A session as it is.
    #[schemars(rename = "Session")]
    struct One of(space) from(it: Session) {
        id: String = it.id.to_string(),
        broadcaster: String = it.broadcaster,
        config: Box<RawValue> = from_text(&it.config).into_owned(),
        value: Box<RawValue> = from_text(&it.value).into_owned(),
        state: String = it.state.as_str().to_owned(),
        generation: u64 = it.generation.get(),
        ref_count: u64 = it.ref_count,
        holders: Vec<InHolders> = it.holders.into_iter().map(InHolders::new).collect(),
        /// `null` while nobody holds it.
        held_until_ms: Option<u64> = it.held_until.map(Timestamp::as_millis),
        /// `null` while somebody holds it.
        last_disconnect_ms: Option<u64> = it.last_disconnect.map(Timestamp::as_millis),
        last_update_ms: u64 = it.last_update.as_millis(),
        last_seen_ms: u64 = it.last_seen.as_millis(),
        attempts: u64 = it.attempts,
    }

    #[schemars(rename = "SessionHolder")]
    struct InHolders from(it: HeldBy) {
        holder: String = it.holder,
        until_ms: u64 = it.until.as_millis(),
    }

    /// A session whose value was set.
    #[schemars(rename = "SessionUpdated")]
    struct Updated of(space, id) from(generation: Generation) {
        generation: u64 = generation.get(),
    }

    /// A holder's hold on a session.
    #[schemars(rename = "SessionHeld")]
    struct Held of(space, id, holder) from(lease: Lease) {
        generation: u64 = lease.generation.get(),
        until_ms: u64 = lease.until.as_millis(),
    }

    /// How a session stands after a holder has left.
    #[schemars(rename = "SessionLeft")]
    struct Without of(space, id, holder) from(left: Disconnect) {
        state: String = match left {
            Disconnect::Held => State::Active,
            Disconnect::Disconnected => State::Disconnected,
        }
        .as_str()
        .to_owned(),
    }

    /// Sessions by time.
    #[schemars(rename = "SessionPage")]
    struct Page of(space) from(state: State, list: &List, limit: usize) {
        state: String = state.as_str().to_owned(),
        sessions: Vec<InList> = list.sessions.iter().map(InList::new).collect(),
        invalid: u64 = list.invalid,
        /// Where the next page begins; `null` if there is none.
        next: Option<String> = {
            let last = list.sessions.last().filter(|_| list.sessions.len() == limit);
            last.map(|it| format!("{}:{}", it.at.as_millis(), it.id))
        },
    }

    #[schemars(rename = "SessionInList")]
    struct InList from(it: &Listed) {
        id: String = it.id.to_string(),
        at_ms: u64 = it.at.as_millis(),
    }

    /// How many there are.
    #[schemars(rename = "SessionCounts")]
    struct Counted of(space) from(it: &Counts) {
        active: u64 = it.active,
        disconnected: u64 = it.disconnected,
        orphans: u64 = it.orphans,
        claimed: u64 = it.claimed,
        dead: u64 = it.dead,
        lag_ms: u64 = it.lag_ms,
        /// Until when no lease ends and nothing is reaped; `null` if there is no hold.
        held_until_ms: Option<u64> = it.held_until.map(Timestamp::as_millis),
    }

    /// A space and how its sessions live.
    #[schemars(rename = "SessionSpace")]
    struct Space of(space) from(options: &SessionOptions) {
        grace_ms: u64 = ms(options.grace),
        holder_lease_ms: u64 = ms(options.holder_lease),
        session_ttl_ms: u64 = ms(options.session_ttl),
        retention_ms: u64 = ms(options.retention),
        batch: usize = options.batch,
        cleanup_interval_ms: u64 = ms(options.cleanup_interval),
        reap: String = match options.reap {
            Reap::Claims => "claims",
            _ => "cleanup",
        }
        .to_owned(),
        claim_lease_ms: u64 = ms(options.claim_lease),
        max_attempts: u32 = options.max_attempts,
        max_holders: usize = options.max_holders,
        max_sessions: usize = options.max_sessions,
        migration_lease_ms: u64 = ms(options.migration_lease),
        reconcile_interval_ms: u64 = ms(options.reconcile_interval),
    }
}
