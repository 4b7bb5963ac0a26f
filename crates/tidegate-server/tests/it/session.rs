//! Every route of sessions, as it is meant to be used.

use serde_json::{Value, json};

use crate::support::{Answer, Fixture, START, call, serving_sessions};

pub(crate) const NOW: u64 = START.as_millis();

/// A session that nobody ever made.
pub(crate) const NOBODY: &str = "67e55044-10b1-426f-9247-bb680e5fe0c8";

/// Activates, and answers the id.
pub(crate) async fn activate(f: &Fixture, broadcaster: &str, holder: Option<&str>) -> String {
    let body = json!({"broadcaster": broadcaster, "config": {}, "holder": holder}).to_string();
    let answer = f.post("/v1/sessions/main", &body).await;
    assert!(answer.status.is_success(), "{answer:?}");
    answer.json()["id"].as_str().unwrap().to_owned()
}

pub(crate) fn path(id: &str, rest: &str) -> String {
    format!("/v1/sessions/main/{id}{rest}")
}

pub(crate) fn assert_refused(answer: &Answer, status: u16, refusal: &str) {
    assert_eq!(answer.status, status, "{answer:?}");
    assert_eq!(answer.header("content-type"), Some("application/problem+json"));
    let body = answer.json();
    assert_eq!(body["refusal"], refusal, "{body}");
    assert!(body["type"].as_str().unwrap().starts_with("urn:tidegate:problem:session"), "{body}");
    assert_eq!(body["status"], status);
}

#[tokio::test]
async fn a_session_is_activated_found_and_resumed() {
    let f = serving_sessions(&[]).await;
    let body = r#"{"broadcaster":"channel/7","config":{"b":1,"a":10000000000000000001},"holder":"h"}"#;
    let new = f.post("/v1/sessions/main", body).await;
    assert_eq!(new.status, 201);
    let body = new.json();
    let id = body["id"].as_str().unwrap();
    assert_eq!(
        body,
        json!({"space": "main", "id": id, "generation": 1, "until_ms": NOW + 45_000, "found": "nothing"})
    );
    let expected = json!({"space": "main", "id": id, "broadcaster": "channel/7",
        "config": {"b": 1, "a": 10_000_000_000_000_000_001_u64}, "value": null, "state": "active", "generation": 1,
        "ref_count": 1, "holders": [{"holder": "h", "until_ms": NOW + 45_000}], "held_until_ms": NOW + 45_000,
        "last_disconnect_ms": null, "last_update_ms": NOW, "last_seen_ms": NOW, "attempts": 0});
    let answer = f.get(&path(id, "")).await;
    assert_eq!(answer.json(), expected);
    let written = r#""config":{"b":1,"a":10000000000000000001},"#;
    assert!(answer.body.contains(written), "as it was written, digit by digit: {}", answer.body);
    assert_eq!(f.get("/v1/sessions/main/broadcasters/channel%2F7").await.json(), expected);
    assert_eq!(f.get(&path(&id.to_uppercase(), "")).await.json()["id"], id, "however it is written");

    f.pass(1000).await;
    let again = r#"{"broadcaster":"channel/7","config":"dark \"mode\""}"#;
    let found = f.post("/v1/sessions/main", again).await;
    assert_eq!((found.status.as_u16(), &found.json()["found"]), (200, &json!("active")));
    assert_eq!(f.get(&path(id, "")).await.json()["config"], "dark \"mode\"", "a text is that text");

    f.pass(45_000).await;
    let left = f.get(&path(id, "")).await.json();
    assert_eq!((&left["state"], &left["last_disconnect_ms"]), (&json!("disconnected"), &json!(NOW + 46_000)));
    let resumed = f.post("/v1/sessions/main", again).await.json();
    assert_eq!((&resumed["found"], &resumed["generation"]), (&json!("disconnected"), &json!(2)));
    assert_eq!(resumed["id"], id);
}

