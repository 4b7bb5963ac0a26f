//! What runs are made of, and what calls on them answer.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use crate::clock::Timestamp;
use crate::error::{Error, Result};

/// How a run stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum RunState {
    /// It was started.
    Running,
    /// It is at work.
    Processing,
    /// It waits, for whatever its workers wait for.
    Paused,
    /// It came to a good end.
    Succeeded,
    /// It came to a bad end.
    Failed,
    /// Somebody ended it.
    Cancelled,
}

impl RunState {
    /// All of them, the live ones first.
    pub const ALL: [Self; 6] =
        [Self::Running, Self::Processing, Self::Paused, Self::Succeeded, Self::Failed, Self::Cancelled];

    /// Whether it is one that a run ends in: it is left by a retry alone.
    pub fn is_terminal(self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed | Self::Cancelled)
    }

    /// A word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Processing => "processing",
            Self::Paused => "paused",
            Self::Succeeded => "succeeded",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }

    /// The one that is called so.
    pub(super) fn named(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == text)
    }

    /// Those that are meant, for an error to name.
    fn words(which: impl Fn(Self) -> bool) -> String {
        let words: Vec<_> = Self::ALL.into_iter().filter(|it| which(*it)).map(Self::as_str).collect();
        words.join(", ")
    }
}

impl fmt::Display for RunState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for RunState {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::named(text).ok_or_else(|| {
            let start: String = text.chars().take(40).collect();
            Error::invalid(format!("{start:?} is no state of a run: {} are", Self::words(|_| true)))
        })
    }
}

/// Whether a run can be ended in this state.
pub(super) fn check_terminal(state: RunState) -> Result<()> {
    if state.is_terminal() {
        return Ok(());
    }
    let allowed = RunState::words(RunState::is_terminal);
    Err(Error::invalid(format!("a run does not end {state}: {allowed} are allowed")))
}

/// Which of its attempts a run is in: one more with each retry. Whoever names one is refused when
/// the run is in another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Attempt(pub(super) u64);

impl Attempt {
    /// The number that [`get`](Self::get) told.
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    /// The number, from 1 on.
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl fmt::Display for Attempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Whether a run can have ended in this attempt.
pub(super) fn check_retry(from: Attempt) -> Result<()> {
    match from.0 {
        0 => Err(Error::invalid("a retry from attempt 0 is not allowed: attempts count from 1 on")),
        _ => Ok(()),
    }
}

/// Why a call on a run did not do what was asked. Except for [`Full`](Self::Full), nothing was
/// changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Refusal {
    /// There is no such run (any more): start it.
    Unknown,
    /// It has come to an end: only a retry leads on.
    Ended {
        /// In which state.
        state: RunState,
        /// In which attempt.
        attempt: Attempt,
    },
    /// It is in another attempt than the one that was meant.
    Stale {
        /// The one that it is in.
        current: Attempt,
    },
    /// It has not ended, and cannot be retried.
    Live {
        /// How it stands.
        state: RunState,
        /// In which attempt.
        attempt: Attempt,
    },
    /// It has as many processed items as it may: some of them could not be added.
    Full {
        /// How many were added before, by this call.
        taken: u64,
    },
    /// It ended, went on to another attempt or was deleted while many items were being added: some of them could not
    /// be.
    Interrupted {
        /// How many were added before, by this call.
        taken: u64,
        /// What had happened to it.
        by: Interruption,
    },
    /// No such task of the run was started.
    UnknownTask,
    /// It would have more fields than it may.
    TooManyFields,
    /// It has as many tasks as it may.
    TooManyTasks,
    /// There are as many runs as there may be.
    TooManyRuns,
}

/// What may happen to a run while a call is under way that takes several steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Interruption {
    /// It was deleted, or its time was over.
    Unknown,
    /// It has come to an end.
    Ended {
        /// In which state.
        state: RunState,
        /// In which attempt.
        attempt: Attempt,
    },
    /// It is in another attempt than the one that was meant.
    Stale {
        /// The one that it is in.
        current: Attempt,
    },
}

