//! A key's own rate, for a while.

use serde_json::json;

use crate::support::{fixture, serving};

#[tokio::test]
async fn a_key_is_judged_by_its_own_rate_until_that_ends() {
    let f = fixture().await;
    let path = "/v1/limits/api/keys/vip/override";
    let answer = f.put(path, r#"{"rate":"50/s","lasting_ms":3600000}"#).await;
    assert_eq!(answer.status, 200);
    assert_eq!(answer.json(), json!({"limit": "api", "key": "vip", "rate": "50/s", "lasting_ms": 3_600_000}));
    let taken = f.take(r#"{"key":"vip"}"#).await;
    assert_eq!(taken.header("ratelimit-policy"), Some(r#""api";q=3000;w=60"#));
    assert_eq!(taken.json()["remaining"], 2999);
    assert_eq!(f.take(r#"{"key":"other"}"#).await.json()["remaining"], 299);

    f.clock.advance_ms(1_800_000);
    assert_eq!(f.get(path).await.json()["lasting_ms"], 1_800_000);
    f.clock.advance_ms(1_800_000);
    let gone = f.get(path).await;
    assert_eq!((gone.status.as_u16(), gone.header("content-type")), (404, Some("application/problem+json")));
    assert_eq!(gone.json()["type"], "urn:tidegate:problem:no-override");
    assert_eq!(
        gone.json()["detail"],
        "the key \"vip\" has no override of the limit \"api\", or it has ended"
    );
    assert_eq!(f.take(r#"{"key":"vip"}"#).await.json()["capacity"], 300);
}

#[tokio::test]
async fn it_can_be_replaced_and_ended_early() {
    for subject in ["keys/a%2Fb", "everyone"] {
        let f = fixture().await;
        let path = format!("/v1/limits/api/{subject}/override");
        assert_eq!(f.put(&path, r#"{"rate":"1/s","lasting":"1h"}"#).await.json()["lasting_ms"], 3_600_000);
        assert_eq!(f.put(&path, r#"{"rate":"2/s","lasting":"1m 30s"}"#).await.json()["lasting_ms"], 90_000);
        let peek = f.get(&format!("/v1/limits/api/{subject}")).await.json();
        assert_eq!(peek["capacity"], 120);
        for _ in 0..2 {
            assert_eq!(f.delete(&path).await.status, 204);
        }
        assert_eq!(f.get(&path).await.status, 404);
    }
}

#[tokio::test]
async fn every_algorithm_has_them() {
    for (algorithm, rate, capacity) in
        [("suppressed", "1/s", 60), ("smooth", "1/s", 60), ("token", "1/s", 5), ("calendar", "100/h", 75)]
    {
        let f = serving(&[&format!("api.algorithm={algorithm}")]).await;
        let body = json!({"rate": rate, "lasting_ms": 1000}).to_string();
        assert_eq!(f.put("/v1/limits/api/keys/a/override", &body).await.status, 200, "{algorithm}");
        assert_eq!(f.take(r#"{"key":"a"}"#).await.json()["capacity"], capacity, "{algorithm}");
    }
}
