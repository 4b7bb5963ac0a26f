//! A server whose memory is full (`maxmemory`, noeviction): it refuses what is written, tells
//! what it has, and costs no session its life.

use tidegate::hot::{Edit, HotOptions, Recorded};
use tidegate::limit::{LimitOptions, Source};
use tidegate::run::{Answer, RunState, Update};
use tidegate::session::State;
use tidegate::testkit::RedisServer;
use tidegate::testkit::limit::sliding;
use tidegate::{Cost, Key, OutageReason};

use crate::connections::{limit_on, patient, take};
use crate::outage::until;
use crate::session::{GRACE, LEASE, Space, key, options};
use crate::session_flaws::does;

pub(crate) fn fill(server: &RedisServer) {
    does(&mut server.connection(), &["CONFIG SET maxmemory 1"]);
}

pub(crate) fn free(server: &RedisServer) {
    does(&mut server.connection(), &["CONFIG SET maxmemory 0"]);
}

#[tokio::test]
async fn takes_are_answered_by_policy_and_reads_by_the_store() {
    let server = RedisServer::start();
    let mut options = patient();
    options.check_interval = std::time::Duration::from_millis(20);
    let (gate, limit) = limit_on(&server.url(), options).await;
    let hot = gate.hot("pages", HotOptions::default()).unwrap();
    for id in ["1", "2"] {
        hot.record(&Edit::new(key("p"), id, "alice")).await.unwrap();
    }
    let receipt = take(&limit, "k").await.receipt().unwrap();
    fill(&server);
    // Again and again: also while it is probed, and after the outage is known.
    for _ in 0..50 {
        assert_eq!(take(&limit, "k").await.source(), Source::Policy);
        let peek = limit.peek(Key::new("k").unwrap()).await.unwrap();
        assert_eq!((peek.source(), peek.quota().capacity - peek.quota().remaining), (Source::Store, 1));
        assert_eq!(hot.record(&Edit::new(key("p"), "3", "bob")).await.unwrap(), Recorded::Dropped);
        assert_eq!(hot.list(3).await.unwrap().len(), 1);
        assert_eq!(hot.stats(key("p")).await.unwrap().edits_last_hour, 2);
    }
    let status = gate.store().status();
    assert_eq!((status.away[0].reason, status.partitions_away()), (OutageReason::OutOfMemory, 1));
    let metrics = gate.metrics();
    assert!(metrics.contains("tidegate_store_partitions_away 1\n"), "{metrics}");
    assert!(metrics.contains("tidegate_store_failed_calls_total{reason=\"oom\"} 100\n"), "{metrics}");
    // Whoever comes now can look as well.
    let (other, late) = limit_on(&server.url(), patient()).await;
    assert_eq!(late.peek(Key::new("k").unwrap()).await.unwrap().source(), Source::Store);
    let late = other.hot("pages", HotOptions::default()).unwrap();
    assert_eq!(late.list(3).await.unwrap().len(), 1);
    let unused = other.hot("unused", HotOptions::default()).unwrap();
    assert_eq!(unused.list(3).await.unwrap().len(), 0);
    free(&server);
    until("it is over", async || {
        tokio::task::yield_now().await;
        gate.store().status().away.is_empty().then_some(())
    })
    .await;
    assert_eq!(take(&limit, "k").await.source(), Source::Store);
    assert_eq!(limit.refund(Key::new("k").unwrap(), receipt).await.unwrap(), 1);
}

/// Without a marker there is nothing to go by, and none can be written.
#[tokio::test]
async fn a_full_server_that_has_no_marker_is_away() {
    let server = RedisServer::start();
    fill(&server);
    let (gate, limit) = limit_on(&server.url(), patient()).await;
    assert_eq!(limit.peek(Key::new("k").unwrap()).await.unwrap().source(), Source::Policy);
    assert_eq!(gate.store().status().away[0].reason, OutageReason::OutOfMemory);
    free(&server);
    until("it is back", async || (take(&limit, "k").await.source() == Source::Store).then_some(())).await;
    let other = gate.limit("other", sliding(1, 60, 600), LimitOptions::default()).unwrap();
    assert!(other.take(Key::new("k").unwrap(), Cost::ONE).await.unwrap().is_admitted());
}

