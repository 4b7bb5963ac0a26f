//! Sessions that an older program has written are taken over beside live traffic, and
//! what it does when it comes back is respected.
//!
//! `TIDEGATE_OLD_SESSIONS` sets how many are migrated; 200,000 with `scripts/test --long`.

use std::collections::BTreeMap;
use std::time::Duration;

use tidegate::ErrorKind;
use tidegate::session::{Answer, Disconnect, Found, Reconciled, Refusal, SessionId, State};
use tidegate::testkit::RedisServer;

use crate::hot::from_env;
use crate::session::{GRACE, LEASE, START_MS, Space, key, ms, options};
use crate::session_audit::audit;
use crate::session_flaws::{does, raw};

const HOUR: u64 = 3_600_000;
/// The default: how long holders that nobody knows have to come back.
pub(crate) const MIGRATION: u64 = HOUR;

pub(crate) fn id(number: usize) -> SessionId {
    format!("{number:08x}-0000-4000-8000-{number:012x}").parse().unwrap()
}

/// When the older program says that a session was left: every third is active. Some have
/// been left for weeks.
fn left_ms(number: usize) -> Option<u64> {
    let ago_ms = (number as u64 * 7919 % (20 * 24 * 3600)) * 1000;
    (!number.is_multiple_of(3)).then(|| START_MS - GRACE - 1000 - ago_ms)
}

/// A server with what an older program has left there.
pub(crate) struct Old {
    pub(crate) server: RedisServer,
    pub(crate) space: Space,
}

impl Old {
    pub(crate) async fn with(count: usize) -> Self {
        let server = RedisServer::start();
        let space = Space::on("redis", &server.url(), options(|it| it.max_sessions = 10_000_000)).await;
        let (prefix, mut connection) = (format!("{}:", space.namespace), server.connection());
        let numbers: Vec<_> = (0..count).collect();
        for numbers in numbers.chunks(1000) {
            let mut pipe = redis::pipe();
            for number in numbers {
                let (id, left) = (id(*number), left_ms(*number).unwrap_or(0));
                // In seconds here, and in milliseconds there.
                let left = if number % 2 == 0 { left / 1000 } else { left };
                let fields: [(&str, &str); 5] = [
                    ("value", "v"),
                    ("broadcaster_user_id", &format!("old{number}")),
                    ("config_json", "{}"),
                    ("last_disconnect", &left.to_string()),
                    ("last_update", "1600000000"),
                ];
                pipe.hset_multiple(format!("{prefix}session:{id}"), &fields).ignore();
                pipe.set(format!("{prefix}broadcaster:old{number}"), id.to_string()).ignore();
                pipe.set(format!("{prefix}ref_count:{id}"), i32::from(left == 0)).ignore();
            }
            pipe.exec(&mut connection).unwrap();
        }
        Self { server, space }
    }

    /// Everything there is but when that was seen, by key: what is in it and whether it ends.
    fn snapshot(&self) -> BTreeMap<String, (Vec<u8>, bool)> {
        let mut connection = self.server.connection();
        let mut keys: Vec<String> = raw(&mut connection, "KEYS *");
        keys.retain(|key| !key.ends_with("sessions:state"));
        let read = |key: String| {
            let kind: String = redis::cmd("TYPE").arg(&key).query(&mut connection).unwrap();
            let mut words: Vec<Vec<u8>> = match &*kind {
                "hash" => redis::cmd("HGETALL").arg(&key).query(&mut connection).unwrap(),
                "zset" => {
                    let mut range = redis::cmd("ZRANGE");
                    range.arg(&key).arg(0).arg(-1).arg("WITHSCORES").query(&mut connection).unwrap()
                }
                "list" => redis::cmd("LRANGE").arg(&key).arg(0).arg(-1).query(&mut connection).unwrap(),
                _ => vec![redis::cmd("GET").arg(&key).query(&mut connection).unwrap()],
            };
            if kind == "hash" {
                words.sort();
            }
            let ends = redis::cmd("PTTL").arg(&key).query::<i64>(&mut connection).unwrap() >= 0;
            (key, (words.concat(), ends))
        };
        keys.into_iter().map(read).collect()
    }

