//! Every route of hot pages, as it is meant to be used, and what is said when it is not.

use axum::body::Body;
use axum::http::Request;
use serde_json::{Value, json};
use tidegate_server::http::router;
use tidegate_server::settings::HttpSettings;

use crate::support::{Answer, Fixture, START, call, send, serving_hot};

const NOW: u64 = START.as_millis();

async fn record(f: &Fixture, page: &str, id: &str, editor: &str) -> Value {
    let body = json!({"page": page, "id": id, "editor": editor, "byte_change": 7}).to_string();
    let answer = f.post("/v1/hot/main/edits", &body).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    answer.json()
}

#[tokio::test]
async fn an_edit_tells_what_became_of_it() {
    let f = serving_hot(&["main.max_tracked=1", "main.when_full=replace_coldest"]).await;
    assert_eq!(
        record(&f, "en:Tide gate", "1", "alice").await,
        json!({"space": "main", "page": "en:Tide gate", "id": "1", "outcome": "remembered"})
    );
    assert_eq!(record(&f, "en:Tide gate", "1", "alice").await["outcome"], "duplicate");
    assert_eq!(record(&f, "en:Tide gate", "2", "bob").await["outcome"], "promoted");
    assert_eq!(record(&f, "en:Tide gate", "2", "bob").await["outcome"], "duplicate");
    let late = json!({"page": "en:Tide gate", "id": "3", "at": NOW - 3_600_000}).to_string();
    assert_eq!(f.post("/v1/hot/main/edits", &late).await.json()["outcome"], "too_late");

    f.clock.advance_ms(1);
    record(&f, "b", "1", "alice").await;
    let second = record(&f, "b", "2", "alice").await;
    assert_eq!((&second["outcome"], &second["replaced"]), (&json!("promoted"), &json!("en:Tide gate")));
    assert_eq!(record(&f, "b", "3", "alice").await["outcome"], "added");

    let f = serving_hot(&["main.max_tracked=1"]).await;
    for id in ["1", "2"] {
        record(&f, "a", id, "").await;
    }
    record(&f, "b", "1", "").await;
    let second = record(&f, "b", "2", "").await;
    assert_eq!((&second["outcome"], second.get("replaced")), (&json!("rejected"), None));
}

#[tokio::test]
async fn a_page_tells_what_is_known_of_it() {
    let f = serving_hot(&["main.promotion_threshold=3"]).await;
    let path = "/v1/hot/main/pages/en%3ATide%2Fgate";
    let cold = f.get(path).await;
    assert_eq!(cold.status, 200, "what is not hot is an answer too");
    assert_eq!(
        cold.json(),
        json!({"space": "main", "page": "en:Tide/gate", "is_hot": false, "is_trending": false,
            "is_spiking": false, "edits_last_hour": 0, "edits_last_5_minutes": 0, "covered_ms": 0,
            "grain_ms": 0, "members": 0, "unique_editors": 0, "last_byte_change": 0, "total_edits": 0, "first_seen_ms": null,
            "last_seen_ms": null})
    );
    for (id, editor) in [("1", "alice"), ("2", "bob"), ("3", "alice")] {
        record(&f, "en:Tide/gate", id, editor).await;
        f.clock.advance_ms(200_000);
    }
    let hot = f.get(path).await;
    assert_eq!(hot.header("content-type"), Some("application/json"));
    assert_eq!(
        hot.json(),
        json!({"space": "main", "page": "en:Tide/gate", "is_hot": true, "is_trending": true,
            "is_spiking": false, "edits_last_hour": 3, "edits_last_5_minutes": 1, "covered_ms": 600_000,
            "grain_ms": 0, "members": 3, "unique_editors": 2, "last_byte_change": 7, "total_edits": 3, "first_seen_ms": NOW,
            "last_seen_ms": NOW + 400_000})
    );
}

#[tokio::test]
async fn a_window_is_listed_between_two_moments() {
    let f = serving_hot(&[]).await;
    for id in ["1", "2", "3"] {
        record(&f, "a", id, "alice").await;
        f.clock.advance_ms(1000);
    }
    let ids = async |query: &str| {
        let answer = f.get(&format!("/v1/hot/main/pages/a/window{query}")).await;
        let json = answer.json();
        let edits = json["edits"].as_array().unwrap_or_else(|| panic!("{answer:?}"));
        edits.iter().map(|edit| edit["id"].as_str().unwrap().to_owned()).collect::<Vec<_>>().join(",")
    };
    assert_eq!(ids("").await, "1,2,3");
    assert_eq!(ids(&format!("?from={}", NOW + 1000)).await, "2,3");
    assert_eq!(ids(&format!("?from={}&to={}", NOW + 1, NOW + 1000)).await, "2");
    assert_eq!(ids("?to=2027-01-15T08:00:00.999Z").await, "1");
    assert_eq!(ids("?from=2027-01-15T09:00:01+01:00").await, "2,3", "a plus as it is");
    assert_eq!(ids("?from=2027-01-15T09:00:01%2B01:00").await, "2,3", "and escaped");
    let whole = f.get("/v1/hot/main/pages/a/window?to=0").await.json();
    assert_eq!(whole, json!({"space": "main", "page": "a", "edits": []}));
    let first = f.get(&format!("/v1/hot/main/pages/a/window?to={NOW}")).await.json();
    assert_eq!(first["edits"], json!([{"id": "1", "at_ms": NOW, "editor": "alice", "byte_change": 7}]));
    assert_eq!(f.get("/v1/hot/main/pages/cold/window").await.json()["edits"], json!([]));
}

