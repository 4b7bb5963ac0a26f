//! Changes, what becomes of them, and where the database stands.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::digest::Digest;
use crate::rule::{Draft, Invalid, Rule, State, Terms, Warning};

/// The number of a change: from 1 on, without gaps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Seq(pub u64);

impl Seq {
    /// The one behind it.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

impl fmt::Display for Seq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A change that somebody asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// A new rule. One of that id that says the same is what a repeated request finds.
    Create(Draft),
    /// The rule of that id from now on, whether there is one or not.
    Replace {
        /// Which.
        id: String,
        /// What it says.
        terms: Terms,
        /// If that is so.
        condition: Condition,
    },
    /// The rule of that id with some of it changed.
    Patch {
        /// Which.
        id: String,
        /// What changes.
        patch: Patch,
        /// If that is so.
        condition: Condition,
    },
    /// No rule of that id.
    Delete {
        /// Which.
        id: String,
        /// If that is so.
        condition: Condition,
    },
}

impl Change {
    /// Which rule it is about, unless its id is to be made.
    pub fn id(&self) -> Option<&str> {
        match self {
            Self::Create(draft) => draft.id.as_deref(),
            Self::Replace { id, .. } | Self::Patch { id, .. } | Self::Delete { id, .. } => Some(id),
        }
    }
}

/// What a change is made under.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Condition {
    /// Whatever there is.
    #[default]
    None,
    /// There is a rule, whichever version of it.
    Exists,
    /// There is none.
    Absent,
    /// It is of that version.
    Version(u64),
}

/// What changes of a rule, as JSON: fields that are there are set, and `null` takes one away.
pub type Patch = serde_json::Map<String, serde_json::Value>;

/// A change that was made.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Written {
    /// The rule as it is now, or as it was last if it was deleted.
    pub rule: Rule,
    /// The change's number; none if everything was as asked for.
    pub seq: Option<Seq>,
    /// Whether the rule is new.
    pub is_new: bool,
    /// What is allowed, and probably not meant.
    pub warnings: Vec<Warning>,
}

/// Why a change was not made.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refusal {
    /// There is no rule of that id.
    Unknown,
    /// There is one already.
    Exists,
    /// The host and the path are another rule's.
    PathTaken {
        /// Whose.
        by: String,
    },
    /// It is of another version than was said.
    Changed {
        /// Which.
        version: u64,
    },
    /// A rule may not be so.
    Invalid(Invalid),
}

impl Refusal {
    /// The word for it.
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Unknown => "unknown",
            Self::Exists => "exists",
            Self::PathTaken { .. } => "path_taken",
            Self::Changed { .. } => "changed",
            Self::Invalid(_) => "invalid",
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown => f.write_str("there is no rule of that id"),
            Self::Exists => f.write_str("there is a rule of that id already"),
            Self::PathTaken { by } => write!(f, "the rule {by:?} is for that host and path already"),
            Self::Changed { version } => write!(f, "the rule was changed: it is of version {version}"),
            Self::Invalid(invalid) => invalid.fmt(f),
        }
    }
}

/// What a change became.
pub type Outcome = Result<Written, Refusal>;

/// Where the database stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Position {
    /// Changes when the database may have gone back.
    pub epoch: String,
    /// The last change.
    pub seq: Seq,
    /// Rules.
    pub count: u64,
    /// Of all of them.
    pub digest: Digest,
    /// The database's time, in milliseconds.
    #[serde(rename = "time")]
    pub time_ms: u64,
}

/// Which rule answers a request, as of one state of the database.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Resolution {
    /// It, if there is one.
    pub rule: Option<Rule>,
    /// Rules that come before it and are passed over, the nearest first: they are turned off or have not started. Who
    /// judges them later than now knows by them whether one has started since.
    pub passed: Vec<Rule>,
    /// Where the database stood.
    pub position: Position,
}

impl Resolution {
    /// What a database elsewhere has said.
    pub fn new(rule: Option<Rule>, passed: Vec<Rule>, position: Position) -> Self {
        Self { rule, passed, position }
    }

    /// The rule that answers at that time, which is not before that of the position, and how it is doing.
    pub(crate) fn at(&self, now_ms: u64) -> Option<(&Rule, State)> {
        let all = self.passed.iter().chain(&self.rule).map(|rule| (rule, rule.state(now_ms)));
        all.into_iter().find(|(_, state)| !matches!(state, State::Disabled | State::Scheduled))
    }
}

/// A change as the log has it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LogRow {
    /// Its number.
    pub seq: Seq,
    /// What it was about; none if it was an import, of many.
    pub id: Option<String>,
    /// Where the rule was before; none if it is new.
    pub before: Option<Place>,
    /// The rule after; none if it is gone.
    pub after: Option<Logged>,
    /// The hash of what left.
    pub left: Digest,
    /// The hash of what came.
    pub came: Digest,
    /// Of all rules after it.
    pub digest: Digest,
    /// How many rules there are after it.
    pub count: u64,
    /// When, in milliseconds of the database's time.
    pub at_ms: u64,
}

impl LogRow {
    /// Of all rules before it: whoever has applied all changes up to this one has that.
    pub fn digest_before(&self) -> Digest {
        self.digest.without(self.came).with(self.left)
    }
}

/// What a rule is found by.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Place {
    /// As a rule has it.
    pub host: String,
    /// As a rule has it.
    pub path: String,
}

impl Place {
    /// That of a rule.
    pub fn of(terms: &Terms) -> Self {
        Self { host: terms.host.clone(), path: terms.path.clone() }
    }
}

/// A rule in the log.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Logged {
    /// What it is found by.
    pub place: Place,
    /// Its canonical JSON.
    pub body: String,
}
