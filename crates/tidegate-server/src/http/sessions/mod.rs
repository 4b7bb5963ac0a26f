//! Sessions: a file each for one of them and who holds it ([`one`]), many of
//! them ([`list`]), and what becomes of those that were left behind ([`reap`]).

pub(crate) mod api;
pub(crate) mod api_reap;
mod list;
mod one;
mod path;
mod reap;
mod refusal;
mod settings;

use axum::{Router, routing};

use super::{App, Call, ON_STORE, OfSpace, Operation, Problem, Result, Routes, delete, get, post, put};

pub(super) const ROUTES: Routes = Routes { part: "sessions", operations, empty_names, problems: ON_STORE };

/// The operations. An id is a UUID, so none is called like one of the others.
fn operations() -> Vec<Operation> {
    vec![
        post("/v1/sessions/{space}", "session_activate", one::activate)
            .summary("The session of a broadcaster, active")
            .example(r#"{"broadcaster":"channel_7","config":{"theme":"dark"},"holder":"browser-1"}"#)
            .refuses(refusal::REFUSALS),
        get("/v1/sessions/{space}", "session_list", list::list)
            .summary("Sessions by state or age, page by page")
            .example("?state=disconnected&limit=100"),
        get("/v1/sessions/{space}/counts", "session_counts", list::counts).summary("How many there are"),
        get("/v1/sessions/{space}/{id}", "session_get", one::get)
            .summary("One session")
            .refuses(refusal::IF_GONE),
        delete("/v1/sessions/{space}/{id}", "session_delete", one::delete)
            .summary("Delete a session that nobody holds")
            .refuses(refusal::REFUSALS)
            .admin(),
        put("/v1/sessions/{space}/{id}/value", "session_update", one::update)
            .summary("Set the value of a session")
            .example(r#"{"value":{"score":7}}"#)
            .refuses(refusal::REFUSALS),
        put("/v1/sessions/{space}/{id}/holders/{holder}", "session_connect", one::connect)
            .summary("Hold a session")
            .example("?resume=true")
            .refuses(refusal::REFUSALS),
        post("/v1/sessions/{space}/{id}/holders/{holder}/heartbeat", "session_heartbeat", one::heartbeat)
            .summary("Go on holding it")
            .refuses(refusal::REFUSALS),
        delete("/v1/sessions/{space}/{id}/holders/{holder}", "session_disconnect", one::disconnect)
            .summary("Hold it no longer")
            .refuses(refusal::REFUSALS),
        get("/v1/sessions/{space}/broadcasters/{broadcaster}", "session_find", one::find)
            .summary("The session that a broadcaster last activated")
            .refuses(refusal::IF_GONE),
        post("/v1/sessions/{space}/claims", "session_claim", reap::claim)
            .summary("Claim orphans, to run what must happen for each")
            .example(r#"{"limit":100}"#),
        put("/v1/sessions/{space}/claims/{id}", "session_renew", reap::renew)
            .summary("Keep a claim")
            .example("?generation=1&attempt=1")
            .refuses(refusal::REFUSALS),
        post("/v1/sessions/{space}/acks", "session_ack", reap::ack)
            .summary("Say that it has happened: they are deleted")
            .example(r#"{"acks":[{"id":"...","generation":1}]}"#),
        post("/v1/sessions/{space}/cleanup", "session_cleanup", reap::cleanup)
            .summary("Delete orphans, where nothing must happen for them")
            .admin(),
        get("/v1/sessions/{space}/dead", "session_dead", list::dead)
            .summary("Those whose claims ended too often, page by page"),
        post("/v1/sessions/{space}/dead/{id}/retry", "session_retry", reap::retry)
            .summary("Have one of them claimed again")
            .refuses(refusal::REFUSALS)
            .admin(),
        get("/v1/sessions", "session_spaces", list::spaces).summary("The spaces and how their sessions live"),
    ]
}

fn empty_names(router: Router<App>) -> Router<App> {
    router
        .route("/v1/sessions/{space}/broadcasters/", routing::get(no_broadcaster))
        .route("/v1/sessions/{space}/{id}/holders/", routing::put(no_holder).delete(no_holder))
}

async fn no_broadcaster(call: Call<OfSpace>) -> Result<()> {
    call.app.parts().sessions.get(&call.path.space)?;
    Err(Problem::empty("a broadcaster"))
}

async fn no_holder(call: Call<path::OfSession>) -> Result<()> {
    call.app.parts().sessions.get(&call.path.space)?;
    Err(Problem::empty("a holder"))
}
