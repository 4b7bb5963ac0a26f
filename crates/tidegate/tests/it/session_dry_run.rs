//! A dry run of a cleanup foretells what the real one does, and writes nothing.

use std::collections::BTreeMap;

use crate::session::{CLAIM, GRACE, LEASE, START_MS, Space, key, options};
use crate::session_flaws::raw;
use crate::session_migration::{Old, id};

/// Left, silent, silent for longer, claimed too often, claimed once, just left, held: more of each than a batch.
async fn live(space: &Space) {
    let names = |kind: &'static str| (0..10).map(move |number| format!("{kind} {number}"));
    for name in names("buried") {
        space.left(&name).await;
    }
    space.pass(GRACE).await;
    for _ in 0..space.sessions.options().max_attempts - 1 {
        assert_eq!(space.sessions.claim(100).await.unwrap().claims.len(), 10);
        space.pass(CLAIM).await;
    }
    for name in names("claim ends") {
        space.left(&name).await;
    }
    for name in names("orphan by silence") {
        space.held(&name, "h").await;
    }
    space.pass(GRACE).await;
    assert_eq!(space.sessions.claim(100).await.unwrap().claims.len(), 20);
    for name in names("orphan") {
        space.left(&name).await;
    }
    space.pass(LEASE - GRACE + 1).await;
    for name in names("silent") {
        space.held(&name, "h").await;
    }
    space.pass(LEASE).await;
    for name in names("left") {
        space.left(&name).await;
    }
    for name in names("held") {
        space.held(&name, "h").await;
    }
}

#[tokio::test]
async fn it_is_what_a_cleanup_does_on_every_store() {
    for space in Space::everywhere(|it| it.batch = 5).await {
        live(&space).await;
        let sessions = &space.sessions;
        let (deleted_before, foretold) =
            (space.metric("orphan_sessions_deleted_total"), sessions.cleanup_dry_run().await.unwrap());
        assert_eq!(sessions.cleanup_dry_run().await.unwrap(), foretold, "{}: nothing has changed", space.on);
        assert_eq!(space.metric("orphan_sessions_deleted_total"), deleted_before, "{}", space.on);
        let done = sessions.cleanup().await.unwrap();
        assert_eq!(foretold, done, "{}", space.on);
        assert_eq!((done.deleted, done.lapsed, done.buried), (30, 20, 10), "{}: {done:?}", space.on);
        assert_eq!(done.lag_ms, LEASE + LEASE - GRACE - GRACE + 1, "{}", space.on);
        let again = sessions.cleanup_dry_run().await.unwrap();
        assert_eq!((again.deleted, again.lapsed, again.buried, again.lag_ms), (0, 0, 0, 0), "{}", space.on);
    }
}

/// All keys, bit by bit, and whether they end.
fn everything(old: &Old) -> BTreeMap<String, (Vec<u8>, bool)> {
    let mut connection = old.server.connection();
    let keys: Vec<String> = raw(&mut connection, "KEYS *");
    let mut read = |key: String| {
        let dump: Vec<u8> = redis::cmd("DUMP").arg(&key).query(&mut connection).unwrap();
        let ttl_ms: i64 = redis::cmd("PTTL").arg(&key).query(&mut connection).unwrap();
        (key, (dump, ttl_ms >= 0))
    };
    keys.into_iter().map(&mut read).collect()
}

