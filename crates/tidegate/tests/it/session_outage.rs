//! Sessions while the store is away, after it has forgotten, and of input that is wrong.

use std::time::Duration;

use tidegate::clock::{ManualClock, monotonic};
use tidegate::session::{Answer, Generation, Refusal, SessionId, SessionOptions, Sessions, State};
use tidegate::store::StoreOptions;
use tidegate::testkit::{Fault, FaultProxy, RedisCluster, RedisServer};
use tidegate::{ErrorKind, Key, Result, Tidegate};

use crate::outage::until;
use crate::session::{GRACE, LEASE, START_MS, Space, key, ms, options, pass};
use crate::session_flaws::{does, raw};

async fn sessions_on(url: &str) -> (Tidegate, Sessions) {
    let gate = Tidegate::open(url).await.unwrap();
    let sessions = gate.sessions("sessions", options(|_| {})).unwrap();
    (gate, sessions)
}

/// Everything that can be asked, about one session.
async fn all_calls(sessions: &Sessions, id: SessionId) -> Vec<(&'static str, Result<()>)> {
    let (h, generation) = (key("nobody"), Generation::new(77));
    vec![
        ("activate", sessions.activate(key("b"), "guessed", None).await.map(drop)),
        ("connect", sessions.connect(id, h).await.map(drop)),
        ("resume", sessions.resume(id, h).await.map(drop)),
        ("heartbeat", sessions.heartbeat(id, h).await.map(drop)),
        ("disconnect", sessions.disconnect(id, h).await.map(drop)),
        ("update", sessions.update(id, "guessed", None).await.map(drop)),
        ("get", sessions.get(id).await.map(drop)),
        ("find", sessions.find(key("b")).await.map(drop)),
        ("delete", sessions.delete(id).await.map(drop)),
        ("orphans", sessions.orphans(Duration::ZERO, 9).await.map(drop)),
        ("list", sessions.list(State::Active, 9).await.map(drop)),
        ("counts", sessions.counts().await.map(drop)),
        ("disconnected_count", sessions.disconnected_count().await.map(drop)),
        ("claim", sessions.claim(9).await.map(drop)),
        ("ack", sessions.ack(id, generation).await.map(drop)),
        ("cleanup", sessions.cleanup().await.map(drop)),
        ("retry", sessions.retry(id).await.map(drop)),
        ("reconcile", sessions.reconcile().finish().await.map(drop)),
        ("dry run", sessions.reconcile_dry_run(Duration::ZERO).finish().await.map(drop)),
    ]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_the_store_is_away_every_call_says_so_in_time_and_nothing_is_guessed() {
    let server = RedisServer::start();
    let proxy = FaultProxy::start(server.port()).await;
    let (_gate, sessions) = sessions_on(&proxy.url()).await;
    let id = sessions.activate(key("b"), "config", Some(key("h"))).await.unwrap().done().unwrap().id;
    for fault in [Fault::Cut, Fault::HalfOpen, Fault::Freeze] {
        proxy.set(fault);
        until("the fault is noticed", async || sessions.get(id).await.err()).await;
        let started = monotonic();
        for (call, answer) in all_calls(&sessions, id).await {
            assert!(answer.unwrap_err().is_transient(), "{call} with {fault:?}");
        }
        // Nineteen calls of at most 100 ms; mostly they fail at once.
        assert!(started.elapsed() < Duration::from_secs(5), "{:?} with {fault:?}", started.elapsed());
        proxy.set(Fault::None);
        let session = until("the store is back", async || sessions.get(id).await.ok()).await.unwrap();
        assert_eq!(session.state, State::Active, "{fault:?}");
        // What was held back may have arrived after all.
        if fault != Fault::Freeze {
            assert_eq!(
                (&*session.config, &*session.value, session.ref_count),
                ("config", "", 1),
                "{fault:?}"
            );
        }
    }
    assert_eq!(server.keys_without_ttl(), Vec::<String>::new());
}

#[tokio::test]
async fn flushed_scripts_lose_nothing() {
    let server = RedisServer::start();
    let (_gate, sessions) = sessions_on(&server.url()).await;
    let flush = || does(&mut server.connection(), &["SCRIPT FLUSH"]);
    let id = sessions.activate(key("b"), "", Some(key("h"))).await.unwrap().done().unwrap().id;
    for turn in 0..5 {
        flush();
        assert_eq!(sessions.connect(id, key("i")).await.unwrap().done().unwrap().generation.get(), turn + 1);
        for holder in ["h", "i"] {
            flush();
            sessions.disconnect(id, key(holder)).await.unwrap().done().unwrap();
        }
        flush();
        assert_eq!(sessions.counts().await.unwrap().disconnected, 1);
        flush();
        assert_eq!(sessions.resume(id, key("h")).await.unwrap().done().unwrap().generation.get(), turn + 2);
    }
    for (call, answer) in all_calls(&sessions, id).await {
        flush();
        answer.unwrap_or_else(|error| panic!("{call}: {error}"));
    }
}

#[tokio::test]
async fn after_a_restart_without_its_data_all_sessions_are_gone_and_new_ones_begin() {
    let mut server = RedisServer::start();
    let (_gate, sessions) = sessions_on(&server.url()).await;
    let id = sessions.activate(key("b"), "", Some(key("h"))).await.unwrap().done().unwrap().id;
    server.kill();
    until("the loss is noticed", async || sessions.get(id).await.err()).await;
    assert!(sessions.heartbeat(id, key("h")).await.unwrap_err().is_transient());
    server.restart();
    let found = until("the store is back", async || sessions.get(id).await.ok()).await;
    assert_eq!(found, None);
    assert_eq!(sessions.heartbeat(id, key("h")).await.unwrap(), Answer::Refused(Refusal::Gone));
    assert_eq!(sessions.disconnect(id, key("h")).await.unwrap(), Answer::Refused(Refusal::Gone));
    assert_eq!(sessions.delete(id).await.unwrap(), Answer::Refused(Refusal::Gone));
    assert_eq!(sessions.ack(id, Generation::new(1)).await.unwrap(), Answer::Refused(Refusal::Gone));
    assert_eq!(sessions.cleanup().await.unwrap(), Default::default());
    for (call, answer) in all_calls(&sessions, id).await {
        answer.unwrap_or_else(|error| panic!("{call}: {error}"));
    }
    let new = sessions.activate(key("b"), "", Some(key("h"))).await.unwrap().done().unwrap();
    assert_ne!(new.id, id);
    assert_eq!(sessions.counts().await.unwrap().active, 1);
    assert_eq!(server.keys_without_ttl(), Vec::<String>::new());
}

/// A node that is away keeps its own orphans, and nobody else's.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_partition_that_is_away_does_not_keep_others_from_being_reaped() {
    let mut cluster = RedisCluster::start();
    let clock = ManualClock::at(ms(START_MS));
    let mut set = StoreOptions::default();
    (set.clock, set.partitions) = (clock.clone().into(), Some(16));
    set.deadline = Duration::from_millis(500);
    let gate = Tidegate::open_with(&cluster.url(), set).await.unwrap();
    let sessions = gate.sessions("sessions", options(|_| {})).unwrap();
    for number in 0..200 {
        let name = format!("b{number}");
        let id = sessions.activate(key(&name), "", Some(key("h"))).await.unwrap().done().unwrap().id;
        sessions.disconnect(id, key("h")).await.unwrap().done().unwrap();
    }
    let on = |node: &RedisServer| raw::<Vec<String>>(&mut node.connection(), "KEYS *:session:*").len();
    let before: Vec<_> = cluster.nodes().iter().map(on).collect();
    let away = before.iter().position(|count| *count > 0).unwrap();
    cluster.nodes_mut()[away].kill();
    until("it is noticed", async || sessions.counts().await.err()).await;
    for _ in 0..2 {
        clock.advance_ms(GRACE / 2);
        // Those that are there are told.
        assert!(sessions.stamp().await.unwrap_err().is_transient());
    }
    let claimed = until("there is something to claim", async || {
        let claims = sessions.claim(5).await.ok()?.claims;
        (!claims.is_empty()).then_some(claims)
    })
    .await;
    for claim in claimed {
        sessions.ack(claim.id, claim.generation).await.unwrap().done().unwrap();
    }
    assert!(sessions.cleanup().await.unwrap_err().is_transient(), "not all of it was done");
    // A batch of each partition is enough for all that is there.
    for (number, node) in cluster.nodes().iter().enumerate().filter(|(number, _)| *number != away) {
        assert_eq!(on(node), 0, "node {number} of {before:?}");
    }
    let elsewhere = 200 - before[away];
    assert_eq!(crate::session::metric(&gate, "orphan_sessions_deleted_total") as usize, elsewhere);
}

