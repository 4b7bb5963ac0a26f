//! The flaws of the seed's design that are about runs, R3 to R7 and R9 to R11: each a promise that it
//! would break, and where it is cheap, the seed's own commands breaking it.

use std::collections::BTreeSet;
use std::time::Duration;

use redis::Commands as _;
use tidegate::clock::{ManualClock, Timestamp};
use tidegate::run::{Answer, Hour, Refusal, RunState, Update};
use tidegate::store::StoreOptions;
use tidegate::testkit::RedisServer;
use tidegate::testkit::run::ODD_TEXTS;
use tidegate::{Key, Tidegate};

use crate::kit::{CLUSTER, REDIS};
use crate::run::{HOUR_MS, Space, key, keys, open, options};
use crate::session_flaws::{does, raw};

/// The moment by a server's clock.
fn server_ms(connection: &mut redis::Connection) -> u64 {
    let (seconds, micros): (u64, u64) = redis::cmd("TIME").query(connection).unwrap();
    seconds * 1000 + micros / 1000
}

/// The seed's workers name the hour by their own clocks.
#[tokio::test]
async fn r3_the_stores_clock_picks_the_hour() {
    let server = RedisServer::start();
    let mut connection = server.connection();
    let before = Hour::of(Timestamp::from_millis(server_ms(&mut connection)));
    for (number, wrong_ms) in [0, 5 * 60_000, 100 * HOUR_MS].into_iter().enumerate() {
        let mut store = StoreOptions::default();
        store.client_clock = Some(ManualClock::at(Timestamp::from_millis(wrong_ms)).into());
        let gate = Tidegate::open_with(&server.url(), store).await.unwrap();
        let runs = gate.runs("main", options(|_| {})).unwrap();
        let _ = runs.start(key("r")).await.unwrap();
        let item = number.to_string();
        runs.failed(key("r"), None, key(&item), "", key("1")).await.unwrap().into_result().unwrap();
        let after = Hour::of(Timestamp::from_millis(server_ms(&mut connection)));
        let mut found = runs.failures_in_hour(before, None, 10).await.unwrap().items;
        if after != before {
            found.extend(runs.failures_in_hour(after, None, 10).await.unwrap().items);
        }
        assert_eq!(found.len(), number + 1);
    }
}

/// The seed's script gives a counter its TTL anew with every call, whatever it had.
#[tokio::test]
async fn r4_everything_of_a_run_ends_with_it() {
    let server = RedisServer::start();
    let mut connection = server.connection();
    let gate = open(&server.url(), "", None).await;
    let runs = gate.runs("main", options(|_| {})).unwrap();
    let run = key("manual_2024-09-17T14:30:00+00:00");
    let _ = runs.start(run).await.unwrap();
    let _ = runs.update(run, None, &Update::new().field("a", "b")).await.unwrap();
    let _ = runs.processed(run, None, &[key("1")]).await.unwrap();
    let _ = runs.failed(run, None, key("2"), "", key("1")).await.unwrap();
    let _ = runs.task_started(run, None, key("t")).await.unwrap();
    let lives = |connection: &mut redis::Connection| -> Vec<(String, u64)> {
        let all: Vec<String> = connection.keys("courtlistener:*").unwrap();
        all.into_iter().map(|key| (key.clone(), connection.pttl(&key).unwrap())).collect()
    };
    let all = lives(&mut connection);
    assert_eq!(all.len(), 11, "{all:?}");
    for (key, life_ms) in all {
        // 25 hours, up to a hundredth more until they are renewed, and the slack; an hour's index its hour.
        let most_ms = 25 * HOUR_MS + if key.contains(":failed:") { HOUR_MS } else { HOUR_MS / 4 } + 10_000;
        assert!((25 * HOUR_MS - 60_000..=most_ms).contains(&life_ms), "{key} lives for {life_ms}");
    }
    // A shorter life is one of all of it.
    runs.expire(run, None, Duration::from_secs(60)).await.unwrap().into_result().unwrap();
    let _ = runs.processed(run, None, &[key("3")]).await.unwrap();
    for (key, life_ms) in lives(&mut connection) {
        let is_index = key.contains(":failed:") || key.contains(":runs");
        assert!(is_index || life_ms <= 60_000 + HOUR_MS / 4 + 10_000, "{key} lives for {life_ms}");
    }
    assert_eq!(server.keys_without_ttl(), Vec::<String>::new());
}

