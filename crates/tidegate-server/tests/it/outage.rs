//! A store that is away: answers by policy, and a server that says so.

use std::net::TcpListener;
use std::num::NonZeroU32;
use std::time::Duration;

use serde_json::json;
use tidegate::limit::{LimitOptions, Sliding};
use tidegate::store::StoreOptions;
use tidegate::{ClosedStatus, Outage, Share, Tidegate};
use tidegate_server::http::App;
use tidegate_server::parts::{PartSettings, Parts};
use tidegate_server::settings::HttpSettings;

use crate::lifecycle::start_with;
use crate::support::{bulk, call, limit, settings};

/// A server that never answers, and limits on it, one for each policy.
async fn away() -> (TcpListener, App) {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("redis://{}", silent.local_addr().unwrap());
    let mut options = StoreOptions::default();
    options.connect_timeout = Duration::from_millis(50);
    options.deadline = Duration::from_millis(50);
    let gate = Tidegate::open_with(&url, options).await.unwrap();
    let sliding = Sliding::new("5/s".parse().unwrap(), Duration::from_secs(60)).unwrap();
    let quarter = Share::one_of(NonZeroU32::new(4).unwrap());
    let policies = [("open", Outage::Open), ("closed", Outage::Closed), ("local", Outage::Local(quarter))];
    let mut limits: Vec<_> = policies
        .map(|(name, outage)| {
            let mut options = LimitOptions::default();
            options.outage = outage;
            limit(name, sliding, options)
        })
        .into();
    let mut options = LimitOptions::default();
    options.outage = Outage::Closed;
    options.closed_status = ClosedStatus::ServiceUnavailable;
    limits.push(limit("unavailable", sliding, options));
    let parts = PartSettings { limits, ..settings("sessions", &[]).parts };
    (silent, App::new(Parts::open(gate, &parts).unwrap()))
}

