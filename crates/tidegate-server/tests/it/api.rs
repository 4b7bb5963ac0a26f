//! Every route, as it is meant to be used.

use serde_json::json;

use crate::support::{call, fixture};

#[tokio::test]
async fn an_admitted_take_tells_where_the_key_stands() {
    let f = fixture().await;
    let answer = f.take(r#"{"key":"user_123"}"#).await;
    assert_eq!(answer.status, 200);
    let receipt = answer.json()["receipt"].as_str().unwrap().to_owned();
    assert!(receipt.starts_with("192000000001-0-1-"), "{receipt}");
    assert_eq!(
        answer.body.replace(&receipt, "RECEIPT"),
        r#"{"outcome":"admitted","limit":"api","key":"user_123","cost":1,"capacity":300,"remaining":299,"reset_after_ms":60600,"window_size_seconds":60,"receipt":"RECEIPT","source":"store"}"#
    );
    assert_eq!(answer.header("content-type"), Some("application/json"));
    assert_eq!(answer.header("ratelimit-policy"), Some(r#""api";q=300;w=60"#));
    assert_eq!(answer.header("ratelimit"), Some(r#""api";r=299;t=61"#));
    assert_eq!(answer.header("retry-after"), None);
}

#[tokio::test]
async fn a_refusal_is_a_problem_with_the_time_to_come_back() {
    let f = fixture().await;
    assert_eq!(f.take(r#"{"key":"a","cost":300}"#).await.status, 200);
    f.clock.advance_ms(100);
    let answer = f.take(r#"{"key":"a","cost":7}"#).await;
    assert_eq!(answer.status, 429);
    assert_eq!(
        answer.json(),
        json!({
            "type": "https://iana.org/assignments/http-problem-types#quota-exceeded",
            "title": "Quota exceeded",
            "status": 429,
            "detail": "0 of 300 permits per 60 s of the limit \"api\" are left: a cost of 7 fits in 60500 ms",
            "violated-policies": ["api"],
            "outcome": "rejected", "limit": "api", "key": "a", "cost": 7,
            "capacity": 300, "remaining": 0, "reset_after_ms": 60500, "window_size_seconds": 60,
            "retry_after_ms": 60500, "remaining_after_waiting": 300,
            "receipt": null, "source": "store",
        })
    );
    assert_eq!(answer.header("content-type"), Some("application/problem+json"));
    assert_eq!(answer.header("ratelimit-policy"), Some(r#""api";q=300;w=60"#));
    assert_eq!(answer.header("ratelimit"), Some(r#""api";r=0;t=61"#));
    assert_eq!(answer.header("retry-after"), Some("61"));

    f.clock.advance_ms(60_499);
    assert_eq!(f.take(r#"{"key":"a","cost":7}"#).await.header("retry-after"), Some("1"));
    f.clock.advance_ms(1);
    assert_eq!(f.take(r#"{"key":"a","cost":7}"#).await.status, 200);
}

#[tokio::test]
async fn what_can_never_fit_is_refused_without_a_time_to_come_back() {
    let f = fixture().await;
    let answer = f.take(r#"{"key":"a","cost":301}"#).await;
    assert_eq!(answer.status, 429);
    assert_eq!(answer.header("retry-after"), None);
    let body = answer.json();
    assert_eq!((&body["retry_after_ms"], &body["remaining"]), (&json!(null), &json!(300)));
    assert_eq!(
        body["detail"],
        "a cost of 301 never fits the limit \"api\", whose capacity is 300: waiting cannot help"
    );
}

#[tokio::test]
async fn a_rate_of_its_own_judges_a_take_and_the_peeks_after_it() {
    let f = fixture().await;
    let answer = f.take(r#"{"key":"a","cost":400,"rate":"10/s"}"#).await;
    assert_eq!((answer.status.as_u16(), &answer.json()["remaining"]), (200, &json!(200)));
    assert_eq!(answer.header("ratelimit-policy"), Some(r#""api";q=600;w=60"#));
    let peek = f.get("/v1/limits/api/keys/a").await;
    assert_eq!(peek.header("ratelimit"), Some(r#""api";r=200;t=61"#));
}

#[tokio::test]
async fn costs_are_whole_numbers_however_they_are_written() {
    let f = fixture().await;
    for (cost, remaining) in [("2", 298), ("2.0", 296), ("2e0", 294), ("null", 293)] {
        let answer = f.take(&format!(r#"{{"key":"a","cost":{cost}}}"#)).await;
        assert_eq!(answer.json()["remaining"], remaining, "{cost}");
    }
}

#[tokio::test]
async fn a_peek_charges_nothing_and_is_always_answered() {
    let f = fixture().await;
    let answer = f.get("/v1/limits/api/keys/a").await;
    assert_eq!(answer.status, 200);
    assert_eq!(
        answer.body,
        r#"{"outcome":"admitted","limit":"api","key":"a","cost":1,"capacity":300,"remaining":300,"reset_after_ms":0,"window_size_seconds":60,"receipt":null,"source":"store"}"#
    );
    assert_eq!(answer.header("ratelimit"), Some(r#""api";r=300;t=0"#));

    f.take(r#"{"key":"a","cost":300}"#).await;
    let answer = f.get("/v1/limits/api/keys/a").await;
    assert_eq!(answer.status, 200);
    assert_eq!(
        answer.body,
        r#"{"outcome":"rejected","limit":"api","key":"a","cost":1,"capacity":300,"remaining":0,"reset_after_ms":60600,"window_size_seconds":60,"retry_after_ms":60600,"remaining_after_waiting":300,"receipt":null,"source":"store"}"#
    );
    assert_eq!(answer.header("content-type"), Some("application/json"));
    assert_eq!(answer.header("ratelimit"), Some(r#""api";r=0;t=61"#));
}

#[tokio::test]
async fn a_refund_gives_back_once() {
    let f = fixture().await;
    let receipt = f.take(r#"{"key":"a","cost":3}"#).await.json()["receipt"].clone();
    let refund = json!({"key": "a", "receipt": receipt}).to_string();
    for refunded in [3, 0] {
        let answer = call(&f.app, "POST", "/v1/limits/api/refund", &refund).await;
        assert_eq!((answer.status.as_u16(), answer.json()), (200, json!({"refunded": refunded})));
    }
    assert_eq!(f.get("/v1/limits/api/keys/a").await.json()["remaining"], 300);
}

#[tokio::test]
async fn a_reset_forgets_what_was_used() {
    let f = fixture().await;
    f.take(r#"{"key":"a","cost":300}"#).await;
    let answer = call(&f.app, "DELETE", "/v1/limits/api/keys/a", "").await;
    assert_eq!((answer.status.as_u16(), answer.body.as_str()), (204, ""));
    assert_eq!(f.get("/v1/limits/api/keys/a").await.json()["remaining"], 300);
}

#[tokio::test]
async fn any_text_is_a_key_in_a_body_and_in_a_path() {
    let f = fixture().await;
    for (key, path) in [
        ("a/b", "a%2Fb"),
        ("a:b", "a:b"),
        ("{user}:1", "%7Buser%7D:1"),
        ("größe/👍", "gr%C3%B6%C3%9Fe%2F%F0%9F%91%8D"),
        ("100%", "100%25"),
        ("a%2Fb", "a%252Fb"),
        ("..", "%2E%2E"),
        ("a b+c?d#e", "a%20b+c%3Fd%23e"),
        ("\u{0}\n", "%00%0A"),
    ] {
        let taken = f.take(&json!({"key": key}).to_string()).await;
        assert_eq!(taken.json()["key"], key);
        let path = format!("/v1/limits/api/keys/{path}");
        let peeked = f.get(&path).await.json();
        assert_eq!((&peeked["key"], &peeked["remaining"]), (&json!(key), &json!(299)), "{path}");
        assert_eq!(call(&f.app, "DELETE", &path, "").await.status, 204, "{path}");
        assert_eq!(f.get(&path).await.json()["remaining"], 300, "{path}");
    }
}

#[tokio::test]
async fn limits_are_listed_with_their_numbers() {
    let f = fixture().await;
    let one = f.get("/v1/limits/api").await.json();
    let answer = f.get("/v1/limits").await;
    assert_eq!(answer.json()["limits"][0], one);
    assert_eq!(
        answer.body,
        r#"{"limits":[{"limit":"api","algorithm":"sliding","rate":"5/s","window_size_seconds":60,"capacity":300,"coalesce_ms":600}]}"#
    );
    assert_eq!(answer.header("content-type"), Some("application/json"));
}

#[tokio::test]
async fn the_server_tells_about_itself() {
    let f = fixture().await;
    let health = f.get("/healthz").await;
    assert_eq!((health.status.as_u16(), health.body.as_str()), (200, "ok"));
    let ready = f.get("/readyz").await;
    let store = json!({"partitions": 1, "partitions_away": 0, "reached": true, "away": []});
    let expected = json!({"ready": true, "readiness": "any", "draining": false, "store": store});
    assert_eq!((ready.status.as_u16(), ready.json()), (200, expected));
    assert!(f.get("/").await.body.contains("POST   /v1/limits/{limit}/take"));

    f.take(r#"{"key":"a"}"#).await;
    let metrics = f.get("/metrics").await;
    assert_eq!(metrics.header("content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));
    let count = r#"tidegate_limit_decisions_total{limit="api",outcome="admitted",source="store"} 1"#;
    assert!(metrics.body.contains(count), "{}", metrics.body);
    assert!(metrics.body.contains("\ntidegate_http_connections 0\n"), "{}", metrics.body);
    for operation in ["take", "take_all", "peek", "refund", "reset", "set_override", "reserve", "list_limits"]
    {
        let taken = u8::from(operation == "take");
        let count = format!("tidegate_http_request_seconds_count{{operation=\"{operation}\"}} {taken}\n");
        assert!(metrics.body.contains(&count), "{}", metrics.body);
    }
}

/// Without a server nobody else waits: a command on a store has as long as it takes.
#[tokio::test(start_paused = true)]
async fn without_a_server_a_request_may_take_as_long_as_it_likes() {
    let f = fixture().await;
    let body =
        axum::body::Body::from_stream(futures_util::stream::pending::<Result<String, std::io::Error>>());
    let request = axum::http::Request::post("/v1/limits/api/take").body(body).unwrap();
    let mut router = tidegate_server::http::router(f.app.clone());
    let answer = tower_service::Service::call(&mut router, request);
    let waited = tokio::time::timeout(std::time::Duration::from_secs(24 * 3600), answer).await;
    assert!(waited.is_err(), "{waited:?}");
}
