//! Items: which are processed.

use super::path::{InAttempt, OfRun};
use crate::api::run_items::{IsProcessed, Items, Processed};
use crate::http::{Call, Json, JsonBody, Result, Sent, granted};

pub(super) async fn processed(
    call: Call<OfRun, InAttempt, JsonBody<Items<'static>>>,
) -> Result<Json<Processed>> {
    let runs = &call.app.parts().runs.get(&call.path.space)?.runs;
    let run = call.path.key()?;
    let sent = call.body.parse()?;
    let noted = granted(runs.processed(run, call.query.attempt, &sent.keys()?).await)?;
    Ok(Json(Processed::new(runs.space().as_str(), run.as_str().to_owned(), &noted)))
}

pub(super) async fn is_processed(call: Sent<Items<'static>, OfRun>) -> Result<Json<IsProcessed>> {
    let runs = &call.app.parts().runs.get(&call.path.space)?.runs;
    let run = call.path.key()?;
    let sent = call.body.parse()?;
    let processed = granted(runs.is_processed(run, &sent.keys()?).await)?;
    Ok(Json(IsProcessed::new(runs.space().as_str(), run.as_str().to_owned(), processed)))
}
