//! A key's own rate, for a while.

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Response};
use serde::Serialize;
use tidegate::Key;
use tidegate::limit::Override;

use super::App;
use super::ask::SetOverride;
use super::body;
use super::limits::Answered;
use super::metrics::Operation;
use super::path::{Found, Subject, decoded};
use super::problem::Problem;
use super::reply::json;
use crate::answer;

pub(super) async fn set(
    State(app): State<App>,
    path: Found<Subject>,
    headers: HeaderMap,
    body: Body,
) -> Answered {
    let _timed = app.metrics().timed(Operation::Override);
    let subject = decoded(path)?;
    let limit = &app.limit(&subject.limit)?.limit;
    let key = subject.key()?;
    let bytes = body::read(&headers, body, app.bounds.max_body_bytes).await?;
    let ask: SetOverride<'_> = body::parse(&bytes)?;
    let set = limit.set_override(key, ask.rate()?, ask.lasting()?).await?;
    Ok(told(&subject.limit, key, &set))
}

pub(super) async fn get(State(app): State<App>, path: Found<Subject>) -> Answered {
    let _timed = app.metrics().timed(Operation::Override);
    let subject = decoded(path)?;
    let limit = &app.limit(&subject.limit)?.limit;
    let key = subject.key()?;
    match limit.get_override(key).await? {
        Some(found) => Ok(told(&subject.limit, key, &found)),
        None => Err(Problem::no_override(&subject.limit, key)),
    }
}

pub(super) async fn clear(State(app): State<App>, path: Found<Subject>) -> Answered {
    let _timed = app.metrics().timed(Operation::Override);
    let subject = decoded(path)?;
    app.limit(&subject.limit)?.limit.clear_override(subject.key()?).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

fn told(limit: &str, key: Key<'_>, told: &Override) -> Response {
    #[derive(Serialize)]
    struct Told<'a> {
        limit: &'a str,
        key: Option<&'a str>,
        rate: String,
        lasting_ms: u64,
    }
    // At most 90 days.
    let lasting_ms = told.lasting.as_millis() as u64;
    json(StatusCode::OK, &Told { limit, key: answer::subject(key), rate: told.rate.to_string(), lasting_ms })
}
