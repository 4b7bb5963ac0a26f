//! How a worker keeps its rules.

use std::time::Duration;

use tidegate::clock::Clock;
use tidegate::random::Random;

use super::owner::Owners;

/// What a worker reads when it begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Hydrate {
    /// Which rules there are, and those for folders; rules for one path as they are asked for.
    #[default]
    Keys,
    /// All rules, while there is room.
    Bodies,
}

/// How a worker keeps its rules.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct WorkerOptions {
    /// What it calls itself: no two have one name.
    pub name: String,
    /// Bytes that all it keeps may take.
    pub max_bytes: usize,
    /// Of these, what rules for folders may take; a quarter unless said.
    pub max_folder_bytes: Option<usize>,
    /// Rules that are evicted at once when there is no room.
    pub eviction_batch: usize,
    /// How often the process's memory is compared with what was accounted.
    pub check_interval: Duration,
    /// Whether each round of evictions is a line in the log.
    pub log_evictions: bool,
    /// What it reads when it begins.
    pub hydrate: Hydrate,
    /// How long a request waits for what has to be asked of the truth.
    pub deadline: Duration,
    /// For how long a key that the truth does not have is not asked for again.
    pub negative_life: Duration,
    /// Over how long workers are spread whose filters are full at the same change, before they read all keys anew. A
    /// reading is shared by all who come within ten seconds of it.
    pub growth_spread: Duration,
    /// Who keeps which rules, if not everybody all; this worker is one of them by its name.
    pub owners: Option<Owners>,
    /// Whether the process is this worker's alone, so that its memory can be gone by.
    pub is_alone: bool,
    /// This process's time; the truth's is what counts.
    pub clock: Clock,
    /// What spreads workers that begin together.
    pub random: Random,
}

impl WorkerOptions {
    /// By the defaults.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            max_bytes: 500 << 20,
            max_folder_bytes: None,
            eviction_batch: 1000,
            check_interval: Duration::from_secs(10),
            log_evictions: true,
            hydrate: Hydrate::Keys,
            deadline: Duration::from_secs(1),
            negative_life: Duration::from_secs(5),
            growth_spread: Duration::from_secs(5),
            owners: None,
            is_alone: false,
            clock: Clock::default(),
            random: Random::default(),
        }
    }
}
