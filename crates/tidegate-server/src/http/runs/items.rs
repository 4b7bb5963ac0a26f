//! Items: which are processed.

use super::path::{InAttempt, OfRun};
use crate::api::run_items::{IsProcessed, Items, Processed};
use crate::http::{Call, Json, JsonBody, NoQuery, Problem, granted};

pub(super) async fn processed(
    call: Call<OfRun, InAttempt, JsonBody<Items<'static>>>,
) -> Result<Json<Processed>, Problem> {
    let runs = &call.app.parts().runs.get(&call.path.space)?.runs;
    let run = call.path.key()?;
    let sent = call.body.parse()?;
    let noted = granted(runs.processed(run, call.query.0, &sent.keys()?).await)?;
    Ok(Json(Processed::new(runs.space().as_str(), run.as_str().to_owned(), &noted)))
}

pub(super) async fn is_processed(
    call: Call<OfRun, NoQuery, JsonBody<Items<'static>>>,
) -> Result<Json<IsProcessed>, Problem> {
    let runs = &call.app.parts().runs.get(&call.path.space)?.runs;
    let run = call.path.key()?;
    let sent = call.body.parse()?;
    let processed = granted(runs.is_processed(run, &sent.keys()?).await)?;
    Ok(Json(IsProcessed::new(runs.space().as_str(), run.as_str().to_owned(), processed)))
}
