//! The routes of one limit, by each algorithm.

use serde_json::{Value, json};

use crate::support::serving;

#[tokio::test]
async fn limits_are_listed_with_the_numbers_of_their_algorithms() {
    let f = serving(&[
        "a.algorithm=sliding",
        "b.algorithm=suppressed",
        "b.hard_limit_factor=1.5",
        "c.algorithm=smooth",
        "d.algorithm=token",
        "d.rate=10/s",
        "d.burst=50",
        "e.algorithm=calendar",
    ])
    .await;
    assert_eq!(
        f.get("/v1/limits").await.json(),
        json!({"limits": [
            {"limit": "a", "algorithm": "sliding", "rate": "5/s", "window_size_seconds": 60, "capacity": 300,
                "coalesce_ms": 600},
            {"limit": "b", "algorithm": "suppressed", "rate": "5/s", "window_size_seconds": 60,
                "capacity": 300, "coalesce_ms": 600, "hard_capacity": 450},
            {"limit": "c", "algorithm": "smooth", "rate": "5/s", "window_size_seconds": 60, "capacity": 300,
                "coalesce_ms": 600},
            {"limit": "d", "algorithm": "token", "rate": "10/s", "window_size_seconds": 5, "capacity": 50,
                "burst": 50, "refill_ms": 5000},
            {"limit": "e", "algorithm": "calendar", "window_size_seconds": 3600, "capacity": 4975,
                "period": "hour", "limit_per_period": 5000, "safety_buffer": 25, "counter_ttl_ms": 7_200_000},
        ]})
    );
}

