//! What is counted of a store, wherever it is: one in this process is never asked.

use std::time::Duration;

use crate::metrics::{Buckets, Counter, Histogram, Metrics, SECONDS};
use crate::outage::OutageReason;

/// Handles of one store.
#[derive(Debug, Clone)]
pub(crate) struct StoreMetrics {
    /// Where they are found.
    pub(crate) all: Metrics,
    pub(crate) calls: Counter,
    /// By reason, in order, and one for what has none.
    failed: [Counter; OutageReason::ALL.len() + 1],
    pub(crate) losses: Counter,
    batch_calls: Histogram,
    round_trip_seconds: Histogram,
}

impl Default for StoreMetrics {
    fn default() -> Self {
        let all = Metrics::default();
        let failed = std::array::from_fn(|number| {
            let reason = OutageReason::ALL.get(number).map_or("other", |reason| reason.as_str());
            let help = "Calls without an answer, by why";
            all.counter("tidegate_store_failed_calls", help, &[("reason", reason)])
        });
        let calls = Buckets { first: 1.0, factor: 2.0, count: 7 };
        Self {
            calls: all.counter("tidegate_store_calls", "Calls to the store", &[]),
            failed,
            losses: all.counter("tidegate_store_losses", "Restarts, failovers and flushes seen", &[]),
            batch_calls: all.histogram("tidegate_store_batch_calls", "Calls per round trip", &[], calls),
            round_trip_seconds: all.histogram(
                "tidegate_store_round_trip_seconds",
                "Time per round trip",
                &[],
                SECONDS,
            ),
            all,
        }
    }
}

impl StoreMetrics {
    pub(crate) fn batch(&self, calls: usize, took: Duration) {
        self.batch_calls.observe(calls as f64);
        self.round_trip_seconds.observe(took.as_secs_f64());
    }

    /// Counts a call without an answer.
    pub(crate) fn failed(&self, reason: Option<OutageReason>) {
        self.failed[reason.map_or(OutageReason::ALL.len(), |reason| reason as usize)].inc();
    }
}
