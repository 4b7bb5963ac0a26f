//! What errors mean, and the time index of `prelude.lua` against the one in memory.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use compact_str::{CompactString, ToCompactString as _};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use super::*;
use crate::clock::{ManualClock, Timestamp};
use crate::store::TimeIndex;
use crate::testkit::RedisServer;

static PUT: LazyLock<Script> = LazyLock::new(|| {
    Script::new(&[
        "return each(function(k, at) index_put(KEYS[k], tonumber(ARGV[at + 1]), ARGV[at + 2], 60000) return 1 end, 1, 2)",
    ])
});
static DUE: LazyLock<Script> = LazyLock::new(|| {
    Script::new(&[
        "return each(function(k, at) return index_due(KEYS[k], now(), tonumber(ARGV[at + 1])) end, 1, 1)",
    ])
});

static DECIDING: LazyLock<Script> = LazyLock::new(|| {
    Script::new(&["return each(function(_, at)
        local moment, is_absurd = deciding(tonumber(ARGV[at + 1]), tonumber(ARGV[at + 2]), tonumber(ARGV[at + 3]))
        return { moment, is_absurd and 1 or 0 }
    end, 1, 3)"])
});

#[derive(Debug, Clone)]
enum Op {
    Put { id: u32, due_ms: u64 },
    Due { now_ms: u64, limit: usize },
}

async fn run(store: &RedisStore, script: &'static Script, key: &str, own: Vec<CompactString>) -> Value {
    store.call(0, Call::new(script).key(key.to_owned()).args(own)).await.unwrap()
}

async fn open(server: &RedisServer, clock: &ManualClock) -> RedisStore {
    let options = StoreOptions {
        clock: clock.clone().into(),
        deadline: Duration::from_secs(5),
        ..StoreOptions::default()
    };
    RedisStore::open(&server.url(), &options, StoreMetrics::default()).await.unwrap()
}

#[tokio::test]
async fn the_moment_that_decides_is_the_same_for_scripts() {
    let server = RedisServer::start();
    let store = open(&server, &ManualClock::at(Timestamp::from_millis(1))).await;
    // Milliseconds and microseconds of today.
    for clock in [1_700_000_000_000_u64, 1_700_000_000_000_000] {
        for stamp in [0, clock - 1, clock, clock + 1, clock + 59, clock + 60, clock + 61, 2 * clock] {
            let own = [clock, stamp, 60].map(|it| it.to_compact_string()).to_vec();
            let found = run(&store, &DECIDING, "k", own).await;
            let (moment, is_absurd): (u64, bool) = redis::from_redis_value(found).unwrap();
            assert_eq!((moment, is_absurd), crate::clock::deciding(clock, stamp, 60), "{clock} {stamp}");
        }
    }
}

#[test]
fn the_index_on_redis_answers_like_the_one_in_memory() {
    let server = RedisServer::start();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let clock = ManualClock::at(Timestamp::from_millis(1));
    let store = runtime.block_on(open(&server, &clock));
    // Times of today, where `..` in Lua would lose the last digits.
    let times = 1_700_000_000_000..1_700_000_000_040_u64;
    let op = prop_oneof![
        (0..20_u32, times.clone()).prop_map(|(id, due_ms)| Op::Put { id, due_ms }),
        (times, 0..6_usize).prop_map(|(now_ms, limit)| Op::Due { now_ms, limit }),
    ];
    let mut runner = TestRunner::new(Config { cases: 60, failure_persistence: None, ..Config::default() });
    let histories = prop::collection::vec(op, 1..60);
    runner
        .run(&histories, |history| {
            let key = crate::testkit::unique("index");
            runtime.block_on(async {
                let (mut index, mut due_at) = (TimeIndex::default(), BTreeMap::new());
                for op in history {
                    match op {
                        Op::Put { id, due_ms } => {
                            due_at.insert(id, due_ms);
                            index.insert(Timestamp::from_millis(due_ms), id);
                            let own = vec![due_ms.to_compact_string(), format!("{id:03}").into()];
                            run(&store, &PUT, &key, own).await;
                        }
                        Op::Due { now_ms, limit } => {
                            clock.set(Timestamp::from_millis(now_ms));
                            let found = run(&store, &DUE, &key, vec![limit.to_compact_string()]).await;
                            let found: Vec<String> = redis::from_redis_value(found).unwrap();
                            let mut copy = index.clone();
                            let due = std::iter::from_fn(|| copy.pop_due(Timestamp::from_millis(now_ms)));
                            // What has another time by now is not due by the old one.
                            let mut due: Vec<_> =
                                due.filter(|(at, id)| due_at[id] == at.as_millis()).collect();
                            due.dedup();
                            let names = due.iter().map(|(_, id)| format!("{id:03}"));
                            let expected: Vec<_> = names.take(limit).collect();
                            prop_assert_eq!(found, expected);
                        }
                    }
                }
                Ok(())
            })
        })
        .unwrap_or_else(|failure| panic!("{failure}"));
    assert_eq!(server.keys_without_ttl(), Vec::<String>::new());
}

#[test]
fn what_passes_is_an_outage_and_what_does_not_is_a_bug() {
    for passing in ["OOM command not allowed", "-LOADING Redis is loading", "READONLY You can't", "BUSY x"] {
        assert!(server_failure(passing).is_transient(), "{passing}");
    }
    for corrupt in [
        "WRONGTYPE Operation against a key holding the wrong kind of value",
        "@user_script: 12: -WRONGTYPE Operation against a key holding the wrong kind of value",
        "user_script:61: bad argument #2 to 'unpack' (string expected, got nil)",
        "user_script:7: attempt to compare nil with number",
        "ERR value is not an integer or out of range",
    ] {
        assert_eq!(server_failure(corrupt).kind(), crate::ErrorKind::Corrupt, "{corrupt}");
    }
    assert_eq!(server_failure("ERR unknown command").kind(), crate::ErrorKind::Internal);
    assert_eq!(server_failure("NOAUTH Authentication required.").kind(), crate::ErrorKind::Config);
}
