//! Keys of runs that somebody else has written, or written to: it is told by name, nobody else is
//! stopped by it, and a delete puts it right.

use redis::Commands as _;
use tidegate::run::{Answer, Hour, RunState, Update};
use tidegate::{ErrorKind, Result};

use crate::kit::FEW_KEYS;
use crate::run::{HOUR_MS, START_MS, Space, key};
use crate::session_corrupt::{GARBAGE, types_but};

/// Something is done with every key of a run.
async fn used(space: &Space, run: &str) -> Result<()> {
    let (runs, r) = (&space.runs, key(run));
    runs.update(r, None, &Update::new().field("a", "b")).await?.into_result().unwrap();
    runs.processed(r, None, &[key("1"), key("2")]).await?.into_result().unwrap();
    for (item, id) in [("3", "1"), ("3", "2"), ("4", "1")] {
        runs.failed(r, None, key(item), "why", key(id)).await?.into_result().unwrap();
    }
    runs.task_started(r, None, key("t")).await?.into_result().unwrap();
    runs.get(r).await?.unwrap();
    runs.is_processed(r, &[key("1")]).await?.into_result().unwrap();
    runs.progress(r).await?.into_result().unwrap();
    runs.tasks(r).await?.into_result().unwrap();
    runs.failures(r, None, 10).await?.into_result().unwrap();
    runs.retry_list(r, None, 10).await?.into_result().unwrap();
    runs.task_finished(r, None, key("t")).await?.into_result().unwrap();
    Ok(())
}

#[tokio::test]
async fn a_key_of_another_type_is_an_error_of_its_run_alone_and_a_delete_repairs_it() {
    let mut connection = FEW_KEYS.connection();
    let families = [
        ("pipeline", "hash"),
        ("fields", "hash"),
        ("processed", "set"),
        ("failures", "hash"),
        ("failed_at", "zset"),
        ("to_retry", "zset"),
        ("tasks", "hash"),
    ];
    for (family, own) in families {
        for other in types_but(own).filter(|it| !(own == "set" && it[0] == "SADD")) {
            let space = Space::on("redis", &FEW_KEYS.url(), |_| {}).await;
            for run in ["broken", "whole"] {
                space.start(run).await;
                used(&space, run).await.unwrap();
            }
            let name = format!("{}:courtlistener:{family}:broken", space.namespace);
            redis::cmd("DEL").arg(&name).exec(&mut connection).unwrap();
            redis::cmd(other[0]).arg(&name).arg(&other[1..]).exec(&mut connection).unwrap();
            let error = used(&space, "broken").await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Corrupt, "{family} as {}: {error}", other[0]);
            assert!(error.to_string().contains("broken"), "{error}");
            used(&space, "whole").await.unwrap();
            assert!(!space.runs.list(None, None, 10).await.unwrap().items.is_empty());
            let hour = Hour::of(space.clock.now());
            assert!(!space.runs.failures_in_hour(hour, None, 10).await.unwrap().items.is_empty());
            space.runs.cleanup().await.unwrap();

            let deleted = space.runs.delete(key("broken"), None).await.unwrap();
            assert_eq!(deleted, Answer::Done(()), "{family} as {}", other[0]);
            space.start("broken").await;
            used(&space, "broken").await.unwrap();
        }
    }
}

/// Numbers that are none.
#[tokio::test]
async fn garbage_in_a_run_is_told_and_no_answer_is_made_of_it() {
    let mut connection = FEW_KEYS.connection();
    let fields =
        ["status", "attempt", "updated_ms", "ends_ms", "renewed_ms", "started_ms", "attempt_started_ms"];
    for field in fields.into_iter().chain(["processed_before"]) {
        let space = Space::on("redis", &FEW_KEYS.url(), |_| {}).await;
        for run in ["broken", "whole"] {
            space.start(run).await;
        }
        let name = format!("{}:courtlistener:pipeline:broken", space.namespace);
        for garbage in GARBAGE {
            redis::cmd("HSET").arg(&name).arg(field).arg(garbage).exec(&mut connection).unwrap();
            let error = space.runs.get(key("broken")).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Corrupt, "{field} {garbage}: {error}");
            assert!(error.to_string().contains("pipeline:broken"), "{error}");
            assert!(space.runs.start(key("broken")).await.is_err());
            used(&space, "whole").await.unwrap();
            assert_eq!(space.runs.list(None, None, 10).await.unwrap().items.len(), 1);
        }
    }
    // What an older program has left under the name of a run is none of ours.
    let space = Space::on("redis", &FEW_KEYS.url(), |_| {}).await;
    let name = format!("{}:courtlistener:pipeline:old", space.namespace);
    let old = ["dag_run_id", "old", "status", "running", "dockets_processed", "['1']"];
    redis::cmd("HSET").arg(&name).arg(&old).exec(&mut connection).unwrap();
    let error = space.runs.start(key("old")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
    // And what is optional is as if nobody had written it.
    space.start("r").await;
    let name = format!("{}:courtlistener:pipeline:r", space.namespace);
    for garbage in GARBAGE {
        for field in ["total", "finished_ms", "latest_end_ms"] {
            redis::cmd("HSET").arg(&name).arg(field).arg(garbage).exec(&mut connection).unwrap();
        }
        let run = space.runs.get(key("r")).await.unwrap().unwrap();
        assert_eq!((run.total, run.finished_at, run.state), (None, None, RunState::Running), "{garbage}");
    }
}

