//! Whether this server should be sent requests, and what speaks against it.

use schemars::JsonSchema;
use serde::Serialize;
use tidegate::Outage;
use tidegate::clock::SystemClock;
use tidegate::store::{Away, StoreStatus};

/// When a server whose store is partly or wholly away is ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Readiness {
    /// While it can answer something: some partition can be reached, or some limit
    /// answers without the store.
    #[default]
    Any,
    /// While every partition can be reached.
    All,
}

impl Readiness {
    /// As the settings name it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Any => "any",
            Self::All => "all",
        }
    }
}

/// What `/readyz` says.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Report {
    pub(crate) ready: bool,
    readiness: &'static str,
    /// Whether the server is to be stopped.
    draining: bool,
    store: StoreReport,
}

#[derive(Debug, Serialize, JsonSchema)]
struct StoreReport {
    partitions: u32,
    partitions_away: u32,
    /// Whether any of it was reached since the server was started.
    reached: bool,
    away: Vec<AwayReport>,
}

#[derive(Debug, Serialize, JsonSchema)]
struct AwayReport {
    server: String,
    partitions: u32,
    since: String,
    away_ms: u64,
    reason: &'static str,
    detail: String,
}

impl Report {
    pub(crate) fn new(
        readiness: Readiness,
        draining: bool,
        status: StoreStatus,
        mut outages: impl Iterator<Item = Outage>,
    ) -> Self {
        let is_whole = status.away.is_empty();
        let can_answer = match readiness {
            Readiness::All => is_whole,
            Readiness::Any => {
                status.partitions_away() < status.partitions
                    || outages.any(|outage| matches!(outage, Outage::Open | Outage::Local(_)))
            }
        };
        let now_ms = SystemClock::new().now().as_millis();
        let store = StoreReport {
            partitions: status.partitions,
            partitions_away: status.partitions_away(),
            reached: status.was_reached,
            away: status.away.into_iter().map(|away| AwayReport::new(away, now_ms)).collect(),
        };
        let ready = !draining && store.reached && can_answer;
        Self { ready, readiness: readiness.as_str(), draining, store }
    }

    /// Why it is not ready, in a sentence.
    pub(crate) fn detail(&self) -> String {
        if self.draining {
            return "the server is stopping: it takes requests for a while, and should get no more"
                .to_owned();
        }
        let away = self.store.away.iter().map(|it| format!("{} ({}: {})", it.server, it.reason, it.detail));
        let away = away.collect::<Vec<_>>().join("; ");
        match self.store.reached {
            true => format!("the store is away: {away}"),
            false => format!("the store has not been reached since the server was started: {away}"),
        }
    }
}

impl AwayReport {
    fn new(away: Away, now_ms: u64) -> Self {
        Self {
            since: away.since.to_string(),
            away_ms: now_ms.saturating_sub(away.since.as_millis()),
            reason: away.reason.as_str(),
            server: away.server,
            partitions: away.partitions,
            detail: away.detail,
        }
    }
}
