//! What scripts of the limit answer.

use redis::Value;

use super::super::reservation::{Reservation, ReservationState};
use super::super::verdict::{Outcome, Verdict};
use super::unexpected;
use crate::error::Result;

/// What a script says of one item.
pub(super) enum Reply {
    /// What was decided, and the window in seconds if it is not the limit's own.
    Verdict(Verdict, Option<u64>),
    /// Refused after a loss, for so long.
    Held(u64),
    /// The store's time: ours is off.
    Elsewhere(u64),
    /// Send the override's key along.
    WantsOverride,
}

/// What a script says of a reservation.
pub(super) enum Booked {
    Reservation(Reservation),
    /// The id was used for this cost.
    OtherCost(u64),
    TooMany,
    Unknown,
    Other(Reply),
}

pub(super) fn booked(value: &Value) -> Result<Booked> {
    let Value::Array(items) = value else { return Err(unexpected(value)) };
    let number = |at: usize| match items.get(at) {
        Some(Value::Int(number)) => Ok(*number as u64),
        _ => Err(unexpected(value)),
    };
    match (number(0)?, items.len()) {
        (6, 5) => {
            let state = match number(2)? {
                0 => ReservationState::Pending,
                1 => ReservationState::Committed,
                2 => ReservationState::Released,
                3 => ReservationState::Lapsed,
                _ => return Err(unexpected(value)),
            };
            let (cost, expires_in_ms, is_new) = (number(1)?, number(3)?, number(4)? == 1);
            Ok(Booked::Reservation(Reservation { cost, state, expires_in_ms, is_new }))
        }
        (7, 2) => Ok(Booked::OtherCost(number(1)?)),
        (8, 1) => Ok(Booked::TooMany),
        (9, 1) => Ok(Booked::Unknown),
        _ => reply(value).map(Booked::Other),
    }
}

/// Whether a script has done nothing, for want of other keys.
pub(super) fn wanted_retry(value: &Value) -> Option<Reply> {
    let Value::Array(items) = value else { return None };
    match items[..] {
        [Value::Int(3), Value::Int(store_ms)] => Some(Reply::Elsewhere(store_ms as u64)),
        [Value::Int(4)] => Some(Reply::WantsOverride),
        _ => None,
    }
}

pub(super) fn reply(value: &Value) -> Result<Reply> {
    let Value::Array(items) = value else { return Err(unexpected(value)) };
    let mut numbers = [0_u64; 7];
    if items.len() > numbers.len() {
        return Err(unexpected(value));
    }
    for (number, item) in numbers.iter_mut().zip(items) {
        *number = match item {
            Value::Int(it) => *it as u64,
            // The one number that is not whole, as it is in memory.
            Value::BulkString(packed) => {
                let bits = packed.first_chunk().filter(|_| packed.len() == 8);
                u64::from_le_bytes(*bits.ok_or_else(|| unexpected(value))?)
            }
            _ => return Err(unexpected(value)),
        };
    }
    let [code, capacity, remaining, reset_after_ms, a, b, _] = numbers;
    let seconds = matches!(items.len(), 5 | 7).then(|| numbers[items.len() - 1]);
    let verdict =
        |outcome| Ok(Reply::Verdict(Verdict { outcome, capacity, remaining, reset_after_ms, a, b }, seconds));
    match (code, items.len()) {
        (1, 6 | 7) => verdict(Outcome::Admitted),
        (1, 4 | 5) => verdict(Outcome::Fits),
        (0, 6 | 7) if a as i64 == -1 => verdict(Outcome::NeverFits),
        (0, 6 | 7) => verdict(Outcome::Rejected),
        (2, 2) => Ok(Reply::Held(capacity)),
        (3, 2) => Ok(Reply::Elsewhere(capacity)),
        (4, 1) => Ok(Reply::WantsOverride),
        (5, 6) => verdict(if b == 1 { Outcome::LetThrough } else { Outcome::HeldBack }),
        _ => Err(unexpected(value)),
    }
}
