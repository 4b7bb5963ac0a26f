//! The flaws of the seed's design, S1 to S11: each a promise that it would break, and
//! where it is cheap, the seed's own commands breaking it.

use std::time::Duration;

use tidegate::clock::ManualClock;
use tidegate::session::{Answer, Refusal, SessionId, State};
use tidegate::store::StoreOptions;
use tidegate::testkit::RedisServer;
use tidegate::{ErrorKind, Tidegate};

use crate::kit::REDIS;
use crate::session::{CLAIM, GRACE, LEASE, START_MS, Space, key, ms, options};
use crate::session_audit::audit;

/// Commands as they would be typed.
pub(crate) fn raw<T: redis::FromRedisValue>(connection: &mut redis::Connection, command: &str) -> T {
    let mut words = command.split(' ');
    let mut command = redis::cmd(words.next().unwrap());
    for word in words {
        command.arg(word);
    }
    command.query(connection).unwrap()
}

/// Commands whose answers nobody looks at.
pub(crate) fn does(connection: &mut redis::Connection, commands: &[&str]) {
    for command in commands {
        raw::<redis::Value>(connection, command);
    }
}

/// The seed looks at `ref_count`, and then deletes, in two steps.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s1_a_session_that_is_resumed_is_never_deleted() {
    let server = RedisServer::start();
    let (mut reaper, mut client) = (server.connection(), server.connection());
    does(
        &mut client,
        &["HSET session:u last_disconnect 5", "SET ref_count:u 0", "ZADD disconnected_sessions 5 u"],
    );
    let count: i64 = raw(&mut reaper, "GET ref_count:u");
    does(
        &mut client,
        &["INCR ref_count:u", "HSET session:u last_disconnect 0", "ZREM disconnected_sessions u"],
    );
    assert_eq!(count, 0, "it may be deleted");
    does(&mut reaper, &["DEL session:u", "DEL ref_count:u", "ZREM disconnected_sessions u"]);
    assert!(!raw::<bool>(&mut client, "EXISTS session:u"), "the live session of the seed is gone");

    for space in Space::everywhere(|_| {}).await {
        let on = space.on;
        let mut ids = Vec::new();
        for number in 0..60 {
            ids.push(space.left(&format!("b{number}")).await);
        }
        space.pass(GRACE).await;
        let resuming = ids.iter().map(|id| {
            let (sessions, id) = (space.sessions.clone(), *id);
            tokio::spawn(async move { (id, sessions.resume(id, key("c")).await.unwrap().is_done()) })
        });
        let resuming: Vec<_> = resuming.collect();
        let deleting = ids.iter().map(|id| {
            let (sessions, id) = (space.sessions.clone(), *id);
            tokio::spawn(async move { u64::from(sessions.delete(id).await.unwrap().is_done()) })
        });
        let deleting: Vec<_> = deleting.collect();
        let sessions = space.sessions.clone();
        let cleaning = tokio::spawn(async move { sessions.cleanup().await.unwrap().deleted });
        let mut deleted = cleaning.await.unwrap();
        for task in deleting {
            deleted += task.await.unwrap();
        }
        let mut resumed = 0;
        for task in resuming {
            let (id, is_resumed) = task.await.unwrap();
            let session = space.sessions.get(id).await.unwrap();
            assert_eq!(session.is_some_and(|it| it.state == State::Active), is_resumed, "{on}");
            resumed += u64::from(is_resumed);
        }
        assert_eq!(resumed + deleted, 60, "{on}: {resumed} resumed, {deleted} deleted");
    }
}

