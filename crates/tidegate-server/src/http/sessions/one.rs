//! One session: activated, asked for, updated, deleted.

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::IntoResponse as _;
use serde::Deserialize;
use tidegate::session::{Found as Had, Refusal, Session, SessionId};

use super::ask::{Activate, Update, key};
use super::{granted, ok, told};
use crate::http::limits::Answered;
use crate::http::metrics::Operation;
use crate::http::path::{Found, decoded};
use crate::http::problem::Problem;
use crate::http::query::Query;
use crate::http::reply::json;
use crate::http::{App, body};

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

pub(super) async fn activate(
    State(app): State<App>,
    path: Found<String>,
    uri: Uri,
    headers: HeaderMap,
    body: Body,
) -> Answered {
    let _timed = app.metrics().timed(Operation::SessionActivate);
    let space = decoded(path)?;
    let sessions = app.sessions(&space)?;
    Query::parse(uri.query(), &[])?;
    let bytes = body::read(&headers, body, app.bounds().max_body_bytes).await?;
    let ask: Activate<'_> = body::parse(&bytes)?;
    let (broadcaster, config, holder) = (ask.broadcaster()?, ask.config()?, ask.holder()?);
    let activated = granted(sessions.activate(broadcaster, &config, holder).await)?;
    let status = match activated.found {
        Had::Nothing => StatusCode::CREATED,
        _ => StatusCode::OK,
    };
    Ok(json(status, &told::Active::new(&space, &activated)))
}

pub(super) async fn get(State(app): State<App>, path: Found<Path>, uri: Uri) -> Answered {
    let _timed = app.metrics().timed(Operation::SessionGet);
    let asked = decoded(path)?;
    let sessions = app.sessions(&asked.space)?;
    Query::parse(uri.query(), &[])?;
    tell(&asked.space, sessions.get(asked.id()?).await?)
}

pub(super) async fn find(State(app): State<App>, path: Found<(String, String)>, uri: Uri) -> Answered {
    let _timed = app.metrics().timed(Operation::SessionGet);
    let (space, broadcaster) = decoded(path)?;
    let sessions = app.sessions(&space)?;
    Query::parse(uri.query(), &[])?;
    tell(&space, sessions.find(key("a broadcaster", &broadcaster)?).await?)
}

fn tell(space: &str, session: Option<Session>) -> Answered {
    let session = session.ok_or_else(|| Problem::refused(Refusal::Gone))?;
    Ok(ok(&told::One::new(space, &session)))
}

pub(super) async fn update(
    State(app): State<App>,
    path: Found<Path>,
    uri: Uri,
    headers: HeaderMap,
    body: Body,
) -> Answered {
    let _timed = app.metrics().timed(Operation::SessionUpdate);
    let asked = decoded(path)?;
    let sessions = app.sessions(&asked.space)?;
    Query::parse(uri.query(), &[])?;
    let id = asked.id()?;
    let bytes = body::read(&headers, body, app.bounds().max_body_bytes).await?;
    let ask: Update<'_> = body::parse(&bytes)?;
    let generation = granted(sessions.update(id, &ask.value()?, ask.generation()?).await)?.get();
    Ok(ok(&told::Updated { space: &asked.space, id: id.to_string(), generation }))
}

pub(super) async fn delete(State(app): State<App>, path: Found<Path>, uri: Uri) -> Answered {
    let _timed = app.metrics().timed(Operation::SessionDelete);
    let asked = decoded(path)?;
    let sessions = app.sessions(&asked.space)?;
    Query::parse(uri.query(), &[])?;
    granted(sessions.delete(asked.id()?).await)?;
    Ok(StatusCode::NO_CONTENT.into_response())
}
