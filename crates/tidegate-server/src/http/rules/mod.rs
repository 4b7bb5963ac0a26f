//! The rules of redirects: a file each for one of them ([`one`]), many of them ([`list`], [`bulk`]), and which of them
//! answers a request ([`resolve`]).
//!
//! Their members have the names that they have in the database and in its stream of changes, `startsAt` and not
//! `starts_at`, so that one form of a rule goes everywhere.

pub(crate) mod api;
pub(crate) mod api_bulk;
mod bulk;
mod condition;
mod list;
mod one;
pub(crate) mod path;
mod refusal;
mod resolve;
mod settings;

use axum::{Router, routing};

use self::condition::{CONDITIONS, IF_MATCH};
use self::path::NO_ID;
use self::settings::OpenRules;
use super::{App, Call, Operation, Problem, Routes, delete, get, patch, post, put};

pub(super) const ROUTES: Routes =
    Routes { part: "rules", operations, empty_names, problems: refusal::OF_DATABASE };

/// The operations.
fn operations() -> Vec<Operation> {
    vec![
        post("/v1/rules", "rule_create", one::create)
            .summary("Make a rule, with an id and a path made here unless given; sent twice by its id it is made once")
            .example(r#"{"id":"manual","path":"/docs/*","destination":"https://example.com/manual"}"#)
            .refuses(refusal::OF_CREATE),
        get("/v1/rules", "rule_list", list::list)
            .summary("Rules by path, host, tag, destination or state, page by page")
            .example("?path=/docs/&limit=100"),
        post("/v1/rules/bulk", "rule_bulk", bulk::bulk)
            .summary("Make, replace and delete many rules; what became of each")
            .example(r#"[{"upsert":{"id":"a","path":"/a","destination":"/b"}},{"delete":"c"}]"#)
            .refuses(refusal::OF_WRITE),
        get("/v1/rules/resolve", "rule_resolve", resolve::resolve)
            .summary("Which rule answers a request, and what it is answered")
            .example("?host=www.example.com&path=/docs/start"),
        get("/v1/rules/position", "rule_position", resolve::position)
            .summary("Where the rules stand: the last change, how many there are, their digest"),
        get("/v1/rules/{id}", "rule_get", one::get).summary("One rule").refuses(refusal::IF_UNKNOWN),
        put("/v1/rules/{id}", "rule_replace", one::replace)
            .summary("Make a rule, or replace all of it")
            .example(r#"{"path":"/docs/*","destination":"https://example.com/manual"}"#)
            .headers(CONDITIONS)
            .refuses(refusal::OF_REPLACE),
        patch("/v1/rules/{id}", "rule_patch", one::patch)
            .summary("Change some of a rule; null takes a member away")
            .example(r#"{"destination":"https://example.com/other","expiresAt":null}"#)
            .headers(IF_MATCH)
            .refuses(refusal::OF_PATCH),
        delete("/v1/rules/{id}", "rule_delete", one::delete)
            .summary("Delete a rule")
            .headers(IF_MATCH)
            .refuses(refusal::OF_DELETE),
    ]
}

fn empty_names(router: Router<App>) -> Router<App> {
    router.route("/v1/rules/", routing::get(no_id).put(no_id).patch(no_id).delete(no_id))
}

async fn no_id(call: Call) -> Result<(), Problem> {
    open(&call.app)?;
    Err(Problem::invalid(NO_ID.to_owned()))
}

/// The rules, if this server has any.
fn open(app: &App) -> Result<&OpenRules, Problem> {
    app.parts().rules.as_ref().ok_or_else(refusal::no_rules)
}
