//! What is written: every key with an end, every key in its slot, one way of
//! spreading per namespace.

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use tidegate::clock::{ManualClock, Timestamp};
use tidegate::limit::{InProcess, LimitOptions, Source, WhenFull};
use tidegate::store::StoreOptions;
use tidegate::testkit::limit::sliding;
use tidegate::testkit::{RedisServer, unique};
use tidegate::{Cost, ErrorKind, Key, Name, Tidegate};

use crate::kit::{CLUSTER, On};

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

#[test]
fn no_key_a_user_can_choose_leaves_its_slot() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let clock = ManualClock::at(Timestamp::from_millis(1_700_000_040_000));
    let limit = runtime.block_on(async {
        let gate = On::url(CLUSTER.url()).open(clock).await;
        gate.limit("api", sliding(1000, 60, 600), LimitOptions::default()).unwrap()
    });
    let mut runner = TestRunner::new(Config { cases: 500, failure_persistence: None, ..Config::default() });
    let keys = prop_oneof!["[{}:a]{1,12}", "\\PC{1,40}", ".{1,60}"];
    runner
        .run(&keys, |key| {
            prop_assume!(key.len() <= 255);
            runtime.block_on(async {
                let key = Key::new(&key).unwrap();
                let decision = limit.take(key, Cost::ONE).await.unwrap();
                prop_assert_eq!(decision.source(), Source::Store);
                prop_assert_eq!(limit.refund(key, decision.receipt().unwrap()).await.unwrap(), 1);
                limit.peek(key).await.unwrap();
                limit.reset(key).await.unwrap();
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
    let limit = InProcess::with(sliding(5, 60, 600), clock.clone().into(), 1000, WhenFull::Refuse);
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
    let limit = InProcess::with(sliding(5, 60, 600), clock.into(), 10, WhenFull::Share);
    let admitted = (0..100)
        .filter(|i| limit.take(Key::new(&format!("k{i}")).unwrap(), Cost::ONE).unwrap().is_admitted());
    assert_eq!(admitted.count(), 10 + 5);
    assert_eq!(limit.keys(), 10);
}

#[test]
fn idle_keys_leave() {
    let clock = ManualClock::at(Timestamp::from_millis(1_700_000_040_000));
    let limit = InProcess::with(sliding(5, 60, 600), clock.clone().into(), 10_000, WhenFull::Refuse);
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

/// Threads, not tasks: a take in this process has nothing to wait for.
#[test]
fn threads_together_get_exactly_the_capacity() {
    for _ in 0..20 {
        let clock = ManualClock::at(Timestamp::from_millis(1_700_000_040_000));
        let limit = InProcess::with(sliding(1000, 60, 600), clock.into(), 10, WhenFull::Refuse);
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

#[test]
fn a_peek_at_the_cap_says_what_a_take_would() {
    let clock = ManualClock::at(Timestamp::from_millis(1_700_000_040_000));
    let limit = InProcess::with(sliding(5, 60, 600), clock.clone().into(), 1, WhenFull::Refuse);
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
    let gate = On::url("memory:").open(clock.clone()).await;
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