#[tokio::test]
async fn the_hottest_come_first_and_all_are_counted() {
    let f = serving_hot(&["main.window_duration=15m"]).await;
    for (page, edits) in [("a", 2), ("b", 4), ("c", 3), ("d", 1)] {
        for id in 0..edits {
            record(&f, page, &id.to_string(), "alice").await;
        }
    }
    let page = |name: &str, edits: u64| json!({"page": name, "edits": edits, "last_seen_ms": NOW});
    assert_eq!(
        f.get("/v1/hot/main?limit=2").await.json(),
        json!({"space": "main", "count": 3, "window_ms": 900_000, "pages": [page("b", 4), page("c", 3)],
            "next": format!("3:{NOW}:c")})
    );
    assert_eq!(f.get("/v1/hot/main").await.json()["pages"].as_array().unwrap().len(), 3);
    assert_eq!(f.get("/v1/hot/main?limit=0").await.json()["count"], 3);
    let with_stats = f.get("/v1/hot/main?limit=1&stats=true").await.json();
    assert_eq!(with_stats["pages"][0]["stats"]["unique_editors"], 1);
    assert_eq!(with_stats["pages"][0]["stats"]["edits_last_5_minutes"], 4);
    f.clock.advance_ms(900_000);
    assert_eq!(f.get("/v1/hot/main").await.json()["count"], 0);
}

#[tokio::test]
async fn a_cleanup_tells_what_it_dropped() {
    let f = serving_hot(&[]).await;
    for (page, id) in [("a", "1"), ("a", "2"), ("b", "1"), ("b", "2")] {
        record(&f, page, id, "").await;
    }
    f.clock.advance_ms(3_599_999);
    record(&f, "b", "3", "").await;
    f.clock.advance_ms(1);
    let cleaned = json!({"space": "main", "expired": 1});
    assert_eq!(f.post("/v1/hot/main/cleanup", "").await.json(), cleaned);
    let again = f.post("/v1/hot/main/cleanup", "{}").await.json();
    assert_eq!(again, json!({"space": "main", "expired": 0}));
}

#[tokio::test]
async fn the_spaces_are_listed_and_are_apart() {
    let f = serving_hot(&["main.max_tracked=5", "links.when_full=replace_coldest"]).await;
    let listed = f.get("/v1/hot").await.json();
    let names: Vec<_> = listed["spaces"].as_array().unwrap().iter().map(|it| it["space"].clone()).collect();
    assert_eq!(names, ["links", "main"]);
    assert_eq!(
        listed["spaces"][1],
        json!({"space": "main", "max_tracked": 5, "promotion_threshold": 5, "window_ms": 3_600_000,
            "max_members_per_page": 100, "only_counts": false, "count_slots": 60, "gather_ms": 0, "hot_threshold": 2, "cleanup_interval_ms": 300_000,
            "when_full": "reject", "spike_ratio": 3.0, "spike_minimum": 5, "max_activity": 100_000,
            "max_bytes": 268_435_456, "partitions": 1})
    );
    for id in ["1", "2"] {
        record(&f, "a", id, "").await;
    }
    assert_eq!(f.get("/v1/hot/main").await.json()["count"], 1);
    assert_eq!(f.get("/v1/hot/links").await.json()["count"], 0);
}