/// TTLs are renewed now and then, so what is left of a run may outlive its hash by minutes: the next run of the name
/// begins with nothing all the same, and a doctor finds nothing wrong with either.
#[tokio::test]
async fn r4_what_outlives_its_run_is_not_inherited_by_the_next() {
    let families = ["fields", "processed", "failures", "failed_at", "to_retry", "tasks"];
    for on in
        [Space::on("redis", &REDIS.url(), |_| {}).await, Space::on("cluster", &CLUSTER.url(), |_| {}).await]
    {
        let connections = || match on.on {
            "redis" => vec![REDIS.connection()],
            _ => CLUSTER.nodes().iter().map(RedisServer::connection).collect(),
        };
        let names = |pattern: &str| -> BTreeSet<String> {
            let pattern = format!("{}:*{pattern}", on.namespace);
            connections().iter_mut().flat_map(|it| it.keys::<_, Vec<String>>(&pattern).unwrap()).collect()
        };
        let (runs, r) = (&on.runs, key("r"));
        on.start("r").await;
        runs.processed(r, None, &[key("1"), key("2")]).await.unwrap().into_result().unwrap();
        let update = Update::new().state(RunState::Paused).field("who", "me").total(9);
        runs.update(r, None, &update).await.unwrap().into_result().unwrap();
        for item in ["2", "3"] {
            runs.failed(r, None, key(item), "why", key("1")).await.unwrap().into_result().unwrap();
        }
        for task in ["t", "u:v"] {
            runs.task_started(r, None, key(task)).await.unwrap().into_result().unwrap();
        }
        // It ends before all else of the run does.
        for mut connection in connections() {
            for name in connection.keys::<_, Vec<String>>(format!("{}:*pipeline:r", on.namespace)).unwrap() {
                let _: i64 = connection.del(&name).unwrap();
            }
        }
        assert_eq!(runs.get(r).await.unwrap(), None, "{}", on.on);
        for family in families {
            assert_eq!(names(&format!(":{family}:r")).len(), 1, "{}: {family} is still there", on.on);
        }
        assert_eq!(names(":task_start:r:*").len(), 2, "{}", on.on);
        assert_eq!(runs.delete(r, None).await.unwrap(), Answer::Refused(Refusal::Unknown));

        assert_eq!(on.start("r").await.get(), 1, "{}", on.on);
        let run = runs.get(r).await.unwrap().unwrap();
        assert_eq!((run.state, run.fields.len(), run.total), (RunState::Running, 0, None), "{}", on.on);
        let flags = runs.is_processed(r, &[key("1"), key("2")]).await.unwrap();
        assert_eq!(flags, Answer::Done(vec![false; 2]), "{}", on.on);
        let progress = runs.progress(r).await.unwrap().into_result().unwrap();
        assert_eq!((progress.processed, progress.failed, progress.to_retry), (0, 0, 0), "{}", on.on);
        assert_eq!(runs.tasks(r).await.unwrap(), Answer::Done(Vec::new()), "{}", on.on);
        assert_eq!(runs.failures(r, None, 9).await.unwrap().into_result().unwrap().items, [], "{}", on.on);
        assert_eq!(runs.failures_in_hour(Hour::of(on.clock.now()), None, 9).await.unwrap().items, []);
        let listed = runs.list(None, None, 9).await.unwrap().items;
        assert_eq!(
            listed.iter().map(|it| it.state).collect::<Vec<_>>(),
            [RunState::Running],
            "once: {}",
            on.on
        );
        for family in families {
            assert_eq!(names(&format!(":{family}:r")).len(), 0, "{}: {family} is gone", on.on);
        }
        assert_eq!(names(":task_start:r:*").len(), 0, "{}", on.on);
        let first = runs.failed(r, None, key("3"), "anew", key("1")).await.unwrap().into_result().unwrap();
        assert_eq!((first.count, first.is_new), (1, true), "{}", on.on);
        assert_eq!(runs.failures_in_hour(Hour::of(on.clock.now()), None, 9).await.unwrap().items.len(), 1);
    }
}

