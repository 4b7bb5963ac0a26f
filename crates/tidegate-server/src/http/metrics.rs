//! What the server counts about itself.

use axum::http::StatusCode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use tidegate::Tidegate;

/// Connections, and responses by the first digit of their status.
#[derive(Debug)]
pub(crate) struct HttpMetrics {
    responses: [Counter; 5],
    connections: Gauge,
}

impl HttpMetrics {
    /// Counts beside what `gate` counts.
    pub(super) fn beside(gate: &Tidegate) -> Self {
        let connections = Gauge::default();
        let responses = Family::<[(&str, &str); 1], Counter>::default();
        gate.register_metrics(|registry| {
            registry.register("tidegate_http_connections", "Open connections", connections.clone());
            registry.register("tidegate_http_responses", "Responses by class of status", responses.clone());
        });
        let classes = ["1xx", "2xx", "3xx", "4xx", "5xx"];
        let responses = classes.map(|class| responses.get_or_create(&[("status", class)]).clone());
        Self { responses, connections }
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