    /// A command on a key of the space.
    pub(crate) fn old_program(&self, commands: &[String]) {
        let prefix = format!("{}:", self.space.namespace);
        let commands: Vec<_> = commands.iter().map(|it| it.replacen(' ', &format!(" {prefix}"), 1)).collect();
        does(&mut self.server.connection(), &commands.iter().map(String::as_str).collect::<Vec<_>>());
    }

    pub(crate) fn audit(&self) -> usize {
        audit(vec![self.server.connection()], &format!("{}:", self.space.namespace))
    }

    pub(crate) async fn reconcile(&self) -> Reconciled {
        self.space.sessions.reconcile().finish().await.unwrap()
    }

    pub(crate) async fn dry_run(&self) -> Reconciled {
        self.space.sessions.reconcile_dry_run(Duration::ZERO).finish().await.unwrap()
    }
}

#[tokio::test]
async fn all_sessions_are_taken_over_beside_live_traffic() {
    let count = from_env("TIDEGATE_OLD_SESSIONS", 20_000);
    let old = Old::with(count).await;
    let (space, sessions) = (&old.space, &old.space.sessions);
    let active = (0..count).filter(|number| left_ms(*number).is_none()).count();

    let mut reconciliation = sessions.reconcile();
    // What is live beside it: new sessions that come and go, old ones that come back.
    let (mut held, mut left, mut resumed, mut met) = (0, 0, 0, 0);
    for turn in 0.. {
        if reconciliation.step().await.unwrap().is_none() {
            break;
        }
        let broadcaster = format!("new{turn}");
        match turn % 4 {
            0 => drop(space.left(&broadcaster).await),
            1 => drop(space.held(&broadcaster, "h").await),
            2 => {
                // One that its old client still has, from the far end of those that are.
                let id = id(count - 3 - count % 3 - 3 * (turn % 200));
                met += usize::from(space.get(id).await.generation.get() == 1);
                sessions.connect(id, key("back")).await.unwrap().done().unwrap();
            }
            _ => {
                let number = turn * 97 % count;
                let was_left = left_ms(number).filter(|at| at + 24 * HOUR > START_MS);
                let answer = sessions.resume(id(number), key("back")).await.unwrap();
                resumed += usize::from(was_left.is_some() && answer.is_done() && number >= turn % 4);
                assert!(answer.is_done() || was_left.is_none(), "{number}: {answer:?}");
            }
        }
        held += usize::from(turn % 4 == 1);
        left += usize::from(turn % 4 == 0);
    }
    assert!(held > 10 && met > 0, "{held} new, {met} met on the way");
    let found = reconciliation.total;
    // Some were taken over by whoever asked for them first.
    assert!(found.adopted_active + found.adopted_disconnected <= count as u64, "{found:?}");
    assert!(found.adopted_active + found.adopted_disconnected + 4 * held as u64 >= count as u64, "{found:?}");

    let found = old.dry_run().await;
    assert_eq!((found.faults(), found.invalid), (0, 0), "{found:?}");
    assert_eq!(found.sessions as usize, count + held + left);
    assert_eq!(old.audit(), count + held + left, "the index is exact");
    let counts = sessions.counts().await.unwrap();
    assert_eq!((counts.active + counts.disconnected) as usize, count + held + left);
    assert!(counts.active as usize >= active + held + resumed, "{counts:?}, {active} {held} {resumed}");
    let again = old.reconcile().await;
    assert_eq!(again.faults(), 0, "{again:?}");
}

