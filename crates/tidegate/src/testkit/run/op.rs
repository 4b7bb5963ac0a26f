//! What random histories are made of.

use std::time::Duration;

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

use super::options;
use crate::run::{RunOptions, RunState};

/// The attempt that a call means.
#[derive(Debug, Clone, Copy)]
pub(super) enum Of {
    Any,
    Right,
    Before,
    After,
}

/// One call, or a move of the clock. Runs, items, tasks and fields are numbers of texts.
#[derive(Debug, Clone)]
pub(super) enum Op {
    Start {
        run: u8,
    },
    Get {
        run: u8,
    },
    List {
        state: Option<RunState>,
        limit: usize,
    },
    Update {
        run: u8,
        of: Of,
        state: Option<RunState>,
        fields: Vec<(u8, Option<u8>)>,
        total: Option<u64>,
    },
    Finish {
        run: u8,
        of: Of,
        state: RunState,
    },
    Retry {
        run: u8,
        of: Of,
    },
    Expire {
        run: u8,
        of: Of,
        after_ms: u64,
    },
    Delete {
        run: u8,
        of: Of,
    },
    Processed {
        run: u8,
        of: Of,
        items: Vec<u8>,
    },
    IsProcessed {
        run: u8,
        items: Vec<u8>,
    },
    Progress {
        run: u8,
    },
    TaskStarted {
        run: u8,
        of: Of,
        task: u8,
    },
    TaskFinished {
        run: u8,
        of: Of,
        task: u8,
    },
    Tasks {
        run: u8,
    },
    Failed {
        run: u8,
        of: Of,
        item: u8,
        reason: u8,
        id: u8,
    },
    Failures {
        run: u8,
        limit: usize,
    },
    RetryList {
        run: u8,
        limit: usize,
    },
    FailuresInHour {
        back: u64,
        limit: usize,
    },
    Cleanup,
    /// The clock moves, backwards too.
    Move {
        by_ms: i64,
    },
    /// To where something ends, or a millisecond beside.
    MoveTo {
        edge: u8,
        off_ms: i64,
    },
    /// The clock is absurdly far ahead for a call.
    Absurd {
        run: u8,
    },
}

/// How long a run lives in a history.
pub(super) const TTL_MS: u64 = 4 * 3_600_000;

/// Spaces of different bounds.
pub(super) fn spaces() -> impl Strategy<Value = RunOptions> {
    let bounds = (2_usize..6, 1_usize..4, 3_usize..12, 1_usize..4, 1_usize..4);
    bounds.prop_map(|(max_runs, max_fields, max_processed, max_failures, max_tasks)| {
        options(|it| {
            it.state_ttl = Duration::from_millis(TTL_MS);
            it.max_runs = max_runs;
            it.max_fields = max_fields;
            it.max_processed = max_processed;
            it.max_failures = max_failures;
            it.max_tasks = max_tasks;
            it.batch = 2;
        })
    })
}

fn of() -> impl Strategy<Value = Of> {
    prop_oneof![4 => Just(Of::Any), 4 => Just(Of::Right), 1 => Just(Of::Before), 1 => Just(Of::After)]
}

fn state(from: usize, to: usize) -> impl Strategy<Value = RunState> {
    (from..to).prop_map(|number| RunState::ALL[number])
}

fn limit() -> impl Strategy<Value = usize> {
    prop_oneof![1_usize..4, Just(1000)]
}

pub(super) fn ops() -> impl Strategy<Value = Vec<Op>> {
    let run = || 0_u8..6;
    let hours = || prop_oneof![1_u64..1000, 1_u64..1_800_000, 1_u64..2 * TTL_MS];
    let op = prop_oneof![
        8 => run().prop_map(|run| Op::Start { run }),
        2 => run().prop_map(|run| Op::Get { run }),
        2 => (option::of(state(0, 6)), limit()).prop_map(|(state, limit)| Op::List { state, limit }),
        4 => (run(), of(), option::of(state(0, 3)), vec((0_u8..5, option::of(0_u8..4)), 0..4), option::of(0_u64..20))
            .prop_map(|(run, of, state, fields, total)| Op::Update { run, of, state, fields, total }),
        3 => (run(), of(), state(3, 6)).prop_map(|(run, of, state)| Op::Finish { run, of, state }),
        3 => (run(), of()).prop_map(|(run, of)| Op::Retry { run, of }),
        1 => (run(), of(), hours()).prop_map(|(run, of, after_ms)| Op::Expire { run, of, after_ms: after_ms - 1 }),
        2 => (run(), of()).prop_map(|(run, of)| Op::Delete { run, of }),
        6 => (run(), of(), vec(0_u8..16, 0..8)).prop_map(|(run, of, items)| Op::Processed { run, of, items }),
        2 => (run(), vec(0_u8..16, 0..8)).prop_map(|(run, items)| Op::IsProcessed { run, items }),
        2 => run().prop_map(|run| Op::Progress { run }),
        3 => (run(), of(), 0_u8..5).prop_map(|(run, of, task)| Op::TaskStarted { run, of, task }),
        3 => (run(), of(), 0_u8..5).prop_map(|(run, of, task)| Op::TaskFinished { run, of, task }),
        1 => run().prop_map(|run| Op::Tasks { run }),
        6 => (run(), of(), 0_u8..6, 0_u8..4, 0_u8..3)
            .prop_map(|(run, of, item, reason, id)| Op::Failed { run, of, item, reason, id }),
        1 => (run(), limit()).prop_map(|(run, limit)| Op::Failures { run, limit }),
        1 => (run(), limit()).prop_map(|(run, limit)| Op::RetryList { run, limit }),
        1 => (0_u64..6, limit()).prop_map(|(back, limit)| Op::FailuresInHour { back, limit }),
        1 => Just(Op::Cleanup),
        4 => hours().prop_map(|by_ms| Op::Move { by_ms: by_ms as i64 }),
        1 => (1_i64..1_800_000).prop_map(|by_ms| Op::Move { by_ms: -by_ms }),
        2 => (0_u8..20, -1_i64..2).prop_map(|(edge, off_ms)| Op::MoveTo { edge, off_ms }),
        1 => run().prop_map(|run| Op::Absurd { run }),
    ];
    vec(op, 1..120)
}
