//! The way of a take past the router: it is most of what a server is asked, and the
//! router costs more than the decision.
//!
//! Only the way is short: what is done at its end is what the route does. Whatever is
//! not found here goes to the router.

use std::time::Instant;

use axum::body::Bytes;
use axum::http::{Method, Request, Response};
use hyper::body::Incoming;

use super::limits::take_from;
use super::metrics::Operation;
use super::problem::Problem;
use super::reply::Served;
use super::{App, body};

impl App {
    /// The limit that is taken from, if it is written as it is called. Names are letters,
    /// digits, `_` and `-`: what is percent-encoded or has a slash is none of them.
    pub(crate) fn taken_from(&self, method: &Method, path: &str) -> Option<&Served> {
        let name = path.strip_prefix("/v1/limits/")?.strip_suffix("/take")?;
        self.inner.limits.get(name).filter(|_| method == Method::POST)
    }

    /// What the route answers.
    pub(crate) async fn take(&self, served: &Served, request: Request<Incoming>) -> Response<Bytes> {
        let _timed = self.metrics().timed(Operation::Take);
        let (head, body) = request.into_parts();
        let taken = match body::read(&head.headers, body, self.bounds.max_body_bytes).await {
            Ok(bytes) => take_from(served, &bytes).await,
            Err(problem) => Err(problem),
        };
        taken.unwrap_or_else(Problem::whole)
    }

    /// The same for a body that has been read, and is of a type and a size that are
    /// allowed; its head was complete at `since`.
    pub(crate) async fn take_read(&self, served: &Served, body: &[u8], since: Instant) -> Response<Bytes> {
        let _timed = self.metrics().timed_since(since, Operation::Take);
        take_from(served, body).await.unwrap_or_else(Problem::whole)
    }
}
