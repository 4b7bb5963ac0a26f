//! A key's own rate, for a while.

use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use serde::Serialize;
use tidegate::Key;
use tidegate::limit::Override;

use super::ask::SetOverride;
use super::extract::{Call, Sent};
use super::limits::Answered;
use super::metrics::Operation;
use super::path::Subject;
use super::problem::Problem;
use super::reply::json;
use crate::answer;

pub(super) async fn set(call: Call<Subject>, sent: Sent) -> Answered {
    let _timed = call.timed(Operation::Override);
    let subject = &call.path;
    let limit = &call.app.limit(&subject.limit)?.limit;
    let key = subject.key()?;
    let ask: SetOverride<'_> = sent.parse()?;
    let set = limit.set_override(key, ask.rate()?, ask.lasting()?).await?;
    Ok(told(&subject.limit, key, &set))
}

pub(super) async fn get(call: Call<Subject>) -> Answered {
    let _timed = call.timed(Operation::Override);
    let subject = &call.path;
    let limit = &call.app.limit(&subject.limit)?.limit;
    let key = subject.key()?;
    match limit.get_override(key).await? {
        Some(found) => Ok(told(&subject.limit, key, &found)),
        None => Err(Problem::no_override(&subject.limit, key)),
    }
}

pub(super) async fn clear(call: Call<Subject>) -> Answered {
    let _timed = call.timed(Operation::Override);
    call.app.limit(&call.path.limit)?.limit.clear_override(call.path.key()?).await?;
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