#[tokio::test]
async fn a_dry_run_and_reconciling_again_change_nothing() {
    let old = Old::with(700).await;
    old.space.gate.declare().await.unwrap();
    let before = old.snapshot();
    let mut dry_run = old.space.sessions.reconcile_dry_run(Duration::ZERO);
    let mut orphans = Vec::new();
    while let Some(step) = dry_run.step().await.unwrap() {
        orphans.extend(step.orphans);
    }
    let found = dry_run.total;
    assert_eq!(old.snapshot(), before, "who looks writes nothing");
    let noted: Vec<String> = raw(&mut old.server.connection(), "KEYS *:sessions:state");
    assert_eq!(noted, Vec::<String>::new(), "not even that");
    assert_eq!((found.adopted_active, found.adopted_disconnected), (234, 466), "{found:?}");
    orphans.sort();
    orphans.dedup();
    let mut expected: Vec<_> = (0..700).filter_map(|it| Some((left_ms(it)?, id(it)))).collect();
    expected.sort_unstable();
    assert_eq!(orphans.iter().map(|it| (it.at.as_millis(), it.id)).collect::<Vec<_>>(), expected);

    let reconciled = old.reconcile().await;
    assert_eq!((reconciled.adopted_active, reconciled.adopted_disconnected), (234, 466), "{reconciled:?}");
    assert_eq!(old.audit(), 700);
    assert_eq!(old.server.keys_without_ttl(), Vec::<String>::new());
    let by_index = old.space.sessions.orphans(Duration::ZERO, 1000).await.unwrap().sessions;
    assert_eq!(by_index, orphans, "the index says what the sessions say");
    let after = old.snapshot();
    for _ in 0..2 {
        assert_eq!(old.reconcile().await.faults(), 0);
        assert_eq!(old.dry_run().await.faults(), 0);
        assert_eq!(old.snapshot(), after);
    }
}

#[tokio::test]
async fn reconciling_goes_on_where_it_was_left() {
    let old = Old::with(2000).await;
    let mut looked_at = 0;
    let mut adopted = 0;
    // Each is dropped after two steps, as if its process had been killed.
    for _ in 0..10 {
        let mut reconciliation = old.space.sessions.reconcile();
        reconciliation.step().await.unwrap().unwrap();
        reconciliation.step().await.unwrap().unwrap();
        looked_at += reconciliation.total.looked_at;
        adopted += reconciliation.total.adopted_active + reconciliation.total.adopted_disconnected;
    }
    assert!(adopted < 2000, "there is something left to do");
    let rest = old.reconcile().await;
    assert_eq!(adopted + rest.adopted_active + rest.adopted_disconnected, 2000);
    let all = looked_at + rest.looked_at;
    // Keys that grow between two steps may be seen twice.
    assert!((6000..7000).contains(&all), "{all} looked at");
    assert_eq!(old.dry_run().await.faults(), 0);
    assert_eq!(old.audit(), 2000);
}

#[tokio::test]
async fn active_ones_that_never_come_back_are_reaped_and_those_that_do_are_not() {
    let old = Old::with(90).await;
    let (space, sessions) = (&old.space, &old.space.sessions);
    old.reconcile().await;
    let counts = sessions.counts().await.unwrap();
    assert_eq!((counts.active, counts.disconnected), (30, 60));
    assert_eq!(sessions.cleanup().await.unwrap().deleted, 60);
    // Some come back: by their session, or by their broadcaster.
    sessions.connect(id(0), key("c")).await.unwrap().done().unwrap();
    let found = sessions.activate(key("old3"), "{}", Some(key("c"))).await.unwrap().done().unwrap();
    assert_eq!((found.id, found.found), (id(3), Found::Active));
    // One that leaves may not have been the only one: the others have their time.
    assert_eq!(sessions.disconnect(id(0), key("c")).await.unwrap(), Answer::Done(Disconnect::Held));
    space.reach(START_MS + MIGRATION - 1).await;
    assert_eq!(sessions.counts().await.unwrap().active, 30);
    assert_eq!(sessions.cleanup().await.unwrap().deleted, 0);
    sessions.resume(id(3), key("c")).await.unwrap().done().unwrap();
    space.pass(1).await;
    let counts = sessions.counts().await.unwrap();
    assert_eq!((counts.active, counts.disconnected), (1, 29));
    space.reach(START_MS + MIGRATION + GRACE).await;
    assert_eq!(sessions.cleanup().await.unwrap().deleted, 29);
    assert_eq!(space.get(id(3)).await.ref_count, 1);
    assert_eq!(old.audit(), 1);
    // Counters of the older program go with their sessions.
    let counters: Vec<String> = raw(&mut old.server.connection(), "KEYS *ref_count:*");
    assert_eq!(counters.len(), 1, "{counters:?}");
}

