//! Connections that end while nobody uses them: `redis-server --timeout 1`, proxies, load
//! balancers. The next is made at once, without a call, and not too often.

use std::time::Duration;

use tidegate::clock::monotonic;
use tidegate::limit::Source;
use tidegate::store::StoreOptions;
use tidegate::testkit::{Fault, FaultProxy, RedisServer};

use crate::connections::{limit_on, patient, take, used};
use crate::outage::until;

/// How often the server was asked for a script, or whether it is there. What a script does
/// is part of it.
fn commands(connection: &mut redis::Connection) -> u64 {
    let info: String = redis::cmd("INFO").arg("commandstats").query(connection).unwrap();
    let calls = |line: &str| {
        let (name, rest) = line.strip_prefix("cmdstat_")?.split_once(":calls=")?;
        ["eval", "evalsha", "ping"].contains(&name).then(|| rest.split(',').next()?.parse::<u64>().ok())?
    };
    info.lines().filter_map(calls).sum()
}

/// Connections that the server was asked for so far.
pub(crate) fn connections_received(connection: &mut redis::Connection) -> u64 {
    let info: String = redis::cmd("INFO").arg("stats").query(connection).unwrap();
    let line = info.lines().find_map(|line| line.strip_prefix("total_connections_received:"));
    line.unwrap().parse().unwrap()
}

/// A server that closes connections that were idle for a second.
fn impatient_server() -> RedisServer {
    let server = RedisServer::start();
    redis::cmd("CONFIG").arg("SET").arg("timeout").arg(1).exec(&mut server.connection()).unwrap();
    server
}

/// Nobody asks but the test: else there is always one that has just asked.
fn without_checks() -> StoreOptions {
    let mut options = patient();
    options.check_interval = Duration::from_secs(600);
    options
}

/// A hundred takes, each after the server has closed the connection of the one before.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn takes_after_the_server_closed_the_idle_connection_are_decided_by_the_store() {
    let server = impatient_server();
    let mut limits = Vec::new();
    for _ in 0..34 {
        limits.push(limit_on(&server.url(), without_checks()).await);
    }
    let mut connection = server.connection();
    let (first, before) = (connections_received(&mut connection), commands(&mut connection));
    let mut takes = 0;
    for _ in 0..3 {
        let round = connections_received(&mut connection);
        until("the server has closed as many as there are", async || {
            (connections_received(&mut connection) >= round + 34).then_some(())
        })
        .await;
        for (_, limit) in &limits {
            assert_eq!(take(limit, "k").await.source(), Source::Store, "take {takes}");
            takes += 1;
        }
    }
    // The marker on each connection, perhaps by a take as well; and the take.
    let closed = connections_received(&mut connection) - first;
    let commands = commands(&mut connection) - before;
    assert!(commands <= closed + 2 * takes + 2, "{takes} takes, {closed} closed: {commands} commands");
    assert_eq!(used(&limits[0].1, "k").await, takes);
}

/// A server far away: 800 ms there and back, and a call has 2.5 s. Between calls each
/// connection is closed twice, once without having been used, and made anew without a call.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_far_server_that_closes_idle_connections_decides_every_take() {
    const TAKERS: usize = 4;
    const TAKES: u64 = 3;
    let server = RedisServer::start();
    let mut takers = Vec::new();
    for _ in 0..TAKERS {
        let proxy = FaultProxy::start(server.port()).await;
        let mut options = without_checks();
        options.deadline = Duration::from_millis(2500);
        let (gate, limit) = limit_on(&proxy.url(), options).await;
        // The server knows the script.
        assert_eq!(take(&limit, "k").await.source(), Source::Store);
        takers.push((proxy, gate, limit));
    }
    for (proxy, ..) in &takers {
        proxy.set(Fault::Delay(Duration::from_millis(400)));
    }
    let before = commands(&mut server.connection());
    let takes = takers.into_iter().map(|(proxy, gate, limit)| {
        tokio::spawn(async move {
            let first = proxy.accepted();
            for number in 0..TAKES {
                // One that was used, one that was not.
                for _ in 0..2 {
                    let reconnected = proxy.accepts(proxy.accepted() + 1);
                    proxy.close_connections();
                    tokio::time::timeout(Duration::from_secs(30), reconnected)
                        .await
                        .expect("reconnected without a call");
                }
                assert_eq!(take(&limit, "k").await.source(), Source::Store, "take {number}");
            }
            drop(gate);
            proxy.accepted() - first
        })
    });
    let mut made = 0;
    for taker in takes.collect::<Vec<_>>() {
        made += taker.await.unwrap();
    }
    let (takes, commands) = (TAKERS as u64 * TAKES, commands(&mut server.connection()) - before);
    assert!(commands <= made + 2 * takes, "{takes} takes, {made} connections: {commands} commands");
}

