//! What is counted of connections.

use axum::http::StatusCode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

/// Connections that are open, and responses by the first digit of their status.
#[derive(Debug)]
pub(crate) struct ConnectionMetrics {
    connections: Gauge,
    responses: Family<[(&'static str, &'static str); 1], Counter>,
    by_class: [Counter; 5],
}

impl ConnectionMetrics {
    pub(crate) fn new() -> Self {
        let responses = Family::<[(&str, &str); 1], Counter>::default();
        let classes = ["1xx", "2xx", "3xx", "4xx", "5xx"];
        let by_class = classes.map(|class| responses.get_or_create(&[("status", class)]).clone());
        Self { connections: Gauge::default(), responses, by_class }
    }

    /// Puts them into a registry, as those of a listener that is called so.
    pub(crate) fn register(&self, registry: &mut Registry, prefix: &'static str) {
        let registry = registry.sub_registry_with_prefix(prefix);
        registry.register("connections", "Open connections", self.connections.clone());
        registry.register("responses", "Responses by class of status", self.responses.clone());
    }

    pub(super) fn responded(&self, status: StatusCode) {
        let class = usize::from(status.as_u16() / 100).saturating_sub(1).min(4);
        self.by_class[class].inc();
    }

    /// Counts a connection for as long as what it returns lives.
    pub(super) fn connected(&self) -> Connected<'_> {
        self.connections.inc();
        Connected(&self.connections)
    }
}

/// An open connection.
pub(super) struct Connected<'a>(&'a Gauge);

impl Drop for Connected<'_> {
    fn drop(&mut self) {
        self.0.dec();
    }
}
