//! What is asked over HTTP and what is answered.
//!
//! | | |
//! |---|---|
//! | `POST /v1/limits/{limit}/take` | `{"key":"user_123","cost":1}`: 200 admitted, 429 not |
//! | `POST /v1/limits/take` | `{"key":"user_123","limits":[{"limit":"api"}]}`: all of them or none |
//! | `GET /v1/limits/{limit}/keys/{key}` | where a key stands |
//! | `POST /v1/limits/{limit}/refund` | `{"key":"user_123","receipt":"…"}`: `{"refunded":1}` |
//! | `DELETE /v1/limits/{limit}/keys/{key}` | forgets what a key has used: 204 |
//! | `PUT`, `GET`, `DELETE …/keys/{key}/override` | a key's own rate, for a while |
//! | `PUT`, `GET …/keys/{key}/reservations/{id}` | `{"cost":3,"lasting_ms":30000}`: 201 held, 429 not |
//! | `POST …/reservations/{id}/commit`, `DELETE …/{id}` | spends it, or gives it back |
//! | `GET /v1/limits/{limit}/overrides`, `…/reservations` | those of all keys, page by page |
//! | `GET /v1/limits`, `GET /v1/limits/{limit}` | the limits and their numbers, or one of them |
//! | `POST /v1/hot/{space}/edits` | one edit as JSON, or one per line as NDJSON |
//! | `GET /v1/hot/{space}?limit=20` | the hottest pages |
//! | `GET /v1/hot/{space}/pages/{page}` | what is known of a page |
//! | `DELETE /v1/hot/{space}/pages/{page}` | forgets it |
//! | `GET …/pages/{page}/window?from=&to=` | the edits in its window |
//! | `GET /v1/hot/{space}/events` | what happens, as server-sent events |
//! | `POST /v1/hot/{space}/cleanup` | drops what is over |
//! | `GET /v1/hot` | the spaces and what they are bounded by |
//! | `POST /v1/sessions/{space}` | `{"broadcaster":"channel_7","config":{}}`: its session, active |
//! | `GET /v1/sessions/{space}?state=`, `…/counts`, `…/dead` | the sessions, and how many there are |
//! | `GET`, `DELETE …/{space}/{id}`, `PUT …/{id}/value` | one of them |
//! | `GET …/{space}/broadcasters/{broadcaster}` | the one that it last activated |
//! | `PUT`, `DELETE …/{id}/holders/{holder}`, `POST …/heartbeat` | who holds it |
//! | `POST …/{space}/claims`, `PUT …/claims/{id}`, `POST …/acks`, `…/cleanup`, `…/dead/{id}/retry` | what becomes of orphans |
//! | `GET /v1/sessions` | the spaces and how their sessions live |
//! | `GET /metrics`, `/healthz`, `/readyz`, `/` | for machines and for the curious |
//!
//! `everyone` in place of `keys/{key}`, and a body without `key`, are about no
//! subject: what everyone shares.
//!
//! This module knows nothing of sockets: a test calls the router without one.

mod all;
mod ask;
mod body;
mod encoding;
mod extract;
mod hot;
mod limits;
mod list;
mod listing;
mod metrics;
mod metrics_text;
mod overrides;
mod path;
mod probes;
mod problem;
mod process;
mod query;
mod reply;
mod reservations;
mod sessions;
mod sse;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use axum::Router;
use axum::http::{Method, StatusCode, Uri, header};
use axum::routing::{get, post, put};
use tidegate::Tidegate;
use tidegate::hot::Hot;
use tidegate::limit::Limit;
use tidegate::session::Sessions;
use tidegate::store::PartKind;
use tokio::sync::watch;

pub(crate) use self::body::is_type_allowed;
pub(crate) use self::hot::is_bulk;
pub(crate) use self::metrics::HttpMetrics;
pub(crate) use self::problem::{Problem, Reason};
pub(crate) use self::reply::Served;
use self::sessions::Spaces;
pub(crate) use self::sse::Endless;
use crate::readiness::{Readiness, Report};
use crate::settings::{HttpSettings, SessionSettings, SettingsError};

