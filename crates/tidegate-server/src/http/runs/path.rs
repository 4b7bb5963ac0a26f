//! Who is meant by a path, and in which attempt.

use schemars::JsonSchema;
use serde::Deserialize;
use tidegate::Key;
use tidegate::bounds::MAX_COUNT;
use tidegate::run::{Attempt, Hour};

use super::api::attempt;
use crate::api::{key, pattern};
use crate::http::{Parameter, Result, query};

/// `…/runs/{run}`.
#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct OfRun {
    #[schemars(extend("pattern" = pattern::NAME))]
    pub(super) space: String,
    #[schemars(length(min = 1, max = 255))]
    pub(super) run: String,
}

impl OfRun {
    pub(super) fn key(&self) -> Result<Key<'_>> {
        Ok(key("a run", &self.run)?)
    }
}

/// `…/runs/{run}/tasks/{task}`.
#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct OfTask {
    #[schemars(extend("pattern" = pattern::NAME))]
    pub(super) space: String,
    #[schemars(length(min = 1, max = 255))]
    pub(super) run: String,
    #[schemars(length(min = 1, max = 255))]
    pub(super) task: String,
}

impl OfTask {
    pub(super) fn key(&self) -> Result<Key<'_>> {
        Ok(key("a run", &self.run)?)
    }

    pub(super) fn task(&self) -> Result<Key<'_>> {
        Ok(key("a task", &self.task)?)
    }
}

/// `…/failures/{hour}`.
#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct OfHour {
    #[schemars(extend("pattern" = pattern::NAME))]
    pub(super) space: String,
    #[schemars(extend("pattern" = pattern::HOUR))]
    hour: String,
}

impl OfHour {
    pub(super) fn hour(&self) -> Result<Hour> {
        Ok(self.hour.parse()?)
    }
}

const ATTEMPT: Parameter = Parameter::integer(
    "attempt",
    0..=MAX_COUNT,
    None,
    "the attempt that it belongs to; the current one unless given",
);

query! {
    /// The attempt that is meant, if it is one in particular.
    struct InAttempt from(query) {
        ATTEMPT => attempt: Option<Attempt> = query.integer("attempt")?.map(attempt).transpose()?,
    }
}
