//! Beside live traffic nothing is taken for a defect.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tidegate::clock::monotonic;
use tidegate::testkit::{RedisCluster, RedisServer, unique};

use super::world::{World, assert_well, options};

/// Traffic of all rooms for some seconds, and doctors who look all the while.
async fn no_false_defect(url: &str, partitions: Option<u32>) {
    let world = Arc::new(World::open(url, options(&unique("d"), partitions, None)).await);
    let is_over = Arc::new(AtomicBool::new(false));
    let workers: Vec<_> = (0..4)
        .map(|worker| {
            let (world, is_over) = (world.clone(), is_over.clone());
            tokio::spawn(async move {
                let mut number = worker;
                while !is_over.load(Ordering::Relaxed) {
                    world.use_all(number % 101).await;
                    for claim in world.sessions.claim(3).await.unwrap().claims {
                        let _ = world.sessions.ack(claim.id, claim.generation).await.unwrap();
                    }
                    number += 7;
                }
                number
            })
        })
        .collect();
    let until = monotonic() + Duration::from_secs(5);
    let mut looks = 0;
    while monotonic() < until {
        let report = world.check().await;
        assert_well(&report, "beside traffic");
        // To mend beside traffic takes nothing away either.
        assert_well(&world.fix().await, "beside traffic");
        looks += 1;
    }
    is_over.store(true, Ordering::Relaxed);
    for worker in workers {
        assert!(worker.await.unwrap() > 20, "there was traffic");
    }
    assert!(looks >= 2, "{looks}");
    assert_well(&world.check().await, "after it");
    world.gate.shutdown().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn beside_live_traffic_nothing_is_taken_for_a_defect_on_one_server() {
    let server = RedisServer::start();
    no_false_defect(&server.url(), None).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn beside_live_traffic_nothing_is_taken_for_a_defect_in_a_cluster() {
    let cluster = RedisCluster::start();
    no_false_defect(&cluster.url(), Some(6)).await;
}
