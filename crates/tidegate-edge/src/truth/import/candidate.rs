//! A rule of a file, checked by itself.

use tidegate::random::Random;

use crate::error::Result;
use crate::formats::{Entry, History, Problem, Problems};
use crate::rule::Rule;
use crate::truth::digest::Digest;
use crate::truth::group::{body, slug};

/// Numbers stay below this: they are exact in every client's JSON.
const MAX_NUMBER: u64 = 1 << 53;

/// A rule of a file as it would be if it were new.
#[derive(Debug)]
pub(in crate::truth) struct Candidate {
    /// Its number among those of the file, from 1 on.
    pub(in crate::truth) n: u64,
    pub(in crate::truth) line: u64,
    /// Whether its id is one that was made here.
    pub(in crate::truth) is_made: bool,
    pub(in crate::truth) rule: Rule,
    pub(in crate::truth) body: String,
    pub(in crate::truth) hash: Digest,
}

impl Candidate {
    /// Checks what a file says of a rule.
    pub(super) fn of(
        n: u64,
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
        Ok(Ok(Self { n, line, is_made, rule, body, hash }))
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
