//! What a space of sessions is, as the store is told.

use super::options::{Reap, SessionOptions};
use crate::key::Name;
use crate::store::{Part, PartKind, duration_text};

impl SessionOptions {
    /// The space `name` with these options, as it is declared in the store: what all who
    /// share it must agree about. How often and how many at a time orphans are looked for is
    /// everybody's own.
    pub fn declared(&self, name: &Name) -> Part {
        let reap = match self.reap {
            Reap::Cleanup => "cleanup",
            Reap::Claims => "claims",
        };
        let settings = [
            ("grace", duration_text(self.grace)),
            ("holder_lease", duration_text(self.holder_lease)),
            ("session_ttl", duration_text(self.session_ttl)),
            ("retention", duration_text(self.retention)),
            ("reap", reap.to_owned()),
            ("claim_lease", duration_text(self.claim_lease)),
            ("max_attempts", self.max_attempts.to_string()),
            ("max_holders", self.max_holders.to_string()),
            ("max_sessions", self.max_sessions.to_string()),
            ("migration_lease", duration_text(self.migration_lease)),
        ];
        Part::new(PartKind::Sessions, name, settings)
    }
}
