//! Many runs: by state, newest first; a cleanup of all; and the spaces.

use tidegate::run::RunState;
use tidegate::{Cursor, MAX_PAGE, Page as Listed};

use crate::api::pattern;
use crate::api::run::{Cleaned, Page, Spaces};
use crate::http::answer::Json;
use crate::http::call::{Call, EmptyBody, OfSpace};
use crate::http::parameter::{FromQuery, NoQuery, Parameter, Query};
use crate::http::problem::Problem;

const LIMIT: Parameter = Parameter::integer("limit", 1..=MAX_PAGE as u64, Some(100), "how many at most");

const CURSOR: Parameter =
    Parameter::text("cursor", pattern::CURSOR, "", "where to go on: `next` of the page before");

/// What they are called, in the order of [`RunState::ALL`].
const STATE_NAMES: &[&str] = &["running", "processing", "paused", "succeeded", "failed", "cancelled"];

/// Where a page begins, and how many it may have.
#[derive(Debug)]
pub(crate) struct PageQuery {
    pub(super) after: Option<Cursor>,
    pub(super) limit: usize,
}

impl FromQuery for PageQuery {
    const PARAMETERS: &'static [Parameter] = &[LIMIT, CURSOR];

    fn from_query(query: &Query) -> Result<Self, Problem> {
        let read = |text: &str| text.parse().map_err(|error: tidegate::Error| error.to_string());
        let limit = query.integer("limit")?.unwrap_or_default() as usize;
        Ok(Self { after: query.read("cursor", read)?, limit })
    }
}

/// The same, of those in a state.
#[derive(Debug)]
pub(crate) struct ListQuery {
    state: Option<RunState>,
    page: PageQuery,
}

impl FromQuery for ListQuery {
    const PARAMETERS: &'static [Parameter] =
        &[Parameter::one_of("state", STATE_NAMES, "those in a state; all unless given"), LIMIT, CURSOR];

    fn from_query(query: &Query) -> Result<Self, Problem> {
        let read = |text: &str| text.parse().map_err(|error: tidegate::Error| error.to_string());
        Ok(Self { state: query.read("state", read)?, page: PageQuery::from_query(query)? })
    }
}

pub(super) async fn list(call: Call<OfSpace, ListQuery>) -> Result<Json<Page>, Problem> {
    let ListQuery { state, page: PageQuery { after, limit } } = &call.query;
    let runs = &call.app.parts().runs.get(&call.path.space)?.runs;
    let Listed { items, next } = runs.list(*state, after.as_ref(), *limit).await?;
    let space = runs.space().as_str().to_owned();
    let (runs, next) = (items.into_iter().map(Into::into).collect(), next.map(|next| next.to_string()));
    Ok(Json(Page { space, runs, next }))
}

pub(super) async fn cleanup(call: Call<OfSpace, NoQuery, EmptyBody>) -> Result<Json<Cleaned>, Problem> {
    let runs = &call.app.parts().runs.get(&call.path.space)?.runs;
    call.body.parse()?;
    let removed = runs.cleanup().await? as u64;
    Ok(Json(Cleaned { space: runs.space().as_str().to_owned(), removed }))
}

pub(super) async fn spaces(call: Call) -> Result<Json<Spaces>, Problem> {
    Ok(Json(Spaces::of(call.app.parts().runs.iter().map(|(name, it)| (name, &it.options)))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_states_are_named() {
        assert_eq!(RunState::ALL.map(RunState::as_str), STATE_NAMES);
    }
}
