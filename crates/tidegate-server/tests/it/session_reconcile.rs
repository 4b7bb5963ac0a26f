//! `tidegate sessions migrate`, `reconcile` and `compare`, on what the older program wrote:
//! hashes with `last_disconnect`, counters in `ref_count`, and nothing with an end.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

use serde_json::{Value, json};
use tidegate::clock::Clock;
use tidegate::testkit::{RedisCluster, RedisServer};

use crate::cli::{run, tidegate};

/// An hour ago, in seconds: no session of that age has ended, and none is in its grace.
fn an_hour_ago() -> u64 {
    Clock::system().now().as_millis() / 1000 - 3600
}

fn id(number: u64) -> String {
    format!("67e55044-10b1-426f-9247-{number:012x}")
}

/// Writes sessions as the older program did, every third one active.
fn write_old(redis: &RedisServer, numbers: std::ops::Range<u64>) {
    let left = an_hour_ago();
    let mut pipe = redis::pipe();
    for number in numbers {
        let (id, broadcaster) = (id(number), format!("channel_{number}"));
        let is_active = number % 3 == 0;
        let fields = [
            ("value", "7.5"),
            ("broadcaster_user_id", &broadcaster),
            ("config_json", "{}"),
            ("last_disconnect", &if is_active { "0".to_owned() } else { (left - number % 60).to_string() }),
            ("last_update", &left.to_string()),
        ];
        pipe.hset_multiple(format!("session:{id}"), &fields).ignore();
        pipe.set(format!("broadcaster:{broadcaster}"), &id).ignore();
        pipe.set(format!("ref_count:{id}"), u8::from(is_active)).ignore();
    }
    pipe.query::<()>(&mut redis.connection()).unwrap();
}

/// All that is there, but for what every call renews.
fn everything(redis: &RedisServer) -> BTreeMap<String, (Vec<u8>, bool)> {
    let mut all = all_of_it(redis);
    all.retain(|key, _| key != "sessions:state" && key != "tidegate:marker");
    all
}

/// All that is there.
pub(crate) fn all_of_it(redis: &RedisServer) -> BTreeMap<String, (Vec<u8>, bool)> {
    let mut connection = redis.connection();
    let keys: Vec<String> = redis::cmd("KEYS").arg("*").query(&mut connection).unwrap();
    let mut seen = BTreeMap::new();
    for key in keys {
        let kind: String = redis::cmd("TYPE").arg(&key).query(&mut connection).unwrap();
        let dump: Vec<u8> = match &*kind {
            // A server that makes room in one dumps it in another order.
            "hash" => {
                let fields: BTreeMap<Vec<u8>, Vec<u8>> =
                    redis::cmd("HGETALL").arg(&key).query(&mut connection).unwrap();
                format!("{fields:?}").into_bytes()
            }
            _ => redis::cmd("DUMP").arg(&key).query(&mut connection).unwrap(),
        };
        let ttl: i64 = redis::cmd("PTTL").arg(&key).query(&mut connection).unwrap();
        seen.insert(key, (dump, ttl > 0));
    }
    seen
}

fn sessions(redis: &RedisServer, args: &[&str]) -> (i32, String, String) {
    let mut command = tidegate(&["sessions"]);
    // Nobody has declared what sessions are there.
    command.args(args).args(["--store", &redis.url(), "--set", "sessions.main.grace=30s"]);
    run(command)
}

fn run_json(redis: &RedisServer, args: &[&str]) -> (i32, Value) {
    let (code, out, err) = sessions(redis, &[args, &["--json"]].concat());
    assert_eq!(err, "", "{out}");
    (code, serde_json::from_str(&out).expect(&out))
}

