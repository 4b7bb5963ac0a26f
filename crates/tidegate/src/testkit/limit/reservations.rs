//! Cases of reservations: held once, spent or given back once, whatever is sent twice.

use std::time::Duration;

use super::{Face, Kit, START_MS, Subject, calendar, sliding, wait};
use crate::error::ErrorKind;
use crate::limit::ReservationState::{Committed, Lapsed, Pending, Released};
use crate::limit::{Algorithm, LimitOptions, OnLapse, Period, Reservation, ReservationState, Reserve};

const KEY: &str = "user:{1}";

const HOUR_MS: i64 = 3_600_000;

/// How long the hour lasts in which cases start.
const REST_MS: i64 = HOUR_MS - (START_MS % HOUR_MS as u64) as i64;

fn hourly(capacity: u64) -> Algorithm {
    calendar(capacity, Period::Hour).into()
}

fn lapsing(on_lapse: OnLapse) -> LimitOptions {
    LimitOptions { on_lapse, ..LimitOptions::default() }
}

impl<F: Face> Subject<F> {
    async fn reserve(&self, id: &str, cost: u64, lasting_ms: u64) -> Reserve {
        let lasting = Duration::from_millis(lasting_ms);
        self.limit.reserve(KEY, id, cost, lasting).await.expect("an answer")
    }

    async fn held(&self, id: &str, cost: u64, lasting_ms: u64) -> Reservation {
        match self.reserve(id, cost, lasting_ms).await {
            Reserve::Held(reservation) => reservation,
            other => panic!("{id} should be held: {other:?}"),
        }
    }

    /// When to come back for what was not held.
    async fn not_held(&self, id: &str, cost: u64, lasting_ms: u64) -> Option<u64> {
        match self.reserve(id, cost, lasting_ms).await {
            Reserve::Refused(decision) => wait(&decision).map(|(ms, _)| ms),
            other => panic!("{id} should be refused: {other:?}"),
        }
    }

    async fn commit(&self, id: &str) -> Option<ReservationState> {
        self.limit.commit(KEY, id).await.expect("an answer").map(|it| it.state)
    }

    async fn release(&self, id: &str) -> Option<ReservationState> {
        self.limit.release(KEY, id).await.expect("an answer").map(|it| it.state)
    }

    async fn state(&self, id: &str) -> Option<ReservationState> {
        self.limit.reservation(KEY, id).await.expect("an answer").map(|it| it.state)
    }

    async fn free(&self) -> u64 {
        self.remaining(KEY).await
    }

    async fn free_in(&self) -> Option<u64> {
        wait(&self.peek(KEY).await).map(|(ms, _)| ms)
    }

    async fn fits(&self, cost: u64) -> bool {
        self.take(KEY, cost).await.is_admitted()
    }
}

/// Every request that is sent twice charges once.
pub async fn reservation_sent_twice_charges_once(kit: &impl Kit) {
    for algorithm in [sliding(10, 60, 600).into(), hourly(10)] {
        let s = Subject::new(kit, algorithm).await;
        let first = s.held("a", 4, 5000).await;
        assert_eq!((first.cost, first.state, first.expires_in_ms, first.is_new), (4, Pending, 5000, true));
        let again = s.held("a", 4, 5000).await;
        assert_eq!((again.state, again.is_new), (Pending, false));
        assert_eq!(s.free().await, 6);
        assert_eq!((s.commit("a").await, s.commit("a").await), (Some(Committed), Some(Committed)));
        assert_eq!(s.free().await, 6);
        assert_eq!(s.release("a").await, Some(Committed), "what is spent stays spent");
        assert_eq!(s.held("a", 4, 5000).await.state, Committed, "a late retry of the reserve");
        assert_eq!(s.free().await, 6);

        s.held("b", 6, 5000).await;
        assert!(!s.fits(1).await, "what is held counts");
        assert_eq!((s.release("b").await, s.release("b").await), (Some(Released), Some(Released)));
        assert_eq!(s.commit("b").await, Some(Released));
        assert_eq!(s.free().await, 6);
        let other = s.limit.reserve(KEY, "b", 5, Duration::from_secs(1)).await;
        assert_eq!(other.unwrap_err().kind(), ErrorKind::Conflict);
        assert_eq!(s.commit("nobody").await, None);
        let elsewhere = s.limit.reservation("x", "a").await.expect("an answer");
        assert_eq!(elsewhere, None, "ids are a key's own");
        assert!(s.not_held("c", 7, 5000).await.is_some());
        assert_eq!(s.not_held("c", 11, 5000).await, None, "it can never fit");
        assert!(s.fits(6).await, "a refusal holds nothing");
    }
}

