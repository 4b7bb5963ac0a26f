//! What is answered while the store is away, and that it comes back by itself.

use std::num::NonZeroU32;
use std::time::Duration;

use tidegate::clock::monotonic;
use tidegate::limit::{Decision, Limit, LimitOptions, Source};
use tidegate::store::{Declarations, StoreOptions};
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

/// Whatever breaks between us and the store, it recovers by itself, and what was
/// charged before still counts.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_fault_ends_by_itself() {
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
            (true, answer) => assert_eq!(answer.unwrap_err().kind(), ErrorKind::Corrupt),
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

#[tokio::test]
async fn local_says_what_it_can_and_never_never() {
    let share = |nodes| Outage::Local(Share::one_of(NonZeroU32::new(nodes).unwrap()));
    let key = Key::new("k").unwrap();
    let thirds = limit_with(&nowhere(), share(3)).await;
    assert_eq!(thirds.peek(key).await.unwrap().quota().capacity, 3);
    for _ in 0..3 {
        take(&thirds, "k", 1).await;
    }
    assert!(!thirds.peek(key).await.unwrap().is_admitted(), "as a take would be told");
    let above = take(&thirds, "k", 4).await;
    assert_eq!((above.is_admitted(), above.source()), (false, Source::Policy));
    assert_eq!(above.wait().unwrap().retry_after_ms, 1000, "it fits once the store is back");
    assert_eq!(take(&thirds, "k", 11).await.wait(), None);
    let none = limit_with(&nowhere(), share(11)).await;
    assert_eq!(take(&none, "k", 1).await.wait().unwrap().retry_after_ms, 1000);
    assert!(!none.peek(key).await.unwrap().is_admitted());
}

/// A master that hangs takes only its own partitions away, while we run and when
/// we start, and they come back by themselves.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_frozen_master_leaves_the_other_partitions_alone() {
    let cluster = RedisCluster::start();
    let before = limit_with(&cluster.url(), Outage::Closed).await;
    let keys: Vec<_> = (0..60).map(|i| format!("user_{i}")).collect();
    for key in &keys {
        assert_eq!(take(&before, key, 10).await.source(), Source::Store);
    }
    cluster.nodes()[2].freeze();
    let after = limit_with(&cluster.url(), Outage::Closed).await;
    let end = monotonic() + Duration::from_secs(3);
    while monotonic() < end {
        for limit in [&before, &after] {
            let mut by_store = 0;
            for key in &keys {
                let decision = take(limit, key, 1).await;
                assert!(!decision.is_admitted());
                by_store += u32::from(decision.source() == Source::Store);
            }
            assert!((20..60).contains(&by_store), "two of three masters answer, for {by_store} of 60 keys");
        }
    }
    cluster.nodes()[2].thaw();
    for limit in [&before, &after] {
        for key in &keys {
            until("its master is back", async || {
                (take(limit, key, 1).await.source() == Source::Store).then_some(())
            })
            .await;
        }
    }
}

/// A master that was made a replica answers, but is no longer the store.
#[tokio::test]
async fn a_demoted_master_is_an_outage_until_it_is_promoted() {
    let (server, other) = (RedisServer::start(), RedisServer::start());
    let limit = limit_with(&server.url(), Outage::Closed).await;
    assert!(take(&limit, "k", 10).await.is_admitted());
    let replicate = |host: &str, port: &str| {
        redis::cmd("REPLICAOF").arg(host).arg(port).exec(&mut server.connection()).unwrap();
    };
    replicate("127.0.0.1", &other.port().to_string());
    assert_eq!(take(&limit, "other", 1).await.source(), Source::Policy);
    let peek = limit.peek(Key::new("k").unwrap()).await.unwrap();
    assert_eq!(peek.source(), Source::Policy, "a replica is not asked");
    // Behind the same name there may be another server by now: every attempt is a
    // new connection.
    let connections = || {
        let info: String = redis::cmd("INFO").arg("stats").query(&mut server.connection()).unwrap();
        let line = info.lines().find_map(|line| line.strip_prefix("total_connections_received:"));
        line.unwrap().parse::<i64>().unwrap()
    };
    let (before, mut ours) = (connections(), 0);
    until("it has connected anew, again and again", async || {
        ours += 1;
        (connections() - before - ours >= 3).then_some(())
    })
    .await;
    replicate("NO", "ONE");
    until_the_store_answers(&limit).await;
}

/// What is wrong with the store later on is an outage, whatever the reason, also
/// for a partition that was idle when the connection broke.
#[tokio::test]
async fn a_changed_password_is_an_outage_and_not_an_error() {
    for partitions in [1, 8] {
        let server = RedisServer::start();
        let mut options = StoreOptions::default();
        options.partitions = Some(partitions);
        let gate = Tidegate::open_with(&server.url(), options).await.unwrap();
        let limit = gate.limit("api", sliding(10, 60, 600), LimitOptions::default()).unwrap();
        let mut connection = server.connection();
        redis::cmd("CONFIG").arg("SET").arg("requirepass").arg("secret").exec(&mut connection).unwrap();
        let mut kill = redis::cmd("CLIENT");
        kill.arg("KILL").arg("TYPE").arg("normal").arg("SKIPME").arg("yes").exec(&mut connection).unwrap();
        for i in 0..200 {
            let decision = take(&limit, &format!("user_{i}"), 1).await;
            assert_eq!((decision.is_admitted(), decision.source()), (true, Source::Policy));
        }
    }
}

