//! Keys of sessions that somebody else has written, or written to: of every family, of every
//! type and with garbage in every number. What is not ours is left alone, what is broken is told
//! by its name, nobody else is stopped by it, and a delete or a reconcile puts it right.

use std::collections::BTreeMap;

use tidegate::session::{Answer, Found, Refusal, SessionId, State};
use tidegate::{ErrorKind, Result};

use crate::kit::{FEW_KEYS, FEW_KEYS_CLUSTER};
use crate::session::{GRACE, LEASE, Space, key, options};
use crate::session_audit::audit;

/// Something of each type.
const TYPES: [&[&str]; 6] = [
    &["SET", "nonsense"],
    &["RPUSH", "x", "y"],
    &["SADD", "x"],
    &["ZADD", "1", "x"],
    &["HSET", "field", "x"],
    &["XADD", "1-1", "a", "b"],
];

/// What is no time, and what no time can be.
pub(crate) const GARBAGE: [&str; 10] =
    ["", "soon", "nan", "-nan", "inf", "-inf", "-5", "1e300", "99999999999999999999", "0x7fffffffffffffff"];

pub(crate) fn types_but(own: &str) -> impl Iterator<Item = &'static [&'static str]> {
    let own = match own {
        "hash" => "HSET",
        "zset" => "ZADD",
        _ => "SET",
    };
    TYPES.into_iter().filter(move |it| it[0] != own)
}

/// The servers below a space.
pub(crate) struct Raw(pub(crate) Vec<redis::Connection>);

impl Raw {
    pub(crate) fn below(space: &Space) -> Self {
        Self(match space.on {
            "cluster" => FEW_KEYS_CLUSTER.nodes().iter().map(|it| it.connection()).collect(),
            _ => vec![FEW_KEYS.connection()],
        })
    }

    /// The keys of a space that end like this, each with its server.
    pub(crate) fn find(&mut self, space: &Space, end: &str) -> Vec<(usize, String)> {
        let pattern = format!("{}:*", space.namespace);
        let mut found = Vec::new();
        for (node, connection) in self.0.iter_mut().enumerate() {
            let keys: Vec<String> = redis::cmd("KEYS").arg(&pattern).query(connection).unwrap();
            found.extend(keys.into_iter().filter(|it| it.ends_with(end)).map(|it| (node, it)));
        }
        found
    }

    pub(crate) fn one(&mut self, space: &Space, end: &str) -> (usize, String) {
        self.find(space, end).pop().unwrap_or_else(|| panic!("{}: nothing ends in {end}", space.on))
    }

    pub(crate) fn run(&mut self, (node, key): &(usize, String), words: &[&str]) {
        redis::cmd(words[0]).arg(key).arg(&words[1..]).exec(&mut self.0[*node]).unwrap();
    }

    /// Puts something else in the place of a key.
    pub(crate) fn plant(&mut self, at: &(usize, String), words: &[&str]) {
        redis::cmd("DEL").arg(&at.1).exec(&mut self.0[at.0]).unwrap();
        self.run(at, words);
    }

    /// What is in it, and when it ends.
    pub(crate) fn dump(&mut self, (node, key): &(usize, String)) -> (Option<Vec<u8>>, i64) {
        let dump = redis::cmd("DUMP").arg(key).query(&mut self.0[*node]).unwrap();
        (dump, redis::cmd("PTTL").arg(key).query(&mut self.0[*node]).unwrap())
    }

    pub(crate) fn score(&mut self, (node, set): &(usize, String), id: SessionId) -> Option<f64> {
        redis::cmd("ZSCORE").arg(set).arg(id.to_string()).query(&mut self.0[*node]).unwrap()
    }
}

pub(crate) async fn on_servers() -> [Space; 2] {
    [
        Space::on("redis", &FEW_KEYS.url(), options(|_| {})).await,
        Space::on("cluster", &FEW_KEYS_CLUSTER.url(), options(|_| {})).await,
    ]
}

/// How an operation went.
type Outcome = Result<Answer<()>>;

