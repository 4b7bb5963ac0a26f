//! Redirects over real sockets, by a server that has the rules.

mod alike;
mod database;
mod flood;
mod hostile;
pub(crate) mod kit;
mod listener;
mod many;
mod model;
mod processes;
mod remote;
mod report;
mod set;

use serde_json::{Value, json};

use self::kit::{Connection, Process, Rules, exchange, to, until};

/// Everything that a rule can say, on both ways that a request can take.
#[test]
fn requests_are_redirected_by_rules() {
    let rules = Rules::new();
    let server = Process::serve(&rules.url(), &[]);
    let past = 1_000_000_000_000_u64;
    for (id, terms) in [
        ("plain", to("/a", "https://to.example/plain")),
        ("own", json!({"host": "www.example.com", "path": "/a", "destination": "https://to.example/own"})),
        ("wild", json!({"host": "*.example.com", "path": "/a", "destination": "https://to.example/wild"})),
        ("long", json!({"path": "/p", "code": 301, "maxAge": 60, "destination": "https://to.example/p"})),
        (
            "folder",
            json!({"path": "/docs/*", "appendRest": true, "destination": "https://to.example/manual?v=1"}),
        ),
        ("deeper", json!({"path": "/docs/api/*", "code": 308, "destination": "https://api.example/"})),
        ("append", json!({"path": "/append", "query": "append", "destination": "https://to.example/?x=1#f"})),
        ("merge", json!({"path": "/merge", "query": "merge", "destination": "https://to.example/?x=1&y=2"})),
        ("over", json!({"path": "/over", "expiresAt": past, "destination": "https://to.example/"})),
        (
            "after",
            json!({"path": "/after", "expiresAt": past, "fallback": "/sorry", "destination": "https://to.example/"}),
        ),
        ("off", json!({"path": "/off", "enabled": false, "destination": "https://to.example/"})),
        (
            "soon",
            json!({"path": "/soon", "startsAt": 9_000_000_000_000_u64, "destination": "https://to.example/"}),
        ),
    ] {
        server.applied_rule(id, terms);
    }
    let redirect = |status: u16, to: &str| (status, Some(to.to_owned()), None);
    for (host, path, expected) in [
        ("any.example", "/a", redirect(302, "https://to.example/plain")),
        ("WWW.Example.COM.:8080", "/a", redirect(302, "https://to.example/own")),
        ("b.a.example.com", "/a", redirect(302, "https://to.example/wild")),
        ("h", "/p", (301, Some("https://to.example/p".to_owned()), Some("max-age=60"))),
        ("h", "/docs", redirect(302, "https://to.example/manual?v=1")),
        ("h", "/docs/b/c%2fd", redirect(302, "https://to.example/manual/b/c%2Fd?v=1")),
        ("h", "/docs//evil.example", redirect(302, "https://to.example/manual/evil.example?v=1")),
        ("h", "/docs/x/../y?q", redirect(302, "https://to.example/manual/y?v=1")),
        ("h", "/docsx", (404, None, Some("no-store"))),
        ("h", "/docs/api/v1", redirect(308, "https://api.example/")),
        ("h", "/append?z=3", redirect(302, "https://to.example/?x=1&z=3#f")),
        ("h", "/append", redirect(302, "https://to.example/?x=1#f")),
        ("h", "/merge?y=3", redirect(302, "https://to.example/?x=1&y=3")),
        ("h", "/over", (410, None, Some("no-store"))),
        ("h", "/after", (302, Some("/sorry".to_owned()), Some("no-store"))),
        ("h", "/off", (404, None, Some("no-store"))),
        ("h", "/soon", (404, None, Some("no-store"))),
        ("h", "/A", (404, None, Some("no-store"))),
        ("h", "/nothing", (404, None, Some("no-store"))),
    ] {
        // On the fast path, on the ordinary way for a body that comes in chunks, and only asked what would be.
        for (method, lines) in [("GET", ""), ("GET", "transfer-encoding: chunked\r\n\r\n0\r\n"), ("HEAD", "")]
        {
            let answer = Connection::open(server.redirects()).ask(method, host, path, lines);
            let (location, cache_control) = (answer.header("location"), answer.header("cache-control"));
            let (status, to, cached) = &expected;
            assert_eq!(
                (answer.status, location, cache_control),
                (*status, to.as_deref(), *cached),
                "{host} {path} {lines:?}"
            );
        }
    }
}