#[tokio::test]
async fn what_is_not_allowed_is_refused_before_anything_is_sent() {
    let space = Space::redis(|_| {}).await;
    let sessions = &space.sessions;
    let (long, longest) = ("x".repeat((64 << 10) + 1), "x".repeat(64 << 10));
    let error = sessions.activate(key("b"), &long, None).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert_eq!(error.to_string(), "a config of 65537 bytes is not allowed: up to 65536 are");
    let id = sessions.activate(key("b"), &longest, Some(key("h"))).await.unwrap().done().unwrap().id;
    assert_eq!(sessions.update(id, &long, None).await.unwrap_err().kind(), ErrorKind::Invalid);
    sessions.update(id, &longest, None).await.unwrap().done().unwrap();
    let session = space.get(id).await;
    assert_eq!((session.config.len(), session.value.len()), (64 << 10, 64 << 10));
    for name in ["", &"x".repeat(256)] {
        assert!(Key::new(name).is_err());
    }
    let again = space.gate.sessions("sessions", options(|it| it.max_holders = 7));
    assert_eq!(again.unwrap_err().kind(), ErrorKind::Invalid, "the same space with other options");
    space.gate.sessions("sessions", sessions.options().clone()).unwrap();
}

type Set = fn(&mut SessionOptions);

