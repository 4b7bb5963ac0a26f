//! What a space of runs is, and the quota of a family, as the store is told.

use std::hash::Hasher as _;

use siphasher::sip::SipHasher24;

use super::options::RunOptions;
use super::quota::QuotaOptions;
use crate::error::Result;
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

impl QuotaOptions {
    /// The quota as it is declared in the store: what all who charge it must agree about.
    pub fn declared(&self) -> Result<Part> {
        let settings = [
            ("prefix", self.prefix.clone()),
            ("kind", self.kind.as_str().to_owned()),
            ("limit", self.limit.to_string()),
            ("safety_buffer", self.safety_buffer.to_string()),
            ("counter_ttl", duration_text(self.counter_ttl)),
            ("max_charges", self.max_charges.to_string()),
        ];
        Ok(Part::new(PartKind::Quota, &self.family()?, settings))
    }

    /// What the family is called among declarations: by the prefix of its keys, or, where that is no name, by a number
    /// made of it.
    fn family(&self) -> Result<Name> {
        Name::new(&self.prefix).or_else(|_| {
            let mut hasher = SipHasher24::new_with_key(b"tidegate-family-");
            hasher.write(self.prefix.as_bytes());
            Name::new(&format!("family-{:016x}", hasher.finish()))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_have_names_of_their_own_whatever_their_prefix_is() {
        let name = |prefix: &str| {
            let declared = QuotaOptions::new().prefix(prefix.to_owned()).declared().unwrap();
            assert_eq!(declared.settings["prefix"], prefix);
            declared.name.as_str().to_owned()
        };
        assert_eq!(name("courtlistener"), "courtlistener");
        let others = ["A", "a:b", "a b", "ü", &"x".repeat(255)].map(name);
        for (i, one) in others.iter().enumerate() {
            assert!(one.starts_with("family-") && !others[..i].contains(one), "{one}");
        }
    }
}
