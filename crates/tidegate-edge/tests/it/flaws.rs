//! The flaws of the seed's design that the truth answers for, E5 to E9, E11 and E13: each a promise that it would break,
//! and where it is cheap, the seed's way breaking it. Those of a restored database that need a server of their own are
//! with what PostgreSQL does, and with the stream: `e13_…` too.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tidegate_edge::rule::{Answer, Code};
use tidegate_edge::stream::{Event, Message, Next, Snapshots, StreamOptions, Tail};
use tidegate_edge::truth::{Ask, Change, Condition, Grant, Return, Seq, Truth};
use tokio::time::timeout;

use crate::conformance::conformance;
use crate::kit::{PostgresServer, World, terms};
use crate::replica::{Replica, catch_up};

conformance!(
    e5_a_link_for_one_click_redirects_once_and_never_for_good,
    e6_who_reads_all_rules_while_they_change_misses_nothing,
    e7_whoever_reads_by_number_skips_nothing,
    e8_what_was_fetched_says_which_change_it_is_older_than,
    e9_a_renamed_path_is_gone_in_the_change_that_renames_it,
    e11_a_path_of_two_hosts_is_two_rules,
);

/// Long enough for anything that comes at all.
const SOON: Duration = Duration::from_secs(30);

fn put(id: &str, path: &str, destination: &str) -> Change {
    Change::Replace { id: id.to_owned(), terms: terms(path, destination), condition: Condition::None }
}

async fn change(truth: &Truth, change: Change) -> Seq {
    truth.change(change).await.unwrap().unwrap().seq.unwrap()
}

/// The seed's limit of 1 redirected five times, each time with 301, which a browser keeps.
async fn e5_a_link_for_one_click_redirects_once_and_never_for_good(world: World) {
    let mut given = terms("/a", "https://example.com/");
    (given.max_clicks, given.code) = (Some(1), Code::MovedPermanently);
    let rule = world.create("a", given).await.rule;
    assert_eq!(rule.terms.code, Code::MovedPermanently, "it is kept as it was asked for");
    let Answer::Redirect(sent) = rule.answer("/a", None, rule.created_at) else { panic!("{rule:?}") };
    assert_eq!((sent.code, sent.cache_control.as_deref()), (Code::Found, Some("no-store")));
    let servers = [world.truth.clone(), world.another_server().await];
    let asking: Vec<_> = (0..5)
        .map(|worker| {
            let truth = servers[worker % 2].clone();
            let ask = Ask { rule: "a".to_owned(), worker: format!("w{worker}"), number: 1, wanted: 10 };
            tokio::spawn(async move { (worker, truth.grant(ask).await.unwrap().grant) })
        })
        .collect();
    let mut granted = Vec::new();
    for asked in asking {
        match asked.await.unwrap() {
            (worker, Grant::Block { permits, .. }) => granted.push((worker, permits)),
            (_, Grant::Wait { .. }) => {}
            other => panic!("{other:?}"),
        }
    }
    let [(worker, 1)] = granted[..] else { panic!("one of them, once: {granted:?}") };
    let spent = Return { worker: format!("w{worker}"), number: 1, spent: 1 };
    world.truth.give_back(spent).await.unwrap();
    let rule = world.truth.get("a").await.unwrap().unwrap();
    assert_eq!(rule.answer("/a", None, rule.created_at), Answer::Gone);
}

