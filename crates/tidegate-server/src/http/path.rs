//! What stands in a path, percent-decoded and checked.

use axum::extract::Path;
use axum::extract::rejection::PathRejection;
use serde::Deserialize;
use tidegate::Key;

use super::problem::Problem;

/// What a router found in a path.
pub(super) type Found<T> = Result<Path<T>, PathRejection>;

pub(super) fn decoded<T>(path: Found<T>) -> Result<T, Problem> {
    match path {
        Ok(Path(parts)) => Ok(parts),
        Err(rejection) => Err(Problem::invalid(format!(
            "the path is not UTF-8 when percent-decoded: {}",
            rejection.body_text()
        ))),
    }
}

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
