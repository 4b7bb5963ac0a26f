//! Refusals of calls on runs, as problems.

use serde_json::json;
use tidegate::run::Refusal;

use crate::http::{Kind, Problem};

const UNKNOWN: Kind = Kind::new(404, "run-unknown", "No such run");
const UNKNOWN_TASK: Kind = Kind::new(404, "run-unknown-task", "No such task");
const ENDED: Kind = Kind::new(409, "run-ended", "Run ended");
const STALE: Kind = Kind::new(409, "run-stale", "Another attempt");
const LIVE: Kind = Kind::new(409, "run-live", "Run live");
const REFUSED: Kind = Kind::new(409, "run-refused", "Run refused");
const FULL: Kind = Kind::new(429, "run-full", "Too many processed items");
const TOO_MANY_FIELDS: Kind = Kind::new(429, "run-too-many-fields", "Too many fields");
const TOO_MANY_TASKS: Kind = Kind::new(429, "run-too-many-tasks", "Too many tasks");
const TOO_MANY_RUNS: Kind = Kind::new(429, "runs-full", "Too many runs");

pub(super) const IF_UNKNOWN: &[Kind] = &[UNKNOWN];
pub(super) const OF_START: &[Kind] = &[ENDED, TOO_MANY_RUNS];
pub(super) const OF_CHANGE: &[Kind] = &[UNKNOWN, ENDED, STALE];
pub(super) const OF_UPDATE: &[Kind] = &[UNKNOWN, ENDED, STALE, TOO_MANY_FIELDS];
pub(super) const OF_RETRY: &[Kind] = &[UNKNOWN, ENDED, LIVE, STALE];
pub(super) const OF_ANY: &[Kind] = &[UNKNOWN, STALE];
pub(super) const OF_PROCESSED: &[Kind] = &[UNKNOWN, ENDED, STALE, FULL];
pub(super) const OF_TASK_STARTED: &[Kind] = &[UNKNOWN, ENDED, STALE, TOO_MANY_TASKS];
pub(super) const OF_TASK_FINISHED: &[Kind] = &[UNKNOWN, UNKNOWN_TASK, ENDED, STALE];

impl From<Refusal> for Problem {
    fn from(refusal: Refusal) -> Self {
        let kind = match refusal {
            Refusal::Unknown => UNKNOWN,
            Refusal::Ended { .. } => ENDED,
            Refusal::Stale { .. } => STALE,
            Refusal::Live { .. } => LIVE,
            Refusal::Full { .. } => FULL,
            Refusal::UnknownTask => UNKNOWN_TASK,
            Refusal::TooManyFields => TOO_MANY_FIELDS,
            Refusal::TooManyTasks => TOO_MANY_TASKS,
            Refusal::TooManyRuns => TOO_MANY_RUNS,
            // Whatever else there will be.
            _ => REFUSED,
        };
        let members = match refusal {
            Refusal::Ended { state, attempt } | Refusal::Live { state, attempt } => {
                json!({"state": state.as_str(), "attempt": attempt.get()})
            }
            Refusal::Stale { current } => json!({"attempt": current.get()}),
            Refusal::Full { taken } => json!({"taken": taken}),
            _ => json!({}),
        };
        Self::refused(kind, refusal.as_str(), refusal.to_string()).with_members(members)
    }
}
