//! How many edits had which outcome, the same over HTTP and on the command line.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tidegate::hot::Recorded;

/// A count for each outcome.
#[derive(Debug, Default, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Outcomes {
    remembered: u64,
    promoted: u64,
    added: u64,
    rejected: u64,
    duplicate: u64,
    too_late: u64,
    dropped: u64,
    /// An older server does not say.
    #[serde(default)]
    unknown: u64,
    #[serde(default)]
    corrupt: u64,
}

impl Outcomes {
    pub(crate) fn count(&mut self, recorded: &Recorded) {
        let count = match recorded {
            Recorded::Remembered => &mut self.remembered,
            Recorded::Promoted { .. } => &mut self.promoted,
            Recorded::Added => &mut self.added,
            Recorded::Rejected => &mut self.rejected,
            Recorded::Duplicate => &mut self.duplicate,
            Recorded::TooLate => &mut self.too_late,
            Recorded::Dropped => &mut self.dropped,
            Recorded::Corrupt => &mut self.corrupt,
            // Whatever else there will be.
            _ => &mut self.unknown,
        };
        *count += 1;
    }

    /// Those that the store did not take, or may not have.
    pub(crate) fn lost(&self) -> u64 {
        self.dropped + self.unknown + self.corrupt
    }

    /// Those of pages that cannot be read.
    pub(crate) fn corrupt(&self) -> u64 {
        self.corrupt
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.remembered += other.remembered;
        self.promoted += other.promoted;
        self.added += other.added;
        self.rejected += other.rejected;
        self.duplicate += other.duplicate;
        self.too_late += other.too_late;
        self.dropped += other.dropped;
        self.unknown += other.unknown;
        self.corrupt += other.corrupt;
    }
}

impl fmt::Display for Outcomes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = [
            (self.remembered, "remembered"),
            (self.promoted, "promoted"),
            (self.added, "added"),
            (self.rejected, "rejected"),
            (self.duplicate, "duplicate"),
            (self.too_late, "too late"),
            (self.dropped, "dropped"),
            (self.unknown, "unknown"),
            (self.corrupt, "corrupt"),
        ];
        let said: Vec<_> = all
            .iter()
            .filter(|(count, _)| *count > 0)
            .map(|(count, what)| format!("{count} {what}"))
            .collect();
        f.write_str(if said.is_empty() { "nothing" } else { "" })?;
        f.write_str(&said.join(", "))
    }
}
