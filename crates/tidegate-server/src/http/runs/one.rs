//! One run: started, updated, ended, retried, deleted, and how far it is.

use tidegate::run::{Finished, Refusal, Started};

use super::path::{InAttempt, OfRun};
use crate::api::lasting;
use crate::api::run::{Changed, Expire, Expires, Finish, One, Retry, Update, Updated, attempt};
use crate::api::run_items::Progress;
use crate::http::{Call, EmptyBody, Json, JsonBody, Made, NoContent, NoQuery, Result, Sent, granted};

pub(super) async fn start(call: Call<OfRun, NoQuery, EmptyBody>) -> Result<Made<Changed>> {
    let runs = &call.app.parts().runs.get(&call.path.space)?.runs;
    let run = call.path.key()?;
    call.body.parse()?;
    let started = granted(runs.start(run).await)?;
    Ok(made(runs.space().as_str(), call.path.run, started))
}

pub(super) async fn retry(call: Sent<Retry, OfRun>) -> Result<Made<Changed>> {
    let runs = &call.app.parts().runs.get(&call.path.space)?.runs;
    let run = call.path.key()?;
    let from = attempt(call.body.parse()?.from_attempt)?;
    let started = granted(runs.retry(run, from).await)?;
    Ok(made(runs.space().as_str(), call.path.run, started))
}

fn made(space: &str, run: String, started: Started) -> Made<Changed> {
    let Started { attempt, state, is_new, .. } = started;
    Made { is_new, value: Changed::new(space, run, attempt, state, is_new) }
}

pub(super) async fn get(call: Call<OfRun>) -> Result<Json<One>> {
    let runs = &call.app.parts().runs.get(&call.path.space)?.runs;
    let found = runs.get(call.path.key()?).await?.ok_or(Refusal::Unknown)?;
    Ok(Json(One::new(runs.space().as_str(), found)))
}

pub(super) async fn update(call: Call<OfRun, InAttempt, JsonBody<Update>>) -> Result<Json<Updated>> {
    let runs = &call.app.parts().runs.get(&call.path.space)?.runs;
    let run = call.path.key()?;
    let update = call.body.parse()?.into_update();
    let updated = granted(runs.update(run, call.query.attempt, &update).await)?;
    Ok(Json(Updated::new(runs.space().as_str(), call.path.run, &updated)))
}

pub(super) async fn expire(call: Call<OfRun, InAttempt, JsonBody<Expire<'static>>>) -> Result<Json<Expires>> {
    let runs = &call.app.parts().runs.get(&call.path.space)?.runs;
    let run = call.path.key()?;
    let sent = call.body.parse()?;
    let after = lasting(sent.lasting_ms, sent.lasting.as_deref())?;
    let ends_at = granted(runs.expire(run, call.query.attempt, after).await)?;
    Ok(Json(Expires::new(runs.space().as_str(), run.as_str().to_owned(), ends_at)))
}

pub(super) async fn finish(call: Call<OfRun, InAttempt, JsonBody<Finish>>) -> Result<Json<Changed>> {
    let runs = &call.app.parts().runs.get(&call.path.space)?.runs;
    let run = call.path.key()?;
    let state = call.body.parse()?.state()?;
    let Finished { attempt, state, is_new, .. } = granted(runs.finish(run, call.query.attempt, state).await)?;
    Ok(Json(Changed::new(runs.space().as_str(), call.path.run, attempt, state, is_new)))
}

pub(super) async fn delete(call: Call<OfRun, InAttempt>) -> Result<NoContent> {
    let runs = &call.app.parts().runs.get(&call.path.space)?.runs;
    granted(runs.delete(call.path.key()?, call.query.attempt).await)?;
    Ok(NoContent)
}

pub(super) async fn progress(call: Call<OfRun>) -> Result<Json<Progress>> {
    let runs = &call.app.parts().runs.get(&call.path.space)?.runs;
    let progress = granted(runs.progress(call.path.key()?).await)?;
    Ok(Json(Progress::new(runs.space().as_str(), call.path.run, &progress)))
}
