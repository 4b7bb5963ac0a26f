//! What is said of a worker: its cache, why it answers, which links are hot, and what is counted.

use serde_json::{Value, json};

use super::kit::{Process, Rules, exchange, to, until};
use crate::cli::{run, tidegate};

fn explain(server: &Process, url: &str) -> Value {
    server.call("GET", &format!("/v1/edge/explain?url={url}"), &Value::Null)
}

#[test]
fn a_worker_explains_why_it_answers_as_it_does() {
    let rules = Rules::new();
    let server = Process::serve(&rules.url(), &[]);
    server.applied_rule(
        "docs",
        json!({"path": "/docs/*", "appendRest": true, "destination": "https://to.example/manual"}),
    );
    server.applied_rule(
        "start",
        json!({"path": "/docs/start", "enabled": false, "destination": "https://to.example/s"}),
    );
    server.applied_rule(
        "few",
        json!({"path": "/few", "maxClicks": 1, "destination": "https://to.example/few"}),
    );
    let by_folder = explain(&server, "https://WWW.example.com/docs/start?x");
    assert_eq!((&by_folder["host"], &by_folder["path"]), (&json!("www.example.com"), &json!("/docs/start")));
    assert_eq!((&by_folder["rule"], &by_folder["source"]), (&json!("docs"), &json!("prefix")), "{by_folder}");
    assert_eq!(by_folder["answer"]["location"], "https://to.example/manual/start");
    assert!(
        by_folder["steps"]
            .to_string()
            .contains("passed over: it is turned off or has not started: \\\"start\\\""),
        "{by_folder}"
    );
    let nothing = explain(&server, "h/none");
    assert_eq!(
        (&nothing["answer"]["status"], &nothing["source"]),
        (&json!(404), &json!("filter")),
        "{nothing}"
    );
    for _ in 0..3 {
        let few = explain(&server, "h/few");
        assert_eq!((&few["answer"]["status"], &few["rule"]), (&json!(302), &json!("few")), "{few}");
    }
    assert_eq!(server.get("h", "/few").status, 302, "explanations spend nothing");
    let wrong = exchange(server.api(), "GET", "t", "/v1/edge/explain?url=/docs", "");
    assert_eq!(wrong.status, 400);
    assert!(wrong.body.contains("has no host"), "{wrong:?}");

    let url = format!("http://{}", server.api());
    let (code, out, err) =
        run(tidegate(&["edge", "explain", "https://www.example.com/docs/start", "--server", &url]));
    assert_eq!((code, err.as_str()), (0, ""), "{out}");
    assert!(
        out.starts_with("www.example.com/docs/start: 302 to https://to.example/manual/start by docs\n"),
        "{out}"
    );
    assert!(out.ends_with("from: prefix\n"), "{out}");
    let (code, out, _) = run(tidegate(&["edge", "explain", "h/none", "--server", &url]));
    assert_eq!((code, out.lines().next()), (1, Some("h/none: 404")));
}

/// The report of the document that redirects come from.
#[test]
fn the_cache_is_reported_to_programs_and_to_people() {
    let rules = Rules::new();
    let more =
        ["--set", "edge.max_memory_mb=1", "--set", "edge.eviction_batch=50", "--set", "edge.name=here"];
    let server = Process::serve(&rules.url(), &more);
    let bulk: Vec<_> = (0..6000)
        .map(|number| {
            let path = format!("/{number}-{}", "x".repeat(100));
            json!({"upsert": {"id": format!("r{number}"), "path": path, "destination": format!("https://to.example/{}", "y".repeat(100))}})
        })
        .collect();
    for some in bulk.chunks(500) {
        server.call("POST", "/v1/rules/bulk", &json!(some));
    }
    server.applied_rule("folder", to("/docs/*", "https://to.example/"));
    // With so little room there is none for all that comes while a larger filter is made.
    let report = || server.call("GET", "/v1/edge/cache", &Value::Null);
    until("the filter has grown", || report()["progress"]["loaded"] == true);
    let cache = report();
    let number = |name: &str| cache[name].as_u64().unwrap();
    assert_eq!(
        (&cache["worker"], number("max_bytes"), number("folders")),
        (&json!("here"), 1 << 20, 1),
        "{cache}"
    );
    assert!(number("bytes") <= number("peak_bytes") && number("peak_bytes") <= 1 << 20, "{cache}");
    assert!(number("items") > 100 && number("items") < 6000, "{cache}");
    assert!(number("evictions") > 0 && number("items_evicted") >= 50, "{cache}");
    assert!(cache["last_eviction"].as_str().unwrap().ends_with('Z'), "{cache}");
    assert_eq!(
        (&cache["progress"]["rules"], &cache["progress"]["loaded"]),
        (&json!(6001), &json!(true)),
        "{cache}"
    );
    // Those that have left are there all the same.
    for number in [0, 1, 2999, 5999] {
        assert_eq!(server.get("h", &format!("/{number}-{}", "x".repeat(100))).status, 302, "{number}");
    }
    let url = format!("http://{}", server.api());
    let (code, out, err) = run(tidegate(&["edge", "report", "--server", &url]));
    assert_eq!((code, err.as_str()), (0, ""));
    let lines: Vec<_> = out.lines().collect();
    assert!(lines[0].starts_with("┌─ cache of here ─"), "{out}");
    assert!(out.contains(" MiB of 1.0 MiB ") || out.contains(" KiB of 1.0 MiB "), "{out}");
    assert!(out.contains("│            rules       6,001"), "{out}");
    let width = |line: &str| line.chars().count();
    assert!(lines.iter().all(|line| width(line) == width(lines[0])), "{out}");
    let (code, out, _) = run(tidegate(&["edge", "report", "--server", &url, "--json"]));
    assert_eq!(code, 0);
    assert_eq!(serde_json::from_str::<Value>(&out).unwrap()["worker"], "here");
}

