//! One session: activated, read, updated, deleted.

use tidegate::session::{Found, Refusal};

use super::path::{OfBroadcaster, OfSession};
use crate::api::json::to_text;
use crate::api::key;
use crate::api::session::{Activate, Active, One, Update, Updated, generation};
use crate::http::{Call, Json, JsonBody, Made, NoContent, NoQuery, OfSpace, Problem, granted};

pub(super) async fn activate(
    call: Call<OfSpace, NoQuery, JsonBody<Activate<'static>>>,
) -> Result<Made<Active>, Problem> {
    let sessions = call.app.parts().sessions.get(&call.path.space)?;
    let sent = call.body.parse()?;
    let (broadcaster, config) = (key("a broadcaster", &sent.broadcaster)?, to_text(sent.config)?);
    let holder = sent.holder.as_deref().map(|holder| key("a holder", holder)).transpose()?;
    let activated = granted(sessions.activate(broadcaster, &config, holder).await)?;
    let is_new = activated.found == Found::Nothing;
    Ok(Made { is_new, value: Active::new(sessions.space().as_str(), &activated) })
}

pub(super) async fn get(call: Call<OfSession>) -> Result<Json<One>, Problem> {
    let sessions = call.app.parts().sessions.get(&call.path.space)?;
    let session = sessions.get(call.path.id()?).await?.ok_or(Refusal::Gone)?;
    Ok(Json(One::new(sessions.space().as_str(), session)))
}

pub(super) async fn find(call: Call<OfBroadcaster>) -> Result<Json<One>, Problem> {
    let sessions = call.app.parts().sessions.get(&call.path.space)?;
    let session = sessions.find(key("a broadcaster", &call.path.broadcaster)?).await?.ok_or(Refusal::Gone)?;
    Ok(Json(One::new(sessions.space().as_str(), session)))
}

pub(super) async fn update(
    call: Call<OfSession, NoQuery, JsonBody<Update<'static>>>,
) -> Result<Json<Updated>, Problem> {
    let sessions = call.app.parts().sessions.get(&call.path.space)?;
    let id = call.path.id()?;
    let sent = call.body.parse()?;
    let (value, meant) = (to_text(sent.value)?, sent.generation.map(generation).transpose()?);
    let generation = granted(sessions.update(id, &value, meant).await)?;
    Ok(Json(Updated::new(sessions.space().as_str(), id, generation)))
}

pub(super) async fn delete(call: Call<OfSession>) -> Result<NoContent, Problem> {
    let sessions = call.app.parts().sessions.get(&call.path.space)?;
    granted(sessions.delete(call.path.id()?).await)?;
    Ok(NoContent)
}
