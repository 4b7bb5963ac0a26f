//! What is counted of a space of sessions.

use super::types::{Counts, Swept};
use crate::metrics::{Counter, FloatGauge, Gauge, Histogram, Metrics, SECONDS};

/// Handles of one space.
#[derive(Debug, Clone)]
pub(crate) struct SessionMetrics {
    pub(super) disconnected: Gauge,
    pub(super) seconds: Histogram,
    pub(super) deleted: Counter,
    pub(super) scanned: Counter,
    pub(super) active: Gauge,
    pub(super) claimed: Gauge,
    pub(super) dead: Gauge,
    pub(super) lag_seconds: FloatGauge,
    pub(super) lapsed: Counter,
    pub(super) buried: Counter,
    pub(super) missing: Counter,
    pub(super) invalid: Counter,
    pub(super) holds: Counter,
    pub(super) held_partitions: Gauge,
    pub(super) unrecognised: Counter,
}

impl SessionMetrics {
    /// Those of `space`.
    pub(crate) fn new(metrics: &Metrics, space: &str) -> Self {
        let labels = [("space", space)];
        let counter = |name, help| metrics.counter(name, help, &labels);
        let gauge = |name, help| metrics.gauge(name, help, &labels);
        Self {
            disconnected: gauge(
                "disconnected_sessions_count",
                "Sessions that nobody holds, at the last look",
            ),
            seconds: metrics.histogram(
                "orphan_cleanup_duration_seconds",
                "Time per cleanup",
                &labels,
                SECONDS,
            ),
            deleted: counter("orphan_sessions_deleted", "Sessions deleted"),
            scanned: counter(
                "orphan_cleanup_keys_scanned",
                "Keys looked at by migrate, reconcile and compare: nothing else scans",
            ),
            active: gauge("tidegate_session_active", "Sessions that somebody holds, at the last look"),
            claimed: gauge("tidegate_session_claimed", "Sessions being reaped, at the last look"),
            dead: gauge("tidegate_session_dead", "Sessions that were claimed too often, at the last look"),
            lag_seconds: metrics.float_gauge(
                "tidegate_session_reap_lag_seconds",
                "For how long the first orphan had been due, at the last look",
                &labels,
            ),
            lapsed: counter("tidegate_session_lapsed", "Sessions found silent"),
            buried: counter("tidegate_session_buried", "Sessions put aside after too many claims"),
            missing: counter("tidegate_session_missing_entries", "Index entries without a session, removed"),
            invalid: counter(
                "tidegate_session_invalid_entries",
                "Index entries that are no session ids, removed",
            ),
            holds: counter(
                "tidegate_session_holds",
                "Times that reaping was held, since holders could not renew",
            ),
            held_partitions: gauge(
                "tidegate_session_held_partitions",
                "Partitions in which no lease ends and nothing is reaped now",
            ),
            unrecognised: counter(
                "tidegate_session_unrecognised_keys",
                "Keys of others under the names of sessions, met while reconciling and left alone",
            ),
        }
    }

    /// What a step of the reaper did.
    pub(super) fn swept(&self, swept: &Swept) {
        self.deleted.inc_by(swept.deleted);
        self.lapsed.inc_by(swept.lapsed);
        self.buried.inc_by(swept.buried);
        self.missing.inc_by(swept.missing);
        self.invalid.inc_by(swept.invalid);
    }

    /// How late orphans were, in all partitions.
    pub(super) fn lagged(&self, swept: &Swept) {
        self.lag_seconds.set(swept.lag_ms as f64 / 1000.0);
    }

    /// How many there are.
    pub(super) fn counted(&self, counts: &Counts) {
        self.disconnected.set(counts.disconnected as i64);
        self.active.set(counts.active as i64);
        self.claimed.set(counts.claimed as i64);
        self.dead.set(counts.dead as i64);
        self.lag_seconds.set(counts.lag_ms as f64 / 1000.0);
    }
}
