//! The rules of redirects: a file each for one of them ([`one`]), many of them ([`list`], [`bulk`]), lists of them
//! ([`import`], [`export`]), and which of them answers a request ([`resolve`]).
//!
//! Their members have the names that they have in the database and in its stream of changes, `startsAt` and not
//! `starts_at`, so that one form of a rule goes everywhere.

pub(crate) mod api;
pub(crate) mod api_bulk;
pub(crate) mod api_import;
pub(crate) mod api_worker;
mod bulk;
mod changes;
mod condition;
mod export;
mod feed;
mod file;
mod import;
mod list;
mod one;
pub(crate) mod path;
mod refusal;
mod resolve;
mod settings;
mod snapshot;
mod workers;

use axum::{Router, routing};

use self::condition::{CONDITIONS, IF_MATCH};
use self::path::NO_ID;
use self::settings::OpenRules;
use super::{App, Call, Operation, Problem, Result, Routes, TimeClass, delete, get, patch, post, put};

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
        post("/v1/rules/import", "rule_import", import::import)
            .summary("Import a list of redirects, ours or somebody else's, as one change or not at all")
            .example("?format=csv&dry_run=true")
            .takes(TimeClass::Bulk)
            .refuses(refusal::OF_IMPORT),
        get("/v1/rules/export", "rule_export", export::export)
            .summary("All rules with all they have, as a list that is imported as it is")
            .example("?format=jsonl")
            .takes(TimeClass::Long)
            .refuses(refusal::OF_WRITE),
        get("/v1/rules/resolve", "rule_resolve", resolve::resolve)
            .summary("Which rule answers a request, and what it is answered")
            .example("?host=www.example.com&path=/docs/start"),
        get("/v1/rules/position", "rule_position", resolve::position)
            .summary("Where the rules stand: the last change, how many there are, their digest"),
        get("/v1/rules/changes", "rule_changes", changes::changes)
            .summary("Every change, as server-sent events")
            .takes(TimeClass::Endless),
        get("/v1/rules/snapshot", "rule_snapshot", snapshot::snapshot)
            .summary("All rules at one place of the log, as lines")
            .example("?fields=keys")
            .takes(TimeClass::Long)
            .refuses(refusal::OF_WRITE),
        get("/v1/rules/{id}/clicks", "rule_clicks", workers::clicks)
            .summary("How often a rule has redirected, and per day")
            .refuses(refusal::IF_UNKNOWN),
        get("/v1/workers", "worker_list", workers::list)
            .summary("Who follows this server's changes, how far each is, and who went silent"),
        put("/v1/workers/{worker}/applied", "worker_applied", workers::applied)
            .summary("Say how far a worker is")
            .example(r#"{"seq":4711}"#),
        put("/v1/workers/{worker}/blocks/{number}", "worker_block", workers::ask)
            .summary("Permits of a rule with so many clicks; asked for twice by one number they are the same")
            .example(r#"{"rule":"spring","wanted":50}"#)
            .refuses(refusal::OF_BLOCK),
        post("/v1/workers/{worker}/blocks/{number}/return", "worker_return", workers::give_back)
            .summary("Give a block back; sent twice it is counted once")
            .example(r#"{"spent":12}"#)
            .refuses(refusal::OF_RETURN),
        put("/v1/workers/{worker}/clicks/{number}", "worker_clicks", workers::report)
            .summary("Count clicks of rules without a bound; sent twice by one number they are counted once")
            .example(r#"{"clicks":{"manual":3}}"#)
            .refuses(refusal::OF_WRITE),
        post("/v1/rules/new_epoch", "rule_new_epoch", resolve::new_epoch)
            .summary("Say that the database may have gone back: all who follow begin anew")
            .refuses(refusal::OF_WRITE)
            .admin(),
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

async fn no_id(call: Call) -> Result<()> {
    open(&call.app)?;
    Err(Problem::invalid(NO_ID.to_owned()))
}

/// The rules, if this server has any.
fn open(app: &App) -> Result<&OpenRules> {
    app.parts().rules.as_ref().ok_or_else(refusal::no_rules)
}