/// Every call on one session of `broadcaster`, with how it went. Those that could succeed are
/// last.
pub(crate) async fn all_calls(
    space: &Space,
    id: SessionId,
    broadcaster: &str,
) -> BTreeMap<&'static str, Outcome> {
    let sessions = &space.sessions;
    let generation = space.left("a life to name").await;
    let generation = space.get(generation).await.generation;
    let there = |it: Option<_>| if it.is_some() { Answer::Done(()) } else { Answer::Refused(Refusal::Gone) };
    let mut all = BTreeMap::new();
    all.insert("get", sessions.get(id).await.map(there));
    all.insert("find", sessions.find(key(broadcaster)).await.map(there));
    all.insert("connect", sessions.connect(id, key("x")).await.map(|it| it.map(drop)));
    all.insert("heartbeat", sessions.heartbeat(id, key("x")).await.map(|it| it.map(drop)));
    all.insert("resume", sessions.resume(id, key("x")).await.map(|it| it.map(drop)));
    all.insert("update", sessions.update(id, "1", None).await.map(|it| it.map(drop)));
    all.insert("renew", sessions.renew(id, generation, 1).await.map(|it| it.map(drop)));
    all.insert("ack", sessions.ack(id, generation).await);
    all.insert("retry", sessions.retry(id).await);
    all.insert("disconnect", sessions.disconnect(id, key("x")).await.map(|it| it.map(drop)));
    all
}

/// Every call that is not on one session.
pub(crate) async fn all_others(space: &Space) -> BTreeMap<&'static str, Outcome> {
    let sessions = &space.sessions;
    let mut all = BTreeMap::new();
    for (name, state) in [
        ("list active", State::Active),
        ("list disconnected", State::Disconnected),
        ("list orphans", State::Orphan),
        ("list claimed", State::Claimed),
        ("list dead", State::Dead),
    ] {
        all.insert(name, sessions.list(state, 100).await.map(|_| Answer::Done(())));
    }
    all.insert("counts", sessions.counts().await.map(|_| Answer::Done(())));
    all.insert("stamp", sessions.stamp().await.map(|_| Answer::Done(())));
    all.insert("claim", sessions.claim(100).await.map(|_| Answer::Done(())));
    all.insert("cleanup", sessions.cleanup().await.map(|_| Answer::Done(())));
    all.insert(
        "dry run",
        sessions.reconcile_dry_run(std::time::Duration::ZERO).finish().await.map(|_| Answer::Done(())),
    );
    all
}

#[track_caller]
pub(crate) fn assert_corrupt(outcome: &Outcome, named: &str, what: &str) {
    let error = outcome.as_ref().expect_err(what);
    assert_eq!(error.kind(), ErrorKind::Corrupt, "{what}: {error}");
    let message = error.to_string();
    assert!(message.contains(&format!("\"{named}\"")), "{what}: {message} does not name {named}");
    assert!(message.contains("the space of sessions \"sessions\""), "{what}: {message}");
}

