//! The same random history on limits and on their models: every field of every answer
//! must agree.

use std::collections::HashSet;
use std::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::TestCaseResult;

use super::model::{
    CalendarModel, Charge, Charged, Charges, Expected, GivenBack, Modelled, Outcome, Pace, RawEvents,
    SlidingModel, SuppressedModel, TokenModel, take_all,
};
use super::{ChargeAnswer, Face, Gate, Kit, calendar, sliding, token};
use crate::bounds::Rate;
use crate::clock::{ManualClock, Timestamp};
use crate::limit::{
    Algorithm, Decision, LimitOptions, Override, Period, Quota, Receipt, Release, Sliding, Source, Suppressed,
};
use crate::random::Random;
use crate::testkit::history;

/// A rate as the store is told and as the models are.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Named {
    rate: Rate,
    pace: Pace,
}

impl Named {
    fn new(permits: u64, unit: char) -> Self {
        let per_ms = match unit {
            's' => 1000,
            'm' => 60_000,
            _ => 3_600_000,
        };
        Self { rate: format!("{permits}/{unit}").parse().unwrap(), pace: Pace { permits, per_ms } }
    }
}

#[derive(Debug, Clone)]
enum Op {
    Take {
        limit: usize,
        key: u8,
        cost: u64,
        rate: Option<Named>,
    },
    TakeAll {
        key: u8,
        limits: Vec<(usize, u64)>,
    },
    /// By an id, of limits that hold.
    ChargeAll {
        key: u8,
        id: u8,
        limits: Vec<(usize, u64)>,
    },
    ReleaseAll {
        key: u8,
        id: u8,
        limits: Vec<usize>,
    },
    Peek {
        limit: usize,
        key: u8,
        cost: u64,
    },
    /// The receipt `back` takes ago, whoever took it.
    Refund {
        back: usize,
    },
    Reset {
        limit: usize,
        key: u8,
    },
    SetOverride {
        limit: usize,
        key: u8,
        rate: Named,
        lasting_ms: u64,
    },
    GetOverride {
        limit: usize,
        key: u8,
    },
    ClearOverride {
        limit: usize,
        key: u8,
    },
    Move {
        by_ms: i64,
    },
}

const LENGTH: usize = 120;
const START_MS: u64 = 1_700_000_000_123;
const SEED: u64 = 7;

/// One limit of each kind.
const LIMITS: [&str; 5] = ["sliding", "token", "calendar", "suppressed", "smooth"];

/// Those of them that hold what is charged by an id.
const HOLDING: [usize; 2] = [0, 2];

/// An id, and the limits it is used for: mostly the same, in any order, so that most that is sent again is a repeat.
fn charged() -> impl Strategy<Value = (u8, Vec<usize>)> {
    let usual = |id: u8| match id % 3 {
        0 => vec![HOLDING[usize::from(id / 3 % 2)]],
        1 => HOLDING.to_vec(),
        _ => vec![HOLDING[1], HOLDING[0]],
    };
    (0..12_u8, prop::option::weighted(0.1, prop::sample::subsequence(HOLDING.to_vec(), 1..=2)))
        .prop_map(move |(id, other)| (id, other.unwrap_or_else(|| usual(id))))
}

/// Rates that every one of them can have.
fn rates() -> impl Strategy<Value = Named> {
    prop_oneof![
        (60..3000_u64).prop_map(|permits| Named::new(permits, 'm')),
        (1..50_u64).prop_map(|permits| Named::new(permits, 's')),
        (3600..99_999_u64).prop_map(|permits| Named::new(permits, 'h')),
    ]
}

