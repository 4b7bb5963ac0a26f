//! What a listener serves.

use std::future::Future;
use std::time::Instant;

use axum::body::{Body, Bytes};
use axum::http::Response;
use hyper::body::Incoming;

use super::access::{AccessRequest, Admitted};
use super::frame::PlainHead;
use super::metrics::ConnectionMetrics;
use crate::http::Problem;

/// A router for every request, and a fast path for those in the plainest form. Both answer alike.
///
/// Neither can be called without [`Admitted`], which only [`super::access::admit`] gives out.
pub(crate) trait Service: Clone + Send + Sync + 'static {
    /// A request that the fast path can answer as soon as its body is there.
    type Fast<'a>: Send
    where
        Self: 'a;

    /// Refuses a request that is not allowed. It has no effects of its own: what the fast path
    /// does not answer is judged once more on the ordinary way.
    fn admit(&self, request: &AccessRequest<'_>) -> Result<(), Problem>;

    /// What the fast path can answer; anything else goes the ordinary way.
    fn recognise(&self, head: &PlainHead<'_>) -> Option<Self::Fast<'_>>;

    /// The fast path: the response to a request with this body, whose head was complete at `since`.
    /// Its length is among its fields.
    fn respond(
        &self,
        request: Self::Fast<'_>,
        body: &[u8],
        since: Instant,
        admitted: Admitted,
    ) -> impl Future<Output = Response<Bytes>> + Send;

    /// The ordinary way.
    fn route(
        &self,
        request: hyper::Request<Incoming>,
        admitted: Admitted,
    ) -> impl Future<Output = Response<Body>> + Send;

    fn metrics(&self) -> &ConnectionMetrics;
}
