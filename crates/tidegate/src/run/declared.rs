//! What a space of runs is, as the store is told.

use super::options::RunOptions;
use crate::key::Name;
use crate::store::{Part, PartKind, duration_text};

impl RunOptions {
    /// The space `name` with these options, as it is declared in the store: what all who share it
    /// must agree about. How often and how many at a time ended runs are looked for is everybody's
    /// own.
    pub fn declared(&self, name: &Name) -> Part {
        let settings = [
            ("prefix", self.prefix.clone()),
            ("state_ttl", duration_text(self.state_ttl)),
            ("max_runs", self.max_runs.to_string()),
            ("max_fields", self.max_fields.to_string()),
            ("max_field_name_bytes", self.max_field_name_bytes.to_string()),
            ("max_field_value_bytes", self.max_field_value_bytes.to_string()),
            ("max_processed", self.max_processed.to_string()),
            ("max_failures", self.max_failures.to_string()),
            ("max_reason_bytes", self.max_reason_bytes.to_string()),
            ("max_tasks", self.max_tasks.to_string()),
        ];
        Part::new(PartKind::Runs, name, settings)
    }
}