#[test]
fn what_an_older_program_wrote_is_taken_over() {
    let redis = RedisServer::start();
    write_old(&redis, 0..300);
    let before = everything(&redis);
    let (code, dry) = run_json(&redis, &["migrate", "--dry-run"]);
    assert_eq!((code, &dry["dry_run"]), (0, &json!(true)));
    let found = &dry["found"];
    assert_eq!((&found["adopted_active"], &found["adopted_disconnected"]), (&json!(100), &json!(200)));
    assert_eq!((&found["sessions"], &found["invalid"]), (&json!(300), &json!(0)));
    assert_eq!((&found["looked_at"], &found["unrecognised"]), (&json!(900), &json!(0)));
    assert!(all_of_it(&redis) == before, "a dry run changes nothing, not even a marker");
    assert_eq!(run_json(&redis, &["compare"]).0, 1, "nothing is indexed yet");
    assert!(all_of_it(&redis) == before, "nor does a comparison");

    let (code, done) = run_json(&redis, &["migrate"]);
    assert_eq!((code, &done["is_exact"]), (0, &json!(true)), "{done}");
    assert_eq!(&done["done"], found, "as it was foretold");
    assert_eq!(
        (&done["done"]["adopted_active"], &done["done"]["adopted_disconnected"]),
        (&json!(100), &json!(200))
    );
    assert_eq!(
        done["index"],
        json!({"size": 300, "active": 100, "disconnected": 200, "claimed": 0, "dead": 0})
    );
    assert_eq!(redis.keys_without_ttl(), Vec::<String>::new(), "everything ends now");
    let score: f64 =
        redis::cmd("ZSCORE").arg("disconnected_sessions").arg(id(1)).query(&mut redis.connection()).unwrap();
    let left: f64 = redis::cmd("HGET")
        .arg(format!("session:{}", id(1)))
        .arg("last_disconnect")
        .query(&mut redis.connection())
        .unwrap();
    assert!((score - left).abs() < 1e-9, "seconds, as they were: {score} {left}");

    let after = everything(&redis);
    let (code, again) = run_json(&redis, &["migrate"]);
    assert_eq!((code, &again["is_exact"]), (0, &json!(true)));
    for what in ["adopted_active", "adopted_disconnected", "indexed", "unindexed", "ended"] {
        assert_eq!(again["done"][what], 0, "{what}");
    }
    assert!(everything(&redis) == after, "once more changes nothing");

    // The grace of those that were left is long over; the active ones have a lease.
    let (code, out, _) = sessions(&redis, &["cleanup"]);
    assert_eq!((code, out.as_str()), (0, "200 sessions deleted\n"));
    assert!(sessions(&redis, &["counts"]).1.starts_with("100 active\n0 disconnected"));
    let left: Vec<String> = redis::cmd("KEYS").arg("ref_count:*").query(&mut redis.connection()).unwrap();
    assert_eq!(left.len(), 100, "a counter goes with its session");
}

#[test]
fn a_migration_is_printed_for_people() {
    let redis = RedisServer::start();
    write_old(&redis, 0..3);
    let (code, out, err) = sessions(&redis, &["migrate", "--dry-run", "--verbose"]);
    assert_eq!(code, 0);
    assert!(out.starts_with("dry run: nothing is changed\n3 sessions, "), "{out}");
    assert!(
        out.contains("\n1 active of the older program: would be taken over and held for a while\n"),
        "{out}"
    );
    assert!(
        out.contains("\n2 disconnected of the older program: would be taken over and indexed\n"),
        "{out}"
    );
    assert!(err.contains(&format!("active session:{}\n", id(0))), "{err}");
    assert!(err.contains(&format!("disconnected session:{}\n", id(1))), "{err}");
    let (code, out, err) = sessions(&redis, &["migrate"]);
    assert_eq!((code, err.as_str()), (0, ""));
    assert!(out.contains("\n2 disconnected of the older program: taken over and indexed\n"), "{out}");
    assert!(
        out.ends_with(
            "\nindex: 3 (1 active, 2 disconnected, 0 claimed, 0 dead)\n\
         verified: every session is where it belongs, and nothing else is\n"
        ),
        "{out}"
    );
}

/// It is killed while it waits for somebody to read what it writes.
#[test]
fn an_interrupted_migration_goes_on() {
    let redis = RedisServer::start();
    write_old(&redis, 0..4000);
    let mut command = tidegate(&["sessions", "migrate", "--verbose", "--store", &redis.url()]);
    command.args(["--set", "sessions.sessions.grace=30s"]);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    lines.next().unwrap().unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    let mut connection = redis.connection();
    let indexed: u64 = redis::cmd("ZCARD").arg("disconnected_sessions").query(&mut connection).unwrap();
    assert!(indexed < 2666, "it was interrupted: {indexed}");
    let at: String = redis::cmd("HGET").arg("sessions:state").arg("mending").query(&mut connection).unwrap();
    assert_ne!(at, "", "and where is known");
    let (code, done) = run_json(&redis, &["migrate"]);
    assert_eq!((code, &done["is_exact"]), (0, &json!(true)), "{done}");
    assert_eq!((&done["index"]["active"], &done["index"]["disconnected"]), (&json!(1334), &json!(2666)));
    assert_eq!(redis.keys_without_ttl(), Vec::<String>::new());
}

