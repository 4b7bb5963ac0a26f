//! Reservations: held once, spent or given back once, whatever is sent twice.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use tidegate::clock::{ManualClock, Timestamp};
use tidegate::limit::{
    Algorithm, Calendar, Limit, LimitOptions, OnLapse, Period, Reservation, ReservationState, Reserve,
};
use tidegate::testkit::RedisServer;
use tidegate::testkit::limit::sliding;
use tidegate::{Cost, ErrorKind, Key};

use crate::kit::{CLUSTER, On, REDIS};

const START_MS: u64 = 1_700_000_040_000;

struct Case {
    limit: Limit,
    clock: ManualClock,
}

impl Case {
    async fn new(on: &On, algorithm: impl Into<Algorithm>, change: impl Fn(&mut LimitOptions)) -> Self {
        let clock = ManualClock::at(Timestamp::from_millis(START_MS));
        let mut options = LimitOptions::default();
        change(&mut options);
        let gate = on.open(clock.clone(), 1).await;
        Self { limit: gate.limit("api", algorithm, options).unwrap(), clock }
    }

    fn at(&self, ms: u64) {
        self.clock.set(Timestamp::from_millis(START_MS + ms));
    }

    async fn reserve(&self, id: &str, cost: u64, lasting_ms: u64) -> Reserve {
        let lasting = Duration::from_millis(lasting_ms);
        self.limit.reserve(key(), id, Cost::new(cost).unwrap(), lasting).await.unwrap()
    }

    async fn held(&self, id: &str, cost: u64, lasting_ms: u64) -> Reservation {
        match self.reserve(id, cost, lasting_ms).await {
            Reserve::Held(reservation) => reservation,
            other => panic!("{id} should be held: {other:?}"),
        }
    }

    async fn refused(&self, id: &str, cost: u64, lasting_ms: u64) -> Option<u64> {
        match self.reserve(id, cost, lasting_ms).await {
            Reserve::Refused(decision) => decision.wait().map(|wait| wait.retry_after_ms),
            other => panic!("{id} should be refused: {other:?}"),
        }
    }

    async fn commit(&self, id: &str) -> ReservationState {
        self.limit.commit(key(), id).await.unwrap().unwrap().state
    }

    async fn release(&self, id: &str) -> ReservationState {
        self.limit.release(key(), id).await.unwrap().unwrap().state
    }

    async fn remaining(&self) -> u64 {
        self.limit.peek(key()).await.unwrap().quota().remaining
    }

    async fn take(&self, cost: u64) -> bool {
        self.limit.take(key(), Cost::new(cost).unwrap()).await.unwrap().is_admitted()
    }
}

fn key() -> Key<'static> {
    Key::new("user:{1}").unwrap()
}

use ReservationState::{Committed, Lapsed, Pending, Released};

async fn every_request_sent_twice_charges_once(on: On) {
    for algorithm in [sliding(10, 60, 600).into(), hourly(10)] {
        let s = Case::new(&on, algorithm, |_| {}).await;
        let first = s.held("a", 4, 5000).await;
        assert_eq!((first.cost, first.state, first.expires_in_ms, first.is_new), (4, Pending, 5000, true));
        let again = s.held("a", 4, 5000).await;
        assert_eq!((again.state, again.is_new), (Pending, false));
        assert_eq!(s.remaining().await, 6);
        assert_eq!((s.commit("a").await, s.commit("a").await), (Committed, Committed));
        assert_eq!(s.remaining().await, 6);
        assert_eq!(s.release("a").await, Committed, "what is spent stays spent");
        assert_eq!(s.held("a", 4, 5000).await.state, Committed, "a late retry of the reserve");
        assert_eq!(s.remaining().await, 6);

        s.held("b", 6, 5000).await;
        assert!(!s.take(1).await, "what is held counts");
        assert_eq!((s.release("b").await, s.release("b").await), (Released, Released));
        assert_eq!(s.commit("b").await, Released);
        assert_eq!(s.remaining().await, 6);
        let other = s.limit.reserve(key(), "b", Cost::new(5).unwrap(), Duration::from_secs(1)).await;
        assert_eq!(other.unwrap_err().kind(), ErrorKind::Conflict);
        assert!(s.limit.commit(key(), "nobody").await.unwrap().is_none());
        assert!(
            s.limit.reservation(Key::new("x").unwrap(), "a").await.unwrap().is_none(),
            "ids are a key's own"
        );
        assert!(s.refused("c", 7, 5000).await.is_some());
        assert_eq!(s.refused("c", 11, 5000).await, None, "it can never fit");
        assert!(s.take(6).await, "a refusal holds nothing");
    }
}

