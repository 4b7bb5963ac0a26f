//! Most redirects are answered past hyper: nobody can tell by the answer.

use serde_json::{Value, json};
use tidegate::Tidegate;
use tidegate_server::http::App;
use tidegate_server::parts::Parts;
use tidegate_server::serve::run_edge;
use tidegate_server::settings::{Flag, HttpSettings, Settings, Sources};
use tokio::net::TcpListener;
use tokio::sync::oneshot;

use super::kit::{Rules, to};
use crate::lifecycle::{Client, Running};
use crate::support::{call, soon};

/// Redirects in this process.
struct Redirects {
    app: App,
    running: Running,
    _rules: Rules,
}

impl Redirects {
    async fn start(more: &[(&str, &str)]) -> Self {
        let rules = Rules::new();
        let url = rules.url();
        let given = [("rules.url", url.as_str()), ("edge.listen", "127.0.0.1:0")];
        let flags = given.iter().chain(more).map(|(path, value)| Flag {
            given_as: "--set",
            path: (*path).to_owned(),
            value: (*value).to_owned(),
        });
        let settings = Settings::load(&Sources { flags: flags.collect(), ..Sources::default() }).unwrap();
        let gate = Tidegate::open("memory:").await.unwrap();
        let parts = Parts::open(gate, &settings.parts).unwrap();
        let parts = parts.with_rules(settings.rules.as_ref()).await.unwrap();
        let app = App::new(parts.with_edge(settings.edge.as_ref()).await.unwrap());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel();
        let served = app.clone();
        let ended = tokio::spawn(async move {
            run_edge(listener, &served, &HttpSettings::default(), async { drop(stopped.await) }).await
        });
        Self { app, running: Running { address, stop, ended }, _rules: rules }
    }

    async fn rule(&self, id: &str, terms: Value) {
        let made = call(&self.app, "PUT", &format!("/v1/rules/{id}"), &terms.to_string()).await;
        let seq = made.json()["seq"].as_u64().unwrap();
        soon(async {
            loop {
                let cache = call(&self.app, "GET", "/v1/edge/cache", "").await.json();
                let applied = cache["progress"]["applied"].as_str().unwrap_or_default().to_owned();
                if applied.split(':').nth(1).and_then(|it| it.parse().ok()).is_some_and(|it: u64| it >= seq) {
                    return;
                }
                tokio::task::yield_now().await;
            }
        })
        .await;
    }

    /// A connection whose requests are hyper's from the first on.
    async fn ordinary(&self) -> Client {
        let mut client = self.running.connect().await;
        client.send("GET /none HTTP/1.1\r\nhost: t\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n").await;
        client.read_until("\r\n\r\nnot found\n").await;
        client
    }
}

/// Comes last: who still listens answers it, and hangs up.
const LAST: &str = "GET /last HTTP/1.1\r\nhost: t\r\nconnection: close\r\n\r\n";

async fn answers(mut client: Client, request: &str) -> String {
    client.try_send(request).await;
    if !request.ends_with(LAST) {
        client.send_no_more().await;
    }
    let text = client.read_to_end().await;
    let dated = |line: &str| if line.starts_with("date: ") { "date\r\n".to_owned() } else { line.to_owned() };
    text.split_inclusive('\n').map(dated).collect()
}

async fn assert_alike(redirects: &Redirects, request: &str) {
    let fast = answers(redirects.running.connect().await, request).await;
    let ordinary = answers(redirects.ordinary().await, request).await;
    let shown: String = request.chars().take(300).collect();
    assert_eq!(fast, ordinary, "to {shown:?}");
}

