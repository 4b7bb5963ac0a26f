//! `/v1/health/store` and `tidegate health`: how the store has been doing.

use std::time::Duration;

use serde_json::{Value, json};
use tidegate::Tidegate;
use tidegate::clock::monotonic;
use tidegate::limit::LimitOptions;
use tidegate::store::{Declarations, StoreOptions};
use tidegate::testkit::RedisServer;
use tidegate::testkit::limit::sliding;
use tidegate_server::http::App;

use crate::cli::{Server, run, tidegate};
use crate::support::{SOON, call, fixture, limit, limits_on};

async fn app(url: &str) -> App {
    let mut options = StoreOptions::default();
    options.declarations = Declarations::ReadOnly;
    // Tests share the machine: what is late here is not lost.
    options.deadline = Duration::from_secs(1);
    options.check_interval = Duration::from_millis(50);
    options.connect_timeout = Duration::from_millis(200);
    let gate = Tidegate::open_with(url, options).await.unwrap();
    limits_on(gate, vec![limit("api", sliding(10, 60, 600), LimitOptions::default())])
}

async fn health(app: &App) -> Value {
    let answer = call(app, "GET", "/v1/health/store", "").await;
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.json()
}

async fn until(app: &App, healthy: bool) -> Value {
    let deadline = monotonic() + SOON;
    loop {
        let health = health(app).await;
        let failures = health["consecutive_failures"].as_u64().unwrap();
        assert_eq!(health["healthy"], failures < 3, "{health}");
        if health["healthy"] == healthy && (!healthy || failures == 0) {
            return health;
        }
        assert!(monotonic() < deadline, "{health}");
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn health_is_answered_while_the_store_is_away() {
    let mut redis = RedisServer::start();
    let app = app(&redis.url()).await;
    for _ in 0..4 {
        assert_eq!(call(&app, "POST", "/v1/limits/api/take", r#"{"key":"k"}"#).await.status, 200);
    }
    let seen = health(&app).await;
    assert_eq!((&seen["healthy"], &seen["unhealthy_after"]), (&json!(true), &json!(3)), "{seen}");
    assert_eq!((&seen["connection_attempts"], &seen["success_rate"]), (&json!(1), &json!(1.0)), "{seen}");
    assert_eq!((&seen["operations"], &seen["operation_failures"]), (&json!(4), &json!(0)), "{seen}");
    assert_eq!(seen["operation_success_rate"], 1.0);
    let limits = &seen["parts"][0];
    assert_eq!((&limits["part"], &limits["operations"]), (&json!("limit"), &json!(4)), "{seen}");
    let (average, p99) =
        (limits["average_response_ms"].as_f64().unwrap(), limits["p99_response_ms"].as_f64().unwrap());
    assert!(average > 0.0 && p99 > 0.0 && average < 1000.0, "{seen}");
    assert_eq!(seen["servers"][0]["server"], format!("127.0.0.1:{}", redis.port()));
    assert_eq!(seen["memory_bytes"], seen["servers"][0]["memory_bytes"]);
    assert!(seen["memory_bytes"].as_u64().unwrap() > 100_000, "{seen}");
    assert_eq!(seen["peak_hour_operations"], 4, "{seen}");

    redis.kill();
    let seen = until(&app, false).await;
    assert!(seen["connection_failures"].as_u64().unwrap() >= 2, "{seen}");
    assert!(seen["success_rate"].as_f64().unwrap() < 1.0, "{seen}");
    assert_eq!(call(&app, "POST", "/v1/limits/api/take", r#"{"key":"k"}"#).await.status, 200, "by policy");
    assert_eq!(health(&app).await["parts"][0]["operation_failures"], 1);
    redis.restart();
    until(&app, true).await;

    // Silent, and not known to be: that must not keep anybody waiting.
    redis.freeze();
    let began = monotonic();
    health(&app).await;
    assert!(began.elapsed() < Duration::from_millis(900), "{:?}", began.elapsed());
    until(&app, false).await;
    redis.thaw();
    until(&app, true).await;
}

#[tokio::test]
async fn a_store_in_this_process_is_healthy_and_uses_what_the_process_does() {
    let f = fixture().await;
    f.take(r#"{"key":"user_123"}"#).await;
    let health = f.get("/v1/health/store").await.json();
    assert_eq!((&health["healthy"], &health["consecutive_failures"]), (&json!(true), &json!(0)), "{health}");
    assert_eq!((&health["parts"], &health["servers"]), (&json!([]), &json!([])), "{health}");
    assert_eq!((&health["success_rate"], &health["peak_hour"]), (&Value::Null, &Value::Null), "{health}");
    assert!(health["memory_bytes"].as_u64().unwrap() > 1_000_000, "{health}");
}

#[test]
fn the_exit_code_says_whether_the_store_is_healthy() {
    let mut redis = RedisServer::start();
    let url = redis.url();
    let server = Server::start(&["--store", &url, "--set", "store.check_interval=50ms"]);
    let of_server = |more: &[&str]| run(tidegate(&[&["health", "--server", server.url()], more].concat()));
    let of_store = |more: &[&str]| run(tidegate(&[&["health", "--store", &url], more].concat()));
    for (code, out, err) in [of_server(&[]), of_store(&[])] {
        assert_eq!((code, err.as_str()), (0, ""), "{out}");
        assert!(out.starts_with("healthy\nconnections "), "{out}");
        assert!(out.contains(&format!("127.0.0.1:{} ", redis.port())), "{out}");
    }
    for (code, out, _) in [of_server(&["--json"]), of_store(&["--json"])] {
        let health: Value = serde_json::from_str(&out).unwrap();
        assert_eq!((code, &health["healthy"]), (0, &json!(true)), "{out}");
    }
    // Nothing was written by who only looked.
    let keys: Vec<String> = redis::cmd("KEYS").arg("*").query(&mut redis.connection()).unwrap();
    assert!(keys.iter().all(|key| key == "tidegate:marker"), "{keys:?}");

    redis.kill();
    let deadline = monotonic() + SOON;
    while of_server(&["--json"]).0 == 0 {
        assert!(monotonic() < deadline, "a dead store is healthy");
    }
    for (code, out, err) in [of_server(&[]), of_store(&[])] {
        assert_eq!((code, err.as_str()), (1, ""), "{out}");
        assert!(out.starts_with("unhealthy: ") && out.contains(" failures in a row\n"), "{out}");
    }
    let (code, out, _) = of_store(&["--json"]);
    let health: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((code, &health["healthy"]), (1, &json!(false)), "{out}");
    // More patience is a setting; there is no answer where nobody listens.
    let (code, out, _) = of_store(&["--set", "store.unhealthy_after=4", "--json"]);
    let health: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((code, &health["unhealthy_after"]), (1, &json!(4)), "{out}");
    assert!(health["consecutive_failures"].as_u64().unwrap() >= 4, "{out}");
    assert_eq!(run(tidegate(&["health", "--server", "http://127.0.0.1:1"])).0, 2);
    assert_eq!(run(tidegate(&["health", "--store", "memory:"])).0, 0);
    assert!(run(tidegate(&["health", "--help"])).1.contains("tidegate health --store redis://"));
}
