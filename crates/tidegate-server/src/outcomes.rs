//! How many edits or counts had which outcome, the same over HTTP and on the command line.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tidegate::hot::Recorded;

/// Outcomes, in the order in which they are shown.
macro_rules! outcomes {
    ($($(#[$about:meta])* $name:ident: $recorded:pat,)+) => {
        /// A count for each outcome.
        #[derive(Debug, Default, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
        pub(crate) struct Outcomes {
            $($(#[$about])* $name: u64,)+
        }

        impl Outcomes {
            pub(crate) fn count(&mut self, recorded: &Recorded) {
                match recorded {
                    $($recorded => self.$name += 1,)+
                    // Whatever else there will be.
                    _ => self.unknown += 1,
                }
            }

            pub(crate) fn add(&mut self, other: &Self) {
                $(self.$name += other.$name;)+
            }

            /// All of them, by name.
            fn each(&self) -> Vec<(u64, String)> {
                vec![$((self.$name, stringify!($name).replace('_', " "))),+]
            }
        }
    };
}

outcomes! {
    remembered: Recorded::Remembered,
    promoted: Recorded::Promoted { .. },
    added: Recorded::Added,
    rejected: Recorded::Rejected,
    duplicate: Recorded::Duplicate,
    too_late: Recorded::TooLate,
    dropped: Recorded::Dropped,
    /// An older server does not say.
    #[serde(default)]
    unknown: Recorded::Unknown,
    #[serde(default)]
    corrupt: Recorded::Corrupt,
    #[serde(default)]
    counted: Recorded::Counted,
    #[serde(default)]
    gathered: Recorded::Gathered,
}

impl Outcomes {
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
}

impl fmt::Display for Outcomes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let said = self.each().into_iter().filter(|(count, _)| *count > 0);
        let said: Vec<_> = said.map(|(count, what)| format!("{count} {what}")).collect();
        f.write_str(if said.is_empty() { "nothing" } else { "" })?;
        f.write_str(&said.join(", "))
    }
}
