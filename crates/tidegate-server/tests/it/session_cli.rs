//! `tidegate sessions`: what it prints and how it exits, on a server or a store.

use serde_json::{Value, json};
use tidegate::clock::Clock;
use tidegate::testkit::RedisServer;

use crate::cli::{Server, run, tidegate};
use crate::session::NOBODY;
use crate::support::{Fixture, settings};

fn json_of(out: &str) -> Value {
    serde_json::from_str(out).expect(out)
}

/// Activates a session, held by `h`; its id.
fn activate(server: &Server, broadcaster: &str) -> String {
    let body = json!({"broadcaster": broadcaster, "config": {"theme": "dark"}, "holder": "h"}).to_string();
    let answer = server.request("POST", "/v1/sessions/main", &body);
    let (_, body) = answer.split_once("\r\n\r\n").unwrap();
    json_of(body)["id"].as_str().unwrap().to_owned()
}

fn leave(server: &Server, id: &str) {
    let answer = server.request("DELETE", &format!("/v1/sessions/main/{id}/holders/h"), "");
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
}

#[test]
fn sessions_are_printed_for_people_and_for_machines() {
    let server = Server::start(&["--set", "sessions.main.grace=1h"]);
    let (id, other) = (activate(&server, "channel/7"), activate(&server, "b\u{1b}[2J"));
    let (code, out, err) = server.sessions(&["show", &id]);
    let lines: Vec<_> = out.lines().collect();
    assert_eq!((code, err.as_str()), (0, ""));
    assert_eq!(lines[0], format!("{id}: active, generation 1, 1 holder"));
    assert_eq!(lines[1], "broadcaster channel/7");
    assert!(lines[2].starts_with("last seen 20") && lines[3].starts_with("last update 20"), "{out}");
    assert_eq!(&lines[4..6], ["config {\"theme\":\"dark\"}", "value "]);
    assert!(lines[6].starts_with("holder h until 20") && lines[7].starts_with("held until 20"), "{out}");
    assert_eq!(lines.len(), 8, "{out}");
    let (code, out, _) = server.sessions(&["show", "--broadcaster", "b\u{1b}[2J"]);
    assert_eq!((code, out.lines().nth(1)), (0, Some("broadcaster b\\u{1b}[2J")));
    let (_, out, _) = server.sessions(&["show", &id, "--json"]);
    assert_eq!(json_of(&out)["broadcaster"], "channel/7");

    let (code, out, _) = server.sessions(&["delete", &id]);
    assert_eq!((code, out.as_str()), (1, "the session is active\n"));
    let (code, out, _) = server.sessions(&["delete", &id, "--json"]);
    assert_eq!((code, &json_of(&out)["refusal"]), (1, &json!("active")));
    leave(&server, &id);
    let (code, out, _) = server.sessions(&["list"]);
    assert_eq!(code, 0);
    assert!(out.starts_with(&format!("{id}  left at 20")) && out.ends_with("Z\n"), "{out}");
    let (_, out, _) = server.sessions(&["list", "--state", "active"]);
    assert!(out.starts_with(&format!("{other}  held until 20")), "{out}");
    assert_eq!(server.sessions(&["list", "--state", "orphan"]).1, "none\n");
    assert_eq!(server.sessions(&["list", "--state", "dead"]).1, "none\n");
    assert_eq!(server.sessions(&["list", "--max-age", "59m"]).1, "none\n");
    let (_, out, _) = server.sessions(&["list", "--max-age", "0s", "--json"]);
    assert_eq!(json_of(&out)["sessions"][0]["id"], json!(id));
    assert_eq!(
        server.sessions(&["counts"]),
        (0, "1 active\n1 disconnected, 0 of them orphans\n0 claimed\n0 dead\n".into(), "".into())
    );
    let (_, out, _) = server.sessions(&["counts", "--json"]);
    assert_eq!(json_of(&out)["disconnected"], 1);
    assert_eq!(server.sessions(&["cleanup"]), (0, "0 sessions deleted\n".into(), "".into()));

    leave(&server, &other);
    let (_, out, _) = server.sessions(&["list", "--limit", "1"]);
    let place = out.lines().nth(1).unwrap().strip_prefix("more: --after ").unwrap();
    let (_, out, _) = server.sessions(&["list", "--limit", "1", "--after", place]);
    assert!(out.starts_with(&other), "{out}");

    assert_eq!(server.sessions(&["delete", &id]), (0, "deleted\n".into(), "".into()));
    assert_eq!(server.sessions(&["delete", &other, "--json"]).1, "{\"deleted\":true}\n");
    assert_eq!(server.sessions(&["show", &id]), (1, "there is no such session\n".into(), "".into()));
    assert_eq!(
        server.sessions(&["spaces"]).1,
        "main: up to 1000000 sessions of up to 1000 holders, leases of 45s, orphans after 1h, resumed \
         within 1day, reaped by cleanup\n"
    );
}