/// A pending one counts as if spent at its deadline; a commit moves it to now.
pub async fn reservation_counts_from_its_commit(kit: &impl Kit) {
    let s = Subject::new(kit, sliding(10, 1, 100)).await;
    s.held("a", 10, 1000).await;
    s.at(300);
    assert_eq!(s.free_in().await, Some(1000 + 1100 - 300));
    assert_eq!(s.commit("a").await, Some(Committed));
    assert_eq!(s.free_in().await, Some(1100));
    s.at(1399);
    assert!(!s.fits(1).await);
    s.at(1400);
    assert!(s.fits(10).await);
}

/// Left alone, it counts as spent at its deadline, or is given back then.
pub async fn reservation_is_spent_or_given_back_at_its_deadline(kit: &impl Kit) {
    let s = Subject::new(kit, sliding(10, 1, 100)).await;
    s.held("a", 10, 500).await;
    s.at(500);
    assert_eq!(s.state("a").await, Some(Lapsed));
    assert_eq!(s.release("a").await, Some(Lapsed), "too late");
    s.at(1599);
    assert!(!s.fits(1).await);
    s.at(1600);
    assert!(s.fits(10).await);

    let given_back = lapsing(OnLapse::GiveBack);
    for algorithm in [sliding(10, 1, 100).into(), hourly(10)] {
        let s = Subject::with(kit, algorithm, &given_back).await;
        s.held("a", 10, 500).await;
        s.at(499);
        assert!(!s.fits(1).await);
        assert_eq!(s.free_in().await, Some(1));
        s.at(500);
        assert_eq!(s.commit("a").await, Some(Lapsed), "it may be somebody else's by now");
        assert_eq!(s.free().await, 10);
        assert!(s.fits(10).await);
        assert_eq!((s.commit("a").await, s.release("a").await), (Some(Lapsed), Some(Lapsed)));
    }
    let s = Subject::with(kit, sliding(10, 1, 100), &given_back).await;
    s.held("a", 10, 500).await;
    s.at(499);
    assert_eq!(s.commit("a").await, Some(Committed), "in time");
    s.at(1499);
    assert!(!s.fits(1).await, "it counts from its commit");
    s.at(1500);
    assert!(s.fits(10).await);
}

/// What may be committed on either side of a boundary has room on both.
pub async fn reservation_across_an_hour_counts_in_both(kit: &impl Kit) {
    for on_lapse in [OnLapse::Spend, OnLapse::GiveBack] {
        let s = Subject::with(kit, hourly(10), &lapsing(on_lapse)).await;
        s.at(REST_MS - 1000);
        s.held("a", 4, 5000).await;
        assert_eq!(s.free().await, 6);
        s.at(REST_MS);
        assert_eq!(s.free().await, 6, "{on_lapse:?}");
        assert_eq!(s.commit("a").await, Some(Committed));
        assert_eq!(s.free().await, 6);
        s.at(REST_MS + HOUR_MS - 1000);
        s.held("b", 6, 5000).await;
        assert_eq!(s.free().await, 0);
        assert_eq!(s.commit("b").await, Some(Committed));
        assert_eq!(s.free().await, 0);
        s.at(REST_MS + HOUR_MS);
        assert_eq!(s.free().await, 10, "it was spent in the hour before");
        s.at(REST_MS + 2 * HOUR_MS - 1000);
        s.held("c", 10, 5000).await;
        assert_eq!(s.release("c").await, Some(Released));
        assert_eq!(s.free().await, 10);
        s.held("d", 10, 500).await;
        let free_in = if on_lapse == OnLapse::Spend { 1000 } else { 500 };
        assert_eq!(s.not_held("e", 1, 500).await, Some(free_in));
    }
}

