//! Keys of sessions that somebody else has written, or written to: of every family, of every
//! type and with garbage in every number. What is not ours is left alone, what is broken is told
//! by its name, nobody else is stopped by it, and a delete or a reconcile puts it right.

use std::collections::BTreeMap;

use tidegate::session::{Answer, Found, Refusal, SessionId, State};
use tidegate::{ErrorKind, Result};

use crate::kit::{FEW_KEYS, FEW_KEYS_CLUSTER};
use crate::outage::until;
use crate::session::{GRACE, LEASE, Space, key, options};
use crate::session_audit::audit;

const SETS: [&str; 4] = ["active_sessions", "disconnected_sessions", "claimed_sessions", "dead_sessions"];

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
const GARBAGE: [&str; 10] =
    ["", "soon", "nan", "-nan", "inf", "-inf", "-5", "1e300", "99999999999999999999", "0x7fffffffffffffff"];

fn types_but(own: &str) -> impl Iterator<Item = &'static [&'static str]> {
    let own = match own {
        "hash" => "HSET",
        "zset" => "ZADD",
        _ => "SET",
    };
    TYPES.into_iter().filter(move |it| it[0] != own)
}

/// The servers below a space.
struct Raw(Vec<redis::Connection>);

impl Raw {
    fn below(space: &Space) -> Self {
        Self(match space.on {
            "cluster" => FEW_KEYS_CLUSTER.nodes().iter().map(|it| it.connection()).collect(),
            _ => vec![FEW_KEYS.connection()],
        })
    }

    /// The keys of a space that end like this, each with its server.
    fn find(&mut self, space: &Space, end: &str) -> Vec<(usize, String)> {
        let pattern = format!("{}:*", space.namespace);
        let mut found = Vec::new();
        for (node, connection) in self.0.iter_mut().enumerate() {
            let keys: Vec<String> = redis::cmd("KEYS").arg(&pattern).query(connection).unwrap();
            found.extend(keys.into_iter().filter(|it| it.ends_with(end)).map(|it| (node, it)));
        }
        found
    }

    fn one(&mut self, space: &Space, end: &str) -> (usize, String) {
        self.find(space, end).pop().unwrap_or_else(|| panic!("{}: nothing ends in {end}", space.on))
    }

    fn run(&mut self, (node, key): &(usize, String), words: &[&str]) {
        redis::cmd(words[0]).arg(key).arg(&words[1..]).exec(&mut self.0[*node]).unwrap();
    }

    /// Puts something else in the place of a key.
    fn plant(&mut self, at: &(usize, String), words: &[&str]) {
        redis::cmd("DEL").arg(&at.1).exec(&mut self.0[at.0]).unwrap();
        self.run(at, words);
    }

    /// What is in it, and when it ends.
    fn dump(&mut self, (node, key): &(usize, String)) -> (Option<Vec<u8>>, i64) {
        let dump = redis::cmd("DUMP").arg(key).query(&mut self.0[*node]).unwrap();
        (dump, redis::cmd("PTTL").arg(key).query(&mut self.0[*node]).unwrap())
    }

    fn score(&mut self, (node, set): &(usize, String), id: SessionId) -> Option<f64> {
        redis::cmd("ZSCORE").arg(set).arg(id.to_string()).query(&mut self.0[*node]).unwrap()
    }
}

async fn on_servers() -> [Space; 2] {
    [
        Space::on("redis", &FEW_KEYS.url(), options(|_| {})).await,
        Space::on("cluster", &FEW_KEYS_CLUSTER.url(), options(|_| {})).await,
    ]
}

/// How an operation went.
type Outcome = Result<Answer<()>>;