/// The seed's late resume makes a hash without an end, outside the index, and its late
/// disconnect a count of −1.
#[tokio::test]
async fn s2_what_comes_after_the_deletion_changes_nothing() {
    let server = RedisServer::start();
    let mut connection = server.connection();
    does(&mut connection, &["HSET session:u last_disconnect 0", "DECR ref_count:u"]);
    assert_eq!(raw::<i64>(&mut connection, "PTTL session:u"), -1, "the zombie of the seed never ends");
    assert_eq!(raw::<i64>(&mut connection, "GET ref_count:u"), -1);

    for space in Space::everywhere(|_| {}).await {
        let (on, sessions) = (space.on, &space.sessions);
        let id = space.left("b").await;
        assert_eq!(sessions.delete(id).await.unwrap(), Answer::Done(()), "{on}");
        assert_eq!(sessions.connect(id, key("c")).await.unwrap(), Answer::Refused(Refusal::Gone), "{on}");
        assert_eq!(sessions.resume(id, key("c")).await.unwrap(), Answer::Refused(Refusal::Gone), "{on}");
        assert_eq!(sessions.heartbeat(id, key("h")).await.unwrap(), Answer::Refused(Refusal::Gone), "{on}");
        assert_eq!(sessions.disconnect(id, key("h")).await.unwrap(), Answer::Refused(Refusal::Gone), "{on}");
        assert_eq!(sessions.update(id, "v", None).await.unwrap(), Answer::Refused(Refusal::Gone), "{on}");
        assert_eq!(sessions.retry(id).await.unwrap(), Answer::Refused(Refusal::Gone), "{on}");
        assert_eq!(sessions.delete(id).await.unwrap(), Answer::Refused(Refusal::Gone), "{on}");
        assert_eq!(sessions.get(id).await.unwrap(), None, "{on}");
        assert_eq!(sessions.counts().await.unwrap(), Default::default(), "{on}");
        if on == "redis" {
            let keys: Vec<String> = raw(&mut REDIS.connection(), &format!("KEYS {}:*", space.namespace));
            let left: Vec<_> =
                keys.iter().filter(|key| !key.contains("state") && !key.contains("marker")).collect();
            assert!(left.is_empty(), "{left:?}");
        }
    }
}

/// The seed deletes `broadcaster:{id}` whatever it says by then.
#[tokio::test]
async fn s3_the_end_of_a_session_leaves_a_newer_one_its_broadcaster() {
    for space in Space::everywhere(|it| it.max_attempts = 1).await {
        let (on, sessions) = (space.on, &space.sessions);
        let old = space.left("b").await;
        space.pass(GRACE).await;
        let claim = sessions.claim(1).await.unwrap().claims.remove(0);
        let new = space.held("b", "h").await;
        assert_ne!(old, new, "{on}");
        assert_eq!(sessions.ack(old, claim.generation).await.unwrap(), Answer::Done(()), "{on}");
        assert_eq!(sessions.find(key("b")).await.unwrap().unwrap().id, new, "{on}: after ack");
        // The same by cleanup and by delete.
        for by_cleanup in [true, false] {
            let old = sessions.find(key("b")).await.unwrap().unwrap().id;
            space.pass(LEASE + GRACE).await;
            sessions.claim(1).await.unwrap();
            let new = space.held("b", "h").await;
            space.pass(CLAIM).await;
            // It is put aside, and tried again.
            assert_eq!(sessions.claim(1).await.unwrap().swept.buried, 1, "{on}");
            let new = if by_cleanup { new } else { space.held("b", "h").await };
            if by_cleanup {
                assert_eq!(sessions.retry(old).await.unwrap(), Answer::Done(()), "{on}");
                sessions.resume(new, key("h")).await.unwrap().done().unwrap();
                assert_eq!(sessions.cleanup().await.unwrap().deleted, 1, "{on}");
            } else {
                assert_eq!(sessions.delete(old).await.unwrap(), Answer::Done(()), "{on}");
            }
            assert_eq!(sessions.get(old).await.unwrap(), None, "{on}");
            assert_eq!(sessions.find(key("b")).await.unwrap().unwrap().id, new, "{on}");
        }
        // And if there is no newer one, it goes.
        space.pass(LEASE + GRACE).await;
        assert_eq!(sessions.cleanup().await.unwrap().deleted, 1, "{on}");
        assert_eq!(sessions.find(key("b")).await.unwrap(), None, "{on}");
    }
}

