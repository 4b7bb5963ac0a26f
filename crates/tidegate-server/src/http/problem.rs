//! Everything that is not answered as asked, as `application/problem+json`
//! (RFC 9457).
//!
//! The `type` tells programs what it is, `detail` tells people what was wrong
//! with which value and what is allowed.

use axum::body::Bytes;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use tidegate::session::Refusal;
use tidegate::{Error, ErrorKind, Key};

use super::reply::whole;
use crate::answer;
use crate::readiness::Report;

/// The media type of a problem.
pub(crate) const PROBLEM_JSON: HeaderValue = HeaderValue::from_static(tidegate::limit::headers::PROBLEM_JSON);

/// A problem.
#[derive(Debug)]
pub(crate) struct Problem {
    status: StatusCode,
    name: &'static str,
    title: &'static str,
    detail: String,
    /// Why a call on a session changed nothing, in a word.
    refusal: Option<&'static str>,
    /// What is left of the connection is not read.
    is_last: bool,
    /// What had been done by then.
    counts: Option<Box<serde_json::Value>>,
    reason: Option<Box<Reason>>,
}

/// Why a store cannot be used: with the response for who asks without a server, and so without
/// a log, and never sent to anybody.
#[derive(Debug, Clone)]
pub(crate) struct Reason(pub(crate) String);

#[derive(Serialize)]
struct Body<'a, M: Serialize> {
    r#type: String,
    title: &'a str,
    status: u16,
    detail: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    refusal: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    counts: Option<&'a serde_json::Value>,
    #[serde(flatten)]
    more: &'a M,
}

impl Problem {
    fn new(status: StatusCode, name: &'static str, title: &'static str, detail: String) -> Self {
        // What is left of a body that is too long, or too late, is not read.
        let is_last = matches!(status, StatusCode::REQUEST_TIMEOUT | StatusCode::PAYLOAD_TOO_LARGE);
        Self { status, name, title, detail, refusal: None, is_last, counts: None, reason: None }
    }

