//! What can be seen from outside, in the text format that Prometheus reads.
//!
//! Labels are bounded: the name of a limit or of a reaper, never a user's key.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::{ConstCounter, Counter};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

use crate::limit::Limit;

/// All metrics of one [`Tidegate`](crate::Tidegate).
#[derive(Debug, Clone)]
pub(crate) struct Metrics {
    registry: Arc<Mutex<Registry>>,
    limits: Arc<Mutex<Vec<Limit>>>,
    reapers: ReaperFamilies,
    pub(crate) store: StoreMetrics,
}

#[derive(Debug, Clone)]
struct ReaperFamilies {
    runs: Family<[(&'static str, &'static str); 1], Counter>,
    items: Family<[(&'static str, &'static str); 1], Counter>,
    failures: Family<[(&'static str, &'static str); 1], Counter>,
    seconds: Family<[(&'static str, &'static str); 1], Histogram>,
}

/// Handles of one reaper.
#[derive(Debug, Clone)]
pub(crate) struct ReaperMetrics {
    runs: Counter,
    items: Counter,
    pub(crate) failures: Counter,
    seconds: Histogram,
}

impl ReaperMetrics {
    pub(crate) fn ran(&self, items: usize, took: Duration) {
        self.runs.inc();
        self.items.inc_by(items as u64);
        self.seconds.observe(took.as_secs_f64());
    }
}

/// Handles of the store.
#[derive(Debug, Clone)]
pub(crate) struct StoreMetrics {
    pub(crate) calls: Counter,
    pub(crate) failed_calls: Counter,
    pub(crate) losses: Counter,
    pub(crate) partitions_away: Gauge,
    batch_calls: Histogram,
    round_trip_seconds: Histogram,
}

impl StoreMetrics {
    pub(crate) fn batch(&self, calls: usize, took: Duration) {
        self.batch_calls.observe(calls as f64);
        self.round_trip_seconds.observe(took.as_secs_f64());
    }
}

impl Metrics {
    /// With the handles of a store.
    pub(crate) fn new(store: StoreMetrics) -> Self {
        let mut registry = Registry::default();
        let limits = Arc::<Mutex<Vec<Limit>>>::default();
        registry.register_collector(Box::new(LimitCollector(limits.clone())));

        registry.register("tidegate_store_calls", "Calls to the store", store.calls.clone());
        registry.register(
            "tidegate_store_failed_calls",
            "Calls without an answer",
            store.failed_calls.clone(),
        );
        registry.register("tidegate_store_losses", "Restarts and failovers seen", store.losses.clone());
        registry.register(
            "tidegate_store_partitions_away",
            "Partitions whose server is away",
            store.partitions_away.clone(),
        );
        registry.register("tidegate_store_batch_calls", "Calls per round trip", store.batch_calls.clone());
        registry.register(
            "tidegate_store_round_trip_seconds",
            "Time per round trip",
            store.round_trip_seconds.clone(),
        );

        let reapers = ReaperFamilies {
            runs: Family::default(),
            items: Family::default(),
            failures: Family::default(),
            seconds: Family::new_with_constructor(seconds),
        };
        registry.register("tidegate_reaper_runs", "Runs of a background loop", reapers.runs.clone());
        registry.register("tidegate_reaper_items", "Items it handled", reapers.items.clone());
        registry.register("tidegate_reaper_failures", "Runs that failed", reapers.failures.clone());
        registry.register("tidegate_reaper_seconds", "Time per run", reapers.seconds.clone());

        Self { registry: Arc::new(Mutex::new(registry)), limits, reapers, store }
    }
}

fn seconds() -> Histogram {
    Histogram::new(exponential_buckets(0.000_1, 4.0, 8))
}

impl Default for StoreMetrics {
    fn default() -> Self {
        Self {
            calls: Counter::default(),
            failed_calls: Counter::default(),
            losses: Counter::default(),
            partitions_away: Gauge::default(),
            batch_calls: Histogram::new(exponential_buckets(1.0, 2.0, 7)),
            round_trip_seconds: seconds(),
        }
    }
}

impl Metrics {
    /// Adds metrics of others.
    pub(crate) fn register(&self, register: impl FnOnce(&mut Registry)) {
        register(&mut self.registry.lock());
    }

    /// Everything, as text.
    pub(crate) fn encode(&self) -> String {
        let mut text = String::new();
        // Writing to a String cannot fail.
        let _ = prometheus_client::encoding::text::encode(&mut text, &self.registry.lock());
        text
    }

    pub(crate) fn reaper(&self, name: &'static str) -> ReaperMetrics {
        let label = [("reaper", name)];
        ReaperMetrics {
            runs: self.reapers.runs.get_or_create(&label).clone(),
            items: self.reapers.items.get_or_create(&label).clone(),
            failures: self.reapers.failures.get_or_create(&label).clone(),
            seconds: self.reapers.seconds.get_or_create(&label).clone(),
        }
    }

    pub(crate) fn add_limit(&self, limit: Limit) {
        self.limits.lock().push(limit);
    }
}

/// Reads the limits' own counters when asked, so that counting costs a decision
/// nothing.
#[derive(Debug)]
struct LimitCollector(Arc<Mutex<Vec<Limit>>>);

#[derive(Debug, Clone, Hash, PartialEq, Eq, EncodeLabelSet)]
struct DecisionLabels {
    limit: String,
    outcome: &'static str,
    source: &'static str,
}

impl Collector for LimitCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> std::fmt::Result {
        let limits = self.0.lock();
        let mut decisions = encoder.encode_descriptor(
            "tidegate_limit_decisions",
            "Decisions by outcome and by who decided",
            None,
            MetricType::Counter,
        )?;
        for limit in limits.iter() {
            for (outcome, source, count) in limit.tallies() {
                let labels = DecisionLabels {
                    limit: limit.name().as_str().to_owned(),
                    outcome,
                    source: source.as_str(),
                };
                ConstCounter::new(count).encode(decisions.encode_family(&labels)?)?;
            }
        }
        let mut keys = encoder.encode_descriptor(
            "tidegate_limit_keys",
            "Keys held in this process",
            None,
            MetricType::Gauge,
        )?;
        for limit in limits.iter() {
            let labels = [("limit", limit.name().as_str())];
            ConstGauge::new(limit.keys_in_process() as i64).encode(keys.encode_family(&labels)?)?;
        }
        Ok(())
    }
}