/// Wrong types, wrong names, and keys of others: none of it is touched, and none of it is
/// in anybody's way.
#[tokio::test]
async fn junk_is_reported_and_left_alone() {
    let old = Old::with(60).await;
    let (space, sessions) = (&old.space, &old.space.sessions);
    let wrong = id(1000);
    old.old_program(&[
        "HSET session:not-a-uuid last_disconnect 5".to_owned(),
        "HSET session:0000000A-0000-4000-8000-00000000000A last_disconnect 5".to_owned(),
        format!("SET session:{wrong} text"),
        "RPUSH unrelated 1 2 3".to_owned(),
        "SET sessional 1".to_owned(),
        // Entries of an index: no id, a key of another type, no session, in milliseconds.
        "ZADD disconnected_sessions 5 not-a-uuid".to_owned(),
        format!("ZADD disconnected_sessions 5 {wrong}"),
        format!("ZADD disconnected_sessions 5 {}", id(2000)),
        format!("ZADD disconnected_sessions {} {}", left_ms(1).unwrap(), id(1)),
        // A broadcaster's key of another type, and a session without most of its fields.
        "DEL broadcaster:old2".to_owned(),
        "RPUSH broadcaster:old2 1".to_owned(),
        format!("HSET session:{} last_disconnect 1600000000.5", id(3000)),
        format!("HSET session:{} broadcaster_user_id x", id(3001)),
    ]);
    let junk = |old: &Old| -> Vec<_> {
        let mut all = old.snapshot();
        all.retain(|key, _| {
            ["not-a-uuid", "A-0000", "unrelated", "sessional", &wrong.to_string()]
                .iter()
                .any(|it| key.contains(it))
        });
        all.into_iter().collect()
    };
    let before = junk(&old);
    assert_eq!(before.len(), 5);
    // Nobody has looked after it so far.
    assert_eq!(sessions.claim(10).await.unwrap().swept.retry_after_ms, Some(LEASE));
    space.pass(LEASE).await;
    // A reaper that runs before it is reconciled is not stopped by it either.
    let claims = sessions.claim(10).await.unwrap();
    assert_eq!((claims.swept.invalid, claims.swept.missing), (2, 1), "{:?}", claims.swept);
    let claimed: Vec<_> = claims.claims.iter().map(|it| (it.id, it.since.as_millis())).collect();
    assert_eq!(claimed, [(id(1), left_ms(1).unwrap())], "the one that was dated far ahead");
    old.old_program(&[
        format!("ZADD disconnected_sessions 6 {wrong}"),
        "ZADD active_sessions 7 nobody".to_owned(),
    ]);

    let reconciled = old.reconcile().await;
    assert_eq!(
        (reconciled.unrecognised, reconciled.invalid, reconciled.unindexed),
        (4, 1, 2),
        "{reconciled:?}"
    );
    assert_eq!(junk(&old), before);
    let found = old.dry_run().await;
    assert_eq!((found.faults(), found.invalid, found.unrecognised), (0, 0, 4), "{found:?}");
    assert_eq!(space.get(id(3000)).await.last_disconnect, Some(ms(1_600_000_000_500)));
    assert_eq!(space.get(id(3001)).await.state, State::Active);
    assert_eq!(sessions.get(wrong).await.unwrap(), None);
    // All that was left is deleted, that of the strange broadcaster too.
    space.pass(60_000).await;
    let disconnected = (0..60).filter(|number| left_ms(*number).is_some()).count() as u64;
    assert_eq!(sessions.cleanup().await.unwrap().deleted, disconnected + 1);
    assert_eq!(junk(&old), before);
}

