//! Many who write, many who follow and are cut off at any moment: each ends with exactly the rules of the database.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tidegate::random::Random;
use tidegate_edge::stream::{Next, Snapshots, StreamOptions, Tail};
use tidegate_edge::truth::{Change, Condition, Seq, Truth};
use tokio::time::timeout;

use crate::kit::{SOON, World, bodies, terms};
use crate::replica::{Replica, catch_up};

const WRITERS: u64 = 64;
const CHANGES: u64 = 6;
const READERS: u64 = 20;

fn below(random: &Random, end: u64) -> u64 {
    random.bits() % end
}

/// Writes so much, and on until readers were cut off often enough: on a busy machine they are slower than writers.
async fn write(truth: Truth, random: Random, resumed: Arc<[AtomicU64]>) {
    let is_enough = || resumed.iter().all(|it| it.load(Ordering::Relaxed) >= READERS);
    let mut written = 0;
    while written < CHANGES || !is_enough() {
        written += 1;
        let id = below(&random, 40).to_string();
        let path = format!("/{}", below(&random, 50));
        let change = match below(&random, 4) {
            0 => Change::Delete { id, condition: Condition::None },
            _ => {
                let terms = terms(&path, &format!("https://example.com/{}", random.bits()));
                Change::Replace { id, terms, condition: Condition::None }
            }
        };
        // Refused or not: paths are wanted by many.
        let _ = truth.change(change).await.unwrap();
    }
}

/// Who follows, and how often it was cut off.
struct Reader {
    replica: Replica,
    /// How often that was in the middle of a change.
    in_the_middle: u64,
    /// How often a server has cut it off, since it was too slow.
    too_slow: u64,
}

/// Follows one server or another, for a few messages at a time, until the writers are done. `resumed` is how often all have
/// come back to each.
async fn follow(
    tails: Vec<Tail>,
    truth: Truth,
    random: Random,
    is_over: Arc<AtomicBool>,
    resumed: Arc<[AtomicU64]>,
) -> Reader {
    let snapshots = Snapshots::of(&truth);
    let mut reader = Reader { replica: Replica::default(), in_the_middle: 0, too_slow: 0 };
    let replica = &mut reader.replica;
    while !is_over.load(Ordering::Relaxed) {
        let server = below(&random, tails.len() as u64) as usize;
        let mut changes = tails[server].follow(replica.follower.mark().cloned()).await.unwrap();
        resumed[server].fetch_add(u64::from(replica.follower.mark().is_some()), Ordering::Relaxed);
        replica.follower.cut();
        let mut is_whole = true;
        for _ in 0..below(&random, 60) {
            let next = timeout(std::time::Duration::from_millis(20), changes.next()).await;
            match next.map(Result::unwrap) {
                Ok(Next::Message(message)) => {
                    is_whole = message.mark.is_some();
                    if let Some(from) = replica.take(message) {
                        replica.reload(&snapshots, &from).await;
                    }
                }
                Ok(Next::Cut(_)) => {
                    reader.too_slow += 1;
                    break;
                }
                Err(_) => break,
            }
            // Some are slow.
            if below(&random, 30) == 0 {
                tokio::time::sleep(std::time::Duration::from_millis(below(&random, 20))).await;
            }
        }
        reader.in_the_middle += u64::from(!is_whole);
    }
    catch_up(replica, &tails[0], &truth).await;
    reader
}

/// Writers and readers over servers that share a database.
async fn everybody_ends_equal(truths: &[Truth], seed: u64) -> Vec<Reader> {
    let random = |of: u64| Random::seeded(seed << 16 | of);
    let options = || {
        let mut options = StreamOptions::default();
        // Some fall out of it.
        options.max_changes = 32;
        options
    };
    let tails: Vec<_> = truths.iter().map(|truth| Tail::start(truth, options())).collect();
    let is_over = Arc::new(AtomicBool::new(false));
    let resumed: Arc<[AtomicU64]> = tails.iter().map(|_| AtomicU64::default()).collect();
    let truth = |of: u64| truths[(of % truths.len() as u64) as usize].clone();
    let follow = |of: u64| {
        follow(tails.clone(), truth(of), random(1000 + of), Arc::clone(&is_over), Arc::clone(&resumed))
    };
    let readers: Vec<_> = (0..READERS).map(|of| tokio::spawn(follow(of))).collect();
    let write = |of: u64| write(truth(of), random(of), Arc::clone(&resumed));
    let writers: Vec<_> = (0..WRITERS).map(|of| tokio::spawn(write(of))).collect();
    for writer in writers {
        timeout(SOON, writer).await.unwrap_or_else(|_| panic!("seed {seed}: {resumed:?} came back")).unwrap();
    }
    is_over.store(true, Ordering::Relaxed);
    let last = truths[0].position().await.unwrap().seq;
    let (_, rules) = bodies(&truths[0]).await;
    let rules: BTreeSet<_> = rules.iter().map(String::as_str).collect();
    let mut ended = Vec::new();
    for reader in readers {
        let reader = reader.await.unwrap();
        let replica = &reader.replica;
        // Nothing is ever lost here, so who resumes goes on: it never reads all rules a second time.
        assert_eq!(replica.reloads.len(), 1, "seed {seed}: {:?}", replica.reloads);
        let expected: Vec<_> = (replica.loaded.next().0..=last.0).map(Seq).collect();
        assert_eq!(replica.applied, expected, "seed {seed}: each once and in order");
        let own: BTreeSet<_> = replica.rules.values().map(String::as_str).collect();
        assert_eq!(own, rules, "seed {seed}: exactly the rules of the database");
        ended.push(reader);
    }
    ended
}

/// Some were cut off in the middle of a change, and some for being slow.
fn check_cuts(readers: &[Reader]) {
    let sum = |of: &dyn Fn(&Reader) -> u64| readers.iter().map(of).sum::<u64>();
    let seeds = readers.len() as u64 / READERS;
    let (in_the_middle, too_slow) = (sum(&|it| it.in_the_middle), sum(&|it| it.too_slow));
    assert!(in_the_middle >= seeds && too_slow >= seeds, "{in_the_middle} {too_slow} in {seeds} seeds");
}

fn seeds() -> u64 {
    if std::env::var_os("TIDEGATE_LONG").is_some() { 200 } else { 20 }
}

#[tokio::test(flavor = "multi_thread")]
async fn of_one_file() {
    let mut readers = Vec::new();
    for seed in 0..seeds() {
        let world = World::sqlite().await;
        readers.extend(everybody_ends_equal(std::slice::from_ref(&world.truth), seed).await);
        world.check().await;
    }
    check_cuts(&readers);
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_servers_on_one_database() {
    let mut readers = Vec::new();
    for seed in 0..seeds() {
        let world = World::postgres().await;
        let servers = [world.truth.clone(), world.another_server().await];
        readers.extend(everybody_ends_equal(&servers, seed).await);
        world.check().await;
    }
    check_cuts(&readers);
}
