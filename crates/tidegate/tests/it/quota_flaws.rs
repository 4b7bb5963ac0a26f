//! The flaws of the seed's counters, R1 to R4 and R8: each a promise that they break.

use redis::Connection;
use tidegate::Tidegate;
use tidegate::clock::{ManualClock, Timestamp};
use tidegate::limit::Release;
use tidegate::run::{Quota, QuotaCharge, QuotaKind, QuotaOptions};
use tidegate::store::StoreOptions;
use tidegate::testkit::RedisServer;

use crate::quota::{FULL_HOUR_MS, HOUR, World, cost, options};

const MINUTE: u64 = 60_000;

/// The seed's script, as its document has it.
const SEED: &str = "
local key = KEYS[1]
local increment = tonumber(ARGV[1])
local limit = tonumber(ARGV[2])
local ttl = tonumber(ARGV[3])
local current = redis.call('GET', key) or 0
current = tonumber(current)
if current + increment <= limit then
  local new_count = redis.call('INCRBY', key, increment)
  redis.call('EXPIRE', key, ttl)
  return {new_count, 1}
else
  return {current, 0}
end";

/// The seed's counters, on a server of their own, as a client uses them whose clock shows something.
struct Seed {
    redis: Connection,
    _server: RedisServer,
}

impl Seed {
    fn start() -> Self {
        let server = RedisServer::start();
        Self { redis: server.connection(), _server: server }
    }

    fn key(family: &str, client_ms: u64) -> String {
        let shown = Timestamp::from_millis(client_ms).to_string();
        format!("courtlistener:{family}:{}_{}", &shown[..10], &shown[11..13])
    }

    /// Whether it is admitted.
    fn charge(&mut self, family: &str, client_ms: u64, increment: u64, limit: u64) -> bool {
        let mut eval = redis::cmd("EVAL");
        eval.arg(SEED).arg(1).arg(Self::key(family, client_ms)).arg(increment).arg(limit).arg(7200);
        let (_, allowed): (u64, u64) = eval.query(&mut self.redis).unwrap();
        allowed == 1
    }

    fn get(&mut self, family: &str, client_ms: u64) -> u64 {
        let found: Option<u64> =
            redis::cmd("GET").arg(Self::key(family, client_ms)).query(&mut self.redis).unwrap();
        found.unwrap_or(0)
    }
}

/// Our quota on a server of its own, without a namespace: under the seed's keys.
async fn ours(server: &RedisServer, options: QuotaOptions) -> (Quota, ManualClock) {
    let clock = ManualClock::at(Timestamp::from_millis(FULL_HOUR_MS + 30 * MINUTE));
    let store = StoreOptions::new().clock(clock.clone().into()).deadline(std::time::Duration::from_secs(10));
    (Tidegate::open_with(&server.url(), store).await.unwrap().quota(options).unwrap(), clock)
}

/// The seed enforces `counter`, and its status reads `rate_limit`: they part as soon as one of them is left out.
#[tokio::test]
async fn r1_what_is_enforced_is_what_is_shown() {
    let mut seed = Seed::start();
    assert!(seed.charge("counter", FULL_HOUR_MS, 100, 100));
    assert_eq!(seed.get("rate_limit", FULL_HOUR_MS), 0, "its status shows an hour with nothing used");
    assert!(!seed.charge("counter", FULL_HOUR_MS, 1, 100));

    for world in World::everywhere() {
        for kind in [QuotaKind::Aligned, QuotaKind::Sliding, QuotaKind::Both] {
            let prefix = format!("family_{}", kind.as_str());
            let quota = world.quota(options(kind, 100).prefix(prefix)).await;
            let mut left = 100;
            for turn in 0..12_u64 {
                let id = turn.to_string();
                assert!(quota.charge(cost(7), Some(&id)).await.unwrap().is_admitted());
                left -= 7;
                if turn % 3 == 2 {
                    quota.release(&id).await.unwrap();
                    left += 7;
                }
                let status = quota.status().await.unwrap();
                assert_eq!(status.remaining, left, "{} {kind:?}", world.on);
                for used in [status.aligned, status.sliding].into_iter().flatten() {
                    assert_eq!((used.used, used.remaining), (100 - left, left), "{} {kind:?}", world.on);
                }
                // And exactly that is to be had.
                assert!(!quota.charge(cost(left + 1), None).await.unwrap().is_admitted());
            }
            assert!(quota.charge(cost(left), None).await.unwrap().is_admitted(), "{} {kind:?}", world.on);
            assert_eq!(quota.status().await.unwrap().remaining, 0);
        }
    }
    // Under the key that the seed's people look at.
    let server = RedisServer::start();
    let (quota, _) = ours(&server, QuotaOptions::new()).await;
    quota.charge(cost(1247), None).await.unwrap();
    let stored: u64 = redis::cmd("GET")
        .arg("courtlistener:rate_limit:2024-09-17_14")
        .query(&mut server.connection())
        .unwrap();
    assert_eq!(stored, 1247);
}

