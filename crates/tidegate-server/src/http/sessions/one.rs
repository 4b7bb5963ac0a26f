//! One session: activated, asked for, updated, deleted.

use axum::http::StatusCode;
use axum::response::IntoResponse as _;
use serde::Deserialize;
use tidegate::session::{Found as Had, Refusal, Session, SessionId, Sessions};

use super::ask::{Activate, Update, key};
use super::{granted, ok, told};
use crate::http::extract::{Call, Sent};
use crate::http::limits::Answered;
use crate::http::metrics::Operation;
use crate::http::problem::Problem;
use crate::http::reply::json;

/// A session in a path.
#[derive(Debug, Deserialize)]
pub(super) struct Path {
    pub(super) space: String,
    id: String,
}

impl Path {
    pub(super) fn id(&self) -> Result<SessionId, Problem> {
        Ok(self.id.parse()?)
    }
}

pub(super) async fn activate(call: Call<String>, sent: Sent) -> Answered {
    let _timed = call.timed(Operation::SessionActivate);
    let sessions = call.app.sessions(&call.path)?;
    let ask: Activate<'_> = sent.parse()?;
    let (broadcaster, config, holder) = (ask.broadcaster()?, ask.config()?, ask.holder()?);
    let activated = granted(sessions.activate(broadcaster, &config, holder).await)?;
    let status = match activated.found {
        Had::Nothing => StatusCode::CREATED,
        _ => StatusCode::OK,
    };
    Ok(json(status, &told::Active::new(sessions.space().as_str(), &activated)))
}

pub(super) async fn get(call: Call<Path>) -> Answered {
    let _timed = call.timed(Operation::SessionGet);
    let sessions = call.app.sessions(&call.path.space)?;
    tell(sessions, sessions.get(call.path.id()?).await?)
}

pub(super) async fn find(call: Call<(String, String)>) -> Answered {
    let _timed = call.timed(Operation::SessionGet);
    let (space, broadcaster) = &call.path;
    let sessions = call.app.sessions(space)?;
    tell(sessions, sessions.find(key("a broadcaster", broadcaster)?).await?)
}

fn tell(sessions: &Sessions, session: Option<Session>) -> Answered {
    let session = session.ok_or_else(|| Problem::refused(Refusal::Gone))?;
    Ok(ok(&told::One::new(sessions.space().as_str(), &session)))
}

pub(super) async fn update(call: Call<Path>, sent: Sent) -> Answered {
    let _timed = call.timed(Operation::SessionUpdate);
    let asked = &call.path;
    let sessions = call.app.sessions(&asked.space)?;
    let id = asked.id()?;
    let ask: Update<'_> = sent.parse()?;
    let generation = granted(sessions.update(id, &ask.value()?, ask.generation()?).await)?.get();
    Ok(ok(&told::Updated { space: sessions.space().as_str(), id: id.to_string(), generation }))
}

pub(super) async fn delete(call: Call<Path>) -> Answered {
    let _timed = call.timed(Operation::SessionDelete);
    let sessions = call.app.sessions(&call.path.space)?;
    granted(sessions.delete(call.path.id()?).await)?;
    Ok(StatusCode::NO_CONTENT.into_response())
}
