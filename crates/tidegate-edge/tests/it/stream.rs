//! The change stream: each change once and in order, whoever is cut off and whenever.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tidegate_edge::stream::{Changes, Event, Mark, Message, Next, StreamOptions, Tail};
use tidegate_edge::truth::{Change, Condition, Digest, Seq, TruthOptions};

use crate::conformance::conformance;
use crate::kit::{World, draft, terms};
use crate::replica::{Replica, catch_up};

conformance!(
    every_kind_of_change_is_told_in_order,
    who_was_away_gets_what_was_missed_and_nothing_twice,
    who_is_too_slow_is_cut_off_and_goes_on,
    where_the_database_stands_is_told_again_and_again,
    a_new_epoch_makes_everybody_begin_anew,
    a_snapshot_is_made_once_for_all_who_ask,
);

fn options() -> StreamOptions {
    StreamOptions::default()
}

async fn message(changes: &mut Changes) -> Message {
    match changes.next().await.unwrap() {
        Next::Message(message) => message,
        Next::Cut(reason) => panic!("cut off: {reason}"),
    }
}

async fn write(world: &World, id: &str, path: &str, destination: &str) -> Seq {
    let change =
        Change::Replace { id: id.to_owned(), terms: terms(path, destination), condition: Condition::None };
    world.truth.change(change).await.unwrap().unwrap().seq.unwrap()
}

async fn delete(world: &World, id: &str) {
    let change = Change::Delete { id: id.to_owned(), condition: Condition::None };
    world.truth.change(change).await.unwrap().unwrap();
}

async fn every_kind_of_change_is_told_in_order(world: World) {
    let tail = Tail::start(&world.another_server().await, options());
    let mut changes = tail.follow(None).await.unwrap();
    let Message { mark, event: Event::Sync(position) } = message(&mut changes).await else {
        panic!("no sync")
    };
    let mut here = world.truth.position().await.unwrap();
    assert!(position.time_ms >= here.time_ms, "time goes on: {position:?}");
    here.time_ms = position.time_ms;
    assert_eq!(position, here);
    assert_eq!(mark, Some(Mark::from(&position)));
    write(&world, "a", "/a", "/x").await;
    write(&world, "a", "/a", "/y").await;
    write(&world, "a", "/b", "/y").await;
    delete(&world, "a").await;
    let mut told = Vec::new();
    for _ in 0..5 {
        let Message { mark, event } = message(&mut changes).await;
        let read = Event::read(event.name(), &event.data());
        assert_eq!(read, Ok(event.clone()), "what is written can be read");
        let data: serde_json::Value = serde_json::from_str(&event.data()).unwrap();
        let path = data["path"].as_str().unwrap().to_owned();
        told.push((mark.map(|it| it.seq.0), event.name(), path));
    }
    let expected = [(Some(1), "create", "/a"), (Some(2), "update", "/a"), (None, "delete", "/a")];
    let expected = expected.into_iter().chain([(Some(3), "create", "/b"), (Some(4), "delete", "/b")]);
    assert_eq!(told, expected.map(|(mark, name, path)| (mark, name, path.to_owned())).collect::<Vec<_>>());
    let end = world.truth.position().await.unwrap();
    assert_eq!(changes.mark(), &Mark::from(&end));
}

async fn who_was_away_gets_what_was_missed_and_nothing_twice(world: World) {
    let tail = Tail::start(&world.another_server().await, options());
    let mut replica = Replica::default();
    write(&world, "a", "/a", "/x").await;
    catch_up(&mut replica, &tail, &world.truth).await;
    for number in 0..5 {
        write(&world, "a", "/a", &format!("/{number}")).await;
    }
    catch_up(&mut replica, &tail, &world.truth).await;
    assert_eq!(replica.applied, (2..=6).map(Seq).collect::<Vec<_>>());
    // Also one that no tail has in its memory.
    let other = Tail::start(&world.another_server().await, options());
    let mark =
        Mark { seq: Seq(3), digest: world.log().await[2].digest, ..replica.follower.mark().unwrap().clone() };
    let mut changes = other.follow(Some(mark)).await.unwrap();
    for seq in 4..=6 {
        assert_eq!(message(&mut changes).await.mark.map(|it| it.seq), Some(Seq(seq)));
    }
    assert_eq!(replica.reloads.len(), 1, "{:?}", replica.reloads);
}

#[tokio::test]
async fn who_cannot_go_on_is_told_to_begin_anew() {
    let short = |options: &mut TruthOptions| options.max_log = 5;
    begins_anew(World::sqlite_with(short).await).await;
    begins_anew(World::postgres_with(short).await).await;
}

