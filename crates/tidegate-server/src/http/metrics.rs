//! What the server counts about itself.

use std::sync::atomic::{AtomicU64, Ordering};

use axum::http::StatusCode;

/// Connections, and responses by the first digit of their status.
#[derive(Debug, Default)]
pub(crate) struct HttpMetrics {
    responses: [AtomicU64; 5],
    connections: AtomicU64,
}

impl HttpMetrics {
    pub(crate) fn responded(&self, status: StatusCode) {
        let class = usize::from(status.as_u16() / 100).saturating_sub(1).min(4);
        self.responses[class].fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a connection for as long as what it returns lives.
    pub(crate) fn connected(&self) -> Connected<'_> {
        self.connections.fetch_add(1, Ordering::Relaxed);
        Connected(&self.connections)
    }

    /// `text`, which ends like every exposition does, with ours in it.
    pub(super) fn added_to(&self, text: &str) -> String {
        let mut all = text.strip_suffix("# EOF\n").unwrap_or(text).to_owned();
        all.push_str("# HELP tidegate_http_connections Open connections.\n");
        all.push_str("# TYPE tidegate_http_connections gauge\n");
        let connections = self.connections.load(Ordering::Relaxed);
        all.push_str(&format!("tidegate_http_connections {connections}\n"));
        all.push_str("# HELP tidegate_http_responses Responses by class of status.\n");
        all.push_str("# TYPE tidegate_http_responses counter\n");
        for (class, count) in self.responses.iter().enumerate() {
            let (class, count) = (class + 1, count.load(Ordering::Relaxed));
            all.push_str(&format!("tidegate_http_responses_total{{status=\"{class}xx\"}} {count}\n"));
        }
        all.push_str("# EOF\n");
        all
    }
}

/// An open connection.
pub(crate) struct Connected<'a>(&'a AtomicU64);

impl Drop for Connected<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
