//! `/metrics`: in forms that their readers accept.

use std::io::Write as _;
use std::process::{Command, Stdio};

use axum::body::Body;
use axum::http::Request;
use tidegate::clock::SystemClock;
use tidegate_server::http::router;

use crate::support::{Answer, Fixture, call, send, serving};

async fn metrics(f: &Fixture, accept: Option<&str>) -> Answer {
    let mut request = Request::get("/metrics");
    if let Some(accept) = accept {
        request = request.header("accept", accept);
    }
    send(router(f.app.clone()), request.body(Body::empty()).unwrap()).await
}

/// A server with two of everything that has been used.
async fn used() -> Fixture {
    let f = serving(&["api.rate=5/s", "other.algorithm=token"]).await;
    for path in ["/v1/limits/api/take", "/v1/limits/other/take"] {
        assert_eq!(f.post(path, r#"{"key":"a \" \\ \n {}"}"#).await.status, 200);
    }
    for id in 0..5 {
        f.post("/v1/hot/main/edits", &format!(r#"{{"page":"p","id":"{id}"}}"#)).await;
    }
    assert_eq!(f.post("/v1/hot/main/cleanup", "").await.status, 200);
    f.post("/v1/sessions/main", r#"{"broadcaster":"b","config":{}}"#).await;
    assert_eq!(f.post("/v1/sessions/main/cleanup", "").await.status, 200);
    f
}

#[tokio::test]
async fn the_text_format_is_for_all_who_do_not_accept_open_metrics() {
    let f = used().await;
    for accept in [None, Some("*/*"), Some("text/plain;version=0.0.4"), Some("text/html")] {
        let answer = metrics(&f, accept).await;
        let media_type = answer.header("content-type").unwrap();
        assert_eq!(media_type, "text/plain; version=0.0.4; charset=utf-8", "{accept:?}");
        assert!(!answer.body.contains("# EOF") && !answer.body.contains("# UNIT"), "{}", answer.body);
        assert!(answer.body.contains("# TYPE tidegate_limit_decisions_total counter\n"), "{}", answer.body);
    }
    let answer = metrics(&f, Some("application/openmetrics-text;version=1.0.0,text/plain;q=0.5")).await;
    let media_type = answer.header("content-type").unwrap();
    assert_eq!(media_type, "application/openmetrics-text; version=1.0.0; charset=utf-8");
    assert!(answer.body.ends_with("# EOF\n"), "{}", answer.body);
    assert!(answer.body.contains("# TYPE tidegate_limit_decisions counter\n"), "{}", answer.body);
}

/// Names that a document gave before us, and are kept to the letter.
const GIVEN: [&str; 2] = ["activity_counter_total", "disconnected_sessions_count"];

#[tokio::test]
async fn promtool_has_nothing_against_the_metrics() {
    check(&metrics(&used().await, None).await.body);
}

/// Has promtool look at metrics.
pub(crate) fn check(text: &str) {
    let mut promtool = Command::new("promtool");
    promtool.args(["check", "metrics"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut running = promtool.spawn().expect("promtool: scripts/test installs it");
    running.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let output = running.wait_with_output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8(said).unwrap();
    let against: Vec<_> =
        said.lines().filter(|line| !GIVEN.iter().any(|name| line.starts_with(&format!("{name} ")))).collect();
    assert!(against.is_empty(), "{against:#?} of {text}");
    // It has been read to its end, and not found to be no metrics at all.
    assert!(matches!(output.status.code(), Some(0 | 3)), "{said}");
}

#[tokio::test]
async fn every_metric_is_described_once_and_has_samples_in_one_place() {
    for accept in [None, Some("application/openmetrics-text")] {
        let text = metrics(&used().await, accept).await.body;
        let mut described: Vec<_> = text.lines().filter(|line| line.starts_with("# TYPE ")).collect();
        let count = described.len();
        described.sort_unstable();
        described.dedup();
        assert_eq!(described.len(), count, "{text}");
    }
}

#[tokio::test]
async fn the_process_and_what_was_built_are_exported() {
    let f = used().await;
    let text = metrics(&f, None).await.body;
    let value = |name: &str| -> f64 {
        let line = text.lines().find(|line| line.split([' ', '{']).next() == Some(name));
        let line = line.unwrap_or_else(|| panic!("no {name} in {text}"));
        line.rsplit(' ').next().unwrap().parse().unwrap()
    };
    assert!(value("process_cpu_seconds_total") > 0.0);
    assert!(value("process_resident_memory_bytes") > 1e6);
    assert!(value("process_virtual_memory_bytes") >= value("process_resident_memory_bytes"));
    assert!((1.0..=value("process_max_fds")).contains(&value("process_open_fds")));
    let now = SystemClock::new().now().as_millis() as f64 / 1000.0;
    assert!((now - 86_400.0..=now + 1.0).contains(&value("process_start_time_seconds")));
    assert!(text.contains(&format!("tidegate_build_info{{version=\"{}\"}} 1\n", env!("CARGO_PKG_VERSION"))));
    assert_eq!(call(&f.app, "HEAD", "/metrics", "").await.body, "");
}
