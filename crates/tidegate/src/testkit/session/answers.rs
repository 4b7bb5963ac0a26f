//! Answers of sessions, for a face that reads them from something else: other crates cannot make them.

use crate::clock::Timestamp;
use crate::session::{Activated, Claim, Found, Generation, HeldBy, Lease, Session, SessionId, State};

/// A lease.
pub fn lease(generation: u64, until_ms: u64) -> Lease {
    Lease { generation: Generation::new(generation), until: Timestamp::from_millis(until_ms) }
}

/// An activated session.
pub fn activated(id: SessionId, lease: Lease, found: Found) -> Activated {
    Activated { id, lease, found }
}

/// A holder.
pub fn held_by(holder: String, until_ms: u64) -> HeldBy {
    HeldBy { holder, until: Timestamp::from_millis(until_ms) }
}

/// A session of which all is to be filled in.
pub fn session(id: SessionId) -> Session {
    let never = Timestamp::from_millis(0);
    Session {
        id,
        broadcaster: String::new(),
        config: String::new(),
        value: String::new(),
        state: State::Active,
        generation: Generation::new(0),
        ref_count: 0,
        holders: Vec::new(),
        held_until: None,
        last_disconnect: None,
        last_update: never,
        last_seen: never,
        attempts: 0,
    }
}

/// A claim of which all is to be filled in.
pub fn claim(id: SessionId) -> Claim {
    let never = Timestamp::from_millis(0);
    Claim {
        id,
        generation: Generation::new(0),
        broadcaster: String::new(),
        config: String::new(),
        value: String::new(),
        since: never,
        attempt: 0,
        until: never,
    }
}
