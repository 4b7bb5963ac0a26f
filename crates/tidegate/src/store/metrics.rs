//! What is counted of a store, wherever it is: one in this process is never asked.

use std::time::Duration;

use super::health::StoreHealth;
use crate::metrics::{Buckets, Counter, Histogram, Metrics, Reading, SECONDS};
use crate::outage::OutageReason;

/// Handles of one store.
#[derive(Debug, Clone)]
pub(crate) struct StoreMetrics {
    /// Where they are found.
    pub(crate) all: Metrics,
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

/// What is known of a store's health, as metrics.
pub(crate) fn read(health: &StoreHealth, reading: &mut Reading) {
    reading.counter("tidegate_store_calls", "Calls to the store", &[], health.operations);
    let help = "1 while the store is healthy, 0 after too many failures in a row";
    reading.gauge("tidegate_store_healthy", help, &[], u64::from(health.is_healthy()));
    let help = "Failures in a row to reach a server";
    reading.gauge("tidegate_store_consecutive_failures", help, &[], health.consecutive_failures.into());
    let help = "Connections tried";
    reading.counter("tidegate_store_connection_attempts", help, &[], health.connection_attempts);
    let help = "Connections that could not be made, or were silent from the beginning";
    reading.counter("tidegate_store_connection_failures", help, &[], health.connection_failures);
    for part in &health.parts {
        let labels = &[("part", part.part.as_str())];
        reading.counter("tidegate_store_operations", "Calls to the store, by part", labels, part.operations);
        let help = "Calls without an answer, by part";
        reading.counter("tidegate_store_operation_failures", help, labels, part.failures);
        let help = "Time per call of the last minutes, on average";
        if let Some(average) = part.response_times.average {
            reading.seconds("tidegate_store_response_average_seconds", help, labels, average);
        }
        let help = "Time that 99 of 100 calls of the last minutes did not exceed";
        if let Some(p99) = part.response_times.p99 {
            reading.seconds("tidegate_store_response_p99_seconds", help, labels, p99);
        }
    }
    for memory in &health.memory {
        let labels = &[("server", memory.server.as_str())];
        reading.gauge("tidegate_store_memory_bytes", "Memory that a server uses", labels, memory.used_bytes);
        if let Some(most) = memory.max_bytes {
            reading.gauge("tidegate_store_memory_max_bytes", "Memory that a server may use", labels, most);
        }
    }
    if let Some(peak) = health.peak_hour {
        let help = "Calls in the hour of the last 24 that had the most";
        reading.gauge("tidegate_store_peak_hour_operations", help, &[], peak.operations);
        let help = "When that hour began";
        let began = peak.hour.starts_at().as_millis() / 1000;
        reading.gauge("tidegate_store_peak_hour_timestamp_seconds", help, &[], began);
    }
}
