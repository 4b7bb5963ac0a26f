//! What is counted of a database of rules.

use std::time::Instant;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;
use tidegate::clock::monotonic;

use super::import::{ImportOutcome, ImportReport};
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

/// What becomes of imports: `failed` are those that could not be read, or for which the database could not be had.
const IMPORT_OUTCOMES: [&str; 5] = ["written", "unchanged", "dry_run", "refused", "failed"];

/// What becomes of rules by imports that were written.
const IMPORTED: [&str; 3] = ["created", "updated", "deleted"];

/// Handles of one database. Clones are one.
#[derive(Debug, Clone)]
pub(super) struct TruthMetrics {
    changes: Family<[(&'static str, &'static str); 1], Counter>,
    group_changes: Histogram,
    commit_seconds: Histogram,
    imports: Family<[(&'static str, &'static str); 1], Counter>,
    imported: Family<[(&'static str, &'static str); 1], Counter>,
    import_seconds: Histogram,
    resolutions: Counter,
    snapshots: Counter,
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
        Self {
            changes: by_outcome(&OUTCOMES),
            group_changes: Histogram::new(exponential_buckets(1.0, 2.0, 11)),
            // From 100 us to 1.6 s.
            commit_seconds: Histogram::new(exponential_buckets(0.000_1, 4.0, 8)),
            imports: by_outcome(&IMPORT_OUTCOMES),
            imported: by_outcome(&IMPORTED),
            // From 10 ms to 11 min.
            import_seconds: Histogram::new(exponential_buckets(0.01, 4.0, 9)),
            resolutions: Counter::default(),
            snapshots: Counter::default(),
            rules: Gauge::default(),
            seq: Gauge::default(),
        }
    }
}

/// A counter for each, which are there before anything has happened.
fn by_outcome(outcomes: &[&'static str]) -> Family<[(&'static str, &'static str); 1], Counter> {
    let counters = Family::<[(&str, &str); 1], Counter>::default();
    for outcome in outcomes {
        drop(counters.get_or_create(&[("outcome", *outcome)]));
    }
    counters
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

    /// What became of an import that was asked for then.
    pub(super) fn imported(&self, since: Instant, imported: &Result<ImportReport>) {
        self.import_seconds.observe(since.elapsed().as_secs_f64());
        let outcome = imported.as_ref().map_or("failed", |report| report.outcome.as_str());
        self.imports.get_or_create(&[("outcome", outcome)]).inc();
        let Ok(report) = imported else { return };
        if report.outcome == ImportOutcome::Written {
            for (outcome, count) in IMPORTED.into_iter().zip([report.created, report.changed, report.deleted])
            {
                self.imported.get_or_create(&[("outcome", outcome)]).inc_by(count);
            }
        }
    }

    /// Somebody asks which rule answers.
    pub(super) fn resolves(&self) {
        self.resolutions.inc();
    }

    /// All rules are read.
    pub(super) fn reads_all(&self) {
        self.snapshots.inc();
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
        let imports = "Imports that this process was asked for, by what became of them";
        registry.register("tidegate_rules_imports", imports, self.imports.clone());
        let imported = "Rules that imports have changed, by what became of them";
        registry.register("tidegate_rules_imported", imported, self.imported.clone());
        let import_seconds = "Time that an import took, with what it waited for: its turn, and its file";
        registry.register("tidegate_rules_import_seconds", import_seconds, self.import_seconds.clone());
        let resolutions = "Questions which rule answers a request";
        registry.register("tidegate_rules_resolutions", resolutions, self.resolutions.clone());
        let snapshots = "Times that all rules were read, for all who asked at about that time";
        registry.register("tidegate_rules_snapshots", snapshots, self.snapshots.clone());
        registry.register("tidegate_rules", "Rules there are", self.rules.clone());
        registry.register("tidegate_rules_seq", "The number of the last change of rules", self.seq.clone());
    }
}
