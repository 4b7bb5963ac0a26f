//! What limits and spaces are is declared in the store, and who disagrees deletes nothing
//! that others count.

use std::collections::VecDeque;
use std::time::Duration;

use serde_json::Value;
use tidegate::clock::{ManualClock, Timestamp};
use tidegate::hot::{Edit, HotOptions, Recorded};
use tidegate::limit::{Calendar, LimitOptions, Period, Sliding};
use tidegate::run::{QuotaKind, QuotaOptions};
use tidegate::session::SessionOptions;
use tidegate::store::{Declaration, Declarations, PartKind, StoreOptions};
use tidegate::testkit::{RedisServer, unique};
use tidegate::{Cost, ErrorKind, Key, Name, Tidegate};

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

async fn record(hot: &tidegate::hot::Hot, page: &str, id: &str) -> Recorded {
    hot.record(&Edit::new(Key::new(page).unwrap(), id, "alice")).await.unwrap()
}

/// Everything that is stored under a namespace, without the stamps of partitions.
fn dump(namespace: &str) -> Vec<(String, Vec<u8>)> {
    let mut connection = REDIS.connection();
    let keys: Vec<String> = redis::cmd("KEYS").arg(format!("{namespace}:*")).query(&mut connection).unwrap();
    let mut all: Vec<_> = keys
        .into_iter()
        .filter(|key| !key.contains("hot:state") && !key.contains("marker"))
        .map(|key| {
            let value: Vec<u8> = redis::cmd("DUMP").arg(&key).query(&mut connection).unwrap();
            (key, value)
        })
        .collect();
    all.sort();
    all
}

/// A server with a shorter window reads less, and deletes nothing that the other counts.
#[tokio::test]
async fn a_shorter_window_deletes_nothing_of_a_longer_one() {
    for url in urls() {
        let (namespace, clock) = (unique("t"), clock());
        let long = replacing(&url, &namespace, &clock).await;
        let day = long.hot("main", hot(Duration::from_secs(86_400))).unwrap();
        long.declare().await.unwrap();
        for id in ["1", "2", "3"] {
            record(&day, "en:Tide gate", id).await;
        }
        clock.advance_ms(600_000);
        for id in ["4", "5"] {
            record(&day, "en:Weir", id).await;
        }
        clock.advance_ms(2 * HOUR);
        record(&day, "en:Weir", "6").await;

        let short = replacing(&url, &namespace, &clock).await;
        let hour = short.hot("main", hot(Duration::from_secs(3600))).unwrap();
        short.declare().await.unwrap();
        assert!(replaced(&short, "hot", "main"));
        let (gate, weir) = (Key::new("en:Tide gate").unwrap(), Key::new("en:Weir").unwrap());
        let before = (!url.contains("cluster")).then(|| dump(&namespace));
        assert!(!hour.stats(gate).await.unwrap().is_hot);
        assert!(!hour.is_hot(gate).await.unwrap());
        let stats = hour.stats(weir).await.unwrap();
        assert_eq!((stats.is_hot, stats.edits_last_hour, stats.unique_editors), (true, 1, 1));
        let list = hour.list(10).await.unwrap();
        assert_eq!(list.iter().map(|it| (it.page.as_str(), it.edits)).collect::<Vec<_>>(), [("en:Weir", 1)]);
        assert_eq!(hour.count().await.unwrap(), 1);
        let all = Timestamp::from_millis(0)..=Timestamp::from_millis(u64::MAX >> 20);
        assert_eq!(hour.window(weir, all.clone()).await.unwrap().len(), 1);
        if let Some(before) = before {
            assert!(before == dump(&namespace), "a read has changed something");
        }
        // Nor do its cleanups and writes.
        assert_eq!(hour.cleanup().await.unwrap(), 0);
        assert_eq!(record(&hour, "en:Weir", "7").await, Recorded::Added);
        assert_eq!(day.window(gate, all.clone()).await.unwrap().len(), 3);
        assert_eq!(day.window(weir, all.clone()).await.unwrap().len(), 4);
        let list = day.list(10).await.unwrap();
        let expected = [("en:Weir", 4), ("en:Tide gate", 3)];
        assert_eq!(list.iter().map(|it| (it.page.as_str(), it.edits)).collect::<Vec<_>>(), expected);
        assert_eq!(day.count().await.unwrap(), 2);

        // The old server leaves. An hour later nobody needs its window any more.
        long.shutdown().await;
        drop((day, long));
        clock.advance_ms(HOUR + 1000);
        short.declare().await.unwrap();
        assert_eq!(hour.cleanup().await.unwrap(), 2);
        assert_eq!(hour.count().await.unwrap(), 0);
    }
}

