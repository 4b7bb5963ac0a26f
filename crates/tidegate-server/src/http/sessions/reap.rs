//! What becomes of sessions that were left behind: claimed, acknowledged, cleaned up.

use tidegate::session::{Generation, State as Stand};

use super::ask::{Acks, Claim, attempt_of, generation_of};
use super::one::Path;
use super::{granted, ok, told_reaped as told};
use crate::http::extract::{Call, Sent};
use crate::http::limits::Answered;
use crate::http::metrics::Operation;
use crate::http::problem::Problem;
use crate::http::query::{FromQuery, Query};

/// Whether to say only what would be done.
#[derive(Debug)]
pub(super) struct DryRun(bool);

impl FromQuery for DryRun {
    const NAMES: &'static [&'static str] = &["dry_run"];

    fn from_query(query: &Query) -> Result<Self, Problem> {
        Ok(Self(query.flag("dry_run")?))
    }
}

/// Which claim is meant.
#[derive(Debug)]
pub(super) struct OfClaim {
    generation: Generation,
    attempt: u64,
}

impl FromQuery for OfClaim {
    const NAMES: &'static [&'static str] = &["generation", "attempt"];

    fn from_query(query: &Query) -> Result<Self, Problem> {
        match (generation_of(query)?, attempt_of(query)?) {
            (Some(generation), Some(attempt)) => Ok(Self { generation, attempt }),
            _ => {
                let why = "`generation` and `attempt` are needed: those of the claim";
                Err(Problem::invalid(why.to_owned()))
            }
        }
    }
}

pub(super) async fn claim(call: Call<String>, sent: Sent) -> Answered {
    let _timed = call.timed(Operation::SessionClaim);
    let sessions = call.app.sessions(&call.path)?;
    let ask: Claim = sent.parse_if_any()?;
    let claims = sessions.claim(ask.limit(sessions.options().batch)?).await?;
    Ok(ok(&told::Claimed::new(sessions.space().as_str(), &claims)))
}

pub(super) async fn ack(call: Call<String>, sent: Sent) -> Answered {
    let _timed = call.timed(Operation::SessionAck);
    let sessions = call.app.sessions(&call.path)?;
    let ask: Acks<'_> = sent.parse()?;
    let claims = ask.claims()?;
    let answers = sessions.ack_many(&claims).await?;
    Ok(ok(&told::Acked::new(sessions.space().as_str(), &claims, &answers)))
}

pub(super) async fn renew(call: Call<Path, OfClaim>, sent: Sent) -> Answered {
    let _timed = call.timed(Operation::SessionRenew);
    let (asked, generation, attempt) = (&call.path, call.query.generation, call.query.attempt);
    let sessions = call.app.sessions(&asked.space)?;
    let id = asked.id()?;
    sent.check_empty()?;
    let until_ms = granted(sessions.renew(id, generation, attempt).await)?.as_millis();
    let (space, generation) = (sessions.space().as_str(), generation.get());
    Ok(ok(&told::Renewed { space, id: id.to_string(), generation, attempt, until_ms }))
}

pub(super) async fn cleanup(call: Call<String, DryRun>, sent: Sent) -> Answered {
    let _timed = call.timed(Operation::SessionCleanup);
    let sessions = call.app.sessions(&call.path)?;
    sent.check_empty()?;
    if call.query.0 {
        return Ok(ok(&told::Foreseen::new(sessions.space().as_str(), &sessions.counts().await?)));
    }
    Ok(ok(&told::Cleaned::new(sessions.space().as_str(), &sessions.cleanup().await?)))
}

pub(super) async fn retry(call: Call<Path>, sent: Sent) -> Answered {
    let _timed = call.timed(Operation::SessionRetry);
    let asked = &call.path;
    let sessions = call.app.sessions(&asked.space)?;
    let id = asked.id()?;
    sent.check_empty()?;
    granted(sessions.retry(id).await)?;
    Ok(ok(&told::Retried {
        space: sessions.space().as_str(),
        id: id.to_string(),
        state: Stand::Claimed.as_str(),
    }))
}
