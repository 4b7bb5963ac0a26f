//! Who holds a session: they come, stay and leave.

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, Uri};
use serde::Deserialize;
use tidegate::session::{Holder, SessionId};

use super::ask::{generation_of, key};
use super::{granted, ok, told};
use crate::http::limits::Answered;
use crate::http::metrics::Operation;
use crate::http::path::{Found, decoded};
use crate::http::problem::Problem;
use crate::http::query::Query;
use crate::http::{App, ask, body};

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

    /// In the generation that a query names, if it does.
    fn holder(&self, query: &Query) -> Result<Holder<'_>, Problem> {
        Ok(Holder { name: key("a holder", &self.holder)?, generation: generation_of(query)? })
    }
}

pub(super) async fn connect(
    State(app): State<App>,
    path: Found<Path>,
    uri: Uri,
    headers: HeaderMap,
    body: Body,
) -> Answered {
    let _timed = app.metrics().timed(Operation::SessionConnect);
    let asked = decoded(path)?;
    let sessions = app.sessions(&asked.space)?;
    let query = Query::parse(uri.query(), &["resume", "generation"])?;
    let (id, holder, resumes) = (asked.id()?, asked.holder(&query)?, query.flag("resume")?);
    nothing(&app, &headers, body).await?;
    let lease = match resumes {
        true => granted(sessions.resume(id, holder).await)?,
        false => granted(sessions.connect(id, holder).await)?,
    };
    Ok(ok(&told::Held::new(&asked.space, id, &asked.holder, &lease)))
}

pub(super) async fn heartbeat(
    State(app): State<App>,
    path: Found<Path>,
    uri: Uri,
    headers: HeaderMap,
    body: Body,
) -> Answered {
    let _timed = app.metrics().timed(Operation::SessionHeartbeat);
    let asked = decoded(path)?;
    let sessions = app.sessions(&asked.space)?;
    let query = Query::parse(uri.query(), &["generation"])?;
    let (id, holder) = (asked.id()?, asked.holder(&query)?);
    nothing(&app, &headers, body).await?;
    let lease = granted(sessions.heartbeat(id, holder).await)?;
    Ok(ok(&told::Held::new(&asked.space, id, &asked.holder, &lease)))
}

pub(super) async fn disconnect(State(app): State<App>, path: Found<Path>, uri: Uri) -> Answered {
    let _timed = app.metrics().timed(Operation::SessionDisconnect);
    let asked = decoded(path)?;
    let sessions = app.sessions(&asked.space)?;
    let query = Query::parse(uri.query(), &["generation"])?;
    let (id, holder) = (asked.id()?, asked.holder(&query)?);
    let left = granted(sessions.disconnect(id, holder).await)?;
    Ok(ok(&told::Without::new(&asked.space, id, &asked.holder, left)))
}

/// There is nothing to say; but who sends it must be allowed to.
pub(super) async fn nothing(app: &App, headers: &HeaderMap, body: Body) -> Result<(), Problem> {
    let bytes = body::read(headers, body, app.bounds().max_body_bytes).await?;
    if !bytes.is_empty() {
        body::parse::<ask::Nothing>(&bytes)?;
    }
    Ok(())
}