#[tokio::test]
async fn each_policy_answers_in_its_way_and_says_so() {
    let (_silent, app) = away().await;
    let take = async |limit: &str, cost: u64| {
        let body = json!({"key": "a", "cost": cost}).to_string();
        call(&app, "POST", &format!("/v1/limits/{limit}/take"), &body).await
    };

    let open = take("open", 1).await;
    assert_eq!((open.status.as_u16(), &open.json()["source"]), (200, &json!("policy")));
    assert_eq!(open.json()["receipt"], json!(null));
    assert_eq!(open.header("ratelimit"), Some(r#""open";r=300;t=0"#));

    let closed = take("closed", 1).await;
    assert_eq!((closed.status.as_u16(), closed.header("retry-after")), (429, Some("1")));
    assert_eq!(
        closed.json()["detail"],
        "the store is away, and the limit \"closed\" refuses meanwhile, whatever was used: try again in 1000 ms"
    );
    assert_eq!(closed.json()["type"], "urn:tidegate:problem:store-away");
    assert_eq!(closed.json()["title"], "Store away");
    assert_eq!((&closed.json()["outcome"], &closed.json()["source"]), (&json!("rejected"), &json!("policy")));
    let never = take("closed", 301).await;
    assert_eq!(never.json()["title"], "Quota exceeded", "waiting for the store would not help");

    let local = take("local", 75).await;
    assert_eq!((local.status.as_u16(), &local.json()["source"]), (200, &json!("local")));
    assert_eq!(local.header("ratelimit-policy"), Some(r#""local";q=75;w=60"#));
    assert_eq!(take("local", 1).await.status, 429);
}

/// A limit may say with 503 what is not the caller's doing; the fast way and the router
/// say the same.
#[tokio::test]
async fn a_closed_limit_says_503_where_it_is_set_to_on_both_ways() {
    let (_silent, app) = away().await;
    let routed = call(&app, "POST", "/v1/limits/unavailable/take", r#"{"key":"a"}"#).await;
    assert_eq!((routed.status.as_u16(), routed.header("retry-after")), (503, Some("1")));
    let body = routed.json();
    assert_eq!((&body["status"], &body["title"]), (&json!(503), &json!("Store away")));
    assert_eq!((&body["outcome"], &body["violated-policies"]), (&json!("rejected"), &json!(["unavailable"])));
    assert_eq!(routed.header("content-type"), Some("application/problem+json"));

    let running = start_with(HttpSettings::default(), app).await;
    let mut client = running.connect().await;
    client
        .send("POST /v1/limits/unavailable/take HTTP/1.1\r\nhost: t\r\ncontent-length: 11\r\n\r\n{\"key\":\"a\"}")
        .await;
    let answer = client.read_until(&routed.body).await;
    assert!(answer.starts_with("HTTP/1.1 503 Service Unavailable\r\n"), "{answer}");
    assert!(answer.contains("\r\nretry-after: 1\r\n"), "{answer}");
    running.stop().await;
}

#[tokio::test]
async fn of_several_policies_the_one_that_refuses_decides() {
    let (_silent, app) = away().await;
    let take = async |limits: &[&str]| {
        let limits: Vec<_> = limits.iter().map(|limit| json!({"limit": limit})).collect();
        call(&app, "POST", "/v1/limits/take", &json!({"key": "a", "limits": limits}).to_string()).await
    };
    let admitted = take(&["open", "local"]).await;
    assert_eq!(admitted.status, 200);
    let limits = admitted.json()["limits"].clone();
    assert_eq!([&limits[0]["source"], &limits[1]["source"]], ["policy", "local"]);
    let refused = take(&["open", "closed", "local"]).await;
    assert_eq!((refused.status.as_u16(), refused.header("retry-after")), (429, Some("1")));
    assert_eq!(refused.json()["violated-policies"], json!(["closed"]));
    assert_eq!(refused.json()["type"], "urn:tidegate:problem:store-away");
    assert_eq!(take(&["open", "unavailable"]).await.status, 503);
    assert_eq!(take(&["closed", "unavailable"]).await.status, 429);
    assert_eq!(call(&app, "GET", "/v1/limits/local/keys/a", "").await.json()["remaining"], 74);
}

#[tokio::test]
async fn what_has_no_policy_is_an_error_for_now() {
    let (_silent, app) = away().await;
    let rate = r#"{"rate":"1/s","lasting":"1h"}"#;
    for (method, path, body) in [
        ("DELETE", "/v1/limits/open/keys/a", ""),
        ("POST", "/v1/charges", r#"{"id":"a","key":"a","limits":[{"limit":"open"},{"limit":"closed"}]}"#),
        ("POST", "/v1/charges/release", r#"{"id":"a","key":"a","limits":["open","closed"]}"#),
        ("PUT", "/v1/limits/open/keys/a/override", rate),
        ("GET", "/v1/limits/open/keys/a/override", ""),
        ("DELETE", "/v1/limits/open/everyone/override", ""),
        ("PUT", "/v1/limits/open/keys/a/reservations/r", r#"{"lasting":"1s"}"#),
        ("POST", "/v1/limits/open/keys/a/reservations/r/commit", ""),
        ("GET", "/v1/hot/main", ""),
        ("GET", "/v1/hot/main/pages/a", ""),
        ("GET", "/v1/hot/main/pages/a/window", ""),
        ("GET", "/v1/hot/main/events", ""),
        ("POST", "/v1/hot/main/cleanup", ""),
        ("POST", "/v1/sessions/main", r#"{"broadcaster":"a","config":{}}"#),
        ("GET", "/v1/sessions/main", ""),
        ("GET", "/v1/sessions/main/counts", ""),
        ("GET", "/v1/sessions/main/broadcasters/a", ""),
        ("GET", "/v1/sessions/main/67e55044-10b1-426f-9247-bb680e5fe0c8", ""),
        ("DELETE", "/v1/sessions/main/67e55044-10b1-426f-9247-bb680e5fe0c8", ""),
        ("PUT", "/v1/sessions/main/67e55044-10b1-426f-9247-bb680e5fe0c8/holders/h", ""),
        ("DELETE", "/v1/sessions/main/67e55044-10b1-426f-9247-bb680e5fe0c8/holders/h", ""),
        ("POST", "/v1/sessions/main/claims", ""),
        ("POST", "/v1/sessions/main/cleanup", ""),
    ] {
        let answer = call(&app, method, path, body).await;
        assert_eq!((answer.status.as_u16(), answer.header("retry-after")), (503, Some("1")), "{path}");
        assert_eq!(answer.json()["type"], "urn:tidegate:problem:store-unavailable");
    }
    assert_eq!(call(&app, "GET", "/healthz", "").await.status, 200);
}

#[tokio::test]
async fn edits_are_dropped_and_counted_as_such() {
    let (_silent, app) = away().await;
    let one = call(&app, "POST", "/v1/hot/main/edits", r#"{"page":"a","id":"1"}"#).await;
    assert_eq!((one.status.as_u16(), &one.json()["outcome"]), (200, &json!("dropped")));
    let lines = (0..3).map(|id| format!("{{\"page\":\"a\",\"id\":\"{id}\"}}\n")).collect::<String>();
    let many = bulk(&app, "/v1/hot/main/edits", lines).await;
    assert_eq!((many.status.as_u16(), &many.json()["good"]), (207, &json!(3)));
    assert_eq!(many.json()["outcomes"]["dropped"], 3);
    let metrics = app.gate().metrics();
    assert!(metrics.contains("tidegate_hot_dropped_edits_total{space=\"main\"} 4\n"), "{metrics}");
}
