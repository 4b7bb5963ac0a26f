//! What scripts of hot pages answer.

use redis::Value;

use super::super::edit::{EventCounts, EventKind, Recorded};
use super::super::memory::Effects;
use super::super::position::{Happened, Position};
use super::codes::{ACTIVITY, ADDED, COUNTED, DUPLICATE, EXPIRED, PROMOTED, REJECTED, REMEMBERED, TOO_LATE};
use crate::clock::Timestamp;
use crate::error::{Error, Result};
use crate::store::redis::{Fields, Replies};

pub(super) const REPLIES: Replies = Replies("hot pages");

/// What became of an edit.
pub(super) fn recorded(value: &Value) -> Result<(Recorded, Effects)> {
    let (answer, replaced, events) = match value {
        Value::Int(answer) => (*answer, None, None),
        value => {
            let mut fields = REPLIES.list(value)?;
            let (answer, replaced) = (fields.integer()?, fields.text()?);
            (answer, Some(replaced).filter(|page| !page.is_empty()), event_counts(fields)?)
        }
    };
    let (code, is_activity, expired) = (answer % ACTIVITY, answer % EXPIRED >= ACTIVITY, answer / EXPIRED);
    let recorded = match code {
        REMEMBERED => Recorded::Remembered,
        PROMOTED => Recorded::Promoted { replaced },
        ADDED => Recorded::Added,
        REJECTED => Recorded::Rejected,
        DUPLICATE => Recorded::Duplicate,
        TOO_LATE => Recorded::TooLate,
        COUNTED => Recorded::Counted,
        _ => return Err(REPLIES.unexpected(value)),
    };
    let effects = Effects {
        activity: u64::from(is_activity),
        promoted: u64::from(code == PROMOTED),
        rejected: u64::from(code == REJECTED),
        expired: expired as u64,
        events,
    };
    Ok((recorded, effects))
}

/// How many events of each kind there were: all that is left of a reply.
pub(super) fn event_counts(mut fields: Fields<'_>) -> Result<Option<Box<EventCounts>>> {
    let mut counts = EventCounts::default();
    for count in &mut counts {
        *count = fields.integer()? as u32;
    }
    fields.end()?;
    Ok(Some(Box::new(counts)))
}

/// An event of a life: when it is none of ours, or of a program that knows more than this, who
/// reads on misses it.
pub(super) fn happened(fields: &mut Fields<'_>, life: u64) -> Result<Happened> {
    let position = position(fields, life)?;
    let (kind, page) = (EventKind::named(&utf8(fields)?), utf8(fields)?);
    let (edits, at) = (utf8(fields)?.parse().ok(), utf8(fields)?.parse().ok());
    let at = at.map(Timestamp::from_millis);
    Ok(match (kind, edits, at) {
        (Some(kind), Some(edits), Some(at)) => Happened { position, kind, page, edits, at },
        _ => Happened::missed(position, 1, at.unwrap_or_default()),
    })
}

pub(super) fn position(fields: &mut Fields<'_>, life: u64) -> Result<Position> {
    let position = Position::parse(&utf8(fields)?).ok_or_else(|| fields.unexpected())?;
    Ok(Position { life, ..position })
}

/// A number that is written as text.
pub(super) fn digits(fields: &mut Fields<'_>) -> Result<u64> {
    fields.text()?.parse().map_err(|_| fields.unexpected())
}

/// A text of ours.
pub(super) fn utf8(fields: &mut Fields<'_>) -> Result<String> {
    let bytes = fields.bytes()?;
    match std::str::from_utf8(bytes) {
        Ok(text) => Ok(text.to_owned()),
        Err(_) => Err(unreadable(&String::from_utf8_lossy(bytes))),
    }
}

/// Of something that nobody of ours has written.
pub(super) fn unreadable(text: &str) -> Error {
    let shown: String = text.chars().take(60).collect();
    Error::corrupt(format!("{shown:?} cannot be read"))
}