impl From<Interruption> for Refusal {
    /// What a call is refused with that comes then.
    fn from(by: Interruption) -> Self {
        match by {
            Interruption::Unknown => Self::Unknown,
            Interruption::Ended { state, attempt } => Self::Ended { state, attempt },
            Interruption::Stale { current } => Self::Stale { current },
        }
    }
}

impl Refusal {
    /// The same of a call whose first steps were done, and added so many items.
    pub(super) fn after(self, taken: u64) -> Self {
        let by = match self {
            Self::Unknown => Interruption::Unknown,
            Self::Ended { state, attempt } => Interruption::Ended { state, attempt },
            Self::Stale { current } => Interruption::Stale { current },
            refusal => return refusal,
        };
        Self::Interrupted { taken, by }
    }

    /// A word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Interrupted { by, .. } => Self::from(by).as_str(),
            Self::Unknown => "unknown",
            Self::Ended { .. } => "ended",
            Self::Stale { .. } => "stale",
            Self::Live { .. } => "live",
            Self::Full { .. } => "full",
            Self::UnknownTask => "unknown_task",
            Self::TooManyFields => "too_many_fields",
            Self::TooManyTasks => "too_many_tasks",
            Self::TooManyRuns => "too_many_runs",
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown => f.write_str("there is no such run: start it"),
            Self::Ended { state, attempt } => {
                write!(f, "the run ended {state} in attempt {attempt}: retry it to go on")
            }
            Self::Stale { current } => write!(f, "the run is in attempt {current}"),
            Self::Live { state, attempt } => {
                write!(f, "the run is {state} in attempt {attempt}: only one that has ended is retried")
            }
            Self::Full { taken } => {
                write!(f, "the run has as many processed items as it may: {taken} of these were added")
            }
            Self::Interrupted { taken, by } => {
                write!(f, "{}; {taken} of these items were added before", Self::from(*by))
            }
            Self::UnknownTask => f.write_str("no such task of the run was started"),
            Self::TooManyFields => f.write_str("the run would have more fields than it may"),
            Self::TooManyTasks => f.write_str("the run has as many tasks as it may"),
            Self::TooManyRuns => f.write_str("there are as many runs as there may be"),
        }
    }
}

impl std::error::Error for Refusal {}

/// What was asked for of runs, or why not.
pub type Answer<T> = crate::answer::Answer<T, Refusal>;

/// The same on the way to it, where a refusal ends a step.
pub(super) type Granted<T> = std::result::Result<T, Refusal>;

/// A run that was started or retried, now or before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Started {
    /// The attempt it is in: what mutations may name.
    pub attempt: Attempt,
    /// How it stands.
    pub state: RunState,
    /// Whether this call did it.
    pub is_new: bool,
}

/// A run that was updated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Updated {
    /// The attempt it is in.
    pub attempt: Attempt,
    /// How it stands.
    pub state: RunState,
    /// When it ends unless it is updated before.
    pub ends_at: Timestamp,
}

/// A run that has come to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Finished {
    /// The attempt it ended in.
    pub attempt: Attempt,
    /// The state it ended in.
    pub state: RunState,
    /// Whether this call did it; if not it had ended so before.
    pub is_new: bool,
}

/// A run as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Run {
    /// Its id.
    pub id: String,
    /// How it stands.
    pub state: RunState,
    /// The attempt it is in.
    pub attempt: Attempt,
    /// When it was started.
    pub started_at: Timestamp,
    /// When its attempt began.
    pub attempt_started_at: Timestamp,
    /// When anything of it was last changed.
    pub updated_at: Timestamp,
    /// When it came to its end.
    pub finished_at: Option<Timestamp>,
    /// When all of it is gone, unless it is updated before.
    pub ends_at: Timestamp,
    /// How many items there are to process, if anybody has said so.
    pub total: Option<u64>,
    /// What its user has written down.
    pub fields: BTreeMap<String, String>,
}

