//! A rollback and the way back: what the older program holds meanwhile is not reaped.
//!
//! Its commands are those of its own document: it counts holders in `ref_count`, and writes
//! `last_disconnect` when the last one leaves or the first one comes back.

use std::collections::HashSet;

use tidegate::random::Random;
use tidegate::session::{Answer, Disconnect, Generation, Refusal, SessionId, State};

use crate::session::{CLAIM, GRACE, LEASE, START_MS, key};
use crate::session_flaws::raw;
use crate::session_migration::{MIGRATION, Old};
use crate::session_world::orders;

/// What the older program does when somebody comes to a session that it takes for active.
fn counts_one(old: &Old, id: SessionId) {
    old.old_program(&[format!("INCR ref_count:{id}")]);
}

/// The same to one that it takes for disconnected.
fn resumes(old: &Old, id: SessionId) {
    counts_one(old, id);
    old.old_program(&[
        format!("HSET session:{id} last_disconnect 0"),
        format!("ZREM disconnected_sessions {id}"),
    ]);
}

/// Whether there is anything left of what it counts.
fn is_counted(old: &Old, id: SessionId) -> bool {
    raw(&mut old.server.connection(), &format!("EXISTS {}:ref_count:{id}", old.space.namespace))
}

#[tokio::test]
async fn what_is_held_there_is_deleted_by_no_way_that_deletes() {
    let old = Old::with(0).await;
    let (space, sessions) = (&old.space, &old.space.sessions);
    // Claimed here when the older program comes, dead, active, and disconnected.
    let (claimed, dead) = (space.left("claimed").await, space.left("dead").await);
    space.pass(GRACE).await;
    for _ in 0..5 {
        assert_eq!(sessions.claim(9).await.unwrap().claims.len(), 2);
        space.pass(CLAIM).await;
    }
    assert_eq!(sessions.claim(9).await.unwrap().swept.buried, 2, "both are dead by now");
    assert_eq!(sessions.retry(claimed).await.unwrap(), Answer::Done(()));
    let again = sessions.claim(9).await.unwrap().claims.remove(0);
    assert_eq!(again.id, claimed);
    let (active, touched) = (space.held("active", "h").await, space.held("touched", "h").await);
    let (left, also_left) = (space.left("left").await, space.left("also left").await);
    let all = [active, touched, claimed, dead, left, also_left];

    for id in [active, touched, left] {
        counts_one(&old, id);
    }
    for id in [claimed, dead, also_left] {
        resumes(&old, id);
    }
    // The last holder here leaves one of them.
    assert_eq!(sessions.disconnect(touched, key("h")).await.unwrap(), Answer::Done(Disconnect::Held));
    assert_eq!(sessions.ack(claimed, again.generation).await.unwrap(), Answer::Refused(Refusal::Stale));
    assert_eq!(sessions.delete(dead).await.unwrap(), Answer::Refused(Refusal::Active));
    assert_eq!(sessions.delete(left).await.unwrap(), Answer::Refused(Refusal::Active));
    space.pass(LEASE + GRACE).await;
    assert_eq!(sessions.claim(9).await.unwrap().claims, []);
    assert_eq!(sessions.cleanup().await.unwrap().deleted, 0);
    let reconciled = old.reconcile().await;
    assert_eq!(reconciled.adopted_active, 1, "the one that was in no set of ours: {reconciled:?}");
    for id in all {
        let session = space.get(id).await;
        assert_eq!(session.state, State::Active, "{session:?}");
        assert!(session.generation.get() >= 2, "it is in another life: {session:?}");
    }
    assert_eq!(old.audit(), all.len());

    // What does not change for the length of a migration lease is what a crash has left.
    space.pass(MIGRATION - LEASE - GRACE - 1).await;
    assert_eq!(sessions.cleanup().await.unwrap().deleted, 0);
    assert!(all.iter().all(|id| is_counted(&old, *id)));
    space.pass(LEASE + GRACE + GRACE + 1).await;
    assert_eq!(sessions.cleanup().await.unwrap().deleted, all.len() as u64);
    assert!(!all.iter().any(|id| is_counted(&old, *id)));
    assert_eq!(old.audit(), 0);
}

