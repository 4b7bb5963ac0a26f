//! The operations over HTTP: each is a row of the table that the router is made of.
//!
//! This module knows nothing of sockets: a test calls the router without one.

mod answer;
mod body;
mod call;
mod docs_page;
mod edge;
mod encoding;
pub(crate) mod health;
mod hot;
mod limits;
mod metrics;
mod metrics_text;
mod openapi;
mod operation;
mod parameter;
mod probes;
mod problem;
mod process;
mod response;
mod rules;
mod runs;
mod service;
mod sessions;
mod shape;
mod sse;
mod table;

use std::future::poll_fn;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};
use std::task::Poll;
use std::time::Duration;

use axum::Router;
use axum::http::{HeaderValue, Method, StatusCode, Uri, header};
use tidegate::Tidegate;
use tokio::sync::watch;

use self::answer::{Answer, Described, Json, Made, NoContent, Shapes, Tagged};
use self::call::{Call, EmptyBody, FromBody, JsonBody, NoPath, OfSpace, OptionalBody, Sent};
pub(crate) use self::metrics::HttpMetrics;
use self::operation::{ON_STORE, Operation, Routes, TimeClass, delete, get, patch, post, put};
use self::parameter::{CURSOR, FromQuery, LIMIT, NoQuery, PageQuery, Parameter, Query, place, query};
pub(crate) use self::problem::{Kind, Problem, ProblemBody, Reason};
use self::problem::{PROBLEM_JSON, granted};
pub(crate) use self::response::Streamed;
use self::response::{Fields, JSON, Served, json, respond, status};
pub(crate) use self::service::HttpService;
use self::shape::{AnswerShape, BodyShape};
pub(crate) use self::sse::Endless;
use crate::parts::Parts;
use crate::readiness::{EdgeReport, Report};
use crate::settings::HttpSettings;

/// The parts with routes of their own, in the order in which they are shown.
const PARTS: [Routes; 6] =
    [limits::ROUTES, hot::ROUTES, sessions::ROUTES, runs::ROUTES, rules::ROUTES, edge::ROUTES];

/// The bodies of all of them, as [`api`](crate::api) has them.
pub(crate) mod bodies {
    pub(crate) use super::edge::api as edge;
    pub(crate) use super::health;
    pub(crate) use super::hot::{api as hot, api_counts as hot_counts};
    pub(crate) use super::limits::{api as limit, api_charge as charge, decision};
    pub(crate) use super::rules::{
        api as rule, api_bulk as rule_bulk, api_import as rule_import, api_worker as rule_worker,
        path::WORDS as RULE_WORDS,
    };
    pub(crate) use super::runs::{api as run, api_items as run_items, api_quota as run_quota};
    pub(crate) use super::sessions::{api as session, api_reap as session_reap};
}

/// What is served, and how. Clones share it.
#[derive(Debug, Clone)]
pub struct App {
    inner: Arc<Inner>,
    settings: Arc<HttpSettings>,
    /// Changes when those whose answer has no end shall end it.
    stopping: watch::Receiver<()>,
}

/// What can be answered, or why not.
pub(crate) type Result<T, E = Problem> = std::result::Result<T, E>;

/// As good as for ever, and yet it can be added to a moment.
const A_YEAR: Duration = Duration::from_secs(365 * 24 * 3600);

#[derive(Debug)]
struct Inner {
    parts: Parts,
    /// What each limit's answers have in common, in the order of the limits.
    policies: Vec<HeaderValue>,
    metrics: HttpMetrics,
    is_draining: AtomicBool,
}

/// What stops without a server: nothing.
static NEVER: LazyLock<watch::Sender<()>> = LazyLock::new(|| watch::channel(()).0);

impl App {
    /// Serves `parts`.
    pub fn new(parts: Parts) -> Self {
        let policies = parts.limits.iter().map(|(name, limit)| response::policy_of(name, limit)).collect();
        let metrics = HttpMetrics::beside(&parts);
        let inner = Inner { parts, policies, metrics, is_draining: AtomicBool::new(false) };
        // A request without a server waits for as long as it takes.
        let settings =
            HttpSettings { request_timeout: A_YEAR, bulk_timeout: A_YEAR, ..HttpSettings::default() };
        Self { inner: Arc::new(inner), settings: Arc::new(settings), stopping: NEVER.subscribe() }
    }

