//! Every wrong request is refused with what was wrong and what is allowed.

use std::io::Write as _;

use axum::body::Body;
use axum::http::Request;
use tidegate_server::http::router;
use tidegate_server::settings::HttpSettings;

use crate::support::{Answer, Fixture, call, fixture, send};

/// A problem of this status, type and detail.
#[track_caller]
fn assert_problem(answer: &Answer, status: u16, name: &str, detail: &str) {
    assert_eq!(answer.status, status, "{}", answer.body);
    assert_eq!(answer.header("content-type"), Some("application/problem+json"));
    let body = answer.json();
    assert_eq!(body["type"], format!("urn:tidegate:problem:{name}"));
    assert_eq!(body["status"], status);
    assert!(body["title"].is_string());
    let given = body["detail"].as_str().unwrap();
    assert!(given.contains(detail), "{given:?} does not contain {detail:?}");
    assert!(!given.ends_with('.'), "{given:?}");
}

#[tokio::test]
async fn bodies_are_checked() {
    let f = fixture().await;
    let long = format!(r#"{{"key":"{}"}}"#, "x".repeat(256));
    for (body, detail) in [
        ("", "EOF while parsing a value at line 1 column 0"),
        ("{", "EOF while parsing an object at line 1 column 1"),
        ("nonsense", "expected ident at line 1 column 2"),
        ("7", "invalid type: integer `7`, expected an object with key, cost and rate"),
        (r#"["a", 1, null]"#, "the body is an array: an object is expected"),
        (r#"{"key":"a"} x"#, "trailing characters at line 1 column 13"),
        (r#"{"key":"a","key":"b"}"#, "duplicate field `key`"),
        (r#"{"key":1}"#, "invalid type: integer `1`, expected a string"),
        (r#"{"key":"a","cots":2}"#, "unknown field `cots`, expected one of `key`, `cost`, `rate`"),
        (r#"{"key":""}"#, "a key must not be empty: 1 to 255 bytes are allowed"),
        (&long, "has 256 bytes: 1 to 255 are allowed"),
        (r#"{"key":"\ud800"}"#, "unexpected end of hex escape"),
        (r#"{"key":"a","rate":"5/y"}"#, "\"5/y\" is not a rate"),
        (r#"{"key":"a","rate":"0/s"}"#, "0/s over 60 s is 0 permits: 1 to 9007199254740991 are allowed"),
        (r#"{"key":"a","rate":5}"#, "invalid type: integer `5`, expected a string"),
    ] {
        let answer = f.take(body).await;
        assert_problem(&answer, 400, "invalid-request", detail);
    }
}

#[tokio::test]
async fn costs_are_checked() {
    let f = fixture().await;
    for cost in ["0", "-1", "-0", "1.5", "0.0", "9007199254740992", "18446744073709551616", "-1e300", "1e300"]
    {
        let answer = f.take(&format!(r#"{{"key":"a","cost":{cost}}}"#)).await;
        let allowed = "is not allowed: whole numbers from 1 to 9007199254740991 are";
        assert_problem(&answer, 400, "invalid-request", allowed);
    }
    let answer = f.take(r#"{"key":"a","cost":"1"}"#).await;
    let expected = "invalid type: string \"1\", expected a cost: a whole number from 1 to";
    assert_problem(&answer, 400, "invalid-request", expected);
    assert_eq!(f.get("/v1/limits/api/keys/a").await.json()["remaining"], 300);
}

#[tokio::test]
async fn refunds_are_checked() {
    let f = fixture().await;
    for (body, detail) in [
        (r#"{"key":"a"}"#, "missing field `receipt`"),
        (
            r#"{"key":"a","receipt":"x"}"#,
            "\"x\" is not a receipt of this key and limit: send back the one a take answered",
        ),
        (r#"{"key":"","receipt":"1-0-1-5"}"#, "a key must not be empty"),
        (r#"{"key":"a","receipt":"1-0-1-5","cost":1}"#, "unknown field `cost`"),
    ] {
        let answer = call(&f.app, "POST", "/v1/limits/api/refund", body).await;
        assert_problem(&answer, 400, "invalid-request", detail);
    }
}

#[tokio::test]
async fn takes_from_several_limits_are_checked() {
    let f = fixture().await;
    let many: Vec<_> = (0..17).map(|_| r#"{"limit":"api"}"#).collect();
    let many = format!(r#"{{"key":"a","limits":[{}]}}"#, many.join(","));
    for (body, detail) in [
        ("{}", "missing field `limits`"),
        (r#"{"limits":{}}"#, "invalid type: map, expected a sequence"),
        (r#"{"limits":[]}"#, "0 limits at once are not allowed: 1 to 16 are"),
        (&many, "17 limits at once are not allowed: 1 to 16 are"),
        (r#"{"limits":["api"]}"#, "invalid type: string \"api\", expected an object with limit and cost"),
        (r#"{"limits":[{"cost":1}]}"#, "missing field `limit`"),
        (r#"{"limits":[{"limit":"api","rate":"1/s"}]}"#, "unknown field `rate`, expected `limit` or `cost`"),
        (r#"{"limits":[{"limit":"api","cost":0}]}"#, "a cost of 0 is not allowed"),
        (
            r#"{"limits":[{"limit":"api"},{"limit":"api"}]}"#,
            "the limit \"api\" is named twice: add its costs",
        ),
        (r#"{"key":"","limits":[{"limit":"api"}]}"#, "a key must not be empty"),
        (r#"{"key":"a","limit":[]}"#, "unknown field `limit`, expected `key` or `limits`"),
    ] {
        let answer = f.post("/v1/limits/take", body).await;
        assert_problem(&answer, 400, "invalid-request", detail);
    }
    let unknown = f.post("/v1/limits/take", r#"{"limits":[{"limit":"api"},{"limit":"nope"}]}"#).await;
    assert_problem(&unknown, 404, "unknown-limit", "there is no limit \"nope\"; known are: api");
    assert_eq!(f.get("/v1/limits/api/keys/a").await.json()["remaining"], 300);
}

#[tokio::test]
async fn overrides_are_checked() {
    let f = fixture().await;
    for (body, detail) in [
        ("", "EOF while parsing"),
        ("{}", "missing field `rate`"),
        (r#"{"rate":"5/s"}"#, "how long is missing: `lasting_ms`, or `lasting` like \"1h\""),
        (r#"{"rate":"5/s","lasting_ms":1,"lasting":"1ms"}"#, "`lasting_ms` and `lasting` are the same"),
        (r#"{"rate":"5/s","lasting":"soon"}"#, "`lasting`: \"soon\" is not a length of time"),
        (r#"{"rate":"5/s","lasting_ms":-1}"#, "invalid value: integer `-1`, expected u64"),
        (r#"{"rate":"5/s","lasting_ms":0}"#, "an override of 0ns is not allowed: 1 ms to 90 days are"),
        (r#"{"rate":"5/s","lasting":"91d"}"#, "is not allowed: 1 ms to 90 days are"),
        (r#"{"rate":"5/y","lasting":"1h"}"#, "\"5/y\" is not a rate"),
        (r#"{"rate":"0/s","lasting":"1h"}"#, "0/s over 60 s is 0 permits"),
        (r#"{"rate":"5/s","lasting":"1h","key":"a"}"#, "unknown field `key`"),
    ] {
        let answer = f.put("/v1/limits/api/keys/a/override", body).await;
        assert_problem(&answer, 400, "invalid-request", detail);
    }
    assert_eq!(f.get("/v1/limits/api/keys/a/override").await.status, 404);
}

#[tokio::test]
async fn reservations_are_checked() {
    let f = fixture().await;
    let path = "/v1/limits/api/keys/a/reservations/r";
    for (body, detail) in [
        ("", "EOF while parsing"),
        ("{}", "how long is missing"),
        (r#"{"lasting_ms":0}"#, "a reservation of 0ns is not allowed: 1 ms to the window, 60000 ms, are"),
        (r#"{"lasting":"61s"}"#, "a reservation of 61s is not allowed"),
        (r#"{"lasting":"1s","cost":0}"#, "a cost of 0 is not allowed"),
        (r#"{"lasting":"1s","costs":1}"#, "unknown field `costs`"),
    ] {
        assert_problem(&f.put(path, body).await, 400, "invalid-request", detail);
    }
    let long = format!("/v1/limits/api/keys/a/reservations/{}", "x".repeat(256));
    for answer in [f.put(&long, r#"{"lasting":"1s"}"#).await, f.get(&long).await, f.delete(&long).await] {
        let detail = "a reservation's id has 256 bytes: 1 to 255 are allowed";
        assert_problem(&answer, 400, "invalid-request", detail);
    }
    assert_eq!(f.put(path, r#"{"lasting":"1s"}"#).await.status, 201);
    let commit = format!("{path}/commit");
    let answer = f.post(&commit, r#"{"cost":1}"#).await;
    assert_problem(&answer, 400, "invalid-request", "unknown field `cost`, there are no fields");
    let request = Request::post(&commit).header("origin", "https://elsewhere.example");
    let from_a_page = send(router(f.app.clone()), request.body(Body::empty()).unwrap()).await;
    assert_problem(&from_a_page, 415, "unsupported-media-type", "application/json is");
    assert_eq!(f.post(&commit, "{}").await.status, 200);
}

#[tokio::test]
async fn an_unknown_limit_is_refused_with_the_known_ones() {
    let f = fixture().await;
    for (method, path) in [
        ("POST", "/v1/limits/nope/take"),
        ("POST", "/v1/limits/nope/refund"),
        ("GET", "/v1/limits/nope/keys/a"),
        ("GET", "/v1/limits/nope/keys/"),
        ("DELETE", "/v1/limits/nope/keys/a"),
        ("GET", "/v1/limits/nope/everyone"),
        ("DELETE", "/v1/limits/nope/everyone"),
        ("PUT", "/v1/limits/nope/keys/a/override"),
        ("GET", "/v1/limits/nope/everyone/override"),
        ("DELETE", "/v1/limits/nope/keys/a/override"),
        ("PUT", "/v1/limits/nope/keys/a/reservations/r"),
        ("GET", "/v1/limits/nope/keys/a/reservations/r"),
        ("DELETE", "/v1/limits/nope/everyone/reservations/r"),
        ("POST", "/v1/limits/nope/keys/a/reservations/r/commit"),
    ] {
        let answer = call(&f.app, method, path, "").await;
        assert_problem(&answer, 404, "unknown-limit", "there is no limit \"nope\"; known are: api");
    }
}

#[tokio::test]
async fn keys_in_paths_are_checked() {
    let f = fixture().await;
    let long = format!("/v1/limits/api/keys/{}", "%C3%A4".repeat(128));
    for (path, detail) in [
        ("/v1/limits/api/keys/", "a key must not be empty: 1 to 255 bytes are allowed"),
        ("/v1/limits/api/keys/%FF", "the path is not UTF-8 when percent-decoded"),
        (&long, "has 256 bytes: 1 to 255 are allowed"),
    ] {
        for method in ["GET", "DELETE"] {
            let answer = call(&f.app, method, path, "").await;
            assert_problem(&answer, 400, "invalid-request", detail);
        }
    }
    for path in ["/v1/limits/api/keys//override", "/v1/limits/api/keys//reservations/r"] {
        for method in ["GET", "PUT", "DELETE"] {
            let answer = call(&f.app, method, path, r#"{"rate":"1/s","lasting":"1s"}"#).await;
            assert_problem(&answer, 400, "invalid-request", "a key must not be empty");
        }
    }
}

#[tokio::test]
async fn unknown_paths_are_refused_with_where_to_look() {
    let f = fixture().await;
    for path in [
        "/nope",
        "/v1",
        "/v1/limits/",
        "/v1/limits/api/keys/a/b",
        "//",
        "/v1/limits/api/keys/a/reservations/",
        "/v1/limits/api/everyone/a",
    ] {
        let answer = f.get(path).await;
        let detail = format!("there is nothing at {path:?}: / lists what there is");
        assert_problem(&answer, 404, "unknown-path", &detail);
    }
}

#[tokio::test]
async fn wrong_methods_are_refused_with_the_right_ones() {
    let f = fixture().await;
    for (method, path, allow) in [
        ("GET", "/v1/limits/api/take", "POST"),
        ("DELETE", "/v1/limits/api/refund", "POST"),
        ("POST", "/v1/limits/api/keys/a", "GET,HEAD,DELETE"),
        ("PUT", "/v1/limits/api/everyone", "GET,HEAD,DELETE"),
        ("POST", "/v1/limits/api/keys/a/override", "GET,HEAD,PUT,DELETE"),
        ("POST", "/v1/limits/api/keys/a/reservations/r", "GET,HEAD,PUT,DELETE"),
        ("GET", "/v1/limits/api/everyone/reservations/r/commit", "POST"),
        ("GET", "/v1/limits/take", "POST"),
        ("DELETE", "/v1/charges", "POST"),
        ("GET", "/v1/charges/release", "POST"),
        ("PUT", "/v1/limits", "GET,HEAD"),
        ("POST", "/metrics", "GET,HEAD"),
        ("POST", "/healthz", "GET,HEAD"),
        ("PUT", "/v1/limits/api", "GET,HEAD"),
        ("DELETE", "/readyz", "GET,HEAD"),
        ("PATCH", "/", "GET,HEAD"),
        ("PUT", "/v1/rules", "GET,HEAD,POST"),
        ("POST", "/v1/rules/a", "GET,HEAD,PUT,PATCH,DELETE"),
        ("PATCH", "/v1/rules/bulk", "POST"),
    ] {
        let answer = call(&f.app, method, path, "").await;
        let detail = format!("{method} is not allowed on {path:?}");
        assert_problem(&answer, 405, "method-not-allowed", &detail);
        assert_eq!(answer.header("allow"), Some(allow), "{path}");
    }
}

#[tokio::test]
async fn a_body_is_json_and_never_a_form_of_another_page() {
    let f = fixture().await;
    let of_type = async |media_type: &str| {
        let request = Request::post("/v1/limits/api/take").header("content-type", media_type);
        send(router(f.app.clone()), request.body(Body::from(r#"{"key":"a"}"#)).unwrap()).await
    };
    for good in ["application/json", "Application/JSON; charset=utf-8", "application/problem+json"] {
        assert_eq!(of_type(good).await.status, 200, "{good}");
    }
    let refused = |answer: &Answer, given: &str| {
        let detail = format!("a body of type {given:?} is not allowed: application/json is");
        assert_problem(answer, 415, "unsupported-media-type", &detail);
    };
    for bad in ["text/plain", "application/jsonp", ""] {
        refused(&of_type(bad).await, bad);
    }
    let form = "application/x-www-form-urlencoded";
    assert_eq!(of_type(form).await.status, 200, "what curl says of -d");
    let request = Request::post("/v1/limits/api/take").header("content-type", form);
    let request = request.header("origin", "https://elsewhere.example");
    let from_a_page = send(router(f.app.clone()), request.body(Body::from(r#"{"key":"a"}"#)).unwrap()).await;
    refused(&from_a_page, form);
    let request = Request::post("/v1/limits/api/take").header("origin", "https://elsewhere.example");
    let untyped = send(router(f.app.clone()), request.body(Body::from(r#"{"key":"a"}"#)).unwrap()).await;
    refused(&untyped, "");
}

#[tokio::test]
async fn a_body_has_a_bound_announced_or_not() {
    let f = fixture().await;
    let app = f.app.clone().with_settings(&HttpSettings { max_body_bytes: 11, ..HttpSettings::default() });
    assert_eq!(call(&app, "POST", "/v1/limits/api/take", r#"{"key":"a"}"#).await.status, 200);
    let detail = "the body is too large: at most 11 bytes are allowed";
    let unannounced = call(&app, "POST", "/v1/limits/api/take", r#"{"key":"ab"}"#).await;
    assert_problem(&unannounced, 413, "body-too-large", detail);
    let request = Request::post("/v1/limits/api/take").header("content-length", "12");
    let announced = send(router(app), request.body(Body::empty()).unwrap()).await;
    assert_problem(&announced, 413, "body-too-large", detail);
}

/// Every route, with a method that it has.
const ROUTES: [(&str, &str); 57] = [
    ("GET", "/"),
    ("GET", "/healthz"),
    ("GET", "/readyz"),
    ("GET", "/metrics"),
    ("GET", "/v1/limits"),
    ("GET", "/v1/limits/api"),
    ("POST", "/v1/limits/take"),
    ("POST", "/v1/charges"),
    ("POST", "/v1/charges/release"),
    ("POST", "/v1/limits/api/take"),
    ("POST", "/v1/limits/api/refund"),
    ("GET", "/v1/limits/api/keys/a"),
    ("DELETE", "/v1/limits/api/keys/a"),
    ("GET", "/v1/limits/api/everyone"),
    ("DELETE", "/v1/limits/api/everyone"),
    ("PUT", "/v1/limits/api/keys/a/override"),
    ("GET", "/v1/limits/api/keys/a/override"),
    ("DELETE", "/v1/limits/api/everyone/override"),
    ("PUT", "/v1/limits/api/keys/a/reservations/r"),
    ("GET", "/v1/limits/api/keys/a/reservations/r"),
    ("DELETE", "/v1/limits/api/everyone/reservations/r"),
    ("POST", "/v1/limits/api/keys/a/reservations/r/commit"),
    ("GET", "/v1/hot"),
    ("GET", "/v1/hot/main"),
    ("POST", "/v1/hot/main/edits"),
    ("GET", "/v1/hot/main/pages/a"),
    ("GET", "/v1/hot/main/pages/a/window"),
    ("GET", "/v1/hot/main/events"),
    ("POST", "/v1/hot/main/cleanup"),
    ("GET", "/v1/sessions"),
    ("POST", "/v1/sessions/main"),
    ("GET", "/v1/sessions/main"),
    ("GET", "/v1/sessions/main/counts"),
    ("GET", "/v1/sessions/main/dead"),
    ("POST", "/v1/sessions/main/dead/67e55044-10b1-426f-9247-bb680e5fe0c8/retry"),
    ("POST", "/v1/sessions/main/claims"),
    ("POST", "/v1/sessions/main/acks"),
    ("POST", "/v1/sessions/main/cleanup"),
    ("GET", "/v1/sessions/main/broadcasters/b"),
    ("GET", "/v1/sessions/main/67e55044-10b1-426f-9247-bb680e5fe0c8"),
    ("DELETE", "/v1/sessions/main/67e55044-10b1-426f-9247-bb680e5fe0c8"),
    ("PUT", "/v1/sessions/main/67e55044-10b1-426f-9247-bb680e5fe0c8/value"),
    ("PUT", "/v1/sessions/main/67e55044-10b1-426f-9247-bb680e5fe0c8/holders/h"),
    ("POST", "/v1/sessions/main/67e55044-10b1-426f-9247-bb680e5fe0c8/holders/h/heartbeat"),
    ("POST", "/v1/rules"),
    ("GET", "/v1/rules"),
    ("POST", "/v1/rules/bulk"),
    ("GET", "/v1/rules/resolve"),
    ("GET", "/v1/rules/position"),
    ("GET", "/v1/rules/a"),
    ("PUT", "/v1/rules/a"),
    ("PATCH", "/v1/rules/a"),
    ("DELETE", "/v1/rules/a"),
    ("GET", "/v1/edge/cache"),
    ("GET", "/v1/edge/explain"),
    ("GET", "/v1/edge/owner"),
    ("GET", "/v1/edge/hot"),
];

#[tokio::test]
async fn an_unknown_parameter_is_refused_on_every_route() {
    let f = fixture().await;
    for (method, path) in ROUTES {
        let answer = call(&f.app, method, &format!("{path}?nope=1"), "{}").await;
        assert_problem(&answer, 400, "invalid-request", "unknown parameter \"nope\"; known are: ");
    }
}

#[tokio::test]
async fn options_tells_what_every_route_allows() {
    let f = fixture().await;
    for (method, path) in ROUTES {
        let answer = call(&f.app, "OPTIONS", path, "").await;
        assert_eq!((answer.status.as_u16(), answer.body.as_str()), (204, ""), "{path}");
        let allow: Vec<_> = answer.header("allow").unwrap().split(',').collect();
        assert!(allow.contains(&method), "{path}: {allow:?}");
        assert_eq!(allow.contains(&"GET"), allow.contains(&"HEAD"), "{path}: {allow:?}");
    }
    let all = call(&f.app, "OPTIONS", "*", "").await;
    assert_eq!((all.status.as_u16(), all.header("allow")), (204, Some("GET,HEAD,POST,PUT,PATCH,DELETE")));
    assert_eq!(call(&f.app, "OPTIONS", "/nope", "").await.status, 404);
}

#[tokio::test]
async fn head_is_get_without_its_body() {
    let f = fixture().await;
    let gets = ROUTES.iter().filter(|(method, path)| *method == "GET" && !path.ends_with("/events"));
    for (_, path) in gets {
        let (get, head) = (f.get(path).await, call(&f.app, "HEAD", path, "").await);
        assert_eq!((head.status, head.body.as_str()), (get.status, ""), "{path}");
        assert_eq!(head.header("content-type"), get.header("content-type"), "{path}");
        // What the system says of a process changes.
        if *path != "/metrics" {
            let length = get.body.len().to_string();
            assert_eq!(head.header("content-length"), Some(length.as_str()), "{path}");
        }
    }
}

#[tokio::test]
async fn a_percent_that_encodes_nothing_is_refused_in_every_path() {
    let f = fixture().await;
    let paths = ROUTES.iter().filter(|(_, path)| path.contains("/v1/") && path.matches('/').count() > 2);
    let with_names = paths.map(|(method, path)| {
        // In place of its last name, be it a word of ours or somebody's.
        let (before, _) = path.rsplit_once('/').unwrap();
        (*method, before)
    });
    for (method, before) in with_names {
        for bad in ["%zz", "a%", "%4", "%%41", "%+4", "%a%20"] {
            let answer = call(&f.app, method, &format!("{before}/{bad}"), "{}").await;
            // Some methods have no such route; then that is what is said.
            if answer.status != 405 {
                assert_problem(&answer, 400, "invalid-request", "in the path is no percent-encoding");
            }
        }
    }
    let answer = call(&f.app, "GET", "/v1/limits/api/keys/%zz", "").await;
    assert_problem(&answer, 400, "invalid-request", "\"%zz\" in the path is no percent-encoding");
    let answer = call(&f.app, "POST", "/v1/hot/%zz/edits", "").await;
    assert_problem(&answer, 400, "invalid-request", "\"%zz\" in the path is no percent-encoding");
    let answer = call(&f.app, "GET", "/%zz", "").await;
    assert_problem(&answer, 400, "invalid-request", "\"%zz\" in the path is no percent-encoding");
    assert_eq!(f.get("/v1/limits/api/keys/%7A%c3%A4%25").await.status, 200);
}

#[tokio::test]
async fn a_key_that_is_null_is_nobodys() {
    let f = fixture().await;
    for (path, body) in [
        ("/v1/limits/api/take", r#"{"key":null}"#),
        ("/v1/limits/api/take", r#"{"cost":1,"key" : null }"#),
        ("/v1/limits/take", r#"{"key":null,"limits":[{"limit":"api"}]}"#),
        ("/v1/charges", r#"{"id":"a","key":null,"limits":[{"limit":"api"}]}"#),
        ("/v1/charges/release", r#"{"id":"a","key":null,"limits":["api"]}"#),
        ("/v1/limits/api/refund", r#"{"key":null,"receipt":"1-0-1-5"}"#),
    ] {
        let answer = f.post(path, body).await;
        let detail = "invalid type: null, expected a string, or no `key` at all for what everyone shares";
        assert_problem(&answer, 400, "invalid-request", detail);
    }
    assert_eq!(f.get("/v1/limits/api/everyone").await.json()["remaining"], 300);
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// A body that was encoded, of this type.
async fn encoded(f: &Fixture, path: &str, media_type: &str, encoding: &str, body: Vec<u8>) -> Answer {
    let request = Request::post(path).header("content-type", media_type).header("content-encoding", encoding);
    send(router(f.app.clone()), request.body(Body::from(body)).unwrap()).await
}

const TAKE: &str = "/v1/limits/api/take";
const EDITS: &str = "/v1/hot/main/edits";
const JSON: &str = "application/json";
const NDJSON: &str = "application/x-ndjson";

#[tokio::test]
async fn gzip_is_read_and_other_encodings_are_refused() {
    let f = fixture().await;
    let take = br#"{"key":"a"}"#;
    for encoding in ["gzip", "GZip", "x-gzip", "identity, gzip"] {
        assert_eq!(encoded(&f, TAKE, JSON, encoding, gzip(take)).await.status, 200, "{encoding}");
    }
    assert_eq!(encoded(&f, TAKE, JSON, "identity", take.to_vec()).await.status, 200);
    // In two members, which is what is left when files are put behind each other.
    let two = [gzip(&take[..5]), gzip(&take[5..])].concat();
    assert_eq!(encoded(&f, TAKE, JSON, "gzip", two).await.status, 200);
    assert_eq!(f.get("/v1/limits/api/keys/a").await.json()["remaining"], 294);

    let edits: String = (0..2000).map(|id| format!("{{\"page\":\"p\",\"id\":\"{id}\"}}\n")).collect();
    let answer = encoded(&f, EDITS, NDJSON, "gzip", gzip(edits.as_bytes())).await;
    assert_eq!((answer.status.as_u16(), &answer.json()["good"]), (200, &2000.into()), "{}", answer.body);
    let one = br#"{"page":"p","id":"x"}"#;
    assert_eq!(encoded(&f, EDITS, JSON, "gzip", gzip(one)).await.status, 200);

    for (path, media_type) in [(TAKE, JSON), (EDITS, JSON), (EDITS, NDJSON)] {
        for encoding in ["br", "deflate", "zstd", "gzip, gzip", "gzip, br", "\u{e9}"] {
            let answer = encoded(&f, path, media_type, encoding, take.to_vec()).await;
            let detail = "is not allowed: gzip is, once, and identity";
            assert_problem(&answer, 415, "unsupported-encoding", detail);
        }
        for broken in [take.to_vec(), gzip(take)[..20].to_vec(), [gzip(take), b"x".to_vec()].concat()] {
            let answer = encoded(&f, path, media_type, "gzip", broken).await;
            assert_problem(&answer, 400, "invalid-request", "the body is not gzip: ");
        }
    }
}

#[tokio::test]
async fn what_is_small_on_its_way_is_bounded_when_decoded() {
    let f = fixture().await;
    let large = format!(r#"{{"key":"{}"}}"#, "x".repeat(70_000));
    let answer = encoded(&f, TAKE, JSON, "gzip", gzip(large.as_bytes())).await;
    assert_problem(&answer, 413, "body-too-large", "at most 65536 bytes are allowed");
    // A thousand times as large as it comes: it is stopped long before it is decoded.
    let bomb = gzip(&vec![b' '; 64 << 20]);
    assert!(bomb.len() <= 65_536, "{}", bomb.len());
    let answer = encoded(&f, TAKE, JSON, "gzip", bomb.clone()).await;
    assert_problem(&answer, 413, "body-too-large", "at most 65536 bytes are allowed");
    // Lines have no bound on their number, and each has its own.
    let answer = encoded(&f, EDITS, NDJSON, "gzip", bomb).await;
    assert_eq!((answer.status.as_u16(), &answer.json()["bad"]), (200, &1.into()), "{}", answer.body);
}