#[test]
fn links_that_are_redirected_are_hot() {
    let rules = Rules::new();
    let server = Process::serve(&rules.url(), &[]);
    server.applied_rule("docs", to("/docs/*", "https://to.example/"));
    for _ in 0..5 {
        server.get("H.example:80", "/docs/hot");
    }
    server.get("h.example", "/docs/warm");
    exchange(server.redirects(), "HEAD", "h.example", "/docs/asked", "");
    server.get("h.example", "/none");
    let long = format!("/docs/{}", "x".repeat(1000));
    server.get("h.example", &long);
    let hot =
        || server.call("GET", "/v1/edge/hot?limit=10", &Value::Null)["links"].as_array().unwrap().clone();
    until("counted", || hot().len() == 3);
    let hot = hot();
    assert_eq!((&hot[0]["link"], &hot[0]["redirects"]), (&json!("h.example/docs/hot"), &json!(5)), "{hot:?}");
    let links: Vec<_> = hot.iter().map(|it| it["link"].as_str().unwrap()).collect();
    assert!(links.contains(&"h.example/docs/warm"), "{links:?}");
    assert!(
        links.iter().any(|it| it.len() < 256 && it.starts_with("h.example/docs/xxx") && it.contains('~')),
        "{links:?}"
    );
}

#[test]
fn what_a_worker_does_is_counted() {
    let rules = Rules::new();
    let server = Process::serve(&rules.url(), &[]);
    server.applied_rule("a", to("/a", "https://to.example/"));
    server.get("h", "/a");
    server.get("h", "/none");
    let metrics = exchange(server.api(), "GET", "t", "/metrics", "").body;
    for line in [
        "tidegate_edge_hits_total 1",
        "tidegate_edge_not_found_by_filter_total 1",
        "tidegate_edge_responses_total{status=\"3xx\"} 1",
        "tidegate_edge_responses_total{status=\"4xx\"} 1",
        "tidegate_edge_connected 1",
        "tidegate_edge_rules 1",
    ] {
        assert!(metrics.lines().any(|it| it == line), "{line} in {metrics}");
    }
}

/// A server that redirects nobody says so.
#[test]
fn there_is_nothing_to_say_without_redirects() {
    let server = Process::start(1, &["serve", "--listen", "127.0.0.1:0"]);
    for path in ["/v1/edge/cache", "/v1/edge/explain?url=h/a", "/v1/edge/owner?url=h/a", "/v1/edge/hot"] {
        let answer = exchange(server.api(), "GET", "t", path, "");
        assert_eq!(answer.status, 404, "{path}");
        assert!(answer.body.contains("urn:tidegate:problem:no-redirects"), "{answer:?}");
    }
}

/// Rules for folders have a part of the memory. A worker that has no room for them says so, and asks for what it has not.
#[test]
fn rules_for_folders_that_do_not_fit_are_told_of_and_asked_for() {
    let rules = Rules::new();
    let origin = Process::start(1, &["serve", "--listen", "127.0.0.1:0", "--rules", &rules.url()]);
    let upsert = |number: u64| json!({"upsert": {"id": format!("f{number}"), "path": format!("/folder-{number}/*"), "appendRest": true, "destination": format!("https://to.example/{number}")}});
    origin.call("POST", "/v1/rules/bulk", &json!((0..500).map(upsert).collect::<Vec<_>>()));
    let worker = Process::edge(origin.api(), &["--set", "edge.max_prefix_bytes=4096"]);
    let cache = || worker.call("GET", "/v1/edge/cache", &Value::Null);
    until("read", || cache()["progress"]["rules"] == 500);
    let items = cache()["items"].as_u64().unwrap();
    assert!(items > 0 && items < 100, "{items}: only what fits is in memory");
    let readyz = exchange(worker.api(), "GET", "t", "/readyz", "");
    assert_eq!(readyz.status, 503);
    assert!(readyz.body.contains("rules for folders do not fit into their part of the memory"), "{readyz:?}");
    for number in 0..500 {
        let location = worker.location("h", &format!("/folder-{number}/x"));
        assert_eq!(location, Some(format!("https://to.example/{number}/x")));
    }
    assert_eq!(worker.get("h", "/none").status, 404);
}

/// One line of the log for each round of evictions, unless the setting says otherwise.
#[test]
fn evictions_are_logged_as_the_setting_says() {
    let rules = Rules::new();
    let origin = Process::start(1, &["serve", "--listen", "127.0.0.1:0", "--rules", &rules.url()]);
    let upsert = |number: u64| json!({"upsert": {"id": format!("r{number}"), "path": format!("/{number}"), "destination": format!("https://to.example/{}", "x".repeat(3000))}});
    for (name, is_logged) in [("true", true), ("false", false)] {
        let mut command = tidegate(&[
            "edge",
            "--origin",
            &format!("http://{}", origin.api()),
            "--listen",
            "127.0.0.1:0",
            "--edge-listen",
            "127.0.0.1:0",
        ]);
        command.env("CACHE_MAX_HEAP_MB", "1").env("CACHE_METRICS", name);
        let worker = Process::spawn(2, command).loaded();
        let changed = |number: u64| upsert(number + if is_logged { 0 } else { 1000 });
        origin.call("POST", "/v1/rules/bulk", &json!((0..500).map(changed).collect::<Vec<_>>()));
        let evictions = || worker.call("GET", "/v1/edge/cache", &Value::Null)["evictions"].as_u64().unwrap();
        until("evicted", || evictions() > 3);
        let log = worker.stop();
        let lines = log.matches("rules have left to make room for others").count();
        assert_eq!(lines > 3, is_logged, "{name}: {log}");
    }
}
