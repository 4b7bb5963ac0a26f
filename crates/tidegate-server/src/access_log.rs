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
pub(crate) struct Asked {
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
    pub(crate) fn asked(&self, method: &Method, uri: &Uri) -> Option<Asked> {
        self.peer.map(|_| Asked { method: method.clone(), target: Some(uri.to_string()), since: monotonic() })
    }

    /// The same of a take that is known by its limit, since `since`.
    pub(crate) fn asked_to_take(&self, limit: &str, since: Instant) -> Option<Asked> {
        let target = || Some(format!("/v1/limits/{limit}/take"));
        self.peer.map(|_| Asked { method: Method::POST, target: target(), since })
    }

    /// It was answered, or an answer without end has begun.
    pub(crate) fn answered(&self, asked: Option<Asked>, status: StatusCode) {
        let (Some(peer), Some(asked)) = (self.peer, asked) else { return };
        tracing::info!(
            peer = peer.map_or("-".to_owned(), |peer| peer.to_string()),
            method = asked.method.as_str(),
            path = asked.target.as_deref().unwrap_or("-"),
            status = status.as_u16(),
            took_us = asked.since.elapsed().as_micros() as u64,
            "answered"
        );
    }
}

impl Asked {
    /// Of a head that was refused, nothing else is told.
    pub(crate) fn refused(self) -> Self {
        Self { target: None, ..self }
    }
}