/// An open store with what is served from it. Clones share it.
#[derive(Debug, Clone)]
pub struct App {
    inner: Arc<Inner>,
    spaces: Arc<BTreeMap<String, Hot>>,
    sessions: Arc<Spaces>,
    bounds: Bounds,
    readiness: Readiness,
    stopping: Stopping,
}

/// What a request is bounded by, where it is not the connection that bounds it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    pub(crate) max_body_bytes: usize,
    pub(crate) request_timeout: Duration,
    pub(crate) bulk_timeout: Duration,
}

impl From<&HttpSettings> for Bounds {
    fn from(settings: &HttpSettings) -> Self {
        let HttpSettings { max_body_bytes, request_timeout, bulk_timeout, .. } = *settings;
        Self { max_body_bytes, request_timeout, bulk_timeout }
    }
}

/// Tells those whose answer has no end that the server has. Never, without a server.
#[derive(Debug, Clone, Default)]
pub(crate) struct Stopping(Option<watch::Receiver<()>>);

impl Stopping {
    pub(crate) async fn wait(&mut self) {
        match &mut self.0 {
            // A server that is gone has stopped too.
            Some(stopping) => drop(stopping.changed().await),
            None => std::future::pending().await,
        }
    }
}

#[derive(Debug)]
struct Inner {
    gate: Tidegate,
    limits: BTreeMap<String, Served>,
    metrics: HttpMetrics,
    is_draining: AtomicBool,
}

impl App {
    /// Serves `limits`, which are of `gate`.
    pub fn new(gate: Tidegate, limits: impl IntoIterator<Item = Limit>) -> Self {
        let limits =
            limits.into_iter().map(|limit| (limit.name().as_str().to_owned(), Served::new(limit))).collect();
        let metrics = HttpMetrics::beside(&gate);
        let inner = Inner { gate, limits, metrics, is_draining: AtomicBool::new(false) };
        let bounds = Bounds::from(&HttpSettings::default());
        let (spaces, sessions) = (Arc::default(), Arc::default());
        let (readiness, stopping) = (Readiness::default(), Stopping::default());
        Self { inner: Arc::new(inner), spaces, sessions, bounds, readiness, stopping }
    }

    /// The same, and these spaces of hot pages.
    #[must_use]
    pub fn with_hot(self, spaces: impl IntoIterator<Item = Hot>) -> Self {
        let spaces = spaces.into_iter().map(|hot| (hot.space().as_str().to_owned(), hot)).collect();
        Self { spaces: Arc::new(spaces), ..self }
    }

    /// The same, and these spaces of sessions. Those that nobody has written down are
    /// opened when they are first used.
    pub fn with_sessions(self, spaces: &[SessionSettings]) -> Result<Self, SettingsError> {
        let sessions = Arc::new(Spaces::open(&self.inner.gate, spaces)?);
        Ok(Self { sessions, ..self })
    }

    /// The same, with another bound on bodies.
    #[must_use]
    pub fn with_max_body_bytes(self, max_body_bytes: usize) -> Self {
        Self { bounds: Bounds { max_body_bytes, ..self.bounds }, ..self }
    }

    /// The same, on a server with these bounds that says when it ends.
    #[must_use]
    pub(crate) fn on_server(self, settings: &HttpSettings, stopping: watch::Receiver<()>) -> Self {
        let readiness = settings.readiness;
        Self { bounds: settings.into(), readiness, stopping: Stopping(Some(stopping)), ..self }
    }

    /// The same, ready by another rule.
    #[must_use]
    pub fn with_readiness(self, readiness: Readiness) -> Self {
        Self { readiness, ..self }
    }

    /// Says from now on that it is not ready, and goes on to answer: it will be stopped.
    pub fn drain(&self) {
        self.inner.is_draining.store(true, Ordering::Relaxed);
    }