fn hourly(capacity: u64) -> Algorithm {
    Calendar::new(capacity, Period::Hour).unwrap().into()
}

/// A pending one counts as if spent at its deadline; a commit moves it to now.
async fn a_commit_moves_the_charge_to_its_own_moment(on: On) {
    let s = Case::new(&on, sliding(10, 1, 100), |_| {}).await;
    s.held("a", 10, 1000).await;
    s.at(300);
    assert_eq!(s.limit.peek(key()).await.unwrap().wait().unwrap().retry_after_ms, 1000 + 1100 - 300);
    assert_eq!(s.commit("a").await, Committed);
    assert_eq!(s.limit.peek(key()).await.unwrap().wait().unwrap().retry_after_ms, 1100);
    s.at(1399);
    assert!(!s.take(1).await);
    s.at(1400);
    assert!(s.take(10).await);
}

/// Disconnect alone, it counts as spent at its deadline, or is given back then.
async fn at_its_deadline_it_is_spent_or_given_back(on: On) {
    let s = Case::new(&on, sliding(10, 1, 100), |_| {}).await;
    s.held("a", 10, 500).await;
    s.at(500);
    assert_eq!(s.limit.reservation(key(), "a").await.unwrap().unwrap().state, Lapsed);
    assert_eq!(s.release("a").await, Lapsed, "too late");
    s.at(1599);
    assert!(!s.take(1).await);
    s.at(1600);
    assert!(s.take(10).await);

    for algorithm in [sliding(10, 1, 100).into(), hourly(10)] {
        let s = Case::new(&on, algorithm, |options| options.on_lapse = OnLapse::GiveBack).await;
        s.held("a", 10, 500).await;
        s.at(499);
        assert!(!s.take(1).await);
        assert_eq!(s.limit.peek(key()).await.unwrap().wait().unwrap().retry_after_ms, 1);
        s.at(500);
        assert_eq!(s.commit("a").await, Lapsed, "it may be somebody else's by now");
        assert_eq!(s.remaining().await, 10);
        assert!(s.take(10).await);
        assert_eq!((s.commit("a").await, s.release("a").await), (Lapsed, Lapsed));
    }
    let s = Case::new(&on, sliding(10, 1, 100), |options| options.on_lapse = OnLapse::GiveBack).await;
    s.held("a", 10, 500).await;
    s.at(499);
    assert_eq!(s.commit("a").await, Committed, "in time");
    s.at(1499);
    assert!(!s.take(1).await, "it counts from its commit");
    s.at(1500);
    assert!(s.take(10).await);
}

