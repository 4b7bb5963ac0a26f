//! Everything that is not a success, as `application/problem+json`
//! (RFC 9457).
//!
//! The `type` says to programs what it is, `detail` says to people what was wrong
//! with which value and what is allowed.

use axum::body::Bytes;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tidegate::store::PartKind;
use tidegate::{Answer, Error, ErrorKind, Key};

use super::Result;
use super::response::{status, whole};
use crate::api;
use crate::parts::{PartError, Unknown};
use crate::readiness::Report;

/// The media type of a problem.
pub(crate) const PROBLEM_JSON: HeaderValue = HeaderValue::from_static(tidegate::limit::headers::PROBLEM_JSON);

/// A kind of problem: its status, its name, which ends its `type`, and what people read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Kind {
    pub(crate) status: u16,
    pub(crate) name: &'static str,
    title: &'static str,
}

/// Those that are of no part, or of several; a part has its own in its folder.
impl Kind {
    pub(crate) const INVALID: Self = Self::new(400, "invalid-request", "Invalid request");
    pub(crate) const MALFORMED: Self = Self::new(400, "malformed-request", "Malformed request");
    pub(crate) const UNKNOWN_LIMIT: Self = Self::new(404, "unknown-limit", "Unknown limit");
    pub(crate) const UNKNOWN_SPACE: Self = Self::new(404, "unknown-space", "Unknown space");
    pub(crate) const UNKNOWN_PATH: Self = Self::new(404, "unknown-path", "Unknown path");
    pub(crate) const METHOD: Self = Self::new(405, "method-not-allowed", "Method not allowed");
    pub(crate) const TIMEOUT: Self = Self::new(408, "request-timeout", "Request timeout");
    pub(crate) const CONFLICT: Self = Self::new(409, "conflict", "Conflict");
    pub(crate) const BODY_TOO_LARGE: Self = Self::new(413, "body-too-large", "Body too large");
    pub(crate) const MEDIA_TYPE: Self = Self::new(415, "unsupported-media-type", "Unsupported media type");
    pub(crate) const ENCODING: Self = Self::new(415, "unsupported-encoding", "Unsupported encoding");
    pub(crate) const EXPECTATION: Self = Self::new(417, "expectation-failed", "Expectation failed");
    pub(crate) const HEAD_TOO_LARGE: Self = Self::new(431, "head-too-large", "Head too large");
    pub(crate) const INTERNAL: Self = Self::new(500, "internal-error", "Internal error");
    pub(crate) const CORRUPT: Self = Self::new(500, "corrupt-key", "Corrupt key");
    pub(crate) const TRANSFER_CODING: Self =
        Self::new(501, "unknown-transfer-coding", "Unknown transfer coding");
    pub(crate) const STOPPING: Self = Self::new(503, "stopping", "Server stopping");
    pub(crate) const NOT_READY: Self = Self::new(503, "not-ready", "Not ready");
    pub(crate) const UNAVAILABLE: Self = Self::new(503, "store-unavailable", "Store unavailable");
    pub(crate) const HTTP_VERSION: Self = Self::new(505, "unknown-http-version", "Unknown version of HTTP");

    pub(super) const fn new(status: u16, name: &'static str, title: &'static str) -> Self {
        Self { status, name, title }
    }
}

/// A problem.
#[derive(Debug)]
pub(crate) struct Problem {
    kind: Kind,
    detail: String,
    /// Why a call changed nothing, in a word.
    refusal: Option<&'static str>,
    /// What is left of the connection is not read.
    is_last: bool,
    /// What had been done by then.
    counts: Option<Box<Value>>,
    more: Option<Box<More>>,
    reason: Option<Box<Reason>>,
}

/// What a refusal says beside its word.
#[derive(Debug, Default)]
struct More {
    members: Map<String, Value>,
    retry_after_seconds: Option<u64>,
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
    /// Why a call changed nothing, in a word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) refusal: Option<String>,
    /// What had been done by then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) counts: Option<Value>,
    /// What else there is to say of it.
    #[serde(default, flatten)]
    pub(crate) members: Map<String, Value>,
}

impl Problem {
    pub(super) fn new(kind: Kind, detail: String) -> Self {
        // What is left of a body that is too long, or too late, is not read.
        let is_last = matches!(kind, Kind::TIMEOUT | Kind::BODY_TOO_LARGE);
        Self { kind, detail, refusal: None, is_last, counts: None, more: None, reason: None }
    }

    pub(crate) fn invalid(detail: String) -> Self {
        Self::new(Kind::INVALID, detail)
    }

    /// What a head is refused with, before anybody has acted on it: whatever comes behind it is
    /// not read, since nobody knows where it begins.
    pub(crate) fn refused_head(kind: Kind, detail: String) -> Self {
        Self { is_last: true, ..Self::new(kind, detail) }
    }

