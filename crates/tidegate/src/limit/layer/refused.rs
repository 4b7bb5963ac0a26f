//! What a request gets that the service does not: why, and what is answered.

use std::fmt;

use http::{Response, StatusCode};

use crate::error::{Error, ErrorKind};
use crate::limit::{Decision, problem};

/// A request that does not reach the service.
#[derive(Debug)]
#[non_exhaustive]
pub struct Refused {
    /// Why it does not.
    pub reason: Reason,
    /// What is answered unless you say otherwise: a status, `Retry-After` and the `RateLimit`
    /// fields where there is a decision, and a problem as JSON.
    pub response: Response<String>,
}

/// Why a request does not reach the service.
#[derive(Debug)]
#[non_exhaustive]
pub enum Reason {
    /// It has no key, and [`WithoutKey::Refuse`](super::WithoutKey::Refuse) holds.
    NoKey,
    /// The limit has refused it.
    Decided(Decision),
    /// There is no decision: its key may not be one, or the limit fails.
    Failed(Error),
}

impl Refused {
    pub(super) fn without_key(limit: &str) -> Self {
        let why = format!("the request has no key, which the limit {limit:?} needs");
        let response = problem::failure(&Error::invalid(why));
        Self { reason: Reason::NoKey, response }
    }

    pub(super) fn failed(error: Error) -> Self {
        let response = problem::failure(&error);
        Self { reason: Reason::Failed(error), response }
    }

    /// The decision, if it was one that refused.
    pub fn decision(&self) -> Option<&Decision> {
        match &self.reason {
            Reason::Decided(decision) => Some(decision),
            _ => None,
        }
    }

    /// Whether it is the request that is wrong, and not the limit that is used up or away.
    pub fn is_bad_request(&self) -> bool {
        match &self.reason {
            Reason::NoKey => true,
            Reason::Decided(_) => false,
            Reason::Failed(error) => error.kind() == ErrorKind::Invalid,
        }
    }

    /// The status that is answered unless you say otherwise.
    pub fn status(&self) -> StatusCode {
        self.response.status()
    }
}

/// What makes a response of a [`Refused`].
pub trait Answer<R>: Clone {
    /// The response.
    fn answer(&self, refused: Refused) -> Response<R>;
}

/// Answers with the problem that [`Refused`] has.
#[derive(Debug, Clone, Copy)]
pub struct AsProblem;

impl<R: From<String>> Answer<R> for AsProblem {
    fn answer(&self, refused: Refused) -> Response<R> {
        refused.response.map(R::from)
    }
}

/// Answers with what a function makes of it.
#[derive(Clone)]
pub struct AsMade<F>(pub(super) F);

impl<F> fmt::Debug for AsMade<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AsMade").finish_non_exhaustive()
    }
}

impl<R, F: Fn(Refused) -> Response<R> + Clone> Answer<R> for AsMade<F> {
    fn answer(&self, refused: Refused) -> Response<R> {
        (self.0)(refused)
    }
}
