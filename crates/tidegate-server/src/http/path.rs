//! Who is meant by a path.

use serde::Deserialize;
use tidegate::Key;

use super::problem::Problem;

/// `…/keys/{key}`, or `…/everyone` for no subject at all.
#[derive(Debug, Deserialize)]
pub(super) struct Subject {
    pub(super) limit: String,
    #[serde(default)]
    key: Option<String>,
}

impl Subject {
    pub(super) fn key(&self) -> Result<Key<'_>, Problem> {
        match &self.key {
            Some(text) => Ok(Key::new(text)?),
            None => Ok(Key::EVERYONE),
        }
    }
}

/// `…/reservations/{id}` of a subject.
#[derive(Debug, Deserialize)]
pub(super) struct Named {
    #[serde(flatten)]
    pub(super) subject: Subject,
    pub(super) id: String,
}
