//! What scripts of the limit answer.

use redis::Value;

use super::super::lease::Grant;
use super::super::reservation::{Reservation, ReservationState};
use super::super::verdict::{Outcome, Verdict};
use super::codes::{
    ADMITTED, CHARGED, COMMITTED, ELSEWHERE, GRANTED, HELD, LAPSED, NEVER, NO_ROOM, OTHER_COST, PENDING,
    REFUSED, RELEASED, RESERVATION, SUPPRESSED, UNKNOWN, WANTS_OVERRIDE,
};
use crate::error::Result;
use crate::store::redis::{Fields, Replies};

pub(super) const REPLIES: Replies = Replies("the limit");

/// What a script says of one item.
#[derive(Debug)]
pub(super) enum Reply {
    /// What was decided, and the window in seconds if it is not the limit's own.
    Verdict(Verdict, Option<u64>),
    /// Refused after a loss, for so long.
    Held(u64),
    /// The store's time: ours is off.
    Elsewhere(u64),
    /// Send the override's key along.
    WantsOverride,
    Reservation(Reservation),
    /// The id was used for this cost.
    OtherCost(u64),
    NoRoom,
    /// There is no such reservation.
    Unknown,
    Granted(Grant),
    /// What was given back, or forgotten.
    Count(u64),
}

impl Reply {
    pub(super) fn read(value: &Value) -> Result<Self> {
        if let Value::Int(_) = value {
            return REPLIES.number(value).map(Self::Count);
        }
        let mut fields = REPLIES.list(value)?;
        let reply = match fields.integer()? {
            ADMITTED => admitted(&mut fields)?,
            REFUSED => refused(&mut fields)?,
            SUPPRESSED => suppressed(&mut fields)?,
            HELD => Self::Held(fields.number()?),
            ELSEWHERE => Self::Elsewhere(fields.number()?),
            WANTS_OVERRIDE => Self::WantsOverride,
            RESERVATION => reservation(&mut fields)?,
            OTHER_COST => Self::OtherCost(fields.number()?),
            NO_ROOM => Self::NoRoom,
            UNKNOWN => Self::Unknown,
            GRANTED => {
                let [granted, lasting_ms, capacity, free, reset_after_ms, dry_ms] = fields.numbers()?;
                Self::Granted(Grant {
                    granted,
                    lasting_ms,
                    capacity,
                    free,
                    reset_after_ms,
                    dry_ms,
                    is_held: false,
                })
            }
            _ => return Err(fields.unexpected()),
        };
        fields.end()?;
        Ok(reply)
    }
}

/// A charge has a receipt; what would be admitted has none.
fn admitted(fields: &mut Fields<'_>) -> Result<Reply> {
    let [capacity, remaining, reset_after_ms] = fields.clamped()?;
    let (outcome, [a, b]) = match fields.len() {
        0 | 1 => (Outcome::Fits, [0; 2]),
        _ => (Outcome::Admitted, fields.clamped()?),
    };
    let verdict = Verdict { outcome, capacity, remaining, reset_after_ms, a, b };
    Ok(Reply::Verdict(verdict, seconds(fields)?))
}

fn refused(fields: &mut Fields<'_>) -> Result<Reply> {
    let [capacity, remaining, reset_after_ms] = fields.clamped()?;
    let (outcome, a, b) = match [fields.integer()?, fields.integer()?] {
        [NEVER, _] => (Outcome::NeverFits, 0, 0),
        [retry_after_ms, free] => (Outcome::Rejected, retry_after_ms.max(0) as u64, free.max(0) as u64),
    };
    let verdict = Verdict { outcome, capacity, remaining, reset_after_ms, a, b };
    Ok(Reply::Verdict(verdict, seconds(fields)?))
}

fn suppressed(fields: &mut Fields<'_>) -> Result<Reply> {
    let [capacity, remaining, reset_after_ms] = fields.clamped()?;
    // The one number that is not whole, as it is in memory.
    let factor: [u8; 8] = fields.bytes()?.try_into().map_err(|_| fields.unexpected())?;
    let outcome = if fields.flag()? { Outcome::LetThrough } else { Outcome::HeldBack };
    let a = u64::from_le_bytes(factor);
    Ok(Reply::Verdict(Verdict { outcome, capacity, remaining, reset_after_ms, a, b: 0 }, None))
}

/// The window, if it is not the limit's own.
fn seconds(fields: &mut Fields<'_>) -> Result<Option<u64>> {
    if fields.is_empty() { Ok(None) } else { fields.number().map(Some) }
}

fn reservation(fields: &mut Fields<'_>) -> Result<Reply> {
    let (cost, state) = (fields.number()?, fields.integer()?);
    let state = match state {
        PENDING => ReservationState::Pending,
        // A charge is spent like what was committed.
        COMMITTED | CHARGED => ReservationState::Committed,
        RELEASED => ReservationState::Released,
        LAPSED => ReservationState::Lapsed,
        _ => return Err(fields.unexpected()),
    };
    let (expires_in_ms, is_new) = (fields.number()?, fields.flag()?);
    Ok(Reply::Reservation(Reservation { cost, state, expires_in_ms, is_new }))
}
