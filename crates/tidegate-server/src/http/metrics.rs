//! What the server counts about itself.

use std::time::Instant;

use axum::http::StatusCode;
use prometheus_client::encoding::text;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;
use tidegate::Tidegate;

use super::process::Process;

/// Connections, responses by the first digit of their status, and times by what
/// was asked.
#[derive(Debug)]
pub(crate) struct HttpMetrics {
    registry: Registry,
    responses: [Counter; 5],
    connections: Gauge,
    seconds: Family<[(&'static str, &'static str); 1], Histogram>,
    take_seconds: Histogram,
}

impl HttpMetrics {
    /// Counts beside what `gate` counts.
    pub(super) fn beside(gate: &Tidegate) -> Self {
        let connections = Gauge::default();
        let responses = Family::<[(&str, &str); 1], Counter>::default();
        // From 50 us to 3 s.
        let new = || Histogram::new(exponential_buckets(0.000_05, 4.0, 9));
        let seconds = Family::<[(&str, &str); 1], Histogram>::new_with_constructor(new);
        let mut registry = Registry::default();
        gate.register_metrics(&mut registry);
        registry.register_collector(Box::new(Process));
        registry.register("tidegate_http_connections", "Open connections", connections.clone());
        registry.register("tidegate_http_responses", "Responses by class of status", responses.clone());
        let help = "Time from a request's head to its answer";
        registry.register("tidegate_http_request_seconds", help, seconds.clone());
        let classes = ["1xx", "2xx", "3xx", "4xx", "5xx"];
        let responses = classes.map(|class| responses.get_or_create(&[("status", class)]).clone());
        let take_seconds = seconds.get_or_create(&[("operation", "take")]).clone();
        Self { registry, responses, connections, seconds, take_seconds }
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
    pub(crate) fn take_seconds(&self) -> &Histogram {
        &self.take_seconds
    }

    pub(crate) fn responded(&self, status: StatusCode) {
        let class = usize::from(status.as_u16() / 100).saturating_sub(1).min(4);
        self.responses[class].inc();
    }

    /// Counts a connection for as long as what it returns lives.
    pub(crate) fn connected(&self) -> Connected<'_> {
        self.connections.inc();
        Connected(&self.connections)
    }
}

/// An open connection.
pub(crate) struct Connected<'a>(&'a Gauge);

impl Drop for Connected<'_> {
    fn drop(&mut self) {
        self.0.dec();
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