/// All that the older program may have done so far is to write `last_disconnect`: it counts a moment
/// later, or died in between.
#[tokio::test]
async fn a_session_resumed_there_while_it_is_reaped_is_in_another_life() {
    let old = Old::with(0).await;
    let (space, sessions) = (&old.space, &old.space.sessions);
    let names = ["acked", "renewed", "resumed", "cleaned", "ended", "left there", "also ended", "untouched"];
    let mut ids = Vec::new();
    for name in names {
        ids.push(space.left(name).await);
    }
    let [acked, renewed, resumed, cleaned, ended, left_there, also_ended, untouched] = ids[..] else {
        panic!()
    };
    space.pass(GRACE).await;
    let first = sessions.claim(9).await.unwrap().claims;
    assert_eq!(first.len(), names.len());
    let generation = |id| first.iter().find(|it| it.id == id).unwrap().generation;
    let sets_active = |id: SessionId| old.old_program(&[format!("HSET session:{id} last_disconnect 0")]);

    // While the claim runs.
    for id in [acked, renewed, resumed] {
        sets_active(id);
    }
    let now_s = space.clock.now().as_millis() / 1000;
    old.old_program(&[format!("HSET session:{left_there} last_disconnect {now_s}")]);
    assert_eq!(sessions.ack(acked, generation(acked)).await.unwrap(), Answer::Refused(Refusal::Stale));
    assert_eq!(
        sessions.renew(renewed, generation(renewed), 1).await.unwrap(),
        Answer::Refused(Refusal::Stale)
    );
    assert_eq!(sessions.resume(resumed, key("h")).await.unwrap().done().unwrap().generation.get(), 2);
    assert_eq!(
        sessions.ack(left_there, generation(left_there)).await.unwrap(),
        Answer::Refused(Refusal::Stale)
    );
    assert_eq!(space.get(left_there).await.state, State::Disconnected, "resumed, and left again");
    assert_eq!(
        sessions.ack(untouched, generation(untouched)).await.unwrap(),
        Answer::Done(()),
        "its claim is good"
    );

    // After it has ended.
    space.pass(CLAIM - 1).await;
    sets_active(cleaned);
    space.pass(1).await;
    let swept = sessions.cleanup().await.unwrap();
    assert_eq!(swept.deleted, 3, "two whose claim has ended, and what was left there: {swept:?}");
    assert!(
        sessions.get(ended).await.unwrap().is_none() && sessions.get(also_ended).await.unwrap().is_none()
    );
    for (id, state) in [(acked, State::Active), (renewed, State::Active), (cleaned, State::Active)] {
        let session = space.get(id).await;
        assert_eq!((session.state, session.generation.get()), (state, 2), "{session:?}");
    }
    assert_eq!(old.audit(), 4);
}

/// The same of one that is found by a claim, or was put aside.
#[tokio::test]
async fn neither_is_one_claimed_again_or_given_up() {
    let old = Old::with(0).await;
    let (space, sessions) = (&old.space, &old.space.sessions);
    let (claimed, retried, deleted, found) =
        (space.left("a").await, space.left("b").await, space.left("c").await, space.left("d").await);
    let sets_active = |id: SessionId| old.old_program(&[format!("HSET session:{id} last_disconnect 0")]);
    space.pass(GRACE).await;
    for _ in 0..5 {
        assert_eq!(sessions.claim(9).await.unwrap().claims.len(), 4);
        space.pass(CLAIM).await;
    }
    sets_active(claimed);
    let claims = sessions.claim(9).await.unwrap();
    assert_eq!((claims.claims.len(), claims.swept.buried), (0, 3));
    for id in [retried, deleted, found] {
        sets_active(id);
    }
    assert_eq!(sessions.retry(retried).await.unwrap(), Answer::Refused(Refusal::NotClaimed));
    assert_eq!(sessions.delete(deleted).await.unwrap(), Answer::Refused(Refusal::Active));
    let (foretold, reconciled) = (old.dry_run().await, old.reconcile().await);
    assert_eq!(foretold, reconciled);
    assert_eq!(reconciled.adopted_active, 1, "{reconciled:?}");
    for id in [claimed, retried, deleted, found] {
        let session = space.get(id).await;
        assert_eq!((session.state, session.generation.get()), (State::Active, 2), "{session:?}");
    }
    assert_eq!(old.audit(), 4);
    // Nobody says anything of them any more.
    space.pass(MIGRATION + GRACE).await;
    assert_eq!(sessions.cleanup().await.unwrap().deleted, 4);
    assert_eq!(old.audit(), 0);
}

