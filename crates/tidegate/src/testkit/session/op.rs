//! What happens in a random history of sessions, and in which kind of space.

use std::time::Duration;

use proptest::prelude::*;

use super::options;
use crate::session::{SessionOptions, State};

/// The generation that a call is made with.
#[derive(Debug, Clone, Copy)]
pub(super) enum Of {
    Any,
    Right,
    Before,
    After,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Hold {
    Connect,
    Resume,
    Heartbeat,
    Disconnect,
}

/// Sessions are told by the order in which they were made, the last first; one more than
/// there are is one that never was.
#[derive(Debug, Clone)]
pub(super) enum Op {
    Activate {
        broadcaster: u8,
        config: u8,
        holder: Option<u8>,
    },
    Hold {
        how: Hold,
        session: u8,
        holder: u8,
        of: Of,
    },
    Update {
        session: u8,
        value: u8,
        of: Of,
    },
    Get {
        session: u8,
    },
    Find {
        broadcaster: u8,
    },
    Delete {
        session: u8,
    },
    Orphans {
        age_ms: u64,
        after: Option<u8>,
        limit: usize,
    },
    List {
        state: State,
        after: Option<u8>,
        limit: usize,
    },
    Counts,
    Claim {
        limit: usize,
    },
    Ack {
        session: u8,
        of: Of,
    },
    AckMany {
        of: Of,
    },
    Renew {
        session: u8,
        of: Of,
        attempt: u64,
    },
    Cleanup,
    Retry {
        session: u8,
    },
    /// Nobody is there meanwhile.
    Move {
        by_ms: i64,
    },
    /// Somebody is.
    Pass {
        by_ms: u64,
    },
    MoveTo {
        edge: u8,
        off_ms: i64,
    },
    PassTo {
        edge: u8,
        off_ms: i64,
    },
    /// The clock was absurdly ahead, is put back, and comes by some of the same moments again.
    Again {
        by_ms: u64,
    },
}

/// How far a history goes, back and forth: less than what keys live longer than their data.
pub(super) const LONGEST_MS: u64 = 1_700_000;

pub(super) fn ops() -> impl Strategy<Value = Vec<Op>> {
    let of =
        prop_oneof![4 => Just(Of::Any), 4 => Just(Of::Right), 1 => Just(Of::Before), 1 => Just(Of::After)];
    let session = prop_oneof![5 => 0..2_u8, 2 => 0..6_u8, 1 => 0..20_u8];
    let how = prop_oneof![
        2 => Just(Hold::Connect),
        2 => Just(Hold::Resume),
        2 => Just(Hold::Heartbeat),
        4 => Just(Hold::Disconnect)
    ];
    let state = prop_oneof![
        Just(State::Active),
        Just(State::Disconnected),
        Just(State::Orphan),
        Just(State::Claimed),
        Just(State::Dead)
    ];
    let after = prop::option::of(0..4_u8);
    let limit = prop_oneof![6 => 1..4_usize, 1 => Just(0), 1 => Just(5000)];
    let op = prop_oneof![
        8 => (0..4_u8, 0..3_u8, prop::option::of(0..3_u8))
            .prop_map(|(broadcaster, config, holder)| Op::Activate { broadcaster, config, holder }),
        16 => (how, session.clone(), 0..3_u8, of.clone())
            .prop_map(|(how, session, holder, of)| Op::Hold { how, session, holder, of }),
        1 => (session.clone(), 0..3_u8, of.clone())
            .prop_map(|(session, value, of)| Op::Update { session, value, of }),
        2 => session.clone().prop_map(|session| Op::Get { session }),
        2 => (0..5_u8).prop_map(|broadcaster| Op::Find { broadcaster }),
        2 => session.clone().prop_map(|session| Op::Delete { session }),
        2 => (0..9000_u64, after.clone(), limit.clone())
            .prop_map(|(age_ms, after, limit)| Op::Orphans { age_ms, after, limit }),
        2 => (state, after, limit.clone()).prop_map(|(state, after, limit)| Op::List { state, after, limit }),
        2 => Just(Op::Counts),
        6 => limit.prop_map(|limit| Op::Claim { limit }),
        3 => (session.clone(), of.clone()).prop_map(|(session, of)| Op::Ack { session, of }),
        2 => (session.clone(), of.clone(), 1..3_u64)
            .prop_map(|(session, of, attempt)| Op::Renew { session, of, attempt }),
        1 => of.prop_map(|of| Op::AckMany { of }),
        1 => Just(Op::Cleanup),
        1 => session.prop_map(|session| Op::Retry { session }),
        2 => (0..3000_i64).prop_map(|by_ms| Op::Move { by_ms }),
        2 => (0..3000_u64).prop_map(|by_ms| Op::Pass { by_ms }),
        3 => (0..8_u8, -1..2_i64).prop_map(|(edge, off_ms)| Op::MoveTo { edge, off_ms }),
        8 => (0..8_u8, -1..2_i64).prop_map(|(edge, off_ms)| Op::PassTo { edge, off_ms }),
        1 => prop_oneof![6 => -3000..0_i64, 1 => -90_000..0_i64, 1 => -300_000..300_000_i64]
            .prop_map(|by_ms| Op::Move { by_ms }),
        1 => (0..4000_u64).prop_map(|by_ms| Op::Again { by_ms }),
    ];
    prop::collection::vec(op, 1..120)
}

pub(super) fn spaces() -> impl Strategy<Value = SessionOptions> {
    let grace = prop_oneof![Just(0_u64), Just(1500), Just(5000)];
    let lease = prop_oneof![Just(1000_u64), Just(3000)];
    let more = prop_oneof![Just(0_u64), Just(2000), Just(60_000)];
    let (kept, claim) = (prop_oneof![Just(0_u64), Just(60_000)], prop_oneof![Just(1000_u64), Just(4000)]);
    let holders = prop_oneof![3 => 1..4_usize, 1 => Just(50)];
    (grace, lease, more, kept, claim, 1..4_u32, holders, 1..7_usize, 1..4_usize).prop_map(
        |(grace, lease, more, kept, claim, attempts, holders, sessions, batch)| {
            let ttl = grace + lease + more;
            let duration = Duration::from_millis;
            options(|it| {
                (it.grace, it.holder_lease, it.session_ttl) =
                    (duration(grace), duration(lease), duration(ttl));
                (it.retention, it.claim_lease) = (duration((ttl + kept).max(claim)), duration(claim));
                it.migration_lease = duration(ttl);
                (it.max_attempts, it.max_holders) = (attempts, holders);
                (it.max_sessions, it.batch) = (sessions, batch);
            })
        },
    )
}