/// A process that counted itself in, and crashed, holds a session of the seed for ever.
#[tokio::test]
async fn s4_a_holder_that_crashes_holds_for_no_longer_than_its_lease() {
    for space in Space::everywhere(|_| {}).await {
        let (on, sessions) = (space.on, &space.sessions);
        let id = space.held("b", "lives").await;
        sessions.connect(id, key("crashes")).await.unwrap().done().unwrap();
        assert_eq!(space.get(id).await.ref_count, 2, "{on}");
        space.pass(LEASE - 1).await;
        sessions.heartbeat(id, key("lives")).await.unwrap().done().unwrap();
        assert_eq!(space.get(id).await.ref_count, 2, "{on}");
        space.pass(1).await;
        assert_eq!(space.get(id).await.ref_count, 1, "{on}");
        sessions.disconnect(id, key("lives")).await.unwrap().done().unwrap();
        let session = space.get(id).await;
        assert_eq!((session.state, session.ref_count), (State::Disconnected, 0), "{on}");
        assert_eq!(session.last_disconnect, Some(ms(START_MS + LEASE)), "{on}");
    }
}

/// In the seed a hash may end before its entry, and its broadcaster's key never does.
#[tokio::test]
async fn s5_a_session_ends_before_its_entry_and_never_without_its_broadcaster() {
    let space = Space::redis(|_| {}).await;
    let mut connection = REDIS.connection();
    let id = space.held("b", "h").await;
    let ttl =
        |connection: &mut _, name: &str| raw::<i64>(connection, &format!("PTTL {}:{name}", space.namespace));
    let session = ttl(&mut connection, &format!("session:{id}"));
    let broadcaster = ttl(&mut connection, "broadcaster:b");
    let retention = space.sessions.options().retention.as_millis() as i64;
    assert!(session > retention && broadcaster > retention, "{session} {broadcaster}");
    assert!(ttl(&mut connection, "active_sessions") > session.max(broadcaster));
    space.sessions.disconnect(id, key("h")).await.unwrap().done().unwrap();
    assert!(ttl(&mut connection, "disconnected_sessions") > session.max(broadcaster));
    // Signs of life put it off, once an hour.
    let short = |name: &str| format!("PEXPIRE {}:{name} 99999", space.namespace);
    does(&mut connection, &[&short(&format!("session:{id}")), &short("broadcaster:b")]);
    space.pass(3_600_000 - 1).await;
    space.sessions.resume(id, key("h")).await.unwrap().done().unwrap();
    assert!(ttl(&mut connection, &format!("session:{id}")) <= 99_999);
    space.pass(1000).await;
    space.sessions.heartbeat(id, key("h")).await.unwrap().done().unwrap();
    assert!(ttl(&mut connection, &format!("session:{id}")) > retention);
    assert!(ttl(&mut connection, "broadcaster:b") > retention);
    space.sessions.disconnect(id, key("h")).await.unwrap().done().unwrap();
    // Should it happen nevertheless, the entry goes, and keeps nothing else.
    let other = space.left("other").await;
    does(&mut connection, &[&format!("DEL {}:session:{id}", space.namespace)]);
    space.pass(GRACE).await;
    let swept = space.sessions.claim(10).await.unwrap();
    assert_eq!((swept.swept.missing, swept.claims.len()), (1, 1));
    assert_eq!(swept.claims[0].id, other);
    assert_eq!(space.metric("tidegate_session_missing_entries_total"), 1);
    assert_eq!(space.sessions.find(key("b")).await.unwrap(), None);
    assert_ne!(space.held("b", "h").await, id);
}

/// The seed sets a negative count to 0 in a second step, and loses whoever came between.
#[tokio::test]
async fn s6_leaving_twice_or_without_having_come_takes_nobody_elses_hold() {
    let server = RedisServer::start();
    let mut connection = server.connection();
    assert_eq!(raw::<i64>(&mut connection, "DECR ref_count:u"), -1);
    does(&mut connection, &["INCR ref_count:u", "INCR ref_count:u", "SET ref_count:u 0"]);
    assert_eq!(raw::<i64>(&mut connection, "GET ref_count:u"), 0, "one that came is not counted");

    for space in Space::everywhere(|_| {}).await {
        let (on, sessions) = (space.on, &space.sessions);
        let id = space.held("b", "a").await;
        sessions.connect(id, key("b")).await.unwrap().done().unwrap();
        for holder in ["a", "a", "nobody", "a"] {
            sessions.disconnect(id, key(holder)).await.unwrap().done().unwrap();
            let session = space.get(id).await;
            assert_eq!((session.state, session.ref_count), (State::Active, 1), "{on}: {holder}");
        }
        sessions.connect(id, key("b")).await.unwrap().done().unwrap();
        assert_eq!(space.get(id).await.ref_count, 1, "{on}: coming twice is coming once");
    }
}

