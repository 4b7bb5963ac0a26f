//! Whether this server should be sent requests, and what speaks against it.

use schemars::JsonSchema;
use serde::Serialize;
use tidegate::Outage;
use tidegate::clock::SystemClock;
use tidegate::store::{Away, StoreStatus};
use tidegate_edge::worker::Progress;

use crate::parts::EdgeReadiness;
use crate::settings::parse::named;

named! {
    /// When a server whose store is partly or wholly away is ready.
    #[derive(Default)]
    pub enum Readiness {
        /// While it can answer something: some partition can be reached, or some limit
        /// answers without the store.
        #[default]
        Any = "any",
        /// While every partition can be reached.
        All = "all",
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
    /// The worker that redirects, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    edge: Option<EdgeReport>,
}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct EdgeReport {
    readiness: &'static str,
    /// Whether all keys were read, and all rules for folders fit.
    loaded: bool,
    /// Whether the rules' database, or the server that has it, is there.
    connected: bool,
    /// How long ago it was last heard of.
    age_ms: Option<u64>,
    /// Why it is away.
    reason: Option<String>,
}

impl EdgeReport {
    pub(crate) fn new(readiness: EdgeReadiness, progress: Progress) -> Self {
        Self {
            readiness: readiness.as_str(),
            loaded: progress.is_complete,
            connected: progress.is_connected,
            age_ms: progress.age_ms,
            reason: progress.reason,
        }
    }

    fn is_ready(&self) -> bool {
        self.loaded && (self.connected || self.readiness == EdgeReadiness::Loaded.as_str())
    }

    fn detail(&self) -> String {
        let away = self.reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
        match self.loaded {
            false => format!("rules were not all read yet{away}"),
            true => format!("the rules' origin is away{away}"),
        }
    }
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
        edge: Option<EdgeReport>,
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
        let ready =
            !draining && store.reached && can_answer && edge.as_ref().is_none_or(EdgeReport::is_ready);
        Self { ready, readiness: readiness.as_str(), draining, store, edge }
    }

    /// Why it is not ready, in a sentence.
    pub(crate) fn detail(&self) -> String {
        if self.draining {
            return "the server is stopping: it takes requests for a while, and should get no more"
                .to_owned();
        }
        if let Some(edge) = self.edge.as_ref().filter(|edge| !edge.is_ready()) {
            return edge.detail();
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
