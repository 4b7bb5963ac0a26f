//! Many sessions: by state, by age, in numbers; and the spaces.

use std::time::Duration;

use tidegate::bounds::MAX_COUNT;
use tidegate::clock::Timestamp;
use tidegate::session::{Listed, State};

use crate::api::session::{Counted, MAX_LIMIT, Page, STATE_NAMES, Space};
use crate::api::{Spaces, pattern};
use crate::http::{Call, FromQuery, Json, OfSpace, Parameter, Problem, Query, Result, place, query};
use crate::settings::parse::Parse as _;

const LIMIT: Parameter = Parameter::integer("limit", 0..=MAX_LIMIT as u64, Some(100), "how many at most");

const AFTER: Parameter = Parameter::text(
    "after",
    "^[0-9]{1,15}:[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$",
    "",
    "where to go on: `next` of the page before",
);

/// In the order of their names.
const STATES: [State; 5] = [State::Active, State::Disconnected, State::Orphan, State::Claimed, State::Dead];

query! {
    /// A page of a list: how many, and behind which.
    struct PageQuery from(query) {
        LIMIT => limit: usize = query.integer("limit")?.unwrap_or_default() as usize,
        AFTER => after: Option<Listed> = query.read("after", after)?,
    }
}

/// The same, of those in a state, or of those that are disconnected for so long.
#[derive(Debug)]
pub(crate) struct ListQuery {
    state: State,
    max_age: Option<Duration>,
    page: PageQuery,
}

impl FromQuery for ListQuery {
    const PARAMETERS: &'static [Parameter] = &[
        Parameter::one_of("state", &STATE_NAMES, "those in a state; disconnected unless given"),
        Parameter::text("max_age", pattern::LENGTH_OF_TIME, "30s", "those that are disconnected for longer"),
        LIMIT,
        AFTER,
    ];

    fn from_query(query: &Query) -> Result<Self> {
        let (state, max_age) = (query.read("state", state)?, query.read("max_age", Duration::parse)?);
        if state.is_some() && max_age.is_some() {
            let why =
                "`state` and `max_age` are not allowed together: `max_age` is of those that are disconnected";
            return Err(Problem::invalid(why.to_owned()));
        }
        let state = state.unwrap_or(State::Disconnected);
        Ok(Self { state, max_age, page: PageQuery::from_query(query)? })
    }
}

pub(super) async fn list(call: Call<OfSpace, ListQuery>) -> Result<Json<Page>> {
    let sessions = call.app.parts().sessions.get(&call.path.space)?;
    let ListQuery { state, max_age, page: PageQuery { limit, after } } = call.query;
    let found = match max_age {
        Some(age) => sessions.orphans_after(age, after, limit).await?,
        None => sessions.list_after(state, after, limit).await?,
    };
    Ok(Json(Page::new(sessions.space().as_str(), state, &found, limit)))
}

pub(super) async fn dead(call: Call<OfSpace, PageQuery>) -> Result<Json<Page>> {
    let PageQuery { limit, after } = call.query;
    let sessions = call.app.parts().sessions.get(&call.path.space)?;
    let found = sessions.list_after(State::Dead, after, limit).await?;
    Ok(Json(Page::new(sessions.space().as_str(), State::Dead, &found, limit)))
}

pub(super) async fn counts(call: Call<OfSpace>) -> Result<Json<Counted>> {
    let sessions = call.app.parts().sessions.get(&call.path.space)?;
    let counts = sessions.counts().await?;
    Ok(Json(Counted::new(sessions.space().as_str(), &counts)))
}

pub(super) async fn spaces(call: Call) -> Result<Json<Spaces<Space>>> {
    let spaces = call.app.parts().sessions.iter().map(|(name, options)| Space::new(name, options));
    Ok(Json(Spaces { spaces: spaces.collect() }))
}

fn state(text: &str) -> Result<State, String> {
    let known = STATES.into_iter().find(|state| state.as_str() == text);
    known.ok_or_else(|| format!("{text:?} is not a state: {} are", STATE_NAMES.join(", ")))
}

/// A place in a list, as `next` gave it.
fn after(text: &str) -> Result<Listed, String> {
    place(text, || {
        let (at_ms, id) = text.split_once(':')?;
        let at_ms = at_ms.parse().ok().filter(|at_ms| *at_ms <= MAX_COUNT)?;
        Some(Listed::new(Timestamp::from_millis(at_ms), id.parse().ok()?))
    })
}
