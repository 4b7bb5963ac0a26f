//! What calendar limits write: the counters of the seed, each to the end of its window.

use std::time::Duration;

use tidegate::clock::{ManualClock, Timestamp};
use tidegate::limit::{InProcess, LimitOptions, Period, Source, WhenFull};
use tidegate::store::StoreOptions;
use tidegate::testkit::RedisServer;
use tidegate::testkit::limit::calendar;
use tidegate::{Cost, Key, Tidegate};

/// 2024-09-17 14:23:45.000 UTC.
const AFTERNOON_MS: u64 = 1_726_583_025_000;

/// A gate with the default names, on a clock.
async fn plain_gate(server: &RedisServer, clock: &ManualClock) -> Tidegate {
    let mut options = StoreOptions::default();
    options.clock = clock.clone().into();
    options.deadline = Duration::from_secs(10);
    Tidegate::open_with(&server.url(), options).await.unwrap()
}

/// Programs that read the counters of seed 002 find them where they were, and what
/// they have counted counts.
#[tokio::test]
async fn a_calendar_counter_is_the_key_that_the_seed_has() {
    let server = RedisServer::start();
    let clock = ManualClock::at(Timestamp::from_millis(AFTERNOON_MS));
    let gate = plain_gate(&server, &clock).await;
    let hour = calendar(5000, Period::Hour).with_safety_buffer(25).unwrap();
    let limit = gate.limit("rate_limit", hour, LimitOptions::default()).unwrap();
    let user = Key::new("user_1").unwrap();
    limit.take(Key::EVERYONE, Cost::new(3).unwrap()).await.unwrap();
    limit.take(Key::EVERYONE, Cost::new(4).unwrap()).await.unwrap();
    limit.take(user, Cost::new(5).unwrap()).await.unwrap();
    let mut connection = server.connection();
    let everyone = "courtlistener:rate_limit:2024-09-17_14";
    let own = "courtlistener:rate_limit:2024-09-17_14:user_1";
    let mut keys: Vec<String> = redis::cmd("KEYS").arg("*").query(&mut connection).unwrap();
    keys.sort();
    // What is without a subject notes its hours.
    assert_eq!(keys, [everyone, own, "courtlistener:rate_limit:hours", "tidegate:marker"]);
    for (key, count) in [(everyone, "7"), (own, "5")] {
        assert_eq!(redis::cmd("TYPE").arg(key).query::<String>(&mut connection).unwrap(), "string");
        assert_eq!(redis::cmd("GET").arg(key).query::<String>(&mut connection).unwrap(), count);
    }
    redis::cmd("SET").arg(everyone).arg("4970").arg("EX").arg(7200).exec(&mut connection).unwrap();
    assert_eq!(limit.peek(Key::EVERYONE).await.unwrap().quota().remaining, 5);
    assert!(!limit.take(Key::EVERYONE, Cost::new(6).unwrap()).await.unwrap().is_admitted());
    // The other periods are called alike, under a prefix of one's own.
    let mut options = LimitOptions::default();
    options.prefix = Some("my:app".to_owned());
    for (name, period, label) in
        [("minute", Period::Minute, "2024-09-17_14-23"), ("day", Period::Day, "2024-09-17")]
    {
        let limit = gate.limit(name, calendar(10, period), options.clone()).unwrap();
        limit.take(user, Cost::ONE).await.unwrap();
        let key = format!("my%3Aapp:{name}:{label}:user_1");
        assert_eq!(redis::cmd("GET").arg(key).query::<Option<u64>>(&mut connection).unwrap(), Some(1));
    }
}

