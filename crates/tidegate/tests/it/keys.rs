//! What is written: every key with an end, every key in its slot, one way of
//! spreading per namespace.

use std::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use tidegate::clock::{ManualClock, Timestamp};
use tidegate::limit::{Algorithm, InProcess, Limit, LimitOptions, Period, Source, Suppressed, WhenFull};
use tidegate::store::StoreOptions;
use tidegate::testkit::limit::{calendar, history, sliding, token};
use tidegate::testkit::{RedisServer, unique};
use tidegate::{Cost, ErrorKind, Key, Name, Tidegate};

use crate::kit::{CLUSTER, On, REDIS};

#[tokio::test]
async fn every_key_has_an_end() {
    let server = RedisServer::start();
    let gate = Tidegate::open(&server.url()).await.unwrap();
    let limit = gate.limit("api", sliding(10, 60, 600), LimitOptions::default()).unwrap();
    for key in ["a", "b:c", "{d}"] {
        let receipt = limit.take(Key::new(key).unwrap(), Cost::ONE).await.unwrap().receipt().unwrap();
        limit.refund(Key::new(key).unwrap(), receipt).await.unwrap();
        limit.peek(Key::new(key).unwrap()).await.unwrap();
    }
    limit.reset(Key::new("a").unwrap()).await.unwrap();
    limit.reset(Key::new("never seen").unwrap()).await.unwrap();
    assert_eq!(server.keys_without_ttl(), Vec::<String>::new());

    let mut connection = server.connection();
    let mut keys: Vec<String> = redis::cmd("KEYS").arg("*").query(&mut connection).unwrap();
    keys.sort();
    let family = "trypema:api:absolute:h:";
    let expected = [
        "tidegate:marker".to_owned(),
        format!("{family}a"),
        format!("{family}b:c"),
        format!("{family}{{d}}"),
    ];
    assert_eq!(keys, expected);
    // A bucket ends 60.6 s at most after it began; 10 s of slack come on top.
    let ttl: u64 = redis::cmd("PTTL").arg(format!("{family}b:c")).query(&mut connection).unwrap();
    assert!((68_000..=70_600).contains(&ttl), "{ttl}");
    let marker: u64 = redis::cmd("PTTL").arg("tidegate:marker").query(&mut connection).unwrap();
    assert!(marker > 31 * 86_400_000, "longer than the longest window");
}

/// One limit of each kind, as `gate` has it.
pub(crate) fn one_of_each(gate: &Tidegate) -> Vec<Limit> {
    let suppressed = Suppressed::new(sliding(1000, 60, 600), 1.5).unwrap();
    let algorithms: [(&str, Algorithm); 5] = [
        ("sliding", sliding(1000, 60, 600).into()),
        ("token", token("1000/m", 1000).into()),
        ("rate_limit", calendar(1000, Period::Hour).into()),
        ("suppressed", suppressed.into()),
        ("smooth", Suppressed::smooth(sliding(1000, 60, 600)).into()),
    ];
    let limit = |(name, algorithm)| gate.limit(name, algorithm, LimitOptions::default()).unwrap();
    algorithms.map(limit).into()
}

/// Whatever is done to the limits, by whichever algorithm: takes, refunds, resets,
/// overrides, several at once.
#[test]
fn random_histories_leave_no_key_without_an_end() {
    let server = RedisServer::start();
    history::check(&On::url(server.url()), 3000);
    let mut connection = server.connection();
    let keys: Vec<String> = redis::cmd("KEYS").arg("*").query(&mut connection).unwrap();
    for family in ["absolute:h", "suppressed:h", "token", "override", "beside", "2023-11-14", "marker"] {
        assert!(keys.iter().any(|key| key.contains(&format!(":{family}"))), "no key of {family}");
    }
    assert_eq!(server.keys_without_ttl(), Vec::<String>::new());
}

#[test]
fn random_histories_in_a_cluster_leave_no_key_without_an_end() {
    history::check(&On::url(CLUSTER.url()), 1000);
    assert_eq!(CLUSTER.keys_without_ttl(), Vec::<String>::new());
}

