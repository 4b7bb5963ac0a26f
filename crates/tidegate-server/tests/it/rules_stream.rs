//! Changes of rules as they happen, snapshots of all of them, and the workers that follow.

use std::io::Read as _;

use axum::body::Body;
use axum::http::Request;
use http_body_util::BodyExt as _;
use serde_json::{Value, json};
use tidegate_edge::truth::{Digest, Position};
use tidegate_server::http::router;
use tidegate_server::settings::HttpSettings;
use tower_service::Service as _;

use crate::lifecycle::{Client, Running, start_with};
use crate::rules::{World, refused, world};
use crate::support::{START, soon};

/// An event: its id if it has one, its name and its data.
pub(crate) type Event = (Option<String>, String, Value);

pub(crate) async fn next(client: &mut Client) -> Event {
    loop {
        let text = client.read_until("\n\n").await;
        let field = |name: &str| {
            let found = text.lines().find_map(|line| line.strip_prefix(&format!("{name}: ")));
            found.map(str::to_owned)
        };
        if let Some(data) = field("data") {
            return (field("id"), field("event").unwrap(), serde_json::from_str(&data).unwrap());
        }
    }
}

pub(crate) async fn following(running: &Running, query: &str, header: &str) -> Client {
    let mut client = running.connect().await;
    client.send(&format!("GET /v1/rules/changes{query} HTTP/1.1\r\nhost: t\r\n{header}\r\n")).await;
    let head = client.read_until("\r\n\r\n").await;
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
    assert!(head.contains("content-type: text/event-stream\r\n"), "{head}");
    client
}

async fn workers(w: &World) -> Value {
    w.get("/v1/workers").await.json()
}

