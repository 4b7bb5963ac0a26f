//! One session: activated, read, updated, deleted; and who holds it: they come, stay and leave.

use tidegate::session::{Found, Generation, Refusal};

use super::path::{OfBroadcaster, OfHolder, OfSession};
use super::reap::{GENERATION, generation_of};
use crate::api::json::to_text;
use crate::api::key;
use crate::api::session::{Activate, Active, Held, One, Update, Updated, Without, generation};
use crate::http::{Call, EmptyBody, Json, Made, NoContent, Parameter, Result, Sent, granted, query};

pub(super) async fn activate(call: Sent<Activate<'static>>) -> Result<Made<Active>> {
    let sessions = call.app.parts().sessions.get(&call.path.space)?;
    let sent = call.body.parse()?;
    let (broadcaster, config) = (key("a broadcaster", &sent.broadcaster)?, to_text(sent.config)?);
    let holder = sent.holder.as_deref().map(|holder| key("a holder", holder)).transpose()?;
    let activated = granted(sessions.activate(broadcaster, &config, holder).await)?;
    let is_new = activated.found == Found::Nothing;
    Ok(Made { is_new, value: Active::new(sessions.space().as_str(), &activated) })
}

pub(super) async fn get(call: Call<OfSession>) -> Result<Json<One>> {
    let sessions = call.app.parts().sessions.get(&call.path.space)?;
    let session = sessions.get(call.path.id()?).await?.ok_or(Refusal::Gone)?;
    Ok(Json(One::new(sessions.space().as_str(), session)))
}

pub(super) async fn find(call: Call<OfBroadcaster>) -> Result<Json<One>> {
    let sessions = call.app.parts().sessions.get(&call.path.space)?;
    let session = sessions.find(key("a broadcaster", &call.path.broadcaster)?).await?.ok_or(Refusal::Gone)?;
    Ok(Json(One::new(sessions.space().as_str(), session)))
}

pub(super) async fn update(call: Sent<Update<'static>, OfSession>) -> Result<Json<Updated>> {
    let sessions = call.app.parts().sessions.get(&call.path.space)?;
    let id = call.path.id()?;
    let sent = call.body.parse()?;
    let (value, meant) = (to_text(sent.value)?, sent.generation.map(generation).transpose()?);
    let generation = granted(sessions.update(id, &value, meant).await)?;
    Ok(Json(Updated::new(sessions.space().as_str(), id, generation)))
}

pub(super) async fn delete(call: Call<OfSession>) -> Result<NoContent> {
    let sessions = call.app.parts().sessions.get(&call.path.space)?;
    granted(sessions.delete(call.path.id()?).await)?;
    Ok(NoContent)
}

const RESUME: Parameter = Parameter::flag("resume", "only if it is disconnected, and not for the first time");

query! {
    /// The generation that is meant, if it is one in particular.
    struct InGeneration from(query) {
        GENERATION => generation: Option<Generation> = generation_of(query)?,
    }

    /// How to connect.
    struct Connect from(query) {
        RESUME => resumes: bool = query.flag("resume")?,
        GENERATION => generation: Option<Generation> = generation_of(query)?,
    }
}

pub(super) async fn connect(call: Call<OfHolder, Connect, EmptyBody>) -> Result<Json<Held>> {
    let sessions = call.app.parts().sessions.get(&call.path.space)?;
    let (id, holder) = (call.path.id()?, call.path.holder(call.query.generation)?);
    call.body.parse()?;
    let lease = match call.query.resumes {
        true => granted(sessions.resume(id, holder).await)?,
        false => granted(sessions.connect(id, holder).await)?,
    };
    Ok(Json(Held::new(sessions.space().as_str(), id, call.path.holder, lease)))
}

pub(super) async fn heartbeat(call: Call<OfHolder, InGeneration, EmptyBody>) -> Result<Json<Held>> {
    let sessions = call.app.parts().sessions.get(&call.path.space)?;
    let (id, holder) = (call.path.id()?, call.path.holder(call.query.generation)?);
    call.body.parse()?;
    let lease = granted(sessions.heartbeat(id, holder).await)?;
    Ok(Json(Held::new(sessions.space().as_str(), id, call.path.holder, lease)))
}

pub(super) async fn disconnect(call: Call<OfHolder, InGeneration>) -> Result<Json<Without>> {
    let sessions = call.app.parts().sessions.get(&call.path.space)?;
    let (id, holder) = (call.path.id()?, call.path.holder(call.query.generation)?);
    let left = granted(sessions.disconnect(id, holder).await)?;
    Ok(Json(Without::new(sessions.space().as_str(), id, call.path.holder, left)))
}
