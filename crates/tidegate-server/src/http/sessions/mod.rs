//! Sessions: a file each for one of them ([`one`]), who holds it ([`holders`]), many of
//! them ([`list`]), and what becomes of those that were left behind ([`reap`]).

mod ask;
mod holders;
mod json;
mod list;
mod one;
mod reap;
mod spaces;
mod told;
mod told_reaped;
mod told_spaces;

use axum::Router;
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::{get, post, put};
use tidegate::Result;
use tidegate::session::Answer;

pub(super) use self::spaces::Spaces;
use super::App;
use super::extract::Call;
use super::limits::Answered;
use super::problem::Problem;
use super::reply::json;

/// The routes. An id is a UUID, so none is called like one of the others.
pub(super) fn routes(router: Router<App>) -> Router<App> {
    router
        .route("/v1/sessions", get(spaces))
        .route("/v1/sessions/{space}", get(list::list).post(one::activate))
        .route("/v1/sessions/{space}/counts", get(list::counts))
        .route("/v1/sessions/{space}/dead", get(list::dead))
        .route("/v1/sessions/{space}/dead/{id}/retry", post(reap::retry))
        .route("/v1/sessions/{space}/claims", post(reap::claim))
        .route("/v1/sessions/{space}/claims/{id}", put(reap::renew))
        .route("/v1/sessions/{space}/acks", post(reap::ack))
        .route("/v1/sessions/{space}/cleanup", post(reap::cleanup))
        .route("/v1/sessions/{space}/broadcasters/{broadcaster}", get(one::find))
        .route("/v1/sessions/{space}/{id}", get(one::get).delete(one::delete))
        .route("/v1/sessions/{space}/{id}/value", put(one::update))
        .route(
            "/v1/sessions/{space}/{id}/holders/{holder}",
            put(holders::connect).delete(holders::disconnect),
        )
        .route("/v1/sessions/{space}/{id}/holders/{holder}/heartbeat", post(holders::heartbeat))
        // No router matches an empty name; it deserves a better answer than 404.
        .route("/v1/sessions/{space}/broadcasters/", get(no_broadcaster))
        .route("/v1/sessions/{space}/{id}/holders/", put(no_holder).delete(no_holder))
}

async fn spaces(call: Call) -> Answered {
    Ok(json(StatusCode::OK, &told_spaces::Spaces::of(call.app.sessions.all())))
}

async fn no_broadcaster(call: Call<String>) -> Answered {
    call.app.sessions(&call.path)?;
    Err(Problem::empty("a broadcaster"))
}

async fn no_holder(call: Call<(String, String)>) -> Answered {
    call.app.sessions(&call.path.0)?;
    Err(Problem::empty("a holder"))
}

/// What was asked for, or a problem, be it a refusal or that there is no answer.
fn granted<T>(answer: Result<Answer<T>>) -> std::result::Result<T, Problem> {
    answer?.map_err(Problem::refused)
}

fn ok(told: &impl serde::Serialize) -> Response {
    json(StatusCode::OK, told)
}
