//! What is said over HTTP: the bodies of requests and responses, one type each, for the
//! server that reads and writes them and for the command line that writes and reads them.
//!
//! The OpenAPI description is derived from these types. They know nothing of HTTP itself. Those
//! of a part are written in its folder, `http/<part>/api.rs`; here is what they have in common.

pub(crate) mod json;
pub(crate) mod pattern;
pub(crate) mod whole;

use std::time::Duration;

use schemars::{JsonSchema, Schema};
use serde::{Deserialize, Serialize};
use serde_json::json;
use tidegate::Key;

pub(crate) use crate::http::bodies::*;
use crate::settings::parse::Parse as _;

/// The body of a request. It may borrow from the bytes that it was read from.
pub(crate) trait RequestBody: JsonSchema + 'static {
    type Read<'a>: Deserialize<'a>;

    /// Which types are allowed, for who sends another.
    const TYPES: &'static str = "application/json is";

    /// So many bytes are allowed whatever the settings say.
    const LEAST_BYTES: usize = 0;
}

/// Request bodies that borrow.
macro_rules! borrowing {
    ($($body:ident),*) => {$(
        impl $crate::api::RequestBody for $body<'static> {
            type Read<'a> = $body<'a>;
        }
    )*};
}
pub(crate) use borrowing;

/// Types of answers, each member once: its name, its type and what it is made of. Those that it is `of` come first, and
/// are the texts that they are given as.
macro_rules! response {
    ($(
        $(#[$about:meta])*
        struct $name:ident $(of($($of:ident),+))? from($($given:ident: $from:ty),*) {
            $($(#[$member_about:meta])* $member:ident: $type:ty = $value:expr,)+
        }
    )+) => {$(
        #[derive(Debug, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
        $(#[$about])*
        pub(crate) struct $name {
            $($(pub(crate) $of: String,)+)?
            $($(#[$member_about])* pub(crate) $member: $type,)+
        }

        #[allow(clippy::redundant_field_names, reason = "a member may be what was given")]
        impl $name {
            pub(crate) fn new($($($of: impl ToString,)+)? $($given: $from),*) -> Self {
                Self { $($($of: $of.to_string(),)+)? $($member: $value),+ }
            }
        }
    )+};
}
pub(crate) use response;

impl RequestBody for Empty {
    type Read<'a> = Self;
}

/// The body of a request that needs none.
#[derive(Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "an empty object, or nothing")]
pub(crate) struct Empty {}

/// All spaces of a part.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "{T}s")]
pub(crate) struct Spaces<T> {
    pub(crate) spaces: Vec<T>,
}

/// A value that is not allowed: which, and what is.
#[derive(Debug)]
pub(crate) struct Invalid(pub(crate) String);

impl From<tidegate::Error> for Invalid {
    fn from(error: tidegate::Error) -> Self {
        Self(error.to_string())
    }
}

/// A length of time that is set: months at most.
pub(crate) fn ms(lasting: Duration) -> u64 {
    lasting.as_millis() as u64
}

/// How a key is written: `null` is no subject at all.
pub(crate) fn subject(key: Key<'_>) -> Option<&str> {
    Some(key.as_str()).filter(|_| key != Key::EVERYONE)
}

/// A key that messages call something else.
pub(crate) fn key<'a>(what: &str, text: &'a str) -> Result<Key<'a>, Invalid> {
    Key::new(text).map_err(|error| Invalid(error.to_string().replacen("a key", what, 1)))
}

/// How long something lasts, as a number or in words.
pub(crate) fn lasting(ms: Option<u64>, text: Option<&str>) -> Result<Duration, Invalid> {
    match (ms, text) {
        (Some(ms), None) => Ok(Duration::from_millis(ms)),
        (None, Some(text)) => Duration::parse(text).map_err(|why| Invalid(format!("`lasting`: {why}"))),
        (None, None) => {
            Err(Invalid("how long is missing: `lasting_ms`, or `lasting` like \"1h\"".to_owned()))
        }
        (Some(_), Some(_)) => {
            Err(Invalid("`lasting_ms` and `lasting` are the same: name one of them".to_owned()))
        }
    }
}

/// Says of a schema that exactly one of the two is given; `null` is none.
pub(crate) fn one_length_of_time(schema: &mut Schema) {
    let given = |name: &str, kind: &str| json!({"required": [name], "properties": {name: {"type": kind}}});
    let either = json!([given("lasting_ms", "integer"), given("lasting", "string")]);
    schema.insert("oneOf".to_owned(), either);
}