#[test]
fn no_key_a_user_can_choose_leaves_its_slot() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let clock = ManualClock::at(Timestamp::from_millis(1_700_000_040_000));
    let (gate, limits) = runtime.block_on(async {
        let gate = On::url(CLUSTER.url()).open(clock, 1).await;
        let limits = one_of_each(&gate);
        (gate, limits)
    });
    let mut runner = TestRunner::new(Config { cases: 300, failure_persistence: None, ..Config::default() });
    let keys = prop_oneof!["[{}:a]{1,12}", "\\PC{1,40}", ".{1,60}"];
    runner
        .run(&keys, |key| {
            prop_assume!(key.len() <= 255);
            runtime.block_on(async {
                let key = Key::new(&key).unwrap();
                for limit in &limits {
                    limit.reset(key).await.unwrap();
                    limit.set_override(key, "900/m".parse().unwrap(), Duration::from_secs(60)).await.unwrap();
                    let decision = limit.take(key, Cost::ONE).await.unwrap();
                    prop_assert_eq!((decision.is_admitted(), decision.source()), (true, Source::Store));
                    if let Some(receipt) = decision.receipt() {
                        prop_assert_eq!(limit.refund(key, receipt).await.unwrap(), 1);
                    }
                    limit.peek(key).await.unwrap();
                    prop_assert!(limit.get_override(key).await.unwrap().is_some());
                }
                let all: Vec<_> = limits.iter().map(|limit| (limit, Cost::ONE)).collect();
                let decision = gate.take_all(key, &all).await.unwrap();
                prop_assert!(decision.decisions().all(|(_, it)| it.source() == Source::Store));
                prop_assert!(decision.is_admitted());
                for limit in &limits {
                    limit.clear_override(key).await.unwrap();
                    limit.reset(key).await.unwrap();
                }
                Ok(())
            })
        })
        .unwrap_or_else(|failure| panic!("{failure}"));
    assert_eq!(CLUSTER.keys_without_ttl(), Vec::<String>::new());
}

/// Partitions are decided once per namespace. Another number would look for
/// keys where they are not.
#[tokio::test]
async fn another_number_of_partitions_is_refused() {
    let server = RedisServer::start();
    let open = async |partitions, namespace: Option<&str>, hash_key: Option<[u8; 16]>| {
        let mut options = StoreOptions::default();
        options.partitions = Some(partitions);
        options.namespace = namespace.map(|name| Name::new(name).unwrap());
        options.hash_key = hash_key.unwrap_or(options.hash_key);
        Tidegate::open_with(&server.url(), options).await
    };
    open(8, None, None).await.unwrap();
    open(8, None, None).await.unwrap();
    let error = open(4, None, None).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config);
    assert!(error.to_string().contains("written with 8 partitions"), "{error}");
    assert_eq!(open(8, None, Some([1; 16])).await.unwrap_err().kind(), ErrorKind::Config);
    open(4, Some("other"), None).await.unwrap();
    assert_eq!(open(0, Some("none"), None).await.unwrap_err().kind(), ErrorKind::Config);
}

#[tokio::test]
async fn namespaces_and_limits_do_not_share() {
    let server = RedisServer::start();
    let key = Key::new("k").unwrap();
    for _ in 0..2 {
        let mut options = StoreOptions::default();
        options.namespace = Some(Name::new(&unique("n")).unwrap());
        let gate = Tidegate::open_with(&server.url(), options).await.unwrap();
        for name in ["one", "two"] {
            let limit = gate.limit(name, sliding(1, 60, 600), LimitOptions::default()).unwrap();
            assert!(limit.take(key, Cost::ONE).await.unwrap().is_admitted());
            assert!(!limit.take(key, Cost::ONE).await.unwrap().is_admitted());
        }
        assert!(gate.limit("one", sliding(2, 60, 600), LimitOptions::default()).is_err());
    }
}

/// A flood of keys fills the process up to its cap and no further; keys in use
/// are not pushed out, and idle ones make room.
#[test]
fn a_flood_of_keys_stops_at_the_cap() {
    let clock = ManualClock::at(Timestamp::from_millis(1_700_000_040_000));
    let limit =
        InProcess::with(sliding(5, 60, 600), &LimitOptions::new().max_keys(1000), clock.clone().into())
            .unwrap();
    let take = |key: &str| limit.take(Key::new(key).unwrap(), Cost::ONE).unwrap();
    for _ in 0..5 {
        assert!(take("regular").is_admitted());
    }
    for i in 0..50_000 {
        let decision = take(&format!("flood_{i}"));
        assert_eq!(decision.is_admitted(), i < 999, "{i}");
        assert_eq!(decision.source(), if i < 999 { Source::Store } else { Source::Policy });
    }
    assert_eq!(limit.keys(), 1000);
    assert!(!take("regular").is_admitted(), "what it used is still known");
    assert_eq!(take("one more").wait().unwrap().retry_after_ms, 60_600, "when the first key is idle");
    clock.advance_ms(60_600);
    assert!(take("one more").is_admitted());
    assert!(limit.keys() <= 1000);
}