fn ops(backwards: bool) -> impl Strategy<Value = Vec<Op>> {
    let back = if backwards { -90_000..0_i64 } else { 0..1 };
    let step_back = if backwards { -700..0_i64 } else { 0..1 };
    // One limit alone is gone through in depth, all together in breadth.
    let focus = prop::option::weighted(0.7, 0..LIMITS.len());
    focus.prop_flat_map(move |focus| {
        let limit = match focus {
            Some(focus) => focus..focus + 1,
            None => 0..LIMITS.len(),
        };
        let target = (limit, 0..3_u8);
        let some = prop::sample::subsequence((0..LIMITS.len()).collect::<Vec<_>>(), 1..=LIMITS.len()).prop_shuffle();
        let op = prop_oneof![
            8 => (target.clone(), 1..7_u64)
                .prop_map(|((limit, key), cost)| Op::Take { limit, key, cost, rate: None }),
            1 => (target.clone(), 1..40_u64, rates())
                .prop_map(|((limit, key), cost, rate)| Op::Take { limit, key, cost, rate: Some(rate) }),
            if focus.is_none() { 6 } else { 1 } => (0..3_u8, some, prop::collection::vec(1..5_u64, LIMITS.len()))
                .prop_map(|(key, some, costs)| Op::TakeAll { key, limits: some.into_iter().zip(costs).collect() }),
            5 => (0..3_u8, charged(), prop::bool::weighted(0.05)).prop_map(|(key, (id, limits), is_other)| {
                let cost = |limit: usize| u64::from(id) % 4 + 1 + limit as u64 + u64::from(is_other);
                Op::ChargeAll { key, id, limits: limits.into_iter().map(|limit| (limit, cost(limit))).collect() }
            }),
            2 => (0..3_u8, charged()).prop_map(|(key, (id, limits))| Op::ReleaseAll { key, id, limits }),
            2 => (target.clone(), prop_oneof![Just(1), 1..50_u64])
                .prop_map(|((limit, key), cost)| Op::Peek { limit, key, cost }),
            3 => (0..12_usize).prop_map(|back| Op::Refund { back }),
            1 => target.clone().prop_map(|(limit, key)| Op::Reset { limit, key }),
            1 => (target.clone(), rates(), 1..9_000_u64)
                .prop_map(|((limit, key), rate, lasting_ms)| Op::SetOverride { limit, key, rate, lasting_ms }),
            1 => prop_oneof![
                target.clone().prop_map(|(limit, key)| Op::GetOverride { limit, key }),
                target.prop_map(|(limit, key)| Op::ClearOverride { limit, key }),
            ],
            5 => (0..400_i64).prop_map(|by_ms| Op::Move { by_ms }),
            1 => (0..5000_i64).prop_map(|by_ms| Op::Move { by_ms }),
            1 => step_back.clone().prop_map(|by_ms| Op::Move { by_ms }),
            1 => prop_oneof![9 => Just(0_i64), 1 => back.clone(), 1 => 0..200_000_i64]
                .prop_map(|by_ms| Op::Move { by_ms }),
        ];
        prop::collection::vec(op, 1..=LENGTH)
    })
}

/// A capacity over a window, on a grid, and the same as a rate.
type Windowed = (u32, u64, u64);

#[derive(Debug, Clone)]
struct Setup {
    sliding: Windowed,
    token: (Named, u64),
    calendar: (u64, u64, Period),
    suppressed: (Windowed, u64),
    smooth: Windowed,
}

fn windows() -> impl Strategy<Value = Windowed> {
    prop_oneof![
        Just((10, 1, 10)),
        Just((13, 1, 100)),
        Just((5, 1, 1000)),
        Just((40, 2, 16)),
        Just((9, 3, 777)),
    ]
}

fn setups() -> impl Strategy<Value = Setup> {
    let tokens = prop_oneof![
        Just((Named::new(3, 's'), 10)),
        Just((Named::new(77, 'm'), 7)),
        Just((Named::new(2000, 's'), 15)),
        Just((Named::new(5000, 'h'), 12)),
    ];
    let calendars = prop_oneof![
        Just((60, 0, Period::Minute)),
        Just((60, 17, Period::Minute)),
        Just((60, 20, Period::Hour)),
        Just((50, 1, Period::Day)),
    ];
    let suppressed = (windows(), prop_oneof![Just(1000), Just(1500), Just(1750), Just(10_000)]);
    (windows(), tokens, calendars, suppressed, windows()).prop_map(
        |(sliding, token, calendar, suppressed, smooth)| Setup {
            sliding,
            token,
            calendar,
            suppressed,
            smooth,
        },
    )
}

