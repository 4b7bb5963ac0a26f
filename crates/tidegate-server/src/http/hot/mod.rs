//! Hot pages: a file each for what comes in, one by one ([`edits`]) or in bulk
//! ([`bulk`]), what is asked ([`pages`]), and what happens ([`events`]).

mod bulk;
mod edits;
mod events;
mod pages;

pub(super) use self::bulk::is_ndjson;
use axum::Router;
use axum::http::Method;
use axum::routing::get;
use schemars::JsonSchema;
use serde::Deserialize;

use super::App;
use super::answer::Json;
use super::call::Call;
use super::operation::{Operation, Part, TimeClass};
use super::problem::{Kind, Problem};
use crate::api::hot::Spaces;
use crate::api::pattern;

/// The operations.
pub(super) fn operations() -> Vec<Operation> {
    let rows = [
        Operation::new(Method::POST, "/v1/hot/{space}/edits", "hot_record", edits::record)
            .summary("Record one edit")
            .example(r#"{"page":"en:Tide gate","id":"4711","editor":"alice","byte_change":12}"#)
            .refuses(UNKNOWN),
        Operation::new(Method::POST, "/v1/hot/{space}/edits", "hot_bulk", bulk::record)
            .summary("Record edits, one per line, as they come")
            .takes(TimeClass::Bulk)
            .refuses(&[Kind::UNKNOWN_SPACE, Kind::STOPPING]),
        Operation::new(Method::GET, "/v1/hot/{space}", "hot_list", pages::list)
            .summary("The hottest pages")
            .example("?limit=20")
            .refuses(UNKNOWN),
        Operation::new(Method::GET, "/v1/hot/{space}/pages/{page}", "hot_stats", pages::stats)
            .summary("What is known of a page")
            .refuses(UNKNOWN),
        Operation::new(Method::DELETE, "/v1/hot/{space}/pages/{page}", "hot_remove", pages::remove)
            .summary("Forget a page")
            .refuses(UNKNOWN)
            .admin(),
        Operation::new(Method::GET, "/v1/hot/{space}/pages/{page}/window", "hot_window", pages::window)
            .summary("The edits in the window of a page")
            .example("?from=&to=")
            .refuses(UNKNOWN),
        Operation::new(Method::GET, "/v1/hot/{space}/events", "hot_events", events::watch)
            .summary("What happens, as server-sent events")
            .takes(TimeClass::Endless)
            .refuses(UNKNOWN),
        Operation::new(Method::POST, "/v1/hot/{space}/cleanup", "hot_cleanup", pages::cleanup)
            .summary("Drop what is over")
            .refuses(UNKNOWN)
            .admin(),
        Operation::new(Method::GET, "/v1/hot", "hot_spaces", spaces)
            .summary("The spaces and what they are bounded by"),
    ];
    rows.map(|row| row.of(Part::Hot)).into()
}

const UNKNOWN: &[Kind] = &[Kind::UNKNOWN_SPACE];

/// `/v1/hot/{space}`.
#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct OfSpace {
    #[schemars(extend("pattern" = pattern::NAME))]
    space: String,
}

/// No router matches an empty page; it deserves a better answer than 404.
pub(super) fn empty_names(router: Router<App>) -> Router<App> {
    router
        .route("/v1/hot/{space}/pages/", get(no_page).delete(no_page))
        .route("/v1/hot/{space}/pages//window", get(no_page))
}

async fn no_page(call: Call<OfSpace>) -> Result<(), Problem> {
    call.app.space(&call.path.space)?;
    Err(Problem::empty("a page"))
}

async fn spaces(call: Call) -> Result<Json<Spaces>, Problem> {
    Ok(Json(Spaces::of(call.app.spaces())))
}