/// The names of the document that hot pages come from, to the letter.
#[tokio::test]
async fn the_metrics_are_there_by_their_names() {
    let f = serving_hot(&["main.max_tracked=1", "main.window_duration=1m"]).await;
    for (page, id) in [("a", "1"), ("a", "2"), ("a", "3"), ("b", "1"), ("b", "2")] {
        record(&f, page, id, "").await;
    }
    f.get("/v1/hot/main").await;
    let before = f.get("/metrics").await.body;
    assert!(before.contains("hot_pages_tracked{space=\"main\"} 1\n"), "{before}");
    f.clock.advance_ms(60_000);
    f.post("/v1/hot/main/cleanup", "").await;
    let after = f.get("/metrics").await.body;
    for line in [
        "activity_counter_total{space=\"main\"} 4",
        "hot_pages_promoted_total{space=\"main\"} 1",
        "promotion_rejected_total{space=\"main\"} 1",
        "hot_pages_expired_total{space=\"main\"} 1",
        "cleanup_runs_total{space=\"main\"} 1",
        "hot_pages_tracked{space=\"main\"} 0",
        "tidegate_hot_dropped_edits_total{space=\"main\"} 0",
        "tidegate_http_request_seconds_count{operation=\"hot_record\"} 5",
        "tidegate_http_request_seconds_count{operation=\"hot_list\"} 1",
        "tidegate_http_request_seconds_count{operation=\"hot_cleanup\"} 1",
    ] {
        assert!(after.contains(&format!("\n{line}\n")), "{line}: {after}");
    }
}

fn assert_problem(answer: &Answer, status: u16, name: &str, detail: &str) {
    assert_eq!(answer.status, status, "{answer:?}");
    assert_eq!(answer.header("content-type"), Some("application/problem+json"));
    let body = answer.json();
    assert_eq!(body["type"], format!("urn:tidegate:problem:{name}"));
    assert!(body["detail"].as_str().unwrap().contains(detail), "{body}");
}

