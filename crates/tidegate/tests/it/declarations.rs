//! What limits and spaces are is declared in the store, and who disagrees deletes nothing
//! that others count.

mod windows;

use std::time::Duration;

use serde_json::Value;
use tidegate::clock::{ManualClock, Timestamp};
use tidegate::hot::HotOptions;
use tidegate::limit::{Calendar, LimitOptions, Period, Sliding};
use tidegate::run::{QuotaKind, QuotaOptions};
use tidegate::session::SessionOptions;
use tidegate::store::{Declaration, Declarations, PartKind, StoreOptions};
use tidegate::testkit::{RedisServer, unique};
use tidegate::{Cost, ErrorKind, Name, Tidegate};

use crate::kit::{CLUSTER, REDIS};

const START_MS: u64 = 1_700_000_000_000;
const HOUR: u64 = 3_600_000;

fn clock() -> ManualClock {
    ManualClock::at(Timestamp::from_millis(START_MS))
}

fn urls() -> [String; 2] {
    [REDIS.url(), CLUSTER.url()]
}

async fn open(url: &str, namespace: &str, clock: &ManualClock, declarations: Declarations) -> Tidegate {
    let mut options = StoreOptions::default();
    options.clock = clock.clone().into();
    options.deadline = Duration::from_secs(10);
    options.namespace = Some(Name::new(namespace).unwrap());
    options.declarations = declarations;
    Tidegate::open_with(url, options).await.unwrap()
}

async fn replacing(url: &str, namespace: &str, clock: &ManualClock) -> Tidegate {
    open(url, namespace, clock, Declarations::Replace).await
}

fn sliding(rate: &str, seconds: u64) -> Sliding {
    Sliding::new(rate.parse().unwrap(), Duration::from_secs(seconds)).unwrap()
}

fn hot(window: Duration) -> HotOptions {
    let mut options = HotOptions::default();
    options.window_duration = window;
    options
}

fn find(all: &[Declaration], kind: PartKind, name: &str) -> Declaration {
    let found = all.iter().find(|it| it.kind == kind && it.name.as_str() == name);
    found.unwrap_or_else(|| panic!("{kind:?} {name} is not among {all:?}")).clone()
}

/// Waits for the background to have declared it.
async fn declared(gate: &Tidegate, name: &str) -> Declaration {
    let found = async {
        loop {
            let all = gate.declarations().await.unwrap_or_default();
            if let Some(found) = all.into_iter().find(|it| it.name.as_str() == name) {
                return found;
            }
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), found).await.expect("it is declared in time")
}

fn replaced(gate: &Tidegate, part: &str, name: &str) -> bool {
    gate.metrics()
        .contains(&format!("tidegate_declarations_replaced_total{{part=\"{part}\",name=\"{name}\"}} 1"))
}

fn differs(gate: &Tidegate, part: &str, name: &str) -> bool {
    gate.metrics().contains(&format!("tidegate_declarations_differing{{part=\"{part}\",name=\"{name}\"}} 1"))
}

