//! What is said about sessions. A request that was read is checked by its methods: nothing
//! behind them checks again.

use std::borrow::Cow;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tidegate::Key;
use tidegate::bounds::MAX_COUNT;
use tidegate::clock::Timestamp;
use tidegate::session::{
    Activated, Counts, Disconnect, Found, Generation, HeldBy, Lease, List, Listed, Reap, Session, SessionId,
    SessionOptions,
};

use crate::api::json::{from_text, to_text};
use crate::api::{Invalid, RequestBody, borrowing, key, whole};

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

impl Activate<'_> {
    pub(crate) fn broadcaster(&self) -> Result<Key<'_>, Invalid> {
        key("a broadcaster", &self.broadcaster)
    }

    pub(crate) fn config(&self) -> Result<Cow<'_, str>, Invalid> {
        to_text(self.config)
    }

    pub(crate) fn holder(&self) -> Result<Option<Key<'_>>, Invalid> {
        self.holder.as_deref().map(|holder| key("a holder", holder)).transpose()
    }
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

impl Update<'_> {
    pub(crate) fn value(&self) -> Result<Cow<'_, str>, Invalid> {
        to_text(self.value)
    }

    pub(crate) fn generation(&self) -> Result<Option<Generation>, Invalid> {
        self.generation.map(generation).transpose()
    }
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

/// An activated session.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "SessionActivated")]
pub(crate) struct Active {
    pub(crate) space: String,
    pub(crate) id: String,
    pub(crate) generation: u64,
    pub(crate) until_ms: u64,
    pub(crate) found: String,
}

impl Active {
    pub(crate) fn new(space: &str, activated: &Activated) -> Self {
        let Lease { generation, until, .. } = activated.lease;
        let found = match activated.found {
            Found::Nothing => "nothing",
            Found::Disconnected => "disconnected",
            Found::Active => "active",
        };
        let (space, id, found) = (space.to_owned(), activated.id.to_string(), found.to_owned());
        Self { space, id, generation: generation.get(), until_ms: until.as_millis(), found }
    }
}

/// A session as it is.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Session")]
pub(crate) struct One {
    pub(crate) space: String,
    pub(crate) id: String,
    pub(crate) broadcaster: String,
    pub(crate) config: Box<RawValue>,
    pub(crate) value: Box<RawValue>,
    pub(crate) state: String,
    pub(crate) generation: u64,
    pub(crate) ref_count: u64,
    pub(crate) holders: Vec<InHolders>,
    /// `null` while nobody holds it.
    pub(crate) held_until_ms: Option<u64>,
    /// `null` while somebody holds it.
    pub(crate) last_disconnect_ms: Option<u64>,
    pub(crate) last_update_ms: u64,
    pub(crate) last_seen_ms: u64,
    pub(crate) attempts: u64,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "SessionHolder")]
pub(crate) struct InHolders {
    pub(crate) holder: String,
    pub(crate) until_ms: u64,
}

impl InHolders {
    fn new(hold: &HeldBy) -> Self {
        Self { holder: hold.holder.clone(), until_ms: hold.until.as_millis() }
    }
}

impl One {
    pub(crate) fn new(space: &str, session: &Session) -> Self {
        Self {
            space: space.to_owned(),
            id: session.id.to_string(),
            broadcaster: session.broadcaster.clone(),
            config: from_text(&session.config).into_owned(),
            value: from_text(&session.value).into_owned(),
            state: session.state.as_str().to_owned(),
            generation: session.generation.get(),
            ref_count: session.ref_count,
            holders: session.holders.iter().map(InHolders::new).collect(),
            held_until_ms: session.held_until.map(|at| at.as_millis()),
            last_disconnect_ms: session.last_disconnect.map(|at| at.as_millis()),
            last_update_ms: session.last_update.as_millis(),
            last_seen_ms: session.last_seen.as_millis(),
            attempts: session.attempts,
        }
    }
}

/// A session whose value was set.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "SessionUpdated")]
pub(crate) struct Updated {
    pub(crate) space: String,
    pub(crate) id: String,
    pub(crate) generation: u64,
}

/// A holder's hold on a session.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "SessionHeld")]
pub(crate) struct Held {
    pub(crate) space: String,
    pub(crate) id: String,
    pub(crate) holder: String,
    pub(crate) generation: u64,
    pub(crate) until_ms: u64,
}

