//! What is answered about sessions.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::value::RawValue;
use tidegate::clock::Timestamp;
use tidegate::session::{Activated, Counts, Found, HeldBy, Lease, Left, List, Listed, Session, SessionId};

use super::json::from_text;

/// An activated session.
#[derive(Debug, Serialize)]
pub(super) struct Active<'a> {
    space: &'a str,
    id: String,
    generation: u64,
    until_ms: u64,
    found: &'static str,
}

impl<'a> Active<'a> {
    pub(super) fn new(space: &'a str, activated: &Activated) -> Self {
        let Lease { generation, until, .. } = activated.lease;
        let found = match activated.found {
            Found::Nothing => "nothing",
            Found::Disconnected => "disconnected",
            Found::Active => "active",
        };
        let id = activated.id.to_string();
        Self { space, id, generation: generation.get(), until_ms: until.as_millis(), found }
    }
}

/// A session as it is.
#[derive(Debug, Serialize)]
pub(super) struct One<'a> {
    space: &'a str,
    id: String,
    broadcaster: &'a str,
    config: Cow<'a, RawValue>,
    value: Cow<'a, RawValue>,
    state: &'static str,
    generation: u64,
    ref_count: u64,
    holders: Vec<InHolders<'a>>,
    /// `null` while nobody holds it.
    held_until_ms: Option<u64>,
    /// `null` while somebody holds it.
    last_disconnect_ms: Option<u64>,
    last_update_ms: u64,
    last_seen_ms: u64,
    attempts: u64,
}

#[derive(Debug, Serialize)]
struct InHolders<'a> {
    holder: &'a str,
    until_ms: u64,
}

impl<'a> InHolders<'a> {
    fn new(hold: &'a HeldBy) -> Self {
        Self { holder: &hold.holder, until_ms: hold.until.as_millis() }
    }
}

impl<'a> One<'a> {
    pub(super) fn new(space: &'a str, session: &'a Session) -> Self {
        Self {
            space,
            id: session.id.to_string(),
            broadcaster: &session.broadcaster,
            config: from_text(&session.config),
            value: from_text(&session.value),
            state: session.state.as_str(),
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
#[derive(Debug, Serialize)]
pub(super) struct Updated<'a> {
    pub(super) space: &'a str,
    pub(super) id: String,
    pub(super) generation: u64,
}

/// A holder's hold on a session.
#[derive(Debug, Serialize)]
pub(super) struct Held<'a> {
    space: &'a str,
    id: String,
    holder: &'a str,
    generation: u64,
    until_ms: u64,
}

impl<'a> Held<'a> {
    pub(super) fn new(space: &'a str, id: SessionId, holder: &'a str, lease: &Lease) -> Self {
        let (generation, until_ms) = (lease.generation.get(), lease.until.as_millis());
        Self { space, id: id.to_string(), holder, generation, until_ms }
    }
}

/// How a session stands after a holder has left.
#[derive(Debug, Serialize)]
pub(super) struct Without<'a> {
    space: &'a str,
    id: String,
    holder: &'a str,
    state: &'static str,
}

impl<'a> Without<'a> {
    pub(super) fn new(space: &'a str, id: SessionId, holder: &'a str, left: Left) -> Self {
        let state = match left {
            Left::Held => "active",
            Left::Disconnected => "disconnected",
        };
        Self { space, id: id.to_string(), holder, state }
    }
}

/// Sessions by time.
#[derive(Debug, Serialize)]
pub(super) struct Page<'a> {
    space: &'a str,
    state: &'static str,
    sessions: Vec<InList>,
    invalid: u64,
    /// Where the next page begins; `null` if there is none.
    next: Option<String>,
}

#[derive(Debug, Serialize)]
struct InList {
    id: String,
    at_ms: u64,
}

impl<'a> Page<'a> {
    pub(super) fn new(space: &'a str, state: &'static str, list: &List, limit: usize) -> Self {
        let last = list.sessions.last().filter(|_| list.sessions.len() == limit);
        let row = |it: &Listed| InList { id: it.id.to_string(), at_ms: it.at.as_millis() };
        Self {
            space,
            state,
            sessions: list.sessions.iter().map(row).collect(),
            invalid: list.invalid,
            next: last.map(|it| format!("{}:{}", it.at.as_millis(), it.id)),
        }
    }
}

/// How many there are.
#[derive(Debug, Serialize)]
pub(super) struct Counted<'a> {
    space: &'a str,
    active: u64,
    disconnected: u64,
    orphans: u64,
    claimed: u64,
    dead: u64,
    lag_ms: u64,
    /// Until when no lease ends and nothing is reaped; `null` if there is no hold.
    held_until_ms: Option<u64>,
}

impl<'a> Counted<'a> {
    pub(super) fn new(space: &'a str, counts: &Counts) -> Self {
        let Counts { active, disconnected, orphans, claimed, dead, lag_ms, .. } = *counts;
        let held_until_ms = counts.held_until.map(Timestamp::as_millis);
        Self { space, active, disconnected, orphans, claimed, dead, lag_ms, held_until_ms }
    }
}
