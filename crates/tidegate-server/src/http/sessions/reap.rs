//! What becomes of sessions that were left behind: claimed, acknowledged, cleaned up.

use tidegate::bounds::MAX_COUNT;
use tidegate::session::Generation;

use super::path::OfSession;
use crate::api::session::{Acks, ClaimRequest, generation};
use crate::api::session_reap::{Acked, Claimed, Cleaned, Renewed, Retried};
use crate::http::{
    Call, EmptyBody, FromQuery, Json, NoQuery, OfSpace, OptionalBody, Parameter, Problem, Query, Result,
    Sent, granted, query,
};

/// A parameter of those who mean one generation.
pub(super) const GENERATION: Parameter =
    Parameter::integer("generation", 1..=MAX_COUNT, None, "the generation that is meant");

/// The generation that a query names.
pub(super) fn generation_of(query: &Query) -> Result<Option<Generation>> {
    let number = query.read("generation", |text| {
        text.parse().map_err(|_| format!("{text:?} is not allowed: whole numbers from 1 to {MAX_COUNT} are"))
    })?;
    Ok(number.map(generation).transpose()?)
}

query! {
    /// Whether to say only what would be done.
    struct DryRun from(query) {
        Parameter::flag("dry_run", "say only what would be done") => is_dry: bool = query.flag("dry_run")?,
    }
}

/// Which claim is meant.
#[derive(Debug)]
pub(crate) struct OfClaim {
    generation: Generation,
    attempt: u64,
}

impl FromQuery for OfClaim {
    const PARAMETERS: &'static [Parameter] = &[
        GENERATION.required(),
        Parameter::integer("attempt", 1..=MAX_COUNT, None, "which of its attempts").required(),
    ];

    fn from_query(query: &Query) -> Result<Self> {
        match (generation_of(query)?, query.integer("attempt")?) {
            (Some(generation), Some(attempt)) => Ok(Self { generation, attempt }),
            _ => {
                let why = "`generation` and `attempt` are needed: those of the claim";
                Err(Problem::invalid(why.to_owned()))
            }
        }
    }
}

pub(super) async fn claim(call: Call<OfSpace, NoQuery, OptionalBody<ClaimRequest>>) -> Result<Json<Claimed>> {
    let sessions = call.app.parts().sessions.get(&call.path.space)?;
    let sent = call.body.parse()?;
    let claims = sessions.claim(sent.limit(sessions.options().batch)?).await?;
    Ok(Json(Claimed::new(sessions.space().as_str(), claims)))
}

pub(super) async fn ack(call: Sent<Acks<'static>>) -> Result<Json<Acked>> {
    let sessions = call.app.parts().sessions.get(&call.path.space)?;
    let claims = call.body.parse()?.claims()?;
    let answers = sessions.ack_many(&claims).await?;
    Ok(Json(Acked::new(sessions.space().as_str(), &claims, &answers)))
}

pub(super) async fn renew(call: Call<OfSession, OfClaim, EmptyBody>) -> Result<Json<Renewed>> {
    let OfClaim { generation, attempt } = call.query;
    let sessions = call.app.parts().sessions.get(&call.path.space)?;
    let id = call.path.id()?;
    call.body.parse()?;
    let until = granted(sessions.renew(id, generation, attempt).await)?;
    Ok(Json(Renewed::new(sessions.space().as_str(), id, generation, attempt, until)))
}

pub(super) async fn cleanup(call: Call<OfSpace, DryRun, EmptyBody>) -> Result<Json<Cleaned>> {
    let sessions = call.app.parts().sessions.get(&call.path.space)?;
    call.body.parse()?;
    let is_dry = call.query.is_dry;
    let swept = if is_dry { sessions.cleanup_dry_run().await? } else { sessions.cleanup().await? };
    Ok(Json(Cleaned::new(sessions.space().as_str(), is_dry, &swept)))
}

pub(super) async fn retry(call: Call<OfSession, NoQuery, EmptyBody>) -> Result<Json<Retried>> {
    let sessions = call.app.parts().sessions.get(&call.path.space)?;
    let id = call.path.id()?;
    call.body.parse()?;
    granted(sessions.retry(id).await)?;
    Ok(Json(Retried::new(sessions.space().as_str(), id)))
}
