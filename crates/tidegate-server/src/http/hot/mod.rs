//! Hot pages: a file each for what comes in, one by one ([`edits`]) or in bulk
//! ([`bulk`]), one page ([`pages`]), the hottest of them ([`list`]), and what happens ([`events`]).

pub(crate) mod api;
mod bulk;
mod edits;
mod events;
mod list;
mod pages;
mod path;

use axum::Router;
use axum::http::Method;
use axum::routing::get;

use super::App;
use super::call::{Call, OfSpace};
use super::operation::{Operation, Routes, TimeClass};
use super::problem::{Kind, Problem};

pub(super) const ROUTES: Routes = Routes { part: "hot", operations, empty_names };

/// The operations.
fn operations() -> Vec<Operation> {
    vec![
        Operation::new(Method::POST, "/v1/hot/{space}/edits", "hot_record", edits::record)
            .summary("Record one edit")
            .example(r#"{"page":"en:Tide gate","id":"4711","editor":"alice","byte_change":12}"#)
            .refuses(UNKNOWN),
        Operation::new(Method::POST, "/v1/hot/{space}/edits", "hot_bulk", bulk::record)
            .summary("Record edits, one per line, as they come")
            .takes(TimeClass::Bulk)
            .refuses(&[Kind::UNKNOWN_SPACE, Kind::STOPPING]),
        Operation::new(Method::GET, "/v1/hot/{space}", "hot_list", list::list)
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
        Operation::new(Method::GET, "/v1/hot", "hot_spaces", list::spaces)
            .summary("The spaces and what they are bounded by"),
    ]
}

const UNKNOWN: &[Kind] = &[Kind::UNKNOWN_SPACE];

fn empty_names(router: Router<App>) -> Router<App> {
    router
        .route("/v1/hot/{space}/pages/", get(no_page).delete(no_page))
        .route("/v1/hot/{space}/pages//window", get(no_page))
}

async fn no_page(call: Call<OfSpace>) -> Result<(), Problem> {
    call.app.parts().hot.get(&call.path.space)?;
    Err(Problem::empty("a page"))
}
