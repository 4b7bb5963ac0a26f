//! A rule: where a request for a host and a path is sent, from when until when.

mod answer;
mod check;
mod location;
mod parts;

use std::collections::BTreeMap;

use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};

pub use self::answer::{Answer, CacheControl, Redirect, RedirectRef, State};
pub use self::check::{Invalid, Warning};
pub(crate) use self::parts::{Life, Parts};
use crate::path;

/// Bytes that a path may have.
pub const MAX_PATH_BYTES: usize = 2048;
/// Bytes that a destination or a fallback may have.
pub const MAX_DESTINATION_BYTES: usize = 4096;
/// Bytes that an id may have.
pub const MAX_ID_BYTES: usize = 128;
/// Tags that a rule may have.
pub const MAX_TAGS: usize = 32;
/// Bytes that a tag may have.
pub const MAX_TAG_BYTES: usize = 64;
/// Bytes that a note may have.
pub const MAX_NOTE_BYTES: usize = 1024;

/// The status that a redirect is asked to have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, Default)]
#[serde(try_from = "u16", into = "u16")]
pub enum Code {
    /// For good; a client may turn a POST into a GET.
    MovedPermanently,
    /// For now; a client may turn a POST into a GET.
    #[default]
    Found,
    /// For now, with the method that was asked with.
    TemporaryRedirect,
    /// For good, with the method that was asked with.
    PermanentRedirect,
}

impl Code {
    /// The number.
    pub fn as_u16(self) -> u16 {
        match self {
            Self::MovedPermanently => 301,
            Self::Found => 302,
            Self::TemporaryRedirect => 307,
            Self::PermanentRedirect => 308,
        }
    }

    /// Whether clients may remember it for good.
    pub fn is_permanent(self) -> bool {
        matches!(self, Self::MovedPermanently | Self::PermanentRedirect)
    }

    /// Whether a request is sent on with its method, whichever it is.
    pub fn keeps_method(self) -> bool {
        matches!(self, Self::TemporaryRedirect | Self::PermanentRedirect)
    }

    /// The same for now.
    pub fn temporary(self) -> Self {
        match self {
            Self::MovedPermanently => Self::Found,
            Self::PermanentRedirect => Self::TemporaryRedirect,
            other => other,
        }
    }
}

impl From<Code> for u16 {
    fn from(code: Code) -> Self {
        code.as_u16()
    }
}

impl TryFrom<u16> for Code {
    type Error = String;

    fn try_from(number: u16) -> Result<Self, String> {
        let all = [Self::MovedPermanently, Self::Found, Self::TemporaryRedirect, Self::PermanentRedirect];
        let found = all.into_iter().find(|it| it.as_u16() == number);
        found.ok_or_else(|| format!("the code {number} is not allowed: 301, 302, 307 and 308 are"))
    }
}

/// What becomes of the query of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, Default)]
#[serde(rename_all = "lowercase")]
pub enum Query {
    /// It is dropped.
    #[default]
    Off,
    /// It comes behind the destination's own.
    Append,
    /// It comes behind what of the destination's own the request does not name: its values win.
    Merge,
}

/// What a user says of a rule. Checked by [`Draft::check`], which also brings host, path and tags into their one form.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Terms {
    /// A host, `*.example.com` for it and all below, or `*` for any.
    #[serde(default = "any_host")]
    pub host: String,
    /// A path, or `/docs/*` for `/docs` and all below.
    pub path: String,
    /// Where to: `http:`, `https:`, or a path on the same host.
    pub destination: String,
    /// As which redirect, if the rule cannot end; for now only if it can.
    #[serde(default)]
    pub code: Code,
    /// Whether what a request has below `/docs/*` is appended to the destination.
    #[serde(default)]
    pub append_rest: bool,
    /// What becomes of the query of a request.
    #[serde(default)]
    pub query: Query,
    /// From when on it answers, in milliseconds of Unix time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub starts_at: Option<u64>,
    /// The last millisecond at which it redirects.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<u64>,
    /// How often it redirects.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_clicks: Option<u64>,
    /// Where to when it has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fallback: Option<String>,
    /// For how many seconds clients may remember a permanent redirect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_age: Option<u32>,
    /// Words to find it by.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
    /// Whether it answers at all.
    #[serde(default = "yes")]
    pub enabled: bool,
    /// For people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub note: String,
}

fn any_host() -> String {
    "*".to_owned()
}

fn yes() -> bool {
    true
}

impl Terms {
    /// For any host, with all else as it is by default.
    pub fn new(path: impl Into<String>, destination: impl Into<String>) -> Self {
        Self {
            host: any_host(),
            path: path.into(),
            destination: destination.into(),
            code: Code::default(),
            append_rest: false,
            query: Query::Off,
            starts_at: None,
            expires_at: None,
            max_clicks: None,
            fallback: None,
            max_age: None,
            tags: Vec::new(),
            enabled: true,
            note: String::new(),
        }
    }

    /// Whether it may end: then no client may remember it for good.
    pub fn can_end(&self) -> bool {
        self.life().can_end()
    }

    /// The folder that it is for, if it is for all below one: `/docs` of `/docs/*`.
    pub fn folder(&self) -> Option<&str> {
        self.path.strip_suffix("/*")
    }

    /// Whether it is for that host and path, both normalised.
    pub fn matches(&self, host: &str, path: &str) -> bool {
        path::path_matches(&self.path, path) && path::host_matches(&self.host, host)
    }
}

/// A rule that is to be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Given")]
#[non_exhaustive]
pub struct Draft {
    /// Its identity; made by the database if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// All else.
    #[serde(flatten)]
    pub terms: Terms,
}

impl Draft {
    /// With an id to be made.
    pub fn new(terms: Terms) -> Self {
        Self { id: None, terms }
    }
}

/// A draft with what it may not have: a field whose name is misspelt is not passed over.
#[derive(Deserialize)]
struct Given {
    #[serde(default)]
    id: Option<String>,
    #[serde(flatten)]
    terms: Terms,
    #[serde(flatten)]
    unknown: BTreeMap<String, IgnoredAny>,
}

impl TryFrom<Given> for Draft {
    type Error = String;

    fn try_from(given: Given) -> Result<Self, String> {
        match given.unknown.keys().next() {
            None => Ok(Self { id: given.id, terms: given.terms }),
            Some(name) => Err(format!("a rule has no field {name:?}")),
        }
    }
}

/// A rule as the database has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Rule {
    /// Its identity.
    pub id: String,
    /// What was said of it.
    #[serde(flatten)]
    pub terms: Terms,
    /// Redirects so far.
    #[serde(default)]
    pub clicks: u64,
    /// Which version of it this is, from 1 on.
    pub version: u64,
    /// When it was made, in milliseconds of the database's time.
    pub created_at: u64,
    /// When it was last changed.
    pub updated_at: u64,
}
