//! A decision as an HTTP response: status, header fields, body.

use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use tidegate::Cost;
use tidegate::limit::{Decision, Limit};

use super::problem::PROBLEM_JSON;
use crate::answer::Answer;

pub(super) const JSON: HeaderValue = HeaderValue::from_static("application/json");

static RATELIMIT: HeaderName = HeaderName::from_static("ratelimit");
static RATELIMIT_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");

/// A limit, with what its answers have in common.
#[derive(Debug)]
pub(super) struct Served {
    pub(super) limit: Limit,
    policy: HeaderValue,
}

impl Served {
    pub(super) fn new(limit: Limit) -> Self {
        let policy = policy(&limit, limit.sliding().capacity());
        Self { limit, policy }
    }

    /// To a take: 200 or 429.
    pub(super) fn to_take(&self, key: &str, cost: Cost, decision: &Decision) -> Response {
        let answer = Answer::to_take(self.limit.name().as_str(), key, cost.get(), decision);
        let (status, media_type) = match decision.is_admitted() {
            true => (StatusCode::OK, JSON),
            false => (StatusCode::TOO_MANY_REQUESTS, PROBLEM_JSON),
        };
        let mut response = self.response(status, media_type, &answer, decision);
        if let Some(wait) = decision.wait() {
            // Rounded up, so that who waits that long is not refused again.
            let seconds = wait.retry_after_ms.div_ceil(1000).max(1);
            response.headers_mut().insert(header::RETRY_AFTER, seconds.into());
        }
        response
    }

    /// To a peek: it has been answered, whatever the outcome.
    pub(super) fn to_peek(&self, key: &str, decision: &Decision) -> Response {
        let answer = Answer::plain(self.limit.name().as_str(), key, Cost::ONE.get(), decision);
        self.response(StatusCode::OK, JSON, &answer, decision)
    }

    fn response(
        &self,
        status: StatusCode,
        media_type: HeaderValue,
        answer: &Answer<'_>,
        decision: &Decision,
    ) -> Response {
        let mut response = (status, answer.to_json()).into_response();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, media_type);
        self.fields(headers, decision);
        response
    }

    /// `RateLimit-Policy` and `RateLimit`, as draft 11 of the IETF writes them.
    fn fields(&self, headers: &mut HeaderMap, decision: &Decision) {
        let quota = decision.quota();
        let policy = match quota.capacity == self.limit.sliding().capacity() {
            true => self.policy.clone(),
            false => policy(&self.limit, quota.capacity),
        };
        headers.insert(RATELIMIT_POLICY.clone(), policy);
        let (name, reset) = (self.limit.name().as_str(), quota.reset_after_ms.div_ceil(1000));
        headers.insert(RATELIMIT.clone(), value(format!("\"{name}\";r={};t={reset}", quota.remaining)));
    }
}

fn policy(limit: &Limit, capacity: u64) -> HeaderValue {
    let (name, window) = (limit.name().as_str(), limit.sliding().window().as_seconds());
    value(format!("\"{name}\";q={capacity};w={window}"))
}

/// A name is letters, digits, `_` and `-`: always a header's value.
fn value(text: String) -> HeaderValue {
    HeaderValue::try_from(text).unwrap_or(HeaderValue::from_static(""))
}
