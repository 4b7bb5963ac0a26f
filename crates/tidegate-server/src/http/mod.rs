//! What is asked over HTTP and what is answered.
//!
//! | | |
//! |---|---|
//! | `POST /v1/limits/{limit}/take` | `{"key":"user_123","cost":1}`: 200 admitted, 429 rejected |
//! | `GET /v1/limits/{limit}/keys/{key}` | where a key stands |
//! | `POST /v1/limits/{limit}/refund` | `{"key":"user_123","receipt":"…"}`: `{"refunded":1}` |
//! | `DELETE /v1/limits/{limit}/keys/{key}` | forgets what a key has used: 204 |
//! | `GET /v1/limits` | the limits and their numbers |
//! | `GET /metrics`, `/healthz`, `/readyz`, `/` | for machines and for the curious |
//!
//! This module knows nothing of sockets: a test calls the router without one.

mod body;
mod limits;
mod metrics;
mod probes;
mod problem;
mod reply;

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Router;
use axum::http::{Method, Uri};
use axum::routing::{get, post};
use tidegate::Tidegate;
use tidegate::limit::Limit;

pub(crate) use self::metrics::HttpMetrics;
pub(crate) use self::problem::Problem;
use self::reply::Served;
use crate::settings::HttpSettings;

/// An open store with the limits that are served from it. Clones share it.
#[derive(Debug, Clone)]
pub struct App {
    inner: Arc<Inner>,
    max_body_bytes: usize,
}

#[derive(Debug)]
struct Inner {
    gate: Tidegate,
    limits: BTreeMap<String, Served>,
    metrics: HttpMetrics,
}

impl App {
    /// Serves `limits`, which are of `gate`.
    pub fn new(gate: Tidegate, limits: impl IntoIterator<Item = Limit>) -> Self {
        let limits =
            limits.into_iter().map(|limit| (limit.name().as_str().to_owned(), Served::new(limit))).collect();
        let metrics = HttpMetrics::beside(&gate);
        let inner = Inner { gate, limits, metrics };
        let max_body_bytes = HttpSettings::default().max_body_bytes;
        Self { inner: Arc::new(inner), max_body_bytes }
    }

    /// The same, with another bound on bodies.
    #[must_use]
    pub fn with_max_body_bytes(self, max_body_bytes: usize) -> Self {
        Self { max_body_bytes, ..self }
    }

    /// The store.
    pub fn gate(&self) -> &Tidegate {
        &self.inner.gate
    }

    pub(crate) fn metrics(&self) -> &HttpMetrics {
        &self.inner.metrics
    }

    fn limit(&self, name: &str) -> Result<&Served, Problem> {
        let limits = &self.inner.limits;
        limits.get(name).ok_or_else(|| Problem::unknown_limit(name, limits.keys().map(String::as_str)))
    }
}

/// All routes.
pub fn router(app: App) -> Router {
    Router::new()
        .route("/v1/limits/{limit}/take", post(limits::take))
        .route("/v1/limits/{limit}/refund", post(limits::refund))
        .route("/v1/limits/{limit}/keys/{key}", get(limits::peek).delete(limits::reset))
        // No router matches an empty key; it deserves a better answer than 404.
        .route("/v1/limits/{limit}/keys/", get(limits::no_key).delete(limits::no_key))
        .route("/v1/limits", get(limits::list))
        .route("/metrics", get(probes::metrics))
        .route("/healthz", get(probes::healthz))
        .route("/readyz", get(probes::readyz))
        .route("/", get(probes::index))
        .fallback(async |uri: Uri| Problem::unknown_path(uri.path()))
        .method_not_allowed_fallback(async |method: Method, uri: Uri| {
            Problem::method_not_allowed(method.as_str(), uri.path())
        })
        .with_state(app)
}
