//! What is answered while the store is away, and that it comes back by itself.

use std::num::NonZeroU32;
use std::time::Duration;

use tidegate::clock::monotonic;
use tidegate::limit::{Decision, Limit, LimitOptions, Source};
use tidegate::store::StoreOptions;
use tidegate::testkit::limit::sliding;
use tidegate::testkit::{Fault, FaultProxy, RedisCluster, RedisServer};
use tidegate::{Cost, ErrorKind, Key, Outage, Share, Tidegate};

/// Repeats `attempt` until it gives something; it is what paces the loop.
pub(crate) async fn until<T>(what: &str, mut attempt: impl AsyncFnMut() -> Option<T>) -> T {
    let deadline = monotonic() + Duration::from_secs(30);
    loop {
        if let Some(value) = attempt().await {
            return value;
        }
        assert!(monotonic() < deadline, "waited 30 s until {what}");
        tokio::task::yield_now().await;
    }
}

async fn limit_with(url: &str, outage: Outage) -> Limit {
    let gate = Tidegate::open(url).await.unwrap();
    let mut options = LimitOptions::default();
    options.outage = outage;
    gate.limit("api", sliding(10, 60, 600), options).unwrap()
}

async fn take(limit: &Limit, key: &str, cost: u64) -> Decision {
    limit.take(Key::new(key).unwrap(), Cost::new(cost).unwrap()).await.unwrap()
}

async fn until_the_store_answers(limit: &Limit) {
    until("the store answers", async || {
        let peek = limit.peek(Key::new("probe").unwrap()).await.unwrap();
        (peek.source() == Source::Store).then_some(())
    })
    .await;
}

/// An address where nothing listens.
fn nowhere() -> String {
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    format!("redis://127.0.0.1:{port}")
}

#[tokio::test]
async fn open_admits_and_says_so() {
    let limit = limit_with(&nowhere(), Outage::Open).await;
    for _ in 0..20 {
        let decision = take(&limit, "k", 1).await;
        assert_eq!((decision.is_admitted(), decision.source()), (true, Source::Policy));
        assert_eq!(decision.receipt(), None, "nothing was charged");
    }
    assert!(!take(&limit, "k", 11).await.is_admitted(), "more than the capacity never fits");
}

#[tokio::test]
async fn closed_refuses_with_a_time_to_come_back() {
    let limit = limit_with(&nowhere(), Outage::Closed).await;
    let decision = take(&limit, "k", 1).await;
    assert_eq!((decision.is_admitted(), decision.source()), (false, Source::Policy));
    assert_eq!(decision.wait().unwrap().retry_after_ms, 1000);
    assert_eq!(take(&limit, "k", 11).await.wait(), None);
}

#[tokio::test]
async fn local_admits_a_share() {
    let limit = limit_with(&nowhere(), Outage::Local(Share::one_of(NonZeroU32::new(3).unwrap()))).await;
    for _ in 0..3 {
        let decision = take(&limit, "k", 1).await;
        assert_eq!((decision.is_admitted(), decision.source()), (true, Source::Local));
    }
    let refused = take(&limit, "k", 1).await;
    assert_eq!(
        (refused.is_admitted(), refused.source(), refused.quota().capacity),
        (false, Source::Local, 3)
    );
    assert!(limit.peek(Key::new("other").unwrap()).await.unwrap().is_admitted());
}

#[tokio::test]
async fn a_refund_or_reset_without_a_store_is_a_transient_error() {
    let mut server = RedisServer::start();
    let limit = limit_with(&server.url(), Outage::Open).await;
    let receipt = take(&limit, "k", 1).await.receipt().unwrap();
    server.kill();
    assert!(limit.refund(Key::new("k").unwrap(), receipt).await.unwrap_err().is_transient());
    assert!(limit.reset(Key::new("k").unwrap()).await.unwrap_err().is_transient());
}

#[tokio::test]
async fn a_store_that_comes_up_late_is_used_at_once() {
    let mut server = RedisServer::start();
    server.kill();
    let limit = limit_with(&server.url(), Outage::Closed).await;
    assert_eq!(take(&limit, "k", 1).await.source(), Source::Policy);
    server.restart();
    until_the_store_answers(&limit).await;
    assert!(take(&limit, "k", 10).await.is_admitted());
    assert!(!take(&limit, "k", 1).await.is_admitted());
}