    /// `what` is empty, and is a key.
    pub(crate) fn empty(what: &str) -> Self {
        let why = Key::new("").map_or_else(|error| error.to_string(), |_| String::new());
        Self::invalid(why.replacen("a key", what, 1))
    }

    /// What changed nothing, and why in a word.
    pub(super) fn refused(kind: Kind, refusal: &'static str, detail: String) -> Self {
        Self { refusal: Some(refusal), ..Self::new(kind, detail) }
    }

    /// The same with what else there is to say, an object.
    pub(super) fn with_members(mut self, members: Value) -> Self {
        if let Value::Object(members) = members {
            self.more.get_or_insert_default().members = members;
        }
        self
    }

    /// The same with when to try again, if that can help.
    pub(super) fn retry_after(mut self, ms: Option<u64>) -> Self {
        // Rounded up, so that who waits that long is not refused again.
        self.more.get_or_insert_default().retry_after_seconds = ms.map(|ms| ms.div_ceil(1000).max(1));
        self
    }

    /// The same with what only the operator is told: it may be about the inside.
    pub(super) fn because(self, reason: String) -> Self {
        Self { reason: Some(Box::new(Reason(reason))), ..self }
    }

    pub(crate) fn conflict(detail: String) -> Self {
        Self::new(Kind::CONFLICT, detail)
    }

    pub(crate) fn body_too_large(max_bytes: usize) -> Self {
        let detail = format!("the body is too large: at most {max_bytes} bytes are allowed");
        Self::new(Kind::BODY_TOO_LARGE, detail)
    }

    pub(crate) fn timeout(after: std::time::Duration) -> Self {
        let after = humantime::format_duration(after);
        Self::new(Kind::TIMEOUT, format!("the request was not complete after {after}"))
    }

    /// The server is stopping, and does not wait for the rest.
    pub(crate) fn stopping(so_far: String) -> Self {
        let detail = format!("the server is stopping, {so_far}");
        Self { is_last: true, ..Self::new(Kind::STOPPING, detail) }
    }

    /// The same, with what had been done by then.
    pub(crate) fn with_counts(self, counts: &impl Serialize) -> Self {
        Self { counts: serde_json::to_value(counts).ok().map(Box::new), ..self }
    }

    pub(crate) fn not_ready(report: &Report) -> Self {
        let members = serde_json::to_value(report).unwrap_or_default();
        Self::new(Kind::NOT_READY, report.detail()).with_members(members)
    }
}

/// What was requested, or a problem, be it a refusal or that there is no answer.
pub(super) fn granted<T, R: Into<Problem>>(answer: tidegate::Result<Answer<T, R>>) -> Result<T> {
    answer?.into_result().map_err(Into::into)
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
            PartError::Undeclared(why) => Self::invalid(why),
        }
    }
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        let (kind, detail) = match error.kind() {
            ErrorKind::Invalid => return Self::invalid(error.to_string()),
            ErrorKind::Conflict => return Self::conflict(error.to_string()),
            ErrorKind::Unavailable => return Self::new(Kind::UNAVAILABLE, error.to_string()),
            ErrorKind::Corrupt => {
                tracing::error!(%error, "a key in the store is not what it should be");
                let detail = "what the store has for this is of another type than ours, or cannot be read: somebody \
                              else has written there; a reset of the key, the deletion of what it is about, or \
                              `tidegate sessions reconcile` mends it, if it is ours";
                (Kind::CORRUPT, detail)
            }
            kind => {
                tracing::error!(%error, ?kind, "a call failed");
                (Kind::INTERNAL, "the store cannot be used: the server's log has the reason")
            }
        };
        Self::new(kind, detail.to_owned()).because(error.to_string())
    }
}

impl Problem {
    /// As a response.
    pub(crate) fn whole(self) -> Response<Bytes> {
        let More { members, retry_after_seconds } = self.more.map(|more| *more).unwrap_or_default();
        let problem = ProblemBody {
            r#type: format!("urn:tidegate:problem:{}", self.kind.name),
            title: self.kind.title.to_owned(),
            status: self.kind.status,
            detail: self.detail,
            refusal: self.refusal.map(str::to_owned),
            counts: self.counts.map(|counts| *counts),
            members,
        };
        // Strings and a number: there is nothing that JSON cannot write.
        let body = serde_json::to_vec(&problem).unwrap_or_default();
        let status = status(self.kind.status);
        let mut response = whole(status, PROBLEM_JSON, body, |headers| {
            if status == StatusCode::SERVICE_UNAVAILABLE {
                headers.insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
            }
            if let Some(seconds) = retry_after_seconds {
                headers.insert(header::RETRY_AFTER, seconds.into());
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
