//! What is counted of a worker.

use prometheus_client::metrics::counter::Counter;
use prometheus_client::registry::Registry;

/// Counters of a worker. Clones are one.
#[derive(Debug, Clone, Default)]
pub(crate) struct WorkerMetrics {
    pub(crate) hits: Counter,
    pub(crate) misses: Counter,
    pub(crate) filtered: Counter,
    pub(crate) unavailable: Counter,
    pub(crate) fetches: Counter,
    pub(crate) fetch_failures: Counter,
    pub(crate) blocks: Counter,
    pub(crate) changes: Counter,
    pub(crate) resyncs: Counter,
    pub(crate) repairs: Counter,
    pub(crate) growths: Counter,
}

impl WorkerMetrics {
    pub(crate) fn register(&self, registry: &mut Registry) {
        let registry = registry.sub_registry_with_prefix("tidegate_edge");
        let mut counter =
            |name: &str, help: &str, counter: &Counter| registry.register(name, help, counter.clone());
        counter("hits", "Requests answered by a rule in memory", &self.hits);
        counter("misses", "Requests whose rule had to be asked for", &self.misses);
        counter("not_found_by_filter", "Requests answered 404 without asking", &self.filtered);
        counter("unavailable", "Requests that needed what could not be had", &self.unavailable);
        counter("fetches", "Questions to the rules' database for one rule", &self.fetches);
        counter("fetch_failures", "Questions that were not answered", &self.fetch_failures);
        counter("blocks", "Questions for permits of rules with so many clicks", &self.blocks);
        counter("changes", "Changes applied", &self.changes);
        counter("resyncs", "Times that all rules were read anew because the stream said so", &self.resyncs);
        counter(
            "repairs",
            "Times that all rules were read anew because they differed from the database",
            &self.repairs,
        );
        counter("filter_growths", "Times that the filter was made anew", &self.growths);
    }
}