/// Another type under the name of a session is somebody else's: to us there is no such session.
#[tokio::test]
async fn a_key_of_another_type_is_no_session_and_stops_nobody() {
    for space in on_servers().await {
        let (on, sessions, mut raw) = (space.on, &space.sessions, Raw::below(&space));
        for (number, plant) in types_but("hash").enumerate() {
            let (broken, other) = (format!("broken{number}"), format!("other{number}"));
            let (left, held) = (space.left(&broken).await, space.left(&format!("{broken} held")).await);
            let fine = space.left(&other).await;
            sessions.resume(held, key("h")).await.unwrap().done().unwrap();
            let what = format!("{on}: {plant:?}");
            let keys = [left, held].map(|id| raw.one(&space, &format!("session:{id}")));
            for key in &keys {
                raw.plant(key, plant);
            }
            let before = keys.each_ref().map(|key| raw.dump(key));

            for (call, outcome) in all_calls(&space, left, &broken).await {
                assert_eq!(outcome.unwrap(), Answer::Refused(Refusal::Gone), "{what}: {call}");
            }
            for (call, outcome) in all_others(&space).await {
                assert_eq!(outcome.unwrap(), Answer::Done(()), "{what}: {call}");
            }
            let listed = sessions.list(State::Disconnected, 100).await.unwrap();
            assert!(listed.sessions.iter().any(|it| it.id == fine), "{what}");
            // Nobody can delete what is not ours, but it leaves the index.
            assert_eq!(sessions.delete(held).await.unwrap(), Answer::Refused(Refusal::Gone), "{what}");
            assert!(sessions.list(State::Active, 100).await.unwrap().sessions.iter().all(|it| it.id != held));
            // Its broadcaster gets another.
            let again = sessions.activate(key(&broken), "{}", None).await.unwrap().done().unwrap();
            assert_eq!((again.found, again.id == left), (Found::Nothing, false), "{what}");

            space.pass(GRACE).await;
            let claims = sessions.claim(100).await.unwrap();
            assert!(claims.claims.iter().any(|it| it.id == fine), "{what}");
            assert!(claims.swept.invalid >= 1, "{what}: {claims:?}");
            for claim in claims.claims {
                assert_eq!(
                    sessions.ack(claim.id, claim.generation).await.unwrap(),
                    Answer::Done(()),
                    "{what}"
                );
            }
            assert_eq!(keys.each_ref().map(|key| raw.dump(key)), before, "{what}: nothing is written there");
            assert!(sessions.reconcile().anew().finish().await.unwrap().unrecognised >= 2, "{what}");
            assert_eq!(keys.each_ref().map(|key| raw.dump(key)), before, "{what}: nor by reconciling");
            keys.iter().for_each(|key| raw.run(key, &["DEL"]));
        }
    }
}

/// What somebody may have put into the field that says where a session is on its way.
fn broken_states() -> [Vec<u8>; 5] {
    let mut neither = vec![1; 29];
    neither[28] = 7;
    [Vec::new(), b"short".to_vec(), vec![0; 28], vec![0; 29], neither]
}

fn break_state(raw: &mut Raw, (node, key): &(usize, String), state: &[u8]) {
    redis::cmd("HSET").arg(key).arg("s").arg(state).exec(&mut raw.0[*node]).unwrap();
}

#[tokio::test]
async fn a_session_that_cannot_be_read_is_reported_and_a_delete_ends_it() {
    for space in on_servers().await {
        let (on, sessions, mut raw) = (space.on, &space.sessions, Raw::below(&space));
        for (number, state) in broken_states().iter().enumerate() {
            let what = format!("{on}: {state:?}");
            let name = format!("broken{number}");
            let (broken, fine) = (space.held(&name, "h").await, space.left(&format!("fine{number}")).await);
            let at = raw.one(&space, &format!("session:{broken}"));
            break_state(&mut raw, &at, state);
            for (call, outcome) in all_calls(&space, broken, &name).await {
                match call {
                    // Many travel together: one is not to fail for another.
                    "ack" => assert_eq!(outcome.unwrap(), Answer::Refused(Refusal::NotClaimed), "{what}"),
                    _ => assert_corrupt(&outcome, &at.1, &format!("{what}: {call}")),
                }
            }
            let activated = sessions.activate(key(&name), "{}", None).await.map(|it| it.map(drop));
            assert_corrupt(&activated, &at.1, &what);
            for (call, outcome) in all_others(&space).await {
                assert_eq!(outcome.unwrap(), Answer::Done(()), "{what}: {call}");
            }
            assert_eq!(space.get(fine).await.state, State::Disconnected, "{what}");

            assert_eq!(sessions.delete(broken).await.unwrap(), Answer::Done(()), "{what}");
            assert_eq!(sessions.get(broken).await.unwrap(), None, "{what}");
            assert_eq!(sessions.find(key(&name)).await.unwrap(), None, "{what}");
            let connections = std::mem::replace(&mut raw, Raw::below(&space)).0;
            audit(connections, &format!("{}:", space.namespace));
            sessions.activate(key(&name), "{}", None).await.unwrap().done().unwrap();
        }
    }
}

