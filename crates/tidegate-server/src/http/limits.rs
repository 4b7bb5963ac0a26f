//! A limit and a key: take, peek, refund, reset.

use std::time::Instant;

use axum::body::{Body, Bytes};
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use tidegate::Cost;
use tidegate::bounds::MAX_COUNT;

use super::App;
use super::ask::{Refund, Take};
use super::body;
use super::extract::{Call, Sent};
use super::metrics::Operation;
use super::path::Subject;
use super::problem::Problem;
use super::query::{FromQuery, Query};
use super::reply::{Served, json};

pub(super) type Answered = Result<Response, Problem>;

pub(super) async fn take(call: Call<String>, sent: Sent) -> Answered {
    let _timed = call.timed(Operation::Take);
    let served = call.app.limit(&call.path)?;
    Ok(take_from(served, sent.parse()?).await?.map(Body::from))
}

/// A take from one limit, however it was found and its body was read.
async fn take_from(served: &Served, ask: Take<'_>) -> Result<Response<Bytes>, Problem> {
    let (key, cost) = (ask.key()?, ask.cost());
    let decision = match ask.rate()? {
        None => served.limit.take(key, cost).await?,
        Some(rate) => served.limit.take_with(key, rate, cost).await?,
    };
    Ok(served.to_take(key, cost, &decision))
}

impl App {
    /// The limit that is taken from, if it is written as it is called. Names are letters,
    /// digits, `_` and `-`: what is percent-encoded or has a slash is none of them.
    pub(crate) fn taken_from(&self, method: &Method, path: &str) -> Option<&Served> {
        let name = path.strip_prefix("/v1/limits/")?.strip_suffix("/take")?;
        self.inner.limits.get(name).filter(|_| method == Method::POST)
    }

    /// What the route answers to a body that has been read, and is of a type and a size that
    /// are allowed; its head was complete at `since`.
    pub(crate) async fn take_read(&self, served: &Served, body: &[u8], since: Instant) -> Response<Bytes> {
        let _timed = self.metrics().timed_since(since, Operation::Take);
        let taken = match body::parse(body) {
            Ok(ask) => take_from(served, ask).await,
            Err(problem) => Err(problem),
        };
        taken.unwrap_or_else(Problem::whole)
    }
}

/// What a peek asks for.
#[derive(Debug)]
pub(super) struct PeekQuery(Cost);

impl FromQuery for PeekQuery {
    const NAMES: &'static [&'static str] = &["cost"];

    fn from_query(query: &Query) -> Result<Self, Problem> {
        let cost = query.read("cost", |text| {
            let cost = text.parse().ok().and_then(|cost| Cost::new(cost).ok());
            cost.ok_or_else(|| format!("{text:?} is not a cost: whole numbers from 1 to {MAX_COUNT} are"))
        })?;
        Ok(Self(cost.unwrap_or(Cost::ONE)))
    }
}

pub(super) async fn peek(call: Call<Subject, PeekQuery>) -> Answered {
    let _timed = call.timed(Operation::Peek);
    let served = call.app.limit(&call.path.limit)?;
    let (key, cost) = (call.path.key()?, call.query.0);
    let decision = served.limit.peek_for(key, cost).await?;
    Ok(served.to_peek(key, cost, &decision))
}

pub(super) async fn refund(call: Call<String>, sent: Sent) -> Answered {
    #[derive(Serialize)]
    struct Refunded {
        refunded: u64,
    }
    let _timed = call.timed(Operation::Refund);
    let served = call.app.limit(&call.path)?;
    let ask: Refund<'_> = sent.parse()?;
    let key = ask.key()?;
    let receipt = served.limit.read_receipt(key, ask.receipt())?;
    let refunded = served.limit.refund(key, receipt).await?;
    Ok(json(StatusCode::OK, &Refunded { refunded }))
}

pub(super) async fn reset(call: Call<Subject>) -> Answered {
    let _timed = call.timed(Operation::Reset);
    call.app.limit(&call.path.limit)?.limit.reset(call.path.key()?).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

pub(super) async fn no_key(call: Call<String>) -> Answered {
    call.app.limit(&call.path)?;
    Err(Problem::empty_key())
}
