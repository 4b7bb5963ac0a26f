//! Settings that a part is declared with, by all who use it.

use super::part_keys::ms;
use crate::store::{Declaration, DeclaredSettings, duration_of};

/// What was declared of a part, and by others than who declared it last.
pub(crate) struct Declared<'a> {
    pub(super) settings: Vec<&'a DeclaredSettings>,
    /// Partitions of the store.
    pub(crate) partitions: u32,
    /// How far a clock may be wrong.
    pub(crate) slack_ms: u64,
}

impl<'a> Declared<'a> {
    pub(super) fn new(declared: &'a Declaration, partitions: u32, slack_ms: u64) -> Self {
        let others = declared.others.iter().map(|other| &other.settings);
        Self { settings: [&declared.settings].into_iter().chain(others).collect(), partitions, slack_ms }
    }

    fn all(&self, name: &str) -> impl Iterator<Item = &'a String> {
        self.settings.iter().filter_map(move |it| it.get(name))
    }

    fn times(&self, name: &str) -> impl Iterator<Item = u64> {
        self.all(name).filter_map(|it| duration_of(it)).map(ms)
    }

    /// The longest time that anybody has.
    pub(crate) fn longest(&self, name: &str) -> u64 {
        self.times(name).max().unwrap_or_default()
    }

    /// The shortest.
    pub(crate) fn shortest(&self, name: &str) -> u64 {
        self.times(name).min().unwrap_or_default()
    }

    /// The greatest number.
    pub(crate) fn greatest(&self, name: &str) -> u64 {
        self.all(name).filter_map(|it| it.parse().ok()).max().unwrap_or_default()
    }

    /// A partition's part of the greatest number.
    pub(crate) fn greatest_per_partition(&self, name: &str) -> u64 {
        (self.greatest(name) / u64::from(self.partitions)).max(1)
    }
}
