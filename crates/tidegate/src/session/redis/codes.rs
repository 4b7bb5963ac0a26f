//! The numbers by which scripts of sessions and this crate understand each other: `codes.lua` has the
//! same names for them.

use super::super::memory::Set;
use super::super::types::Refusal;

const GONE: i64 = 1;
const REAPING: i64 = 2;
const IS_ACTIVE: i64 = 3;
const IS_DISCONNECTED: i64 = 4;
const LAPSED: i64 = 5;
const STALE: i64 = 6;
const CROWDED: i64 = 7;
const FULL: i64 = 8;
const UNCLAIMED: i64 = 9;
/// What is under the name of a session is none: whoever wrote it, it is left alone.
pub(super) const FOREIGN: i64 = 10;

/// What a broadcaster had that activates a session.
pub(super) const NOTHING: i64 = 1;
pub(super) const A_DISCONNECTED: i64 = 2;
pub(super) const AN_ACTIVE: i64 = 3;

/// Who holds a session after one has left it.
pub(super) const NOBODY: i64 = 0;
pub(super) const OTHERS: i64 = 1;

const LIST_ACTIVE: i64 = 0;
const LIST_DISCONNECTED: i64 = 1;
const LIST_CLAIMED: i64 = 2;
const LIST_DEAD: i64 = 3;

/// Why not.
pub(super) fn refusal(code: i64) -> Option<Refusal> {
    Some(match code {
        GONE => Refusal::Gone,
        REAPING => Refusal::Reaping,
        IS_ACTIVE => Refusal::Active,
        IS_DISCONNECTED => Refusal::Disconnected,
        LAPSED => Refusal::Lapsed,
        STALE => Refusal::Stale,
        CROWDED => Refusal::TooManyHolders,
        FULL => Refusal::Full,
        UNCLAIMED => Refusal::NotClaimed,
        _ => return None,
    })
}

/// What is listed.
pub(super) fn listed(set: Set) -> i64 {
    match set {
        Set::Active => LIST_ACTIVE,
        Set::Disconnected => LIST_DISCONNECTED,
        Set::Claimed => LIST_CLAIMED,
        Set::Dead => LIST_DEAD,
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn scripts_have_the_same_codes() {
        let lua = include_str!("../codes.lua");
        crate::store::redis::codes::assert_alike(include_str!("codes.rs"), lua);
    }
}
