//! What is sent to us, read to its end and parsed.

use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, header};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use serde::de::Deserialize;

use super::problem::Problem;

/// Refuses a body that is not JSON by its type, of no type or of curl's; `allowed` says
/// what is.
pub(crate) fn check_type(headers: &HeaderMap, allowed: &str) -> Result<(), Problem> {
    let given = headers.get(header::CONTENT_TYPE).map(|given| given.to_str().unwrap_or("?"));
    // No type, or what curl says of any `-d`. A browser sends both for any page,
    // but then it names the page.
    let is_command_line = matches!(given, None | Some("application/x-www-form-urlencoded"));
    let is_allowed = given.is_some_and(is_json) || (is_command_line && !headers.contains_key(header::ORIGIN));
    match is_allowed {
        true => Ok(()),
        false => Err(Problem::content_type(given.unwrap_or_default(), allowed)),
    }
}

/// Reads the body: JSON, and at most `max_bytes`.
pub(crate) async fn read(headers: &HeaderMap, body: Body, max_bytes: usize) -> Result<Bytes, Problem> {
    check_type(headers, "application/json is")?;
    // Known before a byte of it has come.
    let announced = headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok());
    if announced.and_then(|length| length.parse().ok()).is_some_and(|length: u64| length > max_bytes as u64) {
        return Err(Problem::body_too_large(max_bytes));
    }
    match Limited::new(body, max_bytes).collect().await {
        Ok(collected) => Ok(collected.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => Err(Problem::body_too_large(max_bytes)),
        Err(_) => Err(Problem::invalid("the body ended early".to_owned())),
    }
}

fn is_json(media_type: &str) -> bool {
    let essence = media_type.split(';').next().unwrap_or_default().trim();
    essence.eq_ignore_ascii_case("application/json")
        || (essence.starts_with("application/") && essence.ends_with("+json"))
}

/// Parses a body.
pub(crate) fn parse<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<T, Problem> {
    // A struct could be read from an array, by position: nobody should rely on it.
    if bytes.trim_ascii_start().first() == Some(&b'[') {
        let expected = "the body is an array: an object is expected, like {\"key\":\"user_123\"}";
        return Err(Problem::invalid(expected.to_owned()));
    }
    serde_json::from_slice(bytes)
        .map_err(|error| Problem::invalid(format!("the body is not what is expected: {error}")))
}
