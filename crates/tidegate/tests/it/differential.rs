//! The same random history on every store and on the model; every field of
//! every answer must agree.
//!
//! `TIDEGATE_HISTORY_OPS` sets how many operations run (memory against the
//! model, and a fiftieth of it on Redis); the default keeps the suite quick.

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use tidegate::Rate;
use tidegate::clock::{ManualClock, Timestamp};
use tidegate::limit::{Decision, Receipt, Sliding, Source};
use tidegate::testkit::limit::{Face, Kit, sliding};
use tidegate::testkit::model::{Expected, Model, RawEvents};

use crate::kit::{CLUSTER, On, REDIS};

#[derive(Debug, Clone)]
enum Op {
    Take {
        key: u8,
        cost: u64,
    },
    TakeWith {
        key: u8,
        cost: u64,
        per_minute: u32,
    },
    Peek {
        key: u8,
    },
    /// The receipt `back` takes ago, whoever took it.
    Refund {
        back: usize,
    },
    Reset {
        key: u8,
    },
    Move {
        by_ms: i64,
    },
}

const LENGTH: usize = 120;
const START_MS: u64 = 1_700_000_000_123;

fn ops(backwards: bool) -> impl Strategy<Value = Vec<Op>> {
    let back = if backwards { -90_000..0_i64 } else { 0..1 };
    let step_back = if backwards { -700..0_i64 } else { 0..1 };
    let key = 0..3_u8;
    let op = prop_oneof![
        8 => (key.clone(), 1..7_u64).prop_map(|(key, cost)| Op::Take { key, cost }),
        1 => (key.clone(), 1..40_u64, 60..3000_u32)
            .prop_map(|(key, cost, per_minute)| Op::TakeWith { key, cost, per_minute }),
        2 => key.clone().prop_map(|key| Op::Peek { key }),
        3 => (0..12_usize).prop_map(|back| Op::Refund { back }),
        1 => key.prop_map(|key| Op::Reset { key }),
        5 => (0..400_i64).prop_map(|by_ms| Op::Move { by_ms }),
        1 => (0..5000_i64).prop_map(|by_ms| Op::Move { by_ms }),
        1 => step_back.prop_map(|by_ms| Op::Move { by_ms }),
        1 => prop_oneof![9 => Just(0_i64), 1 => back, 1 => 0..200_000_i64].prop_map(|by_ms| Op::Move { by_ms }),
    ];
    prop::collection::vec(op, 1..=LENGTH)
}

fn limits() -> impl Strategy<Value = Sliding> {
    prop_oneof![
        Just(sliding(10, 1, 10)),
        Just(sliding(13, 1, 100)),
        Just(sliding(5, 1, 1000)),
        Just(sliding(40, 2, 16)),
        Just(sliding(9, 3, 777)),
    ]
}

fn describe(decision: &Decision) -> Expected {
    let numbers = |receipt: Receipt| {
        let text = receipt.to_string();
        let mut parts = text.split('-').map(|part| part.parse::<u64>().unwrap());
        // The first also tells which of the key's 64 lives it was.
        (parts.next().unwrap() / 64, parts.next().unwrap(), parts.next().unwrap())
    };
    let quota = decision.quota();
    assert_eq!(decision.source(), Source::Store);
    Expected {
        admitted: decision.is_admitted(),
        capacity: quota.capacity,
        remaining: quota.remaining,
        reset_after_ms: quota.reset_after_ms,
        window_size_seconds: quota.window_size_seconds,
        wait: decision.wait().map(|wait| (wait.retry_after_ms, wait.remaining_after_waiting)),
        receipt: decision.receipt().map(numbers),
    }
}

