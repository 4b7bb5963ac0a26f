//! Runs while the store is away, after it has forgotten, and when its answers are lost.

use std::time::Duration;

use tidegate::clock::monotonic;
use tidegate::run::{Answer, Attempt, Hour, Refusal, RunState, Runs, Update};
use tidegate::store::StoreOptions;
use tidegate::testkit::{Fault, FaultProxy, RedisServer};
use tidegate::{Result, Tidegate};

use crate::outage::until;
use crate::run::{key, keys, options};

async fn runs_on(url: &str) -> (Tidegate, Runs) {
    let gate = Tidegate::open(url).await.unwrap();
    let runs = gate.runs("main", options(|_| {})).unwrap();
    (gate, runs)
}

/// Everything that can be asked, about one run.
async fn all_calls(runs: &Runs) -> Vec<(&'static str, Result<()>)> {
    let (r, x) = (key("r"), key("x"));
    let hour: Hour = "2024-09-17_14".parse().unwrap();
    vec![
        ("start", runs.start(r).await.map(drop)),
        ("get", runs.get(r).await.map(drop)),
        ("list", runs.list(None, None, 9).await.map(drop)),
        ("update", runs.update(r, None, &Update::new().field("guessed", "x")).await.map(drop)),
        ("processed", runs.processed(r, None, &[x]).await.map(drop)),
        ("is_processed", runs.is_processed(r, &[x]).await.map(drop)),
        ("progress", runs.progress(r).await.map(drop)),
        ("task_started", runs.task_started(r, None, x).await.map(drop)),
        ("task_finished", runs.task_finished(r, None, x).await.map(drop)),
        ("tasks", runs.tasks(r).await.map(drop)),
        ("failed", runs.failed(r, None, x, "", x).await.map(drop)),
        ("failures", runs.failures(r, None, 9).await.map(drop)),
        ("retry_list", runs.retry_list(r, None, 9).await.map(drop)),
        ("failures_in_hour", runs.failures_in_hour(hour, None, 9).await.map(drop)),
        ("expire", runs.expire(r, None, Duration::from_secs(3600)).await.map(drop)),
        ("finish", runs.finish(r, Some(Attempt::new(9)), RunState::Failed).await.map(drop)),
        ("retry", runs.retry(r, Attempt::new(9)).await.map(drop)),
        ("delete", runs.delete(r, Some(Attempt::new(9))).await.map(drop)),
        ("cleanup", runs.cleanup().await.map(drop)),
    ]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_the_store_is_away_every_call_says_so_in_time_and_nothing_is_guessed() {
    let server = RedisServer::start();
    let proxy = FaultProxy::start(server.port()).await;
    let (_gate, runs) = runs_on(&proxy.url()).await;
    let _ = runs.start(key("r")).await.unwrap();
    for fault in [Fault::Cut, Fault::HalfOpen, Fault::Freeze] {
        proxy.set(fault);
        until("the fault is noticed", async || runs.get(key("r")).await.err()).await;
        let started = monotonic();
        for (call, answer) in all_calls(&runs).await {
            assert!(answer.unwrap_err().is_transient(), "{call} with {fault:?}");
        }
        // Nineteen calls of at most 100 ms; mostly they fail at once.
        assert!(started.elapsed() < Duration::from_secs(5), "{:?} with {fault:?}", started.elapsed());
        proxy.set(Fault::None);
        let run = until("the store is back", async || runs.get(key("r")).await.ok()).await.unwrap();
        // What was held back may have arrived after all.
        if fault != Fault::Freeze {
            assert_eq!((run.attempt.get(), run.fields.len()), (1, 0), "{fault:?}");
        }
    }
    for (call, answer) in all_calls(&runs).await {
        answer.unwrap_or_else(|error| panic!("{call}: {error}"));
    }
    assert_eq!(server.keys_without_ttl(), Vec::<String>::new());
}

/// A client that tries again until it is answered, as clients do.
async fn insist<T>(proxy: &FaultProxy, mut call: impl AsyncFnMut() -> Result<T>) -> (T, u64) {
    let mut lost = 0;
    proxy.set(Fault::SwallowAnswers);
    let answer = until("it is answered", async || match call().await {
        Ok(answer) => Some(answer),
        Err(error) => {
            assert!(error.is_transient(), "{error}");
            // Only what the server has been sent is lost.
            lost += u64::from(error.is_in_doubt());
            if lost > 0 {
                proxy.set(Fault::None);
            }
            None
        }
    })
    .await;
    (answer, lost)
}

/// What was done and not heard of is done again: it counts once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_sent_twice_since_its_answer_was_lost_counts_once() {
    let server = RedisServer::start();
    let proxy = FaultProxy::start(server.port()).await;
    let (_gate, runs) = runs_on(&proxy.url()).await;
    let (r, mut lost) = (key("r"), 0);
    let (started, more) = insist(&proxy, async || runs.start(r).await).await;
    lost += more;
    assert_eq!(started.into_result().unwrap().attempt.get(), 1);
    for number in 0..5 {
        let items: Vec<String> = (0..10).map(|it| (5 * number + it).to_string()).collect();
        let (_, more) = insist(&proxy, async || runs.processed(r, None, &keys(&items)).await).await;
        lost += more;
        let id = format!("call {number}");
        let failing = async || runs.failed(r, None, key("x"), "why", key(&id)).await;
        let (failed, more) = insist(&proxy, failing).await;
        lost += more;
        assert_eq!(failed.into_result().unwrap().count, number + 1);
    }
    let (_, more) = insist(&proxy, async || runs.finish(r, None, RunState::Failed).await).await;
    lost += more;
    let (retried, more) = insist(&proxy, async || runs.retry(r, Attempt::new(1)).await).await;
    lost += more;
    assert_eq!(retried.into_result().unwrap().attempt.get(), 2);
    let progress = runs.progress(r).await.unwrap().into_result().unwrap();
    assert_eq!((progress.processed, progress.failed), (30, 1));
    let failures = runs.failures(r, None, 9).await.unwrap().into_result().unwrap().items;
    assert_eq!(failures[0].count, 5);
    // Most of them were sent twice.
    assert!(lost >= 13, "{lost}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_frozen_and_a_restarted_server_lose_nothing_silently() {
    let mut server = RedisServer::start();
    let (_gate, runs) = runs_on(&server.url()).await;
    let r = key("r");
    let _ = runs.start(r).await.unwrap();
    let mut noted = Vec::new();
    for turn in 0..3 {
        server.freeze();
        let started = monotonic();
        let item = format!("frozen {turn}");
        let error = runs.processed(r, None, &[key(&item)]).await.unwrap_err();
        assert!(error.is_transient() && started.elapsed() < Duration::from_secs(2), "{error}");
        server.thaw();
        let answer = until("it is thawed", async || runs.processed(r, None, &[key(&item)]).await.ok()).await;
        assert!(answer.is_done());
        noted.push(item);
    }
    let flags = runs.is_processed(r, &keys(&noted)).await.unwrap().into_result().unwrap();
    assert!(flags.iter().all(|it| *it), "{flags:?}");

    // What it has forgotten is not there, and whoever works on is told.
    server.kill();
    assert!(runs.processed(r, None, &[key("x")]).await.unwrap_err().is_transient());
    server.restart();
    let answer = until("it is back", async || runs.processed(r, None, &[key("x")]).await.ok()).await;
    assert_eq!(answer, Answer::Refused(Refusal::Unknown));
    assert_eq!(runs.get(r).await.unwrap(), None);
    assert!(runs.start(r).await.unwrap().into_result().unwrap().is_new);
}

/// A restart from an older snapshot, in the middle of a run: what is answered is what is there, and that something may be
/// missing is told.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_comes_back_from_an_older_snapshot_pretends_nothing() {
    let mut server = RedisServer::start();
    let (gate, runs) = runs_on(&server.url()).await;
    let (r, retried, late) = (key("r"), key("retried"), key("late"));
    let first = runs.start(r).await.unwrap().into_result().unwrap().attempt;
    let _ = runs.start(retried).await.unwrap();
    let _ = runs.processed(r, None, &[key("a"), key("b")]).await.unwrap();
    let _ = runs.finish(retried, None, RunState::Failed).await.unwrap();
    let () = redis::cmd("SAVE").query(&mut server.connection()).unwrap();

    // Acknowledged, and forgotten.
    let _ = runs.processed(r, None, &[key("c")]).await.unwrap().into_result().unwrap();
    let second = runs.retry(retried, first).await.unwrap().into_result().unwrap().attempt;
    let _ = runs.start(late).await.unwrap().into_result().unwrap();
    let progress = runs.progress(r).await.unwrap().into_result().unwrap();
    assert_eq!((progress.processed, progress.lost_at), (3, None));
    server.kill();
    assert!(runs.processed(r, None, &[key("d")]).await.unwrap_err().is_transient());
    server.restart();

    let answer = until("it is back", async || runs.processed(r, Some(first), &[key("d")]).await.ok()).await;
    // It says how many there are, which is fewer than the worker knows of.
    let processed = answer.into_result().unwrap();
    assert!(processed.processed == 3 && processed.new <= 1, "{processed:?}");
    let flags = runs.is_processed(r, &[key("a"), key("b"), key("c"), key("d")]).await.unwrap();
    assert_eq!(flags, Answer::Done(vec![true, true, false, true]));
    let progress = runs.progress(r).await.unwrap().into_result().unwrap();
    let lost_at = progress.lost_at.expect("it is told");
    assert!(lost_at > runs.get(r).await.unwrap().unwrap().started_at);
    let stale = Answer::Refused(Refusal::Stale { current: first });
    assert_eq!(runs.update(retried, Some(second), &Update::new()).await.unwrap(), stale);
    assert_eq!(runs.processed(late, None, &[key("x")]).await.unwrap(), Answer::Refused(Refusal::Unknown));
    until("the loss is counted", async || {
        gate.metrics().lines().any(|line| line == "tidegate_store_losses_total 1").then_some(())
    })
    .await;
    // One that is started now has lost nothing.
    let _ = runs.start(late).await.unwrap().into_result().unwrap();
    assert_eq!(runs.progress(late).await.unwrap().into_result().unwrap().lost_at, None);
    // It is brought again, and counts once.
    let again = runs.processed(r, Some(first), &[key("a"), key("b"), key("c"), key("d")]).await.unwrap();
    assert_eq!(again.into_result().unwrap().new, 1);
}

/// Who only looks writes nothing.
#[tokio::test]
async fn a_store_that_is_only_read_can_be_asked() {
    let server = RedisServer::start();
    let (_gate, runs) = runs_on(&server.url()).await;
    let _ = runs.start(key("r")).await.unwrap();
    let _ = runs.processed(key("r"), None, &[key("a")]).await.unwrap();
    let store = StoreOptions::new().read_only(true);
    let looking = Tidegate::open_with(&server.url(), store).await.unwrap();
    let runs = looking.runs("main", options(|_| {})).unwrap();
    assert_eq!(runs.get(key("r")).await.unwrap().unwrap().attempt.get(), 1);
    assert_eq!(runs.list(None, None, 9).await.unwrap().items.len(), 1);
    assert_eq!(runs.is_processed(key("r"), &[key("a")]).await.unwrap(), Answer::Done(vec![true]));
}
