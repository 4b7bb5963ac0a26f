#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use super::*;
use crate::session::SessionOptions;

const START_MS: u64 = 1_700_000_000_000;

/// Somebody looks after them all the time.
fn pass(partition: &mut Partition, from_ms: u64, to_ms: u64) -> u64 {
    (from_ms..to_ms)
        .step_by(20_000)
        .for_each(|at_ms| assert_eq!(partition.stamp(at_ms, Duration::ZERO), None));
    to_ms
}

/// Somebody has claimed it, and its side effects have not run.
#[test]
fn what_was_claimed_is_deleted_only_by_those_who_mean_it() {
    let options = SessionOptions::default();
    let mut partition = Partition::new(options.bounds(1), 10_000);
    let grace_ms = options.grace.as_millis() as u64;
    let (claimed, other) = (SessionId::random(), SessionId::random());
    for (id, broadcaster) in [(claimed, "claimed"), (other, "other")] {
        partition.activate(START_MS, id, broadcaster, "", "h").unwrap();
    }
    partition.disconnect(START_MS, claimed, "h", None).unwrap();
    let orphaned_ms = pass(&mut partition, START_MS, START_MS + grace_ms);
    assert_eq!(partition.claim(orphaned_ms, 9, 9).claims.len(), 1);
    // Its claim has ended long ago.
    let later_ms = pass(&mut partition, orphaned_ms, START_MS + 3_600_000);
    let swept = partition.cleanup(later_ms, 9, false);
    assert_eq!((swept.deleted, swept.is_more), (1, false));
    assert!(partition.get(later_ms, other).is_none());
    assert_eq!(partition.get(later_ms, claimed).unwrap().attempts, 1);
    assert_eq!(partition.cleanup(later_ms, 9, true).deleted, 1);
    assert!(partition.get(later_ms, claimed).is_none());
}