#[tokio::test]
async fn changes_are_told_as_they_happen_and_resumed_where_they_were_left() {
    let w = world().await;
    let running = start_with(HttpSettings::default(), w.app.clone()).await;
    let mut client = following(&running, "?worker=edge-1", "").await;
    let (id, name, mut sync) = next(&mut client).await;
    // Its time goes on from when the database was asked.
    assert!(sync["time"].as_u64().unwrap() >= START.as_millis(), "{sync}");
    sync["time"] = START.as_millis().into();
    let place = w.get("/v1/rules/position").await.json();
    assert_eq!((name.as_str(), &sync), ("sync", &place));
    let here = format!("{}:0:{}", place["epoch"].as_str().unwrap(), place["digest"].as_str().unwrap());
    assert_eq!(id.as_ref(), Some(&here));

    let made = w.add(json!({"id": "a", "path": "/a", "destination": "/x"})).await;
    let (first, name, data) = next(&mut client).await;
    let mut rule = made["rule"].clone();
    rule.as_object_mut().unwrap().remove("clicks");
    assert_eq!((name.as_str(), data), ("create", rule), "the rule itself, but for its clicks");
    for (patch, expected) in [
        (json!({"destination": "/y"}), vec![(true, "update", "/a")]),
        (json!({"path": "/b"}), vec![(false, "delete", "/a"), (true, "create", "/b")]),
    ] {
        assert_eq!(w.call("PATCH", "/v1/rules/a", &patch.to_string()).await.status, 200);
        for (has_id, kind, path) in expected {
            let (id, name, data) = next(&mut client).await;
            assert_eq!((id.is_some(), name.as_str(), &data["path"]), (has_id, kind, &json!(path)));
        }
    }
    assert_eq!(w.call("DELETE", "/v1/rules/a", "").await.status, 204);
    let (last, name, data) = next(&mut client).await;
    assert_eq!((name.as_str(), data), ("delete", json!({"id": "a", "host": "*", "path": "/b"})));

    let listed = workers(&w).await;
    assert_eq!(
        (&listed["workers"][0]["name"], &listed["workers"][0]["connected"]),
        (&json!("edge-1"), &json!(true))
    );
    assert_eq!(w.call("PUT", "/v1/workers/edge-1/applied", r#"{"seq":3}"#).await.status, 204);
    let told = json!({"seq": 4, "workers": [{"name": "edge-1", "connected": true, "since": START.as_millis(),
        "seenAt": START.as_millis(), "appliedSeq": 3, "lag": 1}]});
    assert_eq!(workers(&w).await, told);
    drop(client);
    soon(async {
        while workers(&w).await["workers"][0]["connected"] != false {
            tokio::task::yield_now().await;
        }
    })
    .await;

    // Who was away gets what it has missed, and nothing twice.
    for position in [format!("?after={}", first.clone().unwrap()), String::new()] {
        let header = if position.is_empty() {
            format!("last-event-id: {}\r\n", first.clone().unwrap())
        } else {
            String::new()
        };
        let mut again = following(&running, &position, &header).await;
        let mut names = Vec::new();
        while names.len() < 4 {
            let (_, name, _) = next(&mut again).await;
            if name != "sync" {
                names.push(name);
            }
        }
        assert_eq!(names, ["update", "delete", "create", "delete"]);
    }
    // Who cannot go on is told why, and from where on it has to read.
    let mut lost = following(&running, &format!("?after=other:1:{}", "0".repeat(32)), "").await;
    let (id, name, data) = next(&mut lost).await;
    assert_eq!((id, name.as_str()), (last, "resync"));
    assert!(data["reason"].as_str().unwrap().contains("gone back"), "{data}");
    running.stop().await;
}

/// Who does not read while more happens than is kept for those who follow.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_does_not_read_is_cut_off_with_a_reason_and_goes_on() {
    const ALL: u64 = 20_000;
    let w = world().await;
    let running = start_with(HttpSettings::default(), w.app.clone()).await;
    let mut slow = following(&running, "", "").await;
    let (_, name, _) = next(&mut slow).await;
    assert_eq!(name, "sync");
    // More bytes than a connection holds, too.
    let note = "as long as it may be ".repeat(40);
    for first in (0..ALL).step_by(1000) {
        let rules: Vec<_> = (first..first + 1000)
            .map(|number| {
                json!({"upsert": {"id": number.to_string(), "path": format!("/{number}"), "destination": "/x",
                "note": note}})
            })
            .collect();
        assert_eq!(w.call("POST", "/v1/rules/bulk", &json!(rules).to_string()).await.status, 200);
    }
    let rest = slow.read_to_end().await;
    let told = rest.rfind("\n: ").map(|at| rest[at + 1..].lines().next().unwrap());
    assert_eq!(told, Some(": too far behind: go on from the last id"));
    let ids: Vec<_> = rest.lines().filter_map(|line| line.strip_prefix("id: ")).collect();
    let seq = |id: &str| id.split(':').nth(1).unwrap().parse::<u64>().unwrap();
    let mut seqs: Vec<_> = ids.iter().map(|id| seq(id)).collect();
    // Where it stands may have been said again.
    seqs.dedup();
    let (first, last) = (seqs[0], seqs[seqs.len() - 1]);
    assert!(
        first <= 1 && seqs == (first..=last).collect::<Vec<_>>(),
        "until then each has come, from {first} to {last}"
    );
    assert!(last + 100 < ALL, "it was not slow");
    let mut again = following(&running, "", &format!("last-event-id: {}\r\n", ids.last().unwrap())).await;
    for expected in last + 1..=last + 100 {
        let (id, ..) = soon(async {
            loop {
                let event = next(&mut again).await;
                if event.1 != "sync" {
                    break event;
                }
            }
        })
        .await;
        assert_eq!(seq(&id.unwrap()), expected);
    }
    running.stop().await;
}

#[tokio::test]
async fn what_is_no_position_is_refused() {
    let w = world().await;
    for query in ["?after=1", "?after=", "?after=a:b:c", "?worker=", "?worker=%00", "?before=1"] {
        refused(&w.get(&format!("/v1/rules/changes{query}")).await, 400, "invalid-request", json!({}));
    }
    for query in ["?fields=some", "?from=7", "?x=1"] {
        refused(&w.get(&format!("/v1/rules/snapshot{query}")).await, 400, "invalid-request", json!({}));
    }
}

#[tokio::test]
async fn a_snapshot_has_every_rule_and_where_it_was_made() {
    let w = world().await;
    let rules: Vec<_> = (0..3000)
        .map(|number| {
            let path = if number % 100 == 0 { format!("/f{number}/*") } else { format!("/{number}") };
            let rule =
                json!({"id": format!("r{number}"), "path": path, "destination": "https://example.com/"});
            json!({"upsert": rule})
        })
        .collect();
    for some in rules.chunks(1000) {
        let made = w.call("POST", "/v1/rules/bulk", &json!(some).to_string()).await;
        assert_eq!(made.status, 200, "{}", made.body);
    }
    let plain = w.get("/v1/rules/snapshot").await;
    assert_eq!(plain.header("content-type"), Some("application/x-ndjson"));
    let mut lines = plain.body.lines();
    let position: Position = serde_json::from_str(lines.next().unwrap()).unwrap();
    assert_eq!(w.get("/v1/rules/position").await.json(), serde_json::to_value(&position).unwrap());
    let expected = format!("{}:{}:{}", position.epoch, position.seq, position.digest);
    assert_eq!(plain.header("tidegate-position"), Some(expected.as_str()));
    let mut digest = Digest::default();
    for line in lines.clone() {
        let rule: Value = serde_json::from_str(line).unwrap();
        digest =
            digest.with(Digest::of(rule["id"].as_str().unwrap(), rule["version"].as_u64().unwrap(), line));
    }
    assert_eq!((lines.count() as u64, digest), (position.count, position.digest));

    let request =
        Request::get("/v1/rules/snapshot").header("accept-encoding", "br, gzip").body(Body::empty());
    let answer = router(w.app.clone()).call(request.unwrap()).await.unwrap();
    assert_eq!(answer.headers()["content-encoding"], "gzip");
    let packed = answer.into_body().collect().await.unwrap().to_bytes();
    let mut unpacked = String::new();
    flate2::read::GzDecoder::new(&packed[..]).read_to_string(&mut unpacked).unwrap();
    assert!(packed.len() * 5 < unpacked.len(), "{} of {}", packed.len(), unpacked.len());
    assert_eq!(unpacked, plain.body);

    let keys = w.get("/v1/rules/snapshot?fields=keys").await.body;
    let keys: Vec<Value> = keys.lines().skip(1).map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(keys.iter().filter(|it| it["destination"].is_string()).count(), 30, "folders are whole");
    let is_key = |it: &&Value| it.as_object().unwrap().len() == 3 && it["hash"].is_string();
    assert_eq!(keys.iter().filter(is_key).count(), 2970, "host, path and hash of all others");
}

#[tokio::test]
async fn permits_are_granted_once_and_counted_once() {
    let w = world().await;
    w.add(json!({"id": "spring", "path": "/s", "destination": "/x", "maxClicks": 100})).await;
    w.add(json!({"id": "free", "path": "/f", "destination": "/x"})).await;
    let epoch = w.get("/v1/rules/position").await.json()["epoch"].clone();
    let ask = |number: u64, body: Value| {
        let path = format!("/v1/workers/edge-1/blocks/{number}");
        let w = &w;
        async move { w.call("PUT", &path, &body.to_string()).await }
    };
    let created_at = START.as_millis();
    let granted = json!({
        "outcome": "granted", "permits": 12, "lifeMs": 10_000, "epoch": epoch, "createdAt": created_at,
    });
    for _ in 0..2 {
        assert_eq!(ask(1, json!({"rule": "spring", "wanted": 50})).await.json(), granted);
    }
    assert_eq!(ask(2, json!({"rule": "free", "wanted": 1})).await.json(), json!({"outcome": "unbounded"}));
    refused(&ask(2, json!({"rule": "none", "wanted": 1})).await, 404, "rule-unknown", json!({}));
    for wrong in [
        json!({"rule": "spring"}),
        json!({"rule": "spring", "wanted": 0}),
        json!({"rule": "spring", "wanted": -1}),
    ] {
        refused(&ask(3, wrong).await, 400, "invalid-request", json!({}));
    }
    let back = async |number: &str, spent: u64| {
        let path = format!("/v1/workers/edge-1/blocks/{number}/return");
        w.call("POST", &path, &json!({"spent": spent}).to_string()).await
    };
    refused(&back("1", 13).await, 409, "block-too-many", json!({}));
    refused(&back("7", 1).await, 404, "block-unknown", json!({}));
    refused(&back("x", 1).await, 400, "invalid-request", json!({}));
    for _ in 0..2 {
        assert_eq!(back("1", 5).await.status, 204);
    }
    let report = json!({"clicks": {"free": 3, "none": 9}}).to_string();
    for counted in [true, false] {
        let answer = w.call("PUT", "/v1/workers/edge-1/clicks/1", &report).await;
        assert_eq!(answer.json(), json!({"counted": counted}));
    }
    let at = START.as_millis();
    let day = START.to_string()[..10].to_owned();
    for (id, clicks) in [("spring", 5), ("free", 3)] {
        let expected =
            json!({"id": id, "clicks": clicks, "lastClickAt": at, "days": [{"day": day, "clicks": clicks}]});
        assert_eq!(w.get(&format!("/v1/rules/{id}/clicks")).await.json(), expected);
        assert_eq!(w.get(&format!("/v1/rules/{id}")).await.json()["clicks"], clicks);
    }
    refused(&w.get("/v1/rules/none/clicks").await, 404, "rule-unknown", json!({}));
}
