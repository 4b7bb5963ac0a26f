//! Who is meant by a path.

use schemars::JsonSchema;
use serde::Deserialize;
use tidegate::Key;

use crate::api::{pattern, subject};
use crate::http::{Problem, Result};

/// `/v1/limits/{limit}`.
#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct OfLimit {
    #[schemars(extend("pattern" = pattern::NAME))]
    pub(super) limit: String,
}

/// `…/keys/{key}`, or `…/everyone` for no subject at all.
#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct OfKey {
    #[schemars(extend("pattern" = pattern::NAME))]
    pub(super) limit: String,
    #[serde(default)]
    #[schemars(with = "crate::api::limit::Subject<'static>")]
    pub(super) key: PathKey,
}

/// `…/reservations/{id}` of a subject.
#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct OfReservation {
    #[schemars(extend("pattern" = pattern::NAME))]
    pub(super) limit: String,
    #[serde(default)]
    #[schemars(with = "crate::api::limit::Subject<'static>")]
    pub(super) key: PathKey,
    #[schemars(length(min = 1, max = 255))]
    pub(super) id: String,
}

/// The subject in a path; none under `/everyone`.
#[derive(Debug, Default, Deserialize)]
#[serde(transparent)]
pub(crate) struct PathKey(Option<String>);

impl PathKey {
    pub(super) fn get(&self) -> Result<Key<'_>> {
        Ok(self.0.as_deref().map_or(Ok(Key::EVERYONE), Key::new)?)
    }
}

/// A key is never empty.
pub(super) fn empty_key() -> Problem {
    let what = Key::new("").map_or_else(|error| error.to_string(), |_| String::new());
    Problem::invalid(format!("{what}; what has no key is under /everyone"))
}

/// A key in a sentence.
pub(super) fn whose(key: Key<'_>) -> String {
    subject(key).map_or("everyone".to_owned(), |key| format!("the key {key:?}"))
}
