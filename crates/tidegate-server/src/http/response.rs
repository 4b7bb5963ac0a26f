//! A decision as an HTTP response: status, header fields, body.

use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use serde::Serialize;
use tidegate::limit::{Decision, Limit, Quota, headers as text};
use tidegate::{Cost, Key};

use super::problem::PROBLEM_JSON;
use crate::api::decision::{Decision as DecisionBody, Refusal};
use crate::parts::LimitSettings;

pub(super) const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// The mark of a response that may take long to send, and has an end.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Streamed;

static RATELIMIT: HeaderName = HeaderName::from_static(text::RATELIMIT);
static RATELIMIT_POLICY: HeaderName = HeaderName::from_static(text::RATELIMIT_POLICY);

/// A limit, with what its answers have in common.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Served<'a> {
    pub(super) limit: &'a Limit,
    /// `RateLimit-Policy`, unless a key is judged by another rate.
    pub(super) policy: &'a HeaderValue,
}

impl<'a> Served<'a> {
    fn name(&self) -> &'a str {
        self.limit.name().as_str()
    }

    /// To a take: 200, or 429; 503 if it is the store's doing and the limit says so.
    pub(super) fn to_take(self, key: Key<'_>, cost: Cost, decision: &Decision) -> Response<Bytes> {
        let answer = DecisionBody::to_take(self.limit, key, cost, decision);
        let media_type = if decision.is_admitted() { JSON } else { PROBLEM_JSON };
        whole(status(Refusal::status(answer.problem.as_ref())), media_type, answer.to_json(), |headers| {
            self.fields(headers, decision);
            if let Some(seconds) = text::retry_after(decision) {
                headers.insert(header::RETRY_AFTER, seconds.into());
            }
        })
    }

    /// To a peek: it has been answered, whatever the outcome.
    pub(super) fn to_peek(self, key: Key<'_>, cost: Cost, decision: &Decision) -> Response {
        let answer = DecisionBody::plain(self.limit, key, cost, decision);
        let mut response = respond(StatusCode::OK, JSON, answer.to_json());
        self.fields(response.headers_mut(), decision);
        response
    }

    /// `RateLimit-Policy` and `RateLimit`.
    fn fields(&self, headers: &mut HeaderMap, decision: &Decision) {
        let quota = decision.quota();
        let algorithm = self.limit.algorithm();
        let own = (algorithm.capacity(), algorithm.window_size_seconds());
        let policy = match (quota.capacity, quota.window_size_seconds) == own {
            true => self.policy.clone(),
            false => policy(self.name(), quota.capacity, quota.window_size_seconds),
        };
        headers.insert(&RATELIMIT_POLICY, policy);
        headers.insert(&RATELIMIT, value(text::ratelimit(self.name(), quota)));
    }
}

/// What we answer with is always a status.
pub(super) fn status(number: u16) -> StatusCode {
    StatusCode::from_u16(number).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
}

/// The fields of several limits, a member for each.
#[derive(Debug, Default)]
pub(super) struct Fields {
    policies: Vec<String>,
    quotas: Vec<String>,
}

impl Fields {
    pub(super) fn add(&mut self, limit: &str, quota: &Quota) {
        self.policies.push(text::policy(limit, quota.capacity, quota.window_size_seconds));
        self.quotas.push(text::ratelimit(limit, quota));
    }

    pub(super) fn insert_into(self, headers: &mut HeaderMap) {
        headers.insert(&RATELIMIT_POLICY, value(self.policies.join(", ")));
        headers.insert(&RATELIMIT, value(self.quotas.join(", ")));
    }
}

/// A response that needs neither a router nor hyper to be complete: its length is among
/// its fields, where a router would put it.
pub(super) fn whole(
    status: StatusCode,
    media_type: HeaderValue,
    body: Vec<u8>,
    fields: impl FnOnce(&mut HeaderMap),
) -> Response<Bytes> {
    let length = body.len();
    let mut response = Response::new(body.into());
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, media_type);
    fields(headers);
    headers.insert(header::CONTENT_LENGTH, length.into());
    response
}

pub(super) fn respond(status: StatusCode, media_type: HeaderValue, body: Vec<u8>) -> Response {
    (status, [(header::CONTENT_TYPE, media_type)], Body::from(body)).into_response()
}

/// Something other than a decision.
pub(super) fn json(status: StatusCode, value: &impl Serialize) -> Response {
    // Strings and numbers: there is nothing that JSON cannot write.
    respond(status, JSON, serde_json::to_vec(value).unwrap_or_default())
}

/// `RateLimit-Policy` of a limit.
pub(super) fn policy_of(name: &str, limit: &LimitSettings) -> HeaderValue {
    policy(name, limit.algorithm.capacity(), limit.algorithm.window_size_seconds())
}

fn policy(limit: &str, capacity: u64, window_seconds: u64) -> HeaderValue {
    value(text::policy(limit, capacity, window_seconds))
}

/// A name is letters, digits, `_` and `-`: always a header's value.
fn value(text: String) -> HeaderValue {
    HeaderValue::try_from(text).unwrap_or(HeaderValue::from_static(""))
}
