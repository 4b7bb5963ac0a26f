//! A rule of the database that changes or goes, as the table has it.

use tokio_postgres::types::{ToSql, Type};

use super::Session;
use crate::rule::Rule;
use crate::truth::import::Changed;
use crate::truth::postgres::failure::Result;
use crate::truth::postgres::list::indexed;

const COPY: &str =
    "COPY pg_temp.touched (id, left_tags, came_tags, host, path, destination, state, next_at, clicks, body)
    FROM STDIN (FORMAT binary)";

const TYPES: [Type; 10] = [
    Type::TEXT,
    Type::TEXT_ARRAY,
    Type::TEXT_ARRAY,
    Type::TEXT,
    Type::TEXT,
    Type::TEXT,
    Type::TEXT,
    Type::INT8,
    Type::INT8,
    Type::TEXT,
];

#[derive(Default)]
pub(super) struct Touched {
    id: String,
    left_tags: Vec<String>,
    came_tags: Vec<String>,
    host: Option<String>,
    path: Option<String>,
    destination: Option<String>,
    state: Option<&'static str>,
    next_at: Option<i64>,
    clicks: Option<i64>,
    body: Option<String>,
}

impl Touched {
    pub(super) fn gone(rule: Rule) -> Self {
        Self { id: rule.id, left_tags: rule.terms.tags, ..Self::default() }
    }

    pub(super) fn changed(changed: Changed, now_ms: u64) -> Self {
        let Changed { before, after, body } = changed;
        let (state, next_at) = (after.state(now_ms).as_str(), after.next_at(now_ms));
        let (mut left_tags, mut came_tags) = (before.terms.tags, after.terms.tags.clone());
        // What stays is left alone.
        came_tags.retain(|tag| !left_tags.contains(tag));
        left_tags.retain(|tag| !after.terms.tags.contains(tag));
        let terms = after.terms;
        Self {
            id: after.id,
            left_tags,
            came_tags,
            destination: Some(indexed(&terms.destination).to_owned()),
            host: Some(terms.host),
            path: Some(terms.path),
            state: Some(state),
            next_at: next_at.map(|at| at as i64),
            clicks: terms.max_clicks.map(|_| after.clicks as i64),
            body: Some(body),
        }
    }

    fn columns(&self) -> [&(dyn ToSql + Sync); 10] {
        let Self { id, left_tags, came_tags, host, path, destination, state, next_at, clicks, body } = self;
        [id, left_tags, came_tags, host, path, destination, state, next_at, clicks, body]
    }
}

/// Notes what becomes of some rules.
pub(super) async fn note(session: &Session, rules: &[Touched]) -> Result<()> {
    if rules.is_empty() {
        return Ok(());
    }
    session.copy(COPY, &TYPES, rules.iter().map(Touched::columns)).await
}
