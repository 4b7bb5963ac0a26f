//! A command as an HTTP request.

use std::fmt::Display;
use std::time::Duration;

use axum::body::Body;
use axum::http::{Method, Uri, header};
use serde::Serialize;

use crate::address::encoded;

/// A request, to a server or to a router of our own.
pub(super) struct Request {
    method: Method,
    pub(super) path: String,
    body: Body,
    media_type: &'static str,
    /// Only if what it is about is of this version.
    if_match: Option<u64>,
    /// From the first packet to the answer, or to its beginning if it is read as it comes.
    pub(super) timeout: Duration,
}

const TIMEOUT: Duration = Duration::from_secs(10);

/// For requests that take as long as there is to do: no server is told to take longer, and whoever has typed it can end
/// it.
pub(super) const A_DAY: Duration = Duration::from_secs(24 * 3600);

pub(super) const NDJSON: &str = "application/x-ndjson";

impl Request {
    fn new(method: Method, path: impl Into<String>) -> Self {
        let (body, media_type) = (Body::empty(), "application/json");
        Self { method, path: path.into(), body, media_type, if_match: None, timeout: TIMEOUT }
    }

    pub(super) fn get(path: impl Into<String>) -> Self {
        Self::new(Method::GET, path)
    }

    pub(super) fn post(path: impl Into<String>) -> Self {
        Self::new(Method::POST, path)
    }

    pub(super) fn put(path: impl Into<String>) -> Self {
        Self::new(Method::PUT, path)
    }

    pub(super) fn patch(path: impl Into<String>) -> Self {
        Self::new(Method::PATCH, path)
    }

    pub(super) fn delete(path: impl Into<String>) -> Self {
        Self::new(Method::DELETE, path)
    }

    /// With a parameter, if it is given.
    pub(super) fn with(mut self, name: &str, value: Option<impl Display>) -> Self {
        if let Some(value) = value {
            let sign = if self.path.contains('?') { '&' } else { '?' };
            self.path += &format!("{sign}{name}={}", encoded(&value.to_string()));
        }
        self
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

    /// As it is sent to a server, whose address is in front of the path; to a router of our own without one.
    pub(super) fn sent_to(self, server: &str) -> Result<axum::http::Request<Body>, String> {
        let uri: Uri = format!("{server}{}", self.path).parse().map_err(super::message)?;
        let mut head = axum::http::Request::builder()
            .method(self.method)
            .uri(uri.path_and_query().map_or("/", |it| it.as_str()))
            .header(header::CONTENT_TYPE, self.media_type);
        if let Some(authority) = uri.authority() {
            head = head.header(header::HOST, authority.as_str());
        }
        if let Some(version) = self.if_match {
            head = head.header(header::IF_MATCH, format!("\"{version}\""));
        }
        head.body(self.body).map_err(super::message)
    }
}
