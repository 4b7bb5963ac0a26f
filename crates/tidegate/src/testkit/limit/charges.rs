//! Cases of charges by an id: all limits or none, once however often they are sent, and given back once.

use std::time::Duration;

use super::{ChargeAnswer, Face as _, Gate, Kit, SEED, START_MS, calendar, rate, sliding, token, wait};
use crate::clock::{ManualClock, Timestamp};
use crate::error::{ErrorKind, Result};
use crate::limit::{Algorithm, LimitOptions, Period, Quota, Release, ReservationState, Reserve};

const KEY: &str = "user:{1}";
const HOUR_MS: u64 = 3_600_000;

/// How long the hour lasts in which cases start.
const REST_MS: u64 = HOUR_MS - START_MS % HOUR_MS;

const BOTH: [&str; 2] = ["minute", "hour"];

fn both(capacities: [u32; 2]) -> [(&'static str, Algorithm); 2] {
    [
        ("minute", sliding(capacities[0], 60, 600).into()),
        ("hour", calendar(u64::from(capacities[1]), Period::Hour).into()),
    ]
}

/// Limits that are charged together, and their clock.
struct Together<G> {
    gate: G,
    clock: ManualClock,
}

impl<G: Gate> Together<G> {
    async fn new<K: Kit<Gate = G>>(kit: &K, limits: &[(&str, Algorithm)]) -> Self {
        Self::with(kit, limits, &LimitOptions::default()).await
    }

    async fn with<K: Kit<Gate = G>>(kit: &K, limits: &[(&str, Algorithm)], options: &LimitOptions) -> Self {
        let clock = ManualClock::at(Timestamp::from_millis(START_MS));
        Self { gate: kit.fresh(limits, options, clock.clone(), SEED).await, clock }
    }

    fn at(&self, ms: u64) {
        self.clock.set(Timestamp::from_millis(START_MS + ms));
    }

    async fn charge(&self, id: &str, costs: [u64; 2]) -> ChargeAnswer {
        self.try_charge(id, costs).await.expect("an answer")
    }

    async fn try_charge(&self, id: &str, [minute, hour]: [u64; 2]) -> Result<ChargeAnswer> {
        self.gate.charge_all(KEY, id, &[("minute", minute), ("hour", hour)]).await
    }

    /// Charged; whether by this request, and what is left.
    async fn charged(&self, id: &str, costs: [u64; 2]) -> (bool, [u64; 2]) {
        match self.charge(id, costs).await {
            ChargeAnswer::Charged { is_new, quotas } => {
                let names: Vec<_> = quotas.iter().map(|(name, _)| name.as_str()).collect();
                assert_eq!(names, BOTH, "in the order they were given");
                (is_new, [quotas[0].1.remaining, quotas[1].1.remaining])
            }
            other => panic!("{id} should be charged: {other:?}"),
        }
    }

    /// Refused; by whom.
    async fn refused(&self, id: &str, costs: [u64; 2]) -> Vec<String> {
        match self.charge(id, costs).await {
            ChargeAnswer::Refused(said) => {
                assert!(said.iter().all(|(_, decision)| decision.receipt().is_none()), "{said:?}");
                said.into_iter().filter(|(_, said)| !said.is_admitted()).map(|(name, _)| name).collect()
            }
            other => panic!("{id} should be refused: {other:?}"),
        }
    }

    async fn release(&self, id: &str) -> Release {
        self.gate.release_all(KEY, id, &BOTH).await.expect("an answer")
    }

    async fn quotas(&self) -> [Quota; 2] {
        let mut quotas = Vec::new();
        for name in BOTH {
            quotas.push(*self.gate.limit(name).peek(KEY).await.expect("an answer").quota());
        }
        [quotas[0], quotas[1]]
    }

    async fn left(&self) -> [u64; 2] {
        self.quotas().await.map(|quota| quota.remaining)
    }
}

fn conflicts<T: std::fmt::Debug>(answer: Result<T>) {
    assert_eq!(answer.expect_err("a conflict").kind(), ErrorKind::Conflict);
}

const NEW: Release = Release::Released { is_new: true };
const OLD: Release = Release::Released { is_new: false };

/// Each id charges once, however often it is sent, and says where the limits stand.
pub async fn charge_sent_twice_charges_once(kit: &impl Kit) {
    let s = Together::new(kit, &both([10, 20])).await;
    assert_eq!(s.charged("a", [3, 4]).await, (true, [7, 16]));
    s.at(1000);
    assert_eq!(s.charged("a", [3, 4]).await, (false, [7, 16]));
    assert_eq!(s.charged("b", [3, 4]).await, (true, [4, 12]));
    assert_eq!(s.charged("a", [3, 4]).await, (false, [4, 12]), "as it stands now");
    assert_eq!(s.left().await, [4, 12]);
    // In the other order they are the same limits.
    let turned = s.gate.charge_all(KEY, "a", &[("hour", 4), ("minute", 3)]).await.expect("an answer");
    assert!(matches!(turned, ChargeAnswer::Charged { is_new: false, .. }), "{turned:?}");
    // A charge counts from when it was made, whoever sends it again.
    s.at(60_599);
    assert_eq!(s.charged("a", [3, 4]).await, (false, [4, 12]));
    s.at(60_600);
    assert_eq!(s.charged("a", [3, 4]).await, (false, [7, 12]), "charged at the start");
    s.at(61_800);
    assert_eq!(s.left().await, [10, 12]);
    let other = s.gate.charge_all("x", "a", &[("minute", 1), ("hour", 1)]).await.expect("an answer");
    assert!(matches!(other, ChargeAnswer::Charged { is_new: true, .. }), "ids are a key's own: {other:?}");
}

/// Where one limit refuses nothing is charged, and the id can be used again.
pub async fn charge_is_for_all_limits_or_none(kit: &impl Kit) {
    let s = Together::new(kit, &both([10, 20])).await;
    assert_eq!(s.charged("a", [8, 8]).await, (true, [2, 12]));
    assert_eq!(s.refused("b", [3, 1]).await, ["minute"]);
    assert_eq!(s.refused("b", [1, 13]).await, ["hour"]);
    assert_eq!(s.refused("b", [3, 13]).await, BOTH);
    assert_eq!(s.left().await, [2, 12]);
    let ChargeAnswer::Refused(said) = s.charge("b", [3, 1]).await else { panic!("it does not fit") };
    assert_eq!(wait(&said[0].1), Some((60_600, 10)));
    assert!(said[1].1.is_admitted() && said[1].1.quota().remaining == 12, "{said:?}");
    let ChargeAnswer::Refused(said) = s.charge("b", [11, 1]).await else { panic!("it never fits") };
    assert_eq!(wait(&said[0].1), None, "waiting cannot help");
    s.at(60_599);
    assert_eq!(s.refused("b", [3, 1]).await, ["minute"]);
    s.at(60_600);
    assert_eq!(s.charged("b", [3, 1]).await, (true, [7, 11]), "a refusal uses no id");
}

/// What is released is given back once, and is not charged again by a late retry.
pub async fn charge_is_given_back_once(kit: &impl Kit) {
    let s = Together::new(kit, &both([10, 20])).await;
    s.charged("a", [3, 4]).await;
    s.at(700);
    s.charged("b", [2, 2]).await;
    let before = s.quotas().await;
    s.at(1300);
    s.charged("c", [5, 5]).await;
    assert_eq!(s.release("c").await, NEW);
    let after = s.quotas().await.map(|quota| quota.remaining);
    assert_eq!(after, before.map(|quota| quota.remaining));
    assert_eq!(s.release("a").await, NEW);
    assert_eq!(s.left().await, [8, 18]);
    assert_eq!((s.release("a").await, s.release("a").await), (OLD, OLD));
    assert_eq!(s.left().await, [8, 18]);
    assert_eq!(s.charge("a", [3, 4]).await, ChargeAnswer::Released, "the charge came late");
    assert_eq!(s.left().await, [8, 18]);
    assert_eq!(s.release("nobody").await, Release::Unknown);
    // What is over is over: a release frees nothing of what came later.
    s.at(61_900);
    s.charged("d", [10, 1]).await;
    assert_eq!(s.release("b").await, NEW);
    assert_eq!(s.left().await, [0, 19]);
    s.at(REST_MS);
    assert_eq!(s.charged("e", [10, 20]).await, (true, [0, 0]));
    assert_eq!(s.release("d").await, NEW);
    assert_eq!(s.left().await, [0, 0], "its hour is over");
    assert_eq!(s.release("e").await, NEW);
    assert_eq!(s.left().await, [10, 20]);
}

/// Releases are not counted: as many as there are charges.
pub async fn charge_is_given_back_however_many_were(kit: &impl Kit) {
    let s = Together::new(kit, &both([300, 300])).await;
    for i in 0..200 {
        s.charged(&format!("c{i}"), [1, 1]).await;
    }
    for i in 0..200 {
        assert_eq!(s.release(&format!("c{i}")).await, NEW);
    }
    assert_eq!(s.left().await, [300, 300]);
    assert_eq!(s.quotas().await.map(|quota| quota.reset_after_ms), [0, 0]);
}

/// A charge that waited on its way until its caller gave it back is not made: there is nobody left to give it back.
pub async fn charge_that_was_released_before_it_came_is_not_made(kit: &impl Kit) {
    let s = Together::new(kit, &both([10, 20])).await;
    assert_eq!(s.release("late").await, Release::Unknown);
    for cost in [1, 3] {
        assert_eq!(s.charge("late", [cost, cost]).await, ChargeAnswer::Released);
    }
    assert_eq!(s.release("late").await, Release::Unknown, "nothing was ever charged by it");
    assert_eq!(s.left().await, [10, 20]);
    conflicts(s.gate.charge_all(KEY, "late", &[("hour", 1)]).await);
    conflicts(s.gate.release_all(KEY, "late", &["hour"]).await);
    // For as long as other ids, from the last release on.
    s.at(1000);
    assert_eq!(s.release("late").await, Release::Unknown);
    s.at(HOUR_MS + 999);
    assert_eq!(s.charge("late", [1, 1]).await, ChargeAnswer::Released);
    s.at(HOUR_MS + 1000);
    assert!(s.charged("late", [1, 1]).await.0);
    // One limit that has forgotten is enough to know.
    assert_eq!(s.release("later").await, Release::Unknown);
    s.gate.limit("minute").reset(KEY).await.expect("a reset");
    assert_eq!(s.charge("later", [1, 1]).await, ChargeAnswer::Released);

    // No charge is forgotten for it: where there is no room it is not remembered.
    let options = LimitOptions { max_reservations: 3, ..LimitOptions::default() };
    let s = Together::with(kit, &both([10, 20]), &options).await;
    for id in ["a", "b", "c"] {
        s.charged(id, [1, 1]).await;
    }
    assert_eq!(s.release("late").await, Release::Unknown);
    assert!(s.charged("late", [1, 1]).await.0);
    assert_eq!(s.release("a").await, Release::Unknown, "forgotten for the charge");
    for id in ["b", "c", "late"] {
        assert_eq!(s.release(id).await, NEW);
    }
    assert_eq!(s.left().await, [9, 19]);
}

/// An id is of one charge: other costs, other limits and reservations are told.
pub async fn charge_with_other_costs_or_limits_is_a_conflict(kit: &impl Kit) {
    let s = Together::new(kit, &both([10, 20])).await;
    s.charged("a", [3, 4]).await;
    conflicts(s.try_charge("a", [3, 5]).await);
    conflicts(s.try_charge("a", [2, 4]).await);
    conflicts(s.gate.charge_all(KEY, "a", &[("hour", 4)]).await);
    conflicts(s.gate.release_all(KEY, "a", &["hour"]).await);
    s.gate.charge_all(KEY, "b", &[("hour", 1)]).await.expect("an answer");
    conflicts(s.try_charge("b", [1, 1]).await);
    conflicts(s.gate.release_all(KEY, "b", &BOTH).await);
    s.gate.limit("minute").reserve(KEY, "r", 1, Duration::from_secs(9)).await.expect("it is held");
    conflicts(s.try_charge("r", [1, 1]).await);
    conflicts(s.gate.release_all(KEY, "r", &BOTH).await);
    assert_eq!(s.left().await, [6, 15], "nothing but what was right");
}

/// To each of its limits a charge is a reservation that was committed.
pub async fn charge_is_seen_as_committed(kit: &impl Kit) {
    let s = Together::new(kit, &both([10, 20])).await;
    s.charged("a", [3, 4]).await;
    for (name, cost) in [("minute", 3), ("hour", 4)] {
        let limit = s.gate.limit(name);
        let seen = limit.reservation(KEY, "a").await.expect("an answer").expect("it is known");
        assert_eq!((seen.cost, seen.state, seen.expires_in_ms), (cost, ReservationState::Committed, 0));
        let held = limit.reserve(KEY, "a", cost, Duration::from_secs(1)).await.expect("an answer");
        assert!(matches!(held, Reserve::Held(it) if it.state == ReservationState::Committed), "{held:?}");
        for settled in [limit.commit(KEY, "a").await, limit.release(KEY, "a").await] {
            let settled = settled.expect("an answer").map(|it| it.state);
            assert_eq!(settled, Some(ReservationState::Committed), "what is spent stays spent");
        }
    }
    assert_eq!(s.left().await, [7, 16]);
    s.release("a").await;
    let seen = s.gate.limit("hour").reservation(KEY, "a").await.expect("an answer").map(|it| it.state);
    assert_eq!(seen, Some(ReservationState::Released));
}

/// Ids are remembered for the longest window, and for an hour at least, from the charge or its release.
pub async fn charge_ids_are_remembered_for_an_hour_or_the_window(kit: &impl Kit) {
    let s = Together::new(kit, &both([10, 20])).await;
    s.charged("a", [1, 1]).await;
    s.charged("b", [1, 1]).await;
    s.at(1000);
    s.release("b").await;
    s.at(HOUR_MS - 1);
    assert!(!s.charged("a", [1, 1]).await.0);
    s.at(HOUR_MS);
    assert!(s.charged("a", [1, 1]).await.0, "forgotten");
    s.at(HOUR_MS + 999);
    assert_eq!(s.charge("b", [1, 1]).await, ChargeAnswer::Released);
    s.at(HOUR_MS + 1000);
    assert!(s.charged("b", [1, 1]).await.0);

    let day = [("minute", sliding(10, 60, 600).into()), ("hour", calendar(20, Period::Day).into())];
    let s = Together::new(kit, &day).await;
    s.charged("a", [1, 1]).await;
    s.at(24 * HOUR_MS - 1);
    assert!(!s.charged("a", [1, 1]).await.0, "by both limits for as long as by the longest");
    s.at(24 * HOUR_MS);
    assert!(s.charged("a", [1, 1]).await.0);
}

/// A key remembers so many ids: the oldest is forgotten for another, but never one that is pending. Where there is no
/// room nothing is charged.
pub async fn charge_ids_are_bounded(kit: &impl Kit) {
    let options = LimitOptions { max_reservations: 20, ..LimitOptions::default() };
    let s = Together::with(kit, &both([200, 200]), &options).await;
    for i in 0..25 {
        s.at(i);
        s.charged(&format!("c{i}"), [1, 1]).await;
    }
    assert_eq!(s.release("c4").await, Release::Unknown, "forgotten for want of room");
    assert_eq!(s.release("c5").await, NEW);
    assert_eq!(s.left().await, [176, 176]);
    // A refusal makes no room.
    assert_eq!(s.refused("d", [300, 1]).await, ["minute"]);
    assert_eq!(s.release("c6").await, NEW);
    let hour = s.gate.limit("hour");
    for i in 0..20 {
        hour.reserve(KEY, &format!("p{i}"), 1, Duration::from_secs(600)).await.expect("it is held");
    }
    let before = s.left().await;
    conflicts(s.try_charge("one more", [1, 1]).await);
    assert_eq!(s.left().await, before, "of neither limit");
    s.at(600_030);
    assert!(s.charged("one more", [1, 1]).await.0, "they have lapsed");
}

/// A reset voids what was charged: what comes after it neither frees nor repeats anything.
pub async fn charge_is_void_after_a_reset(kit: &impl Kit) {
    let s = Together::new(kit, &both([10, 20])).await;
    s.charged("a", [3, 4]).await;
    s.gate.limit("minute").reset(KEY).await.expect("a reset");
    let receipt = s.gate.limit("minute").take(KEY, 5, None).await.expect("a decision").receipt();
    assert!(receipt.is_some());
    assert_eq!(s.charged("a", [3, 4]).await, (false, [5, 16]), "the other limit knows of it");
    assert_eq!(s.release("a").await, NEW);
    assert_eq!(s.left().await, [5, 20], "nobody else's charge is freed");
    s.charged("b", [1, 1]).await;
    for name in BOTH {
        s.gate.limit(name).reset(KEY).await.expect("a reset");
    }
    assert_eq!(s.charged("b", [1, 1]).await, (true, [9, 19]));
    for name in BOTH {
        s.gate.limit(name).reset(KEY).await.expect("a reset");
    }
    assert_eq!(s.release("b").await, Release::Unknown);
}

/// No two charges are mistaken for each other: receipts of takes before, between and after stay good.
pub async fn charge_leaves_receipts_apart(kit: &impl Kit) {
    let s = Together::new(kit, &both([30, 30])).await;
    let mut receipts = Vec::new();
    for turn in 0..4 {
        for name in BOTH {
            let limit = s.gate.limit(name);
            let receipt = limit.take(KEY, turn + 1, None).await.expect("a decision").receipt();
            receipts.push((limit, receipt.expect("it fits"), turn + 1));
        }
        s.charged(&format!("c{turn}"), [2, 2]).await;
        if turn % 2 == 1 {
            assert_eq!(s.release(&format!("c{}", turn - 1)).await, NEW);
        }
    }
    assert_eq!(s.left().await, [16, 16]);
    for (limit, receipt, cost) in receipts {
        assert_eq!(limit.refund(KEY, receipt).await.expect("an answer"), cost);
    }
    assert_eq!(s.left().await, [26, 26]);
    assert_eq!((s.release("c1").await, s.release("c3").await), (NEW, NEW));
    assert_eq!(s.left().await, [30, 30]);
}

/// A key's own rate is what a charge is judged by.
pub async fn charge_is_judged_by_an_override(kit: &impl Kit) {
    let s = Together::new(kit, &both([10, 20])).await;
    let hour = s.gate.limit("hour");
    hour.set_override(KEY, rate("2/h"), Duration::from_secs(60)).await.expect("it is set");
    assert_eq!(s.charged("a", [2, 2]).await, (true, [8, 0]));
    assert_eq!(s.refused("b", [1, 1]).await, ["hour"]);
    assert_eq!(s.charged("a", [2, 2]).await, (false, [8, 0]));
    assert_eq!(s.release("a").await, NEW);
    assert_eq!(s.charged("b", [1, 1]).await, (true, [9, 1]));
}

/// What cannot be is an error, and charges nothing.
pub async fn charge_needs_an_id_and_limits_that_hold(kit: &impl Kit) {
    let [minute, hour] = both([10, 20]);
    let s = Together::new(kit, &[minute, hour, ("bucket", token("1/s", 5).into())]).await;
    let long = "i".repeat(256);
    for id in ["", &long] {
        assert!(s.try_charge(id, [1, 1]).await.is_err(), "{} bytes", id.len());
        assert!(s.gate.release_all(KEY, id, &BOTH).await.is_err(), "{} bytes", id.len());
    }
    assert!(s.gate.charge_all(KEY, "a", &[("minute", 1), ("bucket", 1)]).await.is_err());
    assert!(s.gate.charge_all(KEY, "a", &[]).await.is_err());
    assert!(s.gate.charge_all(KEY, "a", &[("hour", 1), ("minute", 1), ("hour", 1)]).await.is_err());
    assert!(s.gate.charge_all(KEY, "a", &[("hour", 0)]).await.is_err());
    assert!(s.gate.charge_all("", "a", &[("hour", 1)]).await.is_err());
    assert!(s.gate.release_all(KEY, "a", &[]).await.is_err());
    assert_eq!(s.left().await, [10, 20]);
    // As long as one may be, and of anything.
    let id = "ü:{}\n".repeat(42);
    assert!(s.charged(&id, [1, 1]).await.0);
    assert_eq!(s.release(&id).await, NEW);
}

/// Many at once, each sent twice, get exactly what the tightest limit has.
pub async fn charges_at_once_admit_the_smallest_capacity(kit: &impl Kit) {
    let s = Together::new(kit, &both([70, 80])).await;
    let tasks: Vec<_> = (0..64)
        .map(|task| {
            let gate = s.gate.clone();
            tokio::spawn(async move {
                let mut limits = [("minute", 1), ("hour", 1)];
                if task % 4 < 2 {
                    limits.reverse();
                }
                let mut is_new = 0;
                for turn in 0..5 {
                    // Two tasks send the same.
                    let id = format!("{}-{turn}", task / 2);
                    let charged = gate.charge_all(KEY, &id, &limits).await.expect("an answer");
                    is_new += u64::from(matches!(charged, ChargeAnswer::Charged { is_new: true, .. }));
                    tokio::task::yield_now().await;
                }
                is_new
            })
        })
        .collect();
    let mut charged = 0;
    for task in tasks {
        charged += task.await.expect("it ends");
    }
    assert_eq!(charged, 70);
    assert_eq!(s.left().await, [0, 10]);
}
