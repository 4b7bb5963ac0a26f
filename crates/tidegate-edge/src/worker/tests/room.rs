//! There is no room for the filter over all keys, or little for what is read anew.

use std::time::Duration;

use tokio::time::timeout;

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

/// All are to be read anew.
fn new_epoch(pair: &Pair) {
    let mut world = pair.origin.world.lock();
    let (moment, head) = (world.epoch().now().clone(), world.epoch().head());
    world.epochs.push(Epoch::new("e1".to_owned(), head.0, moment));
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
    new_epoch(&pair);
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

/// However many there are: what was read has no need of the room it had once it is kept.
#[tokio::test(start_paused = true)]
async fn all_bodies_that_are_new_are_kept_while_there_is_room() {
    let pair = Pair::start(|options| (options.hydrate, options.max_bytes) = (Hydrate::Bodies, 400_000));
    pair.put(&id(0), |_| ());
    pair.caught_up().await;
    // As they are read they take some 45,000, and where they are kept 35,000.
    pair.worker.core.write(|state| state.bounds.all = state.bytes() + 60_000);
    new_epoch(&pair);
    (1..MANY).for_each(|number| pair.put(&id(number), |_| ()));
    pair.caught_up().await;
    pair.pass(100).await;
    let before = pair.origin.world.lock().fetches;
    for number in 0..MANY {
        assert_eq!(pair.get(&format!("/{}", id(number))).await, to(&id(number), 1));
    }
    assert_eq!(pair.origin.world.lock().fetches, before);
    assert_eq!(pair.worker.core.reserved.get(), 0);
}

/// Rules leave for what is read as it comes, not once it is all there.
#[tokio::test(start_paused = true)]
async fn room_is_made_before_it_is_needed() {
    let pair = Pair::start(|options| options.max_bytes = 400_000);
    (0..MANY).for_each(|number| pair.put(&id(number), |_| ()));
    pair.caught_up().await;
    for number in 0..MANY {
        assert_eq!(pair.get(&format!("/{}", id(number))).await, to(&id(number), 1));
    }
    pair.pass(100).await;
    let core = &pair.worker.core;
    core.write(|state| state.bounds.all = state.bytes() + 2000);
    let items = pair.worker.report().items;
    new_epoch(&pair);
    (0..MANY / 4)
        .for_each(|number| pair.put(&format!("n{number}"), |it| it.host = format!("h{number}.example")));
    let before = pair.worker.progress().applied;
    let (mut reserved, mut least) = (0, items);
    while pair.worker.progress().applied == before {
        (reserved, least) = (reserved.max(core.reserved.get()), least.min(pair.worker.report().items));
        let (bytes, all) = core.read(|state| (state.bytes(), state.bounds.all));
        assert!(bytes <= all, "{bytes} of {all}");
        pair.pass(1).await;
    }
    let hosts = core.read(|state| state.hosts.bytes());
    assert!(reserved * 10 > hosts * 9 && hosts > 10_000, "{reserved} for {hosts}");
    assert!(least < items, "{items} rules and {least}");
}

/// There is no room for all hosts twice, whatever is the reason for reading them again: those that are here go, everything
/// is asked for meanwhile, and nothing is ever more than it may be.
#[tokio::test(start_paused = true)]
async fn what_has_no_room_beside_what_is_read_goes() {
    let pair = Pair::start(|options| options.max_bytes = 400_000);
    let host = |number: u64| format!("h{number}.example");
    (0..MANY).for_each(|number| pair.put(&id(number), |terms| terms.host = host(number)));
    pair.put("any", |_| ());
    pair.caught_up().await;
    let core = &pair.worker.core;
    core.write(|state| state.bounds.all = state.bytes() + state.hosts.bytes() / 2);
    for is_repair in [false, true] {
        match is_repair {
            false => new_epoch(&pair),
            // A change that cannot be applied, as after a bug.
            true => core.write(|state| state.distrust()),
        }
        pair.put("any", |_| ());
        let head = {
            let mut world = pair.origin.world.lock();
            world.sent = world.epoch().head();
            world.epoch().mark(world.sent)
        };
        let mut has_let_go = false;
        let read = async {
            while pair.worker.progress().applied != head {
                pair.pass(1).await;
                let (bytes, all) = core.read(|state| (state.bytes(), state.bounds.all));
                assert!(bytes <= all, "{bytes} of {all}");
                if core.read(|state| state.hosts.is_empty()) {
                    has_let_go = true;
                    assert!(pair.truth("/any").contains(&pair.get("/any").await));
                }
            }
        };
        timeout(Duration::from_secs(100), read).await.unwrap();
        assert!(has_let_go);
        pair.pass(100).await;
        assert_eq!(core.reserved.get(), 0);
        let progress = pair.worker.progress();
        assert!(progress.is_complete, "{progress:?}");
    }
}
