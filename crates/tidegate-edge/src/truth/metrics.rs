//! What is counted of a database of rules.

use std::time::Instant;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;
use tidegate::clock::monotonic;

use super::types::{Change, Outcome, Position};
use crate::error::Result;

/// What becomes of changes: `failed` are those of which nobody knows, or for which there was no room.
const OUTCOMES: [&str; 10] = [
    "created",
    "updated",
    "deleted",
    "unchanged",
    "unknown",
    "exists",
    "path_taken",
    "changed",
    "invalid",
    "failed",
];

/// Handles of one database. Clones are one.
#[derive(Debug, Clone)]
pub(super) struct TruthMetrics {
    changes: Family<[(&'static str, &'static str); 1], Counter>,
    group_changes: Histogram,
    commit_seconds: Histogram,
    rules: Gauge,
    seq: Gauge,
}

/// Changes that are being written.
pub(super) struct GroupUnderWay {
    since: Instant,
    /// Of each, whether it is a deletion.
    deletions: Vec<bool>,
}

impl Default for TruthMetrics {
    fn default() -> Self {
        let changes = Family::<[(&str, &str); 1], Counter>::default();
        for outcome in OUTCOMES {
            drop(changes.get_or_create(&[("outcome", outcome)]));
        }
        Self {
            changes,
            group_changes: Histogram::new(exponential_buckets(1.0, 2.0, 11)),
            // From 100 us to 1.6 s.
            commit_seconds: Histogram::new(exponential_buckets(0.000_1, 4.0, 8)),
            rules: Gauge::default(),
            seq: Gauge::default(),
        }
    }
}

impl TruthMetrics {
    /// A group is about to be written.
    pub(super) fn begin(&self, changes: &[Change]) -> GroupUnderWay {
        let deletions = changes.iter().map(|it| matches!(it, Change::Delete { .. })).collect();
        GroupUnderWay { since: monotonic(), deletions }
    }

    /// What became of it.
    pub(super) fn end(&self, group: GroupUnderWay, committed: &Result<Vec<Outcome>>) {
        self.commit_seconds.observe(group.since.elapsed().as_secs_f64());
        self.group_changes.observe(group.deletions.len() as f64);
        let count = |outcome: &'static str, count: usize| {
            self.changes.get_or_create(&[("outcome", outcome)]).inc_by(count as u64);
        };
        let Ok(outcomes) = committed else { return count("failed", group.deletions.len()) };
        for (outcome, is_deletion) in outcomes.iter().zip(group.deletions) {
            let word = match outcome {
                Err(refusal) => refusal.as_str(),
                Ok(written) if written.seq.is_none() => "unchanged",
                Ok(_) if is_deletion => "deleted",
                Ok(written) if written.is_new => "created",
                Ok(_) => "updated",
            };
            count(word, 1);
        }
    }

    /// Somebody has asked.
    pub(super) fn stands_at(&self, position: &Position) {
        self.rules.set(position.count as i64);
        self.seq.set(position.seq.0 as i64);
    }

    pub(super) fn register(&self, registry: &mut Registry) {
        let changes = "Changes of rules that this process was asked for, by what became of them";
        registry.register("tidegate_rules_changes", changes, self.changes.clone());
        let group = "Changes that were written together";
        registry.register("tidegate_rules_group_changes", group, self.group_changes.clone());
        let commit = "Time that a group of changes took to be written";
        registry.register("tidegate_rules_commit_seconds", commit, self.commit_seconds.clone());
        registry.register("tidegate_rules", "Rules there are", self.rules.clone());
        registry.register("tidegate_rules_seq", "The number of the last change of rules", self.seq.clone());
    }
}
