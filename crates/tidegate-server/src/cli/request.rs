//! What a command asks, as the HTTP request that asks it.

use std::fmt::Write as _;

use axum::http::Method;
use serde_json::{Value, json};

use super::limit_args::{LimitCommand, PageOf, Subject, Whose};

/// A request, to a server or to a router of our own.
pub(super) struct Asked {
    pub(super) method: Method,
    pub(super) path: String,
    pub(super) body: Option<Vec<u8>>,
    pub(super) media_type: &'static str,
}

pub(super) const JSON: &str = "application/json";
pub(super) const NDJSON: &str = "application/x-ndjson";

impl Asked {
    pub(super) fn by(command: &LimitCommand) -> Self {
        let (method, path, body) = match command {
            LimitCommand::Take { subject: Subject { limit, whose }, cost, rate, .. } => {
                let body = json!({"key": whose.key, "cost": cost, "rate": rate});
                (Method::POST, format!("/v1/limits/{}/take", encoded(limit)), Some(body))
            }
            LimitCommand::TakeAll { limits, whose: Whose { key, .. }, .. } => {
                let limits: Vec<_> =
                    limits.0.iter().map(|(limit, cost)| json!({"limit": limit, "cost": cost})).collect();
                (Method::POST, "/v1/limits/take".to_owned(), Some(json!({"key": key, "limits": limits})))
            }
            LimitCommand::Peek { subject, cost, .. } => {
                (Method::GET, format!("{}?cost={cost}", path_of(subject)), None)
            }
            LimitCommand::Refund { subject: Subject { limit, whose }, receipt, .. } => {
                let body = json!({"key": whose.key, "receipt": receipt});
                (Method::POST, format!("/v1/limits/{}/refund", encoded(limit)), Some(body))
            }
            LimitCommand::Reset { subject, .. } => (Method::DELETE, path_of(subject), None),
            LimitCommand::SetOverride { subject, rate, lasting, .. } => {
                (Method::PUT, override_of(subject), Some(json!({"rate": rate, "lasting": lasting})))
            }
            LimitCommand::GetOverride { subject, .. } => (Method::GET, override_of(subject), None),
            LimitCommand::ClearOverride { subject, .. } => (Method::DELETE, override_of(subject), None),
            LimitCommand::Reserve { subject, id, cost, lasting, .. } => {
                let body = json!({"cost": cost, "lasting": lasting});
                (Method::PUT, reservation_of(subject, id), Some(body))
            }
            LimitCommand::Commit { subject, id, .. } => {
                (Method::POST, format!("{}/commit", reservation_of(subject, id)), None)
            }
            LimitCommand::Release { subject, id, .. } => (Method::DELETE, reservation_of(subject, id), None),
            LimitCommand::Reservation { subject, id, .. } => (Method::GET, reservation_of(subject, id), None),
            LimitCommand::Overrides { page, .. } => (Method::GET, page_of(page, "overrides"), None),
            LimitCommand::Reservations { page, .. } => (Method::GET, page_of(page, "reservations"), None),
            LimitCommand::List { .. } => (Method::GET, "/v1/limits".to_owned(), None),
        };
        Self::new(method, path, body)
    }

    /// With a body of JSON.
    pub(super) fn new(method: Method, path: String, body: Option<Value>) -> Self {
        let body = body.map(|mut body| {
            // What is not said is left out: a `key` that is null is nobody's.
            if let Some(members) = body.as_object_mut() {
                members.retain(|_, value| !value.is_null());
            }
            body.to_string().into_bytes()
        });
        Self { method, path, body, media_type: JSON }
    }

    pub(super) fn get(path: String) -> Self {
        Self::new(Method::GET, path, None)
    }
}

fn path_of(Subject { limit, whose }: &Subject) -> String {
    let limit = encoded(limit);
    match &whose.key {
        Some(key) => format!("/v1/limits/{limit}/keys/{}", encoded(key)),
        None => format!("/v1/limits/{limit}/everyone"),
    }
}

fn page_of(PageOf { limit, count, cursor }: &PageOf, what: &str) -> String {
    let cursor = cursor.as_ref().map(|cursor| format!("&cursor={}", encoded(cursor))).unwrap_or_default();
    format!("/v1/limits/{}/{what}?limit={count}{cursor}", encoded(limit))
}

fn override_of(subject: &Subject) -> String {
    format!("{}/override", path_of(subject))
}

fn reservation_of(subject: &Subject, id: &str) -> String {
    format!("{}/reservations/{}", path_of(subject), encoded(id))
}

/// One part of a path, whatever is in it.
pub(super) fn encoded(part: &str) -> String {
    let mut encoded = String::with_capacity(part.len());
    for byte in part.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'~' => {
                encoded.push(char::from(byte));
            }
            // Dots too, so that no part is `..`. Writing to a String cannot fail.
            byte => drop(write!(encoded, "%{byte:02X}")),
        }
    }
    encoded
}