#[tokio::test]
async fn a_token_limit_admits_its_burst_and_then_its_rate() {
    let f = serving(&["api.algorithm=token", "api.rate=1/s", "api.burst=3"]).await;
    let taken = f.take(r#"{"key":"a","cost":3}"#).await;
    assert_eq!((taken.status.as_u16(), taken.header("ratelimit")), (200, Some(r#""api";r=0;t=3"#)));
    assert_eq!(taken.header("ratelimit-policy"), Some(r#""api";q=3;w=3"#));
    let refused = f.take(r#"{"key":"a"}"#).await;
    assert_eq!((refused.status.as_u16(), refused.header("retry-after")), (429, Some("1")));
    assert_eq!(refused.json()["retry_after_ms"], 1000);
    f.clock.advance_ms(999);
    assert_eq!(f.take(r#"{"key":"a"}"#).await.json()["retry_after_ms"], 1);
    f.clock.advance_ms(1);
    let taken = f.take(r#"{"key":"a"}"#).await.json();
    assert_eq!(taken["outcome"], "admitted");
    let refund = json!({"key": "a", "receipt": taken["receipt"]}).to_string();
    assert_eq!(f.post("/v1/limits/api/refund", &refund).await.json(), json!({"refunded": 1}));
    assert_eq!(f.delete("/v1/limits/api/keys/a").await.status, 204);
    assert_eq!(f.get("/v1/limits/api/keys/a").await.json()["remaining"], 3);
}

#[tokio::test]
async fn a_calendar_limit_starts_over_with_its_window() {
    let f = serving(&["api.algorithm=calendar", "api.limit=10", "api.safety_buffer=2"]).await;
    f.clock.advance_ms(3_599_000);
    assert_eq!(f.take(r#"{"key":"a","cost":8}"#).await.json()["reset_after_ms"], 1000);
    let refused = f.take(r#"{"key":"a"}"#).await;
    assert_eq!((refused.status.as_u16(), refused.header("retry-after")), (429, Some("1")));
    assert_eq!(refused.header("ratelimit-policy"), Some(r#""api";q=8;w=3600"#));
    f.clock.advance_ms(1000);
    assert_eq!(f.take(r#"{"key":"a","cost":8}"#).await.json()["reset_after_ms"], 3_600_000);
}

/// Takes until chance has decided both ways.
async fn by_chance(limits: &[&str]) -> (crate::support::Answer, crate::support::Answer) {
    let f = serving(limits).await;
    assert_eq!(f.take(r#"{"key":"a","cost":100}"#).await.json()["outcome"], "admitted");
    let (mut allowed, mut denied) = (None, None);
    for _ in 0..50 {
        let answer = f.take(r#"{"key":"a"}"#).await;
        let body = answer.json();
        assert_eq!(body["outcome"], "suppressed", "{body}");
        match &body["is_allowed"] {
            Value::Bool(true) => allowed = Some(answer),
            _ => denied = Some(answer),
        }
    }
    let peek = f.get("/v1/limits/api/keys/a").await;
    assert_eq!((peek.status.as_u16(), &peek.json()["outcome"]), (200, &json!("suppressed")));
    (allowed.unwrap(), denied.unwrap())
}

#[tokio::test]
async fn chance_is_answered_with_its_factor_and_without_a_time_to_come_back() {
    let suppressed =
        ["api.algorithm=suppressed", "api.rate=10/s", "api.window=10s", "api.hard_limit_factor=2"];
    let smooth = ["api.algorithm=smooth", "api.rate=10/s", "api.window=10s"];
    for limits in [&suppressed[..], &smooth[..]] {
        let (allowed, denied) = by_chance(limits).await;
        let factor = |answer: &crate::support::Answer| answer.json()["suppression_factor"].as_f64().unwrap();
        assert_eq!((allowed.status.as_u16(), allowed.header("retry-after")), (200, None));
        assert_eq!(allowed.header("content-type"), Some("application/json"));
        assert!((0.0..1.0).contains(&factor(&allowed)), "{allowed:?}");
        let body = allowed.json();
        assert_eq!(
            (&body["receipt"], body.get("retry_after_ms"), body.get("type")),
            (&json!(null), None, None)
        );

        assert_eq!((denied.status.as_u16(), denied.header("retry-after")), (429, None));
        assert_eq!(denied.header("content-type"), Some("application/problem+json"));
        assert!(factor(&denied) > 0.0 && factor(&denied) <= 1.0, "{denied:?}");
        let body = denied.json();
        assert_eq!(body["type"], "https://iana.org/assignments/http-problem-types#quota-exceeded");
        assert_eq!((&body["violated-policies"], &body["is_allowed"]), (&json!(["api"]), &json!(false)));
        assert_eq!(body.get("retry_after_ms"), None);
        assert_eq!(
            body["detail"],
            "above 100 permits per 10 s the limit \"api\" lets only some calls through, and not this one"
        );
    }
}

#[tokio::test]
async fn above_the_hard_limit_nothing_passes() {
    let f = serving(&["api.algorithm=suppressed", "api.rate=1/s", "api.window=10s"]).await;
    assert_eq!(f.take(r#"{"key":"a","cost":10}"#).await.status, 200);
    let denied = f.take(r#"{"key":"a"}"#).await;
    assert_eq!((denied.status.as_u16(), &denied.json()["suppression_factor"]), (429, &json!(1.0)));
}

#[tokio::test]
async fn what_everyone_shares_is_nobodys_in_particular() {
    for algorithm in ["sliding", "suppressed", "smooth", "token", "calendar"] {
        let f = serving(&[&format!("api.algorithm={algorithm}")]).await;
        let of = async |path: &str| f.get(path).await.json()["remaining"].as_u64().unwrap();
        let whole = of("/v1/limits/api/everyone").await;
        for body in ["{}", r#"{"cost":1}"#] {
            let taken = f.take(body).await.json();
            assert_eq!((&taken["outcome"], &taken["key"]), (&json!("admitted"), &json!(null)), "{algorithm}");
        }
        assert_eq!(of("/v1/limits/api/everyone").await, whole - 2, "{algorithm}");
        assert_eq!(of("/v1/limits/api/keys/everyone").await, whole, "{algorithm}: a key like any other");
        assert_eq!(f.get("/v1/limits/api/everyone").await.json()["key"], json!(null));

        let taken = f.take(r#"{"cost":2}"#).await.json();
        let refund = json!({"receipt": taken["receipt"]}).to_string();
        match algorithm {
            "suppressed" | "smooth" => assert_eq!(taken["receipt"], json!(null)),
            _ => {
                assert_eq!(f.post("/v1/limits/api/refund", &refund).await.json(), json!({"refunded": 2}));
            }
        }
        assert_eq!(f.delete("/v1/limits/api/everyone").await.status, 204);
        assert_eq!(of("/v1/limits/api/everyone").await, whole, "{algorithm}");
    }
}
