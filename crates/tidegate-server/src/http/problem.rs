//! Everything that is not a success, as `application/problem+json`
//! (RFC 9457).
//!
//! The `type` tells programs what it is, `detail` tells people what was wrong
//! with which value and what is allowed.

use axum::body::Bytes;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tidegate::session::Refusal;
use tidegate::store::PartKind;
use tidegate::{Error, ErrorKind, Key};

use super::response::whole;
use crate::api;
use crate::parts::{PartError, Unknown};
use crate::readiness::Report;

/// The media type of a problem.
pub(crate) const PROBLEM_JSON: HeaderValue = HeaderValue::from_static(tidegate::limit::headers::PROBLEM_JSON);

/// A kind of problem: its name, which ends its `type`, what people read, and its status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Kind {
    pub(crate) name: &'static str,
    pub(crate) title: &'static str,
    pub(crate) status: StatusCode,
}

/// All kinds there are.
impl Kind {
    pub(crate) const INVALID: Self = Self::new("invalid-request", "Invalid request", StatusCode::BAD_REQUEST);
    pub(crate) const MALFORMED: Self =
        Self::new("malformed-request", "Malformed request", StatusCode::BAD_REQUEST);
    pub(crate) const EXPECTATION: Self =
        Self::new("expectation-failed", "Expectation failed", StatusCode::EXPECTATION_FAILED);
    pub(crate) const HEAD_TOO_LARGE: Self =
        Self::new("head-too-large", "Head too large", StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE);
    pub(crate) const TRANSFER_CODING: Self =
        Self::new("unknown-transfer-coding", "Unknown transfer coding", StatusCode::NOT_IMPLEMENTED);
    pub(crate) const HTTP_VERSION: Self =
        Self::new("unknown-http-version", "Unknown version of HTTP", StatusCode::HTTP_VERSION_NOT_SUPPORTED);
    pub(crate) const UNKNOWN_LIMIT: Self = Self::new("unknown-limit", "Unknown limit", StatusCode::NOT_FOUND);
    pub(crate) const UNKNOWN_SPACE: Self = Self::new("unknown-space", "Unknown space", StatusCode::NOT_FOUND);
    pub(crate) const UNKNOWN_PATH: Self = Self::new("unknown-path", "Unknown path", StatusCode::NOT_FOUND);
    pub(crate) const NO_OVERRIDE: Self = Self::new("no-override", "No override", StatusCode::NOT_FOUND);
    pub(crate) const NO_CHARGE: Self = Self::new("no-charge", "No charge", StatusCode::NOT_FOUND);
    pub(crate) const NO_RESERVATION: Self =
        Self::new("no-reservation", "No reservation", StatusCode::NOT_FOUND);
    pub(crate) const METHOD: Self =
        Self::new("method-not-allowed", "Method not allowed", StatusCode::METHOD_NOT_ALLOWED);
    pub(crate) const CONFLICT: Self = Self::new("conflict", "Conflict", StatusCode::CONFLICT);
    pub(crate) const TIMEOUT: Self =
        Self::new("request-timeout", "Request timeout", StatusCode::REQUEST_TIMEOUT);
    pub(crate) const BODY_TOO_LARGE: Self =
        Self::new("body-too-large", "Body too large", StatusCode::PAYLOAD_TOO_LARGE);
    pub(crate) const MEDIA_TYPE: Self =
        Self::new("unsupported-media-type", "Unsupported media type", StatusCode::UNSUPPORTED_MEDIA_TYPE);
    pub(crate) const ENCODING: Self =
        Self::new("unsupported-encoding", "Unsupported encoding", StatusCode::UNSUPPORTED_MEDIA_TYPE);
    pub(crate) const INTERNAL: Self =
        Self::new("internal-error", "Internal error", StatusCode::INTERNAL_SERVER_ERROR);
    pub(crate) const CORRUPT: Self =
        Self::new("corrupt-key", "Corrupt key", StatusCode::INTERNAL_SERVER_ERROR);
    pub(crate) const STOPPING: Self =
        Self::new("stopping", "Server stopping", StatusCode::SERVICE_UNAVAILABLE);
    pub(crate) const NOT_READY: Self = Self::new("not-ready", "Not ready", StatusCode::SERVICE_UNAVAILABLE);
    pub(crate) const UNAVAILABLE: Self =
        Self::new("store-unavailable", "Store unavailable", StatusCode::SERVICE_UNAVAILABLE);
    pub(crate) const SESSION_GONE: Self = Self::new("session-gone", "Session gone", StatusCode::NOT_FOUND);
    pub(crate) const SESSION_REAPING: Self =
        Self::new("session-reaping", "Session being reaped", StatusCode::CONFLICT);
    pub(crate) const SESSION_ACTIVE: Self =
        Self::new("session-active", "Session active", StatusCode::CONFLICT);
    pub(crate) const SESSION_DISCONNECTED: Self =
        Self::new("session-disconnected", "Session disconnected", StatusCode::CONFLICT);
    pub(crate) const SESSION_LAPSED: Self =
        Self::new("session-lapsed", "Holder lapsed", StatusCode::CONFLICT);
    pub(crate) const SESSION_STALE: Self =
        Self::new("session-stale", "Another generation", StatusCode::CONFLICT);
    pub(crate) const SESSION_NOT_CLAIMED: Self =
        Self::new("session-not-claimed", "Session not claimed", StatusCode::CONFLICT);
    pub(crate) const SESSION_REFUSED: Self =
        Self::new("session-refused", "Session refused", StatusCode::CONFLICT);
    pub(crate) const TOO_MANY_HOLDERS: Self =
        Self::new("session-too-many-holders", "Too many holders", StatusCode::TOO_MANY_REQUESTS);
    pub(crate) const TOO_MANY_SESSIONS: Self =
        Self::new("sessions-full", "Too many sessions", StatusCode::TOO_MANY_REQUESTS);