#[tokio::test]
async fn what_is_open_is_declared_readably_in_the_first_marker() {
    for (url, marker) in [(REDIS.url(), "tidegate:marker"), (CLUSTER.url(), "{0}:tidegate:marker")] {
        let namespace = unique("t");
        let gate = replacing(&url, &namespace, &clock()).await;
        gate.limit("api", sliding("5/s", 60), LimitOptions::default()).unwrap();
        gate.limit("day", Calendar::new(5000, Period::Day).unwrap(), LimitOptions::default()).unwrap();
        gate.hot("main", hot(Duration::from_secs(86_400))).unwrap();
        gate.sessions("rooms", SessionOptions::default()).unwrap();
        gate.declare().await.unwrap();

        let marker = format!("{namespace}:{marker}");
        let servers = if url.contains("cluster") { CLUSTER.nodes() } else { std::slice::from_ref(&*REDIS) };
        // All but one of a cluster say that it is elsewhere.
        let found = servers.iter().find_map(|server| {
            let mut server = server.connection();
            let text: String =
                redis::cmd("HGET").arg(&marker).arg("declared:limit:api").query(&mut server).ok()?;
            Some((text, redis::cmd("PTTL").arg(&marker).query::<i64>(&mut server).ok()?))
        });
        let (text, ttl) = found.expect("it is in the first marker");
        assert!(ttl > 31 * 86_400_000, "{ttl}");
        let json: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(json["version"], 1);
        assert_eq!(json["settings"]["algorithm"], "sliding");
        assert_eq!(json["settings"]["rate"], "5/s");
        assert_eq!(json["settings"]["window"], "1m");
        assert_eq!(json["settings"]["coalesce"], "600ms");
        assert!(json["by"].as_str().unwrap().ends_with(&format!(":{}", std::process::id())), "{text}");
        assert_eq!(json["at_ms"], START_MS);

        let all = gate.declarations().await.unwrap();
        assert_eq!(all.len(), 4);
        assert_eq!(find(&all, PartKind::Hot, "main").settings["window_duration"], "1d");
        assert_eq!(find(&all, PartKind::Sessions, "rooms").settings["grace"], "30s");
        assert_eq!(find(&all, PartKind::Limit, "day").settings["limit"], "5000");
        assert_eq!(find(&all, PartKind::Limit, "api").at, Timestamp::from_millis(START_MS));
    }
}

#[tokio::test]
async fn it_is_declared_without_being_asked_and_again_after_a_flush() {
    let server = RedisServer::start();
    let gate = replacing(&server.url(), "t", &clock()).await;
    gate.limit("api", sliding("5/s", 60), LimitOptions::default()).unwrap();
    declared(&gate, "api").await;
    redis::cmd("FLUSHALL").exec(&mut server.connection()).unwrap();
    declared(&gate, "api").await;
    assert_eq!(server.keys_without_ttl(), Vec::<String>::new());
    let metrics = gate.metrics();
    assert!(metrics.contains("tidegate_store_losses_total 1"), "the flush was found: {metrics}");
}

#[tokio::test]
async fn who_starts_without_its_store_declares_when_it_comes() {
    let mut server = RedisServer::start();
    server.kill();
    let gate = replacing(&server.url(), "t", &clock()).await;
    gate.limit("api", sliding("5/s", 60), LimitOptions::default()).unwrap();
    assert!(gate.declare().await.unwrap_err().is_transient());
    server.restart();
    declared(&gate, "api").await;
}

#[tokio::test]
async fn other_settings_are_counted_and_replaced_and_never_written_back() {
    for url in urls() {
        let (namespace, clock) = (unique("t"), clock());
        let old = replacing(&url, &namespace, &clock).await;
        old.limit("api", sliding("50/s", 4), LimitOptions::default()).unwrap();
        old.declare().await.unwrap();
        let new = replacing(&url, &namespace, &clock).await;
        new.limit("api", sliding("50/s", 2), LimitOptions::default()).unwrap();
        new.declare().await.unwrap();
        assert!(replaced(&new, "limit", "api"), "{}", new.metrics());
        for _ in 0..3 {
            clock.advance_ms(700_000);
            old.declare().await.unwrap();
            new.declare().await.unwrap();
            let now = find(&new.declarations().await.unwrap(), PartKind::Limit, "api");
            assert_eq!(now.settings["window"], "2s");
            assert_eq!(now.others.len(), 1, "the old one is known to run");
            assert_eq!(now.others[0].settings["window"], "4s");
        }
        assert!(!replaced(&old, "limit", "api"));
        assert!(differs(&old, "limit", "api"), "{}", old.metrics());
        assert!(!differs(&new, "limit", "api"));
        // The same settings are no other settings.
        let third = replacing(&url, &namespace, &clock).await;
        third.limit("api", sliding("50/s", 2), LimitOptions::default()).unwrap();
        third.declare().await.unwrap();
        assert!(!replaced(&third, "limit", "api"));
    }
}

