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

use serde::{Deserialize, Serialize};
use tidegate::random::Random;

use super::digest::Digest;
use super::group::{body, slug};
use super::types::Seq;
use crate::error::Result;
use crate::formats::{Entry, History, Problem, Problems};
use crate::rule::Rule;

/// Numbers stay below this: they are exact in every client's JSON.
const MAX_NUMBER: u64 = 1 << 53;

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
    pub(super) fn new() -> Self {
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

/// A rule of a file as it would be if it were new.
#[derive(Debug)]
pub(super) struct Candidate {
    pub(super) line: u64,
    /// Whether its id is one that was made here.
    pub(super) is_made: bool,
    pub(super) rule: Rule,
    pub(super) body: String,
    pub(super) hash: Digest,
}

impl Candidate {
    /// Checks what a file says of a rule.
    pub(super) fn of(
        entry: Entry,
        now_ms: u64,
        random: &Random,
        warnings: &mut Problems,
    ) -> Result<Result<Self, Problem>> {
        let Entry { line, draft, history, warnings: own } = entry;
        let (draft, checked) = match draft.check(now_ms) {
            Ok(checked) => checked,
            Err(invalid) => return Ok(Err(Problem::of(line, invalid))),
        };
        if let Err(problem) = check(line, &history) {
            return Ok(Err(problem));
        }
        for message in own.into_iter().chain(checked.iter().map(ToString::to_string)) {
            warnings.push(Problem::new(line, message));
        }
        let is_made = draft.id.is_none();
        let rule = Rule {
            id: draft.id.unwrap_or_else(|| slug(random)),
            terms: draft.terms,
            clicks: history.clicks.unwrap_or(0),
            version: history.version.unwrap_or(1),
            created_at: history.created_at.unwrap_or(now_ms),
            updated_at: history.updated_at.unwrap_or(now_ms),
        };
        let body = body(&rule)?;
        let hash = Digest::of(&rule.id, rule.version, &body);
        Ok(Ok(Self { line, is_made, rule, body, hash }))
    }
}

fn check(line: u64, history: &History) -> Result<(), Problem> {
    let History { version, created_at, updated_at, clicks } = *history;
    if version == Some(0) {
        return Err(Problem::field(line, "version", "0 is none: 1 or more"));
    }
    let all =
        [("version", version), ("createdAt", created_at), ("updatedAt", updated_at), ("clicks", clicks)];
    match all.into_iter().find(|(_, number)| number.is_some_and(|it| it >= MAX_NUMBER)) {
        Some((field, _)) => {
            Err(Problem::field(line, field, format!("it is too large: less than {MAX_NUMBER} is allowed")))
        }
        None => Ok(()),
    }
}

/// What the canonical JSON of a rule of that id says of its terms: what is equal there is equal, whatever the version.
pub(super) fn terms_of<'a>(body: &'a str, id: &str) -> Option<&'a str> {
    let rest = body.strip_prefix(&*start(id)?)?;
    // Behind it there are only numbers.
    Some(&rest[..rest.rfind(",\"version\":")?])
}

/// The canonical JSON of a rule with another id.
pub(super) fn renamed(body: &str, id: &str, new: &str) -> Option<String> {
    Some(start(new)? + body.strip_prefix(&*start(id)?)?)
}

fn start(id: &str) -> Option<String> {
    Some(format!("{{\"id\":{},", serde_json::to_string(id).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rule::Terms;

    #[test]
    fn outcomes_are_called_the_same_everywhere() {
        for outcome in
            [ImportOutcome::Written, ImportOutcome::Unchanged, ImportOutcome::DryRun, ImportOutcome::Refused]
        {
            assert_eq!(serde_json::to_value(outcome).unwrap(), outcome.as_str());
        }
    }

    #[test]
    fn a_body_is_taken_apart_without_parsing_it() {
        let mut rule = Rule {
            id: "a\",\"b".to_owned(),
            terms: Terms::new("/a", "/b"),
            clicks: 0,
            version: 1,
            created_at: 2,
            updated_at: 3,
        };
        rule.terms.note = ",\"version\":7".to_owned();
        let first = body(&rule).unwrap();
        let terms = terms_of(&first, &rule.id).unwrap().to_owned();
        assert!(terms.starts_with("\"host\":") && terms.ends_with('"'), "{terms}");
        (rule.version, rule.updated_at) = (5, 6);
        assert_eq!(terms_of(&body(&rule).unwrap(), &rule.id), Some(&*terms));
        let other = renamed(&first, &rule.id, "ü\\").unwrap();
        (rule.version, rule.updated_at, rule.id) = (1, 3, "ü\\".to_owned());
        assert_eq!(other, body(&rule).unwrap());
    }
}
