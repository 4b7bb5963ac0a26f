//! Server-sent events: a response without an end.
//!
//! - Resume: the id of a message is a position, so who was away goes on by `Last-Event-ID`. The
//!   first thing sent is the position to begin with: nothing is missed by a client that is cut
//!   off before anything has happened.
//! - Bounded buffer: a message is taken from its source when there is room to send it, so a slow
//!   client has us keep no more than one write.
//! - Gap notice: what the source no longer has by then is an event `missed`, with a position
//!   like any other.
//! - Heartbeat: a comment line while nothing happens. The stream ends with the server.

use std::future::Future;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::{IntoResponse as _, Response};
use futures_util::stream;
use tokio::sync::watch;

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
    fn next(&mut self) -> impl Future<Output = Result<Message, End>> + Send;
}

/// Why nothing comes any more. Who comes back goes on where it was.
pub(crate) enum End {
    /// What the client is told.
    CutOff(String),
    /// What is logged: who comes back gets the reason as a status.
    Failed(String),
}

impl From<tidegate::Error> for End {
    fn from(error: tidegate::Error) -> Self {
        Self::Failed(error.to_string())
    }
}

/// One message, without line breaks in any of it.
pub(crate) struct Message {
    /// The position after it; none if who has it must have the next one too.
    id: Option<String>,
    event: &'static str,
    data: String,
}

impl Message {
    /// Something that happened, at the position before `id`.
    pub(crate) fn new(id: String, event: &'static str, data: String) -> Self {
        Self { id: Some(id), event, data }
    }

    /// A part of something that happened; the next message is the rest of it.
    pub(crate) fn part(event: &'static str, data: String) -> Self {
        Self { id: None, event, data }
    }
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
pub(crate) fn respond(source: impl Source, stopping: watch::Receiver<()>) -> Response {
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
    stopping: watch::Receiver<()>,
}

impl<S: Source> Stream<S> {
    /// What is sent next, and whether it is the last; nothing if all has been said.
    async fn next(&mut self) -> Option<(Bytes, bool)> {
        if !std::mem::replace(&mut self.is_begun, true) {
            return Some((format!("retry: 1000\nid: {}\n\n", self.source.position()).into(), false));
        }
        tokio::select! {
            biased;
            _ = self.stopping.changed() => None,
            message = self.source.next() => Some(text(message)),
            () = tokio::time::sleep(HEARTBEAT) => Some((Bytes::from_static(b":\n\n"), false)),
        }
    }
}

fn text(message: Result<Message, End>) -> (Bytes, bool) {
    match message {
        Ok(Message { id, event, data }) => {
            let id = id.map(|id| format!("id: {id}\n")).unwrap_or_default();
            (format!("{id}event: {event}\ndata: {data}\n\n").into(), false)
        }
        Err(End::CutOff(reason)) => (format!(": {reason}\n\n").into(), true),
        Err(End::Failed(error)) => {
            tracing::error!(%error, "events cannot be read");
            (Bytes::from_static(b": events cannot be read\n\n"), true)
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    use http_body_util::BodyExt as _;

    use super::*;

    /// Counts, from behind the position that it began with; the second is missing.
    struct Counting {
        last: Arc<AtomicU64>,
        until: u64,
    }

    impl Source for Counting {
        fn position(&self) -> String {
            self.last.load(Ordering::Relaxed).to_string()
        }

        async fn next(&mut self) -> Result<Message, End> {
            let last = self.last.load(Ordering::Relaxed);
            if last == self.until {
                return std::future::pending().await;
            }
            self.last.store(last + 1, Ordering::Relaxed);
            let (id, data) = ((last + 1).to_string(), "{}".to_owned());
            Ok(Message::new(id, if last == 1 { "missed" } else { "counted" }, data))
        }
    }

    async fn next(body: &mut Body) -> Option<String> {
        let frame = body.frame().await?.unwrap();
        Some(String::from_utf8(frame.into_data().unwrap().to_vec()).unwrap())
    }

    #[tokio::test(start_paused = true)]
    async fn a_stream_resumes_notices_gaps_buffers_nothing_and_lives() {
        let last = Arc::new(AtomicU64::new(0));
        let (stop, stopping) = tokio::sync::watch::channel(());
        let source = Counting { last: last.clone(), until: 3 };
        let mut body = respond(source, stopping).into_body();
        // The position to begin with, before anything has happened.
        assert_eq!(next(&mut body).await.unwrap(), "retry: 1000\nid: 0\n\n");
        // Nothing is taken from the source before there is room for it.
        tokio::time::sleep(HEARTBEAT * 3).await;
        assert_eq!(last.load(Ordering::Relaxed), 0);
        for (id, event) in [(1, "counted"), (2, "missed"), (3, "counted")] {
            assert_eq!(next(&mut body).await.unwrap(), format!("id: {id}\nevent: {event}\ndata: {{}}\n\n"));
            assert_eq!(last.load(Ordering::Relaxed), id);
        }
        for _ in 0..3 {
            let ms = Duration::from_millis(1);
            assert!(tokio::time::timeout(HEARTBEAT - ms, next(&mut body)).await.is_err());
            let line = tokio::time::timeout(ms * 2, next(&mut body)).await;
            assert_eq!(line.unwrap().unwrap(), ":\n\n");
        }
        stop.send(()).unwrap();
        assert_eq!(next(&mut body).await, None);
    }

    #[test]
    fn what_a_browser_has_seen_since_is_later_than_where_it_began() {
        let mut headers = HeaderMap::new();
        assert_eq!(requested_position(&headers, None), None);
        assert_eq!(requested_position(&headers, Some("5")), Some(("`after`", "5")));
        headers.insert("last-event-id", HeaderValue::from_static("7"));
        assert_eq!(requested_position(&headers, Some("5")), Some(("`Last-Event-ID`", "7")));
    }
}
