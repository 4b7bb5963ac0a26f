//! What a listener serves.

use std::future::Future;
use std::time::Instant;

use axum::body::Body;
use axum::http::Response;
use hyper::body::Incoming;

use super::access::{AccessRequest, Admitted};
use super::frame::PlainHead;
use super::metrics::ConnectionMetrics;
use super::output::{Output, Written};
use crate::http::Problem;

/// A router for every request, and a fast path for those in the plainest form. Both answer alike.
///
/// Neither can be called without [`Admitted`], which only [`super::access::admit`] gives out.
pub(crate) trait Service: Clone + Send + Sync + 'static {
    /// Whether everybody may ask for all that there is here. Then credentials decide nothing, and requests that have some
    /// are as plain as others. Such a listener speaks HTTP/2 as well.
    const IS_PUBLIC: bool = false;

    /// A request that the fast path can answer.
    type Fast<'a>: Send
    where
        Self: 'a;

    /// One that has to be waited for, be it for its body.
    type Waiting<'a>: Send
    where
        Self: 'a;

    /// Refuses a request that is not allowed. It has no effects of its own: what the fast path
    /// does not answer is judged once more on the ordinary way.
    fn admit(&self, request: &AccessRequest<'_>) -> Result<(), Problem>;

    /// What the fast path can answer; anything else goes the ordinary way.
    fn recognise(&self, head: &PlainHead<'_>) -> Option<Self::Fast<'_>>;

    /// The fast path: answers a request by its head alone, if it can without waiting. One that has a body cannot be.
    fn begin<'a>(
        &'a self,
        request: Self::Fast<'a>,
        head: &PlainHead<'_>,
        admitted: Admitted,
        output: &mut Output<'_>,
    ) -> Begun<Self::Waiting<'a>>;

    /// The fast path: answers a request with this body, whose head was complete at `since`. It writes all of the answer
    /// or, if it is given up, nothing.
    fn respond(
        &self,
        request: Self::Waiting<'_>,
        body: &[u8],
        since: Instant,
        admitted: Admitted,
        output: &mut Output<'_>,
    ) -> impl Future<Output = Written> + Send;

    /// The ordinary way.
    fn route(
        &self,
        request: hyper::Request<Incoming>,
        admitted: Admitted,
    ) -> impl Future<Output = Response<Body>> + Send;

    fn metrics(&self) -> &ConnectionMetrics;
}

/// What became of a request on the fast path at once.
pub(crate) enum Begun<W> {
    Answered(Written),
    Waiting(W, Admitted),
}
