//! The fast path of charges beside the long way: the same answers, and the same left behind.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use redis::{Connection, Value};

use super::super::Hold;
use super::super::scripts::CHARGE_ONE_BY_ONE;
use super::*;
use crate::clock::ManualClock;
use crate::key::Name;
use crate::limit::{Calendar, Period};
use crate::store::StoreOptions;
use crate::store::metrics::StoreMetrics;
use crate::store::redis::{RedisStore, Script};
use crate::testkit::RedisServer;

const HOUR_MS: u64 = 3_600_000;
const START_MS: u64 = 472_222 * HOUR_MS + HOUR_MS / 2;
const REMEMBERED_MS: u64 = 600_000;
const CAPACITY: u64 = 400;
const MAX: usize = 6;

#[derive(Debug, Clone)]
enum Op {
    /// At once: an id or none, and a cost.
    Charge(Vec<(Option<String>, u64)>),
    Advance(u64),
    /// Commands of somebody else's.
    Plant(Vec<&'static str>),
    /// A reservation, pending until it is forgotten or not.
    Reserve(String, u64),
}

fn op() -> impl Strategy<Value = Op> {
    let id = prop_oneof![
        2 => Just(None),
        3 => (0..12_u32).prop_map(|n| Some(format!("id {n}"))),
        5 => any::<u32>().prop_map(|n| Some(format!("new {n}"))),
    ];
    let plant = |plants: &[&'static str]| Just(Op::Plant(plants.to_vec()));
    prop_oneof![
        100 => prop::collection::vec((id, 1..4_u64), 2..8).prop_map(Op::Charge),
        10 => (1..1_000_u64).prop_map(Op::Advance),
        4 => (60_000..400_000_u64).prop_map(Op::Advance),
        1 => Just(Op::Advance(HOUR_MS)),
        3 => (0..12_u32, 0..2 * REMEMBERED_MS).prop_map(|(n, left)| Op::Reserve(format!("id {n}"), left)),
        1 => plant(&["SET {counter} 007 PX 9999999"]),
        1 => plant(&["SET {counter} 1e1 PX 9999999"]),
        1 => plant(&["SET {counter} text PX 9999999"]),
        1 => plant(&["SET {counter} 0 PX 9999999"]),
        1 => plant(&["SET {counter} 398 PX 9999999"]),
        6 => plant(&["DEL {counter}"]),
        1 => plant(&["HSET {beside} t 3 v 4", "PEXPIRE {beside} 9999999"]),
        4 => plant(&["DEL {beside}"]),
        1 => plant(&["HSET {hours} {hour} text"]),
        4 => plant(&["HDEL {hours} {hour}"]),
        1 => plant(&["DEL q:rate_limit:reservations:"]),
        1 => plant(&["DEL q:rate_limit:reservations:", "SET q:rate_limit:reservations: x PX 9999999"]),
        6 => plant(&["DEL q:rate_limit:reservations: q:rate_limit:reservations_due:"]),
        1 => plant(&["HSET tidegate:marker o:q:rate_limit: 9999999999999999"]),
        1 => plant(&["HSET tidegate:marker o:q:rate_limit: 7"]),
        1 => plant(&["HSET tidegate:marker lost_ms {now}"]),
        6 => plant(&["HSET tidegate:marker lost_ms 0"]),
        6 => plant(&["HDEL tidegate:marker o:q:rate_limit:"]),
    ]
}

/// A server whose charges all go one way.
struct Way {
    script: &'static Script,
    server: RedisServer,
    limit: OnRedis,
}

impl Way {
    async fn open(script: &'static Script, clock: &ManualClock, hold: Hold) -> Self {
        let server = RedisServer::start();
        let options = StoreOptions {
            clock: clock.clone().into(),
            deadline: Duration::from_secs(10),
            ..StoreOptions::default()
        };
        let store = RedisStore::open(&server.url(), &options, StoreMetrics::default()).await.unwrap();
        let calendar = Calendar::new(CAPACITY, Period::Hour).unwrap();
        let (name, prefix) = (Name::new("rate_limit").unwrap(), Key::new("q").unwrap());
        Self { script, limit: OnRedis::new(store, &name, prefix, calendar.into(), hold), server }
    }

    async fn charge(&self, charges: &[(Option<String>, u64)]) -> Vec<Value> {
        let identity = Identity { id: None, together: 0, remembered_ms: REMEMBERED_MS };
        let part = ChargePart { limit: &self.limit, cost: Cost::ONE, max: MAX };
        let sent = Sent::new(&[part], Key::EVERYONE, &identity, true, "", false);
        let call = Call::new(self.script).shared_args(sent.args).shared_keys(sent.keys);
        let call =
            charges.iter().fold(call, |call, (id, cost)| call.arg(id.as_deref().unwrap_or("")).arg(*cost));
        match self.limit.store.call(0, call.items(charges.len())).await.unwrap() {
            Value::Array(replies) => replies,
            other => panic!("{other:?}"),
        }
    }

    fn plant(&self, redis: &mut Connection, commands: &[&str], now_ms: u64) {
        let (keys, first) = self.limit.keys("", Key::EVERYONE, false);
        let at = (now_ms / HOUR_MS - first) as usize * 2;
        let (now, hour) = (now_ms.to_string(), (now_ms / HOUR_MS).to_string());
        for command in commands {
            let mut words = command.split(' ').map(|word| match word {
                "{counter}" => keys[at].as_str(),
                "{beside}" => keys[at + 1].as_str(),
                "{hours}" => "q:rate_limit:hours",
                "{hour}" => hour.as_str(),
                "{now}" => now.as_str(),
                word => word,
            });
            let mut planted = redis::cmd(words.next().unwrap());
            planted.arg(words.collect::<Vec<_>>());
            // Of another type by now, or fine.
            let _ = planted.exec(redis);
        }
    }

    fn reserve(redis: &mut Connection, id: &str, forget_ms: u64) {
        let record = [1.0, 0.0, forget_ms as f64, forget_ms as f64, 0.0, 0.0, 0.0];
        let record: Vec<u8> = record.into_iter().flat_map(f64::to_le_bytes).collect();
        let [ids, index] = ["q:rate_limit:reservations:", "q:rate_limit:reservations_due:"];
        let _ = redis::cmd("HSET").arg(ids).arg(id).arg(record).exec(redis);
        let _ = redis::cmd("ZADD").arg(index).arg(forget_ms).arg(id).exec(redis);
        for key in [ids, index] {
            let _ = redis::cmd("PEXPIRE").arg(key).arg(2 * HOUR_MS).exec(redis);
        }
    }

    /// All that is stored but the marker, and how many minutes it lives.
    fn left(redis: &mut Connection) -> BTreeMap<String, (String, i64)> {
        let keys: Vec<String> = redis::cmd("KEYS").arg("q:*").query(redis).unwrap();
        let stored = |redis: &mut Connection, key: &str| {
            let kind: String = redis::cmd("TYPE").arg(key).query(redis).unwrap();
            match kind.as_str() {
                "hash" => {
                    let fields: BTreeMap<String, Vec<u8>> =
                        redis::cmd("HGETALL").arg(key).query(redis).unwrap();
                    format!("{fields:?}")
                }
                "zset" => {
                    let members: Vec<(String, f64)> =
                        redis::cmd("ZRANGE").arg(key).arg(0).arg(-1).arg("WITHSCORES").query(redis).unwrap();
                    format!("{members:?}")
                }
                _ => redis::cmd("GET").arg(key).query(redis).unwrap(),
            }
        };
        keys.into_iter()
            .map(|key| {
                let ttl_ms: i64 = redis::cmd("PTTL").arg(&key).query(redis).unwrap();
                let stored = stored(redis, &key);
                (key, (stored, (ttl_ms + 30_000).div_euclid(60_000)))
            })
            .collect()
    }
}

/// A reply without what only receipts need, and whether it came the fast way.
fn reply(value: Value) -> (String, bool) {
    let Value::Array(mut fields) = value else { return (format!("{value:?}"), false) };
    if fields[0] != Value::Int(ALL_CHARGED) {
        return (format!("{fields:?}"), false);
    }
    let is_fast = fields.len() == 2;
    fields.retain(|field| *field != Value::Array(Vec::new()));
    if let Value::Array(answer) = &mut fields[1] {
        answer.truncate(4);
    }
    (format!("{fields:?}"), is_fast)
}

fn compare(hold: Hold) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let clock = ManualClock::at(Timestamp::from_millis(START_MS));
    let [fast, slow] =
        [&*CHARGE_ALL, &*CHARGE_ONE_BY_ONE].map(|script| runtime.block_on(Way::open(script, &clock, hold)));
    let (by_fast, by_slow) = (Cell::new(0), Cell::new(0));
    let mut runner = TestRunner::new(Config { cases: 60, failure_persistence: None, ..Config::default() });
    let histories = prop::collection::vec(op(), 1..80);
    let outcome = runner.run(&histories, |history| {
        clock.set(Timestamp::from_millis(START_MS));
        let [mut at_fast, mut at_slow] = [&fast, &slow].map(|way| way.server.connection());
        for redis in [&mut at_fast, &mut at_slow] {
            let keys: Vec<String> = redis::cmd("KEYS").arg("q:*").query(redis).unwrap();
            keys.iter().for_each(|key| redis::cmd("DEL").arg(key).exec(redis).unwrap());
            redis::cmd("HDEL").arg("tidegate:marker").arg("o:q:rate_limit:").exec(redis).unwrap();
            redis::cmd("HSET").arg("tidegate:marker").arg("lost_ms").arg(0).exec(redis).unwrap();
        }
        for op in history {
            let now_ms = clock.now().as_millis();
            match &op {
                Op::Charge(charges) => {
                    let [fasts, slows] = [&fast, &slow].map(|way| runtime.block_on(way.charge(charges)));
                    for (fast, slow) in fasts.into_iter().zip(slows) {
                        let ((fast, is_fast), (slow, _)) = (reply(fast), reply(slow));
                        let count = if is_fast { &by_fast } else { &by_slow };
                        count.set(count.get() + 1);
                        prop_assert_eq!(fast, slow, "{:?}", op);
                    }
                }
                Op::Advance(ms) => clock.set(Timestamp::from_millis(now_ms + ms)),
                Op::Plant(commands) => {
                    fast.plant(&mut at_fast, commands, now_ms);
                    slow.plant(&mut at_slow, commands, now_ms);
                }
                Op::Reserve(id, left_ms) => {
                    for redis in [&mut at_fast, &mut at_slow] {
                        Way::reserve(redis, id, now_ms + left_ms);
                    }
                }
            }
            prop_assert_eq!(Way::left(&mut at_fast), Way::left(&mut at_slow), "after {:?}", op);
        }
        Ok(())
    });
    outcome.unwrap_or_else(|failure| panic!("{failure}"));
    // Both are used, or it would show nothing.
    let (fast, slow) = (by_fast.get(), by_slow.get());
    assert!(fast > 100 && slow > 100, "{fast} the fast way, {slow} the other");
}

#[test]
fn the_fast_path_does_what_the_long_way_does() {
    compare(Hold(None));
}

#[test]
fn the_fast_path_is_open_to_limits_that_hold_after_a_loss() {
    compare(Hold(Some(Duration::ZERO)));
}