/// It is taken over like one of an older program, in a life that it cannot have had.
#[tokio::test]
async fn a_session_that_cannot_be_read_is_reconciled_and_reaped_when_it_is_due() {
    for space in on_servers().await {
        let (on, sessions, mut raw) = (space.on, &space.sessions, Raw::below(&space));
        for (number, state) in broken_states().iter().enumerate() {
            let what = format!("{on}: {state:?}");
            let held = space.held(&format!("held{number}"), "h").await;
            let left = space.left(&format!("left{number}")).await;
            let (due, behind) = (space.left(&format!("due{number}")).await, space.left("behind").await);
            let before = space.get(held).await.generation;
            for id in [held, left] {
                let at = raw.one(&space, &format!("session:{id}"));
                break_state(&mut raw, &at, state);
            }
            let forecast = sessions.reconcile_dry_run(std::time::Duration::ZERO).finish().await.unwrap();
            let reconciled = sessions.reconcile().anew().finish().await.unwrap();
            assert_eq!(reconciled, forecast, "{what}");
            assert_eq!(
                (reconciled.adopted_active, reconciled.adopted_disconnected),
                (1, 1),
                "{what}: {reconciled:?}"
            );
            let found = space.get(held).await;
            assert_eq!(found.state, State::Active, "{what}");
            assert!(found.generation > before, "{what}");
            assert_eq!(
                sessions.resume(held, key("h")).await.unwrap().done().unwrap().generation,
                found.generation
            );
            assert_eq!(space.get(left).await.state, State::Disconnected, "{what}");
            audit(Raw::below(&space).0, &format!("{}:", space.namespace));

            // Nobody needs to reconcile for it to end.
            let at = raw.one(&space, &format!("session:{due}"));
            break_state(&mut raw, &at, state);
            space.pass(GRACE).await;
            let claims = sessions.claim(100).await.unwrap().claims;
            assert!([left, due, behind].iter().all(|id| claims.iter().any(|it| it.id == *id)), "{what}");
            let acks: Vec<_> = claims.iter().map(|it| (it.id, it.generation)).collect();
            let at = raw.one(&space, &format!("session:{due}"));
            break_state(&mut raw, &at, state);
            // One among many that cannot be read.
            let acked = sessions.ack_many(&acks).await.unwrap();
            for ((id, _), acked) in acks.iter().zip(acked) {
                assert_eq!(acked.is_done(), *id != due, "{what}: {acked:?}");
            }
            assert_eq!(sessions.delete(due).await.unwrap(), Answer::Done(()), "{what}");
            assert_eq!(sessions.delete(held).await.unwrap(), Answer::Refused(Refusal::Active), "{what}");
        }
    }
}

#[tokio::test]
async fn garbage_in_the_numbers_of_a_session_is_an_ended_lease_or_no_time() {
    for space in on_servers().await {
        let (on, sessions, mut raw) = (space.on, &space.sessions, Raw::below(&space));
        for field in ["h:h", "h:", "h:other", "m", "last_update", "last_disconnect"] {
            for text in GARBAGE {
                let what = format!("{on}: {field} {text:?}");
                let broken = space.held("broken", "h").await;
                let left = space.left("left").await;
                for id in [broken, left] {
                    let at = raw.one(&space, &format!("session:{id}"));
                    raw.run(&at, &["HSET", field, text]);
                }
                for (id, name) in [(broken, "broken"), (left, "left")] {
                    for (call, outcome) in all_calls(&space, id, name).await {
                        assert!(outcome.is_ok(), "{what}: {call}: {outcome:?}");
                    }
                    let known = space.get(id).await;
                    assert!(
                        known.ref_count <= 2 && known.last_seen <= space.clock.now(),
                        "{what}: {known:?}"
                    );
                    sessions.activate(key(name), "{}", Some(key("h"))).await.unwrap().done().unwrap();
                }
                for (call, outcome) in all_others(&space).await {
                    assert_eq!(outcome.unwrap(), Answer::Done(()), "{what}: {call}");
                }
                // Nobody holds it for longer than a lease.
                space.pass(LEASE + crate::session_migration::MIGRATION + GRACE).await;
                sessions.cleanup().await.unwrap();
                assert_eq!(sessions.counts().await.unwrap().active, 0, "{what}");
                assert_eq!(sessions.get(broken).await.unwrap(), None, "{what}");
            }
        }
        let keys = raw.find(&space, "");
        let left: Vec<_> = keys.iter().filter(|(_, it)| it.contains("session:")).collect();
        assert!(left.is_empty(), "{on}: {left:?}");
    }
}