/// The seed's events have no ids: what happened while a cache was being read, or while nobody listened, was lost.
async fn e6_who_reads_all_rules_while_they_change_misses_nothing(world: World) {
    let tail = Tail::start(&world.another_server().await, StreamOptions::default());
    let snapshots = Snapshots::of(&world.truth);
    let mut replica = Replica::default();
    change(&world.truth, put("a", "/a", "/1")).await;
    let mut changes = tail.follow(None).await.unwrap();
    let Next::Message(first) = changes.next().await.unwrap() else { panic!("cut off") };
    let from = replica.take(first).expect("it has nothing yet");
    // Behind its place in the stream, before it has read the rules.
    change(&world.truth, put("a", "/a", "/2")).await;
    change(&world.truth, put("b", "/b", "/1")).await;
    replica.reload(&snapshots, &from).await;
    // After it has, before it hears of the two.
    change(&world.truth, put("b", "/b", "/2")).await;
    let until = world.truth.position().await.unwrap();
    assert!(replica.follow(&mut changes, &snapshots, &(&until).into()).await);
    assert_eq!(replica.applied, [Seq(4)], "what the rules were read with is not applied again");
    // Nobody listens, and then somebody does again.
    drop(changes);
    change(&world.truth, put("a", "/a", "/3")).await;
    change(&world.truth, Change::Delete { id: "b".to_owned(), condition: Condition::None }).await;
    catch_up(&mut replica, &tail, &world.truth).await;
    assert_eq!((&replica.applied[..], replica.reloads.len()), (&[4, 5, 6].map(Seq)[..], 1));
}

/// Many write over two servers, and one reads what is behind the last number that it has seen, as fast as it can.
async fn e7_whoever_reads_by_number_skips_nothing(world: World) {
    let servers = [world.truth.clone(), world.another_server().await];
    let writers: Vec<_> = (0..32)
        .map(|writer| {
            let truth = servers[writer % 2].clone();
            tokio::spawn(async move {
                for number in 0..10 {
                    let id = format!("{writer}-{number}");
                    change(&truth, put(&id, &format!("/{id}"), "/x")).await;
                }
            })
        })
        .collect();
    let (mut last, mut reads) = (Seq(0), 0);
    let reading = async {
        while last < Seq(320) {
            let rows = servers[reads % 2].log(last, 1000).await.unwrap().expect("the log is whole");
            for row in rows {
                assert_eq!(row.seq, last.next(), "one was skipped, or is there twice");
                last = row.seq;
            }
            reads += 1;
            tokio::task::yield_now().await;
        }
    };
    timeout(SOON, reading).await.expect("all are read");
    for writer in writers {
        writer.await.unwrap();
    }
    assert_eq!(world.truth.position().await.unwrap().seq, last);
    world.check().await;
}

/// A sequence gives numbers in the order of asking, and they are seen in the order of commits.
#[tokio::test]
async fn e7_a_sequence_of_the_database_skips() {
    let server = PostgresServer::shared();
    let (name, _) = server.database().await;
    let (slow, quick, reader) =
        (server.client(&name).await, server.client(&name).await, server.client(&name).await);
    reader.batch_execute("CREATE TABLE events (id bigserial PRIMARY KEY)").await.unwrap();
    let behind = async |last: i64| {
        let rows = reader.query("SELECT id FROM events WHERE id > $1 ORDER BY id", &[&last]).await.unwrap();
        rows.iter().map(|row| row.get::<_, i64>(0)).collect::<Vec<_>>()
    };
    slow.batch_execute("BEGIN; INSERT INTO events DEFAULT VALUES").await.unwrap();
    quick.batch_execute("INSERT INTO events DEFAULT VALUES").await.unwrap();
    assert_eq!(behind(0).await, [2]);
    slow.batch_execute("COMMIT").await.unwrap();
    assert_eq!(behind(2).await, [0_i64; 0], "the first is never seen by who goes by the last");
}