/// A counter is kept for as long as was set, never shorter than the rest of its
/// window, and a further charge does not make it last longer.
#[tokio::test]
async fn calendar_counters_end_after_their_window_and_are_not_kept_alive_by_use() {
    let server = RedisServer::start();
    let clock = ManualClock::at(Timestamp::from_millis(AFTERNOON_MS));
    let gate = plain_gate(&server, &clock).await;
    let mut connection = server.connection();
    let mut ttl = |key: &str| redis::cmd("PTTL").arg(key).query::<u64>(&mut connection).unwrap();
    let key = Key::new("k").unwrap();
    let (hour, slack) = (3_600_000, 3_600_000);
    let rest_of_day = 86_400_000 - AFTERNOON_MS % 86_400_000;
    for (name, period, ttl_hours, label, kept) in [
        ("minute", Period::Minute, 2, "2024-09-17_14-23", 2 * hour),
        ("hour", Period::Hour, 2, "2024-09-17_14", 2 * hour),
        ("brief", Period::Hour, 0, "2024-09-17_14", hour - AFTERNOON_MS % hour),
        ("day", Period::Day, 2, "2024-09-17", rest_of_day),
        ("long", Period::Day, 48, "2024-09-17", 48 * hour),
    ] {
        let calendar = calendar(100, period).with_counter_ttl(Duration::from_secs(ttl_hours * 3600));
        let limit = gate.limit(name, calendar.unwrap(), LimitOptions::default()).unwrap();
        let counter = format!("courtlistener:{name}:{label}:k");
        let beside = format!("courtlistener:{name}:beside:{label}:k");
        let receipt = limit.take(key, Cost::ONE).await.unwrap().receipt().unwrap();
        let left = ttl(&counter);
        assert!((kept + slack - 5000..=kept + slack).contains(&left), "{name}: {left} for {}", kept + slack);
        // As if the first charge had been a while ago.
        redis::cmd("PEXPIRE").arg(&counter).arg(kept).exec(&mut server.connection()).unwrap();
        for _ in 0..5 {
            limit.take(key, Cost::ONE).await.unwrap();
        }
        assert!(ttl(&counter) <= kept, "{name}: further charges make it last longer");
        assert_eq!(limit.refund(key, receipt).await.unwrap(), 1);
        assert!(ttl(&counter) <= kept, "{name}: a refund makes it last longer");
        assert!(ttl(&beside) >= kept, "{name}: what was given back is known for as long as it counts");
    }
    assert_eq!(server.keys_without_ttl(), Vec::<String>::new());
}

/// Windows that are over make room, those that count do not, also when the clock
/// steps back a little.
#[test]
fn calendar_windows_of_the_past_make_room() {
    for max_keys in [1, 50] {
        let clock = ManualClock::at(Timestamp::from_millis(AFTERNOON_MS));
        let limit = InProcess::with(
            calendar(5, Period::Minute),
            &LimitOptions::new().max_keys(max_keys),
            clock.clone().into(),
        )
        .unwrap();
        let take = |i: usize| limit.take(Key::new(&format!("k{i}")).unwrap(), Cost::ONE).unwrap();
        for minute in 0..10 {
            for i in 0..max_keys {
                assert!(take(i).is_admitted(), "key {i} in minute {minute}");
            }
            clock.set(Timestamp::from_millis(clock.now().as_millis() - 1));
            assert!(!take(max_keys).is_admitted(), "there is no room for another");
            for i in 0..max_keys {
                assert_eq!(take(i).quota().remaining, 3, "key {i} is still known");
            }
            clock.advance_ms(60_001);
        }
    }
}

/// What keys beyond the cap share is of one window too.
#[test]
fn keys_beyond_the_cap_share_one_calendar_window_at_a_time() {
    let clock = ManualClock::at(Timestamp::from_millis(AFTERNOON_MS));
    let limit = InProcess::with(
        calendar(5, Period::Minute),
        &LimitOptions::new().max_keys(1).when_full(WhenFull::Share),
        clock.clone().into(),
    )
    .unwrap();
    let admitted = |from: u64| {
        let keys = (from..from + 20).map(|i| format!("k{i}"));
        keys.filter(|key| limit.take(Key::new(key).unwrap(), Cost::ONE).unwrap().is_admitted()).count()
    };
    assert_eq!(admitted(0), 1 + 5);
    assert_eq!(admitted(100), 0);
    clock.advance_ms(60_000);
    assert!(limit.take(Key::new("first").unwrap(), Cost::ONE).unwrap().is_admitted());
    let peek = limit.peek(Key::new("beyond").unwrap()).unwrap();
    assert_eq!((peek.source(), peek.is_admitted(), peek.quota().remaining), (Source::Policy, true, 5));
    assert_eq!(admitted(200), 5);
}
