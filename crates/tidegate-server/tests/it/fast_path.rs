//! Most takes are answered past hyper and the router: nobody can tell by the answer.

mod requests;

use axum::Router;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use std::time::Duration;
use tidegate_server::http::{App, router};
use tidegate_server::serve::Ended;
use tidegate_server::settings::HttpSettings;
use tokio::net::{TcpListener, TcpStream};
use tower_service::Service as _;

use self::requests::requests;
use crate::lifecycle::{Client, Running, start_with};
use crate::support::{call, fixture, soon};

const TAKE: &str = "POST /v1/limits/api/take HTTP/1.1\r\nhost: t\r\n";
const JSON: &str = "content-type: application/json\r\n";
const BODY: &str = r#"{"key":"a"}"#;

/// Comes last: who still listens answers it, and hangs up.
const LAST: &str = "GET /healthz HTTP/1.1\r\nhost: t\r\nconnection: close\r\n\r\n";

/// A take with these further lines in its head.
fn take(lines: &str, body: &str) -> String {
    format!("{TAKE}{lines}content-length: {}\r\n\r\n{body}", body.len())
}

/// In the form that clients have.
fn plain(body: &str) -> String {
    take(JSON, body)
}

/// The same with another first line.
fn with_first_line(line: &str) -> String {
    plain(BODY).replacen("POST /v1/limits/api/take HTTP/1.1", line, 1)
}

/// hyper and the router, and nothing else.
struct Routed(TcpListener, Router);

impl Routed {
    async fn new(app: App) -> Self {
        Self(TcpListener::bind("127.0.0.1:0").await.unwrap(), router(app))
    }

    /// A connection that is served from now on.
    async fn connect(&self) -> Client {
        let client = TcpStream::connect(self.0.local_addr().unwrap()).await.unwrap();
        let (stream, router) = (soon(self.0.accept()).await.unwrap().0, self.1.clone());
        tokio::spawn(async move {
            let service = service_fn(|request| router.clone().call(request));
            let mut builder = http1::Builder::new();
            builder.header_read_timeout(None).max_buf_size(16 * 1024);
            let _ = builder.serve_connection(TokioIo::new(stream), service).await;
        });
        Client::of(client)
    }
}

/// What is answered, but for when it was and for the seed in a receipt.
async fn answers(client: &mut Client) -> String {
    let text = client.read_to_end().await;
    let dated = |line: &str| if line.starts_with("date: ") { "date\r\n".to_owned() } else { line.to_owned() };
    alike(text.split_inclusive('\n').map(dated).collect())
}

/// Every receipt's last number made ten digits long, and the length that is announced adjusted.
fn alike(mut text: String) -> String {
    const RECEIPT: &str = "\"receipt\":\"";
    const LENGTH: &str = "content-length: ";
    let mut from = 0;
    while let Some(found) = text[from..].find(RECEIPT) {
        let receipt = from + found + RECEIPT.len();
        let end = receipt + text[receipt..].find('"').unwrap();
        let seeded = receipt + text[receipt..end].rfind('-').unwrap() + 1;
        text.replace_range(seeded..end, "##########");
        let length = text[..receipt].rfind(LENGTH).unwrap() + LENGTH.len();
        let line = length + text[length..].find("\r\n").unwrap();
        let announced: usize = text[length..line].parse().unwrap();
        text.replace_range(length..line, &(announced + 10 - (end - seeded)).to_string());
        from = receipt;
    }
    text
}

/// What is counted that both count.
async fn counts(client: &mut Client) -> Vec<String> {
    client.send("GET /metrics HTTP/1.1\r\nhost: t\r\nconnection: close\r\n\r\n").await;
    let text = client.read_to_end().await;
    let counted = ["tidegate_http_request_seconds_count", "tidegate_limit", "trypema"]
        .map(|name| move |line: &str| line.starts_with(name));
    let mut counts: Vec<_> = text
        .lines()
        .filter(|line| counted.iter().any(|is| is(line)))
        // What is sent ahead, to be answered by hyper from then on.
        .filter(|line| !line.contains("healthz"))
        .map(str::to_owned)
        .collect();
    // Those of a kind come in any order.
    counts.sort();
    counts
}