/// A fetch that is overtaken by a change must be known to be older than it: the place it was read at is that of the very
/// rule it has found.
async fn e8_what_was_fetched_says_which_change_it_is_older_than(world: World) {
    let first = change(&world.truth, put("a", "/a", "/0")).await;
    let is_over = Arc::new(AtomicBool::new(false));
    let fetching: Vec<_> = (0..4)
        .map(|_| (world.truth.clone(), Arc::clone(&is_over)))
        .map(|(truth, is_over)| {
            tokio::spawn(async move {
                let mut fetched = Vec::new();
                while !is_over.load(Ordering::Relaxed) {
                    let (rule, position) = truth.resolve("h", "/a").await.unwrap();
                    fetched.push((position.seq, rule.unwrap().terms.destination));
                    tokio::task::yield_now().await;
                }
                fetched
            })
        })
        .collect();
    let mut written = HashMap::from([(first, "/0".to_owned())]);
    let other = world.another_server().await;
    for number in 1..100 {
        let destination = format!("/{number}");
        written.insert(change(&other, put("a", "/a", &destination)).await, destination);
    }
    is_over.store(true, Ordering::Relaxed);
    let mut seen = 0;
    for fetching in fetching {
        for (seq, destination) in fetching.await.unwrap() {
            assert_eq!(written.get(&seq), Some(&destination), "the rule of change {seq}");
            seen += usize::from(seq > first && seq < Seq(100));
        }
    }
    assert!(seen > 0, "nothing was fetched between two changes");
}

/// The seed left the old path redirecting.
async fn e9_a_renamed_path_is_gone_in_the_change_that_renames_it(world: World) {
    let tail = Tail::start(&world.another_server().await, StreamOptions::default());
    let mut replica = Replica::default();
    change(&world.truth, put("a", "/old", "/x")).await;
    catch_up(&mut replica, &tail, &world.truth).await;
    let before = world.truth.position().await.unwrap();
    let renamed = change(&world.truth, put("a", "/new", "/x")).await;
    assert_eq!(renamed, before.seq.next(), "one change");
    let found = async |path: &str| world.truth.resolve("h", path).await.unwrap().0.map(|rule| rule.id);
    assert_eq!((found("/old").await, found("/new").await), (None, Some("a".to_owned())));
    let mut changes = tail.follow(Some((&before).into())).await.unwrap();
    let mut told = Vec::new();
    while told.len() < 2 {
        match timeout(SOON, changes.next()).await.expect("both are told").unwrap() {
            Next::Message(Message { event: Event::Sync(_), .. }) => {}
            Next::Message(message) => told.push((message.event.name(), message.mark.map(|it| it.seq))),
            Next::Cut(reason) => panic!("{reason}"),
        }
    }
    assert_eq!(told, [("delete", None), ("create", Some(renamed))], "both or neither");
    catch_up(&mut replica, &tail, &world.truth).await;
    let paths: Vec<_> = replica.rules.keys().map(|place| place.path.as_str()).collect();
    assert_eq!(paths, ["/new"], "who follows has only the new one");
    change(&world.truth, put("b", "/old", "/y")).await;
    assert_eq!(found("/old").await.as_deref(), Some("b"), "the old one is anybody's");
}

/// The seed's key was the path alone.
async fn e11_a_path_of_two_hosts_is_two_rules(world: World) {
    let tail = Tail::start(&world.another_server().await, StreamOptions::default());
    let mut replica = Replica::default();
    for (id, host) in [("one", "one.example"), ("two", "two.example"), ("any", "*")] {
        let mut given = terms("/a", &format!("https://{id}.example.org/"));
        given.host = host.to_owned();
        world.create(id, given).await;
    }
    catch_up(&mut replica, &tail, &world.truth).await;
    assert_eq!(replica.rules.len(), 3);
    let found = async |host: &str| world.truth.resolve(host, "/a").await.unwrap().0.map(|rule| rule.id);
    for (host, expected) in [("one.example", "one"), ("two.example", "two"), ("three.example", "any")] {
        assert_eq!(found(host).await.as_deref(), Some(expected), "{host}");
    }
    change(&world.truth, Change::Delete { id: "one".to_owned(), condition: Condition::None }).await;
    assert_eq!(found("one.example").await.as_deref(), Some("any"), "others of that path stay");
    assert_eq!(found("two.example").await.as_deref(), Some("two"));
    catch_up(&mut replica, &tail, &world.truth).await;
    assert_eq!(replica.rules.len(), 2);
    world.check().await;
}