/// The seed builds the index anew beside the old one, and renames it: what is added in
/// between is lost.
#[tokio::test]
async fn s7_what_is_left_while_the_index_is_reconciled_is_not_lost() {
    let server = RedisServer::start();
    let mut connection = server.connection();
    does(
        &mut connection,
        &["ZADD rebuilt 1 a", "ZADD disconnected_sessions 2 b", "RENAME rebuilt disconnected_sessions"],
    );
    assert_eq!(raw::<Vec<String>>(&mut connection, "ZRANGE disconnected_sessions 0 -1"), ["a"]);

    let space = Space::redis(|_| {}).await;
    for number in 0..300 {
        space.left(&format!("b{number}")).await;
    }
    let index = format!("{}:disconnected_sessions", space.namespace);
    let mut connection = REDIS.connection();
    let lost: Vec<String> = raw(&mut connection, &format!("ZRANGE {index} 0 99"));
    does(&mut connection, &[&format!("ZREM {index} {}", lost.join(" "))]);
    let mut reconciliation = space.sessions.reconcile();
    let mut number = 300;
    while reconciliation.step().await.unwrap().is_some() {
        space.left(&format!("b{number}")).await;
        number += 1;
    }
    assert_eq!(reconciliation.total.indexed, 100);
    assert_eq!(space.sessions.disconnected_count().await.unwrap(), number);
    assert_eq!(audit(vec![connection], &format!("{}:", space.namespace)) as u64, number);
}

/// The seed takes the caller's clock for scores, in seconds here and in milliseconds there.
#[tokio::test]
async fn s8_the_store_says_when_and_in_seconds() {
    let server = RedisServer::start();
    let mut set = StoreOptions::default();
    set.client_clock = Some(ManualClock::at(ms(77)).into());
    let gate = Tidegate::open_with(&server.url(), set).await.unwrap();
    let sessions = gate.sessions("sessions", options(|_| {})).unwrap();
    let mut connection = server.connection();
    let time = |connection: &mut redis::Connection| {
        let (seconds, micros): (f64, f64) = raw(connection, "TIME");
        seconds + micros / 1e6
    };
    let before = time(&mut connection);
    let id = sessions.activate(key("b"), "", Some(key("h"))).await.unwrap().done().unwrap().id;
    sessions.disconnect(id, key("h")).await.unwrap().done().unwrap();
    let after = time(&mut connection);
    let score: f64 = raw(&mut connection, &format!("ZSCORE disconnected_sessions {id}"));
    let field: f64 = raw(&mut connection, &format!("HGET session:{id} last_disconnect"));
    assert!(before.floor() <= field && field <= after, "{before} {field} {after}");
    assert!(before - 0.001 <= score && score <= after && score.floor() == field, "{before} {score} {after}");
}

