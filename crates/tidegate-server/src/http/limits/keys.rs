//! What a key has used: peek, refund, reset.

use tidegate::Cost;
use tidegate::bounds::MAX_COUNT;

use super::path::{OfKey, OfLimit};
use crate::api::decision::Decision;
use crate::api::limit::{Refund, Refunded};
use crate::http::{Call, Described, Json, NoContent, Parameter, Result, Sent, query};

query! {
    /// What a peek is for.
    struct PeekQuery from(query) {
        Parameter::integer("cost", 1..=MAX_COUNT, Some(1), "for a take of how many permits") => cost: Cost = {
            let cost = query.read("cost", |text| {
                let cost = text.parse().ok().and_then(|cost| Cost::new(cost).ok());
                cost.ok_or_else(|| format!("{text:?} is not a cost: whole numbers from 1 to {MAX_COUNT} are"))
            })?;
            cost.unwrap_or(Cost::ONE)
        },
    }
}

/// It has been answered, whatever the outcome.
pub(super) async fn peek(call: Call<OfKey, PeekQuery>) -> Result<Described<Json<Decision<'static>>>> {
    let served = call.app.limit(&call.path.limit)?;
    let (key, cost) = (call.path.key.get()?, call.query.cost);
    let decision = served.limit.peek_for(key, cost).await?;
    Ok(Described::new(served.to_peek(key, cost, &decision)))
}

pub(super) async fn refund(call: Sent<Refund<'static>, OfLimit>) -> Result<Json<Refunded>> {
    let limit = call.app.limit(&call.path.limit)?.limit;
    let sent = call.body.parse()?;
    let key = sent.key.key()?;
    let receipt = limit.read_receipt(key, &sent.receipt)?;
    Ok(Json(Refunded { refunded: limit.refund(key, receipt).await? }))
}

pub(super) async fn reset(call: Call<OfKey>) -> Result<NoContent> {
    call.app.limit(&call.path.limit)?.limit.reset(call.path.key.get()?).await?;
    Ok(NoContent)
}
