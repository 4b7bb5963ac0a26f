//! Sessions: a file each for one of them ([`one`]), who holds it ([`holders`]), many of
//! them ([`list`]), and what becomes of those that were left behind ([`reap`]).

pub(crate) mod api;
pub(crate) mod api_reap;
mod holders;
mod list;
mod one;
mod path;
mod reap;

use axum::Router;
use axum::http::Method;
use axum::routing::{get, put};
use tidegate::Result;
use tidegate::session::Answer;

use super::App;
use super::call::{Call, OfSpace};
use super::operation::{Operation, Routes};
use super::problem::{Kind, Problem};

pub(super) const ROUTES: Routes = Routes { part: "sessions", operations, empty_names };

/// The operations. An id is a UUID, so none is called like one of the others.
fn operations() -> Vec<Operation> {
    vec![
        Operation::new(Method::POST, "/v1/sessions/{space}", "session_activate", one::activate)
            .summary("The session of a broadcaster, active")
            .example(r#"{"broadcaster":"channel_7","config":{"theme":"dark"},"holder":"browser-1"}"#)
            .refuses(REFUSALS),
        Operation::new(Method::GET, "/v1/sessions/{space}", "session_list", list::list)
            .summary("Sessions by state or age, page by page")
            .example("?state=disconnected&limit=100")
            .refuses(UNKNOWN),
        Operation::new(Method::GET, "/v1/sessions/{space}/counts", "session_counts", list::counts)
            .summary("How many there are")
            .refuses(UNKNOWN),
        Operation::new(Method::GET, "/v1/sessions/{space}/{id}", "session_get", one::get)
            .summary("One session")
            .refuses(GONE),
        Operation::new(Method::DELETE, "/v1/sessions/{space}/{id}", "session_delete", one::delete)
            .summary("Delete a session that nobody holds")
            .refuses(REFUSALS)
            .admin(),
        Operation::new(Method::PUT, "/v1/sessions/{space}/{id}/value", "session_update", one::update)
            .summary("Set the value of a session")
            .example(r#"{"value":{"score":7}}"#)
            .refuses(REFUSALS),
        Operation::new(
            Method::PUT,
            "/v1/sessions/{space}/{id}/holders/{holder}",
            "session_connect",
            holders::connect,
        )
        .summary("Hold a session")
        .example("?resume=true")
        .refuses(REFUSALS),
        Operation::new(
            Method::POST,
            "/v1/sessions/{space}/{id}/holders/{holder}/heartbeat",
            "session_heartbeat",
            holders::heartbeat,
        )
        .summary("Go on holding it")
        .refuses(REFUSALS),
        Operation::new(
            Method::DELETE,
            "/v1/sessions/{space}/{id}/holders/{holder}",
            "session_disconnect",
            holders::disconnect,
        )
        .summary("Hold it no longer")
        .refuses(REFUSALS),
        Operation::new(
            Method::GET,
            "/v1/sessions/{space}/broadcasters/{broadcaster}",
            "session_find",
            one::find,
        )
        .summary("The session that a broadcaster last activated")
        .refuses(GONE),
        Operation::new(Method::POST, "/v1/sessions/{space}/claims", "session_claim", reap::claim)
            .summary("Claim orphans, to run what must happen for each")
            .example(r#"{"limit":100}"#)
            .refuses(UNKNOWN),
        Operation::new(Method::PUT, "/v1/sessions/{space}/claims/{id}", "session_renew", reap::renew)
            .summary("Keep a claim")
            .example("?generation=1&attempt=1")
            .refuses(REFUSALS),
        Operation::new(Method::POST, "/v1/sessions/{space}/acks", "session_ack", reap::ack)
            .summary("Say that it has happened: they are deleted")
            .example(r#"{"acks":[{"id":"...","generation":1}]}"#)
            .refuses(UNKNOWN),
        Operation::new(Method::POST, "/v1/sessions/{space}/cleanup", "session_cleanup", reap::cleanup)
            .summary("Delete orphans, where nothing must happen for them")
            .refuses(UNKNOWN)
            .admin(),
        Operation::new(Method::GET, "/v1/sessions/{space}/dead", "session_dead", list::dead)
            .summary("Those whose claims ended too often, page by page")
            .refuses(UNKNOWN),
        Operation::new(Method::POST, "/v1/sessions/{space}/dead/{id}/retry", "session_retry", reap::retry)
            .summary("Have one of them claimed again")
            .refuses(REFUSALS)
            .admin(),
        Operation::new(Method::GET, "/v1/sessions", "session_spaces", list::spaces)
            .summary("The spaces and how their sessions live"),
    ]
}

const UNKNOWN: &[Kind] = &[Kind::UNKNOWN_SPACE];
const GONE: &[Kind] = &[Kind::UNKNOWN_SPACE, Kind::SESSION_GONE];
const REFUSALS: &[Kind] = &[
    Kind::UNKNOWN_SPACE,
    Kind::SESSION_GONE,
    Kind::SESSION_REAPING,
    Kind::SESSION_ACTIVE,
    Kind::SESSION_DISCONNECTED,
    Kind::SESSION_LAPSED,
    Kind::SESSION_STALE,
    Kind::SESSION_NOT_CLAIMED,
    Kind::TOO_MANY_HOLDERS,
    Kind::TOO_MANY_SESSIONS,
];

fn empty_names(router: Router<App>) -> Router<App> {
    router
        .route("/v1/sessions/{space}/broadcasters/", get(no_broadcaster))
        .route("/v1/sessions/{space}/{id}/holders/", put(no_holder).delete(no_holder))
}

async fn no_broadcaster(call: Call<OfSpace>) -> std::result::Result<(), Problem> {
    call.app.parts().sessions.get(&call.path.space)?;
    Err(Problem::empty("a broadcaster"))
}

async fn no_holder(call: Call<path::OfSession>) -> std::result::Result<(), Problem> {
    call.app.parts().sessions.get(&call.path.space)?;
    Err(Problem::empty("a holder"))
}

/// What was requested, or a problem, be it a refusal or that there is no answer.
fn granted<T>(answer: Result<Answer<T>>) -> std::result::Result<T, Problem> {
    answer?.into_result().map_err(Problem::refused)
}
