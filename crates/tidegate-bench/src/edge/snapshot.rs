//! How fast all rules are read at once.

use anyhow::Result;
use tidegate::clock::monotonic;
use tidegate_edge::truth::{Fields, Truth};

use super::rules::{filled, filled_file};
use crate::postgres_server::PostgresServer;
use crate::progress;
use crate::report::Figure;
use crate::rounds::{Effort, Samples};

/// Rules per second, whole and their keys alone, from a file and from PostgreSQL.
pub(super) async fn figures(effort: Effort, wants: impl Fn(&str) -> bool) -> Result<Vec<Figure>> {
    let count = effort.pick(50_000, 1_000_000);
    let mut figures = Vec::new();
    if wants("edge.snapshot_rules_per_s.sqlite") {
        progress("edge.snapshot_rules_per_s.sqlite");
        let (_folder, truth) = filled_file(count).await?;
        figures.extend(of(&truth, "sqlite", count, effort).await?);
    }
    if wants("edge.snapshot_rules_per_s.postgres") {
        progress("edge.snapshot_rules_per_s.postgres");
        let server = PostgresServer::start()?;
        let truth = filled(&server.database("rules").await?, count).await?;
        figures.extend(of(&truth, "postgres", count, effort).await?);
    }
    Ok(figures)
}

async fn of(truth: &Truth, database: &str, count: usize, effort: Effort) -> Result<[Figure; 2]> {
    let mut samples = Samples::new();
    for round in 0..=effort.pick(5, 7) {
        let mut sample = [0.0; 2];
        for (per_s, fields) in sample.iter_mut().zip([Fields::All, Fields::Keys]) {
            let start = monotonic();
            truth.snapshot(fields).await?;
            *per_s = count as f64 / start.elapsed().as_secs_f64();
        }
        if round > 0 {
            samples.push(sample);
        }
    }
    let [all, keys] = samples.medians();
    let name = format!("edge.snapshot_rules_per_s.{database}");
    let keys_name = format!("{name}.keys");
    Ok([Figure::ours(&name, "rules/s", all), Figure::ours(&keys_name, "rules/s", keys)])
}
