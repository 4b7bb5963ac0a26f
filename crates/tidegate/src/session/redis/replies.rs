//! What scripts of sessions answer, read.

use redis::Value;

use crate::clock::Timestamp;
use crate::error::{Error, Result};
use crate::session::hold::NoStamp;
use crate::session::types::{Generation, HeldBy, Lease, Session, SessionId, State};
use crate::store::redis::server_failure;

/// A session as it is.
pub(super) fn session(items: &[Value]) -> Result<Session> {
    let [
        id,
        generation,
        seen,
        left,
        attempts,
        claimed,
        orphan,
        deadline,
        broadcaster,
        config,
        new,
        updated,
        holders @ ..,
    ] = items
    else {
        return Err(unexpected(items));
    };
    let Value::Int(claimed) = claimed else { return Err(unexpected(items)) };
    let left_ms = number(left)?;
    let hold = |it: &[Value]| match it {
        [holder, until] => Ok(HeldBy { holder: string(holder)?, until: time(until)? }),
        _ => Err(unexpected(items)),
    };
    let mut holders: Vec<_> = holders.chunks(2).map(hold).collect::<Result<_>>()?;
    holders.sort_unstable();
    // An older program may have written anything there.
    let updated_s = string(updated)?.parse::<f64>().unwrap_or(0.0) as u64;
    Ok(Session {
        id: session_id(id)?,
        broadcaster: string(broadcaster)?,
        config: string(config)?,
        value: string(new)?,
        state: match (left_ms, claimed.signum()) {
            (0, _) => State::Active,
            (_, 1) => State::Claimed,
            (_, -1) => State::Dead,
            _ if number(orphan)? == 1 => State::Orphan,
            _ => State::Disconnected,
        },
        generation: Generation(number(generation)?),
        ref_count: holders.len() as u64,
        holders,
        held_until: (left_ms == 0).then(|| time(deadline)).transpose()?,
        last_disconnect: (left_ms > 0).then(|| Timestamp::from_millis(left_ms)),
        last_update: Timestamp::from_millis(updated_s.saturating_mul(1000)),
        last_seen: time(seen)?,
        attempts: number(attempts)?,
    })
}

pub(super) fn lease(generation: &Value, until: &Value) -> Result<Lease> {
    Ok(Lease { generation: Generation(number(generation)?), until: time(until)? })
}

pub(super) fn items(value: &Value) -> Result<&[Value]> {
    match value {
        Value::Array(items) => Ok(items),
        _ => Err(unexpected(value)),
    }
}

pub(super) fn number(value: &Value) -> Result<u64> {
    match value {
        Value::Int(number) => u64::try_from(*number).map_err(|_| unexpected(value)),
        _ => Err(unexpected(value)),
    }
}

/// Why the store took no stamp, if it did not.
pub(super) fn no_stamp(value: &Value) -> Result<Option<NoStamp>> {
    let text = string(value)?;
    Ok((!text.is_empty()).then(|| NoStamp { reason: server_failure(&text).reason(), text }))
}

pub(super) fn time(value: &Value) -> Result<Timestamp> {
    number(value).map(Timestamp::from_millis)
}

pub(super) fn string(value: &Value) -> Result<String> {
    match value {
        // What an older program wrote need not be text.
        Value::BulkString(text) => Ok(String::from_utf8_lossy(text).into_owned()),
        Value::SimpleString(text) => Ok(text.clone()),
        _ => Err(unexpected(value)),
    }
}

pub(super) fn session_id(value: &Value) -> Result<SessionId> {
    session_id_of(&string(value)?)
}

pub(super) fn session_id_of(text: &str) -> Result<SessionId> {
    SessionId::listed(text).ok_or_else(|| unexpected(text))
}

pub(super) fn unexpected(reply: &(impl std::fmt::Debug + ?Sized)) -> Error {
    Error::internal(format!("a script of sessions answered {reply:?}"))
}
