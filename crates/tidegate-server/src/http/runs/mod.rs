//! Runs of pipelines: a file each for one of them ([`one`]), what it has done ([`items`]), its
//! tasks ([`tasks`]), what failed ([`failures`]), what may be called ([`quota`]), and many of them ([`list`]).

pub(crate) mod api;
pub(crate) mod api_items;
pub(crate) mod api_quota;
mod failures;
mod items;
mod list;
mod one;
mod path;
mod quota;
mod refusal;
mod settings;
mod tasks;

use axum::{Router, routing};

use super::{App, Call, Kind, ON_STORE, OfSpace, Operation, Problem, Result, Routes, delete, get, post, put};

pub(super) const ROUTES: Routes = Routes { part: "runs", operations, empty_names, problems: ON_STORE };

/// The operations.
fn operations() -> Vec<Operation> {
    vec![
        put("/v1/runs/{space}/runs/{run}", "run_start", one::start)
            .summary("Start a run; one that is live goes on")
            .refuses(refusal::OF_START),
        get("/v1/runs/{space}/runs/{run}", "run_get", one::get)
            .summary("One run")
            .refuses(refusal::IF_UNKNOWN),
        post("/v1/runs/{space}/runs/{run}/update", "run_update", one::update)
            .summary("Set the state of a live run, its fields, its total")
            .example(r#"{"state":"processing","fields":{"stage":"download"},"total":5000}"#)
            .refuses(refusal::OF_UPDATE),
        post("/v1/runs/{space}/runs/{run}/finish", "run_finish", one::finish)
            .summary("End a run; sent twice it ends once")
            .example(r#"{"state":"succeeded"}"#)
            .refuses(refusal::OF_CHANGE),
        post("/v1/runs/{space}/runs/{run}/retry", "run_retry", one::retry)
            .summary("Begin another attempt of a run that has ended")
            .example(r#"{"from_attempt":1}"#)
            .refuses(refusal::OF_RETRY),
        post("/v1/runs/{space}/runs/{run}/expire", "run_expire", one::expire)
            .summary("Shorten the life of a run")
            .example(r#"{"lasting":"1h"}"#)
            .refuses(refusal::OF_ANY)
            .admin(),
        delete("/v1/runs/{space}/runs/{run}", "run_delete", one::delete)
            .summary("Delete a run; its next start is another attempt")
            .refuses(refusal::OF_ANY)
            .admin(),
        get("/v1/runs/{space}/runs/{run}/progress", "run_progress", one::progress)
            .summary("How far a run is")
            .refuses(refusal::IF_UNKNOWN),
        post("/v1/runs/{space}/runs/{run}/processed", "run_processed", items::processed)
            .summary("Note items as processed; sent twice they are counted once")
            .example(r#"{"items":["12345","12346"]}"#)
            .refuses(refusal::OF_PROCESSED),
        post("/v1/runs/{space}/runs/{run}/is_processed", "run_is_processed", items::is_processed)
            .summary("Which of these items are processed")
            .example(r#"{"items":["12345","12346"]}"#)
            .refuses(refusal::IF_UNKNOWN),
        put("/v1/runs/{space}/runs/{run}/tasks/{task}", "run_task_started", tasks::started)
            .summary("Say that a task has started")
            .refuses(refusal::OF_TASK_STARTED),
        post("/v1/runs/{space}/runs/{run}/tasks/{task}/finish", "run_task_finished", tasks::finished)
            .summary("Say that a task is finished: how long it took")
            .refuses(refusal::OF_TASK_FINISHED),
        get("/v1/runs/{space}/runs/{run}/tasks", "run_tasks", tasks::list)
            .summary("The tasks of a run")
            .refuses(refusal::IF_UNKNOWN),
        post("/v1/runs/{space}/runs/{run}/failures", "run_failed", failures::failed)
            .summary("Note that an item failed; sent twice by one id it counts once")
            .example(r#"{"item":"12345","reason":"timeout","id":"worker-1:88"}"#)
            .refuses(refusal::OF_CHANGE),
        get("/v1/runs/{space}/runs/{run}/failures", "run_failures", failures::of_run)
            .summary("What failed in a run, the latest first, page by page")
            .example("?limit=100")
            .refuses(refusal::IF_UNKNOWN),
        get("/v1/runs/{space}/runs/{run}/retry_list", "run_retry_list", failures::retry_list)
            .summary("Items that failed and were not processed since, page by page")
            .example("?limit=100")
            .refuses(refusal::IF_UNKNOWN),
        get("/v1/runs/{space}/failures/{hour}", "run_failures_of_hour", failures::of_hour)
            .summary("What failed in an hour, in all runs, page by page"),
        get("/v1/runs/{space}/quota", "run_quota", quota::get)
            .summary("What is left of the quota, when there is more, and the most of each hour"),
        put("/v1/runs/{space}/quota/charges/{id}", "run_charge", quota::charge)
            .summary("Charge calls to the quota; sent twice by one id they are charged once")
            .example(r#"{"cost":1}"#)
            .refuses(&[quota::EXCEEDED, quota::RELEASED, Kind::CONFLICT]),
        delete("/v1/runs/{space}/quota/charges/{id}", "run_release", quota::release)
            .summary("Give back what was charged by an id")
            .refuses(&[quota::UNKNOWN_CHARGE, Kind::CONFLICT]),
        get("/v1/runs/{space}", "run_list", list::list)
            .summary("Runs, the newest first, page by page")
            .example("?state=running&limit=100"),
        post("/v1/runs/{space}/cleanup", "run_cleanup", list::cleanup)
            .summary("Remove runs that are over, now")
            .admin(),
        get("/v1/runs", "run_spaces", list::spaces).summary("The spaces and how their runs live"),
    ]
}

fn empty_names(router: Router<App>) -> Router<App> {
    router
        .route("/v1/runs/{space}/runs/", routing::get(no_run).put(no_run).delete(no_run))
        .route("/v1/runs/{space}/runs/{run}/tasks/", routing::put(no_task))
}

async fn no_run(call: Call<OfSpace>) -> Result<()> {
    call.app.parts().runs.get(&call.path.space)?;
    Err(Problem::empty("a run"))
}

async fn no_task(call: Call<path::OfRun>) -> Result<()> {
    call.app.parts().runs.get(&call.path.space)?;
    Err(Problem::empty("a task"))
}
