//! Items: which are processed.

use axum::body::Body;
use axum::http::HeaderMap;
use schemars::SchemaGenerator;

use super::granted;
use super::path::{InAttempt, OfRun};
use crate::api::run_items::{IsProcessed, Items, Processed};
use crate::http::answer::Json;
use crate::http::call::{Call, FromBody, JsonBody};
use crate::http::parameter::NoQuery;
use crate::http::problem::Problem;
use crate::http::shape::BodyShape;

/// As many items as are allowed at once, of the longest that are, are no more bytes than this
/// unless most of them have to be escaped.
const MAX_BODY_BYTES: usize = 4 << 20;

/// Many items, in a body that may be longer than others.
pub(crate) struct ItemsBody(JsonBody<Items<'static>>);

impl FromBody for ItemsBody {
    async fn read(headers: &HeaderMap, sent: Body, max_bytes: usize) -> Result<Self, Problem> {
        JsonBody::read(headers, sent, max_bytes.max(MAX_BODY_BYTES)).await.map(Self)
    }

    fn shape(schemas: &mut SchemaGenerator) -> Option<BodyShape> {
        JsonBody::<Items<'static>>::shape(schemas)
    }
}

pub(super) async fn processed(call: Call<OfRun, InAttempt, ItemsBody>) -> Result<Json<Processed>, Problem> {
    let runs = &call.app.parts().runs.get(&call.path.space)?.runs;
    let run = call.path.key()?;
    let sent = call.body.0.parse()?;
    let noted = granted(runs.processed(run, call.query.0, &sent.keys()?).await)?;
    let (new, processed) = (noted.new, noted.processed);
    let space = runs.space().as_str().to_owned();
    Ok(Json(Processed { space, run: run.as_str().to_owned(), new, processed }))
}

pub(super) async fn is_processed(
    call: Call<OfRun, NoQuery, ItemsBody>,
) -> Result<Json<IsProcessed>, Problem> {
    let runs = &call.app.parts().runs.get(&call.path.space)?.runs;
    let run = call.path.key()?;
    let sent = call.body.0.parse()?;
    let processed = granted(runs.is_processed(run, &sent.keys()?).await)?;
    let space = runs.space().as_str().to_owned();
    Ok(Json(IsProcessed { space, run: run.as_str().to_owned(), processed }))
}
