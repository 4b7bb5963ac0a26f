//! What failed: by run, by hour, and what is to be tried again.

use tidegate::Page;
use tidegate::run::RunFailure;

use super::granted;
use super::list::PageQuery;
use super::path::{InAttempt, OfHour, OfRun};
use crate::api::key;
use crate::api::run_items::{Failure, FailureNoted, Failures, ItemFailed};
use crate::http::answer::Json;
use crate::http::call::{Call, JsonBody};
use crate::http::problem::Problem;

pub(super) async fn failed(
    call: Call<OfRun, InAttempt, JsonBody<ItemFailed<'static>>>,
) -> Result<Json<FailureNoted>, Problem> {
    let runs = &call.app.parts().runs.get(&call.path.space)?.runs;
    let run = call.path.key()?;
    let sent = call.body.parse()?;
    let (item, id) = (key("an item", &sent.item)?, key("an id", &sent.id)?);
    let noted = granted(runs.failed(run, call.query.0, item, &sent.reason, id).await)?;
    Ok(Json(FailureNoted {
        space: runs.space().as_str().to_owned(),
        run: run.as_str().to_owned(),
        item: item.as_str().to_owned(),
        count: noted.count,
        is_new: noted.is_new,
        dropped: noted.dropped,
    }))
}

pub(super) async fn of_run(call: Call<OfRun, PageQuery>) -> Result<Json<Failures>, Problem> {
    let PageQuery { after, limit } = &call.query;
    let runs = &call.app.parts().runs.get(&call.path.space)?.runs;
    let found = granted(runs.failures(call.path.key()?, after.as_ref(), *limit).await)?;
    Ok(Json(failures(runs.space().as_str(), found, |it| Failure::new(call.path.run.clone(), it))))
}

pub(super) async fn retry_list(call: Call<OfRun, PageQuery>) -> Result<Json<Failures>, Problem> {
    let PageQuery { after, limit } = &call.query;
    let runs = &call.app.parts().runs.get(&call.path.space)?.runs;
    let found = granted(runs.retry_list(call.path.key()?, after.as_ref(), *limit).await)?;
    Ok(Json(failures(runs.space().as_str(), found, |it| Failure::new(call.path.run.clone(), it))))
}

pub(super) async fn of_hour(call: Call<OfHour, PageQuery>) -> Result<Json<Failures>, Problem> {
    let PageQuery { after, limit } = &call.query;
    let runs = &call.app.parts().runs.get(&call.path.space)?.runs;
    let found = runs.failures_in_hour(call.path.hour()?, after.as_ref(), *limit).await?;
    let row = |RunFailure { run, failure, .. }| Failure::new(run, failure);
    Ok(Json(failures(runs.space().as_str(), found, row)))
}

fn failures<T>(space: &str, page: Page<T>, row: impl Fn(T) -> Failure) -> Failures {
    let Page { items, next } = page;
    let failures = items.into_iter().map(row).collect();
    Failures { space: space.to_owned(), failures, next: next.map(|next| next.to_string()) }
}