/// By a clock that a test moves on, and then by the system's.
#[tokio::test]
async fn dead_sessions_can_be_claimed_again() {
    let redis = RedisServer::start();
    let written = settings("sessions", &["main.max_attempts=1", "main.reap=claims"]);
    let f = Fixture::of(&redis.url(), &written, Clock::system().now()).await;
    let body = r#"{"broadcaster":"b","config":{}}"#;
    let id = f.post("/v1/sessions/main", body).await.json()["id"].as_str().unwrap().to_owned();
    f.pass(75_000).await;
    assert_eq!(f.post("/v1/sessions/main/claims", "").await.json()["claims"][0]["id"], json!(id));
    f.pass(60_000).await;
    assert_eq!(f.post("/v1/sessions/main/claims", "").await.json()["buried"], 1);
    // The command goes by what is declared.
    f.app.gate().declare().await.unwrap();
    let on_redis = |args: &[&str]| {
        let mut command = tidegate(&["sessions"]);
        command.args(args).args(["--store", &redis.url(), "--set", "store.deadline=10s"]);
        run(command)
    };
    let (code, out, _) = on_redis(&["list", "--state", "dead"]);
    assert_eq!(code, 0);
    assert!(out.starts_with(&format!("{id}  put aside at 20")), "{out}");
    assert!(on_redis(&["counts"]).1.ends_with("\n1 dead\n"));
    assert_eq!(on_redis(&["retry", &id]), (0, "it can be claimed again\n".into(), "".into()));
    let (code, out, _) = on_redis(&["retry", &id, "--json"]);
    assert_eq!((code, &json_of(&out)["refusal"]), (1, &json!("reaping")), "it is not dead any more");
    assert_eq!(f.post("/v1/sessions/main/claims", "").await.json()["claims"][0]["attempt"], 1);
}

#[test]
fn orphans_are_claimed_renewed_and_acknowledged_by_hand() {
    let server = Server::start(&["--set", "sessions.main.grace=0s", "--set", "sessions.main.reap=claims"]);
    let (id, other) = (activate(&server, "b"), activate(&server, "c"));
    leave(&server, &id);
    leave(&server, &other);
    let (code, out, _) = server.sessions(&["cleanup", "--dry-run"]);
    assert_eq!((code, out.as_str()), (0, "dry run: 2 sessions would be deleted\n"));
    let (code, out, err) = server.sessions(&["claim"]);
    assert_eq!((code, err.as_str()), (0, ""));
    let lines: Vec<_> = out.lines().collect();
    let first = &lines[0][..36];
    assert!(first == id || first == other);
    assert!(lines[0][36..].starts_with(": generation 1, attempt 1, left at 20"), "{out}");
    assert!(lines[1].starts_with("broadcaster ") && lines[2] == "config {\"theme\":\"dark\"}", "{out}");
    assert_eq!(&lines[3..], ["value ", "more are due"]);
    let (code, out, _) = server.sessions(&["cleanup", "--dry-run"]);
    let expected = "dry run: 1 session would be deleted\n";
    assert_eq!((code, out.as_str()), (0, expected));
    let renew = |attempt| server.sessions(&["renew", first, "--generation", "1", "--attempt", attempt]);
    assert!(renew("1").1.starts_with("claimed until 20"));
    assert_eq!((renew("2").0, renew("2").1.as_str()), (1, "the session is not claimed\n"));
    let ack = |id: &str| server.sessions(&["ack", id, "--generation", "1"]);
    assert_eq!(ack(first), (0, "deleted\n".into(), "".into()));
    assert_eq!(ack(first), (1, "gone\n".into(), "".into()));
    let second = if first == id { &other } else { &id };
    assert_eq!(ack(second), (1, "not_claimed\n".into(), "".into()));
    let (_, out, _) = server.sessions(&["claim", "--limit", "5", "--json"]);
    let claim = &json_of(&out)["claims"][0];
    assert_eq!((&claim["id"], &claim["config"]), (&json!(second), &json!({"theme": "dark"})));
    let (code, out, _) = server.sessions(&["ack", second, "--generation", "1", "--json"]);
    assert_eq!((code, &json_of(&out)["deleted"]), (0, &json!(1)));
    assert_eq!(server.sessions(&["claim"]).1, "none\n");
}

