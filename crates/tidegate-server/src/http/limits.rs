//! A limit and a key: take, peek, refund, reset.

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use tidegate::Cost;
use tidegate::bounds::MAX_COUNT;

use super::App;
use super::ask::{Refund, Take};
use super::body;
use super::metrics::Operation;
use super::path::{Found, Subject, decoded};
use super::problem::Problem;
use super::query::Query;
use super::reply::{Served, json};

pub(super) type Answered = Result<Response, Problem>;

pub(super) async fn take(
    State(app): State<App>,
    path: Found<String>,
    headers: HeaderMap,
    body: Body,
) -> Answered {
    let _timed = app.metrics().timed(Operation::Take);
    let name = decoded(path)?;
    let served = app.limit(&name)?;
    let bytes = body::read(&headers, body, app.bounds.max_body_bytes).await?;
    Ok(take_from(served, &bytes).await?.map(Body::from))
}

/// A take from one limit, however it was found and its body was read.
pub(super) async fn take_from(served: &Served, body: &[u8]) -> Result<Response<Bytes>, Problem> {
    let ask: Take<'_> = body::parse(body)?;
    let (key, cost) = (ask.key()?, ask.cost());
    let decision = match ask.rate()? {
        None => served.limit.take(key, cost).await?,
        Some(rate) => served.limit.take_with(key, rate, cost).await?,
    };
    Ok(served.to_take(key, cost, &decision))
}

pub(super) async fn peek(State(app): State<App>, path: Found<Subject>, uri: Uri) -> Answered {
    let _timed = app.metrics().timed(Operation::Peek);
    let subject = decoded(path)?;
    let served = app.limit(&subject.limit)?;
    let key = subject.key()?;
    let query = Query::parse(uri.query(), &["cost"])?;
    let cost = query.read("cost", |text| {
        let cost = text.parse().ok().and_then(|cost| Cost::new(cost).ok());
        cost.ok_or_else(|| format!("{text:?} is not a cost: whole numbers from 1 to {MAX_COUNT} are"))
    })?;
    let cost = cost.unwrap_or(Cost::ONE);
    let decision = served.limit.peek_for(key, cost).await?;
    Ok(served.to_peek(key, cost, &decision))
}

pub(super) async fn refund(
    State(app): State<App>,
    path: Found<String>,
    headers: HeaderMap,
    body: Body,
) -> Answered {
    #[derive(Serialize)]
    struct Refunded {
        refunded: u64,
    }
    let _timed = app.metrics().timed(Operation::Refund);
    let name = decoded(path)?;
    let served = app.limit(&name)?;
    let bytes = body::read(&headers, body, app.bounds.max_body_bytes).await?;
    let ask: Refund<'_> = body::parse(&bytes)?;
    let (receipt, key) = (ask.receipt()?, ask.key()?);
    let refunded = served.limit.refund(key, receipt).await?;
    Ok(json(StatusCode::OK, &Refunded { refunded }))
}

pub(super) async fn reset(State(app): State<App>, path: Found<Subject>) -> Answered {
    let _timed = app.metrics().timed(Operation::Reset);
    let subject = decoded(path)?;
    app.limit(&subject.limit)?.limit.reset(subject.key()?).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

pub(super) async fn no_key(State(app): State<App>, path: Found<String>) -> Answered {
    let name = decoded(path)?;
    app.limit(&name)?;
    Err(Problem::empty_key())
}
