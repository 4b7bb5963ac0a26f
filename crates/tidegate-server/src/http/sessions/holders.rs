//! Who holds a session: they come, stay and leave.

use serde::Deserialize;
use tidegate::session::{Generation, Holder, SessionId};

use super::ask::{generation_of, key};
use super::{granted, ok, told};
use crate::http::extract::{Call, Sent};
use crate::http::limits::Answered;
use crate::http::metrics::Operation;
use crate::http::problem::Problem;
use crate::http::query::{FromQuery, Query};

/// A holder in a path.
#[derive(Debug, Deserialize)]
pub(super) struct Path {
    space: String,
    id: String,
    holder: String,
}

impl Path {
    fn id(&self) -> Result<SessionId, Problem> {
        Ok(self.id.parse()?)
    }

    fn holder(&self, generation: Option<Generation>) -> Result<Holder<'_>, Problem> {
        Ok(Holder { name: key("a holder", &self.holder)?, generation })
    }
}

/// The generation that is meant, if it is one in particular.
#[derive(Debug)]
pub(super) struct InGeneration(Option<Generation>);

impl FromQuery for InGeneration {
    const NAMES: &'static [&'static str] = &["generation"];

    fn from_query(query: &Query) -> Result<Self, Problem> {
        Ok(Self(generation_of(query)?))
    }
}

/// How to connect.
#[derive(Debug)]
pub(super) struct Connect {
    resumes: bool,
    generation: Option<Generation>,
}

impl FromQuery for Connect {
    const NAMES: &'static [&'static str] = &["resume", "generation"];

    fn from_query(query: &Query) -> Result<Self, Problem> {
        Ok(Self { resumes: query.flag("resume")?, generation: generation_of(query)? })
    }
}

pub(super) async fn connect(call: Call<Path, Connect>, sent: Sent) -> Answered {
    let _timed = call.timed(Operation::SessionConnect);
    let asked = &call.path;
    let sessions = call.app.sessions(&asked.space)?;
    let (id, holder) = (asked.id()?, asked.holder(call.query.generation)?);
    sent.check_empty()?;
    let lease = match call.query.resumes {
        true => granted(sessions.resume(id, holder).await)?,
        false => granted(sessions.connect(id, holder).await)?,
    };
    Ok(ok(&told::Held::new(sessions.space().as_str(), id, &asked.holder, &lease)))
}

pub(super) async fn heartbeat(call: Call<Path, InGeneration>, sent: Sent) -> Answered {
    let _timed = call.timed(Operation::SessionHeartbeat);
    let asked = &call.path;
    let sessions = call.app.sessions(&asked.space)?;
    let (id, holder) = (asked.id()?, asked.holder(call.query.0)?);
    sent.check_empty()?;
    let lease = granted(sessions.heartbeat(id, holder).await)?;
    Ok(ok(&told::Held::new(sessions.space().as_str(), id, &asked.holder, &lease)))
}

pub(super) async fn disconnect(call: Call<Path, InGeneration>) -> Answered {
    let _timed = call.timed(Operation::SessionDisconnect);
    let asked = &call.path;
    let sessions = call.app.sessions(&asked.space)?;
    let (id, holder) = (asked.id()?, asked.holder(call.query.0)?);
    let left = granted(sessions.disconnect(id, holder).await)?;
    Ok(ok(&told::Without::new(sessions.space().as_str(), id, &asked.holder, left)))
}
