//! A command as an HTTP request.

use std::fmt::Write as _;

use axum::http::Method;
use serde::Serialize;

/// A request, to a server or to a router of our own.
pub(super) struct Request {
    pub(super) method: Method,
    pub(super) path: String,
    pub(super) body: Option<Vec<u8>>,
    pub(super) media_type: &'static str,
    /// Only if what it is about is of this version.
    pub(super) if_match: Option<u64>,
}

pub(super) const NDJSON: &str = "application/x-ndjson";

impl Request {
    fn new(method: Method, path: String) -> Self {
        Self { method, path, body: None, media_type: "application/json", if_match: None }
    }

    pub(super) fn get(path: String) -> Self {
        Self::new(Method::GET, path)
    }

    pub(super) fn post(path: String) -> Self {
        Self::new(Method::POST, path)
    }

    pub(super) fn put(path: String) -> Self {
        Self::new(Method::PUT, path)
    }

    pub(super) fn patch(path: String) -> Self {
        Self::new(Method::PATCH, path)
    }

    pub(super) fn delete(path: String) -> Self {
        Self::new(Method::DELETE, path)
    }

    /// Only if what it is about is of this version, if one is meant.
    pub(super) fn if_match(self, version: Option<u64>) -> Self {
        Self { if_match: version, ..self }
    }

    /// With a body.
    pub(super) fn json(self, body: &impl Serialize) -> Self {
        // Strings and numbers: there is nothing that JSON cannot write.
        Self { body: Some(serde_json::to_vec(body).unwrap_or_default()), ..self }
    }
}

/// The version that a request is only for, as its header has it.
pub(super) fn tag(version: u64) -> String {
    format!("\"{version}\"")
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