#[tokio::test]
async fn a_url_for_the_other_kind_is_refused_with_the_right_one() {
    let cluster = &crate::kit::CLUSTER;
    for node in cluster.nodes() {
        let error = Tidegate::open(&node.url())
            .await
            .map(|gate| gate.limit("api", sliding(1, 60, 600), LimitOptions::default()));
        // The marker may be in the node's own slots; then the first take tells.
        let error = match error {
            Err(error) => error,
            Ok(limit) => {
                let limit = limit.unwrap();
                let keys: Vec<_> = (0..20).map(|i| format!("k{i}")).collect();
                let mut failed = None;
                for key in &keys {
                    failed = failed.or(limit.take(Key::new(key).unwrap(), Cost::ONE).await.err());
                }
                failed.expect("a key in another slot")
            }
        };
        assert_eq!(error.kind(), ErrorKind::Config, "{error}");
        assert!(error.to_string().contains("redis-cluster://"), "{error}");
    }
    let single = crate::kit::REDIS.url().replace("redis://", "redis-cluster://");
    let error = Tidegate::open(&single).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Config, "{error}");
}

/// More calls than fit into one batch, all at once; and the metrics that tell.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hundreds_of_calls_at_once_are_all_answered_and_counted() {
    let mut server = RedisServer::start();
    let mut options = StoreOptions::default();
    // No calls but those of the test.
    options.declarations = Declarations::ReadOnly;
    options.deadline = Duration::from_secs(10);
    let gate = Tidegate::open_with(&server.url(), options).await.unwrap();
    let limit = gate.limit("api", sliding(300, 60, 600), LimitOptions::default()).unwrap();
    let calls: Vec<_> = (0..1000)
        .map(|_| {
            let limit = limit.clone();
            tokio::spawn(async move { take(&limit, "k", 1).await })
        })
        .collect();
    let mut admitted = 0;
    for call in calls {
        let decision = call.await.unwrap();
        assert_eq!(decision.source(), Source::Store);
        admitted += u32::from(decision.is_admitted());
    }
    assert_eq!(admitted, 300);
    let text = gate.metrics();
    let has = |line: &str| assert!(text.lines().any(|found| found == line), "{line} in\n{text}");
    has("tidegate_store_calls_total 1000");
    has(r#"tidegate_store_failed_calls_total{reason="timeout"} 0"#);
    has("tidegate_store_partitions_away 0");
    has(r#"tidegate_limit_decisions_total{limit="api",outcome="admitted",source="store"} 300"#);
    has(r#"tidegate_limit_decisions_total{limit="api",outcome="rejected",source="store"} 700"#);
    server.kill();
    for _ in 0..100 {
        take(&limit, "k", 1).await;
    }
    let text = gate.metrics();
    let has = |line: &str| assert!(text.lines().any(|found| found == line), "{line} in\n{text}");
    has(r#"tidegate_store_failed_calls_total{reason="refused"} 100"#);
    has("tidegate_store_partitions_away 1");
    has(r#"tidegate_limit_decisions_total{limit="api",outcome="admitted",source="policy"} 100"#);
}

/// A far Redis needs a longer deadline, and gets it.
#[tokio::test]
async fn a_deadline_longer_than_connecting_is_kept() {
    let server = RedisServer::start();
    let proxy = FaultProxy::start(server.port()).await;
    let mut options = StoreOptions::default();
    options.deadline = Duration::from_secs(20);
    let gate = Tidegate::open_with(&proxy.url(), options).await.unwrap();
    let limit = gate.limit("api", sliding(10, 60, 600), LimitOptions::default()).unwrap();
    proxy.set(Fault::Delay(Duration::from_millis(400)));
    assert_eq!(take(&limit, "k", 1).await.source(), Source::Store, "800 ms there and back");
}

/// However many partitions a cluster has, and however silent it is, opening it takes no longer
/// than reaching one server may.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_silent_cluster_is_open_after_the_time_of_one_partition() {
    // They are connected to, and say nothing.
    let listeners = [(); 3].map(|()| std::net::TcpListener::bind("127.0.0.1:0").unwrap());
    let nodes: Vec<_> = listeners.iter().map(|it| it.local_addr().unwrap().to_string()).collect();
    let mut options = StoreOptions::default();
    options.connect_timeout = Duration::from_millis(500);
    let started = monotonic();
    let gate = Tidegate::open_with(&format!("redis-cluster://{}", nodes.join(",")), options).await.unwrap();
    let took = started.elapsed();
    assert!(took < Duration::from_secs(5), "64 partitions, 600 ms each: {took:?}");
    assert_eq!(gate.store().status().partitions_away(), 64);
}