/// The seed asks for all that are due at once, and deletes one by one.
#[tokio::test]
async fn s9_many_orphans_are_reaped_in_bounded_batches() {
    let server = RedisServer::start();
    let space = Space::on("redis", &server.url(), options(|_| {})).await;
    let mut ids: Vec<SessionId> = Vec::new();
    for number in 0..1050 {
        ids.push(space.left(&format!("b{number}")).await);
        space.pass(1).await;
    }
    space.pass(GRACE).await;
    let listed = space.sessions.orphans(Duration::from_millis(GRACE), 10).await.unwrap().sessions;
    assert_eq!(listed.iter().map(|it| it.id).collect::<Vec<_>>(), ids[..10]);
    let claims = space.sessions.claim(50).await.unwrap();
    assert_eq!((claims.claims.len(), claims.swept.is_more), (50, true));
    assert_eq!(space.sessions.claim(5000).await.unwrap().claims.len(), 1000, "never more");
    let tokens: Vec<_> = claims.claims.iter().map(|it| (it.id, it.generation)).collect();
    assert!(space.sessions.ack_many(&tokens).await.unwrap().iter().all(Answer::is_done));
    let calls = |connection: &mut redis::Connection| {
        let stats: String = raw(connection, "INFO commandstats");
        let calls = stats.lines().find_map(|line| line.strip_prefix("cmdstat_evalsha:calls="));
        calls.unwrap().split(',').next().unwrap().parse::<u64>().unwrap()
    };
    space.pass(CLAIM).await;
    let before = calls(&mut server.connection());
    assert_eq!(space.sessions.cleanup().await.unwrap().deleted, 1000);
    let round_trips = calls(&mut server.connection()) - before;
    assert!((10..=12).contains(&round_trips), "{round_trips} for 1000 in batches of 100");
}

/// The seed deletes first. A crash then loses the side effects.
#[tokio::test]
async fn s10_side_effects_that_were_not_acknowledged_are_due_again_with_the_same_token() {
    for space in Space::everywhere(|_| {}).await {
        let (on, sessions) = (space.on, &space.sessions);
        let id = space.left("b").await;
        space.pass(GRACE).await;
        let first = sessions.claim(9).await.unwrap().claims.remove(0);
        assert_eq!((first.id, first.attempt, &*first.broadcaster), (id, 1, "b"), "{on}");
        // The reaper crashes here.
        assert_eq!(sessions.claim(9).await.unwrap().claims, [], "{on}");
        assert_eq!(sessions.resume(id, key("h")).await.unwrap(), Answer::Refused(Refusal::Reaping), "{on}");
        space.pass(CLAIM).await;
        let second = sessions.claim(9).await.unwrap().claims.remove(0);
        assert_eq!((second.id, second.generation, second.attempt), (id, first.generation, 2), "{on}");
        // Whoever is first to acknowledge deletes it, once.
        let both = [(id, second.generation), (id, first.generation)];
        assert_eq!(
            sessions.ack_many(&both).await.unwrap(),
            [Answer::Done(()), Answer::Refused(Refusal::Gone)],
            "{on}"
        );
        assert_eq!(space.metric("orphan_sessions_deleted_total"), 1, "{on}");
    }
}

/// Nothing happens when a client falls silent, so nothing writes it down.
#[tokio::test]
async fn s11_a_session_that_falls_silent_is_found_without_an_event() {
    for space in Space::everywhere(|_| {}).await {
        let (on, sessions) = (space.on, &space.sessions);
        let id = space.held("b", "h").await;
        space.pass(LEASE - 1).await;
        assert_eq!(sessions.disconnected_count().await.unwrap(), 0, "{on}");
        space.pass(1).await;
        assert_eq!(sessions.disconnected_count().await.unwrap(), 1, "{on}");
        assert_eq!(sessions.orphans(Duration::ZERO, 9).await.unwrap().sessions[0].id, id, "{on}");
        space.pass(GRACE + 5).await;
        let counts = sessions.counts().await.unwrap();
        assert_eq!((counts.active, counts.orphans, counts.lag_ms), (0, 1, 5), "{on}");
        let claims = sessions.claim(9).await.unwrap();
        assert_eq!((claims.swept.lapsed, claims.claims[0].id), (1, id), "{on}");
        assert_eq!(
            claims.claims[0].since,
            ms(START_MS + LEASE),
            "{on}: when the lease ended, not when it was found"
        );
    }
}

/// What is not a session id is told so before anything is asked.
#[test]
fn ids_are_uuids() {
    for text in ["", "x", "67e55044-10b1-426f-9247", "session:67e55044-10b1-426f-9247-bb680e5fe0c8"] {
        assert_eq!(text.parse::<SessionId>().unwrap_err().kind(), ErrorKind::Invalid);
    }
}
