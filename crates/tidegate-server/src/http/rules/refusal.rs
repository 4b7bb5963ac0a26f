//! Why a rule was not changed, and what is wrong with their database, as problems.

use serde_json::json;
use tidegate_edge::truth::{ImportReport, Refusal};
use tidegate_edge::{Error, ErrorKind};

use super::workers::{TOO_MANY, UNKNOWN_BLOCK};
use crate::api::rule_import::Report;
use crate::http::{Kind, Problem};

const UNKNOWN: Kind = Kind::new(404, "rule-unknown", "No such rule");
const EXISTS: Kind = Kind::new(409, "rule-exists", "Rule exists");
const PATH_TAKEN: Kind = Kind::new(409, "rule-path-taken", "Path taken");
const REFUSED: Kind = Kind::new(409, "rule-refused", "Rule refused");
const CHANGED: Kind = Kind::new(412, "rule-changed", "Rule changed");
const IMPORT_REFUSED: Kind = Kind::new(422, "import-refused", "Import refused");
const NO_RULES: Kind = Kind::new(404, "no-rules", "No rules here");
const UNAVAILABLE: Kind = Kind::new(503, "rules-unavailable", "Rules unavailable");
const FULL: Kind = Kind::new(507, "rules-full", "No room for rules");
const CORRUPT: Kind = Kind::new(500, "rules-corrupt", "Corrupt rules");

/// Whatever is asked of a database.
pub(super) const OF_DATABASE: &[Kind] = &[NO_RULES, UNAVAILABLE, CORRUPT, Kind::INTERNAL];

pub(super) const IF_UNKNOWN: &[Kind] = &[UNKNOWN];
pub(super) const OF_CREATE: &[Kind] = &[EXISTS, PATH_TAKEN, FULL];
pub(super) const OF_REPLACE: &[Kind] = &[PATH_TAKEN, CHANGED, FULL];
pub(super) const OF_PATCH: &[Kind] = &[UNKNOWN, PATH_TAKEN, CHANGED, FULL];
pub(super) const OF_DELETE: &[Kind] = &[UNKNOWN, CHANGED, FULL];
pub(super) const OF_BLOCK: &[Kind] = &[UNKNOWN, FULL];
pub(super) const OF_RETURN: &[Kind] = &[UNKNOWN_BLOCK, TOO_MANY, FULL];
pub(super) const OF_WRITE: &[Kind] = &[FULL];
pub(super) const OF_IMPORT: &[Kind] = &[IMPORT_REFUSED, Kind::STOPPING, FULL];

pub(super) fn no_rules() -> Problem {
    let how = "it is started without: --rules sqlite:FILE says where they are";
    Problem::new(NO_RULES, format!("this server has no rules, {how}"))
}

impl From<Refusal> for Problem {
    fn from(refusal: Refusal) -> Self {
        let kind = match &refusal {
            Refusal::Unknown => UNKNOWN,
            Refusal::Exists => EXISTS,
            Refusal::PathTaken { .. } => PATH_TAKEN,
            Refusal::Changed { .. } => CHANGED,
            Refusal::Invalid(invalid) => {
                return Self::invalid(invalid.to_string()).with_members(json!({"field": invalid.field}));
            }
            // Whatever else there will be.
            _ => REFUSED,
        };
        let members = match &refusal {
            Refusal::PathTaken { by } => json!({"by": by}),
            Refusal::Changed { version } => json!({"version": version}),
            _ => json!({}),
        };
        Self::refused(kind, refusal.as_str(), refusal.to_string()).with_members(members)
    }
}

/// What was asked for under a condition that is not so, of a rule that is of this version if it is there.
pub(super) fn unmet(refusal: &Refusal, version: Option<u64>) -> Problem {
    Problem::refused(CHANGED, refusal.as_str(), refusal.to_string()).with_members(json!({"version": version}))
}

impl From<Error> for Problem {
    fn from(error: Error) -> Self {
        let kind = match error.kind() {
            // A file that was there at the start.
            ErrorKind::Unavailable | ErrorKind::Config => UNAVAILABLE,
            ErrorKind::Full => FULL,
            ErrorKind::Corrupt => CORRUPT,
            ErrorKind::Unreadable => return Self::invalid(error.to_string()),
            _ => Kind::INTERNAL,
        };
        if let UNAVAILABLE | FULL = kind {
            return Self::new(kind, error.to_string());
        }
        tracing::error!(%error, "the rules' database failed");
        let detail = "the rules' database cannot be used: the server's log has the reason";
        // The reason is the operator's, and may be about the inside.
        Self::new(kind, detail.to_owned()).because(error.to_string())
    }
}

/// What nobody knows about a change whose answer was lost, and what to do then.
pub(super) fn of_change(error: Error) -> Problem {
    match error.kind() {
        ErrorKind::Unavailable => {
            let again = "whether it was changed is not known; sent again by its id it is changed once";
            Problem::new(UNAVAILABLE, format!("{error}: {again}"))
        }
        _ => error.into(),
    }
}

/// The same of many changes at once.
pub(super) fn of_import(error: Error) -> Problem {
    match error.kind() {
        ErrorKind::Unavailable => {
            let again = "whether it was imported is not known; imported again it changes what it had not";
            Problem::new(UNAVAILABLE, format!("{error}: {again}"))
        }
        _ => error.into(),
    }
}

/// A list in which something is no rule.
pub(super) fn refused_import(report: ImportReport) -> Problem {
    let count = report.problems.count;
    let first = report.problems.first.first().map(|it| format!("line {}: {}", it.line, it.message));
    let (first, s) = (first.unwrap_or_default(), if count == 1 { "" } else { "s" });
    let detail = format!("nothing was written: {count} problem{s}, the first in {first}");
    let members = serde_json::to_value(Report::new(report)).unwrap_or_default();
    Problem::refused(IMPORT_REFUSED, "problems", detail).with_members(members)
}

#[cfg(test)]
mod tests {
    use axum::response::IntoResponse as _;

    use super::*;

    /// Those of the inside are the operator's.
    #[test]
    fn every_failure_of_the_database_has_a_status() {
        for (kind, status, is_told) in [
            (ErrorKind::Unavailable, 503, true),
            (ErrorKind::Config, 503, true),
            (ErrorKind::Full, 507, true),
            (ErrorKind::Unreadable, 400, true),
            (ErrorKind::Corrupt, 500, false),
            (ErrorKind::Internal, 500, false),
        ] {
            let error = || Error::new(kind, "why");
            for problem in [Problem::from(error()), of_change(error()), of_import(error())] {
                assert_eq!(format!("{problem:?}").contains("detail: \"why"), is_told, "{kind:?}");
                assert_eq!(problem.into_response().status().as_u16(), status, "{kind:?}");
            }
        }
    }
}
