//! A thousand workers that begin at once, as after an update of all of them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;
use tidegate_edge::stream::{Snapshots, StreamOptions, Tail};
use tidegate_edge::truth::{Change, Seq};
use tidegate_edge::worker::{Local, Worker, WorkerOptions};

use crate::kit::{SOON, World, draft, terms};

const WORKERS: usize = 1000;

/// All rules are read once for all who wait for them, though rules change all the time and nobody takes what is older
/// than where it began.
#[tokio::test(flavor = "multi_thread")]
async fn the_database_is_read_a_few_times_for_a_thousand_workers() {
    let world = World::sqlite().await;
    let mut registry = Registry::default();
    world.truth.register_metrics(&mut registry);
    for number in 0..50 {
        world.create(&format!("r{number}"), terms(&format!("/{number}"), "/to")).await;
    }
    let local = Local {
        truth: world.truth.clone(),
        tail: Tail::start(&world.truth, StreamOptions::default()),
        snapshots: Snapshots::of(&world.truth),
        workers: Default::default(),
        clock: world.clock.clone().into(),
    };
    let is_over = Arc::new(AtomicBool::new(false));
    let writer = tokio::spawn({
        let (truth, is_over) = (world.truth.clone(), Arc::clone(&is_over));
        async move {
            let mut number = 50;
            while !is_over.load(Ordering::Relaxed) {
                let change =
                    Change::Create(draft(&format!("r{number}"), terms(&format!("/{number}"), "/to")));
                truth.change(change).await.unwrap().unwrap();
                number += 1;
            }
            number
        }
    });
    let start = |number: usize| Worker::start(local.clone(), WorkerOptions::new(number.to_string()));
    let workers: Vec<_> = (0..WORKERS).map(start).collect();
    let is_up = |seq: Seq| {
        let is_up = |it: &Worker<Local>| it.progress().applied.is_some_and(|mark| mark.seq >= seq);
        workers.iter().all(is_up)
    };
    let all = async {
        while !is_up(Seq(0)) {
            tokio::task::yield_now().await;
        }
        is_over.store(true, Ordering::Relaxed);
        let number: u64 = writer.await.unwrap();
        while !is_up(Seq(number)) {
            tokio::task::yield_now().await;
        }
        number
    };
    let number = tokio::time::timeout(SOON, all).await.expect("all of them are there");
    let mut metrics = String::new();
    encode(&mut metrics, &registry).unwrap();
    let read = metrics.lines().find_map(|line| line.strip_prefix("tidegate_rules_snapshots_total "));
    let read: usize = read.unwrap().parse().unwrap();
    println!("{read} snapshots for {WORKERS} workers, {number} rules");
    assert!((1..=WORKERS / 20).contains(&read), "{read} snapshots for {WORKERS} workers");
    for worker in &workers {
        assert_eq!(worker.progress().rules, number);
    }
}
