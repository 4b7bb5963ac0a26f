//! Cases of a take from several limits.

use super::{Face as _, Gate, Kit, SEED, START_MS, calendar, sliding, token, wait};
use crate::clock::{ManualClock, Timestamp};
use crate::limit::{Algorithm, Decision, LimitOptions, Period, Receipt, Suppressed};

/// One of each kind; `fair` cuts off above 30.
fn mixed() -> [(&'static str, Algorithm); 4] {
    let fair = Suppressed::new(sliding(30, 60, 600), 1.0).expect("a limit");
    [
        ("second", sliding(10, 1, 10).into()),
        ("bucket", token("1/s", 20).into()),
        ("day", calendar(40, Period::Day).into()),
        ("fair", fair.into()),
    ]
}

/// Limits and their clock.
struct Several<G> {
    gate: G,
    clock: ManualClock,
}

impl<G: Gate> Several<G> {
    async fn new<K: Kit<Gate = G>>(kit: &K, limits: &[(&str, Algorithm)]) -> Self {
        let clock = ManualClock::at(Timestamp::from_millis(START_MS));
        Self { gate: kit.fresh(limits, &LimitOptions::default(), clock.clone(), SEED).await, clock }
    }

    async fn take(&self, limits: &[(&str, u64)]) -> Vec<(String, Decision)> {
        self.gate.take_all("k", limits).await.expect("decisions")
    }

    /// The take is refused; by whom.
    async fn refused_by(&self, limits: &[(&str, u64)]) -> Vec<String> {
        let said = self.take(limits).await;
        let names: Vec<_> = said.iter().map(|(name, _)| name.as_str()).collect();
        let expected: Vec<_> = limits.iter().map(|(name, _)| *name).collect();
        assert_eq!(names, expected, "each says what it says, in the order they were given");
        assert!(
            said.iter().all(|(_, decision)| decision.receipt().is_none()),
            "nothing is charged: {said:?}"
        );
        said.into_iter().filter(|(_, decision)| !decision.is_admitted()).map(|(name, _)| name).collect()
    }

    /// What is left of each.
    async fn remaining<const N: usize>(&self, names: [&str; N]) -> [u64; N] {
        let mut left = [0; N];
        for (left, name) in left.iter_mut().zip(names) {
            *left = self.gate.limit(name).peek("k").await.expect("an answer").quota().remaining;
        }
        left
    }
}

const NAMES: [&str; 4] = ["second", "bucket", "day", "fair"];

/// All limits are charged, each with its own cost, or none is.
pub async fn all_are_charged_or_none(kit: &impl Kit) {
    let s = Several::new(kit, &mixed()).await;
    let said = s.take(&[("second", 1), ("bucket", 2), ("day", 3), ("fair", 4)]).await;
    let left: Vec<_> = said.iter().map(|(_, decision)| decision.quota().remaining).collect();
    assert_eq!(left, [9, 18, 37, 26]);
    assert_eq!(s.remaining(NAMES).await, [9, 18, 37, 26]);
    // Each of them refuses in turn, wherever it stands in the list.
    for (at, cost) in [(0, 10), (1, 19), (2, 38)] {
        for turn in 0..4 {
            let mut limits = NAMES.map(|name| (name, 1));
            limits[at].1 = cost;
            limits.rotate_left(turn);
            assert_eq!(s.refused_by(&limits).await, [NAMES[at]]);
            assert_eq!(s.remaining(NAMES).await, [9, 18, 37, 26], "{} refused", NAMES[at]);
        }
    }
    // One alone is charged like any other.
    s.take(&[("bucket", 18)]).await;
    assert_eq!(s.refused_by(&[("day", 1), ("bucket", 1)]).await, ["bucket"]);
    s.clock.advance_ms(1000);
    let said = s.take(&[("day", 1), ("bucket", 1)]).await;
    assert!(said.iter().all(|(_, decision)| decision.is_admitted()));
    assert_eq!(s.remaining(["second", "bucket", "day"]).await, [9, 0, 36]);
}

/// Every limit that refuses says so, with its own time to come back; the others
/// say that they would have admitted.
pub async fn all_answers_name_who_refused(kit: &impl Kit) {
    let s = Several::new(kit, &mixed()).await;
    s.take(&[("second", 9), ("bucket", 19), ("day", 39)]).await;
    assert_eq!(
        s.refused_by(&[("day", 2), ("fair", 2), ("bucket", 2), ("second", 2)]).await,
        ["day", "bucket", "second"]
    );
    let said = s.take(&[("second", 2), ("bucket", 2), ("day", 1), ("fair", 31)]).await;
    assert_eq!(wait(&said[0].1), Some((1010, 10)));
    assert_eq!(wait(&said[1].1), Some((1000, 2)));
    assert!(said[2].1.is_admitted() && said[2].1.quota().remaining == 1, "{said:?}");
    let Decision::Suppressed(fair) = said[3].1 else { panic!("{said:?}") };
    assert_eq!((fair.is_allowed, fair.suppression_factor), (false, 1.0));
    let said = s.take(&[("second", 11), ("bucket", 1)]).await;
    assert_eq!(wait(&said[0].1), None, "waiting cannot help");
    assert_eq!(s.remaining(["second", "bucket", "day"]).await, [1, 1, 1]);
}

/// A limit that declined by chance has recorded the call, as it does on its own;
/// one that would have let it pass has not.
pub async fn all_record_a_refusal_by_chance(kit: &impl Kit) {
    let hard = Suppressed::new(sliding(10, 1, 10), 2.0).expect("a limit");
    let s = Several::new(kit, &[("fair", hard.into()), ("bucket", token("1/s", 5).into())]).await;
    s.take(&[("fair", 10)]).await;
    // The bucket refuses: nobody is charged, and nothing was offered to `fair`.
    for _ in 0..3 {
        assert_eq!(s.refused_by(&[("fair", 1), ("bucket", 6)]).await, ["bucket"]);
    }
    let factor = async || match s.gate.limit("fair").peek("k").await.expect("an answer") {
        Decision::Suppressed(peek) => peek.suppression_factor,
        other => panic!("{other:?}"),
    };
    assert_eq!(factor().await, 0.0, "as much as the limit was offered");
    // Both refuse: `fair` has been offered 5 more than the limit by now.
    s.clock.advance_ms(200);
    assert_eq!(s.refused_by(&[("bucket", 6), ("fair", 15)]).await, ["bucket", "fair"]);
    s.clock.advance_ms(100);
    assert_eq!(factor().await, 1.0, "25 were offered, above the hard limit");
    assert_eq!(s.remaining(["bucket"]).await, [5]);
}

/// Many at once get exactly what the tightest limit has.
pub async fn all_at_once_admit_the_smallest_capacity(kit: &impl Kit) {
    let limits = [
        ("second", sliding(90, 1, 10).into()),
        ("bucket", token("1/h", 70).into()),
        ("day", calendar(80, Period::Day).into()),
    ];
    let s = Several::new(kit, &limits).await;
    assert_eq!(together(&s.gate, &["second", "bucket", "day"], 10).await, 70);
    assert_eq!(s.remaining(["second", "bucket", "day"]).await, [20, 0, 10]);
}

/// The order in which limits are named does not matter: no two callers wait for
/// each other for ever.
pub async fn all_in_any_order_end(kit: &impl Kit) {
    let limits = [
        ("a", sliding(300, 60, 600).into()),
        ("b", token("1/h", 250).into()),
        ("c", calendar(200, Period::Day).into()),
    ];
    let s = Several::new(kit, &limits).await;
    assert_eq!(together(&s.gate, &["a", "b", "c"], 20).await, 200);
    assert_eq!(s.remaining(["a", "b", "c"]).await, [100, 50, 0]);
}

/// How many of 32 × `turns` takes of one from each of `names` are admitted, in an
/// order that differs from task to task.
async fn together<G: Gate>(gate: &G, names: &[&'static str; 3], turns: usize) -> u64 {
    let tasks: Vec<_> = (0..32)
        .map(|task| {
            let (gate, mut limits) = (gate.clone(), names.map(|name| (name, 1)));
            limits.rotate_left(task % 3);
            if task % 2 == 0 {
                limits.reverse();
            }
            tokio::spawn(async move {
                let mut admitted = 0;
                for _ in 0..turns {
                    let said = gate.take_all("k", &limits).await.expect("decisions");
                    admitted += u64::from(said.iter().all(|(_, decision)| decision.is_admitted()));
                    tokio::task::yield_now().await;
                }
                admitted
            })
        })
        .collect();
    let mut admitted = 0;
    for task in tasks {
        admitted += task.await.expect("it ends");
    }
    admitted
}

/// Each charge has a receipt of its own, good for its own limit only.
pub async fn all_receipts_give_back_each_charge(kit: &impl Kit) {
    let s = Several::new(kit, &mixed()).await;
    let said = s.take(&[("second", 1), ("bucket", 2), ("day", 3)]).await;
    let receipts: Vec<Receipt> =
        said.iter().map(|(_, decision)| decision.receipt().expect("it was charged")).collect();
    for (name, wrong, receipt) in [("second", 1, 0), ("bucket", 2, 1), ("day", 0, 2)]
        .map(|(name, wrong, own)| (name, receipts[wrong], receipts[own]))
    {
        let limit = s.gate.limit(name);
        assert_eq!(limit.refund("k", wrong).await.expect("an answer"), 0, "{name}");
        assert_eq!(limit.refund("k", receipt).await.expect("an answer"), receipt.cost(), "{name}");
        assert_eq!(limit.refund("k", receipt).await.expect("an answer"), 0, "{name}");
    }
    assert_eq!(s.remaining(NAMES).await, [10, 20, 40, 30]);
}

/// None, or one twice, is an error and charges nothing.
pub async fn all_need_one_limit_and_each_only_once(kit: &impl Kit) {
    let s = Several::new(kit, &mixed()).await;
    assert!(s.gate.take_all("k", &[]).await.is_err());
    assert!(s.gate.take_all("k", &[("day", 1), ("second", 1), ("day", 1)]).await.is_err());
    assert!(s.gate.take_all("k", &[("day", 1), ("second", 0)]).await.is_err());
    assert!(s.gate.take_all("", &[("day", 1)]).await.is_err());
    assert_eq!(s.remaining(NAMES).await, [10, 20, 40, 30]);
}
