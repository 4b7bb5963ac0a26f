//! Hot pages: a file each for what comes in, one by one ([`edits`]) or in bulk
//! ([`bulk`]), what is asked ([`pages`]), and what happens ([`events`]).

mod ask;
mod bulk;
mod edits;
mod events;
mod pages;
mod told;

use axum::Router;
use axum::response::Response;
use axum::routing::{get, post};

pub(crate) use self::bulk::is_bulk;
use super::App;
use super::extract::Call;
use super::limits::Answered;
use super::problem::Problem;
use super::reply::json;

/// The routes.
pub(super) fn routes(router: Router<App>) -> Router<App> {
    router
        .route("/v1/hot", get(spaces))
        .route("/v1/hot/{space}", get(pages::list))
        .route("/v1/hot/{space}/edits", post(edits::record))
        .route("/v1/hot/{space}/events", get(events::watch))
        .route("/v1/hot/{space}/cleanup", post(pages::cleanup))
        .route("/v1/hot/{space}/pages/{page}", get(pages::stats).delete(pages::remove))
        .route("/v1/hot/{space}/pages/{page}/window", get(pages::window))
        // No router matches an empty page; it deserves a better answer than 404.
        .route("/v1/hot/{space}/pages/", get(no_page).delete(no_page))
        .route("/v1/hot/{space}/pages//window", get(no_page))
}

async fn spaces(call: Call) -> Response {
    json(axum::http::StatusCode::OK, &told::Spaces::of(call.app.spaces()))
}

async fn no_page(call: Call<String>) -> Answered {
    call.app.space(&call.path)?;
    Err(Problem::empty("a page"))
}
