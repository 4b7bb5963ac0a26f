//! What comes over a network that anybody can send to.

use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::{Request, Response};
use http_body_util::BodyExt as _;
use hyper::client::conn::http2::{SendRequest, handshake};
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::{Value, json};
use tidegate::random::Random;
use tokio::net::TcpStream;

use super::kit::{Connection, Process, Rules, to};
use crate::support::soon;

/// What is not for a worker is refused without a Location, and the next request is answered.
#[test]
fn hostile_requests_are_answered_safely_on_both_ways() {
    let rules = Rules::new();
    let server = Process::serve(&rules.url(), &[]);
    server.applied_rule("root", json!({"host": "own.example", "path": "/*", "appendRest": true, "query": "append", "destination": "https://to.example/x"}));
    let get = |target: &str| format!("GET {target} HTTP/1.1\r\nhost: own.example\r\n\r\n");
    let of = |lines: &str| format!("GET /a HTTP/1.1\r\n{lines}\r\n");
    let below = |rest: &str| (302, Some(format!("https://to.example/x{rest}")));
    for (request, (status, location)) in [
        (get("/a"), below("/a")),
        (get("//evil.example/a"), below("/evil.example/a")),
        (get("///evil.example"), below("/evil.example")),
        (get("/@evil.example"), below("/@evil.example")),
        (get("/%2F%2Fevil.example"), below("/%2F%2Fevil.example")),
        (get("/..//../%2e%2e/etc/passwd"), below("/etc/passwd")),
        (get("/a%0d%0aset-cookie:%20x"), below("/a%0D%0Aset-cookie:%20x")),
        (get("/a?%0d%0ax=y"), below("/a?%0d%0ax=y")),
        (get("/%00"), below("/%00")),
        (get("/%"), below("/%25")),
        (get("/%zz%2"), below("/%25zz%252")),
        (get("/a?b?c&//d"), below("/a?b?c&//d")),
        (get("http://own.example/a"), below("/a")),
        (get("http://other.example/a"), (404, None)),
        (of("host: other.example\r\n").replacen("/a", "http://own.example/a", 1), below("/a")),
        (get("http://user:pw@own.example/a"), (400, None)),
        (get("own.example:80"), (404, None)),
        (get("*"), (400, None)),
        (get("a"), (400, None)),
        (get("/\0"), (400, None)),
        (get("/a\u{1}"), (400, None)),
        (get(&format!("/{}", "x".repeat(65_536))), (431, None)),
        (of(""), (400, None)),
        (of("host: own.example\r\nhost: own.example\r\n"), (400, None)),
        (of("host:\r\n"), (400, None)),
        (of("host: a b\r\n"), (400, None)),
        (of("host: a/b\r\n"), (400, None)),
        (of("host: own.example@evil.example\r\n"), (400, None)),
        (of("host: own.example:x\r\n"), (400, None)),
        (of("host: own..example\r\n"), (400, None)),
        (of(&format!("host: {}\r\n", "x".repeat(300))), (400, None)),
        (of("host: own.example\r\n").replace("1.1", "1.0"), below("/a")),
        (of("").replace("1.1", "1.0"), (400, None)),
        ("GET /a HTTP/1.1\nhost: own.example\n\n".to_owned(), (400, None)),
        (
            "GET /a HTTP/1.1\r\nhost: own.example\r\ncontent-length: 3\r\ntransfer-encoding: chunked\r\n\r\n"
                .to_owned(),
            (400, None),
        ),
        ("CONNECT own.example:80 HTTP/1.1\r\nhost: own.example\r\n\r\n".to_owned(), (405, None)),
        ("OPTIONS * HTTP/1.1\r\nhost: own.example\r\n\r\n".to_owned(), (204, None)),
    ] {
        for is_ordinary in [false, true] {
            let mut connection = Connection::open(server.redirects());
            if is_ordinary {
                let first = connection.ask("GET", "t", "/", "transfer-encoding: chunked\r\n\r\n0\r\n");
                assert_eq!(first.status, 404);
            }
            connection.send(&request);
            let answer = connection.read(false);
            let shown: String = request.chars().take(100).collect();
            // A head of another version than ours is its business; it is not redirected.
            let status = if request.starts_with("GET own.example:80") { answer.status } else { status };
            assert_eq!(
                (answer.status, answer.header("location")),
                (status, location.as_deref()),
                "{shown:?} {is_ordinary}"
            );
            assert_eq!(answer.header("set-cookie"), None, "{answer:?}");
        }
    }
    assert_eq!(server.get("own.example", "/still").status, 302);
}

