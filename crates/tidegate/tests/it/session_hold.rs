//! Holds, as the store keeps them: what begins one, what it is read as, what is reaped beside
//! it, and calls that come too late. Stops in real time are the server's tests.

use std::time::Duration;

use tidegate::Tidegate;
use tidegate::session::{Answer, Refusal, SessionOptions, State};
use tidegate::testkit::RedisServer;
use tidegate::testkit::session::SessionModel;

use crate::kit::{CLUSTER, REDIS};
use crate::outage::until;
use crate::session::{GRACE, LEASE, START_MS, Space, key, ms, open, options};
use crate::session_flaws::{does, raw};

/// A claim that waited in Redis's socket until its caller had given up claimed for nobody, and
/// a cleanup deleted.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_comes_too_late_reaps_nothing() {
    let server = RedisServer::start();
    let gate = Tidegate::open(&server.url()).await.unwrap();
    let sessions = gate.sessions("sessions", options(|it| it.grace = Duration::ZERO)).unwrap();
    let id = sessions.activate(key("b"), "", Some(key("h"))).await.unwrap().done().unwrap().id;
    sessions.disconnect(id, key("h")).await.unwrap().done().unwrap();
    for is_claim in [true, false] {
        server.freeze();
        let answer = match is_claim {
            true => sessions.claim(9).await.map(drop),
            false => sessions.cleanup().await.map(drop),
        };
        assert!(answer.unwrap_err().is_transient());
        // Its deadline is over, and what it has sent is still there.
        server.thaw();
        let session = until("the store is back", async || sessions.get(id).await.ok()).await.unwrap();
        assert_eq!((session.state, session.attempts), (State::Orphan, 0), "by a claim: {is_claim}");
    }
    assert_eq!(sessions.claim(9).await.unwrap().claims.len(), 1);
}

/// What a process says of its time is only as good as its last answer: the first call of all is
/// made twice.
#[tokio::test]
async fn a_process_that_has_asked_nothing_yet_can_claim() {
    let server = RedisServer::start();
    let first = Tidegate::open(&server.url()).await.unwrap();
    let sessions = first.sessions("sessions", options(|it| it.grace = Duration::ZERO)).unwrap();
    let id = sessions.activate(key("b"), "", Some(key("h"))).await.unwrap().done().unwrap().id;
    sessions.disconnect(id, key("h")).await.unwrap().done().unwrap();
    let second = Tidegate::open(&server.url()).await.unwrap();
    let sessions = second.sessions("sessions", options(|it| it.grace = Duration::ZERO)).unwrap();
    assert_eq!(sessions.claim(9).await.unwrap().claims.len(), 1);
}

/// Every kind of call finds out, reads too; and what is written then counts for all.
#[tokio::test]
async fn whoever_comes_first_finds_out() {
    for first in 0..6 {
        for space in Space::everywhere(|_| {}).await {
            let (on, sessions) = (space.on, &space.sessions);
            let id = space.held("b", "h").await;
            sessions.stamp().await.unwrap();
            space.clock.advance_ms(LEASE + GRACE + 1);
            match first {
                0 => assert_eq!(sessions.claim(9).await.unwrap().claims, [], "{on}"),
                1 => assert_eq!(sessions.cleanup().await.unwrap().deleted, 0, "{on}"),
                2 => assert_eq!(space.get(id).await.state, State::Active, "{on}"),
                3 => assert_eq!(sessions.counts().await.unwrap().active, 1, "{on}"),
                4 => assert_eq!(sessions.list(State::Active, 9).await.unwrap().sessions.len(), 1, "{on}"),
                _ => assert!(sessions.stamp().await.unwrap().is_some(), "{on}"),
            }
            let held_until = START_MS + LEASE + GRACE + 1 + LEASE;
            space.pass(LEASE - 1).await;
            assert_eq!(sessions.counts().await.unwrap().held_until, Some(ms(held_until)), "{on}, {first}");
            assert_eq!(sessions.delete(id).await.unwrap(), Answer::Refused(Refusal::Active), "{on}, {first}");
            assert_eq!(sessions.list(State::Disconnected, 9).await.unwrap().sessions, [], "{on}, {first}");
            space.pass(1).await;
            assert_eq!(space.get(id).await.last_disconnect, Some(ms(held_until)), "{on}, {first}");
            space.pass(GRACE - 1).await;
            assert_eq!(sessions.cleanup().await.unwrap().deleted, 0, "{on}, {first}");
            space.pass(1).await;
            assert_eq!(sessions.cleanup().await.unwrap().deleted, 1, "{on}, {first}");
        }
    }
}

