//! What is told of the cache.

use super::Cache;

/// How a cache is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Stats {
    /// Entries.
    pub len: usize,
    /// What they take, with all that is needed to find them.
    pub bytes: usize,
    /// What they may take.
    pub bound_bytes: usize,
    /// What they took at most at any moment.
    pub peak_bytes: usize,
    /// How often some had to leave to make room.
    pub evictions: u64,
    /// How many have left for that.
    pub evicted: u64,
    /// How many have left because they had ended.
    pub expired: u64,
    /// When some last had to leave, by the time that was given.
    pub last_eviction_ms: Option<u64>,
}

impl Cache {
    /// Entries.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// What it takes.
    pub fn bytes(&self) -> usize {
        self.index_bytes + self.log.bytes()
    }

    /// All that is told of it.
    pub fn stats(&self) -> Stats {
        Stats { len: self.len, bytes: self.bytes(), bound_bytes: self.bound_bytes, ..self.stats }
    }
}