#[test]
fn what_is_not_dead_is_not_retried() {
    let server = Server::start(&[
        "--set",
        "sessions.main.grace=0s",
        "--set",
        "sessions.main.claim_lease=1s",
        "--set",
        "sessions.main.max_attempts=1",
        "--set",
        "sessions.main.reap=claims",
    ]);
    let id = activate(&server, "b");
    leave(&server, &id);
    assert_eq!(server.sessions(&["list", "--state", "orphan"]).1.lines().count(), 1);
    let (code, out, _) = server.sessions(&["retry", &id]);
    assert_eq!((code, out.as_str()), (1, "the session is not claimed\n"));
    let claimed = server.request("POST", "/v1/sessions/main/claims", "");
    assert!(claimed.contains(&id), "{claimed}");
    let (code, out, _) = server.sessions(&["retry", &id]);
    assert_eq!((code, out.as_str()), (1, "the session is being reaped: activate a new one\n"));
    let (_, out, _) = server.sessions(&["show", &id]);
    assert!(out.starts_with(&format!("{id}: claimed, generation 1, 0 holders, left at 20")), "{out}");
    assert!(out.lines().next().unwrap().ends_with("Z, 1 claim"), "{out}");
    assert_eq!(server.sessions(&["retry", NOBODY]).0, 1);
}

#[test]
fn what_is_wrong_is_an_error() {
    let server = Server::start(&[]);
    for (args, message) in [
        (vec!["counts", "--space", "nope"], "there is no space \"nope\"; known are: main (404 Not Found)"),
        (vec!["show", "seven"], "\"seven\" is not a session id: a UUID is, like"),
        (vec!["show", "--broadcaster", ""], "a broadcaster must not be empty"),
        (vec!["list", "--limit", "1001"], "whole numbers from 0 to 1000 are"),
        (vec!["list", "--max-age", "5"], "\"5\" is not a length of time"),
        (vec!["list", "--after", "x"], "\"x\" is not a place in a list"),
    ] {
        let (code, out, err) = server.sessions(&args);
        assert_eq!((code, out.as_str()), (2, ""), "{args:?}");
        assert!(err.contains(message), "{args:?}: {err}");
    }
    let away = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let store = format!("redis://{}", away.local_addr().unwrap());
    // Each waits for it.
    std::thread::scope(|scope| {
        for command in ["counts", "migrate", "reconcile", "compare"] {
            let args = ["sessions", command, "--store", &store, "--set", "store.connect_timeout=50ms"];
            scope.spawn(move || assert_eq!(run(tidegate(&args)).0, 2, "{command}"));
        }
    });
}

#[test]
fn a_store_can_be_used_directly() {
    let redis = RedisServer::start();
    let args = ["--store", &redis.url(), "--set", "store.deadline=10s", "--set", "sessions.main.grace=0s"];
    let on_redis = |own: &[&str]| {
        let mut command = tidegate(&["sessions"]);
        command.args(own).args(args);
        run(command)
    };
    // Its own loop does not come first.
    let mut with = args.to_vec();
    with.extend(["--set", "sessions.main.cleanup_interval=1d"]);
    let server = Server::start(&with);
    let id = activate(&server, "b");
    assert_eq!(on_redis(&["show", &id]).0, 0);
    leave(&server, &id);
    assert!(on_redis(&["counts"]).1.contains("1 disconnected, 1 of them orphans, the first due for "));
    assert_eq!(on_redis(&["cleanup"]), (0, "1 session deleted\n".into(), "".into()));
    assert_eq!(on_redis(&["show", &id]).0, 1);
    assert_eq!(redis.keys_without_ttl(), Vec::<String>::new());
}
