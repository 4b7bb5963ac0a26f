//! The same random history of reservations, and of takes beside them, on a limit and on the
//! model: where each stands, what is left, and when there is room again.

use std::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::TestCaseResult;

use super::model::ReservationModel;
use super::{Face, Gate, Kit, Subject, calendar, sliding};
use crate::limit::{Algorithm, LimitOptions, OnLapse, Period, Reserve};
use crate::testkit::history;

const KEY: &str = "user:{1}";

#[derive(Debug, Clone)]
enum Op {
    Take {
        cost: u64,
    },
    /// The take so many before.
    Refund {
        back: usize,
    },
    Reset,
    Reserve {
        id: u8,
        cost: u64,
        lasting: u64,
    },
    Commit {
        id: u8,
    },
    Release {
        id: u8,
    },
    See {
        id: u8,
    },
    Move {
        by_ms: u64,
    },
}

fn ops(longest: u64) -> impl Strategy<Value = Vec<Op>> {
    let id = 0..12_u8;
    let op = prop_oneof![
        3 => (1..6_u64).prop_map(|cost| Op::Take { cost }),
        2 => (0..4_usize).prop_map(|back| Op::Refund { back }),
        1 => prop_oneof![3 => Just(Op::Move { by_ms: 1 }), 1 => Just(Op::Reset)],
        5 => (id.clone(), 1..=longest).prop_map(|(id, lasting)| Op::Reserve { id, cost: u64::from(id) % 5 + 1, lasting }),
        3 => id.clone().prop_map(|id| Op::Commit { id }),
        2 => id.clone().prop_map(|id| Op::Release { id }),
        1 => id.prop_map(|id| Op::See { id }),
        4 => (0..longest / 8).prop_map(|by_ms| Op::Move { by_ms }),
        1 => (0..longest * 2).prop_map(|by_ms| Op::Move { by_ms }),
    ];
    prop::collection::vec(op, 1..60)
}

async fn agree<F: Face>(
    s: &Subject<F>,
    algorithm: Algorithm,
    on_lapse: OnLapse,
    history: &[Op],
) -> TestCaseResult {
    // A moment in the middle of a bucket and of a window.
    s.at(1_234_567);
    let (limit, mut model) = (&s.limit, ReservationModel::new(algorithm, on_lapse));
    let mut receipts = Vec::new();
    for (step, op) in history.iter().enumerate() {
        let now = s.clock.now().as_millis();
        let named = |id: u8| format!("id{id}");
        match *op {
            Op::Take { cost } => {
                let decision = s.take(KEY, cost).await;
                prop_assert_eq!(decision.is_admitted(), model.take(now, cost), "step {}: {:?}", step, op);
                receipts.extend(decision.receipt());
            }
            Op::Refund { back } => {
                let Some(number) = receipts.len().checked_sub(back + 1) else { continue };
                let refunded = s.refund(KEY, receipts[number]).await;
                prop_assert_eq!(refunded, model.refund(now, number), "step {}: {:?}", step, op);
            }
            Op::Reset => {
                s.reset(KEY).await;
                model.reset();
            }
            Op::Reserve { id, cost, lasting } => {
                let answer = limit.reserve(KEY, &named(id), cost, Duration::from_millis(lasting)).await;
                let state = match answer.expect("an answer") {
                    Reserve::Held(it) | Reserve::Ended(it) => Some(it.state),
                    Reserve::Refused(_) => None,
                };
                prop_assert_eq!(state, model.reserve(now, id, cost, lasting), "step {}: {:?}", step, op);
            }
            Op::Commit { id } => {
                let found = limit.commit(KEY, &named(id)).await.expect("an answer");
                prop_assert_eq!(found.map(|it| it.state), model.commit(now, id), "step {}: {:?}", step, op);
            }
            Op::Release { id } => {
                let found = limit.release(KEY, &named(id)).await.expect("an answer");
                prop_assert_eq!(found.map(|it| it.state), model.release(now, id), "step {}: {:?}", step, op);
            }
            Op::See { id } => {
                let found = limit.reservation(KEY, &named(id)).await.expect("an answer");
                prop_assert_eq!(found.map(|it| it.state), model.state(now, id), "step {}: {:?}", step, op);
            }
            Op::Move { by_ms } => s.clock.advance_ms(by_ms),
        }
        let now = s.clock.now().as_millis();
        let peek = s.peek(KEY).await;
        prop_assert_eq!(peek.quota().remaining, model.remaining(now), "after step {}: {:?}", step, op);
        if !peek.is_admitted() {
            let wait = peek.wait().map(|wait| wait.retry_after_ms);
            prop_assert_eq!(wait, model.wait(now, 1), "after step {}: {:?}", step, op);
        }
        if let Algorithm::Calendar(_) = algorithm {
            let reset_after_ms = peek.quota().reset_after_ms;
            prop_assert_eq!(reset_after_ms, model.reset_after(now), "after step {}: {:?}", step, op);
        }
    }
    Ok(())
}

/// Runs so many random operations on limits of `kit` and on the model.
pub fn check<K: Kit>(kit: &K, operations: usize) {
    let limits: [(Algorithm, u64); 3] = [
        (sliding(12, 1, 100).into(), 1000),
        (sliding(12, 2, 16).into(), 2000),
        (calendar(12, Period::Minute).into(), 60_000),
    ];
    for (algorithm, longest) in limits {
        for on_lapse in [OnLapse::Spend, OnLapse::GiveBack] {
            let options = LimitOptions { on_lapse, ..LimitOptions::default() };
            // Six kinds of limits, and histories of 30 operations in the mean.
            history::run(operations / (6 * 30), &ops(longest), async |history| {
                let s = Subject::<<K::Gate as Gate>::Face>::with(kit, algorithm, &options).await;
                agree(&s, algorithm, on_lapse, &history).await
            });
        }
    }
}
