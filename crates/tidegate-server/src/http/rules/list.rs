//! Many rules, page by page.

use tidegate_edge::path::{normalised, normalised_host};
use tidegate_edge::rule::State;
use tidegate_edge::truth::{Cursor, Filter, MAX_PAGE};

use super::open;
use crate::api::pattern;
use crate::api::rule::{Page, STATE_NAMES};
use crate::http::{Call, FromQuery, Json, NoPath, Parameter, Query, Result};

/// A place in a list of rules.
const PLACE: &str = "^([0-9a-f]{2}){1,8000}$";

/// A page of those that are asked for.
#[derive(Debug)]
pub(crate) struct ListQuery {
    filter: Filter,
    limit: usize,
    cursor: Option<Cursor>,
}

impl FromQuery for ListQuery {
    const PARAMETERS: &'static [Parameter] = &[
        Parameter::text("path", r"^/[\s\S]*$", "/docs/", "those whose path starts so"),
        Parameter::text("host", pattern::ANY, "*.example.com", "those of this host, as a rule has it"),
        Parameter::text("tag", pattern::NO_NUL, "spring", "those with this tag"),
        Parameter::text(
            "destination",
            pattern::NO_NUL,
            "https://example.com/",
            "those whose destination starts so",
        ),
        Parameter::one_of("state", &STATE_NAMES, "those that are so now"),
        Parameter::integer("limit", 1..=MAX_PAGE as u64, Some(100), "how many at most"),
        Parameter::text(
            "cursor",
            PLACE,
            "",
            "where to go on: `next` of the page before, with the same filters",
        ),
    ];

    fn from_query(query: &Query) -> Result<Self> {
        let mut filter = Filter::default();
        filter.host = query.read("host", rule_host)?;
        filter.path_prefix = query.read("path", rule_path)?;
        filter.tag = query.read("tag", text)?;
        filter.destination_prefix = query.read("destination", text)?;
        filter.state = query.read("state", state)?;
        let limit = query.integer("limit")?.unwrap_or_default() as usize;
        let cursor = query.read("cursor", |text| Cursor::parse(text, &filter))?;
        Ok(Self { filter, limit, cursor })
    }
}

pub(super) async fn list(call: Call<NoPath, ListQuery>) -> Result<Json<Page>> {
    let truth = &open(&call.app)?.truth;
    let ListQuery { filter, limit, cursor } = call.query;
    Ok(Json(Page::new(truth.list(filter, cursor, limit).await?)))
}

/// No rule has a NUL anywhere.
fn text(text: &str) -> Result<String, String> {
    match text.contains('\0') {
        true => Err("a NUL is not allowed".to_owned()),
        false => Ok(text.to_owned()),
    }
}

/// A host as rules have it.
pub(super) fn rule_host(text: &str) -> Result<String, String> {
    if text == "*" {
        return Ok(text.to_owned());
    }
    let (wildcard, name) = text.strip_prefix("*.").map_or(("", text), |name| ("*.", name));
    let name = normalised_host(name).ok_or_else(|| {
        let shown: String = text.chars().take(60).collect();
        format!("{shown:?} is not allowed: example.com, *.example.com for it and all below, or * for any are")
    })?;
    Ok(format!("{wildcard}{name}"))
}

/// A path, or how one starts, as rules have it.
pub(super) fn rule_path(text: &str) -> Result<String, String> {
    let path = normalised(text).ok_or_else(|| {
        let shown: String = text.chars().take(60).collect();
        format!("{shown:?} does not start with /")
    })?;
    Ok(path.into_owned())
}

fn state(text: &str) -> Result<State, String> {
    let all = [State::Live, State::Scheduled, State::Ended, State::Disabled];
    all.into_iter().find(|it| it.as_str() == text).ok_or_else(|| {
        let shown: String = text.chars().take(60).collect();
        format!("{shown:?} is not allowed: {} are", STATE_NAMES.join(", "))
    })
}
