//! What scripts of runs answer.

use compact_str::CompactString;

use super::codes::{attempt, state};
use crate::clock::Timestamp;
use crate::error::Result;
use crate::page::{Cursor, Part};
use crate::run::types::{Failure, Listed, Run, Task};
use crate::store::redis::{Fields, Replies};

pub(super) const REPLIES: Replies = Replies("runs");

/// A run as it is.
pub(super) fn run(id: &str, fields: &mut Fields<'_>) -> Result<Run> {
    let (state, attempt) = (state(fields)?, attempt(fields)?);
    let (started_at, attempt_started_at, updated_at) = (fields.time()?, fields.time()?, fields.time()?);
    let (finished_at, ends_at, total) = (time_if_any(fields)?, fields.time()?, number_if_any(fields)?);
    let fields = fields.each(|it| Ok((it.text()?, it.text()?)))?.into_iter().collect();
    Ok(Run {
        id: id.to_owned(),
        state,
        attempt,
        started_at,
        attempt_started_at,
        updated_at,
        finished_at,
        ends_at,
        total,
        fields,
    })
}

/// A run in a list, and its place there.
pub(super) fn listed(fields: &mut Fields<'_>) -> Result<(Cursor, Listed)> {
    let listed = Listed {
        id: fields.text()?,
        state: state(fields)?,
        attempt: attempt(fields)?,
        started_at: fields.time()?,
        updated_at: fields.time()?,
        finished_at: time_if_any(fields)?,
        ends_at: fields.time()?,
        total: number_if_any(fields)?,
    };
    let place = Cursor { at_ms: listed.started_at.as_millis(), member: listed.id.as_str().into() };
    Ok((place, listed))
}

pub(super) fn task(fields: &mut Fields<'_>) -> Result<Task> {
    Ok(Task {
        name: fields.text()?,
        attempt: attempt(fields)?,
        started_at: fields.time()?,
        finished_at: Some(fields.number()?).filter(|ms| *ms > 0).map(Timestamp::from_millis),
    })
}

/// A failure, and its place in a list of its run's.
pub(super) fn failure(fields: &mut Fields<'_>) -> Result<(Cursor, Failure)> {
    let failure = Failure {
        item: fields.text()?,
        reason: fields.text()?,
        count: fields.number()?,
        first_at: fields.time()?,
        last_at: fields.time()?,
        to_retry: fields.flag()?,
    };
    Ok((Cursor { at_ms: failure.last_at.as_millis(), member: failure.item.as_str().into() }, failure))
}

/// What one partition has behind a place, and how far it has looked.
pub(super) fn part<T>(
    fields: &mut Fields<'_>,
    read: impl Fn(&mut Fields<'_>) -> Result<(Cursor, T)>,
) -> Result<Part<T>> {
    let is_more = fields.flag()?;
    let (at_ms, member) = (fields.integer()?, fields.bytes()?);
    // Anybody may have written to an index: what is no text is the last before its time.
    let member = CompactString::from_utf8(member).unwrap_or_default();
    let looked_to = is_more.then(|| Cursor { at_ms: at_ms.max(0) as u64, member });
    Ok(Part { found: fields.each(read)?, looked_to })
}

pub(super) fn number_if_any(fields: &mut Fields<'_>) -> Result<Option<u64>> {
    fields.integer().map(|number| u64::try_from(number).ok())
}

fn time_if_any(fields: &mut Fields<'_>) -> Result<Option<Timestamp>> {
    Ok(number_if_any(fields)?.map(Timestamp::from_millis))
}