#[tokio::test]
async fn holders_come_stay_and_leave() {
    let f = serving_sessions(&["main.max_holders=2"]).await;
    let id = activate(&f, "b", None).await;
    let holder = |name: &str| path(&id, &format!("/holders/{name}"));
    let a = f.put(&holder("a%2Fb"), "").await;
    assert_eq!(
        (a.status.as_u16(), a.json()),
        (200, json!({"space": "main", "id": id, "holder": "a/b", "generation": 1, "until_ms": NOW + 45_000}))
    );
    assert_eq!(f.put(&holder("c"), "{}").await.status, 200);
    assert_refused(&f.put(&holder("d"), "").await, 429, "too_many_holders");
    assert_eq!(f.get(&path(&id, "")).await.json()["ref_count"], 2);
    f.pass(44_999).await;
    let beat = f.post(&holder("c/heartbeat"), "").await.json();
    assert_eq!(beat["until_ms"], NOW + 89_999);
    f.pass(1).await;
    assert_refused(&f.post(&holder("a%2Fb/heartbeat"), "").await, 409, "lapsed");
    let left = f.delete(&holder("nobody")).await;
    assert_eq!((left.status.as_u16(), &left.json()["state"]), (200, &json!("active")));
    let left = f.delete(&holder("c")).await.json();
    assert_eq!(left, json!({"space": "main", "id": id, "holder": "c", "state": "disconnected"}));
    assert_refused(&f.put(&holder("c"), "").await, 409, "disconnected");
    assert_refused(&f.post(&holder("c/heartbeat"), "").await, 409, "disconnected");
    let resumed = f.put(&holder("c?resume=true"), "").await.json();
    assert_eq!(resumed["generation"], 2);
    assert_refused(&f.put(&holder("c?resume=true&generation=1"), "").await, 409, "stale");
    assert_refused(&f.post(&holder("c/heartbeat?generation=1"), "").await, 409, "stale");
    assert_refused(&f.delete(&holder("c?generation=1")).await, 409, "stale");
    assert_eq!(f.delete(&holder("c?generation=2")).await.json()["state"], "disconnected");
}

