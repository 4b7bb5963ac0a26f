//! Spaces that only count: over HTTP, on the command line, and what is said where the other is expected.

use serde_json::{Value, json};
use tidegate::testkit::RedisServer;

use crate::cli::{Server, run, run_with, tidegate};
use crate::support::{Fixture, START, bulk, serving_hot};

const NOW: u64 = START.as_millis();
const COUNTING: [&str; 2] = ["views.max_members_per_page=0", "views.hot_threshold=10"];

async fn serving() -> Fixture {
    serving_hot(&[&COUNTING[..], &["main.max_tracked=5"]].concat()).await
}

#[tokio::test]
async fn a_count_tells_what_became_of_it() {
    let f = serving().await;
    let count = async |body: Value| f.post("/v1/hot/views/counts", &body.to_string()).await.json();
    assert_eq!(
        count(json!({"page": "/pricing"})).await,
        json!({"space": "views", "page": "/pricing", "count": 1, "outcome": "remembered"})
    );
    assert_eq!(count(json!({"page": "/pricing", "count": 9})).await["outcome"], "promoted");
    assert_eq!(count(json!({"page": "/pricing", "count": 2.0})).await["outcome"], "counted");
    assert_eq!(
        f.get("/v1/hot/views").await.json()["pages"],
        json!([{"page": "/pricing", "edits": 12, "last_seen_ms": NOW}])
    );
    let lines = "{\"page\":\"/pricing\",\"count\":30}\n\n{\"page\":\"/\"}\n{\"page\":\"/\",\"count\":0}\n[1]\n{\"page\":\"/\"}";
    assert_eq!(
        bulk(&f.app, "/v1/hot/views/counts", lines).await.json(),
        json!({
            "space": "views", "lines": 6, "good": 3, "bad": 2,
            "outcomes": {"remembered": 2, "promoted": 0, "added": 0, "rejected": 0, "duplicate": 0,
                "too_late": 0, "dropped": 0, "unknown": 0, "corrupt": 0, "counted": 1, "gathered": 0},
            "bad_lines": [
                {"line": 4, "detail": "a count of 0 is not allowed: 1 to 1000000000 are"},
                {"line": 5, "detail": "it is an array: an object is expected"},
            ],
        })
    );
    assert_eq!(f.get("/v1/hot/views/pages/%2Fpricing").await.json()["total_edits"], 42);
    let metrics = f.get("/metrics").await.body;
    for line in [
        "tidegate_http_request_seconds_count{operation=\"hot_count\"} 3",
        "tidegate_http_request_seconds_count{operation=\"hot_count_bulk\"} 1",
        "hot_pages_promoted_total{space=\"views\"} 1",
    ] {
        assert!(metrics.contains(&format!("\n{line}\n")), "{line}: {metrics}");
    }
}

#[tokio::test]
async fn what_a_space_does_not_take_says_what_it_takes() {
    let f = serving().await;
    let (edit, count) = (json!({"page": "a", "id": "1"}).to_string(), json!({"page": "a"}).to_string());
    for (path, body, detail) in [
        ("/v1/hot/views/edits", &edit, "the space only counts, its max_members_per_page is 0"),
        ("/v1/hot/main/counts", &count, "the space keeps edits, its max_members_per_page is 100"),
    ] {
        for answer in [f.post(path, body).await, bulk(&f.app, path, body.clone()).await] {
            assert_eq!(answer.status, 400, "{answer:?}");
            assert!(answer.json()["detail"].as_str().unwrap().contains(detail), "{answer:?}");
        }
    }
    for (body, detail) in [
        (json!({"page": "a", "count": 0}), "a count of 0 is not allowed: 1 to 1000000000 are"),
        (json!({"page": "a", "count": 1_000_000_001}), "a count of 1000000001 is not allowed"),
        (json!({"page": "a", "id": "1"}), "unknown field `id`, expected `page` or `count`"),
        (json!({"page": ""}), "must not be empty"),
        (json!({"count": 1}), "missing field `page`"),
    ] {
        let answer = f.post("/v1/hot/views/counts", &body.to_string()).await;
        assert_eq!(answer.status, 400, "{answer:?}");
        assert!(answer.json()["detail"].as_str().unwrap().contains(detail), "{detail}: {answer:?}");
    }
    let spaces = f.get("/v1/hot").await.json();
    assert_eq!(
        (&spaces["spaces"][0]["only_counts"], &spaces["spaces"][1]["only_counts"]),
        (&json!(false), &json!(true))
    );
}