/// A server that was restarted in between scans in another order: the position is worth
/// nothing, and what was missed is found at the end.
#[test]
fn a_position_that_is_worth_nothing_does_no_harm() {
    let redis = RedisServer::start();
    write_old(&redis, 0..600);
    redis::cmd("HSET")
        .arg("sessions:state")
        .arg("mending")
        .arg("4 0")
        .query::<()>(&mut redis.connection())
        .unwrap();
    let (code, done) = run_json(&redis, &["migrate"]);
    assert_eq!((code, &done["index"]["size"]), (0, &json!(600)), "{done}");
}

#[test]
fn what_is_no_session_is_left_alone() {
    let redis = RedisServer::start();
    write_old(&redis, 0..3);
    let text = id(77);
    redis::pipe()
        .hset("session:not-a-uuid", "last_disconnect", 5)
        .set(format!("session:{text}"), "text")
        .zadd("disconnected_sessions", "junk", 5)
        .zadd("disconnected_sessions", id(78), 5)
        .set("elsewhere", "untouched")
        .query::<()>(&mut redis.connection())
        .unwrap();
    let (code, done) = run_json(&redis, &["migrate"]);
    assert_eq!((code, &done["is_exact"]), (0, &json!(true)), "{done}");
    assert_eq!(done["done"]["unindexed"], 2, "what is in the index for nothing leaves it: {done}");
    assert_eq!((&done["left"]["unrecognised"], &done["index"]["size"]), (&json!(2), &json!(3)), "{done}");
    let (_, out, err) = sessions(&redis, &["migrate", "--verbose"]);
    assert!(
        out.contains("\n2 under these names that are nothing we know: left alone; --verbose names them\n"),
        "{out}"
    );
    for key in [format!("session:{text}"), "session:not-a-uuid".to_owned()] {
        assert!(err.contains(&format!("unrecognised {key}\n")), "{err}");
    }
    let mut without = redis.keys_without_ttl();
    without.sort();
    assert_eq!(without, ["elsewhere".to_owned(), format!("session:{text}"), "session:not-a-uuid".to_owned()]);
}

#[test]
fn only_one_partition_of_a_redis_is_migrated() {
    let store = |url: &str, more: &[&str]| {
        let mut command = tidegate(&["sessions", "migrate", "--store", url]);
        command.args(more);
        run(command)
    };
    let (code, out, err) = store("memory:", &[]);
    assert_eq!((code, out.as_str()), (2, ""));
    assert!(err.contains("`--store`: memory: has nothing to walk through"), "{err}");
    let (code, _, err) = store("redis-cluster://127.0.0.1:1", &[]);
    assert_eq!(code, 2);
    assert!(err.contains("`--store`: a cluster has no sessions of an older program"), "{err}");
    let (code, _, err) = store("redis://127.0.0.1:1", &["--set", "store.partitions=2"]);
    assert_eq!(code, 2);
    assert!(err.contains("`--store`: a store with several partitions has no sessions"), "{err}");
    let redis = RedisServer::start();
    let (code, _, err) = store(&redis.url(), &["--space", "nope"]);
    assert_eq!(code, 2);
    assert!(err.contains("the store declares no space of sessions \"nope\""), "{err}");
    let (code, _, err) = run(tidegate(&["sessions", "compare", "--store", "memory:"]));
    assert_eq!(code, 2);
    assert!(err.contains("memory: has nothing to walk through"), "{err}");
}