async fn begins_anew(world: World) {
    let tail = Tail::start(&world.another_server().await, options());
    for number in 0..10 {
        write(&world, "a", "/a", &format!("/{number}")).await;
    }
    let here = Mark::from(&world.truth.position().await.unwrap());
    let log = world.truth.log(Seq(5), 10).await.unwrap().unwrap();
    let at = |seq: u64, digest: Digest| Mark { epoch: here.epoch.clone(), seq: Seq(seq), digest };
    for (mark, reason) in [
        (Mark { epoch: "another".to_owned(), ..here.clone() }, "may have gone back"),
        (at(11, here.digest), "has gone back"),
        (at(10, log[3].digest), "by another way"),
        (at(7, here.digest), "by another way"),
        (at(4, log[0].digest_before()), "does not go back so far"),
        (at(0, Digest::default()), "does not go back so far"),
    ] {
        let mut changes = tail.follow(Some(mark.clone())).await.unwrap();
        assert_eq!(changes.mark(), &mark, "who is cut off now has heard nothing");
        let told = message(&mut changes).await;
        let Event::Resync { reason: told_reason } = &told.event else { panic!("{mark}: {told:?}") };
        assert!(told_reason.contains(reason), "{mark}: {told_reason}");
        assert_eq!(told.mark.as_ref(), Some(&here), "what comes behind it is behind that");
        assert_eq!(changes.mark(), &here);
    }
    for seq in 5..=9 {
        let mark = at(seq, log[seq as usize - 5].digest_before());
        let mut changes = tail.follow(Some(mark)).await.unwrap();
        // The first may say where the database stands.
        let told = loop {
            let told = message(&mut changes).await;
            if !matches!(told.event, Event::Sync(_)) {
                break told;
            }
        };
        assert_eq!(told.mark.map(|it| it.seq), Some(Seq(seq + 1)));
    }
}

async fn who_is_too_slow_is_cut_off_and_goes_on(world: World) {
    let mut few = options();
    few.max_changes = 4;
    let tail = Tail::start(&world.another_server().await, few);
    let mut replica = Replica::default();
    catch_up(&mut replica, &tail, &world.truth).await;
    let mut changes = tail.follow(replica.follower.mark().cloned()).await.unwrap();
    let Message { event: Event::Sync(_), .. } = message(&mut changes).await else { panic!("no sync") };
    for number in 0..20 {
        write(&world, "a", "/a", &format!("/{number}")).await;
    }
    // The tail is behind what was written for a moment.
    let mut other = Replica::default();
    catch_up(&mut other, &tail, &world.truth).await;
    let Next::Cut(reason) = changes.next().await.unwrap() else { panic!("not cut off") };
    assert!(reason.contains("behind"), "{reason}");
    catch_up(&mut replica, &tail, &world.truth).await;
    assert_eq!(replica.applied, (1..=20).map(Seq).collect::<Vec<_>>());
}

/// Several ask at once where the database stands, and changes come between.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn who_comes_while_a_tail_begins_is_not_sent_away() {
    for world in [World::sqlite().await, World::postgres().await] {
        let is_over = Arc::new(AtomicBool::new(false));
        let writing = (0..16).map(|writer| {
            let (truth, is_over) = (world.truth.clone(), Arc::clone(&is_over));
            tokio::spawn(async move {
                for number in 0_u64.. {
                    let id = writer.to_string();
                    let terms = terms(&format!("/{id}"), &format!("https://example.com/{number}"));
                    let change = Change::Replace { id, terms, condition: Condition::None };
                    truth.change(change).await.unwrap().unwrap();
                    if is_over.load(Ordering::Relaxed) {
                        return;
                    }
                }
            })
        });
        let writing: Vec<_> = writing.collect();
        let truth = world.another_server().await;
        for round in 0..100 {
            let tail = Tail::start(&truth, options());
            let following = (0..8).map(|_| {
                let tail = tail.clone();
                tokio::spawn(async move {
                    let mut changes = tail.follow(None).await.unwrap();
                    for _ in 0..10 {
                        let told = message(&mut changes).await;
                        assert!(!matches!(told.event, Event::Resync { .. }), "round {round}: {told:?}");
                    }
                })
            });
            for following in following.collect::<Vec<_>>() {
                following.await.unwrap();
            }
        }
        is_over.store(true, Ordering::Relaxed);
        for writing in writing {
            writing.await.unwrap();
        }
    }
}

async fn where_the_database_stands_is_told_again_and_again(world: World) {
    let mut often = options();
    (often.heartbeat, often.poll) = (Duration::from_millis(40), Duration::from_millis(10));
    let tail = Tail::start(&world.another_server().await, often);
    let mut changes = tail.follow(None).await.unwrap();
    for round in 0..4 {
        world.clock.advance_ms(1000);
        let Event::Sync(position) = message(&mut changes).await.event else { panic!("no sync") };
        assert_eq!(position.seq, Seq(0), "{round}");
    }
    let Event::Sync(position) = message(&mut changes).await.event else { panic!("no sync") };
    assert!(position.time_ms >= crate::kit::START_MS + 3000, "by the database's time: {position:?}");
}

