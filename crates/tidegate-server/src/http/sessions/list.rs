//! Many sessions: by state, by age, in numbers.

use std::time::Duration;

use tidegate::bounds::MAX_COUNT;
use tidegate::clock::Timestamp;
use tidegate::session::{Listed, State as Stand};

use super::ask::MAX_LIMIT;
use super::{ok, told};
use crate::http::extract::Call;
use crate::http::limits::Answered;
use crate::http::metrics::Operation;
use crate::http::problem::Problem;
use crate::http::query::{FromQuery, Query};

/// How many are told unless asked otherwise.
const LIMIT: usize = 100;

const STATES: [Stand; 5] = [Stand::Active, Stand::Disconnected, Stand::Orphan, Stand::Claimed, Stand::Dead];

/// A page of a list: how many, and behind which.
#[derive(Debug, Clone, Copy)]
pub(super) struct PageQuery {
    limit: usize,
    after: Option<Listed>,
}

impl FromQuery for PageQuery {
    const NAMES: &'static [&'static str] = &["limit", "after"];

    fn from_query(query: &Query) -> Result<Self, Problem> {
        Ok(Self { limit: limit(query)?, after: query.read("after", after)? })
    }
}

/// The same, of those in a state or of an age.
#[derive(Debug, Clone, Copy)]
pub(super) struct ListQuery {
    which: Which,
    page: PageQuery,
}

#[derive(Debug, Clone, Copy)]
enum Which {
    InState(Stand),
    OfAge(Duration),
}

impl FromQuery for ListQuery {
    const NAMES: &'static [&'static str] = &["state", "max_age", "limit", "after"];

    fn from_query(query: &Query) -> Result<Self, Problem> {
        let which = match (query.read("state", state)?, query.read("max_age", age)?) {
            (Some(_), Some(_)) => {
                let why = "`state` and `max_age` are not allowed together: `max_age` is of those that are disconnected";
                return Err(Problem::invalid(why.to_owned()));
            }
            (None, Some(age)) => Which::OfAge(age),
            (state, None) => Which::InState(state.unwrap_or(Stand::Disconnected)),
        };
        Ok(Self { which, page: PageQuery::from_query(query)? })
    }
}

pub(super) async fn list(call: Call<String, ListQuery>) -> Answered {
    let _timed = call.timed(Operation::SessionList);
    let sessions = call.app.sessions(&call.path)?;
    let ListQuery { which, page: PageQuery { limit, after } } = call.query;
    let (state, found) = match which {
        Which::OfAge(age) => (Stand::Disconnected, sessions.orphans_after(age, after, limit).await?),
        Which::InState(state) => (state, sessions.list_after(state, after, limit).await?),
    };
    Ok(ok(&told::Page::new(sessions.space().as_str(), state.as_str(), &found, limit)))
}

pub(super) async fn dead(call: Call<String, PageQuery>) -> Answered {
    let _timed = call.timed(Operation::SessionList);
    let PageQuery { limit, after } = call.query;
    let sessions = call.app.sessions(&call.path)?;
    let found = sessions.list_after(Stand::Dead, after, limit).await?;
    Ok(ok(&told::Page::new(sessions.space().as_str(), Stand::Dead.as_str(), &found, limit)))
}

pub(super) async fn counts(call: Call<String>) -> Answered {
    let _timed = call.timed(Operation::SessionList);
    let sessions = call.app.sessions(&call.path)?;
    let counts = sessions.counts().await?;
    Ok(ok(&told::Counted::new(sessions.space().as_str(), &counts)))
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
