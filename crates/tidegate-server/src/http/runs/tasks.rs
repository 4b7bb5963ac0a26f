//! The tasks of a run: when they began, and how long they took.

use super::path::{InAttempt, OfRun, OfTask};
use crate::api::run_items::{TaskFinished, TaskStarted, Tasks};
use crate::http::{Call, EmptyBody, Json, Made, Result, granted};

pub(super) async fn started(call: Call<OfTask, InAttempt, EmptyBody>) -> Result<Made<TaskStarted>> {
    let runs = &call.app.parts().runs.get(&call.path.space)?.runs;
    let (run, task) = (call.path.key()?, call.path.task()?);
    call.body.parse()?;
    let started = granted(runs.task_started(run, call.query.attempt, task).await)?;
    let OfTask { run, task, .. } = call.path;
    let value = TaskStarted::new(runs.space().as_str(), run, task, &started);
    Ok(Made { is_new: started.is_new, value })
}

pub(super) async fn finished(call: Call<OfTask, InAttempt, EmptyBody>) -> Result<Json<TaskFinished>> {
    let runs = &call.app.parts().runs.get(&call.path.space)?.runs;
    let (run, task) = (call.path.key()?, call.path.task()?);
    call.body.parse()?;
    let duration = granted(runs.task_finished(run, call.query.attempt, task).await)?;
    let OfTask { run, task, .. } = call.path;
    Ok(Json(TaskFinished::new(runs.space().as_str(), run, task, duration)))
}

pub(super) async fn list(call: Call<OfRun>) -> Result<Json<Tasks>> {
    let runs = &call.app.parts().runs.get(&call.path.space)?.runs;
    let tasks = granted(runs.tasks(call.path.key()?).await)?;
    Ok(Json(Tasks::new(runs.space().as_str(), call.path.run, tasks)))
}
