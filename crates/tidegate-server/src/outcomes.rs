//! How many edits or counts had which outcome, the same over HTTP and on the command line.

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
    #[serde(default)]
    counted: u64,
    #[serde(default)]
    gathered: u64,
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
            Recorded::Counted => &mut self.counted,
            Recorded::Gathered => &mut self.gathered,
            // Whatever else there will be.
            _ => &mut self.unknown,
        };
        *count += 1;
    }

    /// Those that the store did not take, or may not have.
    pub(crate) fn lost(&self) -> u64 {
        self.dropped + self.unknown + self.corrupt
    }

    /// Those for which there was no room.
    pub(crate) fn rejected(&self) -> u64 {
        self.rejected
    }

    /// Those of pages that cannot be read.
    pub(crate) fn corrupt(&self) -> u64 {
        self.corrupt
    }

    pub(crate) fn add(&mut self, other: &Self) {
        for ((mine, _), (others, _)) in self.each().into_iter().zip(other.clone().each()) {
            *mine += *others;
        }
    }

    /// All of them, by name.
    fn each(&mut self) -> [(&mut u64, &'static str); 11] {
        [
            (&mut self.remembered, "remembered"),
            (&mut self.promoted, "promoted"),
            (&mut self.added, "added"),
            (&mut self.rejected, "rejected"),
            (&mut self.duplicate, "duplicate"),
            (&mut self.too_late, "too late"),
            (&mut self.dropped, "dropped"),
            (&mut self.unknown, "unknown"),
            (&mut self.corrupt, "corrupt"),
            (&mut self.counted, "counted"),
            (&mut self.gathered, "gathered"),
        ]
    }
}

impl fmt::Display for Outcomes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut all = self.clone();
        let said = all.each().into_iter().filter(|(count, _)| **count > 0);
        let said: Vec<_> = said.map(|(count, what)| format!("{count} {what}")).collect();
        f.write_str(if said.is_empty() { "nothing" } else { "" })?;
        f.write_str(&said.join(", "))
    }
}