async fn redirects() -> Redirects {
    let redirects = Redirects::start(&[("edge.gone_body", "<h1>gone</h1>")]).await;
    for (id, terms) in [
        ("a", to("/a", "https://to.example/a")),
        ("p", json!({"path": "/p", "code": 301, "maxAge": 60, "destination": "https://to.example/p"})),
        (
            "d",
            json!({"path": "/d/*", "appendRest": true, "query": "append", "destination": "https://to.example/d"}),
        ),
        (
            "o",
            json!({"path": "/o", "expiresAt": 1_000_000_000_000_u64, "destination": "https://to.example/"}),
        ),
        ("k", json!({"path": "/k", "code": 307, "destination": "https://to.example/k"})),
        ("h", json!({"host": "own.example", "path": "/a", "destination": "https://to.example/own"})),
    ] {
        redirects.rule(id, terms).await;
    }
    redirects
}

fn requests() -> Vec<String> {
    let get = |method: &str, target: &str, lines: &str| {
        format!("{method} {target} HTTP/1.1\r\nhost: t\r\n{lines}\r\n")
    };
    let targets = [
        "/",
        "/a",
        "/a?b=c",
        "/a?",
        "/p",
        "/d",
        "/d/",
        "/d/x?y=z&y",
        "/d//x",
        "/d/../a",
        "/d/%2e%2E/a",
        "/d/%0d%0ax:y",
        "/o",
        "/k",
        "/none",
        "//t/a",
        "/%61",
        "/%",
        "/%zz",
        "/d/%00",
        "/a#b",
        "/a\\b",
        "/d/{x}",
        "/d/\"x\"",
        "/d/<x>",
        "/d/ä",
        "/d/|^`",
        "/d/x?q=ä",
        "/d/x?q=\"<>",
        "*",
        "a",
        "",
        "http://own.example/a",
        "http://own.example",
        "http://own.example?x",
        "https://own.example:81/a?b",
        "http://user@own.example/a",
        "http://own.example:x/a",
        "own.example:80",
        "//",
        "/d/[::1]",
    ];
    let long = [1000, 3900, 4096, 5000, 17_000, 65_536].map(|length| format!("/d/{}", "x".repeat(length)));
    let lines = [
        "cookie: a=b; c=d\r\n",
        "authorization: Bearer x\r\norigin: https://a.example\r\n",
        "content-length: 0\r\n",
        "content-length: 3\r\n\r\nabc",
        "content-type: text/plain\r\n",
        "transfer-encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n",
        "transfer-encoding: gzip\r\n",
        "connection: keep-alive\r\n",
        "connection: close\r\n",
        "connection: upgrade, http2-settings\r\nupgrade: h2c\r\nhttp2-settings: AAMAAABk\r\n",
        "expect: 100-continue\r\n",
        "x-forwarded-host: own.example\r\n",
        "x-forwarded-host: a\r\nx-forwarded-host: own.example\r\n",
        "accept-encoding: gzip\r\nif-none-match: *\r\nrange: bytes=0-1\r\n",
        "host: u\r\n",
        "no-colon\r\n",
        "bad name: x\r\n",
        "x: \u{1}\r\n",
        "x: caf\u{e9}\r\n",
    ];
    let hosts = [
        "",
        "own.example",
        "OWN.example",
        "own.example.",
        "own.example:80",
        "own.example:",
        "own.example:x",
        "[::1]",
        "[::1]:80",
        "127.0.0.1",
        "1.2.3",
        "a_b",
        "a b",
        "a/b",
        "user@own.example",
        "xn--a",
        "b\u{fc}cher.example",
        "%61",
        "a..b",
        "-",
        "*",
        &"x".repeat(64),
        &"x.".repeat(127),
        "*.example",
    ];
    let mut requests = Vec::new();
    for method in ["GET", "HEAD", "POST", "OPTIONS", "DELETE", "get", "CONNECT", "TRACE", "G@T"] {
        requests
            .extend(["/a", "/k", "/o", "/none", "*", "own.example:80"].map(|target| get(method, target, "")));
    }
    for method in ["GET", "HEAD"] {
        requests.extend(targets.iter().map(|target| get(method, target, "")));
        requests.extend(long.iter().map(|target| get(method, target, "")));
        requests.extend(lines.iter().map(|lines| get(method, "/a", lines)));
        requests.extend(hosts.iter().map(|host| format!("{method} /a HTTP/1.1\r\nhost: {host}\r\n\r\n")));
        requests.extend([30, 40, 99, 101].map(|count| get(method, "/a", &"x: y\r\n".repeat(count))));
        requests.extend(
            [3000, 5000, 20_000]
                .map(|length| get(method, "/a", &format!("cookie: {}\r\n", "y".repeat(length)))),
        );
    }
    for first in [
        "GET /a HTTP/1.0\r\n",
        "GET /a HTTP/1.0\r\nhost: own.example\r\n",
        "GET /a HTTP/1.1\r\n",
        "GET /a HTTP/2.0\r\nhost: t\r\n",
        "GET /a\r\n",
    ] {
        requests.push(format!("{first}\r\n"));
    }
    requests.push(get("GET", "/a", "").replace("\r\n", "\n"));
    // Several at once.
    requests
        .push(get("GET", "/a", "").repeat(5) + &get("HEAD", "/o", "") + &get("GET", "/none", "").repeat(3));
    requests.push(
        get("GET", "/a", "")
            + &get("POST", "/k", "content-length: 2\r\n\r\nxx").replace("xx\r\n", "xx")
            + &get("GET", "/d/x", ""),
    );
    requests
}

