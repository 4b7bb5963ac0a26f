//! What a limit has of overrides and pending reservations, page by page, on every store.

use std::time::Duration;

use tidegate::clock::{ManualClock, Timestamp};
use tidegate::limit::{Algorithm, Cursor, Limit, LimitOptions, OnLapse, Period, Reserve};
use tidegate::testkit::RedisServer;
use tidegate::testkit::limit::{calendar, rate, sliding, token};
use tidegate::{Cost, Key, Tidegate};

use crate::kit::{CLUSTER, On, REDIS};

const START_MS: u64 = 1_700_000_040_000;

struct Case {
    _gate: Tidegate,
    limit: Limit,
    clock: ManualClock,
}

impl Case {
    async fn new(on: &On, algorithm: Algorithm) -> Self {
        let clock = ManualClock::at(Timestamp::from_millis(START_MS));
        let gate = on.open(clock.clone(), 1).await;
        let mut options = LimitOptions::default();
        options.on_lapse = OnLapse::GiveBack;
        let limit = gate.limit("api", algorithm, options).unwrap();
        Self { _gate: gate, limit, clock }
    }

    async fn set(&self, key: &str, lasting_ms: u64) {
        let key = if key.is_empty() { Key::EVERYONE } else { Key::new(key).unwrap() };
        self.limit.set_override(key, rate("20/m"), Duration::from_millis(lasting_ms)).await.unwrap();
    }

    async fn hold(&self, key: &str, id: &str, cost: u64, lasting_ms: u64) {
        let (cost, lasting) = (Cost::new(cost).unwrap(), Duration::from_millis(lasting_ms));
        let held = self.limit.reserve(Key::new(key).unwrap(), id, cost, lasting).await.unwrap();
        assert!(matches!(held, Reserve::Held(_)), "{held:?}");
    }

    /// All overrides, in pages of `count`: key and what is left of it.
    async fn overrides(&self, count: usize) -> Vec<(String, u64)> {
        let mut all = Vec::new();
        let mut after: Option<Cursor> = None;
        loop {
            let page = self.limit.overrides(after.as_ref(), count).await.unwrap();
            assert!(page.items.len() <= count);
            assert!(page.items.iter().all(|it| it.rate == rate("20/m")));
            all.extend(page.items.into_iter().map(|it| (it.key, it.lasting.as_millis() as u64)));
            // As it comes back from a client.
            let Some(next) = page.next else { return all };
            after = Some(next.to_string().parse().unwrap());
        }
    }

    /// All pending reservations likewise: key, id, cost and what is left of it.
    async fn reservations(&self, count: usize) -> Vec<(String, String, u64, u64)> {
        let mut all = Vec::new();
        let mut after: Option<Cursor> = None;
        loop {
            let page = self.limit.reservations(after.as_ref(), count).await.unwrap();
            assert!(page.items.len() <= count);
            let row = |it: tidegate::limit::KeyReservation| {
                (it.key, it.id, it.reservation.cost, it.reservation.expires_in_ms)
            };
            all.extend(page.items.into_iter().map(row));
            let Some(next) = page.next else { return all };
            after = Some(next);
        }
    }
}

fn named(all: &[(&str, u64)]) -> Vec<(String, u64)> {
    all.iter().map(|(key, left)| ((*key).to_owned(), *left)).collect()
}

async fn overrides_are_listed_by_their_end(on: On) {
    for algorithm in [sliding(10, 60, 600).into(), token("1/s", 10).into(), calendar(10, Period::Hour).into()]
    {
        let s = Case::new(&on, algorithm).await;
        assert_eq!(s.overrides(3).await, []);
        for (key, lasting_ms) in [("c", 3000), ("a:{b}", 5000), ("", 4000), ("ü", 3000), ("z", 1000)] {
            s.set(key, lasting_ms).await;
        }
        let all = named(&[("z", 1000), ("c", 3000), ("ü", 3000), ("", 4000), ("a:{b}", 5000)]);
        for count in [1, 2, 3, 5, 1000] {
            assert_eq!(s.overrides(count).await, all, "in pages of {count}");
        }
        s.clock.advance_ms(1000);
        assert_eq!(s.overrides(2).await[0], ("c".to_owned(), 2000), "what has ended is not listed");
        s.limit.clear_override(Key::new("c").unwrap()).await.unwrap();
        s.set("ü", 9000).await;
        assert_eq!(s.overrides(1).await, named(&[("", 3000), ("a:{b}", 4000), ("ü", 9000)]), "set anew");
        assert!(s.limit.overrides(None, 0).await.is_err() && s.limit.overrides(None, 1001).await.is_err());
    }
}

/// Many of one time, and some that leave while somebody turns the pages.
async fn pages_go_on_where_they_ended(on: On) {
    let s = Case::new(&on, sliding(10, 60, 600).into()).await;
    let keys: Vec<String> = (0..57).map(|number| format!("key{number:02}")).collect();
    for key in &keys {
        s.set(key, 60_000).await;
    }
    let listed: Vec<String> = s.overrides(10).await.into_iter().map(|(key, _)| key).collect();
    assert_eq!(listed, keys, "each once, in order");
    let first = s.limit.overrides(None, 10).await.unwrap();
    // The one that the page ended with, and one behind it.
    for gone in ["key09", "key10"] {
        s.limit.clear_override(Key::new(gone).unwrap()).await.unwrap();
    }
    let second = s.limit.overrides(first.next.as_ref(), 10).await.unwrap();
    let second: Vec<_> = second.items.into_iter().map(|it| it.key).collect();
    assert_eq!(second, keys[11..21]);
    s.clock.advance_ms(60_000);
    assert_eq!(s.overrides(10).await, []);
    let late = s.limit.overrides(first.next.as_ref(), 10).await.unwrap();
    assert_eq!((late.items.len(), late.next), (0, None));
}

