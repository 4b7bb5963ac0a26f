//! Wrong requests about sessions.

use axum::body::Body;
use axum::http::Request;
use tidegate_server::http::router;
use tidegate_server::settings::HttpSettings;

use crate::session::{NOBODY, path};
use crate::support::{Answer, call, send, serving_sessions};

fn assert_problem(answer: &Answer, status: u16, name: &str, detail: &str) {
    assert_eq!(answer.status, status, "{answer:?}");
    assert_eq!(answer.header("content-type"), Some("application/problem+json"));
    let body = answer.json();
    assert_eq!(body["type"], format!("urn:tidegate:problem:{name}"));
    assert!(body["detail"].as_str().unwrap().contains(detail), "{detail}: {body}");
    assert_eq!(body.get("refusal"), None, "nothing was refused: it was not understood");
}

#[tokio::test]
async fn bodies_are_checked() {
    let f = serving_sessions(&[]).await;
    let long = "x".repeat(256);
    for (body, detail) in [
        ("".to_owned(), "EOF while parsing"),
        ("[]".to_owned(), "the body is an array"),
        ("{}".to_owned(), "missing field `broadcaster`"),
        (r#"{"broadcaster":"b"}"#.to_owned(), "missing field `config`"),
        (r#"{"broadcaster":"","config":{}}"#.to_owned(), "a broadcaster must not be empty: 1 to 255 bytes"),
        (format!(r#"{{"broadcaster":"{long}","config":{{}}}}"#), "has 256 bytes: 1 to 255 are allowed"),
        (r#"{"broadcaster":"b","config":{},"holder":""}"#.to_owned(), "a holder must not be empty"),
        (r#"{"broadcaster":7,"config":{}}"#.to_owned(), "expected a string"),
        (r#"{"broadcaster":"b","config":{]}"#.to_owned(), "the body is not what is expected"),
        (r#"{"broadcaster":"b","config":"\ud800"}"#.to_owned(), "the body is not what is expected"),
        (
            r#"{"broadcaster":"b","config":{},"ttl":1}"#.to_owned(),
            "unknown field `ttl`, expected one of `broad",
        ),
    ] {
        let answer = f.post("/v1/sessions/main", &body).await;
        assert_problem(&answer, 400, "invalid-request", detail);
    }
    for (place, body, detail) in [
        ("/claims", r#"{"limit":0}"#, "a limit of 0 is not allowed: whole numbers from 1 to 1000 are"),
        ("/claims", r#"{"limit":1001}"#, "a limit of 1001 is not allowed"),
        ("/claims", r#"{"limit":-1}"#, "expected u64"),
        ("/acks", "{}", "missing field `acks`"),
        ("/acks", r#"{"acks":[{"id":"x","generation":1}]}"#, "\"x\" is not a session id: a UUID is, like"),
        (
            "/acks",
            r#"{"acks":[{"id":"67e55044-10b1-426f-9247-bb680e5fe0c8"}]}"#,
            "missing field `generation`",
        ),
        (
            "/acks",
            r#"{"acks":[{"id":"67e55044-10b1-426f-9247-bb680e5fe0c8","generation":0}]}"#,
            "a generation of 0 is not allowed: whole numbers from 1 to 9007199254740991 are",
        ),
        ("/cleanup", r#"{"limit":1}"#, "unknown field `limit`"),
        ("/dead/67e55044-10b1-426f-9247-bb680e5fe0c8/retry", "[]", "the body is an array"),
    ] {
        let answer = f.post(&format!("/v1/sessions/main{place}"), body).await;
        assert_problem(&answer, 400, "invalid-request", detail);
    }
    for (body, detail) in [
        ("", "EOF while parsing"),
        ("{}", "missing field `value`"),
        (r#"{"value":1,"generation":0}"#, "a generation of 0 is not allowed"),
        (r#"{"value":1,"generation":"1"}"#, "expected u64"),
    ] {
        let answer = f.put(&path(NOBODY, "/value"), body).await;
        assert_problem(&answer, 400, "invalid-request", detail);
    }
    let ack = format!("{{\"id\":\"{NOBODY}\",\"generation\":1}}");
    let acks = format!("{{\"acks\":[{}]}}", vec![ack; 1001].join(","));
    let large =
        f.app.clone().with_settings(&HttpSettings { max_body_bytes: 1 << 20, ..HttpSettings::default() });
    let answer = call(&large, "POST", "/v1/sessions/main/acks", &acks).await;
    assert_problem(&answer, 400, "invalid-request", "1001 acks at once are not allowed: up to 1000 are");
    let config = format!(r#"{{"broadcaster":"b","config":"{}"}}"#, "x".repeat(65_537));
    let answer = call(&large, "POST", "/v1/sessions/main", &config).await;
    assert_problem(
        &answer,
        400,
        "invalid-request",
        "a config of 65537 bytes is not allowed: up to 65536 are",
    );
    let answer = f.post("/v1/sessions/main", &config).await;
    assert_problem(&answer, 413, "body-too-large", "at most 65536 bytes");
}

/// What a page elsewhere can make a browser send does nothing here.
#[tokio::test]
async fn other_pages_are_refused() {
    let f = serving_sessions(&[]).await;
    for place in ["", "/claims", "/acks", "/cleanup", "/dead/67e55044-10b1-426f-9247-bb680e5fe0c8/retry"] {
        let request =
            Request::post(format!("/v1/sessions/main{place}")).header("origin", "https://elsewhere.example");
        let answer = send(router(f.app.clone()), request.body(Body::empty()).unwrap()).await;
        assert_problem(&answer, 415, "unsupported-media-type", "application/json is");
    }
    let request = Request::post(path(NOBODY, "/holders/h/heartbeat")).header("content-type", "text/plain");
    let answer = send(router(f.app.clone()), request.body(Body::empty()).unwrap()).await;
    assert_problem(&answer, 415, "unsupported-media-type", "application/json is");
}

#[tokio::test]
async fn requests_are_checked() {
    let f = serving_sessions(&[]).await;
    let holder = |name: &str| path(NOBODY, &format!("/holders/{name}"));
    for (method, path, detail) in [
        ("GET", "/v1/sessions/main?limit=1001".to_owned(), "`limit`: \"1001\" is not allowed: whole numbers"),
        (
            "GET",
            "/v1/sessions/main?state=gone".to_owned(),
            "`state`: \"gone\" is not a state: active, disconnected, orphan, claimed, dead are",
        ),
        ("GET", "/v1/sessions/main?max_age=30".to_owned(), "`max_age`: \"30\" is not a length of time"),
        ("GET", "/v1/sessions/main?max_age=1s&state=orphan".to_owned(), "are not allowed together"),
        (
            "GET",
            "/v1/sessions/main?after=5".to_owned(),
            "`after`: \"5\" is not a place in a list: the `next`",
        ),
        (
            "GET",
            "/v1/sessions/main?age=1s".to_owned(),
            "unknown parameter \"age\"; known are: state, max_age",
        ),
        ("GET", "/v1/sessions/main/dead?state=dead".to_owned(), "unknown parameter \"state\""),
        ("GET", "/v1/sessions/main/counts?x=1".to_owned(), "unknown parameter \"x\"; known are: none"),
        ("GET", "/v1/sessions?x=1".to_owned(), "unknown parameter \"x\""),
        ("GET", "/v1/sessions/main/seven".to_owned(), "\"seven\" is not a session id: a UUID is"),
        ("DELETE", "/v1/sessions/main/seven".to_owned(), "\"seven\" is not a session id"),
        ("PUT", "/v1/sessions/main/seven/holders/h".to_owned(), "\"seven\" is not a session id"),
        ("GET", "/v1/sessions/main/broadcasters/".to_owned(), "a broadcaster must not be empty"),
        ("PUT", holder(""), "a holder must not be empty"),
        ("DELETE", holder(""), "a holder must not be empty"),
        ("PUT", holder(&"x".repeat(256)), "has 256 bytes: 1 to 255 are allowed"),
        ("PUT", holder("%FF"), "the path is not UTF-8"),
        ("PUT", holder("h?resume=yes"), "`resume`: \"yes\" is not allowed: true and false are"),
        ("PUT", holder("h?generation=x"), "`generation`: \"x\" is not allowed: whole numbers from 1 to"),
        ("PUT", holder("h?generation=0"), "a generation of 0 is not allowed"),
        ("DELETE", holder("h?resume=true"), "unknown parameter \"resume\"; known are: generation"),
    ] {
        assert_problem(&call(&f.app, method, &path, "").await, 400, "invalid-request", detail);
    }
    for (method, place) in [
        ("POST", ""),
        ("GET", ""),
        ("GET", "/counts"),
        ("GET", "/dead"),
        ("POST", "/dead/67e55044-10b1-426f-9247-bb680e5fe0c8/retry"),
        ("POST", "/claims"),
        ("POST", "/acks"),
        ("POST", "/cleanup"),
        ("GET", "/broadcasters/b"),
        ("GET", "/broadcasters/"),
        ("GET", "/67e55044-10b1-426f-9247-bb680e5fe0c8"),
        ("DELETE", "/67e55044-10b1-426f-9247-bb680e5fe0c8"),
        ("PUT", "/67e55044-10b1-426f-9247-bb680e5fe0c8/value"),
        ("PUT", "/67e55044-10b1-426f-9247-bb680e5fe0c8/holders/h"),
        ("PUT", "/67e55044-10b1-426f-9247-bb680e5fe0c8/holders/"),
        ("DELETE", "/67e55044-10b1-426f-9247-bb680e5fe0c8/holders/h"),
        ("POST", "/67e55044-10b1-426f-9247-bb680e5fe0c8/holders/h/heartbeat"),
    ] {
        let answer = call(&f.app, method, &format!("/v1/sessions/nope{place}"), "").await;
        assert_problem(&answer, 404, "unknown-space", "there is no space \"nope\"; known are: main");
    }
    for (method, place, allow) in [
        ("DELETE", "".to_owned(), "GET,HEAD,POST"),
        ("GET", "/claims".to_owned(), "POST"),
        ("GET", "/acks".to_owned(), "POST"),
        ("GET", "/cleanup".to_owned(), "POST"),
        ("POST", format!("/{NOBODY}"), "GET,HEAD,DELETE"),
        ("GET", format!("/{NOBODY}/value"), "PUT"),
        ("GET", format!("/{NOBODY}/holders/h"), "PUT,DELETE"),
    ] {
        let answer = call(&f.app, method, &format!("/v1/sessions/main{place}"), "").await;
        assert_problem(&answer, 405, "method-not-allowed", "");
        assert_eq!(answer.header("allow"), Some(allow), "{place}");
    }
}