#[tokio::test]
async fn every_request_is_answered_alike_on_both_ways() {
    let redirects = redirects().await;
    for request in requests() {
        assert_alike(&redirects, &format!("{request}{LAST}")).await;
    }
    redirects.running.stop().await;
}

#[tokio::test]
async fn every_wrong_byte_is_answered_alike_on_both_ways() {
    let redirects = redirects().await;
    let request = "GET /d/x?y HTTP/1.1\r\nhost: t\r\ncookie: a=b\r\nconnection: keep-alive\r\n\r\n";
    for at in 0..request.len() {
        for wrong in ["", "\r", "\n", " ", ":", "/", "%", "?", "#", "x", "\"", "\0", "\u{e9}", "\r\n"] {
            let (before, after) = (&request[..at], &request[at + 1..]);
            assert_alike(&redirects, &format!("{before}{wrong}{after}{LAST}")).await;
        }
    }
    for length in 0..request.len() {
        assert_alike(&redirects, &request[..length]).await;
    }
    redirects.running.stop().await;
}

/// However requests come in pieces, they are answered in their order.
#[tokio::test]
async fn requests_that_come_together_are_answered_together() {
    let redirects = redirects().await;
    let request = "GET /a HTTP/1.1\r\nhost: t\r\n\r\nHEAD /p HTTP/1.1\r\nhost: t\r\n\r\nGET /o HTTP/1.1\r\nhost: t\r\n\r\n";
    let many = request.repeat(200);
    let whole = answers(redirects.running.connect().await, &format!("{many}{LAST}")).await;
    assert_eq!(whole.matches("HTTP/1.1 ").count(), 601, "{whole}");
    for (status, expected) in
        [("302 Found", 200), ("301 Moved Permanently", 200), ("410 Gone", 200), ("404 Not Found", 1)]
    {
        assert_eq!(whole.matches(&format!("HTTP/1.1 {status}\r\n")).count(), expected, "{status}");
    }
    for size in [1, 7, 60, 1000] {
        let mut client = redirects.running.connect().await;
        for piece in many.as_bytes().chunks(size) {
            client.send(std::str::from_utf8(piece).unwrap()).await;
        }
        let again = answers(client, LAST).await;
        let differs = again.bytes().zip(whole.bytes()).position(|(one, other)| one != other);
        let shown = |text: &str| {
            differs.map(|at| text[at.saturating_sub(100)..].chars().take(200).collect::<String>())
        };
        assert_eq!(shown(&again), shown(&whole), "pieces of {size}");
        assert_eq!(again.len(), whole.len(), "pieces of {size}");
    }
    redirects.running.stop().await;
}