#[tokio::test]
async fn edits_are_checked() {
    let f = serving_hot(&[]).await;
    let long = "x".repeat(256);
    for (body, detail) in [
        ("".to_owned(), "EOF while parsing"),
        ("[]".to_owned(), "the body is an array"),
        ("{}".to_owned(), "missing field `page`"),
        (r#"{"page":"a"}"#.to_owned(), "missing field `id`"),
        (r#"{"page":"","id":"1"}"#.to_owned(), "must not be empty: 1 to 255 bytes are allowed"),
        (format!(r#"{{"page":"{long}","id":"1"}}"#), "has 256 bytes: 1 to 255 are allowed"),
        (r#"{"page":"a","id":""}"#.to_owned(), "an edit's id has 0 bytes: 1 to 255 are allowed"),
        (r#"{"page":"a","id":"\u0000"}"#.to_owned(), "none of them NUL"),
        (format!(r#"{{"page":"a","id":"1","editor":"{long}"}}"#), "an editor has 256 bytes: 0 to 255"),
        (r#"{"page":"a","id":1}"#.to_owned(), "invalid type: integer `1`, expected a string"),
        (r#"{"page":"a","id":"1","byte_change":"x"}"#.to_owned(), "expected i64"),
        (
            r#"{"page":"a","id":"1","byte_change":9007199254740993}"#.to_owned(),
            "a byte change of 9007199254740993 is not allowed",
        ),
        (r#"{"page":"a","id":"1","at":"soon"}"#.to_owned(), "\"soon\" is not a moment: milliseconds"),
        (r#"{"page":"a","id":"1","at":-1}"#.to_owned(), "\"-1\" is not a moment"),
        (r#"{"page":"a","id":"1","at":1.5}"#.to_owned(), "1.5 is not a moment"),
        (r#"{"page":"a","id":"1","at":[]}"#.to_owned(), "expected a moment"),
        (r#"{"page":"a","id":"1","user":"x"}"#.to_owned(), "unknown field `user`, expected one of `page`"),
    ] {
        let answer = f.post("/v1/hot/main/edits", &body).await;
        assert_problem(&answer, 400, "invalid-request", detail);
    }
    let whole = format!(r#"{{"page":"a","id":"1","editor":null,"byte_change":null,"at":{NOW}.0}}"#);
    assert_eq!(f.post("/v1/hot/main/edits", &whole).await.status, 200, "nothing said is nothing wrong");
    let request = Request::post("/v1/hot/main/edits").header("content-type", "text/csv");
    let csv = send(router(f.app.clone()), request.body(Body::from("a,b")).unwrap()).await;
    let detail = "a body of type \"text/csv\" is not allowed: application/json is, and application/x-ndjson";
    assert_problem(&csv, 415, "unsupported-media-type", detail);
    let request = Request::post("/v1/hot/main/cleanup").header("origin", "https://elsewhere.example");
    let from_a_page = send(router(f.app.clone()), request.body(Body::empty()).unwrap()).await;
    assert_problem(&from_a_page, 415, "unsupported-media-type", "application/json is");
    let large = f.app.clone().with_settings(&HttpSettings { max_body_bytes: 5, ..HttpSettings::default() });
    let answer = call(&large, "POST", "/v1/hot/main/edits", r#"{"page":"a","id":"1"}"#).await;
    assert_problem(&answer, 413, "body-too-large", "at most 5 bytes");
}

#[tokio::test]
async fn requests_are_checked() {
    let f = serving_hot(&[]).await;
    let long = format!("/v1/hot/main/pages/{}", "x".repeat(256));
    for (path, detail) in [
        ("/v1/hot/main?limit=1001", "`limit`: \"1001\" is not allowed: whole numbers from 0 to 1000 are"),
        ("/v1/hot/main?limit=-1", "`limit`: \"-1\" is not allowed"),
        ("/v1/hot/main?limit=", "`limit`: \"\" is not allowed"),
        (
            "/v1/hot/main?limit=101&stats=true",
            "\"101\" is not allowed beside stats: whole numbers from 0 to 100",
        ),
        ("/v1/hot/main?stats=yes", "`stats`: \"yes\" is not allowed: true and false are"),
        ("/v1/hot/main?limit=1&limit=2", "the parameter \"limit\" is given twice"),
        ("/v1/hot/main?limt=1", "unknown parameter \"limt\"; known are: limit, after, stats"),
        ("/v1/hot/main/pages/a?x=1", "unknown parameter \"x\"; known are: none"),
        ("/v1/hot/main/pages/a/window?from=soon", "`from`: \"soon\" is not a moment"),
        ("/v1/hot/main/pages/a/window?from=5&to=4", "`from` is 1 ms after `to`"),
        ("/v1/hot/main/events?after=x", "`after`: \"x\" is not a position among these events"),
        ("/v1/hot/main/events?after=0-0,0-0", "the id of one is, and 0-0"),
        ("/v1/hot/main/pages/", "a page must not be empty: 1 to 255 bytes are allowed"),
        ("/v1/hot/main/pages//window", "a page must not be empty"),
        ("/v1/hot/main/pages/%FF", "the path is not UTF-8"),
        (&long, "has 256 bytes: 1 to 255 are allowed"),
    ] {
        assert_problem(&f.get(path).await, 400, "invalid-request", detail);
    }
    for (method, path) in [
        ("GET", "/v1/hot/nope"),
        ("POST", "/v1/hot/nope/edits"),
        ("POST", "/v1/hot/nope/cleanup"),
        ("GET", "/v1/hot/nope/events"),
        ("GET", "/v1/hot/nope/pages/a"),
        ("GET", "/v1/hot/nope/pages/"),
        ("GET", "/v1/hot/nope/pages/a/window"),
    ] {
        let answer = call(&f.app, method, path, "").await;
        assert_problem(&answer, 404, "unknown-space", "there is no space \"nope\"; known are: main");
    }
    for (method, path, allow) in [
        ("GET", "/v1/hot/main/edits", "POST"),
        ("GET", "/v1/hot/main/cleanup", "POST"),
        ("POST", "/v1/hot/main/events", "GET,HEAD"),
        ("PUT", "/v1/hot/main/pages/a", "GET,HEAD,DELETE"),
        ("POST", "/v1/hot/main", "GET,HEAD"),
    ] {
        let answer = call(&f.app, method, path, "").await;
        assert_problem(&answer, 405, "method-not-allowed", "");
        assert_eq!(answer.header("allow"), Some(allow), "{path}");
    }
}

/// All hot pages, list by list, over HTTP.
#[tokio::test]
async fn the_hot_list_goes_on_where_the_one_before_has_ended() {
    let f = serving_hot(&["main.hot_threshold=1"]).await;
    for (page, edits) in [("a:b", 3), ("c&d", 2), ("\u{e4} e", 2), ("f", 1)] {
        for id in 0..edits {
            let edit = json!({"page": page, "id": format!("{page}{id}")}).to_string();
            assert_eq!(f.post("/v1/hot/main/edits", &edit).await.status, 200);
        }
    }
    let (mut pages, mut after) = (Vec::new(), String::new());
    loop {
        let list = f.get(&format!("/v1/hot/main?limit=1{after}")).await.json();
        assert_eq!(list["count"], 4);
        pages.extend(
            list["pages"].as_array().unwrap().iter().map(|it| it["page"].as_str().unwrap().to_owned()),
        );
        let Some(next) = list["next"].as_str() else { break };
        after = format!("&after={}", form_urlencoded::byte_serialize(next.as_bytes()).collect::<String>());
    }
    assert_eq!(pages, ["a:b", "\u{e4} e", "c&d", "f"]);
    assert_eq!(f.get("/v1/hot/main?limit=9").await.json()["next"], json!(null));
    for bad in ["", "x", "1:2", "1:2:", "-1:2:p", "1:x:p", "1:9007199254740992:p"] {
        let answer = f.get(&format!("/v1/hot/main?after={bad}")).await;
        let detail = "is not a place in a list: the `next` of a page is";
        assert_problem(&answer, 400, "invalid-request", detail);
    }
}
