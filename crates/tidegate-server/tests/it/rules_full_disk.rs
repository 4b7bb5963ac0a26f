//! A disk that is full: writes of rules are refused and say why, and all else goes on.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpStream;
use std::sync::mpsc;
use std::thread;

use serde_json::{Value, json};
use tidegate::clock::monotonic;

use self::full_disk::FullDisk;
use crate::cli::Server;
use crate::support::SOON;

/// The redirect engine's own tests have it too.
#[path = "../../../tidegate-edge/tests/it/kit/full_disk.rs"]
pub(crate) mod full_disk;

/// Events as they come.
struct Events(mpsc::Receiver<(String, Value)>);

impl Events {
    fn follow(server: &Server, query: &str) -> Self {
        let mut stream = TcpStream::connect(server.address()).unwrap();
        let request = format!("GET /v1/rules/changes{query} HTTP/1.1\r\nhost: t\r\n\r\n");
        stream.write_all(request.as_bytes()).unwrap();
        let (sender, events) = mpsc::channel();
        thread::spawn(move || {
            let mut name = String::new();
            for line in BufReader::new(stream).lines().map_while(Result::ok) {
                if let Some(event) = line.strip_prefix("event: ") {
                    name = event.to_owned();
                } else if let Some(data) = line.strip_prefix("data: ")
                    && sender.send((name.clone(), serde_json::from_str(data).unwrap())).is_err()
                {
                    return;
                }
            }
        });
        Self(events)
    }

    /// The next of that name; others may come before.
    fn next(&self, name: &str) -> Value {
        let deadline = monotonic() + SOON;
        loop {
            let left = deadline.saturating_duration_since(monotonic());
            let (told, data) = self.0.recv_timeout(left).unwrap_or_else(|_| panic!("no {name}"));
            if told == name {
                return data;
            }
        }
    }

    /// Forgets what has come.
    fn skip(&self) {
        self.0.try_iter().for_each(drop);
    }
}

fn status(answer: &str) -> &str {
    answer.split(' ').nth(1).unwrap()
}

#[test]
fn writes_are_refused_and_all_else_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let disk = FullDisk::of(folder.path());
    let url = format!("sqlite:{}", folder.path().join("rules.db").display());
    let server = Server::start_in("127.0.0.1:0", &["--rules", &url], &disk.variables());
    let rule = |destination: &str, max_clicks: Value| {
        json!({"path": "/a", "destination": destination, "maxClicks": max_clicks}).to_string()
    };
    let body =
        |answer: &str| -> Value { serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap() };
    assert_eq!(status(&server.request("PUT", "/v1/rules/a", &rule("/x", json!(10)))), "201");
    // One that ends while the disk is full.
    let expires_at = body(&server.get("/v1/rules/position"))["time"].as_u64().unwrap() + 1000;
    let ends = json!({"path": "/e", "destination": "/x", "expiresAt": expires_at}).to_string();
    let made = body(&server.request("PUT", "/v1/rules/e", &ends));
    assert!(made["rule"]["createdAt"].as_u64().unwrap() <= expires_at, "{made}");
    let before = body(&server.get("/v1/rules/position"));
    let events = Events::follow(&server, "");
    assert_eq!(events.next("sync")["seq"], 2);
    disk.fill();
    let bulk =
        json!([{"upsert": {"id": "b", "path": "/b", "destination": "/x"}}, {"delete": "a"}]).to_string();
    for (method, path, given) in [
        ("PUT", "/v1/rules/a", rule("/y", Value::Null)),
        ("POST", "/v1/rules", json!({"id": "b", "path": "/b", "destination": "/x"}).to_string()),
        ("PATCH", "/v1/rules/a", json!({"note": "x"}).to_string()),
        ("DELETE", "/v1/rules/a", String::new()),
        ("POST", "/v1/rules/bulk", bulk),
        ("PUT", "/v1/workers/w/blocks/1", json!({"rule": "a", "wanted": 1}).to_string()),
        ("PUT", "/v1/workers/w/clicks/1", json!({"clicks": {"a": 1}}).to_string()),
    ] {
        let answer = server.request(method, path, &given);
        assert_eq!(status(&answer), "507", "{method} {path}: {answer}");
        assert_eq!(body(&answer)["type"], "urn:tidegate:problem:rules-full", "{answer}");
    }
    for path in [
        "/v1/rules/a",
        "/v1/rules",
        "/v1/rules?path=/a",
        "/v1/rules?state=live",
        "/v1/rules/resolve?host=h&path=/a",
        "/v1/rules/a/clicks",
        "/v1/rules/export",
        "/v1/rules/export?format=jsonl",
        "/v1/rules/snapshot",
        "/v1/rules/snapshot?fields=keys",
        "/v1/workers",
        "/healthz",
    ] {
        let answer = server.get(path);
        assert_eq!(status(&answer), "200", "{path}: {answer}");
    }
    let deadline = monotonic() + SOON;
    while body(&server.get("/v1/rules/position"))["time"].as_u64().unwrap() <= expires_at {
        assert!(monotonic() < deadline, "time stands still");
    }
    for (state, id) in [("live", "a"), ("ended", "e")] {
        let listed = body(&server.get(&format!("/v1/rules?state={state}")));
        let ids: Vec<_> = listed["rules"].as_array().expect(state).iter().map(|it| &it["id"]).collect();
        assert_eq!(ids, [id], "{state}");
    }
    let mut after = body(&server.get("/v1/rules/position"));
    after["time"] = before["time"].clone();
    assert_eq!(after, before, "nothing of it was written");
    // Who follows is told where the rules stand, who comes gets what it has missed, and who begins anew too.
    events.skip();
    assert_eq!(events.next("sync")["seq"], 2);
    let epoch = before["epoch"].as_str().unwrap();
    let missed = Events::follow(&server, &format!("?after={epoch}:0:{}", "0".repeat(32)));
    assert_eq!(missed.next("create")["destination"], "/x");
    assert_eq!(Events::follow(&server, "").next("sync")["seq"], 2);
    disk.free();
    assert_eq!(status(&server.request("PUT", "/v1/rules/a", &rule("/y", Value::Null))), "200");
    assert_eq!(events.next("update")["destination"], "/y", "it was there all the time");
}