#[test]
fn keys_beyond_the_cap_can_share_one_window() {
    let clock = ManualClock::at(Timestamp::from_millis(1_700_000_040_000));
    let limit = InProcess::with(
        sliding(5, 60, 600),
        &LimitOptions::new().max_keys(10).when_full(WhenFull::Share),
        clock.into(),
    )
    .unwrap();
    let admitted = (0..100)
        .filter(|i| limit.take(Key::new(&format!("k{i}")).unwrap(), Cost::ONE).unwrap().is_admitted());
    assert_eq!(admitted.count(), 10 + 5);
    assert_eq!(limit.keys(), 10);
}

#[test]
fn idle_keys_leave() {
    let clock = ManualClock::at(Timestamp::from_millis(1_700_000_040_000));
    let limit =
        InProcess::with(sliding(5, 60, 600), &LimitOptions::new().max_keys(10_000), clock.clone().into())
            .unwrap();
    for i in 0..5000 {
        limit.take(Key::new(&format!("k{i}")).unwrap(), Cost::ONE).unwrap();
    }
    clock.advance_ms(60_600 + 3_600_000 - 1);
    assert_eq!(limit.sweep(10_000), 0, "a clock that steps back must still find them");
    clock.advance_ms(1);
    assert_eq!(limit.sweep(2000), 2000, "a batch is a batch");
    assert_eq!(limit.sweep(10_000), 3000);
    assert_eq!(limit.keys(), 0);
}

/// What everyone shares has no key, and is a key like any other: making room for it
/// or around it does not forget it.
#[test]
fn what_everyone_shares_outlives_a_sweep() {
    for algorithm in [sliding(5, 60, 600).into(), Algorithm::from(token("5/m", 5))] {
        let clock = ManualClock::at(Timestamp::from_millis(1_700_000_040_000));
        let limit =
            InProcess::with(algorithm, &LimitOptions::new().max_keys(100_000), clock.clone().into()).unwrap();
        for i in 0..50_000 {
            limit.take(Key::new(&format!("k{i}")).unwrap(), Cost::ONE).unwrap();
        }
        clock.advance_ms(60_600 + 3_600_000);
        let hour = Duration::from_secs(3600);
        limit.set_override(Key::EVERYONE, "4/m".parse().unwrap(), hour).unwrap();
        assert!(limit.take(Key::EVERYONE, Cost::new(4).unwrap()).unwrap().is_admitted());
        let before = limit.peek(Key::EVERYONE).unwrap();
        limit.sweep(100_000);
        assert_eq!(limit.keys(), 1, "only what everyone shares is left");
        assert_eq!(limit.peek(Key::EVERYONE).unwrap(), before);
    }
}

/// Threads, not tasks: a take in this process has nothing to wait for.
#[test]
fn threads_together_get_exactly_the_capacity() {
    for _ in 0..20 {
        let clock = ManualClock::at(Timestamp::from_millis(1_700_000_040_000));
        let limit =
            InProcess::with(sliding(1000, 60, 600), &LimitOptions::new().max_keys(10), clock.into()).unwrap();
        let admitted: u64 = std::thread::scope(|scope| {
            let takers: Vec<_> = (0..4)
                .map(|_| {
                    scope.spawn(|| {
                        let take = || limit.take(Key::new("k").unwrap(), Cost::new(3).unwrap()).unwrap();
                        (0..200).map(|_| if take().is_admitted() { 3 } else { 0 }).sum::<u64>()
                    })
                })
                .collect();
            takers.into_iter().map(|taker| taker.join().unwrap()).sum()
        });
        assert_eq!(admitted, 999);
    }
}

/// Threads that name limits in different orders do not wait for each other for ever,
/// and get exactly what the tightest one has.
#[test]
fn threads_take_from_several_in_any_order() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let clock = ManualClock::at(Timestamp::from_millis(1_700_000_040_000));
    let gate = runtime.block_on(On::url("memory:").open(clock, 1));
    let algorithms: [(&str, Algorithm); 3] = [
        ("a", sliding(50_000, 60, 600).into()),
        ("b", token("1/h", 700).into()),
        ("c", calendar(40_000, Period::Day).into()),
    ];
    let limits = algorithms.map(|it| gate.limit(it.0, it.1, LimitOptions::default()).unwrap());
    let [a, b, c] = &limits;
    let orders = [[a, b, c], [c, b, a], [b, a, c], [c, a, b]];
    let admitted: u64 = std::thread::scope(|scope| {
        let takers = orders.map(|order| {
            let gate = &gate;
            scope.spawn(move || {
                let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
                let parts = order.map(|limit| (limit, Cost::ONE));
                let take = || runtime.block_on(gate.take_all(Key::new("k").unwrap(), &parts)).unwrap();
                (0..20_000).map(|_| u64::from(take().is_admitted())).sum::<u64>()
            })
        });
        takers.map(|taker| taker.join().unwrap()).iter().sum()
    });
    assert_eq!(admitted, 700);
    let left = limits.map(|limit| limit.in_process().unwrap().peek(Key::new("k").unwrap()).unwrap());
    assert_eq!(left.map(|peek| peek.quota().remaining), [49_300, 0, 39_300]);
}