/// Runs a history on a limit and on the model.
async fn agree(
    limit: &impl Face,
    clock: &ManualClock,
    sliding: &Sliding,
    history: &[Op],
) -> Result<(), TestCaseError> {
    let mut model = Model::new(sliding);
    let mut receipts: Vec<(String, Receipt, (u64, u64, u64))> = Vec::new();
    let name = |key: u8| format!("key{key}");
    for (step, op) in history.iter().enumerate() {
        let now = clock.now().as_millis();
        match *op {
            Op::Take { key, cost } => {
                let decision = limit.take(&name(key), cost, None).await.unwrap();
                let expected = model.take(&name(key), now, cost, None);
                prop_assert_eq!(describe(&decision), expected, "step {}: {:?}", step, op);
                receipts.extend(decision.receipt().zip(expected.receipt).map(|(a, b)| (name(key), a, b)));
            }
            Op::TakeWith { key, cost, per_minute } => {
                let rate: Rate = format!("{per_minute}/m").parse().unwrap();
                let capacity = rate.capacity(sliding.window()).unwrap();
                let decision = limit.take(&name(key), cost, Some(rate)).await.unwrap();
                let expected = model.take(&name(key), now, cost, Some(capacity));
                prop_assert_eq!(describe(&decision), expected, "step {}: {:?}", step, op);
                receipts.extend(decision.receipt().zip(expected.receipt).map(|(a, b)| (name(key), a, b)));
            }
            Op::Peek { key } => {
                let decision = limit.peek(&name(key)).await.unwrap();
                prop_assert_eq!(describe(&decision), model.peek(&name(key), now), "step {}: {:?}", step, op);
            }
            Op::Refund { back } => {
                let Some(at) = receipts.len().checked_sub(back + 1) else { continue };
                let (key, receipt, plain) = receipts[at].clone();
                let given_back = limit.refund(&key, receipt).await.unwrap();
                prop_assert_eq!(given_back, model.refund(&key, now, plain), "step {}: {:?}", step, op);
            }
            Op::Reset { key } => {
                limit.reset(&name(key)).await.unwrap();
                model.reset(&name(key));
            }
            Op::Move { by_ms } => clock.set(Timestamp::from_millis(now.strict_add_signed(by_ms))),
        }
    }
    Ok(())
}

/// How many operations to run.
fn budget() -> usize {
    std::env::var("TIDEGATE_HISTORY_OPS").map_or(200_000, |ops| ops.parse().expect("a number"))
}

fn check(on: &On, ops_budget: usize) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    // Histories have half of LENGTH operations in the mean.
    let cases = (ops_budget * 2 / LENGTH).max(1) as u32;
    let mut runner = TestRunner::new(Config { cases, failure_persistence: None, ..Config::default() });
    let histories = (limits(), ops(true));
    runner
        .run(&histories, |(sliding, history)| {
            runtime.block_on(async {
                let clock = ManualClock::at(Timestamp::from_millis(START_MS));
                let limit = on.fresh(sliding, clock.clone()).await;
                agree(&limit, &clock, &sliding, &history).await
            })
        })
        .unwrap_or_else(|failure| panic!("{failure}"));
}

#[test]
fn memory_agrees_with_the_model() {
    check(&On::url("memory:"), budget());
}

#[test]
fn redis_agrees_with_the_model() {
    check(&On::url(REDIS.url()), budget() / 50);
}

#[test]
fn the_cluster_agrees_with_the_model() {
    check(&On { url: CLUSTER.url(), options: |options| options.partitions = Some(3) }, budget() / 200);
}

/// Knows nothing of buckets: whatever the pattern, no stretch of time as long
/// as the window holds more than the capacity. Refunded charges do not count.
fn check_raw_events(on: &On, ops_budget: usize) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let cases = (ops_budget / LENGTH).max(1) as u32;
    let mut runner = TestRunner::new(Config { cases, failure_persistence: None, ..Config::default() });
    runner
        .run(&(limits(), ops(false)), |(sliding, history)| {
            runtime.block_on(async {
                let clock = ManualClock::at(Timestamp::from_millis(START_MS));
                let limit = on.fresh(sliding, clock.clone()).await;
                let mut events = RawEvents::default();
                let mut receipts = Vec::new();
                for op in history {
                    match op {
                        Op::Take { cost, .. } | Op::TakeWith { cost, .. } => {
                            let decision = Face::take(&limit, "k", cost, None).await.unwrap();
                            if let Some(receipt) = decision.receipt() {
                                receipts.push((receipt, events.admitted(clock.now().as_millis(), cost)));
                            }
                        }
                        Op::Refund { back } => {
                            let Some(at) = receipts.len().checked_sub(back + 1) else { continue };
                            let (receipt, event) = receipts[at];
                            if Face::refund(&limit, "k", receipt).await.unwrap() > 0 {
                                prop_assert!(events.gave_back(event), "given back twice");
                            }
                        }
                        Op::Move { by_ms } => clock.advance_ms(by_ms.unsigned_abs()),
                        Op::Peek { .. } | Op::Reset { .. } => {}
                    }
                }
                let fullest = events.fullest_window(sliding.window().as_millis());
                let capacity = sliding.capacity();
                prop_assert!(fullest <= capacity, "{} of {} in one window", fullest, capacity);
                Ok(())
            })
        })
        .unwrap_or_else(|failure| panic!("{failure}"));
}

#[test]
fn no_window_holds_more_than_the_capacity_in_memory() {
    check_raw_events(&On::url("memory:"), budget());
}

#[test]
fn no_window_holds_more_than_the_capacity_on_redis() {
    check_raw_events(&On::url(REDIS.url()), budget() / 50);
}
