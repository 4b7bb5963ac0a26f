//! What is counted of the quota of a family of runs.

use super::types::QuotaCharge;
use crate::bounds::Cost;
use crate::metrics::{Counter, Gauge, Metrics};

#[derive(Debug, Clone)]
pub(super) struct QuotaMetrics {
    charged: Counter,
    refused: Counter,
    remaining: Gauge,
}

impl QuotaMetrics {
    /// Those of the family whose keys start with `prefix`.
    pub(super) fn new(metrics: &Metrics, prefix: &str) -> Self {
        let labels = [("prefix", prefix)];
        Self {
            charged: metrics.counter("tidegate_run_quota_charged", "Calls charged to the quota", &labels),
            refused: metrics.counter("tidegate_run_quota_refused", "Charges that did not fit", &labels),
            remaining: metrics.gauge(
                "tidegate_run_quota_remaining",
                "What was left of the quota at the last charge of this process",
                &labels,
            ),
        }
    }

    pub(super) fn charged(&self, charge: &QuotaCharge, cost: Cost) {
        match charge {
            QuotaCharge::Charged { is_new, remaining } => {
                if *is_new {
                    self.charged.inc_by(cost.get());
                }
                self.remaining.set(*remaining as i64);
            }
            QuotaCharge::Refused(refusal) => {
                self.refused.inc();
                self.remaining.set(refusal.remaining as i64);
            }
            QuotaCharge::Released => {}
        }
    }
}