/// Whatever is called first takes a session over.
#[tokio::test]
async fn a_session_is_taken_over_by_whoever_asks_for_it() {
    let old = Old::with(30).await;
    let sessions = &old.space.sessions;
    let recent = |number: usize| left_ms(number).unwrap() + 24 * HOUR > START_MS;
    assert!(recent(1) && recent(2) && recent(4) && recent(5) && recent(7));
    assert_eq!(sessions.resume(id(1), key("c")).await.unwrap().done().unwrap().generation.get(), 2);
    assert_eq!(sessions.connect(id(2), key("c")).await.unwrap(), Answer::Refused(Refusal::Disconnected));
    assert_eq!(sessions.connect(id(3), key("c")).await.unwrap().done().unwrap().generation.get(), 1);
    assert_eq!(sessions.delete(id(0)).await.unwrap(), Answer::Refused(Refusal::Active));
    assert_eq!(sessions.delete(id(4)).await.unwrap(), Answer::Done(()));
    assert_eq!(sessions.heartbeat(id(6), key("c")).await.unwrap(), Answer::Refused(Refusal::Lapsed));
    assert_eq!(sessions.disconnect(id(9), key("c")).await.unwrap(), Answer::Done(Disconnect::Held));
    assert_eq!(sessions.update(id(5), "new", None).await.unwrap().done().unwrap().get(), 1);
    let activated = sessions.activate(key("old7"), "{}", None).await.unwrap().done().unwrap();
    assert_eq!((activated.id, activated.found), (id(7), Found::Disconnected));
    let session = sessions.find(key("old8")).await.unwrap().unwrap();
    assert_eq!((session.id, session.last_disconnect), (id(8), left_ms(8).map(ms)));
    assert_eq!(sessions.ack(id(10), session.generation).await.unwrap(), Answer::Refused(Refusal::NotClaimed));
    assert_eq!(sessions.retry(id(11)).await.unwrap(), Answer::Refused(Refusal::NotClaimed));
    let counts = sessions.counts().await.unwrap();
    assert_eq!((counts.active, counts.disconnected), (6, 5), "only those that were asked for");
    old.reconcile().await;
    assert_eq!(old.audit(), 29);
}

/// An older program came back for a while: what it wrote then counts.
#[tokio::test]
async fn what_an_older_program_does_after_a_rollback_is_respected() {
    let old = Old::with(0).await;
    let (space, sessions) = (&old.space, &old.space.sessions);
    let (resumed, left, again, deleted) = (
        space.left("r").await,
        space.held("l", "h").await,
        space.held("a", "h").await,
        space.left("d").await,
    );
    let claimed = space.left("c").await;
    // What it reads: 0 while active, a time in whole seconds otherwise.
    let field = |id: SessionId| -> u64 {
        let command = format!("HGET {}:session:{id} last_disconnect", space.namespace);
        raw(&mut old.server.connection(), &command)
    };
    assert_eq!((field(resumed), field(left)), (START_MS / 1000, 0));
    space.pass(GRACE).await;
    for number in 0..2 {
        // The others are kept from being claimed.
        assert_eq!(
            sessions
                .resume([resumed, deleted][number], key("h"))
                .await
                .unwrap()
                .done()
                .unwrap()
                .generation
                .get(),
            2
        );
        sessions.disconnect([resumed, deleted][number], key("h")).await.unwrap().done().unwrap();
    }
    let claim = sessions.claim(9).await.unwrap().claims.remove(0);
    assert_eq!(claim.id, claimed);
    let second = (START_MS + GRACE) / 1000 + 5;
    old.old_program(&[
        // Its resume, its disconnect, both, its deletion, and a resume of what is claimed.
        format!("HSET session:{resumed} last_disconnect 0"),
        format!("ZREM disconnected_sessions {resumed}"),
        format!("HSET session:{left} last_disconnect {second}"),
        format!("ZADD disconnected_sessions {second} {left}"),
        format!("HSET session:{again} last_disconnect {second}"),
        format!("HSET session:{again} last_disconnect 0"),
        format!("DEL session:{deleted}"),
        format!("ZREM disconnected_sessions {deleted}"),
        format!("HSET session:{claimed} last_disconnect 0"),
    ]);
    space.pass(10_000).await;
    let reconciled = old.reconcile().await;
    // It has also found the one that is held, and has left it.
    assert_eq!((reconciled.adopted_active, reconciled.adopted_disconnected), (2, 0), "{reconciled:?}");
    let session = space.get(resumed).await;
    assert_eq!((session.state, session.generation.get()), (State::Active, 3), "it was resumed");
    let session = space.get(left).await;
    assert_eq!((session.state, session.generation.get()), (State::Active, 1), "somebody holds it here");
    assert_eq!(space.get(again).await.generation.get(), 1, "nothing came of it");
    assert_eq!(sessions.get(deleted).await.unwrap(), None);
    assert_eq!(space.get(claimed).await.state, State::Active, "it is held there");
    assert_eq!(sessions.ack(claimed, claim.generation).await.unwrap(), Answer::Refused(Refusal::Stale));
    // The one that it has deleted has left us its broadcaster, as the older program does.
    assert_eq!(sessions.find(key("d")).await.unwrap(), None);
    assert_eq!(old.dry_run().await.faults(), 0);
    // Nobody holds it here any more, and there it was left.
    space.pass(LEASE).await;
    let later = space.clock.now().as_millis() / 1000 - 1;
    old.old_program(&[format!("HSET session:{left} last_disconnect {later}")]);
    let session = space.get(left).await;
    assert_eq!((session.state, session.last_disconnect), (State::Disconnected, Some(ms(later * 1000))));
    assert_eq!(session.generation.get(), 2);
    // Who holds what the older program resumed is not known: they have their time.
    space.pass(MIGRATION + GRACE + LEASE).await;
    assert_eq!(sessions.cleanup().await.unwrap().deleted, 4);
    assert_eq!(sessions.counts().await.unwrap().active, 0);
}

