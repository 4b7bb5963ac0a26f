//! Orders of what two clients, two reapers, an operator and time do to one session.
//!
//! Every order of all twenty-one steps to a depth of four, and every one of the nine that
//! races are made of to a depth of six, is tried on memory: each prefix checked by the
//! oracle of [`crate::session_world`] after its last step and brought to its end. Then
//! 1,000,000 random orders of eight steps on memory and 20,000 on Redis, or as much less as
//! [`orders`] says: what is answered is checked after each step, all that
//! can be seen after a random one of every second order, and that nothing is left at the
//! end of each; every fourth is called upon once more when all is deleted.

use std::sync::atomic::{AtomicU64, Ordering};

use futures_util::FutureExt as _;
use tidegate::random::Random;
use tidegate::testkit::RedisServer;

use crate::session::{Space, options};
use crate::session_audit::audit;
use crate::session_world::{ALL, Checked, Step, World, orders};

/// What races are made of.
const RACE: [Step; 9] = [
    Step::Resume(0),
    Step::Resume(1),
    Step::Disconnect(0),
    Step::LeaseEnds,
    Step::GraceEnds,
    Step::Claim(0),
    Step::Ack(0),
    Step::Delete,
    Step::Cleanup,
];

/// The length of a random order.
const LENGTH: usize = 8;

/// Runs an order to its end; all that can be seen is checked after the step `checked`.
/// Whether all of its steps make sense where they are.
async fn run(space: &Space, number: u64, order: &[Step], checked: usize) -> Result<bool, String> {
    let mut world = World::begin(space, number).await?;
    let mut is_whole = true;
    for (place, step) in order.iter().enumerate() {
        if !world.makes_sense(*step) {
            is_whole = false;
            continue;
        }
        world.step(*step).await?;
        if place == checked {
            world.check().await?;
        }
    }
    world.end(number.is_multiple_of(2), number % 8 < 2 || order.len() < LENGTH).await?;
    Ok(is_whole)
}

/// Memory answers at once.
fn run_now(space: &Space, number: u64, order: &[Step], checked: usize) -> bool {
    let done = run(space, number, order, checked).now_or_never().expect("memory never waits");
    done.unwrap_or_else(|fault| panic!("{fault}: {order:?}"))
}

/// All orders of `steps` that go on from `order`, `depth` deep; how many.
fn explore(space: &Space, steps: &[Step], order: &mut Vec<Step>, depth: usize) -> u64 {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let mut explored = 0;
    for step in steps {
        order.push(*step);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        if run_now(space, number, order, order.len() - 1) {
            explored += 1;
            if order.len() < depth {
                explored += explore(space, steps, order, depth);
            }
        }
        order.pop();
    }
    explored
}

async fn space() -> Space {
    Space::memory(|it| it.max_attempts = 2).await
}

#[tokio::test]
async fn every_order_of_all_steps() {
    let explored = explore(&space().await, &ALL, &mut Vec::new(), 4);
    println!("{explored} orders");
    assert!(explored > 80_000, "{explored}");
}

#[tokio::test]
async fn every_order_of_what_races_are_made_of() {
    let explored = explore(&space().await, &RACE, &mut Vec::new(), 6);
    println!("{explored} orders");
    assert!(explored > 300_000, "{explored}");
}

/// Random orders, the same each time.
fn random_orders(seed: u64, count: u64) -> impl Iterator<Item = (Vec<Step>, usize)> {
    let random = Random::seeded(seed);
    (0..count).map(move |_| {
        let order: Vec<_> = (0..LENGTH).map(|_| ALL[random.bits() as usize % ALL.len()]).collect();
        (order, random.bits() as usize % (2 * LENGTH))
    })
}

#[tokio::test]
async fn random_orders_in_memory() {
    let space = space().await;
    for (number, (order, checked)) in random_orders(1, orders(1_000_000)).enumerate() {
        run_now(&space, number as u64, &order, checked);
    }
}

#[tokio::test]
async fn random_orders_on_redis() {
    const AT_ONCE: u64 = 8;
    let server = RedisServer::start();
    let worker = async |worker: u64| -> Checked {
        let space = Space::on("redis", &server.url(), options(|it| it.max_attempts = 2)).await;
        for (number, (order, checked)) in random_orders(worker, orders(20_000) / AT_ONCE).enumerate() {
            let done = run(&space, number as u64, &order, checked).await;
            done.map_err(|fault| format!("{fault}: {order:?}"))?;
        }
        assert_eq!(audit(vec![server.connection()], &format!("{}:", space.namespace)), 0);
        Ok(())
    };
    let workers = futures_util::future::join_all((0..AT_ONCE).map(worker)).await;
    workers.into_iter().collect::<Checked>().unwrap();
    // Nothing is left, not even an index.
    let keys: Vec<String> = redis::cmd("KEYS").arg("*").query(&mut server.connection()).unwrap();
    let left: Vec<_> = keys.iter().filter(|key| !key.contains("marker") && !key.contains(":state")).collect();
    assert!(left.is_empty(), "{left:?}");
}
