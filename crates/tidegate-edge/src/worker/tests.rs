//! A worker beside a naive list of rules, whatever happens on the way between them.
//!
//! Every answer is what the list says at one place of the log, not before what was applied when the request came and not
//! behind where the list is when the answer leaves; and in the end, with nothing in the way, it is what the list says.

mod alike;
mod away;
mod crowd;
mod deadline;
mod head;
mod history;
mod limited;
mod list;
mod origin;
mod pair;
mod room;

use std::time::Duration;

use tidegate::clock::{ManualClock, Timestamp};
use tidegate::random::Random;

use self::history::History;
use self::origin::SimOrigin;
use super::filter::SMALLEST;
use super::key::KeyHasher;
use super::truth_time::Pace;
use super::{Worker, WorkerOptions};

/// Histories that are run.
fn seeds() -> u64 {
    if std::env::var_os("TIDEGATE_LONG").is_some() { 20_000 } else { 2000 }
}

fn run(part: u64) {
    // One alone: what a failure names.
    let one = std::env::var("TIDEGATE_EDGE_SEED").ok().and_then(|it| it.parse::<u64>().ok());
    let all = (part..seeds()).step_by(4).filter(|seed| one.is_none_or(|one| one == *seed));
    let mut grown = 0;
    for seed in all {
        // In every other history filters are so small that they grow as rules come.
        SMALLEST.set(if seed / 4 % 2 == 0 { 4 } else { 1024 });
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        grown += runtime.block_on(History::run(seed));
    }
    println!("filters were made anew {grown} times");
    assert!(grown > 30 || one.is_some(), "{grown}");
}

// In four parts, so that they run beside each other.

#[test]
fn every_answer_is_the_truths_at_one_place_1() {
    run(0);
}

#[test]
fn every_answer_is_the_truths_at_one_place_2() {
    run(1);
}

#[test]
fn every_answer_is_the_truths_at_one_place_3() {
    run(2);
}

#[test]
fn every_answer_is_the_truths_at_one_place_4() {
    run(3);
}

#[tokio::test(start_paused = true)]
async fn following_goes_on_after_a_bug() {
    let clock = ManualClock::at(Timestamp::from_millis(1000));
    let origin = SimOrigin::new(clock.clone(), Random::seeded(1));
    origin.world.lock().faults.has_bug = true;
    let (options, pace) = (WorkerOptions::new("w"), Pace::Manual(clock));
    let worker = Worker::with(origin.clone(), options, pace, KeyHasher::seeded(1));
    let read = async {
        while worker.progress().applied.is_none() {
            // Of the test's time, which passes at once.
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), read).await.unwrap();
    assert!(!origin.world.lock().faults.has_bug, "it was met");
}