#[tokio::test]
async fn a_value_is_set_in_its_generation() {
    let f = serving_sessions(&[]).await;
    let id = activate(&f, "b", Some("h")).await;
    let set = f.put(&path(&id, "/value"), r#"{"value": {"score": 7.10}}"#).await;
    assert_eq!(set.json(), json!({"space": "main", "id": id, "generation": 1}));
    let body = f.get(&path(&id, "")).await.body;
    assert!(body.contains(r#""value":{"score": 7.10},"#), "{body}");
    assert_eq!(f.put(&path(&id, "/value"), r#"{"value":"x","generation":1}"#).await.status, 200);
    assert_refused(&f.put(&path(&id, "/value"), r#"{"value":"y","generation":2}"#).await, 409, "stale");
    assert_eq!(f.get(&path(&id, "")).await.json()["value"], "x");
    assert_refused(&f.put(&path(NOBODY, "/value"), r#"{"value":"y"}"#).await, 404, "gone");
}

#[tokio::test]
async fn only_what_nobody_holds_is_deleted() {
    let f = serving_sessions(&["main.max_sessions=1"]).await;
    let id = activate(&f, "b", Some("h")).await;
    let full = f.post("/v1/sessions/main", r#"{"broadcaster":"c","config":{}}"#).await;
    assert_refused(&full, 429, "full");
    assert_refused(&f.delete(&path(&id, "")).await, 409, "active");
    f.delete(&path(&id, "/holders/h")).await;
    let deleted = f.delete(&path(&id, "")).await;
    assert_eq!((deleted.status.as_u16(), deleted.body.as_str()), (204, ""));
    assert_refused(&f.delete(&path(&id, "")).await, 404, "gone");
    assert_refused(&f.get(&path(&id, "")).await, 404, "gone");
    assert_refused(&f.get("/v1/sessions/main/broadcasters/b").await, 404, "gone");
    assert_refused(&f.put(&path(&id, "/holders/h?resume=true"), "").await, 404, "gone");
}

#[tokio::test]
async fn sessions_are_listed_page_by_page_and_counted() {
    let f = serving_sessions(&[]).await;
    let mut ids = Vec::new();
    for number in 0..5 {
        let id = activate(&f, &format!("b{number}"), Some("h")).await;
        // Two at a time.
        f.pass(if number % 2 == 0 { 0 } else { 1000 }).await;
        f.delete(&path(&id, "/holders/h")).await;
        ids.push(id);
    }
    activate(&f, "held", Some("h")).await;
    let now = f.clock.now().as_millis();
    let list = async |query: &str| f.get(&format!("/v1/sessions/main{query}")).await.json();
    let all = list("").await;
    assert_eq!((&all["space"], &all["state"]), (&json!("main"), &json!("disconnected")));
    assert_eq!((&all["invalid"], &all["next"]), (&json!(0), &json!(null)));
    let rows = all["sessions"].as_array().unwrap().clone();
    assert_eq!(rows.len(), 5);
    assert_eq!(rows[0], json!({"id": ids[0], "at_ms": NOW}), "the one that was left first");
    let (mut paged, mut next) = (Vec::new(), String::new());
    loop {
        let page = list(&format!("?limit=2{next}")).await;
        paged.extend(page["sessions"].as_array().unwrap().clone());
        let Some(cursor) = page["next"].as_str() else { break };
        next = format!("&after={cursor}");
    }
    assert_eq!(paged, rows);
    let ids_of = |page: &Value| page["sessions"].as_array().unwrap().len();
    assert_eq!(ids_of(&list("?state=active").await), 1);
    assert_eq!(ids_of(&list("?state=orphan").await), 0);
    assert_eq!(ids_of(&list("?max_age=1s").await), 3, "left at {NOW} and a second later, of {now}");
    assert_eq!(list("?limit=0").await["sessions"], json!([]));
    f.pass(30_000).await;
    assert_eq!(ids_of(&list("?state=orphan").await), 5);
    assert_eq!(
        f.get("/v1/sessions/main/counts").await.json(),
        json!({"space": "main", "active": 1, "disconnected": 5, "orphans": 5, "claimed": 0, "dead": 0,
            "lag_ms": 2000, "held_until_ms": null})
    );
}

#[tokio::test]
async fn orphans_are_claimed_acknowledged_buried_and_retried() {
    let f = serving_sessions(&["main.reap=claims", "main.max_attempts=2"]).await;
    let (id, other) = (activate(&f, "b", None).await, activate(&f, "c", None).await);
    f.pass(75_000).await;
    let claimed = f.post("/v1/sessions/main/claims", r#"{"limit":1}"#).await.json();
    let first = claimed["claims"][0]["id"].as_str().unwrap().to_owned();
    assert!(first == id || first == other);
    let broadcaster = if first == id { "b" } else { "c" };
    assert_eq!(
        claimed,
        json!({"space": "main", "claims": [{"id": first, "generation": 1, "broadcaster": broadcaster,
            "config": {}, "value": null, "since_ms": NOW + 45_000, "attempt": 1, "until_ms": NOW + 135_000}], "lapsed": 1, "buried": 0, "missing": 0, "invalid": 0,
            "lag_ms": 0, "is_more": true, "held_until_ms": null, "retry_after_ms": null})
    );
    let renew = async |numbers: &str| f.put(&format!("/v1/sessions/main/claims/{first}?{numbers}"), "").await;
    f.clock.advance_ms(10);
    assert_eq!(
        renew("generation=1&attempt=1").await.json(),
        json!({"space": "main", "id": first, "generation": 1, "attempt": 1, "until_ms": NOW + 135_010})
    );
    assert_refused(&renew("generation=1&attempt=2").await, 409, "not_claimed");
    assert_refused(&renew("generation=2&attempt=1").await, 409, "stale");
    for wrong in ["", "generation=1", "attempt=1", "generation=1&attempt=0", "generation=1&attempt=x"] {
        assert_eq!(renew(wrong).await.status, 400, "{wrong}");
    }
    assert_refused(&f.put(&path(&first, "/holders/h?resume=true"), "").await, 409, "reaping");
    assert_refused(&f.delete(&path(&first, "")).await, 409, "reaping");
    let retried = f.post(&format!("/v1/sessions/main/dead/{first}/retry"), "").await;
    assert_refused(&retried, 409, "reaping");
    let ack = |all: &[(&str, u64)]| {
        let acks = all.iter().map(|(id, generation)| json!({"id": id, "generation": generation}));
        json!({"acks": acks.collect::<Vec<_>>()}).to_string()
    };
    let acked = f.post("/v1/sessions/main/acks", &ack(&[(&first, 1), (&first, 1), (&first, 2)])).await;
    assert_eq!(
        acked.json(),
        json!({"space": "main", "deleted": 1, "acks": [
            {"id": first, "generation": 1, "outcome": "deleted"},
            {"id": first, "generation": 1, "outcome": "gone"},
            {"id": first, "generation": 2, "outcome": "gone"}]})
    );
    let second = if first == id { other } else { id };
    let outcome = f.post("/v1/sessions/main/acks", &ack(&[(&second, 1)])).await.json();
    assert_eq!(outcome["acks"][0]["outcome"], "not_claimed");
    for attempt in 1..=2 {
        let claimed = f.post("/v1/sessions/main/claims", "").await.json();
        assert_eq!(claimed["claims"][0]["attempt"], attempt);
        let stale = f.post("/v1/sessions/main/acks", &ack(&[(&second, 2)])).await.json();
        assert_eq!(stale["acks"][0]["outcome"], "stale");
        f.pass(60_000).await;
    }
    assert_eq!(f.get("/v1/sessions/main/dead").await.json()["sessions"], json!([]));
    let buried = f.post("/v1/sessions/main/claims", "{}").await.json();
    assert_eq!((&buried["buried"], &buried["claims"]), (&json!(1), &json!([])));
    let dead = f.get("/v1/sessions/main/dead?limit=1").await.json();
    assert_eq!((&dead["state"], &dead["sessions"][0]["id"]), (&json!("dead"), &json!(second)));
    let retry = format!("/v1/sessions/main/dead/{second}/retry");
    let retried = f.post(&retry, "").await;
    assert_eq!(
        (retried.status.as_u16(), retried.json()),
        (200, json!({"space": "main", "id": second, "state": "claimed"}))
    );
    let claimed = f.post("/v1/sessions/main/claims", "").await.json();
    assert_eq!((&claimed["claims"][0]["id"], &claimed["claims"][0]["attempt"]), (&json!(second), &json!(1)));
    assert_refused(&f.post(&format!("/v1/sessions/main/dead/{NOBODY}/retry"), "").await, 404, "gone");
}

#[tokio::test]
async fn a_cleanup_tells_what_it_did() {
    let f = serving_sessions(&[]).await;
    for broadcaster in ["a", "b"] {
        activate(&f, broadcaster, None).await;
    }
    f.pass(75_001).await;
    let done = |mut answer: Value, is_dry_run: bool| {
        let dry_run = answer.as_object_mut().unwrap().remove("dry_run");
        assert_eq!(dry_run, is_dry_run.then_some(json!(true)));
        answer
    };
    let foretold = f.post("/v1/sessions/main/cleanup?dry_run=true", "").await.json();
    let cleaned = f.post("/v1/sessions/main/cleanup", "").await;
    assert_eq!(done(foretold, true), cleaned.json());
    assert_eq!(
        done(cleaned.json(), false),
        json!({"space": "main", "deleted": 2, "lapsed": 2, "buried": 0, "missing": 0, "invalid": 0,
            "lag_ms": 1, "held_until_ms": null, "retry_after_ms": null})
    );
    assert_eq!(f.post("/v1/sessions/main/cleanup", "{}").await.json()["deleted"], 0);
}

/// Nobody was there for longer than lease and grace: holders have the length of a lease to
/// renew, and every answer says so.
#[tokio::test]
async fn a_hold_is_reported_and_no_lease_ends_in_it() {
    let f = serving_sessions(&[]).await;
    let id = activate(&f, "held", Some("h")).await;
    let left = activate(&f, "left", Some("h")).await;
    assert_eq!(f.delete(&path(&left, "/holders/h")).await.status, 200);
    f.clock.advance_ms(80_000);
    let held_until = NOW + 80_000 + 45_000;
    let claimed = f.post("/v1/sessions/main/claims", "").await;
    assert_eq!(claimed.status, 200);
    assert_eq!(
        claimed.json(),
        json!({"space": "main", "claims": [], "lapsed": 0, "buried": 0, "missing": 0, "invalid": 0,
            "lag_ms": 50_000, "is_more": false, "held_until_ms": held_until, "retry_after_ms": 45_000})
    );
    let cleaned = f.post("/v1/sessions/main/cleanup", "").await.json();
    assert_eq!((&cleaned["deleted"], &cleaned["held_until_ms"]), (&json!(0), &json!(held_until)));
    let counts = f.get("/v1/sessions/main/counts").await.json();
    assert_eq!((&counts["active"], &counts["held_until_ms"]), (&json!(1), &json!(held_until)));
    assert_eq!(f.delete(&path(&id, "")).await.status, 409, "somebody may hold it");
    let metrics = f.get("/metrics").await.body;
    for line in ["holds_total{space=\"main\"} 1\n", "held_partitions{space=\"main\"} 1\n"] {
        assert!(metrics.contains(&format!("tidegate_session_{line}")), "{metrics}");
    }
    let renewed = f.post(&path(&id, "/holders/h/heartbeat"), "").await;
    assert_eq!((renewed.status.as_u16(), &renewed.json()["until_ms"]), (200, &json!(held_until)));
    f.pass(44_999).await;
    assert_eq!(f.post("/v1/sessions/main/claims", "").await.json()["retry_after_ms"], 1);
    f.pass(1).await;
    let claimed = f.post("/v1/sessions/main/claims", "").await.json();
    assert_eq!((&claimed["claims"][0]["id"], &claimed["held_until_ms"]), (&json!(left), &json!(null)));
    let metrics = f.get("/metrics").await.body;
    assert!(metrics.contains("tidegate_session_held_partitions{space=\"main\"} 0\n"), "{metrics}");
}

#[tokio::test]
async fn the_spaces_are_listed_and_are_apart() {
    let f = serving_sessions(&["main.max_holders=5", "games.reap=claims", "games.grace=1m"]).await;
    let listed = f.get("/v1/sessions").await.json();
    let names: Vec<_> = listed["spaces"].as_array().unwrap().iter().map(|it| it["space"].clone()).collect();
    assert_eq!(names, ["games", "main"]);
    assert_eq!(
        (&listed["spaces"][0]["reap"], &listed["spaces"][0]["grace_ms"]),
        (&json!("claims"), &json!(60_000))
    );
    assert_eq!(
        listed["spaces"][1],
        json!({"space": "main", "grace_ms": 30_000, "holder_lease_ms": 45_000,
            "session_ttl_ms": 86_400_000, "retention_ms": 604_800_000, "batch": 100,
            "cleanup_interval_ms": 30_000, "reap": "cleanup", "claim_lease_ms": 60_000, "max_attempts": 5,
            "max_holders": 5, "max_sessions": 1_000_000, "migration_lease_ms": 3_600_000,
            "reconcile_interval_ms": 604_800_000})
    );
    let id = activate(&f, "b", None).await;
    assert_eq!(f.get(&path(&id, "")).await.status, 200);
    assert_eq!(f.get(&format!("/v1/sessions/games/{id}")).await.status, 404);
}

/// The names of the document that sessions come from, to the letter.
#[tokio::test]
async fn the_metrics_are_there_by_their_names() {
    let f = serving_sessions(&["main.reap=claims", "main.max_attempts=1"]).await;
    for broadcaster in ["a", "b", "c"] {
        activate(&f, broadcaster, None).await;
    }
    activate(&f, "held", Some("h")).await;
    f.pass(44_999).await;
    f.post("/v1/sessions/main", r#"{"broadcaster":"held","config":{},"holder":"h"}"#).await;
    f.pass(30_002).await;
    f.get("/v1/sessions/main/counts").await;
    let before = f.get("/metrics").await.body;
    for line in [
        "disconnected_sessions_count{space=\"main\"} 3",
        "tidegate_session_active{space=\"main\"} 1",
        "tidegate_session_reap_lag_seconds{space=\"main\"} 0.001",
    ] {
        assert!(before.contains(&format!("\n{line}\n")), "{line}: {before}");
    }
    f.post("/v1/sessions/main/claims", r#"{"limit":1}"#).await;
    f.pass(60_000).await;
    f.post("/v1/sessions/main/cleanup", "").await;
    f.get("/v1/sessions/main/counts").await;
    let after = f.get("/metrics").await.body;
    for line in [
        "disconnected_sessions_count{space=\"main\"} 0",
        "orphan_cleanup_duration_seconds_count{space=\"main\"} 1",
        "orphan_sessions_deleted_total{space=\"main\"} 3",
        "orphan_cleanup_keys_scanned_total{space=\"main\"} 0",
        "tidegate_session_active{space=\"main\"} 0",
        "tidegate_session_claimed{space=\"main\"} 0",
        "tidegate_session_dead{space=\"main\"} 1",
        "tidegate_session_lapsed_total{space=\"main\"} 4",
        "tidegate_session_buried_total{space=\"main\"} 1",
        "tidegate_session_missing_entries_total{space=\"main\"} 0",
        "tidegate_session_invalid_entries_total{space=\"main\"} 0",
        "tidegate_http_request_seconds_count{operation=\"session_activate\"} 5",
        "tidegate_http_request_seconds_count{operation=\"session_claim\"} 1",
        "tidegate_http_request_seconds_count{operation=\"session_cleanup\"} 1",
    ] {
        assert!(after.contains(&format!("\n{line}\n")), "{line}: {after}");
    }
    assert!(
        after.contains("\norphan_cleanup_duration_seconds_bucket{le=\"0.1024\",space=\"main\"} 1\n"),
        "{after}"
    );
}

/// Whoever has not written sessions down gets them when they are first used, and
/// until then nothing of theirs is in the background or on the store.
#[tokio::test]
async fn a_space_that_nobody_wrote_down_waits_for_its_first_use() {
    let f = serving_sessions(&[]).await;
    assert_eq!(f.get("/v1/sessions").await.json()["spaces"][0]["space"], "main");
    assert!(!f.get("/metrics").await.body.contains("disconnected_sessions_count{"));
    assert_eq!(call(&f.app, "GET", "/v1/sessions/main/counts", "").await.status, 200);
    assert!(f.get("/metrics").await.body.contains("disconnected_sessions_count{space=\"main\"} 0\n"));
    let written = serving_sessions(&["main.grace=30s"]).await;
    assert!(written.get("/metrics").await.body.contains("disconnected_sessions_count{space=\"main\"} 0\n"));
}

/// Whatever goes in comes back, a string that looks like something else too.
#[tokio::test]
async fn config_and_value_come_back_as_the_json_that_they_were() {
    let f = serving_sessions(&[]).await;
    for json in [
        json!({"theme": "dark", "nested": [1, null, {"a": "b"}]}),
        json!([]),
        json!(7),
        json!(-0.5),
        json!(true),
        json!(null),
        json!("dark"),
        json!("7"),
        json!("null"),
        json!("{\"a\":1}"),
        json!("\"quoted\""),
        json!(""),
        json!("two\nlines \u{0} \u{e9}"),
    ] {
        let body = json!({"broadcaster": "b", "config": json}).to_string();
        let id = f.post("/v1/sessions/main", &body).await.json()["id"].as_str().unwrap().to_owned();
        assert_eq!(f.put(&path(&id, "/value"), &json!({"value": json}).to_string()).await.status, 200);
        let body = f.get(&path(&id, "")).await.json();
        assert_eq!((&body["config"], &body["value"]), (&json, &json));
    }
}