/// What the server refuses by a request's head. hyper takes some of them, and answers others with
/// nothing but a status.
const REFUSALS: [&str; 5] = [
    "malformed-request",
    "expectation-failed",
    "head-too-large",
    "unknown-transfer-coding",
    "unknown-http-version",
];

/// Servers, each with limits of its own that start out alike.
struct Ways {
    /// Takes requests as they come, so that takes are answered past hyper and the router.
    fast: Running,
    /// Takes them on connections that have had another request before, so that nothing is.
    ordinary: Running,
    /// Takes only what is not refused by its head, and so is hyper with nothing in front of it.
    allowed: Running,
    routed: Routed,
}

impl Ways {
    async fn start() -> Self {
        let start = async || start_with(HttpSettings::default(), fixture().await.app).await;
        let (fast, ordinary, allowed) = (start().await, start().await, start().await);
        Self { fast, ordinary, allowed, routed: Routed::new(fixture().await.app).await }
    }

    async fn assert_alike(&self, request: &str) {
        let shown: String = request.chars().take(300).collect();
        let (mut fast, mut ordinary) = (self.fast.connect().await, self.ordinary.connect().await);
        ordinary.healthz().await;
        let fast = exchange(&mut fast, request).await;
        assert_eq!(fast, exchange(&mut ordinary, request).await, "to {shown:?}");
        if is_refused(&fast, &shown) {
            return;
        }
        let (mut ours, mut theirs) = (self.allowed.connect().await, self.routed.connect().await);
        assert_eq!(exchange(&mut ours, request).await, exchange(&mut theirs, request).await, "to {shown:?}");
    }

    /// Ends them; what was counted must be alike too.
    async fn stop(self) {
        for (mut one, mut other) in [
            (self.fast.connect().await, self.ordinary.connect().await),
            (self.allowed.connect().await, self.routed.connect().await),
        ] {
            let counted = counts(&mut one).await;
            assert_eq!(counted, counts(&mut other).await);
            assert!(counted.iter().any(|line| line.contains("operation=\"take\"")), "{counted:?}");
        }
        for running in [self.fast, self.ordinary, self.allowed] {
            running.stop().await;
        }
    }
}

async fn exchange(client: &mut Client, request: &str) -> String {
    client.try_send(request).await;
    if !request.ends_with(LAST) {
        client.send_no_more().await;
    }
    answers(client).await
}

/// Whether the last answer is a refusal by a head: whole, and the end of the connection.
fn is_refused(answers: &str, shown: &str) -> bool {
    let is_refused =
        REFUSALS.iter().any(|name| answers.contains(&format!("\"urn:tidegate:problem:{name}\"")));
    if is_refused {
        let starts = ["HTTP/1.1 4", "HTTP/1.1 5"].map(|start| answers.rfind(start));
        let last = &answers[starts.into_iter().flatten().max().unwrap()..];
        assert!(last.contains("\r\ncontent-type: application/problem+json\r\n"), "{last} to {shown:?}");
        assert!(last.contains("\r\nconnection: close\r\n"), "{last} to {shown:?}");
    }
    is_refused
}

#[tokio::test]
async fn every_request_is_answered_as_the_router_answers_it() {
    let ways = Ways::start().await;
    for request in requests() {
        ways.assert_alike(&format!("{request}{LAST}")).await;
    }
    ways.stop().await;
}

#[tokio::test]
async fn every_wrong_byte_is_answered_as_hyper_answers_it() {
    let ways = Ways::start().await;
    let request = take("connection: keep-alive\r\ncontent-type: application/json\r\n", BODY);
    for at in 0..request.len() {
        // No digit: who announces more than it sends is waited for.
        for wrong in ["", "\r", "\n", " ", "\t", ":", "/", "%", "x", "\"", "\0", "\u{e9}", "\r\n"] {
            let (before, after) = (&request[..at], &request[at + 1..]);
            ways.assert_alike(&format!("{before}{wrong}{after}{LAST}")).await;
        }
    }
    ways.stop().await;
}