#[tokio::test]
async fn of_two_that_start_at_once_one_replaces_the_other() {
    for url in urls() {
        for round in 0..20 {
            let (namespace, clock) = (unique("t"), clock());
            let (a, b) =
                tokio::join!(replacing(&url, &namespace, &clock), replacing(&url, &namespace, &clock));
            a.hot("main", hot(Duration::from_secs(3600))).unwrap();
            b.hot("main", hot(Duration::from_secs(7200))).unwrap();
            let (first, second) = tokio::join!(a.declare(), b.declare());
            first.and(second).unwrap();
            let now = find(&a.declarations().await.unwrap(), PartKind::Hot, "main");
            a.declare().await.unwrap();
            b.declare().await.unwrap();
            let later = find(&a.declarations().await.unwrap(), PartKind::Hot, "main");
            assert_eq!(now.settings, later.settings, "round {round}: it does not flap");
            let window = now.settings["window_duration"].as_str();
            let winner = (replaced(&a, "hot", "main"), replaced(&b, "hot", "main"));
            assert!(
                matches!((window, winner), ("1h", (true, false)) | ("2h", (false, true))),
                "round {round}: {window} {winner:?}"
            );
        }
    }
}

#[tokio::test]
async fn strict_refuses_and_a_replacement_by_hand_lets_it_in() {
    for url in urls() {
        let (namespace, clock) = (unique("t"), clock());
        let old = replacing(&url, &namespace, &clock).await;
        old.limit("api", sliding("5/s", 60), LimitOptions::default()).unwrap();
        old.declare().await.unwrap();
        let strict = open(&url, &namespace, &clock, Declarations::Strict).await;
        let limit = strict.limit("api", sliding("6/s", 60), LimitOptions::default()).unwrap();
        let refused = strict.declare().await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Config);
        let text = refused.to_string();
        assert!(text.contains("rate 5/s declared, 6/s here"), "{text}");
        let declared = find(&old.declarations().await.unwrap(), PartKind::Limit, "api");
        assert_eq!(declared.settings["rate"], "5/s");

        let part = limit.options().declared(limit.name(), limit.algorithm());
        let was = strict.replace_declaration(&part).await.unwrap().unwrap();
        assert_eq!(was.settings["rate"], "5/s");
        strict.declare().await.unwrap();
        // Who comes now with the old settings is refused in turn.
        let late = open(&url, &namespace, &clock, Declarations::Strict).await;
        late.limit("api", sliding("5/s", 60), LimitOptions::default()).unwrap();
        assert!(late.declare().await.is_err());
    }
}

#[tokio::test]
async fn what_nobody_uses_for_ninety_days_leaves() {
    let (namespace, clock) = (unique("t"), clock());
    let gate = replacing(&REDIS.url(), &namespace, &clock).await;
    gate.limit("gone", sliding("5/s", 60), LimitOptions::default()).unwrap();
    gate.declare().await.unwrap();
    gate.shutdown().await;
    clock.advance_ms(50 * 24 * HOUR);
    let gate = replacing(&REDIS.url(), &namespace, &clock).await;
    gate.limit("used", sliding("5/s", 60), LimitOptions::default()).unwrap();
    gate.declare().await.unwrap();
    let names =
        |all: Vec<Declaration>| all.into_iter().map(|it| it.name.as_str().to_owned()).collect::<Vec<_>>();
    assert_eq!(names(gate.declarations().await.unwrap()), ["gone", "used"]);
    clock.advance_ms(41 * 24 * HOUR);
    gate.declare().await.unwrap();
    gate.shutdown().await;
    // Whoever comes tidies up: what was used 41 days ago and since stays.
    let gate = replacing(&REDIS.url(), &namespace, &clock).await;
    gate.limit("new", sliding("5/s", 60), LimitOptions::default()).unwrap();
    let tidied = async {
        while names(gate.declarations().await.unwrap()) != ["new", "used"] {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), tidied).await.expect("it leaves in time");
}

