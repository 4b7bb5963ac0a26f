//! Many runs: by state, newest first; a cleanup of all; and the spaces.

use tidegate::run::RunState;

use crate::api::Spaces;
use crate::api::run::{Cleaned, Page, STATE_NAMES, Space};
use crate::http::{
    CURSOR, Call, EmptyBody, FromQuery, Json, LIMIT, NoQuery, OfSpace, PageQuery, Parameter, Query, Result,
};

/// A page of those in a state.
#[derive(Debug)]
pub(crate) struct ListQuery {
    state: Option<RunState>,
    page: PageQuery,
}

impl FromQuery for ListQuery {
    const PARAMETERS: &'static [Parameter] =
        &[Parameter::one_of("state", &STATE_NAMES, "those in a state; all unless given"), LIMIT, CURSOR];

    fn from_query(query: &Query) -> Result<Self> {
        Ok(Self { state: query.parsed("state")?, page: PageQuery::from_query(query)? })
    }
}

pub(super) async fn list(call: Call<OfSpace, ListQuery>) -> Result<Json<Page>> {
    let ListQuery { state, page: PageQuery { after, limit } } = &call.query;
    let runs = &call.app.parts().runs.get(&call.path.space)?.runs;
    let page = runs.list(*state, after.as_ref(), *limit).await?;
    Ok(Json(Page::new(runs.space().as_str(), page)))
}

pub(super) async fn cleanup(call: Call<OfSpace, NoQuery, EmptyBody>) -> Result<Json<Cleaned>> {
    let runs = &call.app.parts().runs.get(&call.path.space)?.runs;
    call.body.parse()?;
    Ok(Json(Cleaned::new(runs.space().as_str(), runs.cleanup().await?)))
}

pub(super) async fn spaces(call: Call) -> Result<Json<Spaces<Space>>> {
    let spaces = call.app.parts().runs.iter().map(|(name, it)| Space::new(name, &it.options));
    Ok(Json(Spaces { spaces: spaces.collect() }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_states_are_named() {
        assert_eq!(RunState::ALL.map(RunState::as_str), STATE_NAMES);
    }
}
