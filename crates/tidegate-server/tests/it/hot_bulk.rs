//! Edits in bulk: counted, explained where they are bad, and never all in memory.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::body::{Body, Bytes};
use futures_util::stream;
use serde_json::json;
use tidegate::clock::monotonic;
use tidegate::testkit::RedisServer;
use tidegate_server::settings::HttpSettings;

use crate::lifecycle::start_with;
use crate::support::{Fixture, START, bulk, serving_hot, settings, soon};

const PATH: &str = "/v1/hot/main/edits";

#[tokio::test]
async fn good_and_bad_lines_are_counted_and_the_first_bad_ones_explained() {
    let f = serving_hot(&["main.max_tracked=1"]).await;
    let lines = [
        r#"{"page":"a","id":"1","editor":"alice"}"#.to_owned(),
        String::new(),
        "not json".to_owned(),
        r#"{"page":"a","id":"2","byte_change":-5,"at":"2027-01-15T07:59:59Z"}"#.to_owned() + "\r",
        r#"["a","1"]"#.to_owned(),
        r#"{"page":"a","id":"2"}"#.to_owned(),
        r#"{"page":"","id":"3"}"#.to_owned(),
        r#"{"page":"a","id":"3","user":"x"}"#.to_owned(),
        format!(r#"{{"page":"a","id":"4","editor":"{}"}}"#, "x".repeat(9000)),
        r#"{"page":"b","id":"1"}"#.to_owned(),
        r#"{"page":"b","id":"2"}"#.to_owned(),
        format!(r#"{{"page":"a","id":"5","at":{}}}"#, START.as_millis() - 4_000_000),
        r#"{"page":"a","id":"6"}"#.to_owned(),
    ];
    let answer = bulk(&f.app, PATH, lines.join("\n")).await;
    assert_eq!(answer.status, 200);
    assert_eq!(
        answer.json(),
        json!({
            "space": "main", "lines": 13, "good": 7, "bad": 5,
            "outcomes": {"remembered": 2, "promoted": 1, "added": 1, "rejected": 1, "duplicate": 1,
                "too_late": 1, "dropped": 0, "unknown": 0, "corrupt": 0, "counted": 0, "gathered": 0},
            "bad_lines": [
                {"line": 3, "detail": "expected ident at column 2"},
                {"line": 5, "detail": "it is an array: an object is expected"},
                {"line": 7, "detail": "a key must not be empty: 1 to 255 bytes are allowed"},
                {"line": 8, "detail": "unknown field `user`, expected one of `page`, `id`, `editor`, `byte_change`, `at` at column 27"},
                {"line": 9, "detail": "it has more than 8192 bytes"},
            ],
        })
    );
    let empty = bulk(&f.app, PATH, "").await.json();
    assert_eq!((&empty["lines"], &empty["good"], &empty["bad"]), (&json!(0), &json!(0), &json!(0)));
}

#[tokio::test]
async fn only_the_first_few_bad_lines_are_explained() {
    let f = serving_hot(&[]).await;
    let answer = bulk(&f.app, PATH, "x\n".repeat(500)).await.json();
    assert_eq!((&answer["bad"], answer["bad_lines"].as_array().unwrap().len()), (&json!(500), 10));
}

/// Lines are made as they are needed, and compared with those recorded by then: the
/// difference is all that can be in memory.
#[tokio::test]
async fn a_hundred_thousand_lines_are_never_all_in_memory() {
    const LINES: u64 = 100_000;
    const PER_PIECE: u64 = 100;
    let f = serving_hot(&["main.max_tracked=1"]).await;
    let ahead = Arc::new(AtomicU64::new(0));
    let pieces = {
        let (gate, ahead) = (f.app.gate().clone(), ahead.clone());
        stream::unfold(0, move |from| {
            // Every edit of a page that is not hot counts as activity.
            let metrics = gate.metrics();
            let row = "\nactivity_counter_total{space=\"main\"} ";
            let recorded = metrics.split_once(row).unwrap().1.split('\n').next().unwrap().parse::<u64>();
            ahead.fetch_max(from - recorded.unwrap(), Ordering::Relaxed);
            let to = (from + PER_PIECE).min(LINES);
            let line = |n: u64| format!("{{\"page\":\"p{n}\",\"id\":\"{n}\",\"editor\":\"u{}\"}}\n", n % 7);
            let piece: String = (from..to).map(line).collect();
            std::future::ready((from < LINES).then(|| (Ok::<_, Infallible>(Bytes::from(piece)), to)))
        })
    };
    let begun = monotonic();
    let answer = bulk(&f.app, PATH, Body::from_stream(pieces)).await;
    let (took, ahead) = (begun.elapsed(), ahead.load(Ordering::Relaxed));
    let json = answer.json();
    assert_eq!((&json["lines"], &json["good"], &json["bad"]), (&json!(LINES), &json!(LINES), &json!(0)));
    println!("{LINES} lines in {took:?}, {ahead} of them ahead at most");
    assert!(ahead <= 1000, "{ahead}");
    assert!(took < Duration::from_secs(20), "{took:?}");
}

/// The memory of the process, not a promise about it: ten times the lines, and hardly
/// more memory.
#[test]
fn a_server_grows_by_its_pages_and_not_by_the_lines_it_is_sent() {
    use std::io::{Read as _, Write as _};

    let server = crate::cli::Server::start(&["--set", "hot.main.max_tracked=100"]);
    let resident_kb = || {
        let status = std::fs::read_to_string(format!("/proc/{}/status", server.id())).unwrap();
        let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
        line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap()
    };
    let feed = |from: u64, lines: u64| {
        let mut stream = std::net::TcpStream::connect(server.address()).unwrap();
        stream
            .write_all(
                b"POST /v1/hot/main/edits HTTP/1.1\r\nhost: t\r\nconnection: close\r\n\
                  content-type: application/x-ndjson\r\ntransfer-encoding: chunked\r\n\r\n",
            )
            .unwrap();
        for start in (from..from + lines).step_by(500) {
            let line =
                |n: u64| format!("{{\"page\":\"p{}\",\"id\":\"{n}\",\"editor\":\"u{}\"}}\n", n % 100, n % 7);
            let piece: String = (start..start + 500).map(line).collect();
            stream.write_all(format!("{:x}\r\n{piece}\r\n", piece.len()).as_bytes()).unwrap();
        }
        stream.write_all(b"0\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.contains(&format!("\"good\":{lines},\"bad\":0")), "{answer}");
    };
    feed(0, 20_000);
    let before = resident_kb();
    feed(20_000, 200_000);
    let after = resident_kb();
    println!("{before} kB after 20,000 lines, {after} kB after 220,000");
    assert!(after < before + 8 * 1024, "{before} kB, then {after} kB");
}

