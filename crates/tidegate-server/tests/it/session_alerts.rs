//! The alert rules in `deploy/prometheus`: they are rules, they fire when they should, and
//! what they read is there.

use std::path::PathBuf;
use std::process::Command;

use crate::cli::run;
use crate::support::serving_sessions;

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

#[tokio::test]
async fn what_they_read_is_exported() {
    let f = serving_sessions(&[]).await;
    f.post("/v1/sessions/main/cleanup", "").await;
    let metrics = f.get("/metrics").await.body;
    let rules = std::fs::read_to_string(folder().join("alerts.yaml")).unwrap();
    let metrics_read = [
        "disconnected_sessions_count",
        "orphan_cleanup_duration_seconds_bucket",
        "tidegate_session_reap_lag_seconds",
        "tidegate_session_dead",
        "tidegate_session_held_partitions",
        "tidegate_session_holds_total",
    ];
    let partitions_away = "tidegate_store_partitions_away";
    assert!(
        rules.contains(partitions_away) && metrics.contains(&format!("\n{partitions_away} ")),
        "{metrics}"
    );
    for metric in metrics_read {
        assert!(rules.contains(metric), "{rules}");
        assert!(metrics.contains(&format!("\n{metric}{{")), "{metric}: {metrics}");
    }
}