/// A marker that is being read is waited for, and not asked for once more: a way there and
/// back before that of the call would be one too many.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_waits_for_the_marker_that_is_being_read() {
    let server = RedisServer::start();
    let proxy = FaultProxy::start(server.port()).await;
    let mut options = without_checks();
    options.deadline = Duration::from_millis(3200);
    let (_gate, limit) = limit_on(&proxy.url(), options).await;
    let mut connection = server.connection();
    // The server knows the script.
    assert_eq!(take(&limit, "k").await.source(), Source::Store);
    // 1.6 s there and back: twice is too late.
    proxy.set(Fault::Delay(Duration::from_millis(800)));
    for round in 0..2 {
        for _ in 0..2 {
            let before = commands(&mut connection);
            proxy.close_connections();
            until("the marker is asked for", async || {
                tokio::task::yield_now().await;
                (commands(&mut connection) > before).then_some(())
            })
            .await;
        }
        assert_eq!(take(&limit, "k").await.source(), Source::Store, "round {round}");
    }
}

/// Whoever closes at once whatever comes sees a new one after a pause, and pauses grow to a
/// second. Once it lets us, all is as before.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_proxy_that_closes_at_once_is_not_hammered() {
    let server = RedisServer::start();
    let proxy = FaultProxy::start(server.port()).await;
    let (_gate, limit) = limit_on(&proxy.url(), without_checks()).await;
    let end = tokio::time::Instant::from_std(monotonic() + Duration::from_secs(5));
    loop {
        let next = proxy.accepts(proxy.accepted() + 1);
        proxy.close_connections();
        if tokio::time::timeout_at(end, next).await.is_err() {
            break;
        }
    }
    // Each may be tried four times in a row: its marker could not be read.
    let seen = proxy.accepted();
    assert!((5..=60).contains(&seen), "{seen} connections in 5 s");
    until("it is back", async || (take(&limit, "k").await.source() == Source::Store).then_some(())).await;
}

/// The same if it closes some before the marker was read, and others after: to be let through
/// for a moment is no reason to begin anew with short pauses.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_proxy_that_lets_one_through_now_and_then_is_not_hammered() {
    let server = RedisServer::start();
    let proxy = FaultProxy::start(server.port()).await;
    let (gate, limit) = limit_on(&proxy.url(), without_checks()).await;
    let end = tokio::time::Instant::from_std(monotonic() + Duration::from_secs(5));
    let closes = async {
        loop {
            // What is closed now has asked for nothing yet; more in a row than are tried in a row.
            proxy.set(Fault::Freeze);
            for _ in 0..6 {
                let next = proxy.accepts(proxy.accepted() + 1);
                proxy.close_connections();
                next.await;
            }
            proxy.set(Fault::None);
            until("one is let through", async || gate.store().status().away.is_empty().then_some(())).await;
        }
    };
    let closes: Result<(), _> = tokio::time::timeout_at(end, closes).await;
    assert!(closes.is_err());
    let seen = proxy.accepted();
    assert!((5..=60).contains(&seen), "{seen} connections in 5 s");
    proxy.set(Fault::None);
    until("it is back", async || (take(&limit, "k").await.source() == Source::Store).then_some(())).await;
}