/// The bounds on other bodies and other requests are passed many times over.
#[tokio::test]
async fn neither_the_bound_on_bodies_nor_that_on_requests_is_for_bulk() {
    let f = serving_hot(&[]).await;
    let settings = HttpSettings {
        request_timeout: Duration::from_secs(1),
        max_body_bytes: 100,
        ..HttpSettings::default()
    };
    let running = start_with(settings, f.app.clone()).await;
    let mut client = running.connect().await;
    client
        .send(
            "POST /v1/hot/main/edits HTTP/1.1\r\nhost: t\r\ncontent-type: application/x-ndjson\r\n\
             transfer-encoding: chunked\r\n\r\n",
        )
        .await;
    // Longer than a request may take, and never silent for so long.
    let begun = monotonic();
    let mut lines = 0;
    while begun.elapsed() < Duration::from_millis(1500) {
        let line = |id: u32| format!("{{\"page\":\"a\",\"id\":\"{id}\"}}\n");
        let piece: String = (lines..lines + 100).map(line).collect();
        client.send(&format!("{:x}\r\n{piece}\r\n", piece.len())).await;
        lines += 100;
    }
    client.send("0\r\n\r\n").await;
    let answer = client.read_until("\"bad_lines\":[]}").await;
    assert!(answer.contains(&format!("\"good\":{lines},\"bad\":0")), "{answer}");
    running.stop().await;
}

