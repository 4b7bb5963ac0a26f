//! What is asked of sessions, checked: nothing behind it checks again.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;
use tidegate::Key;
use tidegate::bounds::MAX_COUNT;
use tidegate::session::{Generation, SessionId};

use super::json;
use crate::http::problem::Problem;
use crate::http::query::Query;

/// The most that are told, claimed or acknowledged at once: the store is one for all.
pub(super) const MAX_LIMIT: usize = 1000;

/// The body of an activation.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object with broadcaster, config and holder")]
pub(super) struct Activate<'a> {
    #[serde(borrow)]
    broadcaster: Cow<'a, str>,
    #[serde(borrow)]
    config: &'a RawValue,
    #[serde(default, borrow)]
    holder: Option<Cow<'a, str>>,
}

impl Activate<'_> {
    pub(super) fn broadcaster(&self) -> Result<Key<'_>, Problem> {
        key("a broadcaster", &self.broadcaster)
    }

    pub(super) fn config(&self) -> Result<Cow<'_, str>, Problem> {
        json::to_text(self.config)
    }

    pub(super) fn holder(&self) -> Result<Option<Key<'_>>, Problem> {
        self.holder.as_deref().map(|holder| key("a holder", holder)).transpose()
    }
}

/// The body of an update.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object with value and generation")]
pub(super) struct Update<'a> {
    #[serde(borrow)]
    value: &'a RawValue,
    #[serde(default)]
    generation: Option<u64>,
}

impl Update<'_> {
    pub(super) fn value(&self) -> Result<Cow<'_, str>, Problem> {
        json::to_text(self.value)
    }

    pub(super) fn generation(&self) -> Result<Option<Generation>, Problem> {
        self.generation.map(generation).transpose()
    }
}

/// The body of a claim.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object with limit")]
pub(super) struct Claim {
    #[serde(default)]
    limit: Option<u64>,
}

impl Claim {
    pub(super) fn limit(&self, default: usize) -> Result<usize, Problem> {
        match self.limit {
            None => Ok(default),
            Some(limit @ 1..=1000) => Ok(limit as usize),
            Some(limit) => Err(Problem::invalid(format!(
                "a limit of {limit} is not allowed: whole numbers from 1 to {MAX_LIMIT} are"
            ))),
        }
    }
}

/// The body of acknowledgements.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object with acks")]
pub(super) struct Acks<'a> {
    #[serde(borrow)]
    acks: Vec<Ack<'a>>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object with id and generation")]
struct Ack<'a> {
    #[serde(borrow)]
    id: Cow<'a, str>,
    generation: u64,
}

impl Acks<'_> {
    pub(super) fn claims(&self) -> Result<Vec<(SessionId, Generation)>, Problem> {
        if self.acks.len() > MAX_LIMIT {
            let count = self.acks.len();
            return Err(Problem::invalid(format!(
                "{count} acks at once are not allowed: up to {MAX_LIMIT} are"
            )));
        }
        self.acks.iter().map(|ack| Ok((ack.id.parse()?, generation(ack.generation)?))).collect()
    }
}

/// The generation that a query names.
pub(super) fn generation_of(query: &Query) -> Result<Option<Generation>, Problem> {
    let number = query.read("generation", |text| {
        text.parse().map_err(|_| format!("{text:?} is not allowed: whole numbers from 1 to {MAX_COUNT} are"))
    })?;
    number.map(generation).transpose()
}

/// The attempt that a query names.
pub(super) fn attempt_of(query: &Query) -> Result<Option<u64>, Problem> {
    query.read("attempt", |text| {
        let attempt = text.parse().ok().filter(|it| (1..=MAX_COUNT).contains(it));
        attempt.ok_or_else(|| format!("{text:?} is not allowed: whole numbers from 1 to {MAX_COUNT} are"))
    })
}

fn generation(number: u64) -> Result<Generation, Problem> {
    match number {
        1..=MAX_COUNT => Ok(Generation::new(number)),
        _ => Err(Problem::invalid(format!(
            "a generation of {number} is not allowed: whole numbers from 1 to {MAX_COUNT} are"
        ))),
    }
}

/// A key that messages call something else.
pub(super) fn key<'a>(what: &str, text: &'a str) -> Result<Key<'a>, Problem> {
    Key::new(text).map_err(|error| Problem::invalid(error.to_string().replacen("a key", what, 1)))
}
