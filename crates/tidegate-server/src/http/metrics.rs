//! What the server counts about itself.

use std::time::Instant;

use prometheus_client::encoding::text;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

use super::process::Process;
use crate::connection::ConnectionMetrics;
use crate::parts::Parts;

/// Connections and their responses, and times by operation.
#[derive(Debug)]
pub(crate) struct HttpMetrics {
    registry: Registry,
    pub(super) connections: ConnectionMetrics,
    seconds: Family<[(&'static str, &'static str); 1], Histogram>,
    take_seconds: Histogram,
}

impl HttpMetrics {
    /// Counts beside what `parts` count.
    pub(super) fn beside(parts: &Parts) -> Self {
        // From 50 us to 3 s.
        let new = || Histogram::new(exponential_buckets(0.000_05, 4.0, 9));
        let seconds = Family::<[(&str, &str); 1], Histogram>::new_with_constructor(new);
        let connections = ConnectionMetrics::new();
        let mut registry = Registry::default();
        parts.gate().register_metrics(&mut registry);
        if let Some(rules) = &parts.rules {
            rules.register_metrics(&mut registry);
        }
        if let Some(edge) = &parts.edge {
            edge.register_metrics(&mut registry);
        }
        registry.register_collector(Box::new(Process));
        connections.register(&mut registry, "tidegate_http");
        let help = "Time from a request's head to its answer";
        registry.register("tidegate_http_request_seconds", help, seconds.clone());
        let take_seconds = seconds.get_or_create(&[("operation", "take")]).clone();
        Self { registry, connections, seconds, take_seconds }
    }

    /// All of it as text, in the format that Prometheus reads.
    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        // Writing to a String cannot fail.
        let _ = text::encode(&mut text, &self.registry);
        text
    }

    /// Where the times of an operation go.
    pub(super) fn seconds(&self, operation: &'static str) -> Histogram {
        self.seconds.get_or_create(&[("operation", operation)]).clone()
    }

    /// Where those of takes go, which are many.
    pub(super) fn take_seconds(&self) -> &Histogram {
        &self.take_seconds
    }
}

/// A request under way.
pub(crate) struct Timed<'a> {
    pub(super) since: Instant,
    pub(super) seconds: &'a Histogram,
}

impl Drop for Timed<'_> {
    fn drop(&mut self) {
        self.seconds.observe(self.since.elapsed().as_secs_f64());
    }
}
