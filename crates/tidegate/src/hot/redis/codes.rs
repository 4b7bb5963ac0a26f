//! The numbers by which scripts of hot pages and this crate understand each other: `codes.lua` has
//! the same names for them.

/// What became of an edit.
pub(super) const REMEMBERED: i64 = 0;
pub(super) const PROMOTED: i64 = 1;
pub(super) const ADDED: i64 = 2;
pub(super) const REJECTED: i64 = 3;
pub(super) const DUPLICATE: i64 = 4;
pub(super) const TOO_LATE: i64 = 5;
pub(super) const COUNTED: i64 = 6;
/// Or of counts that were gathered, that they were here before.
pub(super) const REPEATED: i64 = 7;
/// Or that nothing was done, since the call had enough to do.
pub(super) const LATER: i64 = 8;
/// More by so much if it counted as activity.
pub(super) const ACTIVITY: i64 = 16;
/// More by so much for each page that is not hot any more.
pub(super) const EXPIRED: i64 = 32;

/// What a page was that is removed.
pub(super) const NOT_KNOWN: i64 = 0;
pub(super) const WAS_REMEMBERED: i64 = 1;
pub(super) const WAS_HOT: i64 = 2;

/// What a position is among the events.
pub(super) const KNOWN: i64 = 0;
pub(super) const MISSED: i64 = 1;
pub(super) const IMPOSSIBLE: i64 = 2;

/// Instead of a place to go on from.
pub(super) const NO_MORE: i64 = -1;

#[cfg(test)]
mod tests {
    #[test]
    fn scripts_have_the_same_codes() {
        let lua = include_str!("../codes.lua");
        crate::store::redis::codes::assert_alike(include_str!("codes.rs"), lua);
    }
}