/// Every call on one session of `broadcaster`, with how it went. Those that could succeed are
/// last.
async fn all_calls(space: &Space, id: SessionId, broadcaster: &str) -> BTreeMap<&'static str, Outcome> {
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
async fn all_others(space: &Space) -> BTreeMap<&'static str, Outcome> {
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
fn assert_corrupt(outcome: &Outcome, named: &str, what: &str) {
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

/// An index, or what is known of a partition, of another type: nothing can be done there, and
/// nothing is done by half. Whoever is told to reconcile does, since what was in it is in the sessions.
#[tokio::test]
async fn an_index_of_another_type_is_named_and_replaced_by_reconciling() {
    for space in on_servers().await {
        let (on, sessions, mut raw) = (space.on, &space.sessions, Raw::below(&space));
        for name in SETS.into_iter().chain(["sessions:state"]) {
            for plant in types_but(if name == "sessions:state" { "hash" } else { "zset" }) {
                let what = format!("{on}: {plant:?} at {name}");
                let (held, left) = (space.held("held", "h").await, space.left("left").await);
                let broadcasters = ["held", "left"];
                sessions.update(held, "1", None).await.unwrap().done().unwrap();
                let session = raw.one(&space, &format!("session:{held}"));
                let at = (session.0, session.1.replace(&format!("session:{held}"), name));
                raw.plant(&at, plant);
                let before = raw.dump(&at);
                let whole = raw.dump(&session).0;

                for (id, broadcaster) in [held, left].into_iter().zip(broadcasters) {
                    let is_hit =
                        raw.one(&space, &format!("session:{id}")).1.replace(&format!("session:{id}"), name)
                            == at.1;
                    let outcomes = [
                        ("get", sessions.get(id).await.map(drop)),
                        ("heartbeat", sessions.heartbeat(id, key("h")).await.map(drop)),
                        ("resume", sessions.resume(id, key("h2")).await.map(drop)),
                        ("disconnect", sessions.disconnect(id, key("h2")).await.map(drop)),
                        ("update", sessions.update(id, "1", None).await.map(drop)),
                        ("delete", sessions.delete(id).await.map(drop)),
                        ("activate", sessions.activate(key(broadcaster), "{}", None).await.map(drop)),
                        ("find", sessions.find(key(broadcaster)).await.map(drop)),
                    ];
                    for (call, outcome) in outcomes {
                        let call = format!("{what}: {call}");
                        match outcome {
                            Err(error) => {
                                assert!(is_hit, "{call}: {error}");
                                assert_corrupt(&Err(error), &at.1, &call);
                            }
                            Ok(()) => assert!(name != "sessions:state" || !is_hit, "{call}"),
                        }
                    }
                }
                if name == "active_sessions" {
                    assert_eq!(raw.dump(&session).0, whole, "{what}: nothing is done by half");
                }
                for (call, outcome) in all_others(&space).await {
                    match outcome {
                        Err(_) if call == "dry run" => panic!("{what}: a dry run goes on: {outcome:?}"),
                        Err(_) => assert_corrupt(&outcome, &at.1, &format!("{what}: {call}")),
                        Ok(_) => {}
                    }
                }
                assert_eq!(raw.dump(&at), before, "{what}: nobody writes there unasked");

                let forecast = sessions.reconcile_dry_run(std::time::Duration::ZERO).finish().await.unwrap();
                let reconciled = sessions.reconcile().anew().finish().await.unwrap();
                assert_eq!(reconciled.replaced, 1, "{what}");
                assert_eq!(reconciled, forecast, "{what}");
                assert_eq!(
                    sessions.reconcile_dry_run(std::time::Duration::ZERO).finish().await.unwrap().faults(),
                    0,
                    "{what}"
                );
                audit(Raw::below(&space).0, &format!("{}:", space.namespace));
                for (call, outcome) in all_others(&space).await {
                    assert_eq!(outcome.unwrap(), Answer::Done(()), "{what}: {call}");
                }
                space.pass(2 * LEASE + GRACE).await;
                sessions.cleanup().await.unwrap();
                let counts = sessions.counts().await.unwrap();
                assert_eq!((counts.active, counts.orphans), (0, 0), "{what}: {counts:?}");
            }
        }
    }
}

/// The reconciliation in the background was not told to.
#[tokio::test]
async fn the_automatic_reconciliation_leaves_an_index_of_another_type_alone() {
    let server = tidegate::testkit::RedisServer::start();
    let space = Space::on("own", &server.url(), options(|_| {})).await;
    space.left("left").await;
    let mut connection = server.connection();
    let set = format!("{}:dead_sessions", space.namespace);
    redis::cmd("RPUSH").arg(&set).arg("x").exec(&mut connection).unwrap();
    let gate = crate::session::open(&server.url(), &space.namespace, Some(&space.clock)).await;
    let interval = std::time::Duration::from_secs(60);
    let failures = "tidegate_reaper_failures_total{reaper=\"session_reconcile\"} ";
    let _sessions = gate.sessions("sessions", options(|it| it.reconcile_interval = interval)).unwrap();
    let failed = async || {
        let text = gate.metrics();
        let count = text.lines().find_map(|it| it.strip_prefix(failures)?.parse::<u64>().ok());
        count.filter(|it| *it > 0)
    };
    until("it was its time", failed).await;
    let kind: String = redis::cmd("TYPE").arg(&set).query(&mut connection).unwrap();
    assert_eq!(kind, "list");
    gate.shutdown().await;
}

#[tokio::test]
async fn garbage_in_what_is_known_of_a_partition_stops_nothing_for_long() {
    for space in on_servers().await {
        let (on, sessions, mut raw) = (space.on, &space.sessions, Raw::below(&space));
        for field in ["now", "hold", "hold_from", "hold_past", "hold_lease", "lost", "mending", "mended"] {
            for text in GARBAGE.into_iter().chain(["9 9", "0 99999999999999999999", "4 99999"]) {
                let what = format!("{on}: {field} {text:?}");
                let (held, left) = (space.held("held", "h").await, space.left("left").await);
                for at in raw.find(&space, ":sessions:state") {
                    raw.run(&at, &["HSET", field, text]);
                }
                for (id, name) in [(held, "held"), (left, "left")] {
                    for (call, outcome) in all_calls(&space, id, name).await {
                        assert!(outcome.is_ok(), "{what}: {call}: {outcome:?}");
                    }
                }
                for (call, outcome) in all_others(&space).await {
                    assert_eq!(outcome.unwrap(), Answer::Done(()), "{what}: {call}");
                }
                sessions.reconcile().finish().await.unwrap();
                space.pass(2 * LEASE + GRACE).await;
                sessions.cleanup().await.unwrap();
                let counts = sessions.counts().await.unwrap();
                assert_eq!((counts.active, counts.disconnected, counts.held_until), (0, 0, None), "{what}");
            }
        }
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

/// A score that is no time that anything could be due at.
#[tokio::test]
async fn scores_that_are_no_times_keep_nobody_from_being_reaped() {
    for space in on_servers().await {
        let (on, sessions, mut raw) = (space.on, &space.sessions, Raw::below(&space));
        for set in SETS {
            for score in ["inf", "-inf", "1e300", "-1e300", "0.5"] {
                let what = format!("{on}: {score} in {set}");
                let (held, left) = (space.held("held", "h").await, space.left("left").await);
                for id in [held, left] {
                    let session = raw.one(&space, &format!("session:{id}"));
                    let at = (session.0, session.1.replace(&format!("session:{id}"), set));
                    raw.run(&at, &["ZADD", score, &id.to_string()]);
                    assert!(raw.score(&at, id).is_some());
                }
                for (call, outcome) in all_others(&space).await {
                    assert_eq!(outcome.unwrap(), Answer::Done(()), "{what}: {call}");
                }
                assert_eq!(space.get(held).await.state, State::Active, "{what}");
                space.pass(LEASE + GRACE).await;
                sessions.cleanup().await.unwrap();
                sessions.reconcile().anew().finish().await.unwrap();
                sessions.cleanup().await.unwrap();
                let counts = sessions.counts().await.unwrap();
                let all = counts.active + counts.disconnected + counts.claimed + counts.dead;
                assert_eq!(all, 0, "{what}: {counts:?}");
            }
        }
    }
}
