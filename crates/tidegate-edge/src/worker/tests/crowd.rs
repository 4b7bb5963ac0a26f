//! A thousand workers.

use std::time::Duration;

use tokio::time::Instant;

use super::list::Seen;
use super::origin::now;
use super::pair::{Pair, another, to};
use crate::worker::Worker;
use crate::worker::filter::SMALLEST;

const WORKERS: usize = 1000;

/// The most connections that were wanted within a tenth of a second, of those in their order.
fn crowd(connects: &[Instant]) -> usize {
    let mut from = 0;
    let mut most = 0;
    for (at, connect) in connects.iter().enumerate() {
        while *connect >= connects[from] + Duration::from_millis(100) {
            from += 1;
        }
        most = most.max(at + 1 - from);
    }
    most
}

/// Those who were cut off together do not come back together; while nobody is there, they try ever more seldom.
#[tokio::test(start_paused = true)]
async fn a_thousand_workers_come_back_one_by_one() {
    let pair = Pair::start(|_| ());
    pair.put("a", |_| ());
    let workers: Vec<_> =
        (1..WORKERS).map(|number| another(&pair.origin, &number.to_string(), |_| ())).collect();
    let all = || workers.iter().chain([&pair.worker]);
    let connected = async || {
        while !all().all(|it| it.progress().is_connected) {
            pair.pass(100).await;
        }
    };
    pair.caught_up().await;
    connected().await;
    let began = |connects: &mut Vec<Instant>| std::mem::take(connects).len();
    assert_eq!(began(&mut pair.origin.world.lock().connects), WORKERS, "nobody waits who begins");

    // A restart that takes no time.
    pair.origin.world.lock().streams += 1;
    pair.origin.changed.notify_waiters();
    while all().any(|it| it.progress().is_connected) && pair.origin.world.lock().connects.is_empty() {
        tokio::task::yield_now().await;
    }
    connected().await;
    let connects = std::mem::take(&mut pair.origin.world.lock().connects);
    assert_eq!(connects.len(), WORKERS);
    assert!(crowd(&connects) < WORKERS / 5, "{} at once", crowd(&connects));
    let applied = pair.worker.progress().applied;
    assert!(all().all(|it: &Worker<_>| it.progress().applied == applied), "they went on where they were");

    // One that takes a while.
    let cut = now();
    pair.origin.world.lock().faults.is_away = true;
    pair.pass(30_000).await;
    pair.origin.world.lock().faults.is_away = false;
    let connects = std::mem::take(&mut pair.origin.world.lock().connects);
    let later: Vec<_> = connects.iter().copied().filter(|it| *it > cut + Duration::from_secs(20)).collect();
    assert!(connects.len() < 30 * WORKERS, "{} tries", connects.len());
    assert!(crowd(&later) < WORKERS / 10, "{} at once", crowd(&later));
    pair.pass(1000).await;
    let connects = std::mem::take(&mut pair.origin.world.lock().connects);
    assert!(connects.len() > WORKERS / 10 && crowd(&connects) < WORKERS / 10, "{}", crowd(&connects));
}

/// Their filters are full at the same change, and they do not read all keys at the same time for it.
#[tokio::test(start_paused = true)]
async fn workers_whose_filters_are_full_together_read_one_by_one() {
    const FEW: usize = 200;
    SMALLEST.set(16);
    let pair = Pair::start(|_| ());
    (0..60).for_each(|number| pair.put(&number.to_string(), |_| ()));
    let workers: Vec<_> = (1..FEW).map(|number| another(&pair.origin, &number.to_string(), |_| ())).collect();
    pair.caught_up().await;
    let all = || workers.iter().chain([&pair.worker]);
    let growths = || all().filter(|it| it.core.metrics.growths.get() > 0).count();
    while all().any(|it| it.progress().applied != pair.worker.progress().applied) {
        pair.pass(100).await;
    }
    assert_eq!(growths(), 0, "there is room");
    pair.origin.world.lock().readings.clear();

    (60..200).for_each(|number| pair.put(&number.to_string(), |_| ()));
    pair.caught_up().await;
    assert_eq!(pair.get("/199").await, to("199", 1), "meanwhile nothing is missing");
    pair.pass(6000).await;
    assert_eq!(growths(), FEW);
    let readings = std::mem::take(&mut pair.origin.world.lock().readings);
    assert_eq!(readings.len(), FEW, "each reads once");
    assert!(crowd(&readings) < FEW / 10, "{} at once", crowd(&readings));
    assert!(readings[FEW - 1] - readings[0] < Duration::from_secs(10), "while one reading is shared");
    assert_eq!((pair.get("/199").await, pair.get("/201").await), (to("199", 1), Seen::NotFound));
}
