//! Many sessions: by state, by age, in numbers.

use std::time::Duration;

use axum::extract::State;
use axum::http::Uri;
use tidegate::bounds::MAX_COUNT;
use tidegate::clock::Timestamp;
use tidegate::session::{Listed, State as Stand};

use super::ask::MAX_LIMIT;
use super::{ok, told};
use crate::http::App;
use crate::http::limits::Answered;
use crate::http::metrics::Operation;
use crate::http::path::{Found, decoded};
use crate::http::problem::Problem;
use crate::http::query::Query;

/// How many are told unless asked otherwise.
const LIMIT: usize = 100;

const STATES: [Stand; 5] = [Stand::Active, Stand::Disconnected, Stand::Orphan, Stand::Claimed, Stand::Dead];

pub(super) async fn list(State(app): State<App>, path: Found<String>, uri: Uri) -> Answered {
    let _timed = app.metrics().timed(Operation::SessionList);
    let space = decoded(path)?;
    let sessions = app.sessions(&space)?;
    let query = Query::parse(uri.query(), &["state", "max_age", "limit", "after"])?;
    let (state, age) = (query.read("state", state)?, query.read("max_age", age)?);
    let (limit, after) = (limit(&query)?, query.read("after", after)?);
    let (state, found) = match (state, age) {
        (Some(_), Some(_)) => {
            let why =
                "`state` and `max_age` are not allowed together: `max_age` is of those that are disconnected";
            return Err(Problem::invalid(why.to_owned()));
        }
        (None, Some(age)) => (Stand::Disconnected, sessions.orphans_after(age, after, limit).await?),
        (state, None) => {
            let state = state.unwrap_or(Stand::Disconnected);
            (state, sessions.list_after(state, after, limit).await?)
        }
    };
    Ok(ok(&told::Page::new(&space, state.as_str(), &found, limit)))
}

pub(super) async fn dead(State(app): State<App>, path: Found<String>, uri: Uri) -> Answered {
    let _timed = app.metrics().timed(Operation::SessionList);
    let space = decoded(path)?;
    let sessions = app.sessions(&space)?;
    let query = Query::parse(uri.query(), &["limit", "after"])?;
    let (limit, after) = (limit(&query)?, query.read("after", after)?);
    let found = sessions.list_after(Stand::Dead, after, limit).await?;
    Ok(ok(&told::Page::new(&space, Stand::Dead.as_str(), &found, limit)))
}

pub(super) async fn counts(State(app): State<App>, path: Found<String>, uri: Uri) -> Answered {
    let _timed = app.metrics().timed(Operation::SessionList);
    let space = decoded(path)?;
    let sessions = app.sessions(&space)?;
    Query::parse(uri.query(), &[])?;
    Ok(ok(&told::Counted::new(&space, &sessions.counts().await?)))
}

fn limit(query: &Query) -> Result<usize, Problem> {
    let limit = query.read("limit", |text| {
        let limit = text.parse().ok().filter(|limit| *limit <= MAX_LIMIT);
        limit.ok_or_else(|| format!("{text:?} is not allowed: whole numbers from 0 to {MAX_LIMIT} are"))
    })?;
    Ok(limit.unwrap_or(LIMIT))
}

fn state(text: &str) -> Result<Stand, String> {
    let known = STATES.into_iter().find(|state| state.as_str() == text);
    known.ok_or_else(|| {
        let known: Vec<_> = STATES.iter().map(|state| state.as_str()).collect();
        format!("{text:?} is not a state: {} are", known.join(", "))
    })
}

fn age(text: &str) -> Result<Duration, String> {
    humantime::parse_duration(text).map_err(|_| {
        format!("{text:?} is not a length of time: a number with a unit is, like 500ms, 5s or 2m")
    })
}

/// A place in a list, as `next` told it.
fn after(text: &str) -> Result<Listed, String> {
    let place = || {
        let (at_ms, id) = text.split_once(':')?;
        let at_ms = at_ms.parse().ok().filter(|at_ms| *at_ms <= MAX_COUNT)?;
        Some(Listed::new(Timestamp::from_millis(at_ms), id.parse().ok()?))
    };
    place().ok_or_else(|| {
        let shown: String = text.chars().take(60).collect();
        format!("{shown:?} is not a place in a list: the `next` of a page is")
    })
}