impl Setup {
    fn algorithms(&self) -> [(&'static str, Algorithm); 5] {
        let window = |(capacity, seconds, coalesce_ms): Windowed| sliding(capacity, seconds, coalesce_ms);
        let (limit, buffer, period) = self.calendar;
        let rate = self.token.0.rate.to_string();
        let (suppressed, thousandths) = self.suppressed;
        let algorithms: [Algorithm; 5] = [
            window(self.sliding).into(),
            token(&rate, self.token.1).into(),
            calendar(limit, period).with_safety_buffer(buffer).unwrap().into(),
            Suppressed::new(window(suppressed), thousandths as f64 / 1000.0).unwrap().into(),
            Suppressed::smooth(window(self.smooth)).into(),
        ];
        std::array::from_fn(|index| (LIMITS[index], algorithms[index]))
    }

    fn models(&self) -> Vec<Modelled> {
        let over =
            |(capacity, seconds, _): Windowed| Pace { permits: capacity.into(), per_ms: seconds * 1000 };
        let algorithms = self.algorithms().map(|(_, algorithm)| algorithm);
        let model = |algorithm: &Algorithm| match algorithm {
            Algorithm::Sliding(sliding) => Modelled::new(SlidingModel::new(sliding), over(self.sliding)),
            Algorithm::Token(token) => Modelled::new(TokenModel::new(token), self.token.0.pace),
            Algorithm::Calendar(calendar) => {
                let pace = Pace { permits: self.calendar.0, per_ms: self.calendar.2.as_millis() };
                Modelled::new(CalendarModel::new(calendar), pace)
            }
            Algorithm::Suppressed(smooth) if smooth.is_smooth() => {
                Modelled::new(SuppressedModel::new(smooth, None), over(self.smooth))
            }
            Algorithm::Suppressed(suppressed) => {
                let (window, thousandths) = self.suppressed;
                Modelled::new(SuppressedModel::new(suppressed, Some(thousandths)), over(window))
            }
        };
        algorithms.iter().map(model).collect()
    }
}

fn describe(decision: &Decision) -> Expected {
    let quota = decision.quota();
    assert_eq!(decision.source(), Source::Store);
    let outcome = match decision {
        Decision::Admitted(admitted) => Outcome::Admitted(admitted.receipt.map(|receipt| receipt.cost())),
        Decision::Rejected(rejected) => {
            Outcome::Rejected(rejected.wait.map(|wait| (wait.retry_after_ms, wait.remaining_after_waiting)))
        }
        Decision::Suppressed(it) => Outcome::Suppressed(it.suppression_factor.to_bits(), it.is_allowed),
    };
    Expected {
        outcome,
        capacity: quota.capacity,
        remaining: quota.remaining,
        reset_after_ms: quota.reset_after_ms,
        window_size_seconds: quota.window_size_seconds,
    }
}

/// What limits say of a charge, as the model says it.
fn describe_charge(answer: crate::Result<ChargeAnswer>) -> Charged {
    let stand = |(_, quota): &(String, Quota)| standing(*quota);
    match answer {
        Ok(ChargeAnswer::Charged { is_new, quotas }) => {
            Charged::Charged(is_new, quotas.iter().map(stand).collect())
        }
        Ok(ChargeAnswer::Released) => Charged::Released,
        Ok(ChargeAnswer::Refused(said)) => {
            Charged::Refused(said.iter().map(|(_, decision)| describe(decision)).collect())
        }
        Err(error) if error.kind() == crate::ErrorKind::Conflict => Charged::Conflict,
        Err(error) => panic!("{error}"),
    }
}

/// Where a limit stands, whatever was asked of it.
fn standing(quota: Quota) -> Expected {
    Expected {
        outcome: Outcome::Admitted(None),
        capacity: quota.capacity,
        remaining: quota.remaining,
        reset_after_ms: quota.reset_after_ms,
        window_size_seconds: quota.window_size_seconds,
    }
}

/// What was charged, to be given back some time.
#[derive(Default)]
struct Receipts {
    made: Vec<(usize, String, Receipt, Charge)>,
    seen: HashSet<(usize, Receipt)>,
}

impl Receipts {
    fn add(&mut self, limit: usize, key: &str, decision: &Decision, charge: Option<Charge>) -> bool {
        let Some((receipt, charge)) = decision.receipt().zip(charge) else { return true };
        self.made.push((limit, key.to_owned(), receipt, charge));
        self.seen.insert((limit, receipt))
    }
}

/// Runs a history on limits and on their models.
async fn agree(gate: &impl Gate, clock: &ManualClock, setup: &Setup, history: &[Op]) -> TestCaseResult {
    let limits = LIMITS.map(|name| gate.limit(name));
    let (mut models, draws) = (setup.models(), Random::seeded(SEED));
    let draw = |limit: usize| if limit >= 3 { draws.draw() } else { 0.0 };
    let (mut charges, mut by_id) = (Receipts::default(), Charges::default());
    let name = |key: u8| format!("key{key}");
    for (step, op) in history.iter().enumerate() {
        let now = clock.now().as_millis();
        match op.clone() {
            Op::Take { limit, key, cost, rate } => {
                let key = name(key);
                let decision = limits[limit].take(&key, cost, rate.map(|named| named.rate)).await.unwrap();
                let own = rate.map(|named| named.pace);
                let (expected, charge) = models[limit].take(&key, now, cost, own, draw(limit));
                prop_assert_eq!(describe(&decision), expected, "step {}: {:?}", step, op);
                prop_assert!(charges.add(limit, &key, &decision, charge), "step {}: a receipt twice", step);
            }
            Op::TakeAll { key, limits: parts } => {
                let key = name(key);
                let named: Vec<_> = parts.iter().map(|(limit, cost)| (LIMITS[*limit], *cost)).collect();
                let said = gate.take_all(&key, &named).await.unwrap();
                let drawn: Vec<_> = parts.iter().map(|(limit, cost)| (*limit, *cost, draw(*limit))).collect();
                let expected = take_all(&mut models, &key, now, &drawn);
                prop_assert_eq!(said.len(), expected.len(), "step {}: {:?}", step, op);
                for (((limit, _), (name, decision)), (expected, charge)) in
                    parts.iter().zip(said).zip(expected)
                {
                    prop_assert_eq!(name.as_str(), LIMITS[*limit]);
                    prop_assert_eq!(describe(&decision), expected, "step {}, {}: {:?}", step, name, op);
                    prop_assert!(
                        charges.add(*limit, &key, &decision, charge),
                        "step {}: a receipt twice",
                        step
                    );
                }
            }
            Op::ChargeAll { key, id, limits: parts } => {
                let named: Vec<_> = parts.iter().map(|(limit, cost)| (LIMITS[*limit], *cost)).collect();
                let said = gate.charge_all(&name(key), &format!("id{id}"), &named).await;
                let expected = match by_id.charge(&mut models, &name(key), now, id, &parts) {
                    Charged::Charged(is_new, stand) => {
                        let stand = stand.into_iter();
                        Charged::Charged(
                            is_new,
                            stand.map(|it| Expected { outcome: Outcome::Admitted(None), ..it }).collect(),
                        )
                    }
                    other => other,
                };
                prop_assert_eq!(describe_charge(said), expected, "step {}: {:?}", step, op);
            }
            Op::ReleaseAll { key, id, limits: parts } => {
                let named: Vec<_> = parts.iter().map(|limit| LIMITS[*limit]).collect();
                let said = gate.release_all(&name(key), &format!("id{id}"), &named).await;
                let expected = by_id.release(&mut models, &name(key), now, id, &parts);
                let said = match said {
                    Ok(Release::Released { is_new }) => GivenBack::Released(is_new),
                    Ok(Release::Unknown) => GivenBack::Unknown,
                    Err(error) if error.kind() == crate::ErrorKind::Conflict => GivenBack::Conflict,
                    Err(error) => panic!("{error}"),
                };
                prop_assert_eq!(said, expected, "step {}: {:?}", step, op);
            }
            Op::Peek { limit, key, cost } => {
                let decision = limits[limit].peek_for(&name(key), cost).await.unwrap();
                let expected = models[limit].peek(&name(key), now, cost);
                prop_assert_eq!(describe(&decision), expected, "step {}: {:?}", step, op);
            }
            Op::Refund { back } => {
                let Some(at) = charges.made.len().checked_sub(back + 1) else { continue };
                let (limit, key, receipt, charge) = charges.made[at].clone();
                let given_back = limits[limit].refund(&key, receipt).await.unwrap();
                prop_assert_eq!(
                    given_back,
                    models[limit].refund(&key, now, charge),
                    "step {}: {:?}",
                    step,
                    op
                );
            }
            Op::Reset { limit, key } => {
                limits[limit].reset(&name(key)).await.unwrap();
                models[limit].reset(&name(key), now);
                by_id.reset(limit, &name(key));
            }
            Op::SetOverride { limit, key, rate, lasting_ms } => {
                let lasting = Duration::from_millis(lasting_ms);
                limits[limit].set_override(&name(key), rate.rate, lasting).await.unwrap();
                models[limit].set_override(&name(key), now, rate.pace, lasting_ms);
            }
            Op::GetOverride { limit, key } => {
                let current = limits[limit].get_override(&name(key)).await.unwrap();
                let expected = models[limit].get_override(&name(key), now);
                let current = current.map(|Override { rate, lasting }| (rate, lasting.as_millis() as u64));
                let unit = |per_ms| {
                    if per_ms == 1000 {
                        's'
                    } else if per_ms == 60_000 {
                        'm'
                    } else {
                        'h'
                    }
                };
                let expected =
                    expected.map(|(pace, left)| (Named::new(pace.permits, unit(pace.per_ms)).rate, left));
                prop_assert_eq!(current, expected, "step {}: {:?}", step, op);
            }
            Op::ClearOverride { limit, key } => {
                limits[limit].clear_override(&name(key)).await.unwrap();
                models[limit].clear_override(&name(key));
            }
            Op::Move { by_ms } => clock.set(Timestamp::from_millis(now.strict_add_signed(by_ms))),
        }
    }
    Ok(())
}

/// Runs so many random operations on limits of `kit` and on the models.
pub fn check(kit: &impl Kit, operations: usize) {
    // Histories have half of LENGTH operations in the mean.
    history::run(operations * 2 / LENGTH, &(setups(), ops(true)), async |(setup, history)| {
        let clock = ManualClock::at(Timestamp::from_millis(START_MS));
        let gate = kit.fresh(&setup.algorithms(), &LimitOptions::default(), clock.clone(), SEED).await;
        agree(&gate, &clock, &setup, &history).await
    });
}

/// Knows nothing of buckets: whatever the pattern, no stretch of time as long
/// as the window holds more than the capacity. Refunded charges do not count.
pub fn check_raw_events(kit: &impl Kit, operations: usize) {
    let limits =
        windows().prop_map(|(capacity, seconds, coalesce_ms)| sliding(capacity, seconds, coalesce_ms));
    history::run(operations / LENGTH, &(limits, ops(false)), async |(sliding, history)| {
        let clock = ManualClock::at(Timestamp::from_millis(START_MS));
        let limits = [("api", sliding.into())];
        let gate = kit.fresh(&limits, &LimitOptions::default(), clock.clone(), SEED).await;
        holds_no_more_than_the_capacity(&gate.limit("api"), &clock, &sliding, history).await
    });
}

async fn holds_no_more_than_the_capacity(
    limit: &impl Face,
    clock: &ManualClock,
    sliding: &Sliding,
    history: Vec<Op>,
) -> TestCaseResult {
    let (mut events, mut receipts) = (RawEvents::default(), Vec::new());
    for op in history {
        match op {
            Op::Take { cost, .. } => {
                let decision = limit.take("k", cost, None).await.unwrap();
                if let Some(receipt) = decision.receipt() {
                    receipts.push((receipt, events.admitted(clock.now().as_millis(), cost)));
                }
            }
            Op::Refund { back } => {
                let Some(at) = receipts.len().checked_sub(back + 1) else { continue };
                let (receipt, event) = receipts[at];
                if limit.refund("k", receipt).await.unwrap() > 0 {
                    prop_assert!(events.gave_back(event), "given back twice");
                }
            }
            Op::Move { by_ms } => clock.advance_ms(by_ms.unsigned_abs()),
            _ => {}
        }
    }
    let (fullest, capacity) = (events.fullest_window(sliding.window().as_millis()), sliding.capacity());
    prop_assert!(fullest <= capacity, "{} of {} in one window", fullest, capacity);
    Ok(())
}