    pub(crate) fn invalid(detail: String) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "invalid-request", "Invalid request", detail)
    }

    /// What a head is refused with, before anybody has acted on it: whatever comes behind it is
    /// not read, since nobody can tell where it begins.
    pub(crate) fn refused_head(status: StatusCode, detail: String) -> Self {
        let (name, title) = match status {
            StatusCode::EXPECTATION_FAILED => ("expectation-failed", "Expectation failed"),
            StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE => ("head-too-large", "Head too large"),
            StatusCode::NOT_IMPLEMENTED => ("unknown-transfer-coding", "Unknown transfer coding"),
            StatusCode::HTTP_VERSION_NOT_SUPPORTED => ("unknown-http-version", "Unknown version of HTTP"),
            _ => ("malformed-request", "Malformed request"),
        };
        Self { is_last: true, ..Self::new(status, name, title, detail) }
    }

    pub(crate) fn empty_key() -> Self {
        let what = Key::new("").map_or_else(|error| error.to_string(), |_| String::new());
        Self::invalid(format!("{what}; what has no key is under /everyone"))
    }

    pub(crate) fn unknown_limit<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Self {
        // Somebody else's text, and of any length.
        let name: String = name.chars().take(64).collect();
        let known: Vec<_> = known.into_iter().collect();
        let detail = format!("there is no limit {name:?}; known are: {}", known.join(", "));
        Self::new(StatusCode::NOT_FOUND, "unknown-limit", "Unknown limit", detail)
    }

    pub(crate) fn unknown_space<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Self {
        let name: String = name.chars().take(64).collect();
        let known: Vec<_> = known.into_iter().collect();
        let detail = format!("there is no space {name:?}; known are: {}", known.join(", "));
        Self::new(StatusCode::NOT_FOUND, "unknown-space", "Unknown space", detail)
    }

    /// `what` is empty, and is a key.
    pub(crate) fn empty(what: &str) -> Self {
        let why = Key::new("").map_or_else(|error| error.to_string(), |_| String::new());
        Self::invalid(why.replacen("a key", what, 1))
    }

    /// What a call on a session is refused with.
    pub(crate) fn refused(refusal: Refusal) -> Self {
        let (status, name, title) = match refusal {
            Refusal::Gone => (StatusCode::NOT_FOUND, "session-gone", "Session gone"),
            Refusal::Reaping => (StatusCode::CONFLICT, "session-reaping", "Session being reaped"),
            Refusal::Active => (StatusCode::CONFLICT, "session-active", "Session active"),
            Refusal::Disconnected => (StatusCode::CONFLICT, "session-disconnected", "Session disconnected"),
            Refusal::Lapsed => (StatusCode::CONFLICT, "session-lapsed", "Holder lapsed"),
            Refusal::Stale => (StatusCode::CONFLICT, "session-stale", "Another generation"),
            Refusal::NotClaimed => (StatusCode::CONFLICT, "session-not-claimed", "Session not claimed"),
            Refusal::TooManyHolders => {
                (StatusCode::TOO_MANY_REQUESTS, "session-too-many-holders", "Too many holders")
            }
            Refusal::Full => (StatusCode::TOO_MANY_REQUESTS, "sessions-full", "Too many sessions"),
            // Whatever else there will be.
            _ => (StatusCode::CONFLICT, "session-refused", "Session refused"),
        };
        Self { refusal: Some(refusal.as_str()), ..Self::new(status, name, title, refusal.to_string()) }
    }

    pub(crate) fn no_override(limit: &str, key: Key<'_>) -> Self {
        let whose = whose(key);
        let detail = format!("{whose} has no override of the limit {limit:?}, or it has ended");
        Self::new(StatusCode::NOT_FOUND, "no-override", "No override", detail)
    }

    pub(crate) fn no_reservation(limit: &str, key: Key<'_>, id: &str) -> Self {
        let (whose, id) = (whose(key), id.chars().take(64).collect::<String>());
        let detail =
            format!("{whose} has no reservation {id:?} of the limit {limit:?}, or it has been forgotten");
        Self::new(StatusCode::NOT_FOUND, "no-reservation", "No reservation", detail)
    }

    pub(crate) fn unknown_path(path: &str) -> Self {
        let path: String = path.chars().take(200).collect();
        let detail = format!(
            "there is nothing at {path:?}: / lists what there is; a slash inside a key is written %2F"
        );
        Self::new(StatusCode::NOT_FOUND, "unknown-path", "Unknown path", detail)
    }

    pub(crate) fn method_not_allowed(method: &str, path: &str) -> Self {
        let (method, path): (String, String) =
            (method.chars().take(20).collect(), path.chars().take(200).collect());
        let detail = format!("{method} is not allowed on {path:?}: the Allow header lists what is");
        Self::new(StatusCode::METHOD_NOT_ALLOWED, "method-not-allowed", "Method not allowed", detail)
    }

    pub(crate) fn conflict(detail: String) -> Self {
        Self::new(StatusCode::CONFLICT, "conflict", "Conflict", detail)
    }

    pub(crate) fn body_too_large(max_bytes: usize) -> Self {
        let detail = format!("the body is too large: at most {max_bytes} bytes are allowed");
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "body-too-large", "Body too large", detail)
    }

    pub(crate) fn content_type(given: &str, allowed: &str) -> Self {
        let given: String = given.chars().take(100).collect();
        let detail = format!("a body of type {given:?} is not allowed: {allowed}");
        Self::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "unsupported-media-type",
            "Unsupported media type",
            detail,
        )
    }

    pub(crate) fn content_encoding(given: &str) -> Self {
        let given: String = given.chars().take(40).collect();
        let detail = format!("a body encoded as {given:?} is not allowed: gzip is, once, and identity");
        Self::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "unsupported-encoding", "Unsupported encoding", detail)
    }

    pub(crate) fn timeout(after: std::time::Duration) -> Self {
        let after = humantime::format_duration(after);
        Self::late(format!("the request was not complete after {after}"))
    }

    pub(crate) fn late(detail: String) -> Self {
        Self::new(StatusCode::REQUEST_TIMEOUT, "request-timeout", "Request timeout", detail)
    }

    /// The server is told to stop, and does not wait for the rest.
    pub(crate) fn stopping(so_far: String) -> Self {
        let detail = format!("the server is stopping, {so_far}");
        let status = StatusCode::SERVICE_UNAVAILABLE;
        Self { is_last: true, ..Self::new(status, "stopping", "Server stopping", detail) }
    }

    /// The same, with what had been done by then.
    pub(crate) fn with_counts(self, counts: &impl Serialize) -> Self {
        Self { counts: serde_json::to_value(counts).ok().map(Box::new), ..self }
    }

    pub(crate) fn not_ready(report: &Report) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "not-ready", "Not ready", report.detail())
    }

    fn unavailable(detail: String) -> Self {
        Self::new(StatusCode::SERVICE_UNAVAILABLE, "store-unavailable", "Store unavailable", detail)
    }
}