/// What may be committed on either side of a boundary has room on both.
async fn a_reservation_across_an_hour_counts_in_both(on: On) {
    for on_lapse in [OnLapse::Spend, OnLapse::GiveBack] {
        let s = Case::new(&on, hourly(10), |options| options.on_lapse = on_lapse).await;
        // The hour ends in so many ms.
        let rest = 3_600_000 - START_MS % 3_600_000;
        s.at(rest - 1000);
        s.held("a", 4, 5000).await;
        assert_eq!(s.remaining().await, 6);
        s.at(rest);
        assert_eq!(s.remaining().await, 6, "{on_lapse:?}");
        assert_eq!(s.commit("a").await, Committed);
        assert_eq!(s.remaining().await, 6);
        s.at(rest + 3_600_000 - 1000);
        s.held("b", 6, 5000).await;
        assert_eq!(s.remaining().await, 0);
        assert_eq!(s.commit("b").await, Committed);
        assert_eq!(s.remaining().await, 0);
        s.at(rest + 3_600_000);
        assert_eq!(s.remaining().await, 10, "it was spent in the hour before");
        s.at(rest + 2 * 3_600_000 - 1000);
        s.held("c", 10, 5000).await;
        assert_eq!(s.release("c").await, Released);
        assert_eq!(s.remaining().await, 10);
        s.held("d", 10, 500).await;
        assert_eq!(s.refused("e", 1, 500).await, Some(if on_lapse == OnLapse::Spend { 1000 } else { 500 }));
    }
}

/// A key remembers so many ids and no more; those that are pending are never
/// forgotten.
async fn ids_are_bounded(on: On) {
    let s = Case::new(&on, sliding(1000, 3600, 36_000), |options| options.max_reservations = 20).await;
    for i in 0..200 {
        s.at(i);
        s.held(&format!("r{i}"), 1, 1000).await;
        assert_eq!(s.release(&format!("r{i}")).await, Released);
    }
    assert!(s.limit.reservation(key(), "r179").await.unwrap().is_none(), "forgotten for want of room");
    assert!(s.limit.reservation(key(), "r180").await.unwrap().is_some());
    for i in 0..20 {
        s.held(&format!("p{i}"), 1, 1000).await;
    }
    let full = s.limit.reserve(key(), "one more", Cost::ONE, Duration::from_secs(1)).await;
    assert_eq!(full.unwrap_err().kind(), ErrorKind::Conflict);
    assert_eq!(s.remaining().await, 980);
    s.at(3_600_000 + 1198);
    assert_eq!(
        s.limit.reservation(key(), "p0").await.unwrap().unwrap().state,
        Lapsed,
        "remembered for an hour"
    );
    s.at(3_600_000 + 1199);
    assert!(s.limit.reservation(key(), "p0").await.unwrap().is_none());
}

/// A hundred thousand ids of one key cost what the cap says: 10,000 at up to 300
/// bytes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_thousand_ids_stay_within_the_cap() {
    let server = RedisServer::start();
    let s = Case::new(&On::url(server.url()), sliding(1_000_000, 3600, 36_000), |_| {}).await;
    let workers: Vec<_> = (0..50)
        .map(|worker| {
            let limit = s.limit.clone();
            tokio::spawn(async move {
                for i in 0..2000 {
                    let id = format!("0f9c1c52-6c1e-4a55-9f50-{worker:03}{i:09}");
                    let lasting = Duration::from_secs(30);
                    assert!(matches!(
                        limit.reserve(key(), &id, Cost::ONE, lasting).await.unwrap(),
                        Reserve::Held(_)
                    ));
                    let ended = if i % 2 == 0 {
                        limit.commit(key(), &id).await
                    } else {
                        limit.release(key(), &id).await
                    };
                    assert!(ended.unwrap().is_some());
                }
            })
        })
        .collect();
    for worker in workers {
        worker.await.unwrap();
    }
    assert_eq!(s.remaining().await, 950_000);
    let mut connection = server.connection();
    let keys: Vec<String> = ::redis::cmd("KEYS").arg("*reservations*").query(&mut connection).unwrap();
    assert_eq!(keys.len(), 2);
    let mut bytes = 0;
    for key in &keys {
        let usage =
            ::redis::cmd("MEMORY").arg("USAGE").arg(key).arg("SAMPLES").arg("0").query(&mut connection);
        bytes += ::redis::RedisResult::<u64>::unwrap(usage);
    }
    let ids: u64 =
        ::redis::cmd("HLEN").arg(keys.iter().find(|it| !it.contains("due"))).query(&mut connection).unwrap();
    assert_eq!(ids, 10_000);
    assert!(bytes <= 300 * 10_000, "{bytes} bytes");
    assert_eq!(server.keys_without_ttl(), Vec::<String>::new());
}