#[test]
fn a_difference_is_shown_and_reconciled() {
    let redis = RedisServer::start();
    write_old(&redis, 0..2500);
    run_json(&redis, &["migrate"]);
    let (code, same) = run_json(&redis, &["compare"]);
    assert_eq!(code, 0, "{same}");
    assert_eq!((&same["scan"]["orphans"], &same["index"]["orphans"]), (&json!(1666), &json!(1666)));
    assert_eq!(same["max_age_ms"], 30_000, "the grace");
    let (code, out, _) = sessions(&redis, &["compare", "--max-age", "2h"]);
    assert_eq!(code, 0);
    assert!(out.starts_with("by scan: 0 orphans (") && out.contains("\nby index: 0 orphans ("), "{out}");

    let mut connection = redis.connection();
    redis::pipe()
        .zrem("disconnected_sessions", id(1))
        .zadd("disconnected_sessions", id(9999), an_hour_ago())
        .query::<()>(&mut connection)
        .unwrap();
    let (code, differs) = run_json(&redis, &["compare"]);
    assert_eq!(code, 1, "{differs}");
    assert_eq!(differs["only_by_scan"], json!({"count": 1, "ids": [id(1)]}));
    assert_eq!(differs["only_by_index"], json!({"count": 1, "ids": [id(9999)]}));
    let (code, out, _) = sessions(&redis, &["compare"]);
    assert_eq!(code, 1);
    assert!(out.contains("\n1 only by scan, 1 only by index\n"), "{out}");
    assert!(out.ends_with(&format!("\n{} only by scan\n{} only by index\n", id(1), id(9999))), "{out}");

    let (code, out, err) = sessions(&redis, &["reconcile", "--verbose"]);
    assert_eq!(code, 0);
    assert!(out.contains("\n1 missing where they belong: indexed\n"), "{out}");
    assert!(out.ends_with("\n1 in the index without a session there: dropped\n"), "{out}");
    assert_eq!(err, format!("unindexed session:{}\nmissing disconnected_sessions {}\n", id(1), id(9999)));
    assert_eq!(run_json(&redis, &["compare"]).0, 0);
    let (_, done) = run_json(&redis, &["reconcile"]);
    assert_eq!((&done["done"]["indexed"], &done["done"]["unindexed"]), (&json!(0), &json!(0)));
}

/// As a restart of everything leaves them: pages end in the middle of one moment.
#[test]
fn a_crowd_that_left_at_one_moment_is_read_page_by_page() {
    let redis = RedisServer::start();
    write_old(&redis, 0..3000);
    let mut pipe = redis::pipe();
    for number in 0..3000 {
        pipe.hset(format!("session:{}", id(number)), "last_disconnect", an_hour_ago()).ignore();
        pipe.set(format!("ref_count:{}", id(number)), 0).ignore();
    }
    pipe.query::<()>(&mut redis.connection()).unwrap();
    run_json(&redis, &["migrate"]);
    let (code, same) = run_json(&redis, &["compare"]);
    assert_eq!((code, &same["index"]["orphans"]), (0, &json!(3000)), "{same}");
}

#[test]
fn a_cluster_is_reconciled_and_compared() {
    let cluster = RedisCluster::start();
    for command in ["reconcile", "compare"] {
        let (code, out, err) = run(tidegate(&[
            "sessions",
            command,
            "--json",
            "--store",
            &cluster.url(),
            "--set",
            "store.partitions=4",
            "--set",
            "sessions.sessions.grace=30s",
        ]));
        assert_eq!((code, err.as_str()), (0, ""), "{out}");
    }
}