#[tokio::test]
async fn who_leaves_in_the_middle_is_answered_as_hyper_answers_it() {
    let ways = Ways::start().await;
    let request = plain(BODY);
    for length in 0..request.len() {
        ways.assert_alike(&request[..length]).await;
    }
    ways.stop().await;
}

/// What a head is refused with, alone and behind a take, on both ways.
#[tokio::test]
async fn what_a_server_must_refuse_is_refused_on_both_ways() {
    let host = |host: &str| plain(BODY).replace("host: t\r\n", host);
    for (request, status, detail) in [
        (host(""), "400 Bad Request", "the Host field is missing: HTTP/1.1 needs one"),
        (host("host: t\r\nHost: t\r\n"), "400 Bad Request", "there are 2 Host fields: one is allowed"),
        (host("host: a b\r\n"), "400 Bad Request", r#"\"a b\" is not a host"#),
        (plain(BODY).replace("\r\n", "\n"), "400 Bad Request", "ends in LF alone: CR LF ends one"),
        (plain(BODY).replacen("\r\n", "\n", 1), "400 Bad Request", "ends in LF alone: CR LF ends one"),
        (
            take("transfer-encoding: chunked\r\n", BODY),
            "400 Bad Request",
            "Content-Length and Transfer-Encoding tell two lengths",
        ),
        (take("content-length: 12\r\n", BODY), "400 Bad Request", "two Content-Length fields differ"),
        (
            take("expect: a-miracle\r\n", BODY),
            "417 Expectation Failed",
            r#"\"a-miracle\" is not an expectation that can be met: 100-continue is"#,
        ),
        (
            format!("{TAKE}transfer-encoding: gzip, chunked\r\n\r\n"),
            "501 Not Implemented",
            r#"the transfer coding \"gzip, chunked\" is not known: chunked is"#,
        ),
        (
            with_first_line("POST /v1/limits/api/take HTTP/2.0"),
            "505 HTTP Version Not Supported",
            "1.1 and 1.0 are",
        ),
        (with_first_line("POST /a b HTTP/1.1"), "505 HTTP Version Not Supported", "1.1 and 1.0 are"),
        (
            with_first_line("PO(ST /v1/limits/api/take HTTP/1.1"),
            "400 Bad Request",
            "the request's head is malformed",
        ),
        (take("no colon\r\n", BODY), "400 Bad Request", "the name of a field has a character"),
        (
            take(&"x: y\r\n".repeat(101), BODY),
            "431 Request Header Fields Too Large",
            "at most 16384 bytes and 100 fields are allowed",
        ),
        (
            take(&format!("x: {}\r\n", "y".repeat(20_000)), BODY),
            "431 Request Header Fields Too Large",
            "at most 16384 bytes and 100 fields are allowed",
        ),
    ] {
        let app = fixture().await.app;
        let running = start_with(HttpSettings::default(), app.clone()).await;
        let (mut fast, mut behind, mut ordinary) =
            (running.connect().await, running.connect().await, running.connect().await);
        ordinary.healthz().await;
        let alone = exchange(&mut fast, &format!("{request}{LAST}")).await;
        assert_eq!(alone, exchange(&mut ordinary, &format!("{request}{LAST}")).await, "to {request:?}");
        assert!(alone.starts_with(&format!("HTTP/1.1 {status}\r\n")), "{alone} to {request:?}");
        assert!(alone.contains(detail), "{alone} to {request:?}");
        assert!(is_refused(&alone, &request), "{alone} to {request:?}");
        let two = exchange(&mut behind, &format!("{}{request}{LAST}", plain(BODY))).await;
        assert!(two.starts_with("HTTP/1.1 200 OK\r\n") && two.ends_with(&alone), "{two} to {request:?}");
        let peeked = call(&app, "GET", "/v1/limits/api/keys/a", "").await.json();
        assert_eq!(peeked["remaining"], 299, "only the take in front of it counts: {request:?}");
        running.stop().await;
    }
}

/// An answer to HEAD has no body, be it a refusal.
#[tokio::test]
async fn a_refusal_of_head_has_no_body() {
    let running = start_with(HttpSettings::default(), fixture().await.app).await;
    let mut client = running.connect().await;
    client.send("HEAD /healthz HTTP/1.1\r\n\r\n").await;
    let answer = client.read_to_end().await;
    assert!(answer.starts_with("HTTP/1.1 400 Bad Request\r\n") && answer.ends_with("\r\n\r\n"), "{answer}");
    running.stop().await;
}

/// After this, what was sent before has been read: all is on one thread.
async fn all_is_read(running: &Running) {
    running.connect().await.healthz().await;
}

#[tokio::test]
async fn it_does_not_matter_in_how_many_pieces_a_take_comes() {
    let running = start_with(HttpSettings::default(), fixture().await.app).await;
    let request = plain(BODY);
    let mut client = running.connect().await;
    for at in 1..request.len() {
        let (begin, end) = request.split_at(at);
        client.send(begin).await;
        all_is_read(&running).await;
        client.send(end).await;
        let answer = client.read_until("\"source\":\"store\"}").await;
        assert!(answer.starts_with("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n"), "{answer}");
        assert!(answer.contains(&format!("\"remaining\":{}", 300 - at)), "{answer}");
    }
    running.stop().await;
}

#[tokio::test]
async fn responses_are_counted_by_status() {
    let running = start_with(HttpSettings::default(), fixture().await.app).await;
    let mut client = running.connect().await;
    let all = [plain(BODY), plain(BODY), plain(r#"{"cost":301}"#), plain("{"), plain(BODY)].concat();
    let metrics = "GET /metrics HTTP/1.1\r\nhost: t\r\naccept: application/openmetrics-text\r\n\r\n";
    client.send(&format!("{all}{metrics}")).await;
    let answers = client.read_until("# EOF\n").await;
    for line in [
        "tidegate_http_connections 1\n",
        "tidegate_http_responses_total{status=\"2xx\"} 3\n",
        "tidegate_http_responses_total{status=\"4xx\"} 2\n",
        "tidegate_http_request_seconds_count{operation=\"take\"} 5\n",
    ] {
        assert!(answers.contains(line), "{line} is not in {answers}");
    }
    running.stop().await;
}

#[tokio::test]
async fn a_take_whose_body_is_on_its_way_is_answered_before_the_server_ends() {
    let running = start_with(HttpSettings::default(), fixture().await.app).await;
    let (mut busy, mut idle) = (running.connect().await, running.connect().await);
    idle.send(&plain(BODY)).await;
    idle.read_until("\"source\":\"store\"}").await;
    let request = plain(BODY);
    busy.send(&request[..request.len() - 1]).await;
    all_is_read(&running).await;
    running.stop.send(()).unwrap();
    // Closed at once, as one that waits for its next request is.
    assert_eq!(idle.read_to_end().await, "");
    busy.send("}").await;
    let answer = busy.read_to_end().await;
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    assert!(answer.contains("\r\nconnection: close\r\ndate: "), "{answer}");
    assert_eq!(soon(running.ended).await.unwrap(), Ended { cut: 0 });
}

#[tokio::test]
async fn a_take_whose_head_is_on_its_way_is_not() {
    let running = start_with(HttpSettings::default(), fixture().await.app).await;
    let mut busy = running.connect().await;
    busy.send(&plain(BODY)).await;
    busy.read_until("\"source\":\"store\"}").await;
    busy.send("POST /v1").await;
    all_is_read(&running).await;
    assert_eq!(running.stop().await, Ended { cut: 0 });
    assert_eq!(busy.read_to_end().await, "");
}

#[tokio::test]
async fn a_body_that_does_not_come_is_answered_that_it_took_too_long() {
    let settings = HttpSettings { request_timeout: Duration::from_millis(50), ..HttpSettings::default() };
    let running = start_with(settings, fixture().await.app).await;
    let mut slow = running.connect().await;
    slow.send(&plain(BODY)[..plain(BODY).len() - 1]).await;
    let answer = slow.read_to_end().await;
    assert!(answer.starts_with("HTTP/1.1 408 Request Timeout\r\n"), "{answer}");
    assert!(answer.contains("\r\nconnection: close\r\n"), "{answer}");
    assert!(answer.contains("the request was not complete after 50ms"), "{answer}");
    running.stop().await;
}
