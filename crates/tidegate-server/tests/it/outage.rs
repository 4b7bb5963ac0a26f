//! A store that is away: answers by policy, and a server that says so.

use std::net::TcpListener;
use std::num::NonZeroU32;
use std::time::Duration;

use serde_json::json;
use tidegate::limit::{LimitOptions, Sliding};
use tidegate::store::StoreOptions;
use tidegate::{Outage, Share, Tidegate};
use tidegate_server::http::App;

use crate::support::call;

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
    let limits = policies.map(|(name, outage)| {
        let mut options = LimitOptions::default();
        options.outage = outage;
        gate.limit(name, sliding, options).unwrap()
    });
    (silent, App::new(gate, limits))
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
        "the limit \"closed\" refuses by policy, without knowing what was used: try again in 1000 ms"
    );

    let local = take("local", 75).await;
    assert_eq!((local.status.as_u16(), &local.json()["source"]), (200, &json!("local")));
    assert_eq!(local.header("ratelimit-policy"), Some(r#""local";q=75;w=60"#));
    assert_eq!(take("local", 1).await.status, 429);
}

#[tokio::test]
async fn what_has_no_policy_is_an_error_for_now() {
    let (_silent, app) = away().await;
    for (method, path, body) in [("DELETE", "/v1/limits/open/keys/a", ""), ("GET", "/readyz", "")] {
        let answer = call(&app, method, path, body).await;
        assert_eq!((answer.status.as_u16(), answer.header("retry-after")), (503, Some("1")), "{path}");
        assert_eq!(answer.json()["type"], "urn:tidegate:problem:store-unavailable");
    }
    assert_eq!(call(&app, "GET", "/healthz", "").await.status, 200);
}