/// Whatever is not in order: a dry run foretells what the real one then reports.
#[test]
fn a_dry_run_foretells_all_that_is_done() {
    let redis = RedisServer::start();
    write_old(&redis, 0..60);
    assert_eq!(run_json(&redis, &["migrate"]).0, 0);
    write_old(&redis, 60..120);
    let now = an_hour_ago() + 3600;
    let mut pipe = redis::pipe();
    // Sessions of both programs without their entries, entries in wrong sets and for nothing.
    for number in [1, 2, 3, 6] {
        pipe.zrem("disconnected_sessions", id(number)).zrem("active_sessions", id(number));
    }
    pipe.zadd("claimed_sessions", id(4), 5).zadd("dead_sessions", id(61), 5).zadd("dead_sessions", id(5), 5);
    pipe.zadd("disconnected_sessions", id(60), 5).zadd("active_sessions", id(62), 5);
    pipe.zadd("disconnected_sessions", id(999), 5).zadd("active_sessions", "nobody", 5);
    // Keys without an end.
    pipe.cmd("PERSIST").arg(format!("session:{}", id(7))).cmd("PERSIST").arg("broadcaster:channel_8");
    pipe.cmd("PERSIST").arg(format!("ref_count:{}", id(9))).cmd("PERSIST").arg("disconnected_sessions");
    pipe.set(format!("ref_count:{}", id(998)), 3);
    // What the older program did to sessions that are ours.
    pipe.hset(format!("session:{}", id(10)), "last_disconnect", 0);
    pipe.incr(format!("ref_count:{}", id(11)), 1);
    pipe.hset(format!("session:{}", id(12)), "last_disconnect", now);
    // Keys of others.
    pipe.set("broadcaster:other", "x").set("ref_count:pages", 5).hset(format!("session:{}", id(997)), "a", 1);
    pipe.query::<()>(&mut redis.connection()).unwrap();
    let (_, dry) = run_json(&redis, &["migrate", "--dry-run"]);
    let (code, done) = run_json(&redis, &["migrate"]);
    assert_eq!((code, &done["is_exact"]), (0, &json!(true)), "{done}");
    assert_eq!(done["done"], dry["found"]);
    let expected = json!({"looked_at": 364, "sessions": 120, "adopted_active": 22, "adopted_disconnected": 40,
        "indexed": 4, "unindexed": 4, "ended": 7, "invalid": 1, "unrecognised": 3, "replaced": 0});
    assert_eq!(done["done"], expected);
}

/// Nobody guesses what sessions are: defaults would reap what others keep, or end keys early. The
/// error has what to say instead, and that works.
#[test]
fn nothing_goes_by_defaults_on_a_store_that_declares_nothing() {
    let redis = RedisServer::start();
    write_old(&redis, 0..3);
    let before = all_of_it(&redis);
    let commands: [&[&str]; 6] = [
        &["migrate", "--dry-run"],
        &["compare", "--max-age", "2d"],
        &["cleanup", "--dry-run"],
        &["migrate"],
        &["reconcile"],
        &["cleanup"],
    ];
    let on_store = |command: &[&str], more: &[&str]| {
        let mut command_line = tidegate(&["sessions"]);
        command_line.args(command).args(["--store", &redis.url()]).args(more);
        run(command_line)
    };
    let mut examples = Vec::new();
    for command in commands {
        let (code, out, err) = on_store(command, &[]);
        assert_eq!((code, out.as_str()), (2, ""), "{command:?}: {err}");
        assert!(err.contains("the store declares no space of sessions \"main\""), "{command:?}: {err}");
        assert!(err.contains("--config FILE"), "{command:?}: {err}");
        let (_, example) = err.trim_end().rsplit_once("--set ").unwrap();
        examples.push(example.to_owned());
        // A marker may be there now: whoever may write looks for what is declared with it.
        let mut after = all_of_it(&redis);
        after.remove("tidegate:marker");
        assert!(after == before, "{command:?}");
    }
    for (command, example) in commands.into_iter().zip(&examples) {
        let (code, out, err) = on_store(command, &["--set", example]);
        let expected = if command[0] == "compare" { [0, 1] } else { [0, 0] };
        assert!(expected.contains(&code), "{command:?} --set {example}: {code} {out}{err}");
    }
}

/// As a cron job would run it: what was declared once is enough.
#[test]
fn what_a_server_declared_is_enough_for_all_of_them() {
    let redis = RedisServer::start();
    let server = crate::cli::Server::start(&["--store", &redis.url(), "--set", "sessions.sessions.grace=0s"]);
    assert!(
        server
            .request("POST", "/v1/sessions/sessions", r#"{"broadcaster":"b","config":{}}"#)
            .starts_with("HTTP/1.1 201")
    );
    assert_eq!(server.signal("TERM").0, Some(0));
    let commands: [&[&str]; 5] =
        [&["migrate", "--dry-run"], &["compare"], &["cleanup", "--dry-run"], &["migrate"], &["reconcile"]];
    for command in commands {
        let mut command_line = tidegate(&["sessions"]);
        command_line.args(command).args(["--store", &redis.url()]);
        let (code, out, err) = run(command_line);
        assert_eq!((code, err.as_str()), (0, ""), "{command:?}: {out}");
    }
}