#[tokio::test]
async fn bulk_has_a_time_of_its_own_and_what_came_before_counts() {
    let f = serving_hot(&[]).await;
    let soon = Duration::from_millis(200);
    for (settings, detail) in [
        (
            HttpSettings { bulk_timeout: soon, ..HttpSettings::default() },
            "the request was not complete after 200ms, after 1 good and 0 bad lines, which count",
        ),
        (
            HttpSettings { request_timeout: soon, ..HttpSettings::default() },
            "nothing has come for 200ms, after 1 good and 0 bad lines, which count",
        ),
    ] {
        let running = start_with(settings, f.app.clone()).await;
        let mut client = running.connect().await;
        let line = r#"{"page":"a","id":"1"}"#;
        client
            .send(&format!(
                "POST /v1/hot/main/edits HTTP/1.1\r\nhost: t\r\ncontent-type: application/x-ndjson\r\n\
                 content-length: 1000\r\n\r\n{line}\n"
            ))
            .await;
        let answer = client.read_to_end().await;
        assert!(answer.starts_with("HTTP/1.1 408 Request Timeout\r\n"), "{answer}");
        assert!(answer.contains(detail), "{answer}");
        running.stop().await;
    }
    let recorded = f.post(PATH, r#"{"page":"a","id":"1"}"#).await.json();
    assert_eq!(recorded["outcome"], "duplicate", "it has been recorded");
}

const HEAD: &str = "POST /v1/hot/main/edits HTTP/1.1\r\nhost: t\r\ncontent-type: application/x-ndjson\r\n\
    transfer-encoding: chunked\r\n\r\n";

fn chunk(lines: &str) -> String {
    format!("{:x}\r\n{lines}\r\n", lines.len())
}

async fn until_hot(f: &Fixture, page: &str) {
    soon(async {
        while f.get(&format!("/v1/hot/main/pages/{page}")).await.json()["is_hot"] != true {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

/// The sender is silent for far longer than the test: what it has sent is there.
#[tokio::test]
async fn what_has_come_is_recorded_while_more_is_awaited() {
    let f = serving_hot(&[]).await;
    let settings = HttpSettings { request_timeout: Duration::from_secs(3600), ..HttpSettings::default() };
    let running = start_with(settings, f.app.clone()).await;
    let mut client = running.connect().await;
    client.send(HEAD).await;
    for page in ["a", "b"] {
        let line = |id: u32| format!("{{\"page\":\"{page}\",\"id\":\"{id}\"}}\n");
        client.send(&chunk(&(line(1) + &line(2) + r#"{"page":"c","#))).await;
        until_hot(&f, page).await;
        client.send(&chunk("\n")).await;
    }
    client.send("0\r\n\r\n").await;
    let answer = client.read_until("]}").await;
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.contains("\"good\":4,\"bad\":2"), "{answer}");
    running.stop().await;
}

#[tokio::test]
async fn a_server_that_stops_records_what_it_has_read_and_answers() {
    let f = serving_hot(&[]).await;
    let long = Duration::from_secs(3600);
    let settings = HttpSettings { request_timeout: long, shutdown_deadline: long, ..HttpSettings::default() };
    let running = start_with(settings, f.app.clone()).await;
    let mut client = running.connect().await;
    client.send(HEAD).await;
    let line = |id: u32| format!("{{\"page\":\"a\",\"id\":\"{id}\"}}\n");
    client.send(&chunk(&(line(1) + &line(2)))).await;
    until_hot(&f, "a").await;
    client.send(&chunk(&line(3))).await;
    assert_eq!(running.stop().await, tidegate_server::serve::Ended { cut: 0 });
    let answer = client.read_to_end().await;
    assert!(answer.starts_with("HTTP/1.1 503 Service Unavailable\r\n"), "{answer}");
    assert!(answer.contains("connection: close\r\n"), "{answer}");
    assert!(answer.contains("urn:tidegate:problem:stopping"), "{answer}");
    let body: serde_json::Value = serde_json::from_str(answer.split("\r\n\r\n").nth(1).unwrap()).unwrap();
    let (good, counts) = (body["counts"]["good"].as_u64().unwrap(), &body["counts"]["outcomes"]);
    // Whether the third line was read by then nobody knows; what was counted is recorded.
    assert!((2..=3).contains(&good), "{answer}");
    assert_eq!(counts["remembered"], 1, "{answer}");
    let stats = f.get("/v1/hot/main/pages/a").await.json();
    assert_eq!(stats["total_edits"].as_u64().unwrap(), good, "{answer}");
}

/// While a batch is recorded nobody listens: a store that takes its time is not the sender's silence.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_store_does_not_count_as_silence_of_the_sender() {
    let redis = RedisServer::start();
    let f = Fixture::of(&redis.url(), &settings("hot", &["main.hot_threshold=1"]), START).await;
    assert_eq!(bulk(&f.app, PATH, "{\"page\":\"warm\",\"id\":\"1\"}\n").await.status, 200);
    let request_timeout = Duration::from_secs(1);
    let running =
        start_with(HttpSettings { request_timeout, ..HttpSettings::default() }, f.app.clone()).await;
    let mut client = running.connect().await;
    client.send(HEAD).await;
    redis.freeze();
    let lines: String = (0..512).map(|id| format!("{{\"page\":\"p{id}\",\"id\":\"1\"}}\n")).collect();
    client.send(&chunk(&lines)).await;
    let early = tokio::time::timeout(request_timeout * 3 / 2, client.read_until("\r\n")).await;
    assert!(early.is_err(), "it was given up while the store was slow: {early:?}");
    redis.thaw();
    until_hot(&f, "p511").await;
    client.send(&chunk("{\"page\":\"last\",\"id\":\"1\"}\n")).await;
    client.send("0\r\n\r\n").await;
    let answer = client.read_until("]}").await;
    assert!(
        answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.contains("\"good\":513,\"bad\":0"),
        "{answer}"
    );
    running.stop().await;
}

/// After a slow batch the sender has its whole time again, and the answer says so when it lets that pass.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sender_that_is_silent_after_edits_were_lost_learns_that_they_may_not_count() {
    let mut redis = RedisServer::start();
    let f = Fixture::of(&redis.url(), &settings("hot", &[]), START).await;
    assert_eq!(bulk(&f.app, PATH, "{\"page\":\"warm\",\"id\":\"1\"}\n").await.status, 200);
    redis.kill();
    let request_timeout = Duration::from_millis(300);
    let running =
        start_with(HttpSettings { request_timeout, ..HttpSettings::default() }, f.app.clone()).await;
    let mut client = running.connect().await;
    client.send(HEAD).await;
    client.send(&chunk("{\"page\":\"a\",\"id\":\"1\"}\n{\"page\":\"b\",\"id\":\"1\"}\nnonsense\n")).await;
    let answer = client.read_to_end().await;
    assert!(answer.starts_with("HTTP/1.1 408 Request Timeout\r\n"), "{answer}");
    let detail = "nothing has come for 300ms, after 2 good and 1 bad lines, of which 2 may not count since the store was \
                  away: an edit that is sent again counts once";
    assert!(answer.contains(detail), "{answer}");
    running.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_status_says_that_edits_were_dropped() {
    let mut redis = RedisServer::start();
    let f = Fixture::of(&redis.url(), &settings("hot", &[]), START).await;
    let lines = |from: u32| -> String {
        (from..from + 600).map(|id| format!("{{\"page\":\"p{id}\",\"id\":\"1\"}}\n")).collect()
    };
    assert_eq!(bulk(&f.app, PATH, lines(0)).await.status, 200);
    redis.kill();
    let answer = bulk(&f.app, PATH, lines(1000)).await;
    assert_eq!(answer.status, 207, "{}", answer.body);
    let answer = answer.json();
    let lost = ["dropped", "unknown"].map(|it| answer["outcomes"][it].as_u64().unwrap());
    assert_eq!((lost.iter().sum::<u64>(), &answer["good"]), (600, &json!(600)), "{answer}");
}

#[tokio::test]
async fn a_time_in_seconds_is_pointed_out() {
    let f = serving_hot(&[]).await;
    let line = r#"{"page":"a","id":"1","at":1794753112}"#;
    let expected = "`at`: 1794753112 looks like 2026-11-15T14:31:52.000Z in seconds: milliseconds since 1970 are expected";
    let one = f.post(PATH, line).await.json();
    assert_eq!((&one["outcome"], &one["hint"]), (&json!("too_late"), &json!(expected)));
    assert_eq!(bulk(&f.app, PATH, line).await.json()["hint"], expected);
    for line in [r#"{"page":"a","id":"1"}"#, r#"{"page":"a","id":"2","at":1442018818771}"#] {
        assert!(f.post(PATH, line).await.json().get("hint").is_none(), "{line}");
    }
}
