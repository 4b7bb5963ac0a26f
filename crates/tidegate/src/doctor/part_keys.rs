//! What the doctor asks of a kind of part, whose keys its room knows.

use std::time::Duration;

use super::declared::Declared;
use crate::key::Name;
use crate::store::Family;
use crate::store::redis::Script;

pub(crate) const HOUR_MS: u64 = 3_600_000;

/// What a room knows of the keys of a kind of part.
pub(crate) trait PartKeys: Sync {
    /// Its keys, form by form.
    fn families(&self) -> &'static [Family];

    /// What the patterns of those start with: the place of what `roots` answers.
    fn root(&self) -> &'static str {
        ""
    }

    /// What keys of one start with that is called `name` and used with that prefix, escaped, behind what all keys of a
    /// partition do.
    fn roots(&self, name: &Name, prefix: &str) -> Vec<String>;

    /// What it is looked at by.
    fn script(&self) -> &'static Script;

    /// How one that is declared so is looked at.
    fn bounds(&self, declared: &Declared<'_>) -> Bounds;

    /// The keys that its script wants of a partition in front of those that it looks at, and arguments behind the
    /// numbers.
    fn shared(&self, _root: &str) -> (Vec<String>, Vec<String>) {
        Default::default()
    }

    /// What the indices end in that a key of that subject is in, if they are spread over so many.
    fn suffix(&self, _spread: u32, _family: &Family, _subject: &str) -> String {
        String::new()
    }
}

/// What the keys of a part are bounded by.
#[derive(Debug, Default)]
pub(crate) struct Bounds {
    /// What all keys of it may live for.
    pub(crate) life_ms: u64,
    /// The longest window, where entries of indices end with one.
    pub(crate) span_ms: u64,
    /// Numbers that its script wants.
    pub(crate) numbers: Vec<u64>,
}

pub(crate) fn ms(duration: Duration) -> u64 {
    duration.as_millis() as u64
}
