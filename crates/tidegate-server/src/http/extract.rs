//! What every route begins with: its path, its query and its body, read and checked.
//!
//! A handler takes a [`Call`], and a [`Sent`] if it has a body. So no route forgets that a
//! parameter which it does not know is an error, or that a path may be badly encoded.

use std::time::Instant;

use axum::extract::{FromRequest, FromRequestParts, Path, Request};
use axum::http::request::Parts;
use serde::de::{Deserialize, DeserializeOwned};
use tidegate::clock::monotonic;

use super::metrics::{Operation, Timed};
use super::problem::Problem;
use super::query::{FromQuery, NoQuery, Query};
use super::{App, body};

/// What is asked of whom: what stands in the path, and behind its `?`.
#[derive(Debug)]
pub(super) struct Call<P = (), Q = NoQuery> {
    pub(super) app: App,
    pub(super) path: P,
    pub(super) query: Q,
    since: Instant,
}

impl<P, Q> Call<P, Q> {
    /// Takes the time since the head was there, until what it returns ends.
    pub(super) fn timed(&self, operation: Operation) -> Timed<'_> {
        self.app.metrics().timed_since(self.since, operation)
    }
}

impl<P: DeserializeOwned + Send, Q: FromQuery> FromRequestParts<App> for Call<P, Q> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, Problem> {
        let since = monotonic();
        check_encoding(parts.uri.path())?;
        let Path(path) = Path::from_request_parts(parts, app).await.map_err(|rejection| {
            let why = rejection.body_text();
            Problem::invalid(format!("the path is not UTF-8 when percent-decoded: {why}"))
        })?;
        let query = Q::from_query(&Query::parse(parts.uri.query(), Q::NAMES)?)?;
        Ok(Self { app: app.clone(), path, query, since })
    }
}

/// Refuses a path with a `%` that encodes nothing.
pub(super) fn check_encoding(path: &str) -> Result<(), Problem> {
    let bad = path.match_indices('%').find(|(at, _)| {
        let digits = path.as_bytes().get(at + 1..at + 3);
        !digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
    });
    match bad {
        None => Ok(()),
        Some((at, _)) => {
            let shown: String = path[at..].chars().take(3).collect();
            let what = "is no percent-encoding: two hexadecimal digits follow a %, and % itself is %25";
            Err(Problem::invalid(format!("{shown:?} in the path {what}")))
        }
    }
}

/// The body that was sent, decoded and read to its end.
#[derive(Debug)]
pub(super) struct Sent(axum::body::Bytes);

impl Sent {
    /// What it says.
    pub(super) fn parse<'a, T: Deserialize<'a>>(&'a self) -> Result<T, Problem> {
        body::parse(&self.0)
    }

    /// The same of a body that may be left out.
    pub(super) fn parse_if_any<'a, T: Deserialize<'a> + Default>(&'a self) -> Result<T, Problem> {
        if self.0.is_empty() { Ok(T::default()) } else { self.parse() }
    }

    /// There is nothing to say; but who sends it must be allowed to.
    pub(super) fn check_empty(&self) -> Result<(), Problem> {
        self.parse_if_any::<super::ask::Nothing>().map(drop)
    }
}

impl FromRequest<App> for Sent {
    type Rejection = Problem;

    async fn from_request(request: Request, app: &App) -> Result<Self, Problem> {
        let (head, body) = request.into_parts();
        Ok(Self(body::read(&head.headers, body, app.bounds.max_body_bytes).await?))
    }
}