#[test]
fn options_outside_their_range_are_refused_and_say_what_is_allowed() {
    let second = Duration::from_secs(1);
    let wrong: [(Set, &str); 14] = [
        (|it| it.retention = Duration::from_secs(61 * 24 * 3600), "a retention of 5270400s"),
        (|it| it.session_ttl = it.retention + Duration::from_millis(1), "a session_ttl of"),
        (|it| it.grace = it.session_ttl + Duration::from_millis(1), "a grace of"),
        (|it| it.holder_lease = Duration::from_millis(999), "a holder_lease of 999ms"),
        (|it| it.migration_lease = Duration::ZERO, "a migration_lease of 0ns"),
        (|it| it.claim_lease = Duration::from_secs(25 * 3600), "a claim_lease of 90000s"),
        (|it| it.cleanup_interval = Duration::from_millis(99), "a cleanup_interval of 99ms"),
        (|it| it.reconcile_interval = Duration::from_secs(59), "a reconcile_interval of 59s"),
        (|it| it.grace = it.session_ttl, "a grace of 86400s is not allowed: 0ns to 86355s are"),
        (|it| it.batch = 0, "a batch of 0 is not allowed: 1 to 1000 are"),
        (|it| it.batch = 1001, "a batch of 1001"),
        (|it| it.max_attempts = 0, "max_attempts of 0"),
        (|it| it.max_holders = 10_001, "max_holders of 10001"),
        (|it| it.max_sessions = 0, "max_sessions of 0"),
    ];
    for (set, message) in wrong {
        let error = options(set).check().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert!(
            error.to_string().contains(message) && error.to_string().ends_with(" are"),
            "{message}: {error}"
        );
    }
    // A claim must end before what it is of.
    let short = |claim: Duration| {
        options(|it| {
            (it.grace, it.holder_lease, it.migration_lease) = (Duration::ZERO, second, second);
            (it.session_ttl, it.retention, it.claim_lease) = (second, 2 * second, claim);
        })
    };
    short(2 * second).check().unwrap();
    assert!(short(3 * second).check().unwrap_err().to_string().contains("a claim_lease of 3s"));
    SessionOptions::default().check().unwrap();
}

