//! What is sent to us, read to its end and parsed.

use axum::body::{Body, Bytes, HttpBody as _};
use axum::http::{HeaderMap, header};
use http_body_util::BodyExt as _;
use serde::de::Deserialize;

use super::encoding::{broken, decoded};
use super::{Kind, Problem, Result};

/// Refuses a body that is not JSON by its type, of no type or of curl's; `allowed` says
/// what is.
pub(crate) fn check_type(headers: &HeaderMap, allowed: &str) -> Result<()> {
    let given = headers.get(header::CONTENT_TYPE).map(|given| given.to_str().unwrap_or("?"));
    match is_type_allowed(given, headers.contains_key(header::ORIGIN)) {
        true => Ok(()),
        false => {
            let given: String = given.unwrap_or_default().chars().take(100).collect();
            let detail = format!("a body of type {given:?} is not allowed: {allowed}");
            Err(Problem::new(Kind::MEDIA_TYPE, detail))
        }
    }
}

/// Whether a body of this type is read as JSON.
pub(crate) fn is_type_allowed(given: Option<&str>, from_a_page: bool) -> bool {
    // No type, or what curl says of any `-d`. A browser sends both for any page,
    // but then it names the page.
    let is_command_line = matches!(given, None | Some("application/x-www-form-urlencoded"));
    given.is_some_and(is_json) || (is_command_line && !from_a_page)
}

/// Whether a body is sent as lines.
pub(crate) fn is_ndjson(headers: &HeaderMap) -> bool {
    let given = headers.get(header::CONTENT_TYPE).and_then(|given| given.to_str().ok()).unwrap_or_default();
    let essence = given.split(';').next().unwrap_or_default().trim();
    ["application/x-ndjson", "application/ndjson", "application/jsonl"]
        .iter()
        .any(|known| essence.eq_ignore_ascii_case(known))
}

/// Reads the body: JSON, and at most `max_bytes`, when decoded too.
pub(crate) async fn read(headers: &HeaderMap, body: Body, max_bytes: usize, types: &str) -> Result<Bytes> {
    check_type(headers, types)?;
    read_whole(headers, body, max_bytes).await
}

/// The same of any type.
pub(crate) async fn read_whole(headers: &HeaderMap, body: Body, max_bytes: usize) -> Result<Bytes> {
    let mut body = decoded(headers, body)?;
    // Known before a byte of it has come.
    let announced = headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok());
    if announced.and_then(|length| length.parse().ok()).is_some_and(|length: u64| length > max_bytes as u64) {
        return Err(Problem::body_too_large(max_bytes));
    }
    let mut whole = Bytes::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| Problem::invalid(broken(&error)))?;
        // What follows a body, in chunks, is nothing to us.
        let Ok(data) = frame.into_data() else { continue };
        if data.len() > max_bytes - whole.len() {
            return Err(Problem::body_too_large(max_bytes));
        }
        // Mostly it comes in one piece, which is not copied then.
        whole = if whole.is_empty() { data } else { [whole, data].concat().into() };
        if body.is_end_stream() {
            break;
        }
    }
    Ok(whole)
}

fn is_json(media_type: &str) -> bool {
    let essence = media_type.split(';').next().unwrap_or_default().trim();
    essence.eq_ignore_ascii_case("application/json")
        || (essence.starts_with("application/") && essence.ends_with("+json"))
}

/// Parses a body.
pub(crate) fn parse<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<T> {
    // A struct could be read from an array, by position: nobody should rely on it.
    if bytes.trim_ascii_start().first() == Some(&b'[') {
        let expected = "the body is an array: an object is expected, like {\"key\":\"user_123\"}";
        return Err(Problem::invalid(expected.to_owned()));
    }
    serde_json::from_slice(bytes)
        .map_err(|error| Problem::invalid(format!("the body is not what is expected: {error}")))
}
