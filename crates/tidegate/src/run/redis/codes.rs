//! The numbers by which scripts of runs and this crate understand each other: `codes.lua` has the
//! same names for them.

use super::super::types::{Attempt, Granted, Refusal, RunState};
use crate::error::Result;
use crate::store::redis::Fields;

const DONE: i64 = 0;
const UNKNOWN: i64 = 1;
const UNKNOWN_TASK: i64 = 2;
const TOO_MANY_FIELDS: i64 = 3;
const TOO_MANY_TASKS: i64 = 4;
const TOO_MANY_RUNS: i64 = 5;
const ENDED: i64 = 6;
const LIVE: i64 = 7;
const STALE: i64 = 8;
const FULL: i64 = 9;

/// Whether it was done; then what comes behind is the answer.
pub(super) fn granted(fields: &mut Fields<'_>) -> Result<Granted<()>> {
    let refusal = match fields.integer()? {
        DONE => return Ok(Ok(())),
        UNKNOWN => Refusal::Unknown,
        UNKNOWN_TASK => Refusal::UnknownTask,
        TOO_MANY_FIELDS => Refusal::TooManyFields,
        TOO_MANY_TASKS => Refusal::TooManyTasks,
        TOO_MANY_RUNS => Refusal::TooManyRuns,
        ENDED => Refusal::Ended { state: state(fields)?, attempt: attempt(fields)? },
        LIVE => Refusal::Live { state: state(fields)?, attempt: attempt(fields)? },
        STALE => Refusal::Stale { current: attempt(fields)? },
        FULL => Refusal::Full { taken: fields.number()? },
        _ => return Err(fields.unexpected()),
    };
    Ok(Err(refusal))
}

pub(super) fn state(fields: &mut Fields<'_>) -> Result<RunState> {
    RunState::named(&fields.text()?).ok_or_else(|| fields.unexpected())
}

pub(super) fn attempt(fields: &mut Fields<'_>) -> Result<Attempt> {
    fields.number().map(Attempt)
}

#[cfg(test)]
mod tests {
    #[test]
    fn scripts_have_the_same_codes() {
        let lua = include_str!("../codes.lua");
        crate::store::redis::codes::assert_alike(include_str!("codes.rs"), lua);
    }
}