/// A key remembers so many ids and no more; those that are pending are never
/// forgotten.
pub async fn reservation_ids_are_bounded(kit: &impl Kit) {
    let options = LimitOptions { max_reservations: 20, ..LimitOptions::default() };
    let s = Subject::with(kit, sliding(1000, 3600, 36_000), &options).await;
    for i in 0..200 {
        s.at(i);
        s.held(&format!("r{i}"), 1, 1000).await;
        assert_eq!(s.release(&format!("r{i}")).await, Some(Released));
    }
    assert_eq!(s.state("r179").await, None, "forgotten for want of room");
    assert_eq!(s.state("r180").await, Some(Released));
    for i in 0..20 {
        s.held(&format!("p{i}"), 1, 1000).await;
    }
    let full = s.limit.reserve(KEY, "one more", 1, Duration::from_secs(1)).await;
    assert_eq!(full.unwrap_err().kind(), ErrorKind::Conflict);
    assert_eq!(s.free().await, 980);
    s.at(HOUR_MS + 1198);
    assert_eq!(s.state("p0").await, Some(Lapsed), "remembered for an hour");
    s.at(HOUR_MS + 1199);
    assert_eq!(s.state("p0").await, None);
}

/// A reset voids reservations: what comes after it neither revives nor frees anything.
pub async fn reservation_is_void_after_a_reset(kit: &impl Kit) {
    for on_lapse in [OnLapse::Spend, OnLapse::GiveBack] {
        for algorithm in [sliding(12, 60, 600).into(), hourly(12)] {
            let s = Subject::with(kit, algorithm, &lapsing(on_lapse)).await;
            // Across the hour, so that the next one is charged too.
            s.at(REST_MS - 1000);
            s.held("a", 5, 5000).await;
            s.held("b", 4, 5000).await;
            s.reset(KEY).await;
            assert_eq!(s.free().await, 12);
            let receipt = s.admitted(KEY, 3).await;
            assert_eq!((s.release("a").await, s.commit("b").await), (None, None));
            assert_eq!(s.free().await, 9, "nobody else's charge is freed");
            assert_eq!(s.refund(KEY, receipt).await, 3);
            assert_eq!(s.free().await, 12);
            s.held("a", 12, 500).await;
            s.at(REST_MS + 100_000);
            assert_eq!(s.free().await, 12, "nothing is left in the next hour");
        }
    }
}

/// What was released or has lapsed is not held again by a late retry.
pub async fn reservation_that_has_ended_is_not_held_again(kit: &impl Kit) {
    for algorithm in [sliding(10, 60, 600).into(), hourly(10)] {
        let s = Subject::new(kit, algorithm).await;
        s.held("a", 4, 5000).await;
        assert_eq!(s.release("a").await, Some(Released));
        s.held("b", 4, 5000).await;
        s.at(5000);
        for (id, state) in [("a", Released), ("b", Lapsed)] {
            let retried = s.reserve(id, 4, 5000).await;
            assert!(matches!(retried, Reserve::Ended(it) if it.state == state), "{retried:?}");
        }
    }
}

/// No two charges have the same receipt, whatever was released between them.
pub async fn reservation_that_is_released_leaves_receipts_apart(kit: &impl Kit) {
    for algorithm in [sliding(20, 60, 600).into(), hourly(20)] {
        let s = Subject::new(kit, algorithm).await;
        s.held("a", 5, 5000).await;
        let first = s.admitted(KEY, 1).await;
        s.release("a").await;
        let receipts = [first, s.admitted(KEY, 4).await, s.admitted(KEY, 1).await];
        for receipt in receipts {
            assert_eq!(s.refund(KEY, receipt).await, receipt.cost());
        }
        assert_eq!(s.free().await, 20);
    }
}