/// What a hold is about is leases that could not be renewed: one that had ended before has.
#[tokio::test]
async fn a_lease_that_had_ended_before_is_over_in_a_hold_too() {
    for space in Space::everywhere(|_| {}).await {
        let (on, sessions) = (space.on, &space.sessions);
        let id = space.held("b", "gone").await;
        space.pass(LEASE - 1).await;
        sessions.connect(id, key("there")).await.unwrap().done().unwrap();
        space.pass(1).await;
        space.clock.advance_ms(LEASE);
        assert_eq!(
            sessions.heartbeat(id, key("gone")).await.unwrap(),
            Answer::Refused(Refusal::Lapsed),
            "{on}"
        );
        assert_eq!(space.get(id).await.ref_count, 1, "{on}");
        assert_eq!(
            sessions.heartbeat(id, key("there")).await.unwrap().done().unwrap().generation.get(),
            1,
            "{on}"
        );
    }
}

/// With a session_ttl of no more than lease and grace a session that was kept by a hold had
/// expired before anybody could renew.
#[tokio::test]
async fn what_a_hold_keeps_can_be_renewed_and_resumed_however_long_the_stop_was() {
    let set = |it: &mut tidegate::session::SessionOptions| {
        it.session_ttl = it.grace + it.holder_lease;
        it.migration_lease = it.session_ttl;
    };
    for space in Space::everywhere(set).await {
        let (on, sessions) = (space.on, &space.sessions);
        let (renewed, resumed) = (space.held("renewed", "h").await, space.held("resumed", "h").await);
        sessions.stamp().await.unwrap();
        space.clock.advance_ms(2 * (LEASE + GRACE));
        assert!(sessions.heartbeat(renewed, key("h")).await.unwrap().is_done(), "{on}");
        space.pass(LEASE + GRACE - 1).await;
        assert!(sessions.resume(resumed, key("h")).await.unwrap().is_done(), "{on}: within its grace");
    }
}

/// In a cluster each partition has a hold of its own: what others have is reaped.
#[tokio::test]
async fn a_hold_of_one_partition_is_no_other_ones() {
    let space = Space::cluster(|_| {}).await;
    for number in 0..60 {
        space.left(&format!("b{number}")).await;
    }
    space.pass(GRACE).await;
    let states = format!("KEYS *{}*sessions:state", space.namespace);
    let is_set_back = CLUSTER.nodes().iter().any(|node| {
        let mut connection = node.connection();
        let keys: Vec<String> = raw(&mut connection, &states);
        keys.first().is_some_and(|state| {
            does(&mut connection, &[&format!("HINCRBY {state} now -{LEASE}")]);
            true
        })
    });
    assert!(is_set_back);
    let found = space.sessions.claim(100).await.unwrap();
    assert_eq!(found.swept.retry_after_ms, Some(LEASE));
    assert!((1..60).contains(&found.claims.len()), "{}", found.claims.len());
    assert_eq!(space.metric("tidegate_session_held_partitions"), 1);
    space.pass(LEASE).await;
    let rest = space.sessions.claim(100).await.unwrap();
    assert_eq!((found.claims.len() + rest.claims.len(), rest.swept.held_until), (60, None));
}

/// A loss may have taken heartbeats; a state that is gone tells nothing; and a hold that cannot
/// be is read as one of a lease.
#[tokio::test]
async fn a_loss_and_a_state_that_is_gone_begin_a_hold_once() {
    let space = Space::redis(|_| {}).await;
    let (sessions, mut connection) = (&space.sessions, REDIS.connection());
    space.held("b", "h").await;
    let marker = format!("{}:tidegate:marker", space.namespace);
    let state = format!("{}:sessions:state", space.namespace);
    let now = || space.clock.now().as_millis();
    assert_eq!(raw::<String>(&mut connection, &format!("HGET {marker} lost_ms")), "0");
    does(&mut connection, &[&format!("HSET {marker} lost_ms {}", now())]);
    space.clock.advance_ms(1);
    assert_eq!(sessions.stamp().await.unwrap(), Some(ms(now() + LEASE)));
    space.pass(LEASE).await;
    assert_eq!(sessions.stamp().await.unwrap(), None, "it is known by now");
    does(&mut connection, &[&format!("DEL {state}")]);
    assert_eq!(sessions.stamp().await.unwrap(), Some(ms(now() + LEASE)));
    space.pass(LEASE).await;
    does(&mut connection, &[&format!("HSET {state} hold 9000000000000000")]);
    assert_eq!(sessions.stamp().await.unwrap(), Some(ms(now() + LEASE)));
    space.pass(LEASE).await;
    assert_eq!(sessions.stamp().await.unwrap(), None);
    assert_eq!(space.metric("tidegate_session_holds_total"), 3);
}