/// Full for longer than lease and grace. Holders try to renew and cannot; others leave, which
/// a full server lets them: what comes after a deletion is written, stamps too. Whoever looks
/// or reaps meanwhile, or at once when there is room again, finds them alive.
#[tokio::test]
async fn holders_that_could_not_renew_are_not_reaped() {
    // Without grace nothing else would keep them.
    for grace_ms in [GRACE, 0] {
        let server = RedisServer::start();
        let set = options(|it| it.grace = std::time::Duration::from_millis(grace_ms));
        let space = Space::on("redis", &server.url(), set).await;
        let sessions = &space.sessions;
        let mut alive = Vec::new();
        for number in 0..5 {
            alive.push(space.held(&format!("alive{number}"), "h").await);
        }
        let mut leaving = Vec::new();
        for number in 0..60 {
            leaving.push(space.held(&format!("leaving{number}"), "h").await);
        }
        let orphan = space.left("orphan").await;
        space.pass(LEASE / 2).await;
        for id in alive.iter().chain(&leaving) {
            sessions.heartbeat(*id, key("h")).await.unwrap().done().unwrap();
        }
        fill(&server);
        let until_ms = space.clock.now().as_millis() + 3 * (LEASE + GRACE);
        while space.clock.now().as_millis() < until_ms {
            space.clock.advance_ms(LEASE / 9);
            for id in &alive {
                assert!(sessions.heartbeat(*id, key("h")).await.unwrap_err().is_transient());
            }
            if let Some(id) = leaving.pop() {
                sessions.disconnect(id, key("h")).await.unwrap().done().unwrap();
            }
            assert_eq!(sessions.cleanup().await.unwrap().deleted, 0);
            assert_eq!(sessions.claim(9).await.unwrap().claims, []);
            sessions.get(orphan).await.unwrap().unwrap();
            for id in &alive {
                assert_eq!(sessions.get(*id).await.unwrap().unwrap().state, State::Active);
            }
        }
        free(&server);
        let swept = sessions.cleanup().await.unwrap();
        assert_eq!(swept.deleted, 0);
        assert!(swept.held_until.is_some());
        for id in &alive {
            let lease = sessions.heartbeat(*id, key("h")).await.unwrap().done().unwrap();
            assert_eq!(lease.generation.get(), 1);
        }
        // Whoever did not come back is reaped after all.
        space.pass(LEASE / 2).await;
        for id in &alive {
            sessions.heartbeat(*id, key("h")).await.unwrap().done().unwrap();
        }
        space.pass(LEASE / 2 + GRACE / 2).await;
        for id in &alive {
            sessions.heartbeat(*id, key("h")).await.unwrap().done().unwrap();
        }
        space.pass(GRACE / 2).await;
        assert!(sessions.cleanup().await.unwrap().deleted > 0);
        assert_eq!(sessions.counts().await.unwrap().active, 5);
    }
}

/// What a run has is told, what it would get is refused as a whole, and it can be deleted.
#[tokio::test]
async fn runs_are_read_and_deleted_and_not_written_in_part() {
    let server = RedisServer::start();
    let space = crate::run::Space::on("redis", &server.url(), |_| {}).await;
    let (runs, r) = (&space.runs, key("r"));
    for run in ["r", "over"] {
        space.start(run).await;
        runs.processed(key(run), None, &[key("a")]).await.unwrap().done().unwrap();
        runs.failed(key(run), None, key("b"), "why", key("1")).await.unwrap().done().unwrap();
    }
    space.clock.advance_ms(10 * crate::run::HOUR_MS);
    runs.task_started(r, None, key("t")).await.unwrap().done().unwrap();
    let look = async || {
        let failed = runs.failures(r, None, 9).await.unwrap();
        (runs.get(r).await.unwrap(), runs.progress(r).await.unwrap(), failed, runs.tasks(r).await.unwrap())
    };
    let before = look().await;
    fill(&server);
    let paused = Update::new().state(RunState::Paused).field("a", "b");
    for (call, refused) in [
        ("start", runs.start(key("s")).await.map(drop)),
        ("update", runs.update(r, None, &paused).await.map(drop)),
        ("processed", runs.processed(r, None, &[key("b"), key("c")]).await.map(drop)),
        ("failed", runs.failed(r, None, key("b"), "later", key("2")).await.map(drop)),
        ("task_started", runs.task_started(r, None, key("u")).await.map(drop)),
        ("task_finished", runs.task_finished(r, None, key("t")).await.map(drop)),
        ("finish", runs.finish(r, None, RunState::Failed).await.map(drop)),
        ("expire", runs.expire(r, None, std::time::Duration::ZERO).await.map(drop)),
    ] {
        assert_eq!(refused.unwrap_err().reason(), Some(OutageReason::OutOfMemory), "{call}");
    }
    assert_eq!(look().await, before);
    let listed = async || runs.list(None, None, 9).await.unwrap().items.len();
    assert_eq!((listed().await, runs.get(key("s")).await.unwrap()), (2, None));
    // What is over leaves, though the other is to be put back in the index; and so does what is deleted.
    space.clock.advance_ms(17 * crate::run::HOUR_MS);
    assert_eq!((runs.cleanup().await.unwrap(), listed().await), (1, 1));
    assert_eq!(runs.delete(r, None).await.unwrap(), Answer::Done(()));
    free(&server);
    let again = until("it takes writes", async || runs.start(r).await.ok()).await.done().unwrap();
    assert_eq!(again.attempt.get(), 2);
    assert_eq!(server.keys_without_ttl(), Vec::<String>::new());
}
