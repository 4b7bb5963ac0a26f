//! What is counted of a space of hot pages.

use super::edit::EventKind;
#[cfg(feature = "redis")]
use super::gather::Loss;
use crate::metrics::{Counter, Gauge, Metrics};

/// Handles of one space.
#[derive(Debug, Clone)]
pub(crate) struct HotMetrics {
    pub(super) activity: Counter,
    pub(super) promoted: Counter,
    pub(super) rejected: Counter,
    pub(super) expired: Counter,
    pub(super) cleanups: Counter,
    pub(super) tracked: Gauge,
    pub(super) activities: Gauge,
    pub(super) dropped: Counter,
    pub(super) unknown: Counter,
    pub(super) corrupt: Counter,
    /// In the order of `EventKind::OF_PAGES`.
    pub(super) events: [Counter; EventKind::OF_PAGES.len()],
}

impl HotMetrics {
    /// Those of `space`.
    pub(crate) fn new(metrics: &Metrics, space: &str) -> Self {
        let labels = [("space", space)];
        let counter = |name, help| metrics.counter(name, help, &labels);
        let gauge = |name, help| metrics.gauge(name, help, &labels);
        Self {
            activity: counter("activity_counter", "Edits of pages that are not hot"),
            promoted: counter("hot_pages_promoted", "Pages that became hot"),
            rejected: counter("promotion_rejected", "Pages there was no room for"),
            expired: counter("hot_pages_expired", "Pages that are not hot any more"),
            cleanups: counter("cleanup_runs", "Cleanups completed"),
            tracked: gauge("hot_pages_tracked", "Hot pages at the last cleanup"),
            activities: gauge(
                "tidegate_hot_activities",
                "Pages that are not hot and remembered, at the last cleanup",
            ),
            dropped: counter("tidegate_hot_dropped_edits", "Edits lost while the store was away"),
            unknown: counter(
                "tidegate_hot_unknown_edits",
                "Edits that the store was sent and did not answer in time",
            ),
            corrupt: counter(
                "tidegate_hot_corrupt_edits",
                "Edits of pages whose keys in the store cannot be read",
            ),
            events: EventKind::OF_PAGES.map(|kind| {
                let labels = [("space", space), ("kind", kind.as_str())];
                metrics.counter("tidegate_hot_events", "What happened to pages, by kind", &labels)
            }),
        }
    }
}

/// Handles of a space whose counts are gathered.
#[cfg(feature = "redis")]
#[derive(Debug, Clone)]
pub(crate) struct GatherMetrics {
    pub(super) waiting: Gauge,
    /// Batches that the store counted, that it had counted before, and that it did not answer for.
    pub(super) counted: Counter,
    pub(super) repeated: Counter,
    pub(super) failed: Counter,
    dropped_counts: Counter,
    unknown_counts: Counter,
    failed_counts: Counter,
}

#[cfg(feature = "redis")]
impl GatherMetrics {
    /// Those of `space`.
    pub(crate) fn new(metrics: &Metrics, space: &str) -> Self {
        let batches = |outcome| {
            let labels = [("space", space), ("outcome", outcome)];
            metrics.counter(
                "tidegate_hot_flushes",
                "Batches of gathered counts, by what became of them",
                &labels,
            )
        };
        let lost = |why| {
            let labels = [("space", space), ("why", why)];
            metrics.counter("tidegate_hot_lost_counts", "Gathered counts that were lost", &labels)
        };
        Self {
            waiting: metrics.gauge(
                "tidegate_hot_gathered_pages",
                "Pages whose counts wait to be sent, after the last flush",
                &[("space", space)],
            ),
            counted: batches("counted"),
            repeated: batches("repeated"),
            failed: batches("failed"),
            dropped_counts: lost("dropped"),
            unknown_counts: lost("unknown"),
            failed_counts: lost("failed"),
        }
    }

    pub(super) fn lost(&self, loss: Loss, counts: u64) {
        match loss {
            Loss::Dropped => self.dropped_counts.inc_by(counts),
            Loss::Unknown => self.unknown_counts.inc_by(counts),
            Loss::Failed => self.failed_counts.inc_by(counts),
        };
    }
}
