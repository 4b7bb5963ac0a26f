//! What is said over HTTP: the bodies of requests and responses, one type each, for the
//! server that reads and writes them and for the command line that writes and reads them.
//!
//! The OpenAPI description is derived from these types. They know nothing of HTTP itself. Those
//! of a part are written in its folder, `http/<part>/api.rs`; here is what they have in common.

pub(crate) mod json;
mod lasting;
pub(crate) mod pattern;
pub(crate) mod whole;

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tidegate::Key;

pub(crate) use self::lasting::{lasting, one_length_of_time};
pub(crate) use crate::http::bodies::*;

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

/// Types of answers, each member once: its name, its type and what it is made of.
macro_rules! response {
    ($(
        $(#[$about:meta])*
        struct $name:ident from($($given:ident: $from:ty),*) {
            $($(#[$member_about:meta])* $member:ident: $type:ty = $value:expr,)+
        }
    )+) => {$(
        #[derive(Debug, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
        $(#[$about])*
        pub(crate) struct $name {
            $($(#[$member_about])* pub(crate) $member: $type,)+
        }

        #[allow(clippy::redundant_field_names, reason = "a member may be what was given")]
        impl $name {
            pub(crate) fn new($($given: $from),*) -> Self {
                Self { $($member: $value),+ }
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
