//! What the layer answers instead of the service: `application/problem+json`
//! (RFC 9457), of the same types as the server's.

use std::fmt::Write as _;

use http::{HeaderValue, Response, StatusCode, header};

use super::{Decision, Limit, headers};
use crate::bounds::Cost;
use crate::error::{Error, ErrorKind};
use crate::log;

/// To a take that was refused.
pub(super) fn refusal(limit: &Limit, cost: Cost, decision: &Decision) -> Response<String> {
    let closed_status = limit.options().closed_status;
    let limit = limit.name().as_str();
    let detail = headers::detail(limit, cost.get(), decision);
    let refusal = headers::Refusal::new(decision, closed_status);
    let mut problem = Problem {
        status: StatusCode::from_u16(refusal.status).unwrap_or(StatusCode::TOO_MANY_REQUESTS),
        kind: refusal.r#type,
        title: refusal.title,
        detail: &detail,
        violated: Some(limit),
    }
    .to_response();
    if let Some(seconds) = headers::retry_after(decision) {
        problem.headers_mut().insert(header::RETRY_AFTER, seconds.into());
    }
    problem
}

/// To a take that was not answered.
pub(super) fn failure(error: &Error) -> Response<String> {
    let text = error.to_string();
    let (status, kind, title, detail) = match error.kind() {
        ErrorKind::Invalid => (StatusCode::BAD_REQUEST, "invalid-request", "Invalid request", &*text),
        ErrorKind::Unavailable => {
            (StatusCode::SERVICE_UNAVAILABLE, "store-unavailable", "Store unavailable", &*text)
        }
        ErrorKind::Corrupt => {
            log::error!(%error, "a key in the store is not what it should be");
            let detail = "what the store has for this is of another type than ours, or cannot be read: a reset mends it";
            (StatusCode::INTERNAL_SERVER_ERROR, "corrupt-key", "Corrupt key", detail)
        }
        // The reason is the operator's, and may tell about the inside.
        kind => {
            log::error!(%error, ?kind, "a limit failed");
            let detail = "the store cannot be used: the server's log has the reason";
            (StatusCode::INTERNAL_SERVER_ERROR, "internal-error", "Internal error", detail)
        }
    };
    let kind = format!("urn:tidegate:problem:{kind}");
    let mut problem = Problem { status, kind: &kind, title, detail, violated: None }.to_response();
    if status == StatusCode::SERVICE_UNAVAILABLE {
        problem.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("1"));
    }
    problem
}

struct Problem<'a> {
    status: StatusCode,
    kind: &'a str,
    title: &'a str,
    detail: &'a str,
    violated: Option<&'a str>,
}

impl Problem<'_> {
    fn to_response(&self) -> Response<String> {
        let mut response = Response::new(self.to_json());
        *response.status_mut() = self.status;
        response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(headers::PROBLEM_JSON));
        response
    }

    /// Strings and a number are no reason for a JSON library. A type, a title and a
    /// name are ours, and have nothing in them to escape.
    fn to_json(&self) -> String {
        let Self { status, kind, title, detail, violated } = self;
        let (status, detail) = (status.as_u16(), quoted(detail));
        let violated = violated.map_or(String::new(), |name| format!(r#","violated-policies":["{name}"]"#));
        format!(r#"{{"type":"{kind}","title":"{title}","status":{status},"detail":{detail}{violated}}}"#)
    }
}

/// `text` as a JSON string.
fn quoted(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 8);
    quoted.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            '\0'..='\x1f' => {
                // Writing to a String cannot fail.
                let _ = write!(quoted, "\\u{:04x}", c as u32);
            }
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;

    proptest! {
        #[test]
        fn any_text_survives_being_json(text in "(?s).{0,40}", ascii in "[\\x00-\\x7f]{0,40}") {
            for text in [text, ascii] {
                prop_assert_eq!(serde_json::from_str::<Value>(&quoted(&text)).unwrap(), Value::String(text));
            }
        }
    }

    #[test]
    fn failures_tell_the_caller_only_what_is_the_callers() {
        let text = |error: &Error| {
            let response = failure(error);
            let retry_after = response.headers().get("retry-after").map(|value| value.to_str().unwrap());
            let body: Value = serde_json::from_str(response.body()).unwrap();
            assert_eq!(body["status"], response.status().as_u16());
            assert_eq!(response.headers()["content-type"], "application/problem+json");
            let text = |member: &str| body[member].as_str().unwrap().to_owned();
            (response.status().as_u16(), text("type"), text("detail"), retry_after.map(str::to_owned))
        };
        let problem = |name| format!("urn:tidegate:problem:{name}");
        let (invalid, away) = (Error::invalid("a \"b\" is not"), Error::unavailable("no answer"));
        assert_eq!(text(&invalid), (400, problem("invalid-request"), "a \"b\" is not".to_owned(), None));
        assert_eq!(
            text(&away),
            (503, problem("store-unavailable"), "no answer".to_owned(), Some("1".to_owned()))
        );
        for error in [Error::internal("secret"), Error::config("secret")] {
            let (status, kind, detail, _) = text(&error);
            assert_eq!((status, kind), (500, problem("internal-error")));
            assert!(!detail.contains("secret"), "{detail}");
        }
    }
}