/// Who erases a run finds the start times of its tasks by what names them: that ends no earlier than they do.
#[tokio::test]
async fn r4_what_names_the_tasks_of_a_run_lives_as_long_as_each_of_them() {
    let server = RedisServer::start();
    let mut connection = server.connection();
    let clock = ManualClock::at(Timestamp::from_millis(1_700_000_000_000));
    let gate = open(&server.url(), "", Some(&clock)).await;
    let runs = gate.runs("main", options(|_| {})).unwrap();
    let _ = runs.start(key("r")).await.unwrap();
    // Before anything is renewed.
    for (minutes, task) in [(10, "a"), (1, "b"), (2, "c")] {
        clock.advance_ms(minutes * HOUR_MS / 60);
        let _ = runs.task_started(key("r"), None, key(task)).await.unwrap();
        let names_ms: u64 = connection.pttl("courtlistener:tasks:r").unwrap();
        let task_ms: u64 = connection.pttl(format!("courtlistener:task_start:r:{task}")).unwrap();
        // Asked one after the other.
        assert!(names_ms + 1000 >= task_ms, "{task}: {names_ms} and {task_ms}");
    }
}

/// And for as long as it lives all of it does, whatever is written of it.
#[tokio::test]
async fn r4_what_keeps_a_run_alive_keeps_all_of_it() {
    let server = RedisServer::start();
    let mut connection = server.connection();
    let clock = ManualClock::at(Timestamp::from_millis(1_700_000_000_000));
    let gate = open(&server.url(), "", Some(&clock)).await;
    let runs = gate.runs("main", options(|_| {})).unwrap();
    let run = key("a:b");
    let _ = runs.start(run).await.unwrap();
    let _ = runs.update(run, None, &Update::new().field("a", "b")).await.unwrap();
    let _ = runs.processed(run, None, &[key("1")]).await.unwrap();
    let _ = runs.failed(run, None, key("2"), "", key("1")).await.unwrap();
    let _ = runs.task_started(run, None, key("t")).await.unwrap();
    for turn in 0..4 {
        let all: Vec<String> = connection.keys("courtlistener:*").unwrap();
        // Nearly over, as after a day of which the test has none.
        for key in &all {
            let _: bool = connection.pexpire(key, 600_000).unwrap();
        }
        clock.advance_ms(20 * HOUR_MS);
        match turn {
            0 => drop(runs.processed(run, None, &[key("1")]).await.unwrap().into_result().unwrap()),
            1 => drop(runs.failed(run, None, key("2"), "", key("9")).await.unwrap().into_result().unwrap()),
            2 => drop(runs.task_started(run, None, key("u")).await.unwrap().into_result().unwrap()),
            _ => drop(runs.update(run, None, &Update::new()).await.unwrap().into_result().unwrap()),
        }
        for key in all.iter().filter(|key| !key.contains(":failed:")) {
            let life_ms: u64 = connection.pttl(key).unwrap();
            assert!(life_ms >= 25 * HOUR_MS, "{key} lives for {life_ms}");
        }
    }
}

/// The seed calls its scripts by hash alone.
#[tokio::test]
async fn r5_after_a_script_flush_nothing_is_lost() {
    let server = RedisServer::start();
    let mut connection = server.connection();
    let seed = redis::cmd("EVALSHA").arg("0".repeat(40)).arg(0).exec(&mut connection);
    assert_eq!(seed.unwrap_err().code(), Some("NOSCRIPT"), "the seed's update is gone");

    let gate = open(&server.url(), "", None).await;
    let runs = gate.runs("main", options(|_| {})).unwrap();
    let mut flush = || does(&mut connection, &["SCRIPT FLUSH"]);
    let r = key("r");
    for turn in 1..=3 {
        flush();
        runs.start(r).await.unwrap().into_result().unwrap();
        for number in 0..5 {
            let item = format!("{turn} {number}");
            flush();
            let processed = runs.processed(r, None, &[key(&item)]).await.unwrap().into_result().unwrap();
            assert_eq!(processed.new, 1);
            flush();
            let failed = runs.failed(r, None, key("x"), "", key(&item)).await.unwrap().into_result().unwrap();
            assert_eq!(failed.count, 5 * (turn - 1) + number + 1);
        }
        flush();
        runs.update(r, None, &Update::new().state(RunState::Paused)).await.unwrap().into_result().unwrap();
        flush();
        assert_eq!(runs.get(r).await.unwrap().unwrap().state, RunState::Paused);
    }
    flush();
    assert_eq!(runs.progress(r).await.unwrap().into_result().unwrap().processed, 15);
}

