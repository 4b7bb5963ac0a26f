//! Who holds a session: they come, stay and leave.

use tidegate::session::Generation;

use super::path::OfHolder;
use super::reap::{GENERATION, generation_of};
use crate::api::session::{Held, Without};
use crate::http::{Call, EmptyBody, FromQuery, Json, Parameter, Problem, Query, granted};

/// The generation that is meant, if it is one in particular.
#[derive(Debug)]
pub(crate) struct InGeneration(Option<Generation>);

impl FromQuery for InGeneration {
    const PARAMETERS: &'static [Parameter] = &[GENERATION];

    fn from_query(query: &Query) -> Result<Self, Problem> {
        Ok(Self(generation_of(query)?))
    }
}

/// How to connect.
#[derive(Debug)]
pub(crate) struct Connect {
    resumes: bool,
    generation: Option<Generation>,
}

impl FromQuery for Connect {
    const PARAMETERS: &'static [Parameter] =
        &[Parameter::flag("resume", "only if it is disconnected, and not for the first time"), GENERATION];

    fn from_query(query: &Query) -> Result<Self, Problem> {
        Ok(Self { resumes: query.flag("resume")?, generation: generation_of(query)? })
    }
}

pub(super) async fn connect(call: Call<OfHolder, Connect, EmptyBody>) -> Result<Json<Held>, Problem> {
    let sessions = call.app.parts().sessions.get(&call.path.space)?;
    let (id, holder) = (call.path.id()?, call.path.holder(call.query.generation)?);
    call.body.parse()?;
    let lease = match call.query.resumes {
        true => granted(sessions.resume(id, holder).await)?,
        false => granted(sessions.connect(id, holder).await)?,
    };
    Ok(Json(Held::new(sessions.space().as_str(), id, call.path.holder, lease)))
}

pub(super) async fn heartbeat(call: Call<OfHolder, InGeneration, EmptyBody>) -> Result<Json<Held>, Problem> {
    let sessions = call.app.parts().sessions.get(&call.path.space)?;
    let (id, holder) = (call.path.id()?, call.path.holder(call.query.0)?);
    call.body.parse()?;
    let lease = granted(sessions.heartbeat(id, holder).await)?;
    Ok(Json(Held::new(sessions.space().as_str(), id, call.path.holder, lease)))
}

pub(super) async fn disconnect(call: Call<OfHolder, InGeneration>) -> Result<Json<Without>, Problem> {
    let sessions = call.app.parts().sessions.get(&call.path.space)?;
    let (id, holder) = (call.path.id()?, call.path.holder(call.query.0)?);
    let left = granted(sessions.disconnect(id, holder).await)?;
    Ok(Json(Without::new(sessions.space().as_str(), id, call.path.holder, left)))
}
