//! Hot pages: a file each for what comes in, one by one ([`edits`], [`counts`]) or in bulk
//! ([`bulk`]), one page ([`pages`]), the hottest of them ([`list`]), and what happens ([`events`]).

pub(crate) mod api;
pub(crate) mod api_counts;
mod bulk;
mod counts;
mod edits;
mod events;
mod list;
mod pages;
mod path;
mod settings;

use axum::{Router, routing};

use self::api::Edit;
use self::api_counts::Count;
use super::{
    App, Call, Kind, ON_STORE, OfSpace, Operation, Problem, Result, Routes, TimeClass, delete, get, post,
};

pub(super) const ROUTES: Routes = Routes { part: "hot", operations, empty_names, problems: ON_STORE };

/// The operations.
fn operations() -> Vec<Operation> {
    vec![
        post("/v1/hot/{space}/edits", "hot_record", edits::record)
            .summary("Record one edit")
            .example(r#"{"page":"en:Tide gate","id":"4711","editor":"alice","byte_change":12}"#),
        post("/v1/hot/{space}/edits", "hot_bulk", bulk::record::<Edit<'static>>)
            .summary("Record edits, one per line, as they come")
            .takes(TimeClass::Bulk)
            .refuses(&[Kind::STOPPING]),
        post("/v1/hot/{space}/counts", "hot_count", counts::record)
            .summary("Count so many of a page, in a space that only counts")
            .example(r#"{"page":"/pricing","count":3}"#),
        post("/v1/hot/{space}/counts", "hot_count_bulk", bulk::record::<Count<'static>>)
            .summary("Count pages, one per line, as they come")
            .takes(TimeClass::Bulk)
            .refuses(&[Kind::STOPPING]),
        get("/v1/hot/{space}", "hot_list", list::list).summary("The hottest pages").example("?limit=20"),
        get("/v1/hot/{space}/pages/{page}", "hot_stats", pages::stats).summary("What is known of a page"),
        delete("/v1/hot/{space}/pages/{page}", "hot_remove", pages::remove).summary("Forget a page").admin(),
        get("/v1/hot/{space}/pages/{page}/window", "hot_window", pages::window)
            .summary("The edits in the window of a page")
            .example("?from=&to="),
        get("/v1/hot/{space}/events", "hot_events", events::watch)
            .summary("What happens, as server-sent events")
            .takes(TimeClass::Endless),
        post("/v1/hot/{space}/cleanup", "hot_cleanup", pages::cleanup).summary("Drop what is over").admin(),
        get("/v1/hot", "hot_spaces", list::spaces).summary("The spaces and what they are bounded by"),
    ]
}

fn empty_names(router: Router<App>) -> Router<App> {
    router
        .route("/v1/hot/{space}/pages/", routing::get(no_page).delete(no_page))
        .route("/v1/hot/{space}/pages//window", routing::get(no_page))
}

async fn no_page(call: Call<OfSpace>) -> Result<()> {
    call.app.parts().hot.get(&call.path.space)?;
    Err(Problem::empty("a page"))
}