/// The seed writes a list into one field: who writes last has read before.
#[tokio::test]
async fn r6_two_writers_do_not_lose_each_others_items() {
    let server = RedisServer::start();
    let (mut one, mut two) = (server.connection(), server.connection());
    does(&mut one, &["HSET courtlistener:pipeline:seed dockets_processed ['1']"]);
    let read: Vec<String> = [&mut one, &mut two]
        .map(|it| raw::<String>(it, "HGET courtlistener:pipeline:seed dockets_processed"))
        .to_vec();
    for (connection, (list, item)) in [&mut one, &mut two].into_iter().zip(read.iter().zip(["2", "3"])) {
        let list = list.replace(']', &format!(",'{item}']"));
        let _: i64 = connection.hset("courtlistener:pipeline:seed", "dockets_processed", list).unwrap();
    }
    let left: String = raw(&mut one, "HGET courtlistener:pipeline:seed dockets_processed");
    assert_eq!(left, "['1','3']", "the seed has lost an item");

    for space in Space::everywhere(|_| {}).await {
        space.start("r").await;
        let brought = (0..40).map(|number| {
            let runs = space.runs.clone();
            tokio::spawn(async move {
                let item = number.to_string();
                runs.processed(key("r"), None, &[key(&item)]).await.unwrap().into_result().unwrap().new
            })
        });
        let mut new = 0;
        for worker in brought.collect::<Vec<_>>() {
            new += worker.await.unwrap();
        }
        assert_eq!(new, 40, "{}", space.on);
        let all: Vec<String> = (0..40).map(|number| number.to_string()).collect();
        let flags = space.runs.is_processed(key("r"), &keys(&all)).await.unwrap().done().unwrap();
        assert!(flags.iter().all(|it| *it), "{}", space.on);
    }
}

/// The seed's lists go through Lua's cjson.
#[tokio::test]
async fn r7_ids_are_texts_and_stay_as_they_are() {
    let server = RedisServer::start();
    let mut connection = server.connection();
    let cjson = |connection: &mut redis::Connection, list: &str| -> String {
        let script = "return cjson.encode(cjson.decode(ARGV[1]))";
        redis::cmd("EVAL").arg(script).arg(0).arg(list).query(connection).unwrap()
    };
    assert_eq!(cjson(&mut connection, "[100000000000001]"), "[1e+14]");
    assert_eq!(cjson(&mut connection, "[]"), "{}");

    let gate = open(&server.url(), "", None).await;
    let runs = gate.runs("main", options(|_| {})).unwrap();
    for text in ODD_TEXTS {
        let run = key(text);
        runs.start(run).await.unwrap().into_result().unwrap();
        runs.processed(run, None, &[]).await.unwrap().into_result().unwrap();
        runs.processed(run, None, &ODD_TEXTS.map(key)).await.unwrap().into_result().unwrap();
        // As others see them, under the seed's name.
        let id: String = connection.hget(format!("courtlistener:pipeline:{text}"), "dag_run_id").unwrap();
        let members: BTreeSet<String> =
            connection.smembers(format!("courtlistener:processed:{text}")).unwrap();
        assert_eq!((id.as_str(), members), (text, ODD_TEXTS.map(str::to_owned).into_iter().collect()));
    }
}

/// In the seed any status may follow any other.
#[tokio::test]
async fn r9_only_legal_states_follow_and_a_late_worker_changes_nothing() {
    let server = RedisServer::start();
    let mut connection = server.connection();
    does(&mut connection, &["HSET seed status succeeded", "HSET seed status running"]);
    assert_eq!(raw::<String>(&mut connection, "HGET seed status"), "running", "the seed's run runs again");

    for space in Space::everywhere(|_| {}).await {
        let (runs, r, first) = (&space.runs, key("r"), space.start("r").await);
        runs.finish(r, Some(first), RunState::Succeeded).await.unwrap().into_result().unwrap();
        let ended = Refusal::Ended { state: RunState::Succeeded, attempt: first };
        let running = Update::new().state(RunState::Running);
        assert_eq!(runs.update(r, None, &running).await.unwrap(), Answer::Refused(ended), "{}", space.on);
        let failed = runs.finish(r, None, RunState::Failed).await.unwrap();
        assert_eq!(failed, Answer::Refused(ended), "{}", space.on);
        let second = runs.retry(r, first).await.unwrap().into_result().unwrap().attempt;
        let before = runs.get(r).await.unwrap();
        let stale = Refusal::Stale { current: second };
        assert_eq!(runs.update(r, Some(first), &running).await.unwrap(), Answer::Refused(stale));
        let late = runs.finish(r, Some(first), RunState::Succeeded).await.unwrap();
        assert_eq!(late, Answer::Refused(stale), "{}", space.on);
        assert_eq!(runs.get(r).await.unwrap(), before, "{}", space.on);
    }
}

