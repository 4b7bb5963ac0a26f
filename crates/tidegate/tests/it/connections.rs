//! Connections that end: the server closes idle ones, and so do proxies. A call whose
//! bytes were never sent is decided by the store all the same; one whose bytes may have
//! been is never sent again.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tidegate::doctor::{Doctor, DoctorOptions};
use tidegate::limit::{Decision, Limit, LimitOptions, Source};
use tidegate::store::{Declarations, StoreOptions};
use tidegate::testkit::limit::sliding;
use tidegate::testkit::{Fault, FaultProxy, RedisCluster, RedisServer, TlsServer};
use tidegate::{Cost, Key, Outage, Tidegate};

use crate::idle_connections::connections_received;
use crate::outage::until;

/// Time enough to connect anew on a busy machine.
pub(crate) fn patient() -> StoreOptions {
    let mut options = StoreOptions::default();
    options.deadline = Duration::from_secs(10);
    options.connect_timeout = Duration::from_secs(10);
    // No calls but those of the test.
    options.declarations = Declarations::ReadOnly;
    options
}

pub(crate) async fn limit_on(url: &str, options: StoreOptions) -> (Tidegate, Limit) {
    let gate = Tidegate::open_with(url, options).await.unwrap();
    let mut options = LimitOptions::default();
    options.outage = Outage::Open;
    let limit = gate.limit("api", sliding(1_000_000, 60, 600), options).unwrap();
    (gate, limit)
}

pub(crate) async fn take(limit: &Limit, key: &str) -> Decision {
    limit.take(Key::new(key).unwrap(), Cost::ONE).await.unwrap()
}

pub(crate) async fn used(limit: &Limit, key: &str) -> u64 {
    let peek = limit.peek(Key::new(key).unwrap()).await.unwrap();
    assert_eq!(peek.source(), Source::Store);
    peek.quota().capacity - peek.quota().remaining
}

/// Closes all connections but this one.
fn kill_others(connection: &mut redis::Connection) {
    let mut kill = redis::cmd("CLIENT");
    kill.arg("KILL").arg("TYPE").arg("normal").arg("SKIPME").arg("yes").exec(connection).unwrap();
}

/// Failed calls by reason, as the metrics have them.
fn failed(gate: &Tidegate, reason: &str) -> u64 {
    let line = format!("tidegate_store_failed_calls_total{{reason=\"{reason}\"}} ");
    gate.metrics().lines().find_map(|found| found.strip_prefix(&line)?.parse().ok()).unwrap_or(0)
}

#[tokio::test]
async fn a_killed_connection_is_replaced_before_the_next_call() {
    let server = RedisServer::start();
    let (gate, limit) = limit_on(&server.url(), patient()).await;
    let mut connection = server.connection();
    for i in 0..100 {
        kill_others(&mut connection);
        assert_eq!(take(&limit, "k").await.source(), Source::Store, "take {i}");
    }
    assert_eq!(used(&limit, "k").await, 100);
    assert!(!gate.metrics().contains("source=\"policy\"} 1"), "{}", gate.metrics());
}

