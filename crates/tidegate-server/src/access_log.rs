//! The access log: a line for every answer, if it is wanted.

use std::net::SocketAddr;
use std::time::Instant;

use axum::http::{Method, StatusCode, Uri};
use tidegate::clock::monotonic;
use tokio::net::TcpStream;

/// What one connection writes to it.
#[derive(Debug)]
pub(crate) struct AccessLog {
    /// None if the log is off.
    peer: Option<Option<SocketAddr>>,
}

/// A request that will be a line.
#[derive(Debug)]
pub(crate) struct LoggedRequest {
    method: Method,
    /// As it was sent; nothing of a head that was refused.
    target: Option<String>,
    since: Instant,
}

impl AccessLog {
    pub(crate) fn new(is_on: bool, stream: &TcpStream) -> Self {
        Self { peer: is_on.then(|| stream.peer_addr().ok()) }
    }

    /// A request that has come; nothing if the log is off.
    pub(crate) fn request(&self, method: &Method, uri: &Uri) -> Option<LoggedRequest> {
        self.peer.map(|_| LoggedRequest {
            method: method.clone(),
            target: Some(uri.to_string()),
            since: monotonic(),
        })
    }

    /// The same of a take that is known by its limit, since `since`.
    pub(crate) fn take(&self, limit: &str, since: Instant) -> Option<LoggedRequest> {
        let target = || Some(format!("/v1/limits/{limit}/take"));
        self.peer.map(|_| LoggedRequest { method: Method::POST, target: target(), since })
    }

    /// It was answered, or an answer without end has begun.
    pub(crate) fn response(&self, request: Option<LoggedRequest>, status: StatusCode) {
        let (Some(peer), Some(request)) = (self.peer, request) else { return };
        tracing::info!(
            peer = peer.map_or("-".to_owned(), |peer| peer.to_string()),
            method = request.method.as_str(),
            path = request.target.as_deref().unwrap_or("-"),
            status = status.as_u16(),
            took_us = request.since.elapsed().as_micros() as u64,
            "answered"
        );
    }
}

impl LoggedRequest {
    /// Of a head that was refused, nothing else is told.
    pub(crate) fn refused(self) -> Self {
        Self { target: None, ..self }
    }
}
