//! The default space of a kind: what it is called, and what the store calls it.
//!
//! Its keys have no name in them, and in the marker it goes by the name that it had first: so
//! servers of any version share it on one store, and its data is there whichever of them reads.
//! Only here are the two names one.

use super::PartKind;
use crate::key::Name;

/// What the default spaces are called: those of hot pages, sessions and runs.
pub const DEFAULT_SPACE: &str = "main";

impl PartKind {
    /// What the default space is called in the store, and still answers to.
    fn stored_default(self) -> Option<&'static str> {
        match self {
            Self::Hot => Some("pages"),
            Self::Sessions => Some("sessions"),
            Self::Limit | Self::Quota => None,
            // What came later has one name.
            _ => Some(DEFAULT_SPACE),
        }
    }

    /// What the store calls the part that is called `name`.
    pub(crate) fn stored_name(self, name: &str) -> &str {
        match self.stored_default() {
            Some(stored) if name == DEFAULT_SPACE => stored,
            _ => name,
        }
    }

    /// What the part that the store calls `stored` is called. No name stands for one that the
    /// store calls `main`: it is a space of a version in which that was a name like others.
    pub(super) fn name_of(self, stored: &str) -> Option<&str> {
        match self.stored_default() {
            Some(default) if stored == default => Some(DEFAULT_SPACE),
            Some(_) if stored == DEFAULT_SPACE => None,
            _ => Some(stored),
        }
    }

    /// The other name of the part that is called `name`, if it has two: those of the default
    /// space.
    pub fn alias(self, name: &str) -> Option<&'static str> {
        let stored = self.stored_default().filter(|stored| *stored != DEFAULT_SPACE)?;
        match name {
            DEFAULT_SPACE => Some(stored),
            name if name == stored => Some(DEFAULT_SPACE),
            _ => None,
        }
    }

    /// Whether both are names of one part.
    pub fn is_same(self, name: &str, other: &str) -> bool {
        self.stored_name(name) == self.stored_name(other)
    }

    /// What keys of the space start with, behind what those of its partition do.
    pub(crate) fn key_prefix(self, space: &Name) -> String {
        match self.stored_name(space.as_str()) {
            name if Some(name) == self.stored_default() => String::new(),
            name => format!("spaces:{name}:"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_space_has_two_names_and_the_keys_and_fields_of_the_first() {
        for (kind, first) in [(PartKind::Hot, "pages"), (PartKind::Sessions, "sessions")] {
            assert_eq!((kind.stored_name("main"), kind.stored_name(first)), (first, first));
            assert_eq!((kind.alias("main"), kind.alias(first)), (Some(first), Some("main")));
            assert_eq!((kind.name_of(first), kind.name_of("main")), (Some("main"), None));
            assert!(kind.is_same("main", first) && !kind.is_same("main", "news"));
            let prefix = |name: &str| kind.key_prefix(&Name::new(name).unwrap());
            assert_eq!([prefix("main"), prefix(first), prefix("news")], ["", "", "spaces:news:"]);
        }
        // That of runs was never called otherwise.
        assert_eq!((PartKind::Runs.alias("main"), PartKind::Runs.name_of("main")), (None, Some("main")));
        assert_eq!(PartKind::Runs.key_prefix(&Name::new("main").unwrap()), "");
        assert_eq!(PartKind::Runs.key_prefix(&Name::new("runs").unwrap()), "spaces:runs:");
        // What is the first name of one kind is a name like others for another.
        assert!(!PartKind::Hot.is_same("main", "sessions") && !PartKind::Sessions.is_same("main", "pages"));
        assert_eq!((PartKind::Limit.alias("main"), PartKind::Limit.name_of("main")), (None, Some("main")));
    }
}
