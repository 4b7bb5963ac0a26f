//! What scripts of sessions answer.

use crate::clock::Timestamp;
use crate::error::Result;
use crate::session::hold::NoStamp;
use crate::session::types::{Claim, Generation, HeldBy, Lease, Session, SessionId, State};
use crate::store::redis::{Fields, Replies, server_failure};

pub(super) const REPLIES: Replies = Replies("sessions");

/// A session as it is.
pub(super) fn session(fields: &mut Fields<'_>) -> Result<Session> {
    let (id, generation, last_seen) = (session_id(fields)?, generation(fields)?, fields.time()?);
    let (left_ms, attempts, claimed) = (fields.number()?, fields.number()?, fields.integer()?);
    let (is_orphan, deadline) = (fields.flag()?, fields.time()?);
    let (broadcaster, config, value) = (fields.text()?, fields.text()?, fields.text()?);
    // An older program may have written anything there.
    let updated_s = fields.text()?.parse::<f64>().unwrap_or(0.0) as u64;
    let mut holders = Vec::with_capacity(fields.len() / 2);
    while !fields.is_empty() {
        holders.push(HeldBy { holder: fields.text()?, until: fields.time()? });
    }
    holders.sort_unstable();
    Ok(Session {
        id,
        broadcaster,
        config,
        value,
        state: match (left_ms, claimed.signum()) {
            (0, _) => State::Active,
            (_, 1) => State::Claimed,
            (_, -1) => State::Dead,
            _ if is_orphan => State::Orphan,
            _ => State::Disconnected,
        },
        generation,
        ref_count: holders.len() as u64,
        holders,
        held_until: (left_ms == 0).then_some(deadline),
        last_disconnect: (left_ms > 0).then(|| Timestamp::from_millis(left_ms)),
        last_update: Timestamp::from_millis(updated_s.saturating_mul(1000)),
        last_seen,
        attempts,
    })
}

pub(super) fn claim(fields: &mut Fields<'_>) -> Result<Claim> {
    Ok(Claim {
        id: session_id(fields)?,
        generation: generation(fields)?,
        broadcaster: fields.text()?,
        since: fields.time()?,
        attempt: fields.number()?,
        until: fields.time()?,
        config: fields.text()?,
        value: fields.text()?,
    })
}

pub(super) fn lease(fields: &mut Fields<'_>) -> Result<Lease> {
    Ok(Lease { generation: generation(fields)?, until: fields.time()? })
}

pub(super) fn generation(fields: &mut Fields<'_>) -> Result<Generation> {
    fields.number().map(Generation)
}

/// Why the store took no stamp, if it did not.
pub(super) fn no_stamp(fields: &mut Fields<'_>) -> Result<Option<NoStamp>> {
    let text = fields.text()?;
    Ok((!text.is_empty()).then(|| NoStamp { reason: server_failure(&text).reason(), text }))
}

pub(super) fn session_id(fields: &mut Fields<'_>) -> Result<SessionId> {
    SessionId::listed(&fields.text()?).ok_or_else(|| fields.unexpected())
}
