//! The alert rules in `deploy/prometheus`: they are rules, they fire when they should, and
//! what they read is there.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::Command;

use tidegate::testkit::RedisServer;

use crate::cli::run;
use crate::support::{Fixture, START, settings};

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../deploy/prometheus")
}

fn promtool(args: &[&str]) -> (i32, String, String) {
    let mut command = Command::new("promtool");
    command.args(args).current_dir(folder());
    run(command)
}

#[test]
fn the_rules_are_rules() {
    let (code, out, err) = promtool(&["check", "rules", "alerts.yaml"]);
    assert_eq!(code, 0, "{out} {err}");
    let rules = std::fs::read_to_string(folder().join("alerts.yaml")).unwrap();
    let alerts = rules.matches("- alert: ").count();
    assert!(alerts >= 4 && out.contains(&format!("SUCCESS: {alerts} rules found")), "{out}");
}

#[test]
fn they_fire_when_they_should() {
    let (code, out, err) = promtool(&["test", "rules", "alerts_test.yaml"]);
    assert_eq!(code, 0, "{out} {err}");
    assert!(out.contains("SUCCESS"), "{out}");
}

/// Names of metrics in the expressions of the rules.
fn metrics_read(rules: &str) -> BTreeSet<&str> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let words = rules.split(|c| !is_name(c));
    let is_metric = |word: &&str| {
        let starts = ["tidegate_store_", "tidegate_session_", "tidegate_run_", "orphan_", "disconnected_"];
        starts.iter().any(|start| word.starts_with(start))
    };
    words.filter(is_metric).collect()
}

#[tokio::test]
async fn what_they_read_is_exported() {
    let redis = RedisServer::start();
    let () =
        redis::cmd("CONFIG").arg("SET").arg("maxmemory").arg(1 << 30).query(&mut redis.connection()).unwrap();
    let settings = settings("runs", &["main.max_runs=10"]);
    let f = Fixture::of(&redis.url(), &settings, START).await;
    for (method, path) in [
        ("POST", "/v1/sessions/main/cleanup"),
        ("PUT", "/v1/runs/main/runs/nightly"),
        ("PUT", "/v1/runs/main/quota/charges/1"),
    ] {
        let answer = f.call(method, path, "").await;
        assert!(answer.status.is_success(), "{path}: {answer:?}");
    }
    let metrics = f.get("/metrics").await.body;
    let rules = std::fs::read_to_string(folder().join("alerts.yaml")).unwrap();
    let read = metrics_read(&rules);
    assert!(read.len() >= 16, "{read:?}");
    for metric in read {
        let is_exported = ["{", " "].iter().any(|next| metrics.contains(&format!("\n{metric}{next}")));
        assert!(is_exported, "{metric}: {metrics}");
    }
}
