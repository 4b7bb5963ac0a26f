//! The point that every request passes, whichever way it takes, where access is decided.
//!
//! Nothing is answered without [`Admitted`], on the fast path, by the router or about a head that
//! is refused, and only [`admit`] makes one: a way around it does not compile.

use std::net::SocketAddr;

use axum::http::{HeaderMap, header};

use super::Service;
use crate::http::Problem;

/// What is known of a request before anything is done for it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AccessRequest<'a> {
    /// Who is at the other end, if it has an address.
    pub(crate) peer: Option<SocketAddr>,
    pub(crate) method: &'a str,
    /// None of a head that is refused: nothing in it can be relied on.
    pub(crate) path: Option<&'a str>,
    /// None on the fast path, which leaves requests with credentials to the ordinary way where they decide anything, and
    /// of a head that is refused.
    pub(crate) headers: Option<&'a HeaderMap>,
}

/// A request may be answered.
#[derive(Debug)]
pub(crate) struct Admitted {
    peer: Option<SocketAddr>,
}

impl Admitted {
    /// Who is at the other end, if it has an address.
    pub(crate) fn peer(&self) -> Option<SocketAddr> {
        self.peer
    }
}

/// Lets a request in if the service says so.
pub(crate) fn admit<S: Service>(service: &S, request: &AccessRequest<'_>) -> Result<Admitted, Problem> {
    match service.admit(request) {
        Ok(()) => Ok(Admitted { peer: request.peer }),
        Err(refused) => {
            let AccessRequest { peer, method, path, headers } = *request;
            let has_credentials = headers
                .is_some_and(|it| it.contains_key(header::AUTHORIZATION) || it.contains_key(header::COOKIE));
            tracing::debug!(?peer, method, path, has_credentials, "a request is not allowed");
            Err(refused)
        }
    }
}