async fn pending_reservations_are_listed_by_their_deadline(on: On) {
    for algorithm in [sliding(100, 60, 600).into(), Algorithm::from(calendar(100, Period::Hour))] {
        let s = Case::new(&on, algorithm).await;
        assert_eq!(s.reservations(5).await, []);
        s.hold("k", "late", 3, 50_000).await;
        s.hold("k", "soon", 1, 10_000).await;
        s.hold("other", "1:x", 2, 20_000).await;
        s.hold("1:", "x", 4, 20_000).await;
        s.hold("k", "spent", 5, 30_000).await;
        s.hold("k", "given", 6, 30_000).await;
        let key = Key::new("k").unwrap();
        s.limit.commit(key, "spent").await.unwrap();
        s.limit.release(key, "given").await.unwrap();
        let row = |key: &str, id: &str, cost, left| (key.to_owned(), id.to_owned(), cost, left);
        let all = [
            row("k", "soon", 1, 10_000),
            row("1:", "x", 4, 20_000),
            row("other", "1:x", 2, 20_000),
            row("k", "late", 3, 50_000),
        ];
        for count in [1, 2, 3, 4, 100] {
            assert_eq!(s.reservations(count).await, all, "in pages of {count}");
        }
        s.clock.advance_ms(10_000);
        assert_eq!(s.reservations(2).await.len(), 3, "at its deadline it has lapsed");
        s.limit.reset(key).await.unwrap();
        let left: Vec<_> = s.reservations(1).await.into_iter().map(|it| it.0).collect();
        assert_eq!(left, ["1:", "other"], "a reset voids them");
        s.hold("k", "late", 3, 20_000).await;
        let left: Vec<_> = s.reservations(1).await.into_iter().map(|it| (it.1, it.3)).collect();
        assert_eq!(left, [("x".into(), 10_000), ("1:x".into(), 10_000), ("late".into(), 20_000)]);
    }
    let s = Case::new(&on, token("1/s", 10).into()).await;
    assert!(s.limit.reservations(None, 5).await.is_err(), "a token limit holds none");
}

macro_rules! on_every_store {
    ($($case:ident)*) => {
        mod memory { $(#[tokio::test] async fn $case() { super::$case(super::On::url("memory:")).await; })* }
        mod redis { $(#[tokio::test] async fn $case() { super::$case(super::On::url(super::REDIS.url())).await; })* }
        mod redis_16_partitions {
            $(#[tokio::test] async fn $case() {
                let options = |options: &mut tidegate::store::StoreOptions| options.partitions = Some(16);
                super::$case(super::On { url: super::REDIS.url(), options }).await;
            })*
        }
        mod cluster { $(#[tokio::test] async fn $case() { super::$case(super::On::url(super::CLUSTER.url())).await; })* }
    };
}

on_every_store!(
    overrides_are_listed_by_their_end
    pages_go_on_where_they_ended
    pending_reservations_are_listed_by_their_deadline
);

/// The index is bounded by what is alive: what is over leaves with what comes, and the
/// rest with its TTL.
#[tokio::test]
async fn the_index_ends_with_what_it_lists() {
    let server = RedisServer::start();
    let mut connection = server.connection();
    let on = On { url: server.url(), options: |options| options.namespace = None };
    let s = Case::new(&on, sliding(1000, 60, 600).into()).await;
    let mut count = |index: &str| ::redis::cmd("ZCARD").arg(index).query::<u64>(&mut connection).unwrap();
    let (overrides, pending) = ("trypema:api:overrides", "trypema:api:pending");
    for round in 0..6_u64 {
        for number in 0..50 {
            s.set(&format!("{round}_{number}"), 1000).await;
            s.hold("k", &format!("{round}_{number}"), 1, 1000).await;
        }
        assert!(count(overrides) <= 100 && count(pending) <= 100, "{} {}", count(overrides), count(pending));
        s.clock.advance_ms(1000);
    }
    assert_eq!(s.overrides(10).await, []);
    assert_eq!(s.reservations(10).await, []);
    let key = Key::new("k").unwrap();
    for (id, settle) in [("a", true), ("b", false)] {
        s.hold("k", id, 1, 1000).await;
        let _ = if settle { s.limit.commit(key, id).await } else { s.limit.release(key, id).await };
    }
    // Those that were settled left at once, and each addition took away what was over.
    assert!(count(pending) <= 50, "{}", count(pending));
    assert_eq!(server.keys_without_ttl(), Vec::<String>::new());
    let ttl = |index: &str| ::redis::cmd("PTTL").arg(index).query::<i64>(&mut server.connection()).unwrap();
    for index in [overrides, pending] {
        // A second, and the hour that tests add.
        assert!((1..=3_601_000).contains(&ttl(index)), "{}", ttl(index));
    }
}