/// The seed's list of failures has no bound, no reasons, and two hours.
#[tokio::test]
async fn r10_failures_are_bounded_have_one_entry_per_item_and_live_as_long_as_their_run() {
    for space in Space::everywhere(|it| it.max_failures = 100).await {
        let (runs, r) = (&space.runs, key("r"));
        space.start("r").await;
        for number in 0..250_u64 {
            let (item, id) = ((number % 125).to_string(), number.to_string());
            space.clock.advance_ms(1);
            runs.failed(r, None, key(&item), &format!("why {number}"), key(&id))
                .await
                .unwrap()
                .into_result()
                .unwrap();
        }
        if space.on == "redis" {
            for part in ["failures", "failed_at", "to_retry"] {
                let name = format!("{}:courtlistener:{part}:r", space.namespace);
                let life_ms: u64 = REDIS.connection().pttl(&name).unwrap();
                assert!(life_ms >= 25 * HOUR_MS, "{name} lives for {life_ms}");
            }
        }
        // Those of the first round had left before their second failure.
        space.clock.advance_ms(24 * HOUR_MS);
        let failures = runs.failures(r, None, 1000).await.unwrap().into_result().unwrap().items;
        let items: BTreeSet<_> = failures.iter().map(|failure| failure.item.as_str()).collect();
        assert_eq!((failures.len(), items.len()), (100, 100), "{}", space.on);
        assert_eq!((failures[0].item.as_str(), failures[0].reason.as_str()), ("124", "why 249"));
        space.clock.advance_ms(2 * HOUR_MS);
        assert!(!runs.failures(r, None, 1).await.unwrap().is_done(), "{}", space.on);
    }
}

/// The seed cleans up by KEYS, and its keys are in three slots.
#[tokio::test]
async fn r11_nothing_is_found_by_scanning_and_a_run_is_in_one_slot() {
    let server = RedisServer::start();
    let mut connection = server.connection();
    let clock = ManualClock::at(Timestamp::from_millis(1_700_000_000_000));
    for url in [server.url(), CLUSTER.url()] {
        let namespace = tidegate::testkit::unique("r11");
        let gate = open(&url, &namespace, Some(&clock)).await;
        let runs = gate.runs("main", options(|_| {})).unwrap();
        for run in ["a:{x}", "b:{y}", "c", "manual_2024-09-17T14:30:00+00:00"] {
            let run: Key<'_> = key(run);
            let _ = runs.start(run).await.unwrap();
            let _ = runs.update(run, None, &Update::new().field("a", "b")).await.unwrap();
            let _ = runs.processed(run, None, &[key("1"), key("2")]).await.unwrap();
            let _ = runs.failed(run, None, key("3"), "", key("1")).await.unwrap();
            let _ = runs.task_started(run, None, key("t:{z}")).await.unwrap();
        }
        let _ = runs.list(None, None, 10).await.unwrap();
        if url.starts_with("redis-cluster") {
            let mut tags = BTreeSet::new();
            for node in CLUSTER.nodes() {
                let mut connection = node.connection();
                let found: Vec<String> = connection.keys(format!("{namespace}:*")).unwrap();
                for name in found.iter().filter(|name| name.contains("manual_") || name.contains("manual%5F"))
                {
                    tags.insert(name.split("}:").next().unwrap().to_owned());
                }
                // One that names no run lists those of its partition.
                assert!(found.iter().all(|name| name.contains(":{")), "{found:?}");
            }
            assert_eq!(tags.len(), 1, "{tags:?}");
        }
        clock.advance_ms(30 * HOUR_MS);
        assert_eq!(runs.cleanup().await.unwrap(), 4);
    }
    let stats: String = redis::cmd("INFO").arg("commandstats").query(&mut connection).unwrap();
    let used = |command: &str| stats.contains(&format!("cmdstat_{command}:"));
    assert!(used("sadd") && used("zrangebyscore"), "{stats}");
    assert!(!used("scan") && !used("keys") && !used("sscan") && !used("hscan"), "{stats}");
}
