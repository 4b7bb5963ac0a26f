//! `POST …/edits`: one edit. Many are in [`bulk`](super::bulk).

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};

use super::ask::AskedEdit;
use super::{bulk, told};
use crate::http::App;
use crate::http::body;
use crate::http::limits::Answered;
use crate::http::metrics::Operation;
use crate::http::path::{Found, decoded};
use crate::http::reply::json;

pub(super) async fn record(
    State(app): State<App>,
    path: Found<String>,
    headers: HeaderMap,
    body: Body,
) -> Answered {
    let space = decoded(path)?;
    let hot = app.space(&space)?;
    if bulk::is_ndjson(&headers) {
        let _timed = app.metrics().timed(Operation::HotBulk);
        return Ok(json(StatusCode::OK, &bulk::record(&app, hot, body).await?));
    }
    let _timed = app.metrics().timed(Operation::HotRecord);
    body::check_type(&headers, "application/json is, and application/x-ndjson for an edit per line")?;
    let bytes = body::read(&headers, body, app.bounds().max_body_bytes).await?;
    let ask: AskedEdit<'_> = body::parse(&bytes)?;
    let edit = ask.edit()?;
    let recorded = hot.record(&edit).await?;
    Ok(json(StatusCode::OK, &told::Edited::new(&space, &edit, &recorded)))
}