/// A question with settings of one's own goes by the declared window where it deletes.
#[tokio::test]
async fn who_only_reads_declarations_keeps_what_is_declared() {
    for url in urls() {
        let (namespace, clock) = (unique("t"), clock());
        let server = replacing(&url, &namespace, &clock).await;
        let day = server.hot("main", hot(Duration::from_secs(86_400))).unwrap();
        server.declare().await.unwrap();
        record(&day, "en:Weir", "1").await;
        record(&day, "en:Weir", "2").await;
        server.shutdown().await;
        // However long it is away.
        clock.advance_ms(20 * HOUR);
        let asking = open(&url, &namespace, &clock, Declarations::ReadOnly).await;
        let hour = asking.hot("main", hot(Duration::from_secs(3600))).unwrap();
        asking.declare().await.unwrap();
        assert_eq!(hour.cleanup().await.unwrap(), 0);
        assert!(hour.list(10).await.unwrap().is_empty());
        assert_eq!(
            find(&asking.declarations().await.unwrap(), PartKind::Hot, "main").settings["window_duration"],
            "1d"
        );
        let again = replacing(&url, &namespace, &clock).await;
        let day = again.hot("main", hot(Duration::from_secs(86_400))).unwrap();
        assert_eq!(day.list(10).await.unwrap().len(), 1);
    }
}

/// A window that was made shorter, or longer, finds what is due all the same.
#[tokio::test]
async fn a_changed_window_finds_what_is_due() {
    for url in urls() {
        let (namespace, clock) = (unique("t"), clock());
        let mut seconds = 3600;
        for (round, next) in [600, 86_400, 60, 3600].into_iter().enumerate() {
            let gate = replacing(&url, &namespace, &clock).await;
            let pages = gate.hot("main", hot(Duration::from_secs(seconds))).unwrap();
            gate.declare().await.unwrap();
            for page in ["a", "b", "c"] {
                record(&pages, page, &format!("{round}:1")).await;
                record(&pages, page, &format!("{round}:2")).await;
            }
            gate.shutdown().await;
            // Whoever had it before is gone for long enough.
            clock.advance_ms(HOUR + 1);
            let gate = replacing(&url, &namespace, &clock).await;
            let pages = gate.hot("main", hot(Duration::from_secs(next))).unwrap();
            gate.declare().await.unwrap();
            clock.advance_ms(HOUR + 1);
            gate.declare().await.unwrap();
            let expected = if next > 7200 { 3 } else { 0 };
            assert_eq!(pages.count().await.unwrap(), expected, "from {seconds} s to {next} s");
            pages.cleanup().await.unwrap();
            assert_eq!(pages.list(10).await.unwrap().len() as u64, expected);
            gate.shutdown().await;
            seconds = next;
        }
    }
}

/// Two servers with windows of 4 s and 2 s: what the longer one promises holds.
#[tokio::test]
async fn the_longest_window_holds_while_two_disagree() {
    for url in urls() {
        for seed in 0..6_u64 {
            let (namespace, clock) = (unique("t"), clock());
            let long = replacing(&url, &namespace, &clock).await;
            let short = replacing(&url, &namespace, &clock).await;
            let limits = [
                long.limit("api", sliding("50/s", 4), LimitOptions::default()).unwrap(),
                short.limit("api", sliding("50/s", 2), LimitOptions::default()).unwrap(),
            ];
            // Whichever comes first, and once more to hear of the other.
            for gate in [&long, &short, &long] {
                gate.declare().await.unwrap();
            }
            let key = Key::new("user").unwrap();
            let (mut random, mut admitted, mut most) =
                (seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1, VecDeque::new(), 0);
            let mut all = 0;
            for _ in 0..400 {
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
                let now = clock.now().as_millis();
                let limit = &limits[(random % 2) as usize];
                for _ in 0..random / 7 % 40 {
                    if limit.take(key, Cost::ONE).await.unwrap().is_admitted() {
                        admitted.push_back(now);
                        all += 1;
                    }
                }
                while admitted.front().is_some_and(|first| first + 4000 <= now) {
                    admitted.pop_front();
                }
                most = most.max(admitted.len());
                clock.advance_ms(random / 31 % 200);
            }
            assert!(most <= 200, "seed {seed}: {most} in 4 s where 200 are promised");
            assert!(all > 500, "seed {seed}: only {all} in 40 s");
        }
    }
}

/// A refusal on account of the longer window says when it is worth to come again.
#[tokio::test]
async fn the_wait_of_who_counts_shorter_is_exact_too() {
    let (namespace, clock) = (unique("t"), clock());
    let long = replacing(&REDIS.url(), &namespace, &clock).await;
    let short = replacing(&REDIS.url(), &namespace, &clock).await;
    let four = sliding("50/s", 4).with_coalesce(Duration::from_millis(50)).unwrap();
    let two = sliding("60/s", 2).with_coalesce(Duration::from_millis(50)).unwrap();
    let four = long.limit("api", four, LimitOptions::default()).unwrap();
    let two = short.limit("api", two, LimitOptions::default()).unwrap();
    for gate in [&long, &short, &long] {
        gate.declare().await.unwrap();
    }
    let key = Key::new("user").unwrap();
    assert!(four.take(key, Cost::new(200).unwrap()).await.unwrap().is_admitted());
    clock.advance_ms(2500);
    // By its own window all is free.
    let refused = two.take(key, Cost::ONE).await.unwrap();
    let retry_after_ms = refused.wait().expect("there is a time").retry_after_ms;
    clock.advance_ms(retry_after_ms - 1);
    assert!(!two.take(key, Cost::ONE).await.unwrap().is_admitted());
    clock.advance_ms(1);
    assert!(two.take(key, Cost::ONE).await.unwrap().is_admitted());
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
