//! A command as an HTTP request.

use std::time::Duration;

use axum::body::Body;
use axum::http::Method;
use serde::Serialize;

/// A request, to a server or to a router of our own.
pub(super) struct Request {
    pub(super) method: Method,
    pub(super) path: String,
    pub(super) body: Body,
    pub(super) media_type: &'static str,
    /// Only if what it is about is of this version.
    pub(super) if_match: Option<u64>,
    /// From the first packet to the answer, or to its beginning if it is read as it comes.
    pub(super) timeout: Duration,
}

const TIMEOUT: Duration = Duration::from_secs(10);

/// For requests that take as long as there is to do: no server is told to take longer, and whoever has typed it can end
/// it.
pub(super) const A_DAY: Duration = Duration::from_secs(24 * 3600);

pub(super) const NDJSON: &str = "application/x-ndjson";

impl Request {
    fn new(method: Method, path: String) -> Self {
        let (body, media_type) = (Body::empty(), "application/json");
        Self { method, path, body, media_type, if_match: None, timeout: TIMEOUT }
    }

    pub(super) fn get(path: String) -> Self {
        Self::new(Method::GET, path)
    }

    pub(super) fn post(path: String) -> Self {
        Self::new(Method::POST, path)
    }

    pub(super) fn put(path: String) -> Self {
        Self::new(Method::PUT, path)
    }

    pub(super) fn patch(path: String) -> Self {
        Self::new(Method::PATCH, path)
    }

    pub(super) fn delete(path: String) -> Self {
        Self::new(Method::DELETE, path)
    }

    /// Only if what it is about is of this version, if one is meant.
    pub(super) fn if_match(self, version: Option<u64>) -> Self {
        Self { if_match: version, ..self }
    }

    /// With a body.
    pub(super) fn json(self, body: &impl Serialize) -> Self {
        // Strings and numbers: there is nothing that JSON cannot write.
        Self { body: serde_json::to_vec(body).unwrap_or_default().into(), ..self }
    }

    /// With a body of another type.
    pub(super) fn body(self, media_type: &'static str, body: impl Into<Body>) -> Self {
        Self { body: body.into(), media_type, ..self }
    }

    /// Which may take this long.
    pub(super) fn within(self, timeout: Duration) -> Self {
        Self { timeout, ..self }
    }
}

/// The version that a request is only for, as its header has it.
pub(super) fn tag(version: u64) -> String {
    format!("\"{version}\"")
}