    const fn new(name: &'static str, title: &'static str, status: StatusCode) -> Self {
        Self { name, title, status }
    }
}

/// A problem.
#[derive(Debug)]
pub(crate) struct Problem {
    kind: Kind,
    detail: String,
    /// Why a call on a session changed nothing, in a word.
    refusal: Option<&'static str>,
    /// What is left of the connection is not read.
    is_last: bool,
    /// What had been done by then.
    counts: Option<Box<serde_json::Value>>,
    reason: Option<Box<Reason>>,
}

/// Why a store cannot be used: with the response for a command without a server, and so without
/// a log, and never sent to anybody.
#[derive(Debug, Clone)]
pub(crate) struct Reason(pub(crate) String);

/// A problem as it is written.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Problem")]
pub(crate) struct ProblemBody {
    /// Which kind it is, for programs.
    pub(crate) r#type: String,
    pub(crate) title: String,
    pub(crate) status: u16,
    /// What was wrong with which value and what is allowed, for people.
    pub(crate) detail: String,
    /// Why a call on a session changed nothing, in a word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) refusal: Option<String>,
    /// What had been done by then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) counts: Option<serde_json::Value>,
}

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
    fn new(kind: Kind, detail: String) -> Self {
        // What is left of a body that is too long, or too late, is not read.
        let is_last = matches!(kind, Kind::TIMEOUT | Kind::BODY_TOO_LARGE);
        Self { kind, detail, refusal: None, is_last, counts: None, reason: None }
    }

    pub(crate) fn invalid(detail: String) -> Self {
        Self::new(Kind::INVALID, detail)
    }

    /// What a head is refused with, before anybody has acted on it: whatever comes behind it is
    /// not read, since nobody can tell where it begins.
    pub(crate) fn refused_head(status: StatusCode, detail: String) -> Self {
        let kind = match status {
            StatusCode::EXPECTATION_FAILED => Kind::EXPECTATION,
            StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE => Kind::HEAD_TOO_LARGE,
            StatusCode::NOT_IMPLEMENTED => Kind::TRANSFER_CODING,
            StatusCode::HTTP_VERSION_NOT_SUPPORTED => Kind::HTTP_VERSION,
            _ => Kind::MALFORMED,
        };
        Self { is_last: true, ..Self::new(kind, detail) }
    }

    pub(crate) fn empty_key() -> Self {
        let what = Key::new("").map_or_else(|error| error.to_string(), |_| String::new());
        Self::invalid(format!("{what}; what has no key is under /everyone"))
    }

    /// `what` is empty, and is a key.
    pub(crate) fn empty(what: &str) -> Self {
        let why = Key::new("").map_or_else(|error| error.to_string(), |_| String::new());
        Self::invalid(why.replacen("a key", what, 1))
    }

    /// What a call on a session is refused with.
    pub(crate) fn refused(refusal: Refusal) -> Self {
        let kind = match refusal {
            Refusal::Gone => Kind::SESSION_GONE,
            Refusal::Reaping => Kind::SESSION_REAPING,
            Refusal::Active => Kind::SESSION_ACTIVE,
            Refusal::Disconnected => Kind::SESSION_DISCONNECTED,
            Refusal::Lapsed => Kind::SESSION_LAPSED,
            Refusal::Stale => Kind::SESSION_STALE,
            Refusal::NotClaimed => Kind::SESSION_NOT_CLAIMED,
            Refusal::TooManyHolders => Kind::TOO_MANY_HOLDERS,
            Refusal::Full => Kind::TOO_MANY_SESSIONS,
            // Whatever else there will be.
            _ => Kind::SESSION_REFUSED,
        };
        Self { refusal: Some(refusal.as_str()), ..Self::new(kind, refusal.to_string()) }
    }

    pub(crate) fn no_override(limit: &str, key: Key<'_>) -> Self {
        let whose = whose(key);
        let detail = format!("{whose} has no override of the limit {limit:?}, or it has ended");
        Self::new(Kind::NO_OVERRIDE, detail)
    }

    pub(crate) fn no_reservation(limit: &str, key: Key<'_>, id: &str) -> Self {
        let (whose, id) = (whose(key), id.chars().take(64).collect::<String>());
        let detail =
            format!("{whose} has no reservation {id:?} of the limit {limit:?}, or it has been forgotten");
        Self::new(Kind::NO_RESERVATION, detail)
    }

    pub(crate) fn no_charge(key: Key<'_>, id: &str) -> Self {
        let (whose, id) = (whose(key), id.chars().take(64).collect::<String>());
        let detail = format!("{whose} has no charge {id:?} under these limits, or it has been forgotten");
        Self::new(Kind::NO_CHARGE, detail)
    }

    pub(crate) fn unknown_path(path: &str) -> Self {
        let path: String = path.chars().take(200).collect();
        let detail = format!(
            "there is nothing at {path:?}: / lists what there is; a slash inside a key is written %2F"
        );
        Self::new(Kind::UNKNOWN_PATH, detail)
    }

    pub(crate) fn method_not_allowed(method: &str, path: &str) -> Self {
        let (method, path): (String, String) =
            (method.chars().take(20).collect(), path.chars().take(200).collect());
        let detail = format!("{method} is not allowed on {path:?}: the Allow header lists what is");
        Self::new(Kind::METHOD, detail)
    }

    pub(crate) fn conflict(detail: String) -> Self {
        Self::new(Kind::CONFLICT, detail)
    }

    pub(crate) fn body_too_large(max_bytes: usize) -> Self {
        let detail = format!("the body is too large: at most {max_bytes} bytes are allowed");
        Self::new(Kind::BODY_TOO_LARGE, detail)
    }

    pub(crate) fn content_type(given: &str, allowed: &str) -> Self {
        let given: String = given.chars().take(100).collect();
        let detail = format!("a body of type {given:?} is not allowed: {allowed}");
        Self::new(Kind::MEDIA_TYPE, detail)
    }

    pub(crate) fn content_encoding(given: &str) -> Self {
        let given: String = given.chars().take(40).collect();
        let detail = format!("a body encoded as {given:?} is not allowed: gzip is, once, and identity");
        Self::new(Kind::ENCODING, detail)
    }

    pub(crate) fn timeout(after: std::time::Duration) -> Self {
        let after = humantime::format_duration(after);
        Self::late(format!("the request was not complete after {after}"))
    }

    pub(crate) fn late(detail: String) -> Self {
        Self::new(Kind::TIMEOUT, detail)
    }

    /// The server is told to stop, and does not wait for the rest.
    pub(crate) fn stopping(so_far: String) -> Self {
        let detail = format!("the server is stopping, {so_far}");
        Self { is_last: true, ..Self::new(Kind::STOPPING, detail) }
    }

    /// The same, with what had been done by then.
    pub(crate) fn with_counts(self, counts: &impl Serialize) -> Self {
        Self { counts: serde_json::to_value(counts).ok().map(Box::new), ..self }
    }

    pub(crate) fn not_ready(report: &Report) -> Self {
        Self::new(Kind::NOT_READY, report.detail())
    }

    fn unavailable(detail: String) -> Self {
        Self::new(Kind::UNAVAILABLE, detail)
    }
}

