//! `POST …/edits`: one edit. Many are in [`bulk`](super::bulk).

use axum::body::Body;
use axum::http::{HeaderMap, StatusCode};

use super::ask::AskedEdit;
use super::{bulk, told};
use crate::http::encoding::decoded;
use crate::http::extract::Call;
use crate::http::limits::Answered;
use crate::http::metrics::Operation;
use crate::http::reply::json;
use crate::http::{App, body};

pub(super) async fn record(call: Call<String>, headers: HeaderMap, body: Body) -> Answered {
    let (app, space): (&App, _) = (&call.app, &call.path);
    let hot = app.space(space)?;
    if bulk::is_ndjson(&headers) {
        let _timed = call.timed(Operation::HotBulk);
        let lines = decoded(&headers, body)?;
        let tally = bulk::record(app, hot, lines).await?;
        return Ok(json(tally.status(), &tally));
    }
    let _timed = call.timed(Operation::HotRecord);
    body::check_type(&headers, "application/json is, and application/x-ndjson for an edit per line")?;
    let bytes = body::read(&headers, body, app.bounds().max_body_bytes).await?;
    let ask: AskedEdit<'_> = body::parse(&bytes)?;
    let edit = ask.edit()?;
    let recorded = hot.record(&edit).await?;
    Ok(json(StatusCode::OK, &told::Edited::new(hot.space().as_str(), &edit, &recorded)))
}
