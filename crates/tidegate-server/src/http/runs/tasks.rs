//! The tasks of a run: when they began, and how long they took.

use super::api_items::ms;
use super::granted;
use super::path::{InAttempt, OfRun, OfTask};
use crate::api::run_items::{TaskFinished, TaskStarted, Tasks};
use crate::http::answer::{Json, Made};
use crate::http::call::{Call, EmptyBody};
use crate::http::problem::Problem;

pub(super) async fn started(call: Call<OfTask, InAttempt, EmptyBody>) -> Result<Made<TaskStarted>, Problem> {
    let runs = &call.app.parts().runs.get(&call.path.space)?.runs;
    let (run, task) = (call.path.key()?, call.path.task()?);
    call.body.parse()?;
    let started = granted(runs.task_started(run, call.query.0, task).await)?;
    let (is_new, started_at_ms) = (started.is_new, started.started_at.as_millis());
    let space = runs.space().as_str().to_owned();
    let OfTask { run, task, .. } = call.path;
    Ok(Made { is_new, value: TaskStarted { space, run, task, started_at_ms, is_new } })
}

pub(super) async fn finished(
    call: Call<OfTask, InAttempt, EmptyBody>,
) -> Result<Json<TaskFinished>, Problem> {
    let runs = &call.app.parts().runs.get(&call.path.space)?.runs;
    let (run, task) = (call.path.key()?, call.path.task()?);
    call.body.parse()?;
    let duration_ms = ms(granted(runs.task_finished(run, call.query.0, task).await)?);
    let space = runs.space().as_str().to_owned();
    let OfTask { run, task, .. } = call.path;
    Ok(Json(TaskFinished { space, run, task, duration_ms }))
}

pub(super) async fn list(call: Call<OfRun>) -> Result<Json<Tasks>, Problem> {
    let runs = &call.app.parts().runs.get(&call.path.space)?.runs;
    let tasks = granted(runs.tasks(call.path.key()?).await)?;
    let tasks = tasks.into_iter().map(Into::into).collect();
    Ok(Json(Tasks { space: runs.space().as_str().to_owned(), run: call.path.run, tasks }))
}
