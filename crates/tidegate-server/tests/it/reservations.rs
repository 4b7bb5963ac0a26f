//! Reservations as resources.

use serde_json::json;

use crate::support::{Answer, Fixture, fixture, serving};

const PATH: &str = "/v1/limits/api/keys/a/reservations/order-17";

async fn remaining(f: &Fixture) -> u64 {
    f.get("/v1/limits/api/keys/a").await.json()["remaining"].as_u64().unwrap()
}

fn reservation(state: &str, expires_in_ms: u64) -> serde_json::Value {
    json!({"limit": "api", "key": "a", "id": "order-17", "cost": 3, "state": state,
        "expires_in_ms": expires_in_ms})
}

#[track_caller]
fn assert_conflict(answer: &Answer, detail: &str) {
    assert_eq!(answer.status, 409, "{answer:?}");
    assert_eq!(answer.header("content-type"), Some("application/problem+json"));
    assert_eq!(answer.json()["type"], "urn:tidegate:problem:conflict");
    assert_eq!(answer.json()["detail"], detail);
}

#[tokio::test]
async fn made_once_and_committed_once_however_often_it_is_sent() {
    for algorithm in ["sliding", "calendar"] {
        let f = serving(&[&format!("api.algorithm={algorithm}")]).await;
        let before = remaining(&f).await;
        let body = r#"{"cost":3,"lasting_ms":30000}"#;
        let made = f.put(PATH, body).await;
        assert_eq!((made.status.as_u16(), made.json()), (201, reservation("pending", 30_000)));
        f.clock.advance_ms(10_000);
        let again = f.put(PATH, body).await;
        assert_eq!((again.status.as_u16(), again.json()), (200, reservation("pending", 20_000)));
        let seen = f.get(PATH).await;
        assert_eq!((seen.status.as_u16(), seen.json()), (200, reservation("pending", 20_000)));
        assert_eq!(remaining(&f).await, before - 3);
        for _ in 0..2 {
            let done = f.post(&format!("{PATH}/commit"), "").await;
            assert_eq!((done.status.as_u16(), done.json()), (200, reservation("committed", 0)));
        }
        assert_eq!(remaining(&f).await, before - 3);
        assert_conflict(
            &f.delete(PATH).await,
            "the reservation \"order-17\" is committed: it can no longer be released",
        );
        assert_eq!(f.put(PATH, body).await.json(), reservation("committed", 0), "{algorithm}");
    }
}

#[tokio::test]
async fn what_is_released_is_free_again() {
    let f = fixture().await;
    f.put(PATH, r#"{"cost":3,"lasting":"30s"}"#).await;
    for _ in 0..2 {
        let done = f.delete(PATH).await;
        assert_eq!((done.status.as_u16(), done.json()), (200, reservation("released", 0)));
    }
    assert_eq!(remaining(&f).await, 300);
    assert_conflict(
        &f.post(&format!("{PATH}/commit"), "").await,
        "the reservation \"order-17\" is released: it can no longer be committed",
    );
}

#[tokio::test]
async fn at_the_deadline_it_is_spent_or_given_back_by_setting() {
    for (on_lapse, left, committed) in [("spend", 297, 200), ("give_back", 300, 409)] {
        let f = serving(&[&format!("api.on_lapse={on_lapse}")]).await;
        f.put(PATH, r#"{"cost":3,"lasting_ms":1000}"#).await;
        f.clock.advance_ms(2000);
        assert_eq!(f.get(PATH).await.json(), reservation("lapsed", 0));
        assert_eq!(remaining(&f).await, left, "{on_lapse}");
        let late = f.post(&format!("{PATH}/commit"), "").await;
        assert_eq!(late.status, committed, "{on_lapse}");
        assert_eq!(remaining(&f).await, left, "{on_lapse}");
    }
}

#[tokio::test]
async fn what_has_lapsed_cannot_be_released() {
    let f = fixture().await;
    f.put(PATH, r#"{"cost":3,"lasting_ms":1000}"#).await;
    f.clock.advance_ms(2000);
    assert_conflict(
        &f.delete(PATH).await,
        "the reservation \"order-17\" is lapsed: it can no longer be released",
    );
}

#[tokio::test]
async fn what_does_not_fit_is_refused_like_a_take() {
    let f = fixture().await;
    f.take(r#"{"key":"a","cost":299}"#).await;
    let refused = f.put(PATH, r#"{"cost":3,"lasting_ms":1000}"#).await;
    assert_eq!((refused.status.as_u16(), refused.header("retry-after")), (429, Some("61")));
    assert_eq!(refused.header("ratelimit"), Some(r#""api";r=1;t=61"#));
    let body = refused.json();
    assert_eq!((&body["outcome"], &body["violated-policies"]), (&json!("rejected"), &json!(["api"])));
    assert_eq!(f.get(PATH).await.status, 404, "nothing is held, and nothing remembered");
}

#[tokio::test]
async fn another_cost_under_the_same_id_is_a_conflict() {
    let f = fixture().await;
    f.put(PATH, r#"{"cost":3,"lasting_ms":1000}"#).await;
    let answer = f.put(PATH, r#"{"cost":4,"lasting_ms":1000}"#).await;
    assert_conflict(&answer, "the reservation \"order-17\" is for 3 and cannot be for 4: use another id");
}

#[tokio::test]
async fn unknown_ids_are_refused() {
    let f = fixture().await;
    for (method, path) in [("GET", PATH), ("DELETE", PATH), ("POST", &format!("{PATH}/commit"))] {
        let answer = crate::support::call(&f.app, method, path, "").await;
        assert_eq!(answer.status, 404);
        assert_eq!(answer.json()["type"], "urn:tidegate:problem:no-reservation");
        assert_eq!(
            answer.json()["detail"],
            "the key \"a\" has no reservation \"order-17\" of the limit \"api\", or it has been forgotten"
        );
    }
}

#[tokio::test]
async fn everyone_and_any_text_as_an_id() {
    let f = fixture().await;
    let path = "/v1/limits/api/everyone/reservations/a%2Fb:%7Bc%7D";
    let made = f.put(path, r#"{"lasting_ms":1000}"#).await;
    assert_eq!(made.status, 201, "{made:?}");
    let body = made.json();
    assert_eq!((&body["key"], &body["id"], &body["cost"]), (&json!(null), &json!("a/b:{c}"), &json!(1)));
    assert_eq!(f.post(&format!("{path}/commit"), "").await.json()["state"], "committed");
    assert_eq!(f.get("/v1/limits/api/everyone").await.json()["remaining"], 299);
}

#[tokio::test]
async fn only_limits_that_count_have_them() {
    for algorithm in ["suppressed", "smooth", "token"] {
        let f = serving(&[&format!("api.algorithm={algorithm}")]).await;
        for answer in [f.put(PATH, r#"{"lasting_ms":1000}"#).await, f.get(PATH).await, f.delete(PATH).await] {
            assert_eq!(answer.status, 400, "{algorithm}: {answer:?}");
            let detail = answer.json()["detail"].as_str().unwrap().to_owned();
            assert!(detail.contains(algorithm) && detail.contains("sliding"), "{detail}");
        }
    }
}
