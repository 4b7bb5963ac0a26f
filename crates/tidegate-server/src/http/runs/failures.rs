//! What failed: by run, by hour, and what is to be tried again.

use tidegate::run::RunFailure;

use super::path::{InAttempt, OfHour, OfRun};
use crate::api::key;
use crate::api::run_items::{Failure, FailureNoted, Failures, ItemFailed};
use crate::http::{Call, Json, JsonBody, PageQuery, Result, granted};

pub(super) async fn failed(
    call: Call<OfRun, InAttempt, JsonBody<ItemFailed<'static>>>,
) -> Result<Json<FailureNoted>> {
    let runs = &call.app.parts().runs.get(&call.path.space)?.runs;
    let run = call.path.key()?;
    let sent = call.body.parse()?;
    let (item, id) = (key("an item", &sent.item)?, key("an id", &sent.id)?);
    let noted = granted(runs.failed(run, call.query.attempt, item, &sent.reason, id).await)?;
    Ok(Json(FailureNoted::new(runs.space().as_str(), run.as_str().to_owned(), item.as_str(), noted)))
}

pub(super) async fn of_run(call: Call<OfRun, PageQuery>) -> Result<Json<Failures>> {
    let PageQuery { after, limit } = &call.query;
    let runs = &call.app.parts().runs.get(&call.path.space)?.runs;
    let found = granted(runs.failures(call.path.key()?, after.as_ref(), *limit).await)?;
    let row = |it| Failure::new(call.path.run.clone(), it);
    Ok(Json(Failures::new(runs.space().as_str(), found.items.into_iter().map(row).collect(), found.next)))
}

pub(super) async fn retry_list(call: Call<OfRun, PageQuery>) -> Result<Json<Failures>> {
    let PageQuery { after, limit } = &call.query;
    let runs = &call.app.parts().runs.get(&call.path.space)?.runs;
    let found = granted(runs.retry_list(call.path.key()?, after.as_ref(), *limit).await)?;
    let row = |it| Failure::new(call.path.run.clone(), it);
    Ok(Json(Failures::new(runs.space().as_str(), found.items.into_iter().map(row).collect(), found.next)))
}

pub(super) async fn of_hour(call: Call<OfHour, PageQuery>) -> Result<Json<Failures>> {
    let PageQuery { after, limit } = &call.query;
    let runs = &call.app.parts().runs.get(&call.path.space)?.runs;
    let found = runs.failures_in_hour(call.path.hour()?, after.as_ref(), *limit).await?;
    let row = |RunFailure { run, failure, .. }| Failure::new(run, failure);
    Ok(Json(Failures::new(runs.space().as_str(), found.items.into_iter().map(row).collect(), found.next)))
}