/// Whatever is asked for below a folder, its Location has the authority that the rule has.
#[test]
fn nothing_in_a_request_changes_the_authority_of_a_location() {
    let rules = Rules::new();
    let server = Process::serve(&rules.url(), &[]);
    server.applied_rule(
        "bare",
        json!({"path": "/b/*", "appendRest": true, "query": "merge", "destination": "https://to.example"}),
    );
    server.applied_rule(
        "own",
        json!({"path": "/o/*", "appendRest": true, "query": "append", "destination": "/own"}),
    );
    let pieces = [
        "/",
        "//",
        "..",
        ".",
        "%2e",
        "%2F",
        "%5c",
        "@",
        ":",
        "evil.example",
        "?",
        "&",
        "=",
        ";",
        "%",
        "%00",
        "%0a",
        "x",
        "*",
        "~",
        "https:",
    ];
    let random = Random::seeded(11);
    let mut connection = Connection::open(server.redirects());
    for round in 0..2000 {
        let count = (random.draw() * 8.0) as usize;
        let rest: String =
            (0..count).map(|_| pieces[(random.draw() * pieces.len() as f64) as usize]).collect();
        let (folder, is_own) = if round % 2 == 0 { ("/b", false) } else { ("/o", true) };
        let target = format!("{folder}/{rest}");
        let answer = connection.ask("GET", "h", &target, "");
        let Some(location) = answer.header("location") else {
            assert_eq!(answer.status, 404, "{target}: {answer:?}");
            continue;
        };
        if is_own {
            assert!(location.starts_with("/own") && !location.starts_with("//"), "{target} to {location}");
        } else {
            let rest = location
                .strip_prefix("https://to.example")
                .unwrap_or_else(|| panic!("{target} to {location}"));
            assert!(rest.is_empty() || rest.starts_with(['/', '?']), "{target} to {location}");
        }
    }
}

#[test]
fn a_proxy_says_which_host_was_asked_for_only_if_it_is_trusted() {
    let rules = Rules::new();
    for (trusted, is_believed) in [("127.0.0.0/8", true), ("10.0.0.0/8", false), ("", false)] {
        let server = Process::serve(&rules.url(), &["--set", &format!("edge.trusted_proxies={trusted}")]);
        server.applied_rule(
            "own",
            json!({"host": "own.example", "path": "/a", "destination": "https://to.example/"}),
        );
        for lines in [
            "x-forwarded-host: own.example\r\n",
            "X-Forwarded-Host: OWN.example:8443\r\n",
            // The last one is what the proxy has written.
            "x-forwarded-host: evil.example, own.example\r\n",
            "x-forwarded-host: evil.example\r\nx-forwarded-host: own.example\r\n",
        ] {
            for more in ["", "transfer-encoding: chunked\r\n\r\n0\r\n"] {
                let answer = Connection::open(server.redirects()).ask(
                    "GET",
                    "proxy.example",
                    "/a",
                    &format!("{lines}{more}"),
                );
                assert_eq!(
                    answer.status,
                    if is_believed { 302 } else { 404 },
                    "{trusted:?} {lines:?} {more:?}"
                );
            }
        }
        for lines in
            ["x-forwarded-host: a b\r\n", "x-forwarded-host:\r\n", "x-forwarded-host: own.example, \r\n"]
        {
            let answer = Connection::open(server.redirects()).ask("GET", "own.example", "/a", lines);
            assert_eq!(answer.status, if is_believed { 400 } else { 302 }, "{trusted:?} {lines:?}");
        }
    }
}

/// A connection of HTTP/2 without TLS.
pub(super) async fn http2(address: &str) -> SendRequest<Body> {
    let stream = soon(TcpStream::connect(address)).await.unwrap();
    let (sender, connection) = soon(handshake(TokioExecutor::new(), TokioIo::new(stream))).await.unwrap();
    tokio::spawn(connection);
    sender
}