/// Who charges a family by another quota says so and replaces it, and who was there before hears of it: as of a limit,
/// whatever the family is called.
#[tokio::test]
async fn who_has_another_quota_for_a_family_says_so() {
    for url in urls() {
        let (namespace, clock) = (unique("t"), clock());
        for (prefix, name) in [("acme", "acme"), ("courtlistener", "courtlistener"), ("A:{b}", "")] {
            let options =
                |limit: u64| QuotaOptions::new().prefix(prefix.to_owned()).limit(limit).safety_buffer(1);
            let first = replacing(&url, &namespace, &clock).await;
            let quota = first.quota(options(100)).unwrap();
            assert!(quota.charge(Cost::ONE, Some("a")).await.unwrap().is_admitted());
            first.declare().await.unwrap();
            let of_prefix = |it: &Declaration| it.kind == PartKind::Quota && it.settings["prefix"] == prefix;
            let all = first.declarations().await.unwrap();
            let declared = all.into_iter().find(of_prefix).expect("it is declared");
            assert!(name.is_empty() || declared.name.as_str() == name, "{declared:?}");
            let name = declared.name.as_str();
            let settings: Vec<_> = declared.settings.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
            let expected = [
                ("counter_ttl", "2h"),
                ("kind", "aligned"),
                ("limit", "100"),
                ("max_charges", "10000"),
                ("prefix", prefix),
                ("safety_buffer", "1"),
            ];
            assert_eq!(settings, expected);
            assert!(first.differing().is_empty());

            let strict = open(&url, &namespace, &clock, Declarations::Strict).await;
            strict.quota(options(200)).unwrap();
            let refused = strict.declare().await.unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::Config);
            assert!(refused.to_string().contains("limit 100 declared, 200 here"), "{refused}");

            let second = replacing(&url, &namespace, &clock).await;
            second.quota(options(200).kind(QuotaKind::Both)).unwrap();
            second.declare().await.unwrap();
            assert!(replaced(&second, "quota", name), "{}", second.metrics());
            first.declare().await.unwrap();
            assert!(differs(&first, "quota", name), "{}", first.metrics());
            assert!(!differs(&second, "quota", name));
            let (part, theirs) =
                first.differing().into_iter().find(|(part, _)| part.kind == PartKind::Quota).unwrap();
            assert_eq!((part.settings["limit"].as_str(), theirs["limit"].as_str()), ("100", "200"));
        }
    }
}

/// The limits that a quota stands on are counted, whatever its family: each by a name of its own.
#[tokio::test]
async fn the_limits_of_all_families_are_in_the_metrics() {
    for url in ["memory:".to_owned(), REDIS.url()] {
        let gate = replacing(&url, &unique("t"), &clock()).await;
        for prefix in ["courtlistener", "acme", "other"] {
            let options = QuotaOptions::new().prefix(prefix.to_owned()).kind(QuotaKind::Both).limit(30);
            let quota = gate.quota(options).unwrap();
            assert!(quota.charge(Cost::new(2).unwrap(), None).await.unwrap().is_admitted());
            assert!(!quota.charge(Cost::new(20).unwrap(), None).await.unwrap().is_admitted());
        }
        let metrics = gate.metrics();
        for name in ["rate_limit", "rate_limit_sliding", "acme:rate_limit", "other:rate_limit_sliding"] {
            for outcome in ["admitted", "rejected"] {
                let row = format!("limit=\"{name}\",outcome=\"{outcome}\",source=\"store\"}} 1\n");
                assert_eq!(metrics.matches(&row).count(), 1, "{row} in {metrics}");
            }
        }
    }
}