/// Whatever breaks between us and the store, it mends by itself, and what was
/// charged before still counts.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_fault_mends_by_itself() {
    let server = RedisServer::start();
    let proxy = FaultProxy::start(server.port()).await;
    let limit = limit_with(&proxy.url(), Outage::Closed).await;
    until_the_store_answers(&limit).await;
    assert!(take(&limit, "k", 10).await.is_admitted());
    for fault in [Fault::Cut, Fault::HalfOpen, Fault::Freeze, Fault::Delay(Duration::from_millis(300))] {
        proxy.set(fault);
        until("the fault is noticed", async || {
            (take(&limit, "other", 10).await.source() == Source::Policy).then_some(())
        })
        .await;
        proxy.set(Fault::None);
        until_the_store_answers(&limit).await;
        let decision = take(&limit, "k", 1).await;
        assert_eq!((decision.is_admitted(), decision.source()), (false, Source::Store), "after {fault:?}");
    }
}

/// One node of a cluster takes only its own partitions away.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_master_leaves_the_other_partitions_alone() {
    let mut cluster = RedisCluster::start();
    let limit = limit_with(&cluster.url(), Outage::Closed).await;
    let keys: Vec<_> = (0..100).map(|i| format!("user_{i}")).collect();
    for key in &keys {
        assert_eq!(take(&limit, key, 10).await.source(), Source::Store);
    }
    cluster.nodes_mut()[1].kill();
    let mut sources = Vec::new();
    for round in 0..3 {
        sources.clear();
        for key in &keys {
            let decision = take(&limit, key, 1).await;
            assert!(!decision.is_admitted(), "round {round}");
            sources.push(decision.source());
        }
    }
    let answered = sources.iter().filter(|source| **source == Source::Store).count();
    assert!((40..95).contains(&answered), "two of three masters answer, {answered} of 100 keys do");
}

#[tokio::test]
async fn a_full_redis_is_an_outage_and_heals() {
    let server = RedisServer::start();
    let limit = limit_with(&server.url(), Outage::Closed).await;
    let set = |bytes: u32| {
        redis::cmd("CONFIG").arg("SET").arg("maxmemory").arg(bytes).exec(&mut server.connection()).unwrap();
    };
    set(1);
    assert_eq!(take(&limit, "k", 1).await.source(), Source::Policy);
    set(0);
    until_the_store_answers(&limit).await;
    assert_eq!(take(&limit, "k", 1).await.source(), Source::Store);
}

/// A key of another type is a bug of somebody's, not an outage, and no reason to
/// fail the calls that travel along.
#[tokio::test]
async fn one_broken_key_fails_alone() {
    let server = RedisServer::start();
    let limit = limit_with(&server.url(), Outage::Open).await;
    let name = "trypema:api:absolute:h:broken";
    redis::cmd("SET").arg(name).arg("x").arg("EX").arg(60).exec(&mut server.connection()).unwrap();
    let calls = (0..40).map(|i| {
        let limit = limit.clone();
        tokio::spawn(async move {
            let key = if i % 4 == 0 { "broken".to_owned() } else { format!("good_{i}") };
            (i % 4 == 0, limit.take(Key::new(&key).unwrap(), Cost::ONE).await)
        })
    });
    for call in calls.collect::<Vec<_>>() {
        match call.await.unwrap() {
            (true, answer) => assert_eq!(answer.unwrap_err().kind(), ErrorKind::Internal),
            (false, answer) => assert_eq!(answer.unwrap().source(), Source::Store),
        }
    }
}

#[tokio::test]
async fn a_store_that_refuses_us_is_an_error_at_once() {
    let server = RedisServer::start();
    let mut connection = server.connection();
    redis::cmd("CONFIG").arg("SET").arg("requirepass").arg("secret").exec(&mut connection).unwrap();
    let error = Tidegate::open(&server.url()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config, "{error}");
    let wrong = format!("redis://:not-it@127.0.0.1:{}", server.port());
    let error = Tidegate::open(&wrong).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config, "{error}");
    assert!(!error.to_string().contains("not-it"), "{error}");
    let right = format!("redis://:secret@127.0.0.1:{}", server.port());
    assert!(Tidegate::open(&right).await.unwrap().store().check().is_ok());
}

#[tokio::test]
async fn urls_that_cannot_be_are_refused() {
    for url in ["", "mysql://x", "redis://:secret@", "redis-sentinel://127.0.0.1:1"] {
        let error = Tidegate::open_with(url, StoreOptions::default()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config, "{url}: {error}");
        assert!(!error.to_string().contains("secret"), "{error}");
    }
}