pub(super) async fn send(sender: &SendRequest<Body>, method: &str, url: &str) -> (Response<()>, Bytes) {
    let request = Request::builder().method(method).uri(url).body(Body::empty()).unwrap();
    let (head, body) = soon(sender.clone().send_request(request)).await.unwrap().into_parts();
    (Response::from_parts(head, ()), soon(body.collect()).await.unwrap().to_bytes())
}

#[tokio::test]
async fn http2_without_tls_is_spoken() {
    let rules = Rules::new();
    let server = Process::serve(&rules.url(), &["--set", "edge.not_found_body=nothing here"]);
    server.applied_rule(
        "own",
        json!({"host": "own.example", "path": "/a", "destination": "https://to.example/"}),
    );
    let sender = http2(server.redirects()).await;
    let asked = (0..100).map(|number| {
        let sender = sender.clone();
        tokio::spawn(async move { send(&sender, "GET", &format!("http://own.example/a?{number}")).await })
    });
    for asked in asked.collect::<Vec<_>>() {
        let (answer, body) = asked.await.unwrap();
        assert_eq!((answer.status().as_u16(), body.len()), (302, 0));
        assert_eq!(answer.headers()["location"], "https://to.example/");
        assert!(!answer.headers().contains_key("connection"), "{answer:?}");
    }
    let (answer, body) = send(&sender, "GET", "http://other.example/a").await;
    assert_eq!((answer.status().as_u16(), &body[..]), (404, &b"nothing here"[..]));
    let (answer, body) = send(&sender, "HEAD", "http://other.example/a").await;
    assert_eq!(
        (answer.status().as_u16(), &answer.headers()["content-length"], body.len()),
        (404, &"12".parse().unwrap(), 0)
    );
    let (answer, _) = send(&sender, "POST", "http://own.example/a").await;
    assert_eq!(answer.status().as_u16(), 405);
    // An open connection holds up no server that is to end, and clicks are counted here too.
    tokio::task::spawn_blocking(move || server.stop()).await.unwrap();
    assert_eq!(tokio::task::spawn_blocking(move || rules.get("own")["clicks"].clone()).await.unwrap(), 100);
}

/// The API's port is another matter.
#[tokio::test]
async fn the_api_speaks_no_http2_and_redirects_nobody() {
    let rules = Rules::new();
    let server = Process::serve(&rules.url(), &[]);
    server.applied_rule("a", to("/a", "https://to.example/"));
    assert_eq!(super::exchange(server.api(), "GET", "h", "/a", "").status, 404);
    for path in ["/v1/rules", "/metrics", "/healthz", "/v1/edge/cache"] {
        assert_eq!(server.get("h", path).status, 404, "{path}");
    }
    let sender = http2(server.api()).await;
    let request = Request::get("http://h/healthz").body(Body::empty()).unwrap();
    assert!(soon(sender.clone().send_request(request)).await.is_err());
}

/// Anybody may reach redirects; of the API that has to be said.
#[test]
fn redirects_may_be_served_to_everybody() {
    let rules = Rules::new();
    let url = rules.url();
    let server = Process::start(
        2,
        &["serve", "--listen", "127.0.0.1:0", "--edge-listen", "0.0.0.0:0", "--rules", &url],
    );
    let port = server.redirects().rsplit(':').next().unwrap().to_owned();
    assert_eq!(super::exchange(&format!("127.0.0.1:{port}"), "GET", "h", "/a", "").status / 100, 4);
    let refused = crate::cli::run(crate::cli::tidegate(&[
        "serve",
        "--listen",
        "0.0.0.0:0",
        "--edge-listen",
        "0.0.0.0:0",
        "--rules",
        &url,
    ]));
    assert_eq!(refused.0, 2);
    assert!(refused.2.contains("http.trusted_network"), "{}", refused.2);
}

/// A connection that is kept and silent ends by itself, one of HTTP/2 too.
#[tokio::test]
async fn connections_that_nobody_uses_end() {
    let rules = Rules::new();
    let server = Process::serve(&rules.url(), &["--set", "http.idle_timeout=300ms"]);
    let sender = http2(server.redirects()).await;
    assert_eq!(send(&sender, "GET", "http://h/a").await.0.status().as_u16(), 404);
    let mut waiting = sender.clone();
    soon(async {
        // It is not ready any more once its connection has ended.
        while waiting.ready().await.is_ok() && !waiting.is_closed() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await;
    let _: Value = server.call("GET", "/v1/edge/cache", &Value::Null);
}
