//! What a lookup went by, step by step, for people who ask why.

use std::fmt;

use super::entry::View;

/// One thing that a lookup found out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Found {
    /// Nothing was read from the truth yet.
    NothingRead,
    /// There is a rule for exactly this path in memory.
    Resident,
    /// There is certainly none in the database.
    Absent,
    /// There may be one, and it is not in memory.
    NotResident,
    /// The filter takes it for one, and the truth has said that there is none.
    KnownAbsent,
    /// There is a rule for a folder.
    Folder,
    /// It is turned off or has not started.
    PassedOver,
    /// Rules for folders are not all in memory.
    FoldersMissing,
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NothingRead => "no rules were read yet",
            Self::Resident => "a rule for exactly this path is in memory",
            Self::Absent => "the filter knows of no rule for exactly this path",
            Self::NotResident => "a rule for exactly this path may be in the database, and is not in memory",
            Self::KnownAbsent => "the database was asked: there is no rule for exactly this path",
            Self::Folder => "a rule for a folder that it is in",
            Self::PassedOver => "passed over: it is turned off or has not started",
            Self::FoldersMissing => "rules for folders do not all fit into memory",
        })
    }
}

/// Who wants to know.
pub(crate) trait Trace {
    /// `rule` is the one that was found, if there is one. Its id is in a line of memory that the processor need not have yet.
    fn found(&mut self, found: Found, rule: Option<&View<'_>>);
}

/// Nobody: it costs nothing.
impl Trace for () {
    #[inline(always)]
    fn found(&mut self, _: Found, _: Option<&View<'_>>) {}
}

/// A line each.
impl Trace for Vec<String> {
    fn found(&mut self, found: Found, rule: Option<&View<'_>>) {
        self.push(match rule {
            Some(rule) => format!("{found}: {:?}", rule.id()),
            None => found.to_string(),
        });
    }
}
