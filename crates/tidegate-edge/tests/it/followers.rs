//! Many who write, many who follow and are cut off at any moment: each ends with exactly the rules of the database.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tidegate::random::Random;
use tidegate_edge::stream::{Next, Snapshots, StreamOptions, Tail};
use tidegate_edge::truth::{Change, Condition, Seq, Truth};

use crate::kit::{World, terms};
use crate::replica::{Replica, catch_up};

const WRITERS: u64 = 64;
const CHANGES: u64 = 6;
const READERS: u64 = 20;

fn below(random: &Random, end: u64) -> u64 {
    random.bits() % end
}

async fn write(truth: Truth, random: Random) {
    for _ in 0..CHANGES {
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

/// Follows one server or another, for a few messages at a time, until the writers are done.
async fn follow(tails: Vec<Tail>, truth: Truth, random: Random, is_over: Arc<AtomicBool>) -> Replica {
    let (mut replica, snapshots) = (Replica::default(), Snapshots::of(&truth));
    while !is_over.load(Ordering::Relaxed) {
        let tail = &tails[below(&random, tails.len() as u64) as usize];
        let mut changes = tail.follow(replica.follower.mark().cloned()).await.unwrap();
        replica.follower.cut();
        for _ in 0..below(&random, 60) {
            let next = tokio::time::timeout(std::time::Duration::from_millis(20), changes.next()).await;
            let Ok(Next::Message(message)) = next.map(Result::unwrap) else { break };
            if let Some(from) = replica.take(message) {
                replica.reload(&snapshots, &from).await;
            }
        }
    }
    catch_up(&mut replica, &tails[0], &truth).await;
    replica
}

/// Writers and readers over servers that share a database.
async fn everybody_ends_equal(truths: &[Truth], seed: u64) {
    let random = |of: u64| Random::seeded(seed << 16 | of);
    let options = || {
        let mut options = StreamOptions::default();
        // Some fall out of it.
        options.max_changes = 64;
        options
    };
    let tails: Vec<_> = truths.iter().map(|truth| Tail::start(truth, options())).collect();
    let is_over = Arc::new(AtomicBool::new(false));
    let truth = |of: u64| truths[(of % truths.len() as u64) as usize].clone();
    let readers: Vec<_> = (0..READERS)
        .map(|of| tokio::spawn(follow(tails.clone(), truth(of), random(1000 + of), Arc::clone(&is_over))))
        .collect();
    let writers: Vec<_> = (0..WRITERS).map(|of| tokio::spawn(write(truth(of), random(of)))).collect();
    for writer in writers {
        writer.await.unwrap();
    }
    is_over.store(true, Ordering::Relaxed);
    let mut rules = None;
    for reader in readers {
        let replica = reader.await.unwrap();
        let expected: Vec<_> = replica
            .applied
            .first()
            .map_or(Vec::new(), |first| (first.0..first.0 + replica.applied.len() as u64).map(Seq).collect());
        assert_eq!(replica.applied, expected, "each once and in order");
        let rules = rules.get_or_insert_with(|| replica.rules.clone());
        assert_eq!(&replica.rules, rules, "all have the same");
    }
}

fn seeds() -> u64 {
    if std::env::var_os("TIDEGATE_LONG").is_some() { 200 } else { 20 }
}

#[tokio::test(flavor = "multi_thread")]
async fn of_one_file() {
    for seed in 0..seeds() {
        let world = World::sqlite().await;
        everybody_ends_equal(std::slice::from_ref(&world.truth), seed).await;
        world.check().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_servers_on_one_database() {
    for seed in 0..seeds() {
        let world = World::postgres().await;
        everybody_ends_equal(&[world.truth.clone(), world.another_server().await], seed).await;
        world.check().await;
    }
}