/// A commit is one step: nobody else gets what is held meanwhile.
#[test]
fn a_commit_leaves_no_gap() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let s = runtime.block_on(Case::new(&On::url("memory:"), hourly(10), |options| {
        options.on_lapse = OnLapse::GiveBack;
    }));
    let here = s.limit.in_process().unwrap();
    let ten = Cost::new(10).unwrap();
    for i in 0..1000 {
        let name = format!("k{i}");
        let key = Key::new(&name).unwrap();
        let held = runtime.block_on(s.limit.reserve(key, "a", ten, Duration::from_secs(1))).unwrap();
        assert!(matches!(held, Reserve::Held(_)));
        let is_done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let taker = scope.spawn(|| {
                let mut admitted = false;
                while !is_done.load(Ordering::Relaxed) {
                    admitted |= here.take(key, ten).unwrap().is_admitted();
                }
                admitted
            });
            let done = runtime.block_on(s.limit.commit(key, "a")).unwrap().unwrap();
            is_done.store(true, Ordering::Relaxed);
            assert_eq!(done.state, Committed);
            assert!(!taker.join().unwrap(), "20 of 10");
        });
    }
}

/// A reset voids reservations: what comes after it neither revives nor frees anything.
async fn a_reset_voids_reservations(on: On) {
    for on_lapse in [OnLapse::Spend, OnLapse::GiveBack] {
        for algorithm in [sliding(12, 60, 600).into(), hourly(12)] {
            let s = Case::new(&on, algorithm, |options| options.on_lapse = on_lapse).await;
            // Across the hour, so that the next one is charged too.
            let rest = 3_600_000 - START_MS % 3_600_000;
            s.at(rest - 1000);
            s.held("a", 5, 5000).await;
            s.held("b", 4, 5000).await;
            s.limit.reset(key()).await.unwrap();
            assert_eq!(s.remaining().await, 12);
            let receipt = s.limit.take(key(), Cost::new(3).unwrap()).await.unwrap().receipt().unwrap();
            assert!(s.limit.release(key(), "a").await.unwrap().is_none());
            assert!(s.limit.commit(key(), "b").await.unwrap().is_none());
            assert_eq!(s.remaining().await, 9, "nobody else's charge is freed");
            assert_eq!(s.limit.refund(key(), receipt).await.unwrap(), 3);
            assert_eq!(s.remaining().await, 12);
            s.held("a", 12, 500).await;
            s.at(rest + 100_000);
            assert_eq!(s.remaining().await, 12, "nothing is left in the next hour");
        }
    }
}

/// What was released or has lapsed is not held again by a late retry.
async fn a_late_retry_of_what_has_ended_holds_nothing(on: On) {
    for algorithm in [sliding(10, 60, 600).into(), hourly(10)] {
        let s = Case::new(&on, algorithm, |_| {}).await;
        s.held("a", 4, 5000).await;
        assert_eq!(s.release("a").await, Released);
        s.held("b", 4, 5000).await;
        s.at(5000);
        for (id, state) in [("a", Released), ("b", Lapsed)] {
            let retried = s.reserve(id, 4, 5000).await;
            assert!(matches!(retried, Reserve::Ended(it) if it.state == state), "{retried:?}");
        }
    }
}

