//! The HTTP API as a listener serves it: the router, and takes on the fast path.

use std::time::Instant;

use axum::Router;
use axum::body::Body;
use axum::http::Response;
use hyper::body::Incoming;
use tower_service::Service as _;

use super::body::is_type_allowed;
use super::{App, router};
use super::{Result, Served};
use crate::connection::{
    AccessRequest, Admitted, Begun, ConnectionMetrics, Output, PlainHead, Service, Written,
};

/// An app with its router.
#[derive(Clone)]
pub(crate) struct HttpService {
    app: App,
    router: Router,
}

impl HttpService {
    pub(crate) fn new(app: App) -> Self {
        Self { router: router(app.clone()), app }
    }
}

impl Service for HttpService {
    /// A take from this limit.
    type Fast<'a> = Served<'a>;
    type Waiting<'a> = Served<'a>;

    /// Everybody who reaches the server may do everything.
    fn admit(&self, _: &AccessRequest<'_>) -> Result<()> {
        Ok(())
    }

    fn recognise(&self, head: &PlainHead<'_>) -> Option<Served<'_>> {
        let is_readable =
            head.length? <= self.app.settings().max_body_bytes && is_type_allowed(head.media_type, false);
        self.app.taken_from(head.target).filter(|_| head.method == "POST" && is_readable)
    }

    fn begin<'a>(
        &'a self,
        limit: Served<'a>,
        _: &PlainHead<'_>,
        admitted: Admitted,
        _: &mut Output<'_>,
    ) -> Begun<Served<'a>> {
        Begun::Waiting(limit, admitted)
    }

    async fn respond(
        &self,
        limit: Self::Waiting<'_>,
        body: &[u8],
        since: Instant,
        _: Admitted,
        output: &mut Output<'_>,
    ) -> Written {
        output.response(&self.app.take_read(limit, body, since).await)
    }

    async fn route(&self, request: hyper::Request<Incoming>, _: Admitted) -> Response<Body> {
        let Ok(response) = self.router.clone().call(request).await;
        response
    }

    fn metrics(&self) -> &ConnectionMetrics {
        &self.app.metrics().connections
    }
}
