//! What scripts of hot pages answer.

use redis::Value;

use super::super::edit::{EventCounts, EventKind, Recorded};
use super::super::memory::Effects;
use super::super::position::{Happened, Position};
use super::codes::{
    ACTIVITY, ADDED, COUNTED, DUPLICATE, EXPIRED, LATER, PROMOTED, REJECTED, REMEMBERED, TOO_LATE,
};
use crate::clock::Timestamp;
use crate::error::{Error, Result};
use crate::store::redis::{Fields, Replies};

pub(super) const REPLIES: Replies = Replies("hot pages");

/// What became of an edit, or of counts of a page.
pub(super) fn recorded(value: &Value) -> Result<(Recorded, Effects)> {
    let (answer, replaced, events) = match value {
        Value::Int(answer) => (*answer, String::new(), None),
        value => {
            let mut fields = REPLIES.list(value)?;
            let (answer, replaced) = (fields.integer()?, fields.text()?);
            (answer, replaced.to_string(), event_counts(fields)?)
        }
    };
    let (code, is_activity, expired) = (answer % ACTIVITY, answer % EXPIRED >= ACTIVITY, answer / EXPIRED);
    let (recorded, effects) = recorded_as(code, &replaced).ok_or_else(|| REPLIES.unexpected(value))?;
    let (activity, expired) = (u64::from(is_activity), expired as u64);
    Ok((recorded, Effects { activity, expired, events, ..effects }))
}

/// What became of several edits of a page; nothing of those that are left for later.
pub(super) fn recorded_several(value: &Value, edits: usize) -> Result<(Vec<Option<Recorded>>, Effects)> {
    if let Value::Int(ADDED) = value {
        return Ok((vec![Some(Recorded::Added); edits], Effects::default()));
    }
    let mut fields = REPLIES.list(value)?;
    let (activity, expired) = (fields.number()?, fields.number()?);
    let (codes, replaced) = (fields.text()?, fields.text()?);
    let mut effects = Effects { activity, expired, ..Effects::default() };
    let mut recorded = Vec::with_capacity(edits);
    let codes: Vec<i64> = codes.bytes().map(|code| i64::from(code) - i64::from(b'0')).collect();
    if codes.len() != edits {
        return Err(REPLIES.unexpected(value));
    }
    for code in codes {
        if code == LATER {
            recorded.push(None);
            continue;
        }
        let (one, its) = recorded_as(code, &replaced).ok_or_else(|| REPLIES.unexpected(value))?;
        effects.promoted += its.promoted;
        effects.rejected += its.rejected;
        recorded.push(Some(one));
    }
    effects.events = event_counts(fields)?.filter(|counts| counts.iter().any(|count| *count > 0));
    Ok((recorded, effects))
}

/// What a code says, and what it did.
fn recorded_as(code: i64, replaced: &str) -> Option<(Recorded, Effects)> {
    let recorded = match code {
        REMEMBERED => Recorded::Remembered,
        PROMOTED => {
            Recorded::Promoted { replaced: Some(replaced.to_owned()).filter(|page| !page.is_empty()) }
        }
        ADDED => Recorded::Added,
        REJECTED => Recorded::Rejected,
        DUPLICATE => Recorded::Duplicate,
        TOO_LATE => Recorded::TooLate,
        COUNTED => Recorded::Counted,
        _ => return None,
    };
    let (promoted, rejected) = (u64::from(code == PROMOTED), u64::from(code == REJECTED));
    Some((recorded, Effects { promoted, rejected, ..Effects::default() }))
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