/// What an older program counts is what keeps it from deleting a session.
#[tokio::test]
async fn a_session_that_is_counted_as_held_is_taken_over_as_active() {
    let old = Old::with(0).await;
    let (space, sessions) = (&old.space, &old.space.sessions);
    let id = "67e55044-10b1-426f-9247-bb680e5fe0c8";
    let hour_ago = START_MS / 1000 - 3600;
    old.old_program(&[
        format!("HSET session:{id} broadcaster_user_id b value 1 last_disconnect {hour_ago}"),
        format!("SET ref_count:{id} 2"),
        format!("SET broadcaster:b {id}"),
    ]);
    assert_eq!(old.reconcile().await.adopted_active, 1);
    assert_eq!(sessions.cleanup().await.unwrap().deleted, 0);
    let id: SessionId = id.parse().unwrap();
    assert_eq!(space.get(id).await.state, State::Active);
    // It does not last for ever, and what was counted ends with it.
    space.pass(MIGRATION + GRACE).await;
    assert_eq!(sessions.cleanup().await.unwrap().deleted, 1);
    assert_eq!(old.dry_run().await.faults(), 0);
}

/// What a late resume or disconnect has left of a session ends; what has nothing that only a
/// session has may be anybody's.
#[tokio::test]
async fn what_a_late_write_has_left_gets_an_end() {
    let old = Old::with(0).await;
    old.old_program(&[
        format!("HSET session:{} last_disconnect 0", id(1)),
        format!("HSET session:{} last_disconnect 1600000000 last_update 5", id(2)),
        format!("HSET session:{} value 1 last_update 5", id(3)),
    ]);
    let reconciled = old.reconcile().await;
    assert_eq!(
        (reconciled.adopted_active, reconciled.adopted_disconnected, reconciled.unrecognised),
        (1, 1, 1)
    );
    assert_eq!(old.dry_run().await.faults(), 0);
    let theirs = format!("{}:session:{}", old.space.namespace, id(3));
    assert_eq!(old.server.keys_without_ttl(), [theirs]);
    old.space.pass(MIGRATION + GRACE).await;
    assert_eq!(old.space.sessions.cleanup().await.unwrap().deleted, 2);
}

/// Only what an older program may have written there is replaced.
#[tokio::test]
async fn a_mapping_to_something_else_is_left_alone() {
    let old = Old::with(0).await;
    let (space, sessions) = (&old.space, &old.space.sessions);
    for (number, id) in ["user-session-1", "67E55044-10B1-426F-9247-BB680E5FE0CG"].iter().enumerate() {
        let name = format!("b{number}");
        old.old_program(&[
            format!("HSET session:{id} broadcaster_user_id {name} value 1 last_disconnect 0"),
            format!("SET broadcaster:{name} {id}"),
        ]);
        let found = sessions.find(key(&name)).await.unwrap_err();
        let made = sessions.activate(key(&name), "{}", None).await.unwrap_err();
        assert_eq!([found, made].map(|it| it.kind()), [ErrorKind::Corrupt; 2], "{id}");
        let kept: String =
            raw(&mut old.server.connection(), &format!("GET {}:broadcaster:{name}", space.namespace));
        assert_eq!(kept, *id);
    }
    old.old_program(&[format!("SET broadcaster:b {}", id(7))]);
    assert_eq!(sessions.find(key("b")).await.unwrap(), None);
    let made = sessions.activate(key("b"), "{}", None).await.unwrap().done().unwrap();
    assert_eq!(space.get(made.id).await.broadcaster, "b");
}
