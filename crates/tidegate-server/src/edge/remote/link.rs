//! Requests to one server, over connections that are kept.

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::{Method, Request, Response, StatusCode, Uri, header};
use http_body_util::{BodyExt as _, Limited};
use hyper::body::Incoming;
use parking_lot::Mutex;
use serde_json::Value;
use tidegate_edge::{Error, ErrorKind, Result};
use tokio::time::timeout;

use crate::address::{Address, Connected};

/// How long connecting may take.
const CONNECT: Duration = Duration::from_secs(5);

/// How long a whole answer may take, whatever its caller's deadline is.
const WHOLE: Duration = Duration::from_secs(30);

/// No answer is longer: a rule, and as many others as a path has hosts for.
const MAX_ANSWER_BYTES: usize = 4 << 20;

/// Connections that are kept for the next request, at most.
const MAX_IDLE: usize = 64;

/// A server. Clones share its connections.
#[derive(Debug, Clone)]
pub(super) struct Link(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    address: Address,
    idle: Mutex<Vec<Connected>>,
}

/// A request.
#[derive(Debug)]
pub(super) struct Asked {
    method: Method,
    path: String,
    body: Bytes,
    pub(super) last_event_id: Option<String>,
    pub(super) is_gzip: bool,
}

impl Asked {
    pub(super) fn get(path: String) -> Self {
        Self { method: Method::GET, path, body: Bytes::new(), last_event_id: None, is_gzip: false }
    }

    pub(super) fn json(method: Method, path: String, body: &Value) -> Self {
        Self { method, body: body.to_string().into(), ..Self::get(path) }
    }

    fn request(&self, address: &Address) -> Result<Request<Body>> {
        let failed = |error: &dyn std::fmt::Display| Error::new(ErrorKind::Internal, error.to_string());
        let uri: Uri =
            format!("{}{}", address.as_str(), self.path).parse().map_err(|error| failed(&error))?;
        let mut request = Request::builder()
            .method(self.method.clone())
            .uri(uri.path_and_query().map_or("/", |it| it.as_str()))
            .header(header::HOST, uri.authority().map(|it| it.as_str()).unwrap_or_default());
        if !self.body.is_empty() {
            request = request.header(header::CONTENT_TYPE, "application/json");
        }
        if let Some(id) = &self.last_event_id {
            request = request.header("last-event-id", id);
        }
        if self.is_gzip {
            request = request.header(header::ACCEPT_ENCODING, "gzip");
        }
        request.body(Body::from(self.body.clone())).map_err(|error| failed(&error))
    }
}

impl Link {
    pub(super) fn new(address: Address) -> Self {
        Self(Arc::new(Inner { address, idle: Mutex::default() }))
    }

    pub(super) fn address(&self) -> &str {
        self.0.address.as_str()
    }

    pub(super) fn is_near(&self) -> bool {
        self.0.address.is_near()
    }

    fn away(&self, error: impl std::fmt::Display) -> Error {
        Error::new(ErrorKind::Unavailable, format!("no answer from {}: {error}", self.address()))
    }

    /// The head of an answer, and the connection that the rest of it comes by.
    pub(super) async fn begin(
        &self,
        asked: Asked,
        head: Duration,
    ) -> Result<(Response<Incoming>, Connected)> {
        let late = || self.away(format!("nothing for {} s", head.as_secs()));
        timeout(head, self.exchange(&asked)).await.map_err(|_| late())?
    }

    /// A whole answer.
    pub(super) async fn whole(&self, asked: Asked) -> Result<(StatusCode, Vec<u8>)> {
        let exchange = async {
            let (response, connected) = self.exchange(&asked).await?;
            let status = response.status();
            let body = Limited::new(response.into_body(), MAX_ANSWER_BYTES).collect().await;
            let body = body.map_err(|error| self.away(error))?.to_bytes().into();
            let mut idle = self.0.idle.lock();
            if idle.len() < MAX_IDLE && !connected.sender.is_closed() {
                idle.push(connected);
            }
            Ok((status, body))
        };
        let late = || self.away(format!("nothing for {} s", WHOLE.as_secs()));
        timeout(WHOLE, exchange).await.map_err(|_| late())?
    }

    /// Sent over a connection that was kept, or over a new one. Whatever a worker asks may be asked twice.
    async fn exchange(&self, asked: &Asked) -> Result<(Response<Incoming>, Connected)> {
        let kept = self.0.idle.lock().pop();
        if let Some(mut kept) = kept
            && kept.sender.ready().await.is_ok()
            && let Ok(response) = kept.sender.send_request(asked.request(&self.0.address)?).await
        {
            return Ok((response, kept));
        }
        // The others are as old, and have ended with it.
        self.0.idle.lock().retain(|it| !it.sender.is_closed());
        let connecting = timeout(CONNECT, self.0.address.connect()).await;
        let late = |_| self.away(format!("no connection within {} s", CONNECT.as_secs()));
        let mut connected = connecting.map_err(late)?.map_err(|error| self.away(error))?;
        let response = connected.sender.send_request(asked.request(&self.0.address)?).await;
        Ok((response.map_err(|error| self.away(error))?, connected))
    }
}
