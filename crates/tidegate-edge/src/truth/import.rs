//! Many rules at once, from a file: what can be asked for, what is told of it, and what a line of it is to be.
//!
//! A file is read into a place of its own, checked, and merged in one transaction that is one change: followers are told
//! to read all rules anew. What becomes of a rule in the file:
//!
//! - Its id is not in the database: it is made, with the version, times and clicks that the file has for it, or as a new
//!   one. So an export imported into an empty database is what it was.
//! - It is, and says the same: it is left alone. Its version, times and clicks are what the database says.
//! - It is, and says something else: that is its next version. When it was made and its clicks stay.
//! - It has no id: it is the rule of its host and path, if there is one that the file does not name otherwise, or a new
//!   one with an id that is made. So the same list can be imported again and again.
//!
//! A host and a path may change from one rule to another, or be exchanged, within a file. Where one belongs to a rule
//! that the file does not have, that is a problem, as are two lines for one id, or for one host and path: the first
//! stands. If there is any problem nothing is written, or with [`partial`](ImportOptions::partial) all but these.

mod body;
mod candidate;
mod plan;

use serde::{Deserialize, Serialize};

pub(super) use self::candidate::Candidate;
pub(super) use self::plan::{Changed, Plan};
use super::types::Seq;
use crate::formats::Problems;

/// What becomes of rules that a file does not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ImportMode {
    /// They stay.
    #[default]
    Merge,
    /// They are deleted. A file without any rule is a problem then.
    Replace,
}

/// How a file is imported.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct ImportOptions {
    /// What becomes of rules that it does not have.
    pub mode: ImportMode,
    /// Whether what is good is written though something is not. Not with [`ImportMode::Replace`], which would delete
    /// the rules of bad lines.
    pub partial: bool,
    /// Whether only to tell what would be.
    pub dry_run: bool,
}

/// What an import is at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum ImportStep {
    /// The file is read.
    Reading,
    /// It is compared with itself and with the database.
    Checking,
    /// It is written. Other changes wait.
    Writing,
}

/// How far an import is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct ImportProgress {
    /// What it is at.
    pub step: ImportStep,
    /// Lines that were read.
    pub lines: u64,
    /// Bytes of them.
    pub bytes: u64,
}

/// What is told of progress.
pub(super) type OnProgress = Box<dyn FnMut(ImportProgress) + Send>;

/// What became of an import as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ImportOutcome {
    /// It was written, as one change.
    Written,
    /// All was so already: nothing was written.
    Unchanged,
    /// Only what would be was asked for.
    DryRun,
    /// There are problems: nothing was written.
    Refused,
}

impl ImportOutcome {
    /// What it is called.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Written => "written",
            Self::Unchanged => "unchanged",
            Self::DryRun => "dry_run",
            Self::Refused => "refused",
        }
    }
}

/// What became of an import. If it was not written, counts are of what would have been, without what has problems.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ImportReport {
    /// As a whole.
    pub outcome: ImportOutcome,
    /// The change's number, if there was one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seq: Option<Seq>,
    /// Lines that were read.
    pub lines: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// Rules in the file that may be.
    pub rules: u64,
    /// Rules that are new.
    pub created: u64,
    /// Rules that say something else.
    pub changed: u64,
    /// Rules that were so already.
    pub unchanged: u64,
    /// Rules that the file does not have.
    pub deleted: u64,
    /// What in the file becomes no rule.
    pub problems: Problems,
    /// What is allowed, and probably not meant.
    pub warnings: Problems,
}

impl ImportReport {
    fn new() -> Self {
        Self {
            outcome: ImportOutcome::Refused,
            seq: None,
            lines: 0,
            bytes: 0,
            rules: 0,
            created: 0,
            changed: 0,
            unchanged: 0,
            deleted: 0,
            problems: Problems::default(),
            warnings: Problems::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outcomes_are_called_the_same_everywhere() {
        for outcome in
            [ImportOutcome::Written, ImportOutcome::Unchanged, ImportOutcome::DryRun, ImportOutcome::Refused]
        {
            assert_eq!(serde_json::to_value(outcome).unwrap(), outcome.as_str());
        }
    }
}
