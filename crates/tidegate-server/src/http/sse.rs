//! Server-sent events: a response without an end.
//!
//! The id of a message is a position, so who was away goes on by `Last-Event-ID`. The first
//! thing sent is the position to begin with: nothing is missed by a client that is cut off
//! before anything has happened. A message is made when there is room to send it, so a slow
//! client holds none of ours back but those of one write; what its source no longer has by
//! then the source tells as missed. Lines say that we are still there, and the stream ends
//! with the server.

use std::future::Future;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::{IntoResponse as _, Response};
use futures_util::stream;

use super::Stopping;

/// How often a line says that we are still there: well below what proxies allow.
const HEARTBEAT: Duration = Duration::from_secs(15);

/// The mark of a response whose end nobody knows.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Endless;

/// Where messages come from.
pub(crate) trait Source: Send + 'static {
    /// Where it stands.
    fn position(&self) -> String;

    /// The next message, whenever there is one. To give up waiting loses none.
    fn next(&mut self) -> impl Future<Output = tidegate::Result<Message>> + Send;
}

/// One message, without line breaks in any of it.
pub(crate) struct Message {
    /// The position after it.
    pub(crate) id: String,
    pub(crate) event: &'static str,
    pub(crate) data: String,
}

/// The position that a client wants to go on from, and what it is called: what a browser
/// has seen since, or where it began.
pub(crate) fn requested_position<'a>(
    headers: &'a HeaderMap,
    after: Option<&'a str>,
) -> Option<(&'static str, &'a str)> {
    let seen = headers.get("last-event-id").map(|id| ("`Last-Event-ID`", id.to_str().unwrap_or("?")));
    seen.or(after.map(|after| ("`after`", after)))
}

/// What comes from `source`, until the server stops.
pub(crate) fn respond(source: impl Source, stopping: Stopping) -> Response {
    let stream = Stream { is_begun: false, source, stopping };
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

struct Stream<S> {
    is_begun: bool,
    source: S,
    stopping: Stopping,
}

impl<S: Source> Stream<S> {
    /// What is sent next, and whether it is the last; nothing if all has been said.
    async fn next(&mut self) -> Option<(Bytes, bool)> {
        if !std::mem::replace(&mut self.is_begun, true) {
            return Some((format!("retry: 1000\nid: {}\n\n", self.source.position()).into(), false));
        }
        tokio::select! {
            biased;
            () = self.stopping.wait() => None,
            message = self.source.next() => Some(text(message)),
            () = tokio::time::sleep(HEARTBEAT) => Some((Bytes::from_static(b":\n\n"), false)),
        }
    }
}

fn text(message: tidegate::Result<Message>) -> (Bytes, bool) {
    match message {
        Ok(Message { id, event, data }) => {
            (format!("id: {id}\nevent: {event}\ndata: {data}\n\n").into(), false)
        }
        Err(error) => {
            // Who comes back gets the reason as a status.
            tracing::error!(%error, "events cannot be read");
            (Bytes::from_static(b": events cannot be read\n\n"), true)
        }
    }
}
