//! What a key has used: peek, refund, reset.

use axum::response::Response;
use schemars::SchemaGenerator;
use tidegate::Cost;
use tidegate::bounds::MAX_COUNT;

use super::path::{OfKey, OfLimit};
use crate::api::decision::Decision;
use crate::api::limit::{Refund, Refunded};
use crate::http::{
    Answer, AnswerShape, Call, FromQuery, Json, JsonBody, NoContent, NoQuery, Parameter, Problem, Query,
};

/// What a peek is for.
#[derive(Debug)]
pub(crate) struct PeekQuery(Cost);

impl FromQuery for PeekQuery {
    const PARAMETERS: &'static [Parameter] =
        &[Parameter::integer("cost", 1..=MAX_COUNT, Some(1), "for a take of how many permits")];

    fn from_query(query: &Query) -> Result<Self, Problem> {
        let cost = query.read("cost", |text| {
            let cost = text.parse().ok().and_then(|cost| Cost::new(cost).ok());
            cost.ok_or_else(|| format!("{text:?} is not a cost: whole numbers from 1 to {MAX_COUNT} are"))
        })?;
        Ok(Self(cost.unwrap_or(Cost::ONE)))
    }
}

/// Where a key stands: it has been answered, whatever the outcome.
pub(crate) struct Peeked(Response);

impl Answer for Peeked {
    fn into_response(self) -> Response {
        self.0
    }

    fn shapes(schemas: &mut SchemaGenerator) -> Vec<AnswerShape> {
        Json::<Decision<'_>>::shapes(schemas)
    }
}

pub(super) async fn peek(call: Call<OfKey, PeekQuery>) -> Result<Peeked, Problem> {
    let served = call.app.limit(&call.path.limit)?;
    let (key, cost) = (call.path.key()?, call.query.0);
    let decision = served.limit.peek_for(key, cost).await?;
    Ok(Peeked(served.to_peek(key, cost, &decision)))
}

pub(super) async fn refund(
    call: Call<OfLimit, NoQuery, JsonBody<Refund<'static>>>,
) -> Result<Json<Refunded>, Problem> {
    let limit = call.app.limit(&call.path.limit)?.limit;
    let sent = call.body.parse()?;
    let key = sent.key.key()?;
    let receipt = limit.read_receipt(key, &sent.receipt)?;
    Ok(Json(Refunded { refunded: limit.refund(key, receipt).await? }))
}

pub(super) async fn reset(call: Call<OfKey>) -> Result<NoContent, Problem> {
    call.app.limit(&call.path.limit)?.limit.reset(call.path.key()?).await?;
    Ok(NoContent)
}