impl Held {
    pub(crate) fn new(space: &str, id: SessionId, holder: &str, lease: &Lease) -> Self {
        let (generation, until_ms) = (lease.generation.get(), lease.until.as_millis());
        Self { space: space.to_owned(), id: id.to_string(), holder: holder.to_owned(), generation, until_ms }
    }
}

/// How a session stands after a holder has left.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "SessionLeft")]
pub(crate) struct Without {
    pub(crate) space: String,
    pub(crate) id: String,
    pub(crate) holder: String,
    pub(crate) state: String,
}

impl Without {
    pub(crate) fn new(space: &str, id: SessionId, holder: &str, left: Disconnect) -> Self {
        let state = match left {
            Disconnect::Held => "active",
            Disconnect::Disconnected => "disconnected",
        };
        let (space, holder, state) = (space.to_owned(), holder.to_owned(), state.to_owned());
        Self { space, id: id.to_string(), holder, state }
    }
}

/// Sessions by time.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "SessionPage")]
pub(crate) struct Page {
    pub(crate) space: String,
    pub(crate) state: String,
    pub(crate) sessions: Vec<InList>,
    pub(crate) invalid: u64,
    /// Where the next page begins; `null` if there is none.
    pub(crate) next: Option<String>,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "SessionInList")]
pub(crate) struct InList {
    pub(crate) id: String,
    pub(crate) at_ms: u64,
}

impl Page {
    pub(crate) fn new(space: &str, state: &str, list: &List, limit: usize) -> Self {
        let last = list.sessions.last().filter(|_| list.sessions.len() == limit);
        let row = |it: &Listed| InList { id: it.id.to_string(), at_ms: it.at.as_millis() };
        Self {
            space: space.to_owned(),
            state: state.to_owned(),
            sessions: list.sessions.iter().map(row).collect(),
            invalid: list.invalid,
            next: last.map(|it| format!("{}:{}", it.at.as_millis(), it.id)),
        }
    }
}

/// How many there are.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "SessionCounts")]
pub(crate) struct Counted {
    pub(crate) space: String,
    pub(crate) active: u64,
    pub(crate) disconnected: u64,
    pub(crate) orphans: u64,
    pub(crate) claimed: u64,
    pub(crate) dead: u64,
    pub(crate) lag_ms: u64,
    /// Until when no lease ends and nothing is reaped; `null` if there is no hold.
    pub(crate) held_until_ms: Option<u64>,
}

impl Counted {
    pub(crate) fn new(space: &str, counts: &Counts) -> Self {
        let Counts { active, disconnected, orphans, claimed, dead, lag_ms, .. } = *counts;
        let held_until_ms = counts.held_until.map(Timestamp::as_millis);
        Self { space: space.to_owned(), active, disconnected, orphans, claimed, dead, lag_ms, held_until_ms }
    }
}

/// A space and how its sessions live.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "SessionSpace")]
pub(crate) struct Space {
    pub(crate) space: String,
    pub(crate) grace_ms: u64,
    pub(crate) holder_lease_ms: u64,
    pub(crate) session_ttl_ms: u64,
    pub(crate) retention_ms: u64,
    pub(crate) batch: usize,
    pub(crate) cleanup_interval_ms: u64,
    pub(crate) reap: String,
    pub(crate) claim_lease_ms: u64,
    pub(crate) max_attempts: u32,
    pub(crate) max_holders: usize,
    pub(crate) max_sessions: usize,
    pub(crate) migration_lease_ms: u64,
    pub(crate) reconcile_interval_ms: u64,
}

impl Space {
    pub(crate) fn new(space: &str, options: &SessionOptions) -> Self {
        // Sixty days at most.
        let ms = |lasting: std::time::Duration| lasting.as_millis() as u64;
        Self {
            space: space.to_owned(),
            grace_ms: ms(options.grace),
            holder_lease_ms: ms(options.holder_lease),
            session_ttl_ms: ms(options.session_ttl),
            retention_ms: ms(options.retention),
            batch: options.batch,
            cleanup_interval_ms: ms(options.cleanup_interval),
            reap: match options.reap {
                Reap::Claims => "claims",
                _ => "cleanup",
            }
            .to_owned(),
            claim_lease_ms: ms(options.claim_lease),
            max_attempts: options.max_attempts,
            max_holders: options.max_holders,
            max_sessions: options.max_sessions,
            migration_lease_ms: ms(options.migration_lease),
            reconcile_interval_ms: ms(options.reconcile_interval),
        }
    }
}