#[tokio::test]
async fn every_change_there_is_another_hand() {
    let old = Old::with(0).await;
    let (space, sessions) = (&old.space, &old.space.sessions);
    let id = space.held("b", "h").await;
    let changes = [
        format!("INCR ref_count:{id}"),
        format!("INCR ref_count:{id}"),
        format!("DECR ref_count:{id}"),
        format!("HSET session:{id} value 2 last_update 1700000001"),
        format!("HSET session:{id} last_disconnect 1700000002"),
        format!("HSET session:{id} last_update never"),
    ];
    space.pass(LEASE - 1).await;
    for change in changes {
        old.old_program(std::slice::from_ref(&change));
        space.pass(1).await;
        assert_eq!(sessions.cleanup().await.unwrap().deleted, 0);
        assert_eq!(space.get(id).await.state, State::Active, "{change}");
        space.pass(MIGRATION - 1).await;
    }
    // A new value that is ours is none, and does not hide one that is theirs.
    sessions.connect(id, key("h")).await.unwrap().done().unwrap();
    sessions.update(id, "ours", None).await.unwrap().done().unwrap();
    space.pass(LEASE).await;
    assert_eq!(space.get(id).await.state, State::Disconnected, "nothing has changed but by us");
    counts_one(&old, id);
    assert_eq!(
        sessions.connect(id, key("h")).await.unwrap().done().unwrap().generation,
        space.get(id).await.generation
    );
    space.pass(MIGRATION - 1).await;
    sessions.connect(id, key("h")).await.unwrap().done().unwrap();
    space.pass(2).await;
    old.old_program(&[format!("HSET session:{id} value 3 last_update 1700009999")]);
    sessions.update(id, "ours", None).await.unwrap().done().unwrap();
    space.pass(LEASE + GRACE).await;
    assert_eq!(sessions.cleanup().await.unwrap().deleted, 0);
    assert_eq!(space.get(id).await.state, State::Active, "its value was theirs a moment ago");
    space.pass(MIGRATION + GRACE).await;
    assert_eq!(sessions.cleanup().await.unwrap().deleted, 1);
    assert_eq!(old.audit(), 0);
}

/// What it has counted goes when nobody is left, whoever was the last.
#[tokio::test]
async fn a_counter_does_not_stay_behind_when_a_session_is_left() {
    let old = Old::with(3).await;
    let (space, sessions) = (&old.space, &old.space.sessions);
    let id = crate::session_migration::id(0);
    old.reconcile().await;
    assert!(is_counted(&old, id));
    space.pass(MIGRATION - 1).await;
    sessions.connect(id, key("c")).await.unwrap().done().unwrap();
    space.pass(2).await;
    sessions.heartbeat(id, key("c")).await.unwrap().done().unwrap();
    assert_eq!(sessions.disconnect(id, key("c")).await.unwrap(), Answer::Done(Disconnect::Disconnected));
    assert!(!is_counted(&old, id), "the older program would never delete it");
    // Something else under that name is not ours to delete.
    old.old_program(&[format!("RPUSH ref_count:{id} 1")]);
    space.pass(GRACE).await;
    assert_eq!(sessions.cleanup().await.unwrap().deleted, 3);
    assert!(is_counted(&old, id));
}

/// Random orders of what the older program, our clients, reapers and time do to a session.
/// Whatever the older program has counted last, in a way that was not there before, keeps
/// the session and its counter for the length of a migration lease.
#[tokio::test]
async fn nothing_is_deleted_under_the_hands_of_the_older_program() {
    const LENGTH: usize = 14;
    let orders = orders(3000) as usize;
    let old = Old::with(0).await;
    let random = Random::seeded(9);
    let mut protected = 0;
    for number in 0..orders {
        let order: Vec<_> = (0..LENGTH).map(|_| (random.bits() % 17) as u8).collect();
        let run = run(&old, number, &order).await;
        protected += run.unwrap_or_else(|fault| panic!("{fault}: order {number}, {order:?}"));
    }
    assert!(protected > orders, "{protected} times something was kept");
    assert_eq!(old.audit(), 0);
}