/// Those that keep the method are for every method, and nobody's click is spent on a refusal.
#[test]
fn methods_that_write_are_only_redirected_with_their_body() {
    let rules = Rules::new();
    let server = Process::serve(&rules.url(), &[]);
    server.applied_rule("found", to("/found", "https://to.example/"));
    server.applied_rule("few", json!({"path": "/few", "maxClicks": 1, "destination": "https://to.example/"}));
    server
        .applied_rule("keeps", json!({"path": "/keeps", "code": 308, "destination": "https://to.example/k"}));
    for method in ["POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "PROPFIND"] {
        for path in ["/found", "/few"] {
            let refused = exchange(server.redirects(), method, "h", path, "a body");
            assert_eq!(
                (refused.status, refused.header("allow")),
                (405, Some("GET, HEAD")),
                "{method} {refused:?}"
            );
        }
        let sent = exchange(server.redirects(), method, "h", "/keeps", "a body");
        assert_eq!((sent.status, sent.header("location")), (308, Some("https://to.example/k")), "{method}");
        assert_eq!(exchange(server.redirects(), method, "h", "/none", "a body").status, 404, "{method}");
    }
    assert_eq!(server.get("h", "/few").status, 302);
    // What is not read of a body is no request.
    let mut connection = Connection::open(server.redirects());
    let inside = "GET /found HTTP/1.1\r\nhost: h\r\n\r\n";
    connection
        .send(&format!("POST /none HTTP/1.1\r\nhost: h\r\ncontent-length: {}\r\n\r\n{inside}", inside.len()));
    assert_eq!(connection.read(false).status, 404);
    connection.send("GET /keeps HTTP/1.1\r\nhost: h\r\nconnection: close\r\n\r\n");
    assert_eq!(connection.read(false).status, 308, "the next request, and not what was in a body");
}

#[test]
fn changes_are_seen_without_a_restart() {
    let rules = Rules::new();
    let server = Process::serve(&rules.url(), &[]);
    assert_eq!(server.get("h", "/new").status, 404);
    server.applied_rule("new", to("/new", "https://to.example/1"));
    assert_eq!(server.location("h", "/new").as_deref(), Some("https://to.example/1"));
    server.applied_rule("new", to("/new", "https://to.example/2"));
    assert_eq!(server.location("h", "/new").as_deref(), Some("https://to.example/2"));
    // From a path to a folder and back.
    server.applied_rule("new", to("/new/*", "https://to.example/3"));
    assert_eq!(server.location("h", "/new/x").as_deref(), Some("https://to.example/3"));
    server.applied_rule("new", to("/elsewhere", "https://to.example/4"));
    assert_eq!(server.get("h", "/new/x").status, 404);
    let seq = server.call("GET", "/v1/rules/position", &Value::Null)["seq"].as_u64().unwrap();
    server.call("DELETE", "/v1/rules/new", &Value::Null);
    server.has_applied(seq + 1);
    assert_eq!(server.get("h", "/elsewhere").status, 404);
}

/// Redirects are clicks, whichever way they take; whoever only asks what would be is none.
#[test]
fn clicks_are_counted_to_the_last_one_by_a_clean_stop() {
    let rules = Rules::new();
    let server = Process::serve(&rules.url(), &[]);
    server.applied_rule("one", to("/one", "https://to.example/"));
    server.applied_rule("folder", to("/folder/*", "https://to.example/"));
    server.applied_rule("few", json!({"path": "/few", "maxClicks": 7, "destination": "https://to.example/"}));
    let mut connection = Connection::open(server.redirects());
    for _ in 0..20 {
        assert_eq!(connection.ask("GET", "h", "/one", "").status, 302);
        assert_eq!(connection.ask("HEAD", "h", "/one", "").status, 302);
        assert_eq!(connection.ask("GET", "h", "/folder/x", "").status, 302);
        assert_eq!(connection.ask("HEAD", "h", "/few", "").status, 302);
    }
    // On the ordinary way from now on.
    assert_eq!(connection.ask("GET", "h", "/one", "transfer-encoding: chunked\r\n\r\n0\r\n").status, 302);
    assert_eq!(connection.ask("GET", "h", "/one", "").status, 302);
    for _ in 0..3 {
        assert_eq!(connection.ask("GET", "h", "/few", "").status, 302);
    }
    drop(connection);
    server.stop();
    assert_eq!(rules.get("one")["clicks"], 22);
    assert_eq!(rules.get("folder")["clicks"], 20);
    assert_eq!(rules.get("few")["clicks"], 3);
}

#[test]
fn a_rule_redirects_as_often_as_it_may_and_then_says_that_it_is_over() {
    let rules = Rules::new();
    let server = Process::serve(&rules.url(), &[]);
    server.applied_rule(
        "few",
        json!({"path": "/few", "maxClicks": 5, "code": 301, "destination": "https://to.example/"}),
    );
    let mut sent = 0;
    until("over", || {
        let answer = server.get("h", "/few");
        match answer.status {
            302 => sent += 1,
            // The last ones are on their way back from whoever had them.
            503 => assert!(answer.header("retry-after").is_some(), "{answer:?}"),
            410 => return true,
            other => panic!("{other}"),
        }
        false
    });
    assert_eq!(sent, 5);
    assert_eq!(server.get("h", "/few").status, 410);
}