/// A broadcaster's key that is no session id is somebody else's: nobody is activated over it.
#[tokio::test]
async fn a_broadcasters_key_that_is_not_ours_is_refused_and_never_written_to() {
    for space in on_servers().await {
        let (on, sessions, mut raw) = (space.on, &space.sessions, Raw::below(&space));
        let texts: [&[&str]; 5] = [
            &["SET", "42"],
            &["SET", "{}"],
            &["SET", "0000000A-0000-4000-8000-00000000000G"],
            &["SET", "0000000a-0000-4000-8000-00000000000a\n"],
            &["SET", "\u{7f}"],
        ];
        for (number, plant) in types_but("string").chain(texts).enumerate() {
            let (name, what) = (format!("b{number}"), format!("{on}: {plant:?}"));
            let id = space.left(&name).await;
            let at = raw.one(&space, &format!("broadcaster:{name}"));
            raw.plant(&at, plant);
            let before = raw.dump(&at);
            let activated = sessions.activate(key(&name), "{}", Some(key("h"))).await.map(|it| it.map(drop));
            assert_corrupt(&activated, &at.1, &what);
            let found = sessions.find(key(&name)).await.map(|_| Answer::Done(()));
            assert_corrupt(&found, &at.1, &what);
            // The session that it had is as good as any.
            assert_eq!(space.get(id).await.state, State::Disconnected, "{what}");
            sessions.resume(id, key("h")).await.unwrap().done().unwrap();
            sessions.disconnect(id, key("h")).await.unwrap().done().unwrap();
            for (call, outcome) in all_others(&space).await {
                assert_eq!(outcome.unwrap(), Answer::Done(()), "{what}: {call}");
            }
            assert!(sessions.reconcile().anew().finish().await.unwrap().unrecognised >= 1, "{what}");
            space.pass(GRACE).await;
            assert_eq!(sessions.cleanup().await.unwrap().deleted, 1, "{what}");
            assert_eq!(raw.dump(&at), before, "{what}");
            // Once whoever wrote it has taken it away, all is well.
            raw.run(&at, &["DEL"]);
            sessions.activate(key(&name), "{}", None).await.unwrap().done().unwrap();
            space.pass(LEASE + GRACE).await;
            sessions.cleanup().await.unwrap();
        }
    }
}

#[tokio::test]
async fn a_counter_of_another_type_counts_nobody() {
    for space in on_servers().await {
        let (on, sessions, mut raw) = (space.on, &space.sessions, Raw::below(&space));
        for plant in types_but("string").chain([&["SET", "many"] as &[&str], &["SET", "1.5"]]) {
            let what = format!("{on}: {plant:?}");
            let (held, left) = (space.held("held", "h").await, space.left("left").await);
            let mut planted = Vec::new();
            for id in [held, left] {
                let session = raw.one(&space, &format!("session:{id}"));
                let at = (session.0, session.1.replace(":session:", ":ref_count:"));
                raw.plant(&at, plant);
                planted.push((raw.dump(&at), at));
            }
            for (call, outcome) in all_calls(&space, held, "held").await {
                assert!(outcome.is_ok(), "{what}: {call}: {outcome:?}");
            }
            for (call, outcome) in all_others(&space).await {
                assert_eq!(outcome.unwrap(), Answer::Done(()), "{what}: {call}");
            }
            space.pass(LEASE + GRACE).await;
            sessions.cleanup().await.unwrap();
            assert_eq!(sessions.counts().await.unwrap().active, 0, "{what}");
            for (before, at) in planted {
                assert_eq!(raw.dump(&at), before, "{what}");
                raw.run(&at, &["DEL"]);
            }
        }
    }
}