/// How often a step of ours met what must be kept.
async fn run(old: &Old, number: usize, order: &[u8]) -> Result<usize, String> {
    let (space, sessions) = (&old.space, &old.space.sessions);
    let broadcaster = format!("b{number}");
    let id = space.held(&broadcaster, "h").await;
    let (counter, session) =
        (format!("{}:ref_count:{id}", space.namespace), format!("{}:session:{id}", space.namespace));
    let mut connection = old.server.connection();
    let mut triple = || -> Option<(i64, String, String)> {
        let count: Option<i64> = raw(&mut connection, &format!("GET {counter}"));
        let (updated, left): (Option<String>, Option<String>) =
            raw(&mut connection, &format!("HMGET {session} last_update last_disconnect"));
        Some((count.unwrap_or(0), updated?, left?))
    };
    let (mut known, mut kept_until, mut met) = (HashSet::new(), 0, 0);
    let mut claims: Vec<Generation> = Vec::new();
    for (place, step) in order.iter().enumerate() {
        let Some(before) = triple() else { return Ok(met) };
        known.insert((before.0, before.1.clone()));
        let now_s = space.clock.now().as_millis() / 1000;
        let is_theirs = *step < 5;
        match *step {
            0 => counts_one(old, id),
            1 => resumes(old, id),
            2 if before.0 > 0 => {
                old.old_program(&[format!("DECR ref_count:{id}")]);
                if before.0 == 1 {
                    old.old_program(&[
                        format!("HSET session:{id} last_disconnect {now_s}"),
                        format!("ZADD disconnected_sessions {now_s} {id}"),
                    ]);
                }
            }
            3 => {
                old.old_program(&[format!("HSET session:{id} value v last_update {}", now_s + place as u64)])
            }
            // A process that dies between its two steps.
            4 => old.old_program(&[format!("HSET session:{id} last_disconnect 0")]),
            5 => {
                let _ = sessions.resume(id, key("h")).await.unwrap();
            }
            6 => {
                let _ = sessions.connect(id, key("i")).await.unwrap();
            }
            7 => {
                let _ = sessions.disconnect(id, key("h")).await.unwrap();
            }
            8 => {
                let _ = sessions.heartbeat(id, key("i")).await.unwrap();
            }
            9 => {
                let _ = sessions.update(id, "ours", None).await.unwrap();
            }
            10 => {
                let found = sessions.claim(1000).await.unwrap().claims;
                claims.extend(found.iter().filter(|it| it.id == id).map(|it| it.generation));
            }
            11 => {
                for generation in &claims {
                    let _ = sessions.ack(id, *generation).await.unwrap();
                }
            }
            12 => {
                let _ = sessions.delete(id).await.unwrap();
            }
            13 => {
                let _ = sessions.cleanup().await.unwrap();
            }
            14 => {
                let _ = old.reconcile().await;
            }
            15 => space.pass(LEASE + GRACE).await,
            16 => space.skip(MIGRATION / 2 + CLAIM).await,
            _ => {}
        }
        let (now, after) = (space.clock.now().as_millis(), triple());
        if !is_theirs {
            if now < kept_until {
                met += 1;
                let count = after.as_ref().map(|it| it.0);
                if count != Some(before.0) {
                    return Err(format!(
                        "held there, and {after:?} is left of {before:?} after step {place}"
                    ));
                }
            }
            continue;
        }
        let Some(after) = after else { return Err("the older program deleted nothing".to_owned()) };
        if after.0 <= 0 {
            kept_until = 0;
        } else if known.insert((after.0, after.1.clone())) {
            kept_until = now + MIGRATION;
        } else if after.0 < before.0 {
            // What it was before somebody came there need not be looked at anew.
            kept_until = 0;
        }
    }
    // Nobody comes any more, here or there: all of it ends.
    for _ in 0..4 {
        let _ = sessions.cleanup().await.unwrap();
        old.reconcile().await;
        space.skip(MIGRATION + LEASE + GRACE + CLAIM).await;
    }
    sessions.cleanup().await.unwrap();
    // One that was claimed too often waits for somebody.
    let _ = sessions.delete(id).await.unwrap();
    if let Some(left) = triple() {
        return Err(format!("{left:?} is left"));
    }
    if raw::<bool>(&mut old.server.connection(), &format!("EXISTS {counter}")) {
        return Err("its counter is left".to_owned());
    }
    Ok(met)
}

/// What it costs: a session that the older program never had a hand on is as it was.
#[tokio::test]
async fn only_what_was_held_there_remembers_it() {
    let old = Old::with(3).await;
    let (space, sessions) = (&old.space, &old.space.sessions);
    let length = |id: SessionId| -> usize {
        raw(&mut old.server.connection(), &format!("HSTRLEN {}:session:{id} s", space.namespace))
    };
    let ours = space.held("ours", "h").await;
    old.reconcile().await;
    assert_eq!(length(ours), 29);
    let theirs = crate::session_migration::id(0);
    assert_eq!(length(theirs), 29 + "1 1600000000".len());
    assert_eq!(sessions.connect(theirs, key("c")).await.unwrap().done().unwrap().generation.get(), 1);
    assert_eq!(space.get(theirs).await.last_seen.as_millis(), START_MS);
}