    fn readiness(&self) -> Report {
        let draining = self.inner.is_draining.load(Ordering::Relaxed);
        let limits = self.inner.limits.values().map(|served| &served.limit);
        Report::new(self.readiness, draining, self.inner.gate.store().status(), limits)
    }

    /// The store.
    pub fn gate(&self) -> &Tidegate {
        &self.inner.gate
    }

    pub(crate) fn metrics(&self) -> &HttpMetrics {
        &self.inner.metrics
    }

    pub(crate) fn bounds(&self) -> &Bounds {
        &self.bounds
    }

    fn stopping(&self) -> &Stopping {
        &self.stopping
    }

    fn spaces(&self) -> &BTreeMap<String, Hot> {
        &self.spaces
    }

    fn space(&self, name: &str) -> Result<&Hot, Problem> {
        let spaces = self.spaces();
        let found = spaces.get(name).or_else(|| spaces.get(PartKind::Hot.alias(name)?));
        found.ok_or_else(|| Problem::unknown_space(name, spaces.keys().map(String::as_str)))
    }

    fn sessions(&self, name: &str) -> Result<&Sessions, Problem> {
        self.sessions.get(&self.inner.gate, name)
    }

    fn limit(&self, name: &str) -> Result<&Served, Problem> {
        let limits = &self.inner.limits;
        limits.get(name).ok_or_else(|| Problem::unknown_limit(name, limits.keys().map(String::as_str)))
    }
}

/// What some route has.
const ALL_METHODS: &str = "GET,HEAD,POST,PUT,DELETE";

/// All routes.
pub fn router(app: App) -> Router {
    let router = Router::new()
        .route("/v1/limits/{limit}/take", post(limits::take))
        .route("/v1/limits/{limit}/refund", post(limits::refund))
        .route("/v1/limits/take", post(all::take_all))
        // No router matches an empty key; it deserves a better answer than 404.
        .route("/v1/limits/{limit}/keys/", get(limits::no_key).delete(limits::no_key))
        .route("/v1/limits/{limit}/overrides", get(listing::overrides))
        .route("/v1/limits/{limit}/reservations", get(listing::reservations))
        .route("/v1/limits", get(list::list))
        .route("/v1/limits/{limit}", get(list::one))
        .route("/metrics", get(metrics_text::metrics))
        .route("/healthz", get(probes::healthz))
        .route("/readyz", get(probes::readyz))
        .route("/", get(probes::index));
    let router = ["/v1/limits/{limit}/keys/{key}", "/v1/limits/{limit}/everyone"].into_iter().fold(
        router,
        |router, subject| {
            router
                .route(subject, get(limits::peek).delete(limits::reset))
                .route(
                    &format!("{subject}/override"),
                    put(overrides::set).get(overrides::get).delete(overrides::clear),
                )
                .route(
                    &format!("{subject}/reservations/{{id}}"),
                    put(reservations::reserve).get(reservations::get).delete(reservations::release),
                )
                .route(&format!("{subject}/reservations/{{id}}/commit"), post(reservations::commit))
        },
    );
    sessions::routes(hot::routes(router))
        .fallback(async |method: Method, uri: Uri| match extract::check_encoding(uri.path()) {
            Err(problem) => Err(problem),
            Ok(()) if uri.path() == "*" && method == Method::OPTIONS => {
                Ok((StatusCode::NO_CONTENT, [(header::ALLOW, ALL_METHODS)]))
            }
            Ok(()) if uri.path().contains("/keys//") => Err(Problem::empty_key()),
            Ok(()) => Err(Problem::unknown_path(uri.path())),
        })
        // What is allowed is among the fields of both.
        .method_not_allowed_fallback(async |method: Method, uri: Uri| match method {
            Method::OPTIONS => Ok(StatusCode::NO_CONTENT),
            method => Err(Problem::method_not_allowed(method.as_str(), uri.path())),
        })
        .with_state(app)
}
