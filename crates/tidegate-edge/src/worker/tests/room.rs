//! There is no room for the filter over all keys, or little for what is read anew.

use super::list::{Epoch, Seen};
use super::pair::{Pair, to};
use crate::worker::Hydrate;
use crate::worker::filter::SMALLEST;

const MANY: u64 = 400;

fn id(number: u64) -> String {
    format!("r{number}")
}

/// A worker whose filter may take so many bytes, and a truth with many rules.
async fn start(filter_bytes: usize) -> Pair {
    SMALLEST.set(4);
    let pair = Pair::start(|_| ());
    pair.worker.core.write(|state| state.bounds.filter = filter_bytes);
    (0..MANY).for_each(|number| pair.put(&id(number), |_| ()));
    pair.caught_up().await;
    pair
}

/// It says so, and asks for everything; and once there are fewer rules it is as any other.
#[tokio::test(start_paused = true)]
async fn without_room_for_a_filter_everything_is_asked_for() {
    let pair = start(300).await;
    let progress = pair.worker.progress();
    assert!(!progress.is_complete && progress.reason.as_ref().unwrap().contains("filter"), "{progress:?}");
    for (path, expected) in [("/r1", to("r1", 1)), ("/none", Seen::NotFound)] {
        let before = pair.origin.world.lock().fetches;
        assert_eq!(pair.get(path).await, expected);
        assert_eq!(pair.origin.world.lock().fetches, before + 1, "{path}");
    }
    (10..MANY).for_each(|number| pair.delete(&id(number)));
    pair.caught_up().await;
    for _ in 0..100 {
        pair.pass(1000).await;
    }
    let progress = pair.worker.progress();
    assert!(progress.is_complete && progress.reason.is_none(), "{progress:?}");
    let before = pair.origin.world.lock().fetches;
    assert_eq!(pair.get("/other").await, Seen::NotFound);
    assert_eq!(pair.origin.world.lock().fetches, before, "the filter knows");
}

/// The filter that is here is full, and a larger one may not be: what comes then has no room, and nothing is missed.
#[tokio::test(start_paused = true)]
async fn a_filter_that_may_not_grow_misses_nothing() {
    let pair = start(2000).await;
    assert!(pair.worker.progress().is_complete, "{:?}", pair.worker.progress());
    for number in MANY..3 * MANY {
        pair.put(&id(number), |_| ());
        if number % 16 == 0 {
            pair.caught_up().await;
            assert_eq!(pair.get(&format!("/r{number}")).await, to(&id(number), 1));
        }
    }
    pair.caught_up().await;
    for number in 0..3 * MANY {
        assert_eq!(pair.get(&format!("/r{number}")).await, to(&id(number), 1));
    }
    let bytes = pair.worker.core.read(|state| state.keys.bytes());
    assert!(bytes < 300_000, "{bytes}");
}

/// All are read anew, and there is room for some bodies beside what is here: it is for those that have changed.
#[tokio::test(start_paused = true)]
async fn room_is_for_rules_that_are_not_in_memory() {
    const CHANGED: u64 = MANY - 40;
    // Of that size a cache grows by little.
    let pair = Pair::start(|options| (options.hydrate, options.max_bytes) = (Hydrate::Bodies, 400_000));
    (0..MANY).for_each(|number| pair.put(&id(number), |_| ()));
    pair.caught_up().await;
    for number in 0..MANY {
        assert_eq!(pair.get(&format!("/{}", id(number))).await, to(&id(number), 1));
    }
    pair.worker.core.write(|state| state.bounds.all = state.bytes() + 36_000);
    {
        let mut world = pair.origin.world.lock();
        let (moment, head) = (world.epoch().now().clone(), world.epoch().head());
        world.epochs.push(Epoch::new("e1".to_owned(), head.0, moment));
    }
    (CHANGED..MANY).for_each(|number| pair.put(&id(number), |_| ()));
    pair.caught_up().await;
    pair.pass(100).await;
    let before = pair.origin.world.lock().fetches;
    for number in 0..MANY {
        let version = 1 + u64::from(number >= CHANGED);
        assert_eq!(pair.get(&format!("/{}", id(number))).await, to(&id(number), version));
    }
    assert_eq!(pair.origin.world.lock().fetches, before);
}
