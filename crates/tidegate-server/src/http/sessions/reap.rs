//! What becomes of sessions that were left behind: claimed, acknowledged, cleaned up.

use tidegate::session::State as Stand;

use super::ask::{Acks, Claim};
use super::one::Path;
use super::{granted, ok, told_reaped as told};
use crate::http::extract::{Call, Sent};
use crate::http::limits::Answered;
use crate::http::metrics::Operation;

pub(super) async fn claim(call: Call<String>, sent: Sent) -> Answered {
    let _timed = call.timed(Operation::SessionClaim);
    let sessions = call.app.sessions(&call.path)?;
    let ask: Claim = sent.parse_if_any()?;
    let claims = sessions.claim(ask.limit(sessions.options().batch)?).await?;
    Ok(ok(&told::Claimed::new(&call.path, &claims)))
}

pub(super) async fn ack(call: Call<String>, sent: Sent) -> Answered {
    let _timed = call.timed(Operation::SessionAck);
    let sessions = call.app.sessions(&call.path)?;
    let ask: Acks<'_> = sent.parse()?;
    let claims = ask.claims()?;
    let answers = sessions.ack_many(&claims).await?;
    Ok(ok(&told::Acked::new(&call.path, &claims, &answers)))
}

pub(super) async fn cleanup(call: Call<String>, sent: Sent) -> Answered {
    let _timed = call.timed(Operation::SessionCleanup);
    let sessions = call.app.sessions(&call.path)?;
    sent.check_empty()?;
    Ok(ok(&told::Cleaned::new(&call.path, &sessions.cleanup().await?)))
}

pub(super) async fn retry(call: Call<Path>, sent: Sent) -> Answered {
    let _timed = call.timed(Operation::SessionRetry);
    let asked = &call.path;
    let sessions = call.app.sessions(&asked.space)?;
    let id = asked.id()?;
    sent.check_empty()?;
    granted(sessions.retry(id).await)?;
    Ok(ok(&told::Retried { space: &asked.space, id: id.to_string(), state: Stand::Claimed.as_str() }))
}
