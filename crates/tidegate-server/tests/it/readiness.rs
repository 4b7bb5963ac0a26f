//! `/readyz`: whether to send requests here, and what is away since when.

use std::time::Duration;

use serde_json::{Value, json};
use tidegate::clock::monotonic;
use tidegate::limit::LimitOptions;
use tidegate::store::StoreOptions;
use tidegate::testkit::limit::sliding;
use tidegate::testkit::{RedisCluster, RedisServer};
use tidegate::{Outage, Tidegate};
use tidegate_server::http::App;
use tidegate_server::settings::{HttpSettings, Readiness};

use crate::cli::Server;
use crate::support::{SOON, call, limit, limits_on};

async fn app(url: &str, outage: Outage) -> App {
    let mut options = StoreOptions::default();
    options.check_interval = Duration::from_millis(50);
    options.connect_timeout = Duration::from_millis(200);
    let gate = Tidegate::open_with(url, options).await.unwrap();
    let mut options = LimitOptions::default();
    options.outage = outage;
    limits_on(gate, vec![limit("api", sliding(10, 60, 600), options)])
}

async fn readyz(app: &App) -> (u16, Value) {
    let answer = call(app, "GET", "/readyz", "").await;
    (answer.status.as_u16(), answer.json())
}

/// Sends requests until the answer has this status.
async fn until(app: &App, status: u16) -> Value {
    let deadline = monotonic() + SOON;
    loop {
        let (now, body) = readyz(app).await;
        if now == status {
            return body;
        }
        assert!(monotonic() < deadline, "{now} instead of {status}: {body}");
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn an_idle_store_that_dies_without_a_word_is_noticed() {
    let redis = RedisServer::start();
    let app = app(&redis.url(), Outage::Closed).await;
    let (status, body) = readyz(&app).await;
    assert_eq!((status, &body["ready"], &body["store"]["away"]), (200, &json!(true), &json!([])));
    redis.freeze();
    let body = until(&app, 503).await;
    assert_eq!(body["type"], "urn:tidegate:problem:not-ready");
    let away = &body["store"]["away"][0];
    assert_eq!(away["server"], format!("127.0.0.1:{}", redis.port()));
    assert_eq!((&away["reason"], &away["partitions"]), (&json!("timeout"), &json!(1)));
    assert!(away["since"].as_str().unwrap().ends_with('Z'), "{away}");
    assert!(away["away_ms"].is_u64(), "{away}");
    redis.thaw();
    assert_eq!(until(&app, 200).await["store"]["away"], json!([]));
}

/// While every limit answers without the store, the server does.
#[tokio::test]
async fn a_server_whose_limits_answer_without_the_store_is_ready_without_it() {
    let mut redis = RedisServer::start();
    let (open, closed) = (app(&redis.url(), Outage::Open).await, app(&redis.url(), Outage::Closed).await);
    let all =
        open.clone().with_settings(&HttpSettings { readiness: Readiness::All, ..HttpSettings::default() });
    redis.kill();
    let body = until(&closed, 503).await;
    assert_eq!(body["store"]["away"][0]["reason"], "refused", "{body}");
    until(&all, 503).await;
    let (status, body) = readyz(&open).await;
    assert_eq!((status, &body["store"]["partitions_away"]), (200, &json!(1)), "{body}");
    redis.restart();
    until(&closed, 200).await;
    until(&all, 200).await;
}

#[tokio::test]
async fn a_server_is_not_ready_before_its_store_was_reached_once() {
    let mut redis = RedisServer::start();
    redis.kill();
    let app = app(&redis.url(), Outage::Open).await;
    let (status, body) = readyz(&app).await;
    assert_eq!((status, &body["store"]["reached"]), (503, &json!(false)));
    assert!(body["detail"].as_str().unwrap().contains("has not been reached"), "{body}");
    redis.restart();
    until(&app, 200).await;
    redis.kill();
    // By now it may answer without.
    let gate = app.gate().clone();
    let deadline = monotonic() + SOON;
    while gate.store().check().is_ok() {
        assert!(monotonic() < deadline, "the store's end goes unnoticed");
        tokio::task::yield_now().await;
    }
    assert_eq!(readyz(&app).await.0, 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dead_master_of_three_is_reported_and_takes_nobody_out() {
    let mut cluster = RedisCluster::start();
    let app = app(&cluster.url(), Outage::Closed).await;
    let all =
        app.clone().with_settings(&HttpSettings { readiness: Readiness::All, ..HttpSettings::default() });
    assert_eq!((readyz(&app).await.0, readyz(&all).await.0), (200, 200));
    let dead = cluster.nodes()[1].port();
    cluster.nodes_mut()[1].kill();
    let body = until(&all, 503).await;
    assert_eq!(body["store"]["away"][0]["server"], format!("127.0.0.1:{dead}"), "{body}");
    let (status, body) = readyz(&app).await;
    assert_eq!(status, 200, "{body}");
    let away = body["store"]["partitions_away"].as_u64().unwrap();
    assert!((1..64).contains(&away), "{body}");
}

#[test]
fn a_server_that_is_told_to_stop_is_not_ready_first_and_takes_requests_meanwhile() {
    let mut server = Server::start(&["--set", "http.drain_delay=1h"]);
    let log = server.log();
    assert!(server.get("/readyz").starts_with("HTTP/1.1 200 OK\r\n"));
    server.send_signal("TERM");
    log.wait_for("not ready any more");
    let ready = server.get("/readyz");
    assert!(ready.starts_with("HTTP/1.1 503 ") && ready.contains("\"draining\":true"), "{ready}");
    let take = server.request("POST", "/v1/limits/api/take", "{\"key\":\"a\"}");
    assert!(take.starts_with("HTTP/1.1 200 OK\r\n"), "{take}");
    server.send_signal("TERM");
    log.wait_for("stopped at once by a second signal");
    assert_eq!(server.wait(), Some(0));
}

#[test]
fn a_short_drain_ends_by_itself() {
    let mut server = Server::start(&["--set", "http.drain_delay=10ms"]);
    let log = server.log();
    server.send_signal("TERM");
    log.wait_for("not ready any more");
    log.wait_for("stopped");
    assert_eq!(server.wait(), Some(0));
}