/// A key of ours that somebody else has written to is an error of that session alone.
#[tokio::test]
async fn a_broken_session_fails_alone() {
    let space = Space::redis(|_| {}).await;
    let (wrong, torn, whole) =
        (space.left("wrong").await, space.left("torn").await, space.left("whole").await);
    let prefix = format!("{}:session:", space.namespace);
    let mut connection = crate::kit::REDIS.connection();
    does(
        &mut connection,
        &[&format!("SET {prefix}{wrong} x PX 99999"), &format!("HSET {prefix}{torn} s torn")],
    );
    assert_eq!(
        space.sessions.resume(wrong, key("h")).await.unwrap(),
        Answer::Refused(Refusal::Gone),
        "nothing of ours"
    );
    let error = space.sessions.resume(torn, key("h")).await.unwrap_err();
    assert!(!error.is_transient(), "{error}");
    space.pass(GRACE).await;
    let claims = space.sessions.claim(9).await.unwrap();
    let claimed: std::collections::BTreeSet<_> = claims.claims.iter().map(|it| it.id).collect();
    assert_eq!(claimed, [whole, torn].into());
    assert_eq!(claims.swept.invalid, 1);
    let reconciled = space.sessions.reconcile().finish().await.unwrap();
    // Its broadcaster names no session that we know.
    assert_eq!((reconciled.unrecognised, reconciled.faults()), (2, 0), "{reconciled:?}");
}

/// While the store was away nobody could say that they are still there: when it is back
/// they have the length of a lease to do so, before anything is reaped.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_an_outage_those_who_are_still_there_can_say_so_first() {
    let server = RedisServer::start();
    let proxy = FaultProxy::start(server.port()).await;
    let clock = ManualClock::at(ms(START_MS));
    let mut set = StoreOptions::default();
    set.clock = clock.clone().into();
    // A machine that is busy with other tests is no outage.
    set.deadline = Duration::from_secs(5);
    let gate = Tidegate::open_with(&proxy.url(), set).await.unwrap();
    let sessions = gate.sessions("sessions", options(|_| {})).unwrap();
    let id = sessions.activate(key("b"), "", Some(key("h"))).await.unwrap().done().unwrap().id;
    proxy.set(Fault::Cut);
    until("the fault is noticed", async || sessions.heartbeat(id, key("h")).await.err()).await;
    // Longer than its lease and its grace.
    clock.advance_ms(LEASE + GRACE + 1000);
    proxy.set(Fault::None);
    let held_until = START_MS + LEASE + GRACE + 1000 + LEASE;
    let claims = until("the store is back", async || sessions.claim(9).await.ok()).await;
    assert_eq!(claims.claims, []);
    assert_eq!(claims.swept.held_until, Some(ms(held_until)));
    assert_eq!(claims.swept.retry_after_ms, Some(LEASE));
    assert_eq!(sessions.cleanup().await.unwrap().deleted, 0);
    pass(&clock, &sessions, LEASE - 1).await;
    assert_eq!(sessions.claim(9).await.unwrap().swept.retry_after_ms, Some(1));
    let lease = sessions.heartbeat(id, key("h")).await.unwrap().done().unwrap();
    assert_eq!((lease.generation.get(), lease.until), (1, ms(held_until - 1 + LEASE)));
    // Whoever does not come back is reaped after all.
    pass(&clock, &sessions, LEASE + GRACE).await;
    assert_eq!(sessions.claim(9).await.unwrap().claims.len(), 1);
}

/// A server whose memory is full can still be looked at.
#[tokio::test]
async fn a_full_server_tells_what_it_has() {
    let server = RedisServer::start();
    let (_gate, sessions) = sessions_on(&server.url()).await;
    let id = sessions.activate(key("b"), "", Some(key("h"))).await.unwrap().done().unwrap().id;
    does(&mut server.connection(), &["CONFIG SET maxmemory 1"]);
    assert_eq!(sessions.counts().await.unwrap().active, 1);
    assert_eq!(sessions.get(id).await.unwrap().unwrap().ref_count, 1);
}
