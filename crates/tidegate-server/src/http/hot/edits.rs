//! `POST …/edits`: one edit. Many are in [`bulk`](super::bulk).

use axum::body::Body;
use axum::http::HeaderMap;
use schemars::SchemaGenerator;

use crate::api::hot::{Edit, Edited};
use crate::http::answer::Json;
use crate::http::body;
use crate::http::call::{Call, FromBody, JsonBody, OfSpace};
use crate::http::parameter::NoQuery;
use crate::http::problem::Problem;
use crate::http::shape::BodyShape;

/// An edit in JSON; the refusal of another type names bulk too.
pub(crate) struct EditBody(JsonBody<Edit<'static>>);

impl FromBody for EditBody {
    async fn read(headers: &HeaderMap, sent: Body, max_bytes: usize) -> Result<Self, Problem> {
        body::check_type(headers, "application/json is, and application/x-ndjson for an edit per line")?;
        JsonBody::read(headers, sent, max_bytes).await.map(Self)
    }

    fn shape(schemas: &mut SchemaGenerator) -> Option<BodyShape> {
        JsonBody::<Edit<'static>>::shape(schemas)
    }
}

pub(super) async fn record(call: Call<OfSpace, NoQuery, EditBody>) -> Result<Json<Edited>, Problem> {
    let hot = call.app.parts().hot.get(&call.path.space)?;
    let sent = call.body.0.parse()?;
    let edit = sent.edit()?;
    let recorded = hot.record(&edit).await?;
    Ok(Json(Edited::new(hot.space().as_str(), &edit, &recorded)))
}
