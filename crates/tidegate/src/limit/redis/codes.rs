//! The numbers by which scripts of limits and this crate understand each other: `codes.lua` has the
//! same names for them.

/// Over the limit.
pub(super) const REFUSED: i64 = 0;
/// Charged, or would be.
pub(super) const ADMITTED: i64 = 1;
/// Refused after a loss.
pub(super) const HELD: i64 = 2;
/// The caller's clock is off, nothing has happened.
pub(super) const ELSEWHERE: i64 = 3;
/// The key of the override is needed, nothing has happened.
pub(super) const WANTS_OVERRIDE: i64 = 4;
/// Chance decides.
pub(super) const SUPPRESSED: i64 = 5;

/// Instead of the time to come back, if waiting cannot help.
pub(super) const NEVER: i64 = -1;

/// A reservation, as it stands.
pub(super) const RESERVATION: i64 = 6;
/// The id was used for another cost.
pub(super) const OTHER_COST: i64 = 7;
/// No more ids can be pending.
pub(super) const NO_ROOM: i64 = 8;
/// There is no such id.
pub(super) const UNKNOWN: i64 = 9;
/// A block of permits, or none.
pub(super) const GRANTED: i64 = 10;

/// States of a reservation, as they are stored.
pub(super) const PENDING: i64 = 0;
pub(super) const COMMITTED: i64 = 1;
pub(super) const RELEASED: i64 = 2;
pub(super) const LAPSED: i64 = 3;
/// A charge by an id, which was never pending.
pub(super) const CHARGED: i64 = 4;

/// All limits of a take have admitted it.
pub(super) const ALL_CHARGED: i64 = -2;
/// All were judged, and nothing was charged.
pub(super) const ALL_REFUSED: i64 = -1;
/// Nothing has happened. A number above is that of a limit which holds.
pub(super) const TRY_AGAIN: i64 = 0;

/// All were charged under this id before.
pub(super) const ALL_KNOWN: i64 = -3;
/// What was charged under this id is given back.
pub(super) const ALL_RELEASED: i64 = -4;
/// Nothing is known of the id.
pub(super) const ALL_UNKNOWN: i64 = -5;
/// The id was used for another cost, for other limits, or for a reservation.
pub(super) const ALL_OTHER: i64 = -6;
/// A limit remembers as many ids as it may, and those that end first are pending.
pub(super) const ALL_NO_ROOM: i64 = -7;

#[cfg(test)]
mod tests {
    #[test]
    fn scripts_have_the_same_codes() {
        let lua = include_str!("../codes.lua");
        crate::store::redis::codes::assert_alike(include_str!("codes.rs"), lua);
    }
}