#[test]
fn the_command_line_counts_one_page_and_lines_of_pages() {
    let server = Server::start(&[
        "--set",
        "hot.main.max_members_per_page=0",
        "--set",
        "hot.main.hot_threshold=10",
        "--set",
        "hot.main.max_tracked=1",
    ]);
    let count = |args: &[&str]| server.hot(&[&["count"], args].concat());
    assert_eq!(count(&["/pricing", "9"]), (0, "remembered: the page is not hot yet\n".into(), "".into()));
    assert_eq!(count(&["/pricing"]), (0, "promoted: the page is hot now\n".into(), "".into()));
    let (code, out, _) = count(&["/pricing", "5", "--json"]);
    assert_eq!(code, 0);
    assert!(out.contains("\"count\":5,\"outcome\":\"counted\""), "{out}");
    let rejected = "rejected: it would be hot, and as many are tracked as may be\n";
    assert_eq!(count(&["/", "10"]), (1, rejected.into(), "".into()));
    let (code, _, err) = count(&["/", "0"]);
    assert_eq!(code, 2);
    assert!(err.contains("a count of 0 is not allowed: 1 to 1000000000 are"), "{err}");
    assert_eq!(
        server.hot(&["spaces"]).1,
        "main: up to 1 pages only counted in 1h, hot from 10, trending from 5, when full reject\n"
    );
    let lines = |input: &str, args: &[&str]| {
        run_with(tidegate(&[&["hot", "count", "--server", server.url()], args].concat()), input.as_bytes())
    };
    assert_eq!(
        lines("/pricing\n\n/pricing\n/new\n", &[]),
        (0, "3 lines: 1 remembered, 2 counted\n".into(), "".into())
    );
    let (code, out, _) = lines(&"/\n".repeat(600), &["--json"]);
    let told: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((code, &told["lines"], &told["outcomes"]["rejected"]), (1, &json!(600), &json!(600)));
    let long = format!("/new\n{}\n", "x".repeat(300));
    let (code, out, _) = lines(&long, &[]);
    assert_eq!(code, 1);
    assert!(out.starts_with("2 lines: 1 remembered\nline 2: the key starting with \"xxxxx"), "{out}");
    let (code, out, _) = lines("", &[]);
    assert_eq!((code, out.as_str()), (0, "0 lines: nothing\n"));
    let lines = |input: &[u8]| run_with(tidegate(&["hot", "count", "--server", server.url()]), input);
    assert_eq!(lines(b"/crlf\r\n/crlf\r\n/crlf\n").1, "3 lines: 3 remembered\n");
    assert_eq!(server.hot(&["count", "/crlf", "6"]).1, "remembered: the page is not hot yet\n", "9 by now");
    // What has counted before is told, so that only the rest is sent again.
    let (code, out, err) = lines(b"/crlf\n\n/crlf\n\xff\n/never\n");
    assert_eq!((code, out.as_str()), (2, "2 lines: 2 rejected\n"), "{err}");
    assert_eq!(err, "tidegate: item 4 is not UTF-8: what is before it was sent, and nothing behind it\n");
    let (_, out, _) = server.hot(&["list", "--json"]);
    assert!(out.contains("\"page\":\"/pricing\",\"edits\":17"), "{out}");
}

/// What a store gathers is sent also if what follows cannot be read.
#[test]
fn lines_that_were_gathered_are_sent_when_another_cannot_be_read() {
    let redis = RedisServer::start();
    let url = redis.url();
    let set =
        ["--set", "hot.main.max_members_per_page=0", "--set", "hot.main.hot_threshold=1", "--store", &url];
    let gather = ["--set", "hot.main.gather=60s"];
    let input = ["/g\n".repeat(1000).as_bytes(), b"\xff\n/g\n"].concat();
    let (code, out, err) = run_with(tidegate(&[&["hot", "count"], &set[..], &gather].concat()), &input);
    assert_eq!((code, out.as_str()), (2, "1000 lines: 1000 gathered\n"), "{err}");
    assert!(err.contains("item 1001 is not UTF-8"), "{err}");
    let (_, out, _) = run(tidegate(&[&["hot", "list", "--json"], &set[..]].concat()));
    assert!(out.contains("\"page\":\"/g\",\"edits\":1000"), "{out}");
}

/// Each row of a file is one more of its page, by its own times or live, and on a store as in memory.
#[test]
fn a_replay_counts_where_edits_are_not_kept() {
    let redis = RedisServer::start();
    let (store, set) =
        (redis.url(), ["--set", "hot.main.max_members_per_page=0", "--set", "hot.main.hot_threshold=2"]);
    let rows: String = (0..700_u64)
        .map(|n| format!("{{\"page\":\"p{}\",\"time\":{}}}\n", n % 3 % 2, 1_442_016_000_000 + n * 10))
        .collect();
    let replay = |args: &[&str]| {
        let (code, out, err) = run_with(
            tidegate(&[&["hot", "replay", "-", "--json"], &set[..], args].concat()),
            rows.as_bytes(),
        );
        assert_eq!(code, 0, "{err}");
        serde_json::from_str::<Value>(&out).unwrap()
    };
    let memory = replay(&[]);
    assert_eq!(memory["outcomes"]["counted"], 696);
    assert_eq!(memory["pages"][0]["edits"], 467);
    assert_eq!(replay(&["--store", &store])["pages"], memory["pages"]);
    // By the file's clock each counts at its time, and live all are in before they are listed.
    let gather = ["--set", "hot.main.gather=30s", "--store", &store];
    let gathered = replay(&gather);
    assert_eq!((&gathered["outcomes"], &gathered["pages"]), (&memory["outcomes"], &memory["pages"]));
    let gathered = replay(&[&gather[..], &["--rate", "100000"]].concat());
    assert_eq!(
        (&gathered["outcomes"]["gathered"], &gathered["pages"][0]["edits"]),
        (&json!(700), &json!(467))
    );
    let mut connection = redis.connection();
    redis::cmd("FLUSHALL").exec(&mut connection).unwrap();
    let live = replay(&["--store", &store, "--rate", "100000"]);
    // Rows of a page that come together meet the same.
    let outcomes = &live["outcomes"];
    let met = outcomes["counted"].as_u64().unwrap() + outcomes["promoted"].as_u64().unwrap();
    assert_eq!((met, &live["pages"][0]["edits"]), (700, &json!(467)));
    // What it wrote there another reads.
    let args = ["hot", "count", "p0", "3", "--json", "--store", &store, set[0], set[1], set[2], set[3]];
    let (code, out, err) = run(tidegate(&args));
    assert_eq!((code, out.contains("counted")), (0, true), "{err}");
    assert_eq!(redis.keys_without_ttl(), Vec::<String>::new());
}
