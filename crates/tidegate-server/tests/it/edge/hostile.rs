//! What is sent by who means no good, on every way that a request can take: what is answered is the same, and nothing in a
//! request decides which server a Location names.

use serde_json::json;
use tidegate::random::Random;

use super::kit::{Answer, Connection, Process, Rules};
use super::listener::{http2, send};

/// Pieces of targets that parsers differ about.
const PIECES: [&str; 34] = [
    "/",
    "//",
    "///",
    "..",
    ".",
    "%2e",
    "%2E%2e",
    "%2f",
    "%2F%2F",
    "%5c",
    "%5C%5C",
    "@",
    ":",
    ":80",
    "evil.example",
    "//evil.example",
    "?",
    "&",
    "=",
    ";",
    "%00",
    "%0d%0a",
    "%0d%0aset-cookie:x",
    "%0A",
    "%20",
    "x",
    "*",
    "~",
    "https:",
    "%c3%bc",
    "%ff",
    "%25",
    "%2525",
    "[::1]",
];

/// Hosts that are one of ours, in one form or another, or not.
const HOSTS: [&str; 12] = [
    "own.example",
    "OWN.Example",
    "own.example.",
    "own.example:80",
    "Own.example.:8080",
    "www.own.example",
    "xn--bcher-kva.example",
    "XN--BCHER-KVA.example:443",
    "127.0.0.1",
    "other.test",
    "own.example.evil.test",
    "a_b.example",
];

fn is_safe(location: &str) -> bool {
    let is_rest = |rest: &str| rest.is_empty() || rest.starts_with(['/', '?', '#']);
    let own = ["https://to.example", "https://port.example:81", "https://books.example"];
    let is_graphic = location.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\');
    let is_own = own.iter().any(|it| location.strip_prefix(it).is_some_and(is_rest));
    is_graphic
        && (is_own || location.starts_with("/here") || location == "/" || location.starts_with("/?") || {
            // Of a destination on this server: one slash, and then no other.
            location.starts_with('/') && !location.starts_with("//")
        })
}

fn shown(answer: &Answer) -> (u16, Option<String>) {
    (answer.status, answer.header("location").map(str::to_owned))
}

#[tokio::test(flavor = "multi_thread")]
async fn every_way_answers_alike_and_no_request_names_the_server_of_a_location() {
    let rules = Rules::new();
    let server = Process::serve(&rules.url(), &[]);
    for (id, host, path, destination) in [
        ("bare", "own.example", "/b/*", "https://to.example"),
        ("port", "own.example", "/p/*", "https://port.example:81/x?y=1#z"),
        ("here", "*.example", "/h/*", "/here"),
        ("root", "*.own.example", "/r/*", "/"),
        ("books", "xn--bcher-kva.example", "/b/*", "https://books.example/"),
        ("any", "*", "/b/*", "https://to.example/any"),
    ] {
        let query = if id == "port" { "merge" } else { "append" };
        let terms = json!({"host": host, "path": path, "appendRest": true, "query": query, "destination": destination});
        server.applied_rule(id, terms);
    }
    let random = Random::seeded(14);
    let below = |most: usize| random.bits() as usize % most;
    let sender = http2(server.redirects()).await;
    let mut fast = Connection::open(server.redirects());
    let mut ordinary = Connection::open(server.redirects());
    ordinary.ask("GET", "t", "/", "transfer-encoding: chunked\r\n\r\n0\r\n");
    let mut sent = 0;
    for _ in 0..2500 {
        let rest: String = (0..below(7)).map(|_| PIECES[below(PIECES.len())]).collect();
        let target = format!("{}{rest}", ["/b", "/p/", "/h/", "/r/", "/", "/b/"][below(6)]);
        let host = HOSTS[below(HOSTS.len())];
        let answer = fast.ask("GET", host, &target, "");
        assert_eq!(shown(&answer), shown(&ordinary.ask("GET", host, &target, "")), "{host} {target}");
        assert_eq!(shown(&answer), shown(&fast.ask("HEAD", host, &target, "")), "{host} {target}");
        // A proxy asks like that, and names the host in the target.
        if !host.contains('_') {
            let absolute = format!("http://{host}{target}");
            let in_full = fast.ask("GET", "other.test", &absolute, "");
            assert_eq!(shown(&answer), shown(&in_full), "{absolute}");
            fast = Connection::open(server.redirects());
        }
        let url = format!("http://{host}{target}");
        if url.parse::<axum::http::Uri>().is_ok() {
            let (over_http2, _) = send(&sender, "GET", &url).await;
            let location = over_http2.headers().get("location").map(|it| it.to_str().unwrap().to_owned());
            assert_eq!(shown(&answer), (over_http2.status().as_u16(), location), "{url}");
        }
        assert!(matches!(answer.status, 302 | 400 | 404), "{host} {target}: {answer:?}");
        assert_eq!(answer.header("set-cookie"), None, "{answer:?}");
        if let Some(location) = answer.header("location") {
            sent += 1;
            assert!(is_safe(location), "{host} {target} to {location}");
        }
    }
    assert!(sent > 500, "{sent} were redirected");
}

/// 64 KiB of anything, whichever part of a request it is.
#[test]
fn what_is_far_too_long_is_refused_and_the_next_request_is_answered() {
    let rules = Rules::new();
    let server = Process::serve(&rules.url(), &[]);
    server
        .applied_rule("all", json!({"path": "/*", "appendRest": true, "destination": "https://to.example"}));
    for piece in ["x", "/", "../", "%2e%2e/", "%00", "%", "//", "a/./"] {
        let long = piece.repeat(65_536 / piece.len());
        for request in [
            format!("GET /{long} HTTP/1.1\r\nhost: h\r\n\r\n"),
            format!("GET /?{long} HTTP/1.1\r\nhost: h\r\n\r\n"),
            format!("GET /a HTTP/1.1\r\nhost: {long}\r\n\r\n"),
            format!("GET http://{long}/a HTTP/1.1\r\nhost: h\r\n\r\n"),
        ] {
            let mut connection = Connection::open(server.redirects());
            connection.send(&request);
            let answer = connection.read(false);
            assert!(matches!(answer.status, 400 | 414 | 431), "{piece:?}: {}", answer.head);
            assert_eq!(answer.header("location"), None, "{piece:?}");
        }
        assert_eq!(server.get("h", "/still").status, 302, "{piece:?}");
    }
}