/// Twice the limit within two minutes, around a full hour.
#[tokio::test]
async fn r2_no_60_minutes_hold_more_than_the_quota() {
    let mut seed = Seed::start();
    let (before, after) = (FULL_HOUR_MS + HOUR - MINUTE, FULL_HOUR_MS + HOUR + MINUTE);
    let seeds: u64 =
        [before, after].map(|at| u64::from(seed.charge("counter", at, 100, 100)) * 100).iter().sum();
    assert_eq!(seeds, 200, "the seed lets it through");

    for world in World::everywhere() {
        for kind in [QuotaKind::Sliding, QuotaKind::Both] {
            let prefix = format!("family_{}", kind.as_str());
            let quota = world.quota(options(kind, 100).prefix(prefix)).await;
            let mut charged = 0;
            for at in [HOUR - MINUTE, HOUR, HOUR + MINUTE, HOUR + 30 * MINUTE, 2 * HOUR - MINUTE - 1] {
                world.at(at);
                while quota.charge(cost(5), None).await.unwrap().is_admitted() {
                    charged += 5;
                }
            }
            assert_eq!(charged, 100, "{} {kind:?}", world.on);
            world.at(2 * HOUR + MINUTE);
            assert!(quota.charge(cost(100), None).await.unwrap().is_admitted(), "{} {kind:?}", world.on);
        }
    }
}

/// Two workers of which one is five minutes ahead have a counter each, and both the whole limit.
#[tokio::test]
async fn r3_the_stores_clock_says_which_hour_it_is() {
    let mut seed = Seed::start();
    let now = FULL_HOUR_MS + HOUR - 2 * MINUTE;
    let workers = [now, now + 5 * MINUTE];
    assert_eq!(workers.map(|client_ms| seed.charge("counter", client_ms, 100, 100)), [true, true]);

    for world in World::everywhere() {
        world.at(HOUR - 2 * MINUTE);
        let mut left = 100;
        let here = world.process(None).await;
        for wrong_ms in [5 * MINUTE as i64, -5 * MINUTE as i64, 3 * HOUR as i64, -26 * HOUR as i64, 0] {
            let shown = world.clock.now().as_millis().strict_add_signed(wrong_ms);
            let own = ManualClock::at(Timestamp::from_millis(shown));
            // A store in this process is this process's alone.
            let gate = if world.on == "memory" { here.clone() } else { world.process(Some(own)).await };
            let quota = gate.quota(options(QuotaKind::Aligned, 100)).unwrap();
            let charged = quota.charge(cost(20), Some(&wrong_ms.to_string())).await.unwrap();
            left -= 20;
            assert_eq!(charged, QuotaCharge::Charged { is_new: true, remaining: left }, "{}", world.on);
            let status = quota.status().await.unwrap();
            assert_eq!(status.aligned.unwrap().resets_in_ms, 2 * MINUTE, "{}, {wrong_ms} ms off", world.on);
            assert_eq!(status.hours.len(), 1, "{}", world.on);
        }
        let quota = here.quota(options(QuotaKind::Aligned, 100)).unwrap();
        assert!(!quota.charge(cost(1), None).await.unwrap().is_admitted(), "{}", world.on);
        world.at(HOUR);
        assert!(quota.charge(cost(100), None).await.unwrap().is_admitted(), "{}", world.on);
    }
}