/// Nobody calls, and no reaper runs: whoever has a space open says that it is there.
#[tokio::test]
async fn a_process_stamps_by_itself() {
    let server = RedisServer::start();
    let gate = Tidegate::open(&server.url()).await.unwrap();
    let sessions = gate.sessions("sessions", options(|it| it.holder_lease = Duration::from_secs(1))).unwrap();
    sessions.counts().await.unwrap();
    let mut connection = server.connection();
    let mut stamp = || raw::<u64>(&mut connection, "HGET sessions:state now");
    let mut last = stamp();
    for _ in 0..4 {
        let next = until("the next stamp", async || Some(stamp()).filter(|it| *it > last)).await;
        assert!(next - last < 500, "half a lease: {next} after {last}");
        last = next;
    }
}

/// A new space on a store that has lost something long ago has nothing to hold.
#[tokio::test]
async fn a_space_without_sessions_begins_without_a_hold() {
    let space = Space::redis(|_| {}).await;
    let marker = format!("{}:tidegate:marker", space.namespace);
    does(&mut REDIS.connection(), &[&format!("HSET {marker} lost_ms 5")]);
    space.left("b").await;
    space.pass(GRACE).await;
    let swept = space.sessions.cleanup().await.unwrap();
    assert_eq!((swept.deleted, swept.held_until), (1, None));
}

/// A process with a shorter lease, such as a command line without the server's settings, cut a
/// hold to its own length: whoever had not renewed by then was reaped.
#[tokio::test]
async fn who_has_a_shorter_lease_does_not_end_a_hold() {
    for space in Space::everywhere(|_| {}).await.into_iter().filter(|it| it.on != "memory") {
        let (on, id) = (space.on, space.held("b", "h").await);
        space.clock.advance_ms(LEASE + GRACE + 1);
        assert!(space.sessions.stamp().await.unwrap().is_some(), "{on}");
        let held_until = Some(ms(START_MS + 2 * LEASE + GRACE + 1));

        let other = open(&space.url, &space.namespace, Some(&space.clock)).await;
        let shorter = options(|it| (it.holder_lease, it.grace) = (Duration::from_secs(1), Duration::ZERO));
        let others = other.sessions(space.sessions.space().as_str(), shorter).unwrap();
        assert_eq!(others.counts().await.unwrap().held_until, held_until, "{on}");
        for _ in 0..6 {
            space.clock.advance_ms(400);
            assert_eq!(others.cleanup().await.unwrap().deleted, 0, "{on}");
        }
        // Nor does a stall that only the other takes for one.
        space.clock.advance_ms(2000);
        assert_eq!(others.cleanup().await.unwrap().deleted, 0, "{on}");
        assert_eq!(space.sessions.counts().await.unwrap().held_until, held_until, "{on}");
        assert!(space.sessions.heartbeat(id, key("h")).await.unwrap().is_done(), "{on}");
    }
}

/// A clock that was absurdly ahead and comes by the same moments again: leases that had ended by
/// then count again if they are still written down. Which ones are is no matter of the kind of
/// store, and together they are never more than there may be.
#[tokio::test]
async fn leases_that_count_again_are_the_same_everywhere_and_never_too_many() {
    let s = Duration::from_secs;
    for (most, leaves, expected) in [
        (2, false, ["b", "c"].as_slice()),
        (3, false, &["a", "b", "c"]),
        (50, false, &["a", "b", "c"]),
        (50, true, &["a", "b"]),
    ] {
        let set = |it: &mut SessionOptions| {
            (it.grace, it.holder_lease, it.session_ttl, it.migration_lease) = (s(0), s(3), s(3), s(3));
            (it.retention, it.claim_lease, it.max_holders) = (s(63), s(4), most);
        };
        for space in Space::everywhere(set).await {
            let (sessions, mut model) = (&space.sessions, SessionModel::new(options(set)));
            let id = space.held("b", "a").await;
            model.activate(START_MS, id, "b", "{}", Some("a")).unwrap();
            for (at_ms, name) in [(1000, "b"), (3000, "c")] {
                let at_ms = START_MS + at_ms;
                space.reach(at_ms).await;
                model.stamp(at_ms - 1000);
                let lease = sessions.connect(id, key(name)).await.unwrap();
                assert_eq!(lease.into_result(), model.connect(at_ms, id, name, None), "{}", space.on);
            }
            if leaves {
                sessions.disconnect(id, key("c")).await.unwrap().done().unwrap();
                model.disconnect(START_MS + 3000, id, "c", None).unwrap();
            }
            space.set(START_MS - 64_000);
            sessions.stamp().await.unwrap();
            space.reach(START_MS + 2000).await;
            for at_ms in (START_MS - 64_000..START_MS + 2000).step_by(1000) {
                model.stamp(at_ms);
            }
            let session = space.get(id).await;
            let holders: Vec<_> = session.holders.iter().map(|it| it.holder.as_str()).collect();
            assert_eq!(holders, expected, "{}, at most {most}", space.on);
            assert_eq!(Some(session), model.get(START_MS + 2000, id), "{}, at most {most}", space.on);
        }
    }
}
