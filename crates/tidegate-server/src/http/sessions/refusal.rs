//! Why a call on a session changed nothing, as a problem.

use tidegate::session::Refusal;

use crate::http::{Kind, Problem};

const GONE: Kind = Kind::new(404, "session-gone", "Session gone");
const REAPING: Kind = Kind::new(409, "session-reaping", "Session being reaped");
const ACTIVE: Kind = Kind::new(409, "session-active", "Session active");
const DISCONNECTED: Kind = Kind::new(409, "session-disconnected", "Session disconnected");
const LAPSED: Kind = Kind::new(409, "session-lapsed", "Holder lapsed");
const STALE: Kind = Kind::new(409, "session-stale", "Another generation");
const NOT_CLAIMED: Kind = Kind::new(409, "session-not-claimed", "Session not claimed");
const REFUSED: Kind = Kind::new(409, "session-refused", "Session refused");
const TOO_MANY_HOLDERS: Kind = Kind::new(429, "session-too-many-holders", "Too many holders");
const TOO_MANY_SESSIONS: Kind = Kind::new(429, "sessions-full", "Too many sessions");

/// Of an operation on one that must be there.
pub(super) const IF_GONE: &[Kind] = &[GONE];

/// Of an operation that may be refused.
pub(super) const REFUSALS: &[Kind] =
    &[GONE, REAPING, ACTIVE, DISCONNECTED, LAPSED, STALE, NOT_CLAIMED, TOO_MANY_HOLDERS, TOO_MANY_SESSIONS];

impl From<Refusal> for Problem {
    fn from(refusal: Refusal) -> Self {
        let kind = match refusal {
            Refusal::Gone => GONE,
            Refusal::Reaping => REAPING,
            Refusal::Active => ACTIVE,
            Refusal::Disconnected => DISCONNECTED,
            Refusal::Lapsed => LAPSED,
            Refusal::Stale => STALE,
            Refusal::NotClaimed => NOT_CLAIMED,
            Refusal::TooManyHolders => TOO_MANY_HOLDERS,
            Refusal::Full => TOO_MANY_SESSIONS,
            // Whatever else there will be.
            _ => REFUSED,
        };
        Self::refused(kind, refusal.as_str(), refusal.to_string())
    }
}
