//! How fast all rules are read at once.

use anyhow::Result;
use tidegate::clock::monotonic;
use tidegate_edge::truth::Fields;

use super::rules::filled;
use crate::progress;
use crate::report::Figure;
use crate::rounds::{Effort, Samples};

/// Rules per second, whole and their keys alone.
pub(super) async fn figures(effort: Effort) -> Result<Vec<Figure>> {
    progress("edge.snapshot_rules_per_s");
    let count = effort.pick(50_000, 1_000_000);
    let (_folder, truth) = filled(count).await?;
    let mut samples = Samples::new();
    for round in 0..=effort.pick(5, 15) {
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
    Ok(vec![
        Figure::ours("edge.snapshot_rules_per_s", "rules/s", all),
        Figure::ours("edge.snapshot_rules_per_s.keys", "rules/s", keys),
    ])
}