    /// The same, with these settings.
    #[must_use]
    pub fn with_settings(self, settings: &HttpSettings) -> Self {
        Self { settings: Arc::new(settings.clone()), ..self }
    }

    /// The same, on a server that says when it ends.
    #[must_use]
    pub(crate) fn until(self, stopping: watch::Receiver<()>) -> Self {
        Self { stopping, ..self }
    }

    /// Says from now on that it is not ready, and goes on to answer: it will be stopped.
    pub fn drain(&self) {
        self.inner.is_draining.store(true, Ordering::Relaxed);
    }

    fn readiness(&self) -> Report {
        let draining = self.inner.is_draining.load(Ordering::Relaxed);
        let outages = self.parts().limits.iter().map(|(_, limit)| limit.options.outage);
        let edge = self.parts().edge.as_ref();
        let edge = edge.map(|edge| EdgeReport::new(edge.readiness(), edge.worker().progress()));
        Report::new(self.settings.readiness, draining, self.gate().store().status(), outages, edge)
    }

    /// The store.
    pub fn gate(&self) -> &Tidegate {
        self.inner.parts.gate()
    }

    pub(crate) fn parts(&self) -> &Parts {
        &self.inner.parts
    }

    pub(crate) fn metrics(&self) -> &HttpMetrics {
        &self.inner.metrics
    }

    pub(crate) fn settings(&self) -> &Arc<HttpSettings> {
        &self.settings
    }

    fn stopping(&self) -> &watch::Receiver<()> {
        &self.stopping
    }

    fn limit(&self, name: &str) -> Result<Served<'_>> {
        let limits = &self.parts().limits;
        Ok(self.served(limits.position(name).ok_or_else(|| limits.unknown(name))?)?)
    }

    fn served(&self, position: usize) -> tidegate::Result<Served<'_>> {
        let limit = self.parts().limits.at(position)?;
        Ok(Served { limit, policy: &self.inner.policies[position] })
    }
}

/// `answer`, unless it takes longer than `timeout`.
pub(crate) async fn in_time<T>(timeout: Duration, answer: impl Future<Output = T>) -> Result<T> {
    let mut answer = pin!(answer);
    // A call that is answered at once never starts a timer.
    if let Poll::Ready(answer) = poll_fn(|cx| Poll::Ready(answer.as_mut().poll(cx))).await {
        return Ok(answer);
    }
    tokio::time::timeout(timeout, answer).await.map_err(|_| Problem::timeout(timeout))
}

/// What some route has.
const ALL_METHODS: &str = "GET,HEAD,POST,PUT,PATCH,DELETE";

/// All routes.
pub fn router(app: App) -> Router {
    table::routes(&app)
        .fallback(async |method: Method, uri: Uri| match call::check_encoding(uri.path()) {
            Err(problem) => Err(problem),
            Ok(()) if uri.path() == "*" && method == Method::OPTIONS => {
                Ok((StatusCode::NO_CONTENT, [(header::ALLOW, ALL_METHODS)]))
            }
            Ok(()) => Err(limits::explain(uri.path()).unwrap_or_else(|| {
                let path: String = uri.path().chars().take(200).collect();
                let why = "/ lists what there is; a slash inside a key is written %2F";
                Problem::new(Kind::UNKNOWN_PATH, format!("there is nothing at {path:?}: {why}"))
            })),
        })
        // What is allowed is among the fields of both.
        .method_not_allowed_fallback(async |method: Method, uri: Uri| match method {
            Method::OPTIONS => Ok(StatusCode::NO_CONTENT),
            method => {
                let method: String = method.as_str().chars().take(20).collect();
                let path: String = uri.path().chars().take(200).collect();
                let detail = format!("{method} is not allowed on {path:?}: the Allow header lists what is");
                Err(Problem::new(Kind::METHOD, detail))
            }
        })
        .with_state(app)
}