/// What others have done to index and sessions is judged by it as by a cleanup, however it is
/// mixed, and counted once.
#[tokio::test]
async fn it_is_what_a_cleanup_does_with_what_others_have_written() {
    let old = Old::with(0).await;
    let gate = crate::session::open(&old.server.url(), &old.space.namespace, Some(&old.space.clock)).await;
    let sessions = gate.sessions("sessions", options(|it| it.batch = 9)).unwrap();
    let space = &old.space;
    live(space).await;
    let prefix = format!("{}:", space.namespace);
    let ids = |name: &str| -> Vec<String> {
        raw(&mut old.server.connection(), &format!("ZRANGE {prefix}{name} 0 -1"))
    };
    let (active, left, claimed) =
        (ids("active_sessions"), ids("disconnected_sessions"), ids("claimed_sessions"));
    let now_s = space.clock.now().as_millis() / 1000;
    let mut commands = vec![
        // Set active there, and left again there: lately, and long ago.
        format!("HSET session:{} last_disconnect 0", left[0]),
        format!("HSET session:{} last_disconnect {now_s}", left[1]),
        format!("HSET session:{} last_disconnect 1600000000", left[2]),
        format!("HSET session:{} last_disconnect 0", claimed[0]),
        format!("HSET session:{} last_disconnect {now_s}", claimed[1]),
        format!("HSET session:{} last_disconnect 1600000000", claimed[2]),
        format!("HSET session:{} last_disconnect 1600000000", active[0]),
        format!("INCR ref_count:{}", left[3]),
        format!("INCR ref_count:{}", claimed[3]),
        format!("INCR ref_count:{}", active[1]),
        // In other sets as well, or instead; due there and not.
        format!("ZADD disconnected_sessions 5 {}", active[2]),
        format!("ZADD claimed_sessions 5 {}", active[3]),
        format!("ZADD claimed_sessions 5 {}", left[4]),
        format!("ZADD active_sessions 5 {}", left[5]),
        format!("ZADD active_sessions 5 {}", claimed[4]),
        format!("ZADD disconnected_sessions 5 {}", claimed[5]),
        format!("ZREM claimed_sessions {}", claimed[5]),
        format!("ZADD disconnected_sessions {} {}", now_s + 5, left[6]),
        format!("ZADD active_sessions 5 {}", left[6]),
        format!("ZADD claimed_sessions 1e300 {}", claimed[6]),
        // Sessions that are gone, or cannot be read, or somebody else's.
        format!("DEL session:{}", left[7]),
        format!("DEL session:{}", active[4]),
        format!("DEL session:{}", claimed[7]),
        format!("HSET session:{} s garbage last_disconnect 1600000000", left[8]),
        format!("HSET session:{} theme dark", id(1)),
        format!("ZADD disconnected_sessions 5 {}", id(1)),
        format!("ZADD disconnected_sessions 5 {} 6 {}", id(2), id(3)),
        format!("ZADD active_sessions 5 {}", id(2)),
        // Never in a set of ours.
        format!("HSET session:{} broadcaster_user_id b last_disconnect 1600000000", id(4)),
        format!("ZADD disconnected_sessions 1600000000 {}", id(4)),
    ];
    for set in ["active_sessions", "disconnected_sessions", "claimed_sessions"] {
        let junk: Vec<_> = (0..50).map(|number| format!("{number} junk{number}")).collect();
        commands.push(format!("ZADD {set} {} inf last -inf first", junk.join(" ")));
    }
    old.old_program(&commands);
    let before = everything(&old);
    let foretold = sessions.cleanup_dry_run().await.unwrap();
    assert_eq!(everything(&old), before, "nothing is written");
    let done = sessions.cleanup().await.unwrap();
    assert_eq!(foretold, done);
    assert_eq!((done.invalid, done.missing), (3 * 52 + 1, 6), "{done:?}");
    assert_eq!(sessions.cleanup().await.unwrap().deleted, 0);
    gate.shutdown().await;
}

/// While a hold runs a cleanup waits; a dry run says what is due all the same, and that one runs.
#[tokio::test]
async fn a_hold_is_told_of() {
    for space in Space::everywhere(|_| {}).await {
        space.left("left").await;
        space.held("silent", "h").await;
        space.clock.advance_ms(LEASE + GRACE + 1);
        let foretold = space.sessions.cleanup_dry_run().await.unwrap();
        let held = (foretold.held_until, foretold.retry_after_ms);
        assert_eq!((foretold.deleted, foretold.lapsed), (1, 0), "{}: {foretold:?}", space.on);
        let done = space.sessions.cleanup().await.unwrap();
        assert_eq!((done.deleted, (done.held_until, done.retry_after_ms)), (0, held), "{}", space.on);
        assert!(held.0.is_some(), "{}", space.on);
    }
}

/// How far behind the reaper is goes by sessions, and by no moment that there was no Redis at.
#[tokio::test]
async fn the_lag_is_that_of_sessions() {
    let old = Old::with(0).await;
    let (space, sessions) = (&old.space, &old.space.sessions);
    sessions.stamp().await.unwrap();
    let lag_ms = async || sessions.counts().await.unwrap().lag_ms;
    old.old_program(&[
        "ZADD disconnected_sessions 0 a 1.5 b -inf c -7 d 1e9 e".to_owned(),
        "ZADD active_sessions 0 a 1500 b -inf c 1000000000000 e".to_owned(),
        format!("ZADD disconnected_sessions 3 {}", id(1)),
    ]);
    assert_eq!(lag_ms().await, 0, "nobody is due");
    space.left("b").await;
    let at_s = START_MS / 1000;
    let junk: Vec<_> = (0..10).map(|number| format!("{} junk{number}", at_s - 1000 + number)).collect();
    old.old_program(&[format!("ZADD disconnected_sessions {}", junk.join(" "))]);
    space.pass(GRACE + 77).await;
    assert_eq!(lag_ms().await, 77, "junk is passed by");
    let foretold = sessions.cleanup_dry_run().await.unwrap();
    let done = sessions.cleanup().await.unwrap();
    assert_eq!((foretold, done.lag_ms, done.deleted), (done, 77, 1));
    assert_eq!(sessions.find(key("b")).await.unwrap(), None);
    // Where there is more of it than is looked at, it is not less than that of any session behind it.
    space.left("b").await;
    let at_s = space.clock.now().as_millis() / 1000;
    let junk: Vec<_> = (0..100).map(|number| format!("{} junk{number}", at_s - 1000 + number)).collect();
    old.old_program(&[format!("ZADD disconnected_sessions {}", junk.join(" "))]);
    space.pass(GRACE + 77).await;
    let lag_ms = lag_ms().await;
    assert!((77..=1_001_077).contains(&lag_ms), "{lag_ms}");
}