/// A run in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// Its id.
    pub id: String,
    /// How it stands.
    pub state: RunState,
    /// The attempt it is in.
    pub attempt: Attempt,
    /// When it was started.
    pub started_at: Timestamp,
    /// When anything of it was last changed.
    pub updated_at: Timestamp,
    /// When it came to its end.
    pub finished_at: Option<Timestamp>,
    /// When all of it is gone, unless it is updated before.
    pub ends_at: Timestamp,
    /// How many items there are to process, if anybody has said so.
    pub total: Option<u64>,
}

/// What an update changes; the rest stays as it is.
///
/// ```
/// use tidegate::run::{RunState, Update};
/// let update = Update::new().state(RunState::Paused).field("reason", "quota").remove("note").total(500);
/// assert_eq!(update.fields.len(), 2);
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Update {
    /// A live state.
    pub state: Option<RunState>,
    /// Fields by name, with their new value; those without one are removed.
    pub fields: BTreeMap<String, Option<String>>,
    /// How many items there are to process.
    pub total: Option<u64>,
}

impl Update {
    /// Nothing but that the run is alive.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the state, a live one.
    #[must_use]
    pub fn state(mut self, state: RunState) -> Self {
        self.state = Some(state);
        self
    }

    /// Sets a field.
    #[must_use]
    pub fn field(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.fields.insert(name.into(), Some(value.into()));
        self
    }

    /// Removes a field.
    #[must_use]
    pub fn remove(mut self, name: impl Into<String>) -> Self {
        self.fields.insert(name.into(), None);
        self
    }

    /// Sets how many items there are to process.
    #[must_use]
    pub fn total(mut self, total: u64) -> Self {
        self.total = Some(total);
        self
    }
}

/// Items that were noted as processed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Processed {
    /// How many of them had not been before.
    pub new: u64,
    /// How many there are now.
    pub processed: u64,
}

/// A task of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Task {
    /// Its name.
    pub name: String,
    /// The attempt in which it was last started.
    pub attempt: Attempt,
    /// When that was.
    pub started_at: Timestamp,
    /// When it was finished, if it was.
    pub finished_at: Option<Timestamp>,
}

impl Task {
    /// How long it took, if it is finished.
    pub fn duration(&self) -> Option<Duration> {
        self.finished_at.map(|at| duration(self.started_at.as_millis(), at.as_millis()))
    }

    /// In the order in which they were started.
    pub(super) fn sorted(mut tasks: Vec<Self>) -> Vec<Self> {
        tasks.sort_by(|one, other| (one.started_at, &one.name).cmp(&(other.started_at, &other.name)));
        tasks
    }
}

/// From one moment to another, which may be before it if a clock was wrong.
pub(super) fn duration(from_ms: u64, to_ms: u64) -> Duration {
    Duration::from_millis(to_ms.saturating_sub(from_ms))
}

/// A task that was started, now or before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TaskStarted {
    /// When.
    pub started_at: Timestamp,
    /// Whether this call did it; if not it was started before in this attempt, and may be finished.
    pub is_new: bool,
}

/// An item that failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// The item.
    pub item: String,
    /// Why, the last time.
    pub reason: String,
    /// How often.
    pub count: u64,
    /// When it failed first.
    pub first_at: Timestamp,
    /// When it failed last.
    pub last_at: Timestamp,
    /// Whether it was not processed since.
    pub to_retry: bool,
}

/// A failure that was noted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FailureNoted {
    /// How often the item has failed.
    pub count: u64,
    /// Whether this call counted; if not it was the last one again.
    pub is_new: bool,
    /// The item that had not failed for longest, whose failures were dropped to make room.
    pub dropped: Option<String>,
}

/// An item that failed in some run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunFailure {
    /// The run.
    pub run: String,
    /// Its failure.
    pub failure: Failure,
}
