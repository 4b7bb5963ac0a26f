//! What becomes of sessions that were left behind: claimed, acknowledged, cleaned up.

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, Uri};
use tidegate::session::State as Stand;

use super::ask::{Acks, Claim, attempt_of, generation_of};
use super::holders::nothing;
use super::one::Path;
use super::{granted, ok, told_reaped as told};
use crate::http::limits::Answered;
use crate::http::metrics::Operation;
use crate::http::path::{Found, decoded};
use crate::http::problem::Problem;
use crate::http::query::Query;
use crate::http::{App, body};

pub(super) async fn claim(
    State(app): State<App>,
    path: Found<String>,
    uri: Uri,
    headers: HeaderMap,
    body: Body,
) -> Answered {
    let _timed = app.metrics().timed(Operation::SessionClaim);
    let space = decoded(path)?;
    let sessions = app.sessions(&space)?;
    Query::parse(uri.query(), &[])?;
    let bytes = body::read(&headers, body, app.bounds().max_body_bytes).await?;
    let ask: Claim = if bytes.is_empty() { Claim::default() } else { body::parse(&bytes)? };
    let claims = sessions.claim(ask.limit(sessions.options().batch)?).await?;
    Ok(ok(&told::Claimed::new(&space, &claims)))
}

pub(super) async fn ack(
    State(app): State<App>,
    path: Found<String>,
    uri: Uri,
    headers: HeaderMap,
    body: Body,
) -> Answered {
    let _timed = app.metrics().timed(Operation::SessionAck);
    let space = decoded(path)?;
    let sessions = app.sessions(&space)?;
    Query::parse(uri.query(), &[])?;
    let bytes = body::read(&headers, body, app.bounds().max_body_bytes).await?;
    let ask: Acks<'_> = body::parse(&bytes)?;
    let claims = ask.claims()?;
    let answers = sessions.ack_many(&claims).await?;
    Ok(ok(&told::Acked::new(&space, &claims, &answers)))
}

pub(super) async fn cleanup(
    State(app): State<App>,
    path: Found<String>,
    uri: Uri,
    headers: HeaderMap,
    body: Body,
) -> Answered {
    let _timed = app.metrics().timed(Operation::SessionCleanup);
    let space = decoded(path)?;
    let sessions = app.sessions(&space)?;
    let is_dry = Query::parse(uri.query(), &["dry_run"])?.flag("dry_run")?;
    nothing(&app, &headers, body).await?;
    if is_dry {
        return Ok(ok(&told::Foreseen::new(&space, &sessions.counts().await?)));
    }
    Ok(ok(&told::Cleaned::new(&space, &sessions.cleanup().await?)))
}

pub(super) async fn renew(
    State(app): State<App>,
    path: Found<Path>,
    uri: Uri,
    headers: HeaderMap,
    body: Body,
) -> Answered {
    let _timed = app.metrics().timed(Operation::SessionRenew);
    let asked = decoded(path)?;
    let sessions = app.sessions(&asked.space)?;
    let query = Query::parse(uri.query(), &["generation", "attempt"])?;
    let (id, generation, attempt) = (asked.id()?, generation_of(&query)?, attempt_of(&query)?);
    let (Some(generation), Some(attempt)) = (generation, attempt) else {
        let why = "`generation` and `attempt` are needed: those of the claim";
        return Err(Problem::invalid(why.to_owned()));
    };
    nothing(&app, &headers, body).await?;
    let until_ms = granted(sessions.renew(id, generation, attempt).await)?.as_millis();
    let (space, generation) = (&*asked.space, generation.get());
    Ok(ok(&told::Renewed { space, id: id.to_string(), generation, attempt, until_ms }))
}

pub(super) async fn retry(
    State(app): State<App>,
    path: Found<Path>,
    uri: Uri,
    headers: HeaderMap,
    body: Body,
) -> Answered {
    let _timed = app.metrics().timed(Operation::SessionRetry);
    let asked = decoded(path)?;
    let sessions = app.sessions(&asked.space)?;
    Query::parse(uri.query(), &[])?;
    let id = asked.id()?;
    nothing(&app, &headers, body).await?;
    granted(sessions.retry(id).await)?;
    Ok(ok(&told::Retried { space: &asked.space, id: id.to_string(), state: Stand::Claimed.as_str() }))
}
