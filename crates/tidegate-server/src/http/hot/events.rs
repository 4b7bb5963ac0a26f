//! `GET …/events`: what happens, as server-sent events.
//!
//! The id of an event is its position, so who was away goes on by `Last-Event-ID`. The
//! first thing sent is the position to begin with: nothing is missed by a client that
//! is cut off before anything has happened. The stream ends with the server.

use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::{IntoResponse as _, Response};
use futures_util::stream;
use tidegate::Result;
use tidegate::hot::{Event, Watch};

use super::told::Happened;
use crate::http::Stopping;
use crate::http::extract::Call;
use crate::http::limits::Answered;
use crate::http::problem::Problem;
use crate::http::query::{FromQuery, Query};

/// How often a line says that we are still there: well below what proxies allow.
const HEARTBEAT: Duration = Duration::from_secs(15);

/// The mark of a response whose end nobody knows.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Endless;

/// Where to begin.
#[derive(Debug)]
pub(super) struct After(Option<String>);

impl FromQuery for After {
    const NAMES: &'static [&'static str] = &["after"];

    fn from_query(query: &Query) -> std::result::Result<Self, Problem> {
        Ok(Self(query.get("after").map(str::to_owned)))
    }
}

pub(super) async fn watch(call: Call<String, After>, headers: HeaderMap) -> Answered {
    let hot = call.app.space(&call.path)?;
    // The header is what a browser has seen since, the parameter where it began.
    let seen = headers.get("last-event-id").map(|id| ("Last-Event-ID", id.to_str().unwrap_or("?")));
    let after = seen.or(call.query.0.as_deref().map(|after| ("after", after)));
    let after = after.map(|(what, text)| position(what, text, hot.options().partitions)).transpose()?;
    let watch = hot.watch(after).await?;
    let stopping = call.app.stopping().clone();
    Ok(response(Stream { space: call.path, is_begun: false, watch, stopping }))
}

/// One `time-number` for each partition.
fn position<'a>(what: &str, text: &'a str, partitions: u32) -> std::result::Result<&'a str, Problem> {
    let is_number =
        |part: &str| !part.is_empty() && part.len() <= 20 && part.bytes().all(|byte| byte.is_ascii_digit());
    let is_one = |part: &str| part.split_once('-').is_some_and(|(a, b)| is_number(a) && is_number(b));
    if text.split(',').all(is_one) && text.split(',').count() == partitions as usize {
        return Ok(text);
    }
    let shown: String = text.chars().take(40).collect();
    let start = vec!["0-0"; partitions as usize].join(",");
    Err(Problem::invalid(format!(
        "`{what}`: {shown:?} is not a position among these events: the id of one is, and {start}"
    )))
}

fn response(stream: Stream) -> Response {
    let body = Body::from_stream(stream::unfold(Some(stream), |stream| async {
        let mut stream = stream?;
        let (text, is_last) = stream.next().await?;
        Some((Ok::<_, std::convert::Infallible>(text), (!is_last).then_some(stream)))
    }));
    let fixed = HeaderValue::from_static;
    let headers = [
        (header::CONTENT_TYPE, fixed("text/event-stream")),
        (header::CACHE_CONTROL, fixed("no-store")),
        // Its end is the connection's.
        (header::CONNECTION, fixed("close")),
        (header::HeaderName::from_static("x-accel-buffering"), fixed("no")),
    ];
    let mut response = (headers, body).into_response();
    response.extensions_mut().insert(Endless);
    response
}

struct Stream {
    space: String,
    is_begun: bool,
    watch: Watch,
    stopping: Stopping,
}

impl Stream {
    /// What is sent next, and whether it is the last; nothing if all has been said.
    async fn next(&mut self) -> Option<(Bytes, bool)> {
        if !std::mem::replace(&mut self.is_begun, true) {
            return Some((format!("retry: 1000\nid: {}\n\n", self.watch.cursor()).into(), false));
        }
        tokio::select! {
            biased;
            () = self.stopping.wait() => None,
            event = self.watch.next() => Some(said(&self.space, event)),
            () = tokio::time::sleep(HEARTBEAT) => Some((Bytes::from_static(b":\n\n"), false)),
        }
    }
}

fn said(space: &str, event: Result<Event>) -> (Bytes, bool) {
    match event {
        Ok(event) => {
            // Strings and numbers: there is nothing that JSON cannot write.
            let data = serde_json::to_string(&Happened::new(space, &event)).unwrap_or_default();
            let (id, kind) = (&event.cursor, event.kind.as_str());
            (format!("id: {id}\nevent: {kind}\ndata: {data}\n\n").into(), false)
        }
        Err(error) => {
            // Who comes back gets the reason as a status.
            tracing::error!(%error, "events cannot be read");
            (Bytes::from_static(b": events cannot be read\n\n"), true)
        }
    }
}
