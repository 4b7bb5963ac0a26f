//! The routes of limits.

use axum::body::Body;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use tidegate::Key;
use tidegate::limit::Receipt;

use super::App;
use super::body::{self, Refund, Take};
use super::problem::Problem;
use super::reply::JSON;

type Answered = Result<Response, Problem>;

/// What stood in a path, percent-decoded.
fn decoded<T>(path: Result<Path<T>, PathRejection>) -> Result<T, Problem> {
    match path {
        Ok(Path(parts)) => Ok(parts),
        Err(rejection) => Err(Problem::invalid(format!(
            "the path is not UTF-8 when percent-decoded: {}",
            rejection.body_text()
        ))),
    }
}

pub(super) async fn take(
    State(app): State<App>,
    path: Result<Path<String>, PathRejection>,
    headers: HeaderMap,
    body: Body,
) -> Answered {
    let name = decoded(path)?;
    let served = app.limit(&name)?;
    let bytes = body::read(&headers, body, app.max_body_bytes).await?;
    let ask: Take<'_> = body::parse(&bytes)?;
    let (key, cost) = (Key::new(&ask.key)?, ask.cost());
    let decision = match ask.rate()? {
        None => served.limit.take(key, cost).await?,
        Some(rate) => served.limit.take_with(key, rate, cost).await?,
    };
    Ok(served.to_take(key.as_str(), cost, &decision))
}

pub(super) async fn peek(
    State(app): State<App>,
    path: Result<Path<(String, String)>, PathRejection>,
) -> Answered {
    let (name, key) = decoded(path)?;
    let served = app.limit(&name)?;
    let decision = served.limit.peek(Key::new(&key)?).await?;
    Ok(served.to_peek(&key, &decision))
}

pub(super) async fn refund(
    State(app): State<App>,
    path: Result<Path<String>, PathRejection>,
    headers: HeaderMap,
    body: Body,
) -> Answered {
    #[derive(Serialize)]
    struct Refunded {
        refunded: u64,
    }
    let name = decoded(path)?;
    let served = app.limit(&name)?;
    let bytes = body::read(&headers, body, app.max_body_bytes).await?;
    let ask: Refund<'_> = body::parse(&bytes)?;
    let receipt: Receipt = ask.receipt.parse()?;
    let refunded = served.limit.refund(Key::new(&ask.key)?, receipt).await?;
    Ok(json(&Refunded { refunded }))
}

pub(super) async fn reset(
    State(app): State<App>,
    path: Result<Path<(String, String)>, PathRejection>,
) -> Answered {
    let (name, key) = decoded(path)?;
    app.limit(&name)?.limit.reset(Key::new(&key)?).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}

pub(super) async fn no_key(State(app): State<App>, path: Result<Path<String>, PathRejection>) -> Answered {
    let name = decoded(path)?;
    app.limit(&name)?;
    Key::new("")?;
    Ok(StatusCode::BAD_REQUEST.into_response())
}

pub(super) async fn list(State(app): State<App>) -> Response {
    #[derive(Serialize)]
    struct All<'a> {
        limits: Vec<Row<'a>>,
    }
    #[derive(Serialize)]
    struct Row<'a> {
        limit: &'a str,
        algorithm: &'static str,
        rate: String,
        window_size_seconds: u64,
        capacity: u64,
        coalesce_ms: u64,
    }
    let rows = app.inner.limits.iter().map(|(name, served)| {
        let sliding = served.limit.sliding();
        Row {
            limit: name,
            algorithm: "sliding",
            rate: sliding.rate().to_string(),
            window_size_seconds: sliding.window().as_seconds(),
            capacity: sliding.capacity(),
            // A window has at most 2,678,400,000 ms.
            coalesce_ms: sliding.coalesce().as_millis() as u64,
        }
    });
    json(&All { limits: rows.collect() })
}

fn json(value: &impl Serialize) -> Response {
    // Strings and numbers: there is nothing that JSON cannot write.
    let body = serde_json::to_vec(value).unwrap_or_default();
    ([(header::CONTENT_TYPE, JSON)], body).into_response()
}