#[tokio::test]
async fn a_killed_tls_connection_is_replaced_before_the_next_call() {
    let server = TlsServer::start();
    let mut options = patient();
    options.tls_ca = Some(server.ca_pem().to_vec());
    let (_gate, limit) = limit_on(&server.url(), options).await;
    let mut connection = server.connection();
    for i in 0..100 {
        kill_others(&mut connection);
        assert_eq!(take(&limit, "k").await.source(), Source::Store, "take {i}");
    }
    assert_eq!(used(&limit, "k").await, 100);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_connections_to_a_cluster_are_replaced_before_the_next_call() {
    let cluster = RedisCluster::start();
    let (gate, limit) = limit_on(&cluster.url(), patient()).await;
    let mut connections: Vec<_> = cluster.nodes().iter().map(RedisServer::connection).collect();
    for i in 0..100 {
        connections.iter_mut().for_each(kill_others);
        let decision = take(&limit, &format!("user_{}", i % 7)).await;
        let reasons = ["cut", "refused", "timeout"].map(|reason| (reason, failed(&gate, reason)));
        assert_eq!(decision.source(), Source::Store, "take {i}: {reasons:?}, {:?}", gate.store().status());
    }
}

/// Who asks which server serves what does so on the connections there are, and all of them may
/// have ended: a look through the cluster is none the worse for it.
#[tokio::test]
async fn a_cluster_whose_connections_were_all_killed_still_says_who_serves_what() {
    let cluster = RedisCluster::start();
    let doctor = Doctor::open(&cluster.url(), &patient()).await.unwrap();
    let mut connections: Vec<_> = cluster.nodes().iter().map(RedisServer::connection).collect();
    for _ in 0..10 {
        let report = doctor.check(&DoctorOptions::default(), |_| {}).await.unwrap();
        assert_eq!(report.servers.len(), 3);
        // Nothing else runs between this and the next look: nobody has noticed it.
        connections.iter_mut().for_each(kill_others);
    }
}

async fn soon(event: impl Future<Output = ()>) {
    tokio::time::timeout(Duration::from_secs(30), event).await.expect("it happens");
}

/// New connections are closed as soon as they are made, and then they are not: a call of which
/// nothing was sent waits for one that lasts.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_waits_out_connections_that_are_closed_at_once() {
    let server = RedisServer::start();
    let proxy = FaultProxy::start(server.port()).await;
    let (gate, limit) = limit_on(&proxy.url(), patient()).await;
    for round in 0..5 {
        assert_eq!(take(&limit, "k").await.source(), Source::Store);
        let closed = proxy.turns_away(1);
        proxy.set(Fault::Cut);
        // By then the end of the last one is known.
        soon(closed).await;
        let closed = proxy.turns_away(9);
        let call = tokio::spawn({
            let limit = limit.clone();
            async move { take(&limit, "k").await }
        });
        soon(closed).await;
        assert!(!call.is_finished(), "round {round}: {}", gate.metrics());
        proxy.set(Fault::None);
        assert_eq!(call.await.unwrap().source(), Source::Store, "round {round}");
    }
    assert_eq!(used(&limit, "k").await, 10);
}

#[tokio::test]
async fn a_proxy_that_closes_idle_connections_goes_unnoticed() {
    let server = RedisServer::start();
    let proxy = FaultProxy::start(server.port()).await;
    let (_gate, limit) = limit_on(&proxy.url(), patient()).await;
    let mut connection = server.connection();
    for i in 0..100 {
        let before: u64 = connections_received(&mut connection);
        proxy.close_connections();
        until("it is reconnected, without a call", async || {
            tokio::task::yield_now().await;
            (connections_received(&mut connection) > before).then_some(())
        })
        .await;
        assert_eq!(take(&limit, "k").await.source(), Source::Store, "take {i}");
    }
}

/// The connection is gone and the server hangs: nothing of the call was sent, so it
/// waits for the new connection, and is decided by the store.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_was_not_sent_waits_for_the_new_connection() {
    let server = RedisServer::start();
    let (_gate, limit) = limit_on(&server.url(), patient()).await;
    for i in 0..5 {
        kill_others(&mut server.connection());
        server.freeze();
        let call = tokio::spawn({
            let limit = limit.clone();
            async move { take(&limit, "k").await }
        });
        // Whoever answers by policy does so at once.
        for _ in 0..1000 {
            tokio::task::yield_now().await;
        }
        assert!(!call.is_finished());
        server.thaw();
        assert_eq!(call.await.unwrap().source(), Source::Store, "round {i}");
    }
}

/// Bytes given to the kernel may have arrived: such a call answers by policy and is
/// never sent again, though there is time enough.
#[tokio::test]
async fn a_call_that_was_cut_answers_by_policy_and_is_not_sent_again() {
    let server = RedisServer::start();
    let proxy = FaultProxy::start(server.port()).await;
    let (gate, limit) = limit_on(&proxy.url(), patient()).await;
    assert_eq!(take(&limit, "k").await.source(), Source::Store);
    proxy.set(Fault::Freeze);
    let call = tokio::spawn({
        let limit = limit.clone();
        async move { take(&limit, "k").await }
    });
    let seen = |proxy: &FaultProxy| proxy.held_back() > 0;
    until("the proxy has its bytes", async || {
        tokio::task::yield_now().await;
        seen(&proxy).then_some(())
    })
    .await;
    // The calls that come now wait for the next connection.
    proxy.close_connections();
    proxy.set(Fault::None);
    let cut = call.await.unwrap();
    assert_eq!((cut.is_admitted(), cut.source()), (true, Source::Policy));
    assert_eq!(failed(&gate, "cut"), 1);
    assert_eq!(take(&limit, "k").await.source(), Source::Store, "no breaker is open");
    assert_eq!(used(&limit, "k").await, 2, "it was not sent again");
}

