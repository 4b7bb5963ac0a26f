//! How long a call takes while the store is away: the deadline and no more,
//! from the first call on.
//!
//! `scripts/test` runs these alone, since a busy machine is late by itself.

use std::time::Duration;

use tidegate::clock::monotonic;
use tidegate::limit::{Limit, LimitOptions, Source};
use tidegate::testkit::limit::sliding;
use tidegate::testkit::{Fault, FaultProxy, RedisServer};
use tidegate::{Cost, Key, Outage, Tidegate};

const DEADLINE: Duration = Duration::from_millis(100);

async fn limit(url: &str) -> Limit {
    let gate = Tidegate::open(url).await.unwrap();
    let mut options = LimitOptions::default();
    options.outage = Outage::Closed;
    gate.limit("api", sliding(1_000_000, 60, 600), options).unwrap()
}

/// Takes from 64 tasks, 200 each, and checks how long each took. With
/// `TIDEGATE_FREEZE_SECONDS` it goes on for as long.
async fn calls_stay_within_the_deadline(limit: &Limit, what: &str) {
    let freeze =
        std::env::var("TIDEGATE_FREEZE_SECONDS").map_or(0, |seconds| seconds.parse().expect("a number"));
    let freeze = Duration::from_secs(freeze);
    let tasks: Vec<_> = (0..64)
        .map(|task| {
            let limit = limit.clone();
            tokio::spawn(async move {
                let mut times = Vec::new();
                let until = monotonic() + freeze;
                for turn in (0..).take_while(|turn| *turn < 200 || monotonic() < until) {
                    let key = format!("user_{}", task * 1000 + turn);
                    let started = monotonic();
                    let decision = limit.take(Key::new(&key).unwrap(), Cost::ONE).await.unwrap();
                    times.push(started.elapsed());
                    assert!(!decision.is_admitted() && decision.source() == Source::Policy, "{decision:?}");
                }
                times
            })
        })
        .collect();
    let mut times = Vec::new();
    for task in tasks {
        times.extend(task.await.unwrap());
    }
    times.sort();
    let worst = times[times.len() - 1];
    let p999 = times[times.len() * 999 / 1000];
    println!("{what}: p99.9 {p999:?}, worst {worst:?} of {}", times.len());
    assert!(p999 <= DEADLINE + Duration::from_millis(5), "{what}: p99.9 {p999:?}");
    assert!(worst <= DEADLINE + Duration::from_millis(50), "{what}: worst {worst:?}");
}

async fn works(limit: &Limit) {
    crate::outage::until("the store answers", async || {
        let decision = limit.take(Key::new("probe").unwrap(), Cost::ONE).await.unwrap();
        (decision.source() == Source::Store).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn frozen() {
    let server = RedisServer::start();
    let limit = limit(&server.url()).await;
    works(&limit).await;
    server.freeze();
    calls_stay_within_the_deadline(&limit, "frozen").await;
    server.thaw();
    works(&limit).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed() {
    let mut server = RedisServer::start();
    let limit = limit(&server.url()).await;
    works(&limit).await;
    server.kill();
    calls_stay_within_the_deadline(&limit, "killed").await;
    server.restart();
    works(&limit).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn behind_a_proxy_that_swallows_bytes() {
    let server = RedisServer::start();
    let proxy = FaultProxy::start(server.port()).await;
    let limit = limit(&proxy.url()).await;
    works(&limit).await;
    proxy.set(Fault::HalfOpen);
    calls_stay_within_the_deadline(&limit, "swallowed").await;
    proxy.set(Fault::None);
    works(&limit).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn never_there() {
    let server = RedisServer::start();
    server.freeze();
    let limit = limit(&server.url()).await;
    calls_stay_within_the_deadline(&limit, "frozen from the start").await;
    server.thaw();
    works(&limit).await;
}