/// A key in a sentence.
fn whose(key: Key<'_>) -> String {
    answer::subject(key).map_or("everyone".to_owned(), |key| format!("the key {key:?}"))
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        match error.kind() {
            ErrorKind::Invalid => Self::invalid(error.to_string()),
            ErrorKind::Conflict => Self::conflict(error.to_string()),
            ErrorKind::Unavailable => Self::unavailable(error.to_string()),
            ErrorKind::Corrupt => {
                tracing::error!(%error, "a key in the store is not what it should be");
                let detail = "what the store has for this is of another type than ours, or cannot be read: somebody \
                              else has written there; a reset of the key, the deletion of what it is about, or \
                              `tidegate sessions reconcile` mends it, if it is ours";
                let status = StatusCode::INTERNAL_SERVER_ERROR;
                let problem = Self::new(status, "corrupt-key", "Corrupt key", detail.to_owned());
                Self { reason: Some(Box::new(Reason(error.to_string()))), ..problem }
            }
            // The reason is the operator's, and may tell about the inside.
            kind => {
                tracing::error!(%error, ?kind, "a call failed");
                let detail = "the store cannot be used: the server's log has the reason".to_owned();
                let status = StatusCode::INTERNAL_SERVER_ERROR;
                let problem = Self::new(status, "internal-error", "Internal error", detail);
                Self { reason: Some(Box::new(Reason(error.to_string()))), ..problem }
            }
        }
    }
}

impl Problem {
    /// As a response, with more members than a problem has.
    pub(crate) fn respond_with(self, more: &impl Serialize) -> Response {
        self.whole_with(more).map(axum::body::Body::from)
    }

    /// As a response.
    pub(crate) fn whole(self) -> Response<Bytes> {
        self.whole_with(&serde_json::Map::new())
    }

    fn whole_with(self, more: &impl Serialize) -> Response<Bytes> {
        let body = Body {
            r#type: format!("urn:tidegate:problem:{}", self.name),
            title: self.title,
            status: self.status.as_u16(),
            detail: &self.detail,
            refusal: self.refusal,
            counts: self.counts.as_deref(),
            more,
        };
        // Strings and a number: there is nothing that JSON cannot write.
        let body = serde_json::to_vec(&body).unwrap_or_default();
        let mut response = whole(self.status, PROBLEM_JSON, body, |headers| {
            if self.status == StatusCode::SERVICE_UNAVAILABLE {
                headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
            }
            if self.is_last {
                headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
            }
        });
        if let Some(reason) = self.reason {
            response.extensions_mut().insert(*reason);
        }
        response
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        self.whole().map(axum::body::Body::from)
    }
}
