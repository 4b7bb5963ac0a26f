//! How a store has been doing, as this process has seen it.

use std::num::NonZeroU32;
use std::time::Duration;

use crate::PartKind;
use crate::run::Hour;

/// How a store has been doing since this process opened it. A store in this process has nothing
/// that could fail, and no operations that would have to be counted.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> tidegate::Result<()> {
/// let gate = tidegate::Tidegate::open("memory:").await?;
/// let health = gate.store().health();
/// assert!(health.is_healthy());
/// assert_eq!((health.connection_attempts, health.consecutive_failures), (0, 0));
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct StoreHealth {
    /// How many failures in a row make it unhealthy.
    pub unhealthy_after: u32,
    /// How often in a row a server was asked and was of no use: a connection that could not be made, a batch of calls
    /// or a check without an answer, writes refused. Of several servers, the one that is worst off. What is
    /// answered without asking while a server is known to be away is not counted.
    pub consecutive_failures: u32,
    /// Connections that were tried.
    pub connection_attempts: u64,
    /// Those that could not be made, or were silent from the beginning.
    pub connection_failures: u64,
    /// Operations on the store, by all parts.
    pub operations: u64,
    /// Those without an answer.
    pub failures: u64,
    /// How long round trips took, by the calls in them.
    pub response_times: ResponseTimes,
    /// The same by part.
    pub parts: Vec<PartHealth>,
    /// The memory of its servers, as each last said; none of those that do not say it.
    pub memory: Vec<ServerMemory>,
    /// The hour of the last 24 with the most operations that were sent to the store.
    pub peak_hour: Option<PeakHour>,
}

/// How one part fared.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct PartHealth {
    /// Which.
    pub part: PartKind,
    /// Its operations on the store.
    pub operations: u64,
    /// Those without an answer.
    pub failures: u64,
    /// How long round trips took.
    pub response_times: ResponseTimes,
}

/// Times of the last five to ten minutes, those without an answer among them; none if there were none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct ResponseTimes {
    /// The average.
    pub average: Option<Duration>,
    /// What 99 of 100 did not exceed; at most an eighth too long.
    pub p99: Option<Duration>,
}

/// The memory of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ServerMemory {
    /// Its address; never a password.
    pub server: String,
    /// What it uses, for whomever.
    pub used_bytes: u64,
    /// What it may use, if that is bounded.
    pub max_bytes: Option<u64>,
}

/// An hour, and what was done in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct PeakHour {
    /// The hour, of UTC, by this process's clock.
    pub hour: Hour,
    /// Operations that were sent to the store.
    pub operations: u64,
}

/// What part of `all` did not fail; nothing is known of nothing.
pub fn success_rate(all: u64, failures: u64) -> Option<f64> {
    (all > 0).then(|| all.saturating_sub(failures) as f64 / all as f64)
}

impl StoreHealth {
    /// Of a store that nothing is known of, or in this process, of which there is nothing to know.
    pub(super) fn new(unhealthy_after: NonZeroU32) -> Self {
        Self {
            unhealthy_after: unhealthy_after.get(),
            consecutive_failures: 0,
            connection_attempts: 0,
            connection_failures: 0,
            operations: 0,
            failures: 0,
            response_times: ResponseTimes::default(),
            parts: Vec::new(),
            memory: Vec::new(),
            peak_hour: None,
        }
    }

    /// Whether there were fewer failures in a row than make it unhealthy.
    pub fn is_healthy(&self) -> bool {
        self.consecutive_failures < self.unhealthy_after
    }

    /// What its servers use together, if any says it.
    pub fn memory_bytes(&self) -> Option<u64> {
        self.memory.iter().map(|it| it.used_bytes).reduce(u64::saturating_add)
    }
}
