//! Runs over HTTP: statuses, refusals, bodies of many items, and texts as they are.

use std::time::Duration;

use axum::http::StatusCode;
use serde_json::{Value, json};
use tidegate::Tidegate;
use tidegate::store::StoreOptions;
use tidegate::testkit::{Fault, FaultProxy, RedisServer};
use tidegate_server::http::App;
use tidegate_server::parts::Parts;

use crate::support::{Answer, Fixture, SOON, START, call, settings, soon};

async fn serving(spaces: &[&str]) -> Fixture {
    Fixture::of("memory:", &settings("runs", spaces), START).await
}

const RUN: &str = "/v1/runs/main/runs/manual_2024-09-17T14%3A30%3A00%2B00%3A00";

fn refused(answer: &Answer, status: u16, kind: &str, members: Value) {
    let body = answer.json();
    assert_eq!(answer.status, StatusCode::from_u16(status).unwrap(), "{body}");
    assert_eq!(answer.header("content-type"), Some("application/problem+json"));
    assert_eq!(body["type"], format!("urn:tidegate:problem:{kind}"));
    for (name, value) in members.as_object().unwrap() {
        assert_eq!(&body[name], value, "{name}: {body}");
    }
}

#[tokio::test]
async fn a_run_from_its_start_to_its_next_attempt() {
    let f = serving(&["main.state_ttl=2h"]).await;
    refused(&f.get(RUN).await, 404, "run-unknown", json!({"refusal": "unknown"}));
    let id = "manual_2024-09-17T14:30:00+00:00";
    let started = f.put(RUN, "").await;
    let expected = json!({"space": "main", "run": id, "attempt": 1, "state": "running", "is_new": true});
    assert_eq!((started.status, started.json()), (StatusCode::CREATED, expected));
    let again = f.put(RUN, "{}").await;
    assert_eq!((again.status, &again.json()["is_new"]), (StatusCode::OK, &json!(false)));

    f.clock.advance_ms(1000);
    let update = r#"{"state":"processing","fields":{"stage":"1","007":"\"\né"},"total":4}"#;
    let updated = f.post(&format!("{RUN}/update?attempt=1"), update).await.json();
    assert_eq!(
        (&updated["state"], &updated["ends_at_ms"]),
        (&json!("processing"), &json!(START.as_millis() + 7_201_000))
    );
    f.post(&format!("{RUN}/update"), r#"{"fields":{"stage":null}}"#).await;
    let run = f.get(RUN).await.json();
    assert_eq!((&run["fields"], &run["total"]), (&json!({"007": "\"\né"}), &json!(4)));
    assert_eq!((&run["started_at_ms"], &run["finished_at_ms"]), (&json!(START.as_millis()), &Value::Null));

    let noted =
        f.post(&format!("{RUN}/processed"), r#"{"items":["007","100000000000001","007"]}"#).await.json();
    assert_eq!((&noted["new"], &noted["processed"]), (&json!(2), &json!(2)));
    let asked =
        f.post(&format!("{RUN}/is_processed"), r#"{"items":["7","007","1e14","100000000000001"]}"#).await;
    assert_eq!(asked.json()["processed"], json!([false, true, false, true]));
    let none = f.post(&format!("{RUN}/processed"), r#"{"items":[]}"#).await.json();
    assert_eq!((&none["new"], &none["processed"]), (&json!(0), &json!(2)));

    assert_eq!(f.put(&format!("{RUN}/tasks/a%2Fb%3Ac"), "").await.status, StatusCode::CREATED);
    f.clock.advance_ms(1500);
    assert_eq!(f.put(&format!("{RUN}/tasks/a%2Fb%3Ac"), "").await.status, StatusCode::OK);
    let finished = f.post(&format!("{RUN}/tasks/a%2Fb%3Ac/finish"), "").await.json();
    assert_eq!((&finished["task"], &finished["duration_ms"]), (&json!("a/b:c"), &json!(1500)));
    let other = f.post(&format!("{RUN}/tasks/other/finish"), "").await;
    refused(&other, 404, "run-unknown-task", json!({"refusal": "unknown_task"}));

    let failure = r#"{"item":"12345","reason":"timed\nout","id":"call-1"}"#;
    for is_new in [true, false] {
        let noted = f.post(&format!("{RUN}/failures"), failure).await.json();
        assert_eq!((&noted["count"], &noted["is_new"]), (&json!(1), &json!(is_new)));
    }
    for path in [
        format!("{RUN}/failures"),
        format!("{RUN}/retry_list"),
        "/v1/runs/main/failures/2027-01-15_08".into(),
    ] {
        let failures = f.get(&path).await.json();
        let row = &failures["failures"][0];
        assert_eq!(
            (&row["run"], &row["item"], &row["reason"]),
            (&json!(id), &json!("12345"), &json!("timed\nout"))
        );
        assert_eq!((&row["to_retry"], &failures["next"]), (&json!(true), &Value::Null), "{path}");
    }
    assert_eq!(f.get("/v1/runs/main/failures/2027-01-15_09").await.json()["failures"], json!([]));
    let progress = f.get(&format!("{RUN}/progress")).await.json();
    let expected = json!({"space": "main", "run": id, "processed": 2, "failed": 1, "to_retry": 1, "total": 4,
        "rate_per_second": 0.8, "estimated_end_ms": START.as_millis() + 5000, "lost_at_ms": null});
    assert_eq!(progress, expected);

    let finished = f.post(&format!("{RUN}/finish"), r#"{"state":"failed"}"#).await;
    assert_eq!((finished.status, &finished.json()["is_new"]), (StatusCode::OK, &json!(true)));
    let ended = json!({"refusal": "ended", "state": "failed", "attempt": 1});
    refused(&f.put(RUN, "").await, 409, "run-ended", ended.clone());
    refused(
        &f.post(&format!("{RUN}/processed"), r#"{"items":["9"]}"#).await,
        409,
        "run-ended",
        ended.clone(),
    );
    refused(&f.post(&format!("{RUN}/finish"), r#"{"state":"succeeded"}"#).await, 409, "run-ended", ended);
    let retry = r#"{"from_attempt":1}"#;
    assert_eq!(f.post(&format!("{RUN}/retry"), retry).await.status, StatusCode::CREATED);
    let again = f.post(&format!("{RUN}/retry"), retry).await;
    assert_eq!((again.status, &again.json()["attempt"]), (StatusCode::OK, &json!(2)));
    let live = f.post(&format!("{RUN}/retry"), r#"{"from_attempt":2}"#).await;
    refused(&live, 409, "run-live", json!({"refusal": "live", "state": "running", "attempt": 2}));
    let stale = json!({"refusal": "stale", "attempt": 2});
    for attempt in [1, 3] {
        let late = f.post(&format!("{RUN}/processed?attempt={attempt}"), r#"{"items":["9"]}"#).await;
        refused(&late, 409, "run-stale", stale.clone());
    }

    let page = f.get("/v1/runs/main?state=running").await.json();
    assert_eq!((&page["runs"][0]["run"], &page["next"]), (&json!(id), &Value::Null));
    assert_eq!(f.get("/v1/runs/main?state=failed").await.json()["runs"], json!([]));
    let expires = f.post(&format!("{RUN}/expire"), r#"{"lasting":"30m"}"#).await.json();
    assert_eq!(expires["ends_at_ms"], START.as_millis() + 2500 + 1_800_000);
    assert_eq!(f.delete(&format!("{RUN}?attempt=2")).await.status, StatusCode::NO_CONTENT);
    refused(&f.delete(RUN).await, 404, "run-unknown", json!({}));
    assert_eq!(f.put(RUN, "").await.json()["attempt"], 3);
}

/// Ten thousand items are more than other bodies may have.
#[tokio::test]
async fn many_items_fit_into_a_body() {
    let f = serving(&[]).await;
    f.put(RUN, "").await;
    let items: Vec<_> = (0..10_000).map(|number| format!("{number:0>200}")).collect();
    let noted = f.post(&format!("{RUN}/processed"), &json!({"items": items}).to_string()).await;
    assert_eq!((noted.status, &noted.json()["new"]), (StatusCode::OK, &json!(10_000)));
    let asked = f.post(&format!("{RUN}/is_processed"), &json!({"items": items}).to_string()).await.json();
    assert_eq!(asked["processed"].as_array().unwrap().len(), 10_000);
    assert!(asked["processed"].as_array().unwrap().iter().all(|it| *it == json!(true)));
    let many: Vec<_> = (0..10_001).map(|number| number.to_string()).collect();
    let refused = f.post(&format!("{RUN}/processed"), &json!({"items": many}).to_string()).await;
    assert_eq!(refused.status, StatusCode::BAD_REQUEST);
    assert!(refused.body.contains("10001 items") && refused.body.contains("10000"), "{}", refused.body);
    let long = json!({"items": ["x".repeat(5 << 20)]}).to_string();
    assert_eq!(f.post(&format!("{RUN}/processed"), &long).await.status, StatusCode::PAYLOAD_TOO_LARGE);
    let reason = json!({"item": "1", "id": "1", "reason": "x".repeat(100_000)}).to_string();
    assert_eq!(f.post(&format!("{RUN}/failures"), &reason).await.status, StatusCode::PAYLOAD_TOO_LARGE);
}

#[tokio::test]
async fn what_is_not_allowed_is_named() {
    let f =
        serving(&["main.max_processed=2", "main.max_fields=1", "main.max_tasks=1", "main.max_runs=1"]).await;
    f.put(RUN, "").await;
    for (path, body, why) in [
        ("/processed", r#"{"items":[""]}"#, "an item"),
        ("/processed", r#"{"items":[7]}"#, "invalid type"),
        ("/processed", r#"{"items":["1"],"more":1}"#, "unknown field"),
        ("/processed?attempt=-1", r#"{"items":[]}"#, "`attempt`"),
        ("/update", r#"{"state":"succeeded"}"#, "unknown variant"),
        ("/update", r#"{"fields":{"":"1"}}"#, "field"),
        ("/finish", r#"{"state":"running"}"#, "succeeded, failed and cancelled are allowed"),
        ("/retry", r"{}", "from_attempt"),
        ("/expire", r"{}", "lasting"),
        ("/failures", r#"{"item":"1"}"#, "`id`"),
    ] {
        let answer = f.post(&format!("{RUN}{path}"), body).await;
        assert_eq!(answer.status, StatusCode::BAD_REQUEST, "{path} {body}: {}", answer.body);
        assert!(answer.body.contains(why), "{path} {body}: {}", answer.body);
    }
    for path in ["/v1/runs/main/runs/", "/v1/runs/main/failures/2027-02-30_08", "/v1/runs/main?state=dead"] {
        assert_eq!(f.get(path).await.status, StatusCode::BAD_REQUEST, "{path}");
    }
    assert_eq!(f.get("/v1/runs/nowhere").await.status, StatusCode::NOT_FOUND);

    let full = f.post(&format!("{RUN}/processed"), r#"{"items":["1","2","3"]}"#).await;
    refused(&full, 429, "run-full", json!({"refusal": "full", "taken": 2}));
    let fields = f.post(&format!("{RUN}/update"), r#"{"fields":{"a":"1"}}"#).await;
    assert_eq!(fields.status, StatusCode::OK);
    let fields = f.post(&format!("{RUN}/update"), r#"{"fields":{"b":"1"}}"#).await;
    refused(&fields, 429, "run-too-many-fields", json!({"refusal": "too_many_fields"}));
    f.put(&format!("{RUN}/tasks/1"), "").await;
    refused(&f.put(&format!("{RUN}/tasks/2"), "").await, 429, "run-too-many-tasks", json!({}));
    refused(&f.put("/v1/runs/main/runs/other", "").await, 429, "runs-full", json!({}));
}

#[tokio::test]
async fn a_quota_is_charged_once_by_an_id() {
    let f = serving(&["main.quota.limit=10", "main.quota.safety_buffer=2", "main.quota.kind=both"]).await;
    let charge = |id: &'static str, cost: u64| {
        let f = &f;
        async move {
            f.put(&format!("/v1/runs/main/quota/charges/{id}"), &json!({"cost": cost}).to_string()).await
        }
    };
    let charged = charge("a%2F1", 5).await;
    let expected = json!({"space": "main", "id": "a/1", "cost": 5, "is_new": true, "remaining": 3});
    assert_eq!((charged.status, charged.json()), (StatusCode::CREATED, expected));
    let again = charge("a%2F1", 5).await;
    assert_eq!((again.status, &again.json()["remaining"]), (StatusCode::OK, &json!(3)));
    assert_eq!(charge("a%2F1", 4).await.status, StatusCode::CONFLICT, "another cost");
    let over = charge("2", 4).await;
    let members = json!({"refusal": "quota_exceeded", "remaining": 3, "by": "both"});
    refused(&over, 429, "run-quota-exceeded", members);
    let wait_ms = over.json()["retry_after_ms"].as_u64().unwrap();
    assert_eq!(over.header("retry-after"), Some(&*wait_ms.div_ceil(1000).to_string()));
    let never = charge("2", 9).await;
    refused(&never, 429, "run-quota-exceeded", json!({"retry_after_ms": null}));
    assert_eq!(never.header("retry-after"), None);
    assert_eq!(charge("2", 0).await.status, StatusCode::BAD_REQUEST);

    let quota = f.get("/v1/runs/main/quota").await.json();
    assert_eq!(
        (&quota["prefix"], &quota["kind"], &quota["remaining"]),
        (&json!("courtlistener"), &json!("both"), &json!(3))
    );
    assert_eq!((&quota["limit"], &quota["safety_buffer"]), (&json!(10), &json!(2)));
    let aligned = json!({"capacity": 8, "used": 5, "remaining": 3, "resets_in_ms": 3_600_000});
    assert_eq!((&quota["aligned"], &quota["sliding"]["used"]), (&aligned, &json!(5)));
    assert_eq!(
        (&quota["peak_hour"], &quota["hours"][0]["most_aligned"]),
        (&json!("2027-01-15_08"), &json!(5))
    );

    let released = f.delete("/v1/runs/main/quota/charges/a%2F1").await;
    assert_eq!(released.json(), json!({"space": "main", "id": "a/1", "is_new": true}));
    assert_eq!(f.delete("/v1/runs/main/quota/charges/a%2F1").await.json()["is_new"], false);
    refused(&f.delete("/v1/runs/main/quota/charges/3").await, 404, "run-unknown-charge", json!({}));
    refused(&charge("a%2F1", 5).await, 409, "run-charge-released", json!({"refusal": "released"}));
    assert_eq!(f.get("/v1/runs/main/quota").await.json()["remaining"], 8);
}

/// Ten scripts, and the run is ended after some of them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_run_that_ends_amid_many_items_says_how_many_were_added() {
    let server = RedisServer::start();
    let proxy = FaultProxy::start(server.port()).await;
    let mut options = StoreOptions::default();
    options.deadline = SOON;
    let settings = settings("runs", &["main.max_runs=10"]);
    let open = async |url: &str| {
        let gate = Tidegate::open_with(url, options.clone()).await.unwrap();
        App::new(Parts::open(gate, &settings.parts).unwrap())
    };
    let (slow, direct) = (open(&proxy.url()).await, open(&server.url()).await);
    let run = "/v1/runs/main/runs/nightly";
    assert_eq!(call(&direct, "PUT", run, "").await.status, StatusCode::CREATED);
    let items: Vec<String> = (0..10_000).map(|number| number.to_string()).collect();
    proxy.set(Fault::Delay(Duration::from_millis(50)));
    let adding = tokio::spawn({
        let (slow, body) = (slow.clone(), json!({"items": items}).to_string());
        async move { call(&slow, "POST", &format!("{run}/processed"), &body).await }
    });
    let processed = async || {
        let progress = call(&direct, "GET", &format!("{run}/progress"), "").await.json();
        progress["processed"].as_u64().unwrap()
    };
    soon(async {
        while processed().await == 0 {
            tokio::task::yield_now().await;
        }
    })
    .await;
    proxy.set(Fault::Freeze);
    let finished = call(&direct, "POST", &format!("{run}/finish"), r#"{"state":"cancelled"}"#).await;
    assert_eq!(finished.status, StatusCode::OK);
    let taken = processed().await;
    proxy.set(Fault::None);
    let answer = adding.await.unwrap();
    let members = json!({"refusal": "ended", "state": "cancelled", "attempt": 1, "taken": taken});
    refused(&answer, 409, "run-ended", members);
    assert!((1000..10_000).contains(&taken), "{taken}");
}
