//! Beside live traffic nothing is taken for a defect.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use redis::Commands as _;
use tidegate::Tidegate;
use tidegate::clock::{ManualClock, Timestamp, monotonic};
use tidegate::doctor::Doctor;
use tidegate::run::{Attempt, RunOptions, RunState, Update};
use tidegate::testkit::{RedisCluster, RedisServer, unique};

use super::START_MS;
use super::world::{World, assert_well, key, options, quick};

/// Traffic of all rooms for some seconds, and doctors who look all the while.
async fn no_false_defect(url: &str, partitions: Option<u32>) {
    let world = Arc::new(World::open(url, options(&unique("d"), partitions, None)).await);
    let is_over = Arc::new(AtomicBool::new(false));
    let workers: Vec<_> = (0..4)
        .map(|worker| {
            let (world, is_over) = (world.clone(), is_over.clone());
            tokio::spawn(async move {
                let mut number = worker;
                while !is_over.load(Ordering::Relaxed) {
                    world.use_all(number % 101).await;
                    for claim in world.sessions.claim(3).await.unwrap().claims {
                        let _ = world.sessions.ack(claim.id, claim.generation).await.unwrap();
                    }
                    number += 7;
                }
                number
            })
        })
        .collect();
    let until = monotonic() + Duration::from_secs(5);
    let mut looks = 0;
    while monotonic() < until {
        let report = world.check().await;
        assert_well(&report, "beside traffic");
        // To mend beside traffic takes nothing away either.
        assert_well(&world.fix().await, "beside traffic");
        looks += 1;
    }
    is_over.store(true, Ordering::Relaxed);
    for worker in workers {
        assert!(worker.await.unwrap() > 20, "there was traffic");
    }
    assert!(looks >= 2, "{looks}");
    assert_well(&world.check().await, "after it");
    world.gate.shutdown().await;
}

/// Runs that end in every way there is, and are started anew, while doctors look.
async fn no_false_defect_of_runs_that_end(url: &str, partitions: Option<u32>) {
    let store = options(&unique("d"), partitions, None);
    let gate = Tidegate::open_with(url, store.clone()).await.unwrap();
    // They live for a second, and much less if somebody says so.
    let brief =
        RunOptions::new().state_ttl(Duration::from_secs(1)).cleanup_interval(Duration::from_millis(100));
    let runs = gate.runs("main", brief).unwrap();
    gate.declare().await.unwrap();
    let is_over = Arc::new(AtomicBool::new(false));
    let workers: Vec<_> = (0..4_u64)
        .map(|worker| {
            let (runs, is_over) = (runs.clone(), is_over.clone());
            tokio::spawn(async move {
                let mut number = worker;
                while !is_over.load(Ordering::Relaxed) {
                    let run = format!("run:{}", number % 17);
                    let (run, first) = (key(&run), Attempt::new(1));
                    let _ = runs.start(run).await.unwrap();
                    let update = Update::new().field("note", "here").state(RunState::Processing);
                    let _ = runs.update(run, None, &update).await.unwrap();
                    let _ = runs.processed(run, None, &[key("1"), key("2")]).await.unwrap();
                    let _ = runs.failed(run, None, key("3"), "timeout", key("call-1")).await.unwrap();
                    let _ = runs.task_started(run, None, key("process:docket")).await.unwrap();
                    match number % 6 {
                        0 => drop(runs.finish(run, None, RunState::Failed).await.unwrap()),
                        1 => drop(runs.retry(run, first).await.unwrap()),
                        2 => drop(runs.delete(run, None).await.unwrap()),
                        3 => drop(runs.expire(run, None, Duration::ZERO).await.unwrap()),
                        4 => drop(runs.expire(run, None, Duration::from_millis(number % 50)).await.unwrap()),
                        _ => {}
                    }
                    number += 5;
                }
                number
            })
        })
        .collect();
    let (until, mut looks) = (monotonic() + Duration::from_secs(4), 0);
    while monotonic() < until {
        for is_fixing in [false, true] {
            let doctor = Doctor::open(url, &store).await.unwrap();
            let report = doctor.check(&quick().fix(is_fixing), |_| {}).await.unwrap();
            assert_well(&report, "beside runs that end");
            assert_eq!(report.undeclared + report.others, 0, "{report:?}");
        }
        looks += 1;
    }
    is_over.store(true, Ordering::Relaxed);
    for worker in workers {
        assert!(worker.await.unwrap() > 100, "there were runs");
    }
    assert!(looks >= 2, "{looks}");
    gate.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn beside_runs_that_end_nothing_is_taken_for_a_defect_on_one_server() {
    let server = RedisServer::start();
    no_false_defect_of_runs_that_end(&server.url(), None).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn beside_runs_that_end_nothing_is_taken_for_a_defect_in_a_cluster() {
    let cluster = RedisCluster::start();
    no_false_defect_of_runs_that_end(&cluster.url(), Some(6)).await;
}

/// The keys of a run end one by one, in any order, up to a hundredth of its life apart.
#[tokio::test]
async fn a_run_of_which_some_keys_have_ended_is_no_defect() {
    let server = RedisServer::start();
    let mut connection = server.connection();
    let families = ["pipeline", "fields", "processed", "failures", "failed_at", "to_retry", "tasks"];
    for first in families {
        let () = redis::cmd("FLUSHALL").query(&mut connection).unwrap();
        let clock = ManualClock::at(Timestamp::from_millis(START_MS));
        let world = World::open(&server.url(), options("", None, Some(&clock))).await;
        let run = "manual_0T14:30:00+00:00";
        world.use_runs(&world.runs, 0).await;
        // Its time is over, and so is nearly that of its keys.
        clock.advance_ms(25 * 3_600_000 + 600_000);
        for name in connection.keys::<_, Vec<String>>("courtlistener:*").unwrap() {
            let _: i64 = connection.pexpire(&name, 60_000).unwrap();
        }
        let _: i64 = connection.del(format!("courtlistener:{first}:{run}")).unwrap();
        assert_well(&world.check().await, first);
        assert_well(&world.fix().await, first);
        world.use_runs(&world.runs, 0).await;
        assert_well(&world.check().await, &format!("{first}, and started anew"));
        world.gate.shutdown().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn beside_live_traffic_nothing_is_taken_for_a_defect_on_one_server() {
    let server = RedisServer::start();
    no_false_defect(&server.url(), None).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn beside_live_traffic_nothing_is_taken_for_a_defect_in_a_cluster() {
    let cluster = RedisCluster::start();
    no_false_defect(&cluster.url(), Some(6)).await;
}