/// Connections killed under load: what the store charged is what it said it charged,
/// and at most once what it could not say.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_under_way_when_the_connection_is_killed_are_never_charged_twice() {
    let server = RedisServer::start();
    let (gate, limit) = limit_on(&server.url(), patient()).await;
    let (decided, is_over) = (Arc::<AtomicU64>::default(), Arc::<AtomicBool>::default());
    let takers: Vec<_> = (0..16)
        .map(|_| {
            let (limit, decided, is_over) = (limit.clone(), decided.clone(), is_over.clone());
            tokio::spawn(async move {
                let mut by_policy = 0;
                while !is_over.load(Ordering::Relaxed) {
                    match take(&limit, "k").await.source() {
                        Source::Store => _ = decided.fetch_add(1, Ordering::Relaxed),
                        _ => by_policy += 1,
                    }
                }
                by_policy
            })
        })
        .collect();
    let mut connection = server.connection();
    for _ in 0..100 {
        kill_others(&mut connection);
        // The next one comes when this has been got over.
        let before = decided.load(Ordering::Relaxed);
        until("the store decides again", async || {
            (decided.load(Ordering::Relaxed) >= before + 20).then_some(())
        })
        .await;
    }
    is_over.store(true, Ordering::Relaxed);
    let mut by_policy = 0;
    for taker in takers {
        by_policy += taker.await.unwrap();
    }
    let by_store = decided.load(Ordering::Relaxed);
    let charged = used(&limit, "k").await;
    assert!(
        (by_store..=by_store + by_policy).contains(&charged),
        "{charged} charged, {by_store} decided by the store and {by_policy} by policy"
    );
    assert_eq!(failed(&gate, "cut"), by_policy, "{}", gate.metrics());
}

/// One connection goes silent while a call reads the marker on it, and all that come after
/// it are fine: nobody waits for that one for ever.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_connection_that_goes_silent_at_its_beginning_keeps_nobody_away() {
    let server = RedisServer::start();
    let proxy = FaultProxy::start(server.port()).await;
    let mut options = StoreOptions::default();
    options.declarations = Declarations::ReadOnly;
    options.connect_timeout = Duration::from_millis(200);
    let (_gate, limit) = limit_on(&proxy.url(), options).await;
    for _ in 0..10 {
        let is_over = Arc::<AtomicBool>::default();
        let takers: Vec<_> = (0..8)
            .map(|_| {
                let (limit, is_over) = (limit.clone(), is_over.clone());
                tokio::spawn(async move {
                    while !is_over.load(Ordering::Relaxed) {
                        take(&limit, "k").await;
                    }
                })
            })
            .collect();
        let before = proxy.accepted();
        proxy.set(Fault::HalfOpen);
        proxy.close_connections();
        proxy.accepts(before + 1).await;
        // Its first bytes are lost: it stays silent, and the next will not be.
        until("the store is missed", async || {
            (take(&limit, "k").await.source() == Source::Policy).then_some(())
        })
        .await;
        proxy.set(Fault::None);
        let started = tidegate::clock::monotonic();
        until("the store decides again", async || {
            (take(&limit, "k").await.source() == Source::Store).then_some(())
        })
        .await;
        let took = started.elapsed();
        assert!(took < Duration::from_secs(10), "{took:?}");
        is_over.store(true, Ordering::Relaxed);
        for taker in takers {
            taker.await.unwrap();
        }
    }
}

/// A server that has as many clients as it may says so and closes, asked or not.
#[tokio::test]
async fn a_server_with_too_many_clients_is_away_for_that_reason() {
    let server = RedisServer::start();
    let mut connection = server.connection();
    redis::cmd("CONFIG").arg("SET").arg("maxclients").arg(1).exec(&mut connection).unwrap();
    let (gate, limit) = limit_on(&server.url(), patient()).await;
    assert_eq!(take(&limit, "k").await.source(), Source::Policy);
    let status = gate.store().status();
    assert_eq!(status.away[0].reason, tidegate::OutageReason::TooManyClients, "{status:?}");
    redis::cmd("CONFIG").arg("SET").arg("maxclients").arg(100).exec(&mut connection).unwrap();
    until("it is let in", async || (take(&limit, "k").await.source() == Source::Store).then_some(())).await;
}