/// A key in a sentence.
fn whose(key: Key<'_>) -> String {
    api::subject(key).map_or("everyone".to_owned(), |key| format!("the key {key:?}"))
}

impl From<api::Invalid> for Problem {
    fn from(api::Invalid(detail): api::Invalid) -> Self {
        Self::invalid(detail)
    }
}

impl From<Unknown> for Problem {
    fn from(unknown: Unknown) -> Self {
        let kind = match unknown.about.kind {
            PartKind::Limit => Kind::UNKNOWN_LIMIT,
            _ => Kind::UNKNOWN_SPACE,
        };
        Self::new(kind, unknown.to_string())
    }
}

impl From<PartError> for Problem {
    fn from(error: PartError) -> Self {
        match error {
            PartError::Unknown(unknown) => unknown.into(),
            PartError::Failed(error) => error.into(),
        }
    }
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
                let problem = Self::new(Kind::CORRUPT, detail.to_owned());
                Self { reason: Some(Box::new(Reason(error.to_string()))), ..problem }
            }
            // The reason is the operator's, and may tell about the inside.
            kind => {
                tracing::error!(%error, ?kind, "a call failed");
                let detail = "the store cannot be used: the server's log has the reason".to_owned();
                let problem = Self::new(Kind::INTERNAL, detail);
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
            r#type: format!("urn:tidegate:problem:{}", self.kind.name),
            title: self.kind.title,
            status: self.kind.status.as_u16(),
            detail: &self.detail,
            refusal: self.refusal,
            counts: self.counts.as_deref(),
            more,
        };
        // Strings and a number: there is nothing that JSON cannot write.
        let body = serde_json::to_vec(&body).unwrap_or_default();
        let mut response = whole(self.kind.status, PROBLEM_JSON, body, |headers| {
            if self.kind.status == StatusCode::SERVICE_UNAVAILABLE {
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