/// An index that all runs share is named, and an hour's is only an hour's.
#[tokio::test]
async fn a_shared_index_of_another_type_is_named() {
    let mut connection = FEW_KEYS.connection();
    for index in ["runs_due", "runs:running"] {
        let space = Space::on("redis", &FEW_KEYS.url(), |_| {}).await;
        space.start("r").await;
        let name = format!("{}:courtlistener:{index}", space.namespace);
        redis::cmd("DEL").arg(&name).exec(&mut connection).unwrap();
        redis::cmd("SET").arg(&name).arg("x").exec(&mut connection).unwrap();
        let error = space.runs.start(key("s")).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
        assert!(error.to_string().contains(&name), "{error}");
        // What was there goes on.
        space.runs.processed(key("r"), None, &[key("a")]).await.unwrap().into_result().unwrap();
        redis::cmd("DEL").arg(&name).exec(&mut connection).unwrap();
        space.start("s").await;
    }
    // The list that an older program has under the name of an hour keeps nothing from failing.
    let space = Space::on("redis", &FEW_KEYS.url(), |_| {}).await;
    space.start("r").await;
    let hour = Hour::of(space.clock.now());
    let name = format!("{}:courtlistener:failed:{hour}", space.namespace);
    redis::cmd("LPUSH").arg(&name).arg("12345").exec(&mut connection).unwrap();
    used(&space, "r").await.unwrap();
    let error = space.runs.failures_in_hour(hour, None, 10).await.unwrap_err();
    assert!(error.kind() == ErrorKind::Corrupt && error.to_string().contains(&name), "{error}");
    space.clock.set(tidegate::clock::Timestamp::from_millis(START_MS + HOUR_MS));
    space.runs.failed(key("r"), None, key("9"), "", key("1")).await.unwrap().into_result().unwrap();
    let next = Hour::of(space.clock.now());
    assert_eq!(space.runs.failures_in_hour(next, None, 10).await.unwrap().items.len(), 1);
}

/// A call that stops at a key which is none of ours has given what it had written an end before.
#[tokio::test]
async fn what_a_call_has_written_before_it_failed_has_an_end() {
    let mut connection = FEW_KEYS.connection();
    let of_a_run = ["fields", "processed", "failures", "failed_at", "to_retry", "tasks"];
    let names = of_a_run.map(|family| format!("{family}:r")).into_iter();
    for name in names.chain(["runs_due", "runs:running", "runs:processing"].map(String::from)) {
        let space = Space::on("redis", &FEW_KEYS.url(), |_| {}).await;
        space.start("r").await;
        let root = format!("{}:courtlistener:", space.namespace);
        redis::cmd("DEL").arg(format!("{root}{name}")).exec(&mut connection).unwrap();
        redis::cmd("SET")
            .arg(format!("{root}{name}"))
            .arg("x")
            .arg("EX")
            .arg(1000)
            .exec(&mut connection)
            .unwrap();
        let (runs, r, mut failed) = (&space.runs, key("r"), 0);
        let update = Update::new().state(RunState::Processing).field("a", "b");
        for call in ["processed", "failed", "task_started", "update"] {
            // It has to renew all of the run.
            space.clock.advance_ms(HOUR_MS);
            let is_done = match call {
                "processed" => runs.processed(r, None, &[key("1")]).await.is_ok(),
                "failed" => runs.failed(r, None, key("3"), "why", key("1")).await.is_ok(),
                "task_started" => runs.task_started(r, None, key("t")).await.is_ok(),
                _ => runs.update(r, None, &update).await.is_ok(),
            };
            failed += usize::from(!is_done);
            for key in connection.keys::<_, Vec<String>>(format!("{root}*")).unwrap() {
                let ttl: i64 = connection.pttl(&key).unwrap();
                assert!(ttl > 0, "{key} has no end after {call} has met {name}");
            }
        }
        assert!(failed > 0, "{name} was not met");
    }
}