/// No two charges have the same receipt, whatever was released between them.
async fn a_release_leaves_receipts_apart(on: On) {
    for algorithm in [sliding(20, 60, 600).into(), hourly(20)] {
        let s = Case::new(&on, algorithm, |_| {}).await;
        let take =
            async |cost| s.limit.take(key(), Cost::new(cost).unwrap()).await.unwrap().receipt().unwrap();
        s.held("a", 5, 5000).await;
        let first = take(1).await;
        s.release("a").await;
        let receipts = [first, take(4).await, take(1).await];
        for receipt in receipts {
            assert_eq!(s.limit.refund(key(), receipt).await.unwrap(), receipt.cost());
        }
        assert_eq!(s.remaining().await, 20);
    }
}

macro_rules! on_every_store {
    ($($case:ident)*) => {
        mod memory { $(#[tokio::test] async fn $case() { super::$case(super::On::url("memory:")).await; })* }
        mod redis { $(#[tokio::test] async fn $case() { super::$case(super::On::url(super::REDIS.url())).await; })* }
        mod cluster { $(#[tokio::test] async fn $case() { super::$case(super::On::url(super::CLUSTER.url())).await; })* }
    };
}

on_every_store!(
    every_request_sent_twice_charges_once
    a_commit_moves_the_charge_to_its_own_moment
    at_its_deadline_it_is_spent_or_given_back
    a_reservation_across_an_hour_counts_in_both
    ids_are_bounded
    a_reset_voids_reservations
    a_late_retry_of_what_has_ended_holds_nothing
    a_release_leaves_receipts_apart
);

/// What is right, as plainly as possible: every charge with the time until which it
/// counts, every reservation with where it stands.
mod model {
    use std::collections::HashMap;

    use tidegate::limit::{Algorithm, OnLapse, ReservationState};

    use super::{Committed, Lapsed, Pending, Released};

    pub(super) struct Model {
        algorithm: Algorithm,
        on_lapse: OnLapse,
        /// What counts, from when on and until when; whose reservation it is.
        charges: Vec<Charge>,
        reservations: HashMap<u8, (u64, ReservationState, u64)>,
        takes: usize,
    }

    struct Charge {
        cost: u64,
        from: u64,
        until: u64,
        reservation: Option<u8>,
        /// Which take it was.
        take: Option<usize>,
    }

    impl Model {
        pub(super) fn new(algorithm: Algorithm, on_lapse: OnLapse) -> Self {
            Self { algorithm, on_lapse, charges: Vec::new(), reservations: HashMap::new(), takes: 0 }
        }

        /// From when and until when a charge of the moment `at` counts.
        fn span(&self, at: u64) -> (u64, u64) {
            match &self.algorithm {
                Algorithm::Sliding(sliding) => {
                    let grid = sliding.coalesce().as_millis() as u64;
                    (0, (at / grid + 1) * grid + sliding.window().as_millis())
                }
                Algorithm::Calendar(calendar) => {
                    let period = calendar.period().as_millis();
                    (at / period * period, (at / period + 1) * period)
                }
                _ => unreachable!(),
            }
        }

        fn used(&self, now: u64) -> u64 {
            self.charges.iter().filter(|it| it.from <= now && now < it.until).map(|it| it.cost).sum()
        }

        pub(super) fn remaining(&self, now: u64) -> u64 {
            self.algorithm.capacity() - self.used(now)
        }

        /// When a cost fits, by trying every moment at which something changes.
        pub(super) fn wait(&self, now: u64, cost: u64) -> Option<u64> {
            let capacity = self.algorithm.capacity();
            let mut moments: Vec<u64> =
                self.charges.iter().map(|it| it.until).filter(|at| *at > now).collect();
            moments.sort_unstable();
            let fits = |at: &u64| self.used(*at) + cost <= capacity;
            (cost <= capacity).then(|| moments.into_iter().find(fits).expect("it fits in the end") - now)
        }

        /// When all of a calendar limit is free: with the last window that holds something.
        pub(super) fn reset_after(&self, now: u64) -> u64 {
            let counts = |it: &&Charge| self.used(now.max(it.from)) > 0 && now.max(it.from) < it.until;
            let ends = self.charges.iter().filter(counts).map(|it| self.span(now.max(it.from)).1 - now);
            ends.max().unwrap_or(0)
        }

        pub(super) fn take(&mut self, now: u64, cost: u64) -> bool {
            let fits = self.used(now) + cost <= self.algorithm.capacity();
            if fits {
                let (from, until) = self.span(now);
                let take = Some(self.takes);
                self.charges.push(Charge { cost, from, until, reservation: None, take });
                self.takes += 1;
            }
            fits
        }

        /// Gives back a take, if it still counts.
        pub(super) fn refund(&mut self, now: u64, take: usize) -> u64 {
            let is_it = |it: &Charge| it.take == Some(take) && it.from <= now && now < it.until;
            let Some(at) = self.charges.iter().position(is_it) else { return 0 };
            self.charges.remove(at).cost
        }

        /// Forgets everything.
        pub(super) fn reset(&mut self) {
            self.charges.clear();
            self.reservations.clear();
        }

        /// Where a reservation stands, or none if it was refused.
        pub(super) fn reserve(
            &mut self,
            now: u64,
            id: u8,
            cost: u64,
            lasting: u64,
        ) -> Option<ReservationState> {
            if self.reservations.contains_key(&id) {
                return self.state(now, id);
            }
            let deadline = now + lasting;
            let spends = self.on_lapse == OnLapse::Spend;
            let windows: Vec<(u64, u64)> = match &self.algorithm {
                Algorithm::Sliding(_) if spends => vec![self.span(deadline)],
                Algorithm::Sliding(sliding) => {
                    let (grid, window) =
                        (sliding.coalesce().as_millis() as u64, sliding.window().as_millis());
                    vec![(0, (deadline - window).div_ceil(grid) * grid + window)]
                }
                _ => {
                    let both = [self.span(now), self.span(deadline)];
                    let end =
                        |(from, until): (u64, u64)| (from, if spends { until } else { until.min(deadline) });
                    if both[0] == both[1] { vec![end(both[0])] } else { both.map(end).to_vec() }
                }
            };
            let capacity = self.algorithm.capacity();
            if windows.iter().any(|(from, _)| self.used(now.max(*from)) + cost > capacity) {
                return None;
            }
            let held = windows.iter().map(|(from, until)| Charge {
                cost,
                from: *from,
                until: *until,
                reservation: Some(id),
                take: None,
            });
            self.charges.extend(held);
            self.reservations.insert(id, (cost, Pending, deadline));
            self.state(now, id)
        }

        pub(super) fn state(&self, now: u64, id: u8) -> Option<ReservationState> {
            let (_, state, deadline) = self.reservations.get(&id)?;
            Some(if *state == Pending && *deadline <= now { Lapsed } else { *state })
        }

        fn end(&mut self, id: u8, state: ReservationState) -> Option<ReservationState> {
            self.reservations.get_mut(&id)?.1 = state;
            Some(state)
        }

        pub(super) fn commit(&mut self, now: u64, id: u8) -> Option<ReservationState> {
            let (cost, state, _) = *self.reservations.get(&id)?;
            match (state, self.state(now, id)?) {
                (Pending, Pending) => {
                    self.charges.retain(|it| it.reservation != Some(id));
                    let (from, until) = self.span(now);
                    self.charges.push(Charge { cost, from, until, reservation: None, take: None });
                    self.end(id, Committed)
                }
                (Pending, Lapsed) if self.on_lapse == OnLapse::Spend => self.end(id, Committed),
                (_, state) => self.end(id, state),
            }
        }

        pub(super) fn release(&mut self, now: u64, id: u8) -> Option<ReservationState> {
            match self.state(now, id)? {
                Pending => {
                    self.charges.retain(|it| it.reservation != Some(id));
                    self.end(id, Released)
                }
                state => self.end(id, state),
            }
        }
    }
}

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

async fn agrees(
    on: &On,
    algorithm: Algorithm,
    on_lapse: OnLapse,
    history: Vec<Op>,
) -> Result<(), TestCaseError> {
    let s = Case::new(on, algorithm, |options| options.on_lapse = on_lapse).await;
    // A moment in the middle of a bucket and of a window.
    s.at(1_234_567);
    let mut model = model::Model::new(algorithm, on_lapse);
    let mut receipts = Vec::new();
    for (step, op) in history.iter().enumerate() {
        let now = s.clock.now().as_millis();
        let named = |id: u8| format!("id{id}");
        match *op {
            Op::Take { cost } => {
                let decision = s.limit.take(key(), Cost::new(cost).unwrap()).await.unwrap();
                prop_assert_eq!(decision.is_admitted(), model.take(now, cost), "step {}: {:?}", step, op);
                receipts.extend(decision.receipt());
            }
            Op::Refund { back } => {
                let Some(number) = receipts.len().checked_sub(back + 1) else { continue };
                let refunded = s.limit.refund(key(), receipts[number]).await.unwrap();
                prop_assert_eq!(refunded, model.refund(now, number), "step {}: {:?}", step, op);
            }
            Op::Reset => {
                s.limit.reset(key()).await.unwrap();
                model.reset();
            }
            Op::Reserve { id, cost, lasting } => {
                let state = match s.reserve(&named(id), cost, lasting).await {
                    Reserve::Held(it) | Reserve::Ended(it) => Some(it.state),
                    Reserve::Refused(_) => None,
                };
                prop_assert_eq!(state, model.reserve(now, id, cost, lasting), "step {}: {:?}", step, op);
            }
            Op::Commit { id } => {
                let state = s.limit.commit(key(), &named(id)).await.unwrap().map(|it| it.state);
                prop_assert_eq!(state, model.commit(now, id), "step {}: {:?}", step, op);
            }
            Op::Release { id } => {
                let state = s.limit.release(key(), &named(id)).await.unwrap().map(|it| it.state);
                prop_assert_eq!(state, model.release(now, id), "step {}: {:?}", step, op);
            }
            Op::See { id } => {
                let state = s.limit.reservation(key(), &named(id)).await.unwrap().map(|it| it.state);
                prop_assert_eq!(state, model.state(now, id), "step {}: {:?}", step, op);
            }
            Op::Move { by_ms } => s.clock.advance_ms(by_ms),
        }
        let now = s.clock.now().as_millis();
        let peek = s.limit.peek(key()).await.unwrap();
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

fn check(on: &On, cases: u32) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let minute = Calendar::new(12, Period::Minute).unwrap();
    let limits: [(Algorithm, u64); 3] =
        [(sliding(12, 1, 100).into(), 1000), (sliding(12, 2, 16).into(), 2000), (minute.into(), 60_000)];
    for (algorithm, longest) in limits {
        for on_lapse in [OnLapse::Spend, OnLapse::GiveBack] {
            let config = Config { cases, failure_persistence: None, ..Config::default() };
            TestRunner::new(config)
                .run(&ops(longest), |history| runtime.block_on(agrees(on, algorithm, on_lapse, history)))
                .unwrap_or_else(|failure| panic!("{algorithm:?}, {on_lapse:?}: {failure}"));
        }
    }
}

/// Histories per limit; `TIDEGATE_HISTORY_OPS` sets it as for the other suites.
fn budget() -> u32 {
    std::env::var("TIDEGATE_HISTORY_OPS").map_or(200_000, |ops| ops.parse::<u32>().expect("a number")) / 200
}

#[test]
fn memory_agrees_with_the_model() {
    check(&On::url("memory:"), budget());
}

#[test]
fn redis_agrees_with_the_model() {
    check(&On::url(REDIS.url()), (budget() / 5).max(1));
}

#[test]
fn the_cluster_agrees_with_the_model() {
    check(
        &On { url: CLUSTER.url(), options: |options| options.partitions = Some(3) },
        (budget() / 200).max(1),
    );
}