/// Every call puts the end of the counter off, and one hand gives it 25 hours where another gave it two.
#[tokio::test]
async fn r4_a_ttl_is_set_once_and_no_shorter_than_its_window() {
    let mut seed = Seed::start();
    let key = Seed::key("counter", FULL_HOUR_MS);
    seed.charge("counter", FULL_HOUR_MS, 1, 100);
    redis::cmd("EXPIRE").arg(&key).arg(100).exec(&mut seed.redis).unwrap();
    seed.charge("counter", FULL_HOUR_MS, 1, 100);
    let put_off: u64 = redis::cmd("TTL").arg(&key).query(&mut seed.redis).unwrap();
    assert!(put_off > 7000, "the seed's second call puts it off: {put_off}");

    let server = RedisServer::start();
    let two_hours = QuotaOptions::new().kind(QuotaKind::Both);
    let (quota, clock) = ours(&server, two_hours).await;
    let mut redis = server.connection();
    let counter = "courtlistener:rate_limit:2024-09-17_14";
    let mut ttl_s = |key: &str| -> i64 { redis::cmd("TTL").arg(key).query(&mut redis).unwrap() };
    quota.charge(cost(1), Some("a")).await.unwrap();
    // An hour more, since tests move the clock.
    let slack_s = 3600;
    assert!((7190..=7200).contains(&(ttl_s(counter) - slack_s)), "{}", ttl_s(counter));
    assert!((89_990..=90_000).contains(&(ttl_s("courtlistener:rate_limit:hours") - slack_s)));
    let mut other = server.connection();
    redis::cmd("EXPIRE").arg(counter).arg(100).exec(&mut other).unwrap();
    redis::cmd("EXPIRE").arg("courtlistener:rate_limit:hours").arg(100).exec(&mut other).unwrap();
    for turn in 0..5 {
        clock.advance_ms(1000);
        quota.charge(cost(1), Some(&turn.to_string())).await.unwrap();
        quota.release(&turn.to_string()).await.unwrap();
    }
    assert!(ttl_s(counter) <= 100, "{}", ttl_s(counter));
    assert!(ttl_s("courtlistener:rate_limit:hours") <= 100);
    assert_eq!(server.keys_without_ttl(), Vec::<String>::new());

    // One that is to be kept for less than its hour is kept for the rest of it.
    let short =
        QuotaOptions::new().prefix("short".to_owned()).counter_ttl(std::time::Duration::from_secs(60));
    let (quota, _) = ours(&server, short).await;
    quota.charge(cost(1), None).await.unwrap();
    let rest_s = ttl_s("short:rate_limit:2024-09-17_14") - slack_s;
    assert!((1790..=1800).contains(&rest_s), "{rest_s}");
}

/// A call that is sent again is charged again, and nothing can be given back.
#[tokio::test]
async fn r8_a_retried_charge_counts_once_and_can_be_given_back() {
    let mut seed = Seed::start();
    for _ in 0..2 {
        seed.charge("counter", FULL_HOUR_MS, 10, 100);
    }
    assert_eq!(seed.get("counter", FULL_HOUR_MS), 20, "the seed counts the retry");

    for world in World::everywhere() {
        for kind in [QuotaKind::Aligned, QuotaKind::Sliding, QuotaKind::Both] {
            let prefix = format!("family_{}", kind.as_str());
            let gate = world.process(None).await;
            let quota = gate.quota(options(kind, 100).prefix(prefix)).unwrap();
            let on = world.on;
            for is_first in [true, false, false] {
                let charged = quota.charge(cost(10), Some("100000000000001")).await.unwrap();
                assert_eq!(
                    charged,
                    QuotaCharge::Charged { is_new: is_first, remaining: 90 },
                    "{on} {kind:?}"
                );
            }
            // Ids are texts: 007 is not 7.
            quota.charge(cost(10), Some("007")).await.unwrap();
            quota.charge(cost(10), Some("7")).await.unwrap();
            quota.charge(cost(10), Some("\"ü\n'")).await.unwrap();
            assert_eq!(quota.status().await.unwrap().remaining, 60, "{on} {kind:?}");
            for is_first in [true, false] {
                let released = quota.release("\"ü\n'").await.unwrap();
                assert_eq!(released, Release::Released { is_new: is_first }, "{on} {kind:?}");
            }
            assert_eq!(quota.charge(cost(10), Some("\"ü\n'")).await.unwrap(), QuotaCharge::Released);
            assert_eq!(quota.release("nobody").await.unwrap(), Release::Unknown);
            assert_eq!(quota.status().await.unwrap().remaining, 70, "{on} {kind:?}");
        }
    }
}