#[tokio::test]
async fn e13_a_file_that_has_gone_back_is_noticed_by_who_follows() {
    let world = World::sqlite().await;
    let tail = Tail::start(&world.truth, options());
    let mut replica = Replica::default();
    for number in 0..3 {
        write(&world, "a", "/a", &format!("/{number}")).await;
    }
    let backup = world.folder().join("backup.db");
    let live = world.url.strip_prefix("sqlite:").unwrap();
    rusqlite::Connection::open(live).unwrap().execute("VACUUM INTO ?1", [backup.to_str().unwrap()]).unwrap();
    for number in 3..6 {
        write(&world, "b", "/b", &format!("/{number}")).await;
    }
    catch_up(&mut replica, &tail, &world.truth).await;
    let mut changes = tail.follow(replica.follower.mark().cloned()).await.unwrap();
    let Message { event: Event::Sync(_), .. } = message(&mut changes).await else { panic!("no sync") };
    // Restored from the backup, and on by another way past where it was.
    restore(live, &backup);
    for number in 6..10 {
        write(&world, "c", "/c", &format!("/{number}")).await;
    }
    assert_eq!(world.truth.position().await.unwrap().seq, Seq(7), "the epoch is the same, the numbers go on");
    let told = message(&mut changes).await;
    assert!(matches!(told.event, Event::Resync { .. }), "{told:?}");
    assert_eq!(replica.rules.len(), 2);
    catch_up(&mut replica, &tail, &world.truth).await;
    assert_eq!(replica.reloads.len(), 2, "{:?}", replica.reloads);
    // Who was away meanwhile, too.
    let mut away = Replica::default();
    away.follower.loaded(Mark {
        epoch: world.truth.position().await.unwrap().epoch,
        seq: Seq(6),
        digest: Digest::default(),
    });
    catch_up(&mut away, &tail, &world.truth).await;
    assert_eq!(away.reloads.len(), 1);
}

async fn a_new_epoch_makes_everybody_begin_anew(world: World) {
    let tail = Tail::start(&world.another_server().await, options());
    let mut replica = Replica::default();
    write(&world, "a", "/a", "/x").await;
    catch_up(&mut replica, &tail, &world.truth).await;
    let mut changes = tail.follow(replica.follower.mark().cloned()).await.unwrap();
    let Message { event: Event::Sync(_), .. } = message(&mut changes).await else { panic!("no sync") };
    let before = world.truth.position().await.unwrap();
    let epoch = world.truth.new_epoch().await.unwrap();
    assert_ne!(epoch, before.epoch);
    let told = message(&mut changes).await;
    assert!(matches!(told.event, Event::Resync { .. }), "{told:?}");
    assert_eq!(told.mark.map(|mark| (mark.epoch, mark.seq)), Some((epoch, before.seq)));
    catch_up(&mut replica, &tail, &world.truth).await;
    assert_eq!(replica.reloads.len(), 2, "{:?}", replica.reloads);
}

fn restore(live: &str, backup: &std::path::Path) {
    let from = rusqlite::Connection::open(backup).unwrap();
    let mut into = rusqlite::Connection::open(live).unwrap();
    let copying = rusqlite::backup::Backup::new(&from, &mut into).unwrap();
    copying.run_to_completion(1000, Duration::from_millis(1), None).unwrap();
}

async fn a_snapshot_is_made_once_for_all_who_ask(world: World) {
    use tidegate_edge::stream::Snapshots;
    use tidegate_edge::truth::Fields;
    world.create("a", terms("/a", "/x")).await;
    world.create("b", terms("/b/*", "https://example.com/")).await;
    let snapshots = Snapshots::of(&world.another_server().await);
    let first = snapshots.get(Fields::Keys, None).await.unwrap();
    let change = Change::Create(draft("c", terms("/c", "/x")));
    world.truth.change(change).await.unwrap().unwrap();
    let again = snapshots.get(Fields::Keys, None).await.unwrap();
    assert_eq!(again.position(), first.position(), "the same one");
    let here = Mark::from(&world.truth.position().await.unwrap());
    let later = snapshots.get(Fields::Keys, Some(&here)).await.unwrap();
    assert_eq!(later.position().seq, Seq(3), "unless it is too old for who asks");
    let text = String::from_utf8(first.read(0, usize::MAX).unwrap()).unwrap();
    let lines: Vec<serde_json::Value> =
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 3);
    let rule = world.truth.get("a").await.unwrap().unwrap();
    let body = serde_json::to_string(&rule).unwrap();
    let hash = lines[1]["hash"].as_str().unwrap().parse::<Digest>().unwrap();
    assert_eq!(lines[1], serde_json::json!({"host": "*", "path": "/a", "hash": hash}));
    let body = body.replace(",\"clicks\":0", "");
    assert_eq!(hash, Digest::of("a", 1, &body), "that of its part of the digest");
    assert_eq!(lines[2]["destination"], "https://example.com/");
    // In pieces it is the same.
    let mut pieces = Vec::new();
    while let piece @ [_, ..] = &*first.read(pieces.len() as u64, 7).unwrap() {
        pieces.extend_from_slice(piece);
    }
    assert_eq!(pieces, text.as_bytes());
}