#[test]
fn a_peek_at_the_cap_says_what_a_take_would() {
    let clock = ManualClock::at(Timestamp::from_millis(1_700_000_040_000));
    let limit =
        InProcess::with(sliding(5, 60, 600), &LimitOptions::new().max_keys(1), clock.clone().into()).unwrap();
    let (known, new) = (Key::new("known").unwrap(), Key::new("new").unwrap());
    assert!(limit.peek(new).unwrap().is_admitted());
    assert!(limit.take(known, Cost::ONE).unwrap().is_admitted());
    assert_eq!(limit.peek(new).unwrap(), limit.take(new, Cost::ONE).unwrap());
    assert!(!limit.peek(new).unwrap().is_admitted() && limit.peek(known).unwrap().is_admitted());
    clock.advance_ms(60_600);
    assert!(limit.peek(new).unwrap().is_admitted());
}

/// The loop that looks for idle keys runs for as long as anybody holds the limit,
/// and counts what it did.
#[tokio::test(start_paused = true)]
async fn the_reaper_runs_as_long_as_the_limit_is_held() {
    let clock = ManualClock::at(Timestamp::from_millis(1_700_000_040_000));
    let gate = On::url("memory:").open(clock.clone(), 1).await;
    let limit = gate.limit("api", sliding(5, 60, 600), LimitOptions::default()).unwrap();
    let held = || limit.in_process().unwrap().keys();
    for i in 0..3000 {
        limit.take(Key::new(&format!("k{i}")).unwrap(), Cost::ONE).await.unwrap();
    }
    clock.advance_ms(60_600 + 3_600_000);
    assert_eq!(held(), 3000);
    // Time stands still but for this.
    let gone = async || {
        tokio::time::advance(std::time::Duration::from_millis(100)).await;
        (held() == 0).then_some(())
    };
    crate::outage::until("they are gone", gone).await;
    let text = gate.metrics();
    assert!(text.contains(r#"tidegate_reaper_items_total{reaper="limit"} 3000"#), "{text}");
    assert!(
        text.contains(
            r#"tidegate_limit_decisions_total{limit="api",outcome="admitted",source="store"} 3000"#
        )
    );
    drop(gate);
    limit.take(Key::new("k").unwrap(), Cost::ONE).await.unwrap();
    clock.advance_ms(60_600 + 3_600_000);
    crate::outage::until("it is gone too", gone).await;
}

#[tokio::test]
async fn one_name_is_one_limit() {
    let gate = Tidegate::open("memory:").await.unwrap();
    let first = gate.limit("api", sliding(5, 60, 600), LimitOptions::default()).unwrap();
    let key = Key::new("k").unwrap();
    first.take(key, Cost::ONE).await.unwrap();
    let again = gate.limit("api", sliding(5, 60, 600), LimitOptions::default()).unwrap();
    assert_eq!(again.peek(key).await.unwrap().quota().remaining, 4);
    let mut other = LimitOptions::default();
    other.outage = tidegate::Outage::Closed;
    assert_eq!(gate.limit("api", sliding(5, 60, 600), other).unwrap_err().kind(), ErrorKind::Invalid);
}

/// Limits of two stores cannot be charged in one step, and are not.
#[tokio::test]
async fn limits_of_two_stores_are_not_taken_together() {
    let other = RedisServer::start();
    let clock = ManualClock::at(Timestamp::from_millis(1_700_000_000_000));
    let here = On::url(REDIS.url()).open(clock.clone(), 1).await;
    let there = On::url(other.url()).open(clock, 1).await;
    let first = here.limit("first", sliding(10, 60, 600), LimitOptions::default()).unwrap();
    let second = there.limit("second", sliding(10, 60, 600), LimitOptions::default()).unwrap();
    let key = Key::new("k").unwrap();
    let both = here.take_all(key, &[(&first, Cost::ONE), (&second, Cost::ONE)]).await;
    assert_eq!(both.unwrap_err().kind(), tidegate::ErrorKind::Invalid);
    assert_eq!(first.peek(key).await.unwrap().quota().remaining, 10);
}
