//! Indices of sessions, and what is known of a partition, that somebody else has written to: named, and
//! put right by whoever is told to.

use tidegate::session::{Answer, State};

use crate::outage::until;
use crate::session::{GRACE, LEASE, Space, key, options};
use crate::session_audit::audit;
use crate::session_corrupt::{GARBAGE, Raw, all_calls, all_others, assert_corrupt, on_servers, types_but};

const SETS: [&str; 4] = ["active_sessions", "disconnected_sessions", "claimed_sessions", "dead_sessions"];

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
