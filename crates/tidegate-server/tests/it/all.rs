//! `POST /v1/limits/take`: several limits, all or none.

use serde_json::json;

use crate::support::{Fixture, serving};

/// 2 a second, 5 an hour by the calendar, and a burst of 3.
async fn three() -> Fixture {
    serving(&[
        "second.rate=2/s",
        "second.window=1s",
        "hour.algorithm=calendar",
        "hour.limit=5",
        "hour.safety_buffer=0",
        "burst.algorithm=token",
        "burst.rate=1/s",
        "burst.burst=3",
    ])
    .await
}

const ALL: &str = r#"{"key":"u","limits":[{"limit":"second"},{"limit":"hour","cost":2},{"limit":"burst"}]}"#;

#[tokio::test]
async fn all_are_charged_and_each_tells_where_the_key_stands() {
    let f = three().await;
    let answer = f.post("/v1/limits/take", ALL).await;
    assert_eq!(answer.status, 200);
    assert_eq!(answer.header("content-type"), Some("application/json"));
    assert_eq!(
        answer.header("ratelimit-policy"),
        Some(r#""second";q=2;w=1, "hour";q=5;w=3600, "burst";q=3;w=3"#)
    );
    assert_eq!(answer.header("ratelimit"), Some(r#""second";r=1;t=2, "hour";r=3;t=3600, "burst";r=2;t=1"#));
    assert_eq!(answer.header("retry-after"), None);
    let mut body = answer.json();
    for said in body["limits"].as_array_mut().unwrap() {
        assert!(said.as_object_mut().unwrap().remove("receipt").unwrap().is_string());
    }
    assert_eq!(
        body,
        json!({"outcome": "admitted", "key": "u", "limits": [
            {"outcome": "admitted", "limit": "second", "key": "u", "cost": 1, "capacity": 2, "remaining": 1,
                "reset_after_ms": 1010, "window_size_seconds": 1, "source": "store"},
            {"outcome": "admitted", "limit": "hour", "key": "u", "cost": 2, "capacity": 5, "remaining": 3,
                "reset_after_ms": 3_600_000, "window_size_seconds": 3600, "source": "store"},
            {"outcome": "admitted", "limit": "burst", "key": "u", "cost": 1, "capacity": 3, "remaining": 2,
                "reset_after_ms": 1000, "window_size_seconds": 3, "source": "store"},
        ]})
    );
}

#[tokio::test]
async fn one_refusal_is_everybodys_and_names_who() {
    let f = three().await;
    for _ in 0..2 {
        assert_eq!(f.post("/v1/limits/take", ALL).await.status, 200);
    }
    let answer = f.post("/v1/limits/take", ALL).await;
    assert_eq!(answer.status, 429);
    assert_eq!(answer.header("content-type"), Some("application/problem+json"));
    let body = answer.json();
    assert_eq!(body["type"], "https://iana.org/assignments/http-problem-types#quota-exceeded");
    assert_eq!(body["violated-policies"], json!(["second", "hour"]));
    assert_eq!((&body["outcome"], &body["retry_after_ms"]), (&json!("rejected"), &json!(3_600_000)));
    assert_eq!(answer.header("retry-after"), Some("3600"), "the longest wait");
    assert_eq!(
        body["detail"],
        "0 of 2 permits per 1 s of the limit \"second\" are left: a cost of 1 fits in 1010 ms; \
         1 of 5 permits per 3600 s of the limit \"hour\" are left: a cost of 2 fits in 3600000 ms"
    );
    let said: Vec<_> =
        body["limits"].as_array().unwrap().iter().map(|said| said["outcome"].clone()).collect();
    assert_eq!(said, ["rejected", "rejected", "admitted"]);
    assert_eq!(body["limits"][2]["receipt"], json!(null), "it would have, and charged nothing");
    assert_eq!(f.get("/v1/limits/burst/keys/u").await.json()["remaining"], 1);
}

#[tokio::test]
async fn what_can_never_fit_has_no_time_to_come_back() {
    let f = three().await;
    let body = r#"{"key":"u","limits":[{"limit":"second","cost":2},{"limit":"hour","cost":6}]}"#;
    let answer = f.post("/v1/limits/take", body).await;
    assert_eq!((answer.status.as_u16(), answer.header("retry-after")), (429, None));
    assert_eq!(answer.json()["retry_after_ms"], json!(null));
    assert_eq!(answer.json()["violated-policies"], json!(["hour"]));
}

#[tokio::test]
async fn a_denied_suppression_refuses_for_all_without_a_time_to_come_back() {
    let f = serving(&["api.rate=5/s", "thin.algorithm=suppressed", "thin.rate=1/s", "thin.window=10s"]).await;
    let take = r#"{"limits":[{"limit":"thin","cost":10},{"limit":"api"}]}"#;
    assert_eq!(f.post("/v1/limits/take", take).await.status, 200);
    let answer = f.post("/v1/limits/take", r#"{"limits":[{"limit":"thin"},{"limit":"api"}]}"#).await;
    assert_eq!((answer.status.as_u16(), answer.header("retry-after")), (429, None));
    let body = answer.json();
    assert_eq!(body["violated-policies"], json!(["thin"]));
    assert_eq!(body["limits"][0]["suppression_factor"], 1.0);
    assert_eq!(f.get("/v1/limits/api/everyone").await.json()["remaining"], 299);
}

#[tokio::test]
async fn a_receipt_of_one_gives_back_of_that_one() {
    let f = three().await;
    let body = f.post("/v1/limits/take", ALL).await.json();
    let refund = json!({"key": "u", "receipt": body["limits"][1]["receipt"]}).to_string();
    assert_eq!(f.post("/v1/limits/hour/refund", &refund).await.json(), json!({"refunded": 2}));
    let elsewhere = f.post("/v1/limits/second/refund", &refund).await;
    assert_eq!(elsewhere.status.as_u16(), 400, "{elsewhere:?}");
}
