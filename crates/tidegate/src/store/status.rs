//! What of a store is away right now.

use crate::clock::Timestamp;
use crate::outage::OutageReason;

/// The state of a store, as this process sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoreStatus {
    /// How many partitions there are.
    pub partitions: u32,
    /// Whether any of them was ever reached.
    pub was_reached: bool,
    /// Servers that are away, the longest first.
    pub away: Vec<Away>,
}

/// A server that is away.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Away {
    /// Its address; never a password.
    pub server: String,
    /// How many partitions it has.
    pub partitions: u32,
    /// Since when, by this process's clock.
    pub since: Timestamp,
    /// Why, in a word.
    pub reason: OutageReason,
    /// Why, in a sentence.
    pub detail: String,
}

impl StoreStatus {
    /// A store in this process is never away.
    pub(crate) fn of_memory() -> Self {
        Self { partitions: 1, was_reached: true, away: Vec::new() }
    }

    /// How many partitions are away.
    pub fn partitions_away(&self) -> u32 {
        self.away.iter().map(|away| away.partitions).sum()
    }
}
