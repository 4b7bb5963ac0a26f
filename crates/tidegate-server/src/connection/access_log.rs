//! The access log: a line for every answer, if it is wanted.

use std::net::SocketAddr;
use std::time::Instant;

use axum::http::StatusCode;
use tidegate::clock::monotonic;

/// What one connection writes to it.
#[derive(Debug, Clone)]
pub(crate) struct AccessLog {
    is_on: bool,
    peer: Option<SocketAddr>,
}

/// A request that will be a line.
#[derive(Debug)]
pub(crate) struct LoggedRequest {
    method: String,
    /// As it was sent; nothing of a head that was refused.
    target: Option<String>,
    since: Instant,
}

impl AccessLog {
    pub(crate) fn new(is_on: bool, peer: Option<SocketAddr>) -> Self {
        Self { is_on, peer }
    }

    /// A request that has come; nothing if the log is off.
    pub(crate) fn request(&self, method: &str, target: Option<&dyn ToString>) -> Option<LoggedRequest> {
        self.is_on.then(|| LoggedRequest {
            method: method.to_owned(),
            target: target.map(ToString::to_string),
            since: monotonic(),
        })
    }

    /// It was answered, or an answer without end has begun.
    pub(crate) fn response(&self, request: Option<LoggedRequest>, status: StatusCode) {
        let Some(request) = request else { return };
        tracing::info!(
            peer = self.peer.map_or("-".to_owned(), |peer| peer.to_string()),
            method = request.method,
            path = request.target.as_deref().unwrap_or("-"),
            status = status.as_u16(),
            took_us = request.since.elapsed().as_micros() as u64,
            "answered"
        );
    }
}
