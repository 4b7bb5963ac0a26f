//! What a worker says of itself.

use std::sync::{Arc, Weak};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _};
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::{Registry, Unit};

use super::Worker;
use super::core::Core;
use super::origin::Origin;
use super::state::Looked;
use crate::path::{normalised, normalised_host};
use crate::stream::Mark;

/// How the cache is doing.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct CacheReport {
    /// Rules in memory: for one path, and for folders.
    pub items: u64,
    /// Of these, rules for folders.
    pub folders: u64,
    /// Bytes of all that is kept, the filter and hosts included.
    pub bytes: u64,
    /// Bytes that it may have.
    pub max_bytes: u64,
    /// Rounds of evictions.
    pub evictions: u64,
    /// Rules that were evicted.
    pub items_evicted: u64,
    /// The most bytes that all of it has had, or had set aside for what it was about to read.
    pub peak_bytes: u64,
    /// When rules were last evicted, of the truth's time.
    pub last_eviction_ms: Option<u64>,
}

/// How far a worker is.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Progress {
    /// What was applied; none before all keys were read once.
    pub applied: Option<Mark>,
    /// Rules in the database at that place.
    pub rules: u64,
    /// Changes that it has heard of and not applied.
    pub lag: u64,
    /// Whether what it has in memory answers every request or knows what to ask for: all keys and all rules for folders.
    pub is_complete: bool,
    /// Whether it is connected.
    pub is_connected: bool,
    /// For how many milliseconds nothing was heard of the truth.
    pub age_ms: Option<u64>,
    /// Why it is not connected, or not complete.
    pub reason: Option<String>,
}

/// Why a request is answered as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Explanation {
    /// The host that it was looked up by.
    pub host: String,
    /// The path likewise.
    pub path: String,
    /// What was found, step by step.
    pub steps: Vec<String>,
    /// The rule that answers, if it is in memory.
    pub rule: Option<String>,
    /// Where the answer is from: `cache`, `prefix`, `filter`, or `fetch` if the truth has to be asked.
    pub source: &'static str,
}

impl<O: Origin> Worker<O> {
    /// How the cache is doing.
    pub fn report(&self) -> CacheReport {
        self.core.report()
    }

    /// How far it is.
    pub fn progress(&self) -> Progress {
        self.core.progress()
    }

    /// How a request would be looked up, without answering it. None if its host or path is none.
    pub fn explain(&self, host: &str, path: &str) -> Option<Explanation> {
        let (host, path) = normalised_host(host).zip(normalised(path))?;
        let elapsed_ms = self.core.pace.elapsed_ms();
        let mut steps = Vec::new();
        let (rule, source) = self.core.read(|state| {
            let now_ms = state.time.now_ms(elapsed_ms);
            match state.look(&host, &path, now_ms, elapsed_ms, &mut steps) {
                Looked::Rule(it) => (Some(it.rule().id().to_owned()), it.source().as_str()),
                Looked::Nothing => (None, "filter"),
                Looked::Unknown => (None, "fetch"),
            }
        });
        Some(Explanation { host: host.into_owned(), path: path.into_owned(), steps, rule, source })
    }
}

impl<O> Core<O> {
    fn report(&self) -> CacheReport {
        self.read(|state| {
            let folders = match state.has_all_folders {
                true => state.hosts.folders(),
                false => state.hosts.each_folder().count(),
            } as u64;
            let own = state.cache.stats();
            let foreign = state.foreign.as_ref().map(|(_, cache)| cache.stats());
            let sum = |of: fn(&super::cache::Stats) -> u64| of(&own) + foreign.as_ref().map_or(0, of);
            CacheReport {
                items: folders + sum(|it| it.len as u64),
                folders,
                bytes: state.bytes() as u64,
                max_bytes: state.bounds.all as u64,
                evictions: sum(|it| it.evictions),
                items_evicted: sum(|it| it.evicted),
                peak_bytes: state.peak_bytes.max(state.bytes()) as u64,
                last_eviction_ms: own.last_eviction_ms.max(foreign.and_then(|it| it.last_eviction_ms)),
            }
        })
    }

    fn progress(&self) -> Progress {
        let elapsed_ms = self.pace.elapsed_ms();
        let following = self.following.lock().clone();
        self.read(|state| {
            let applied = state.applied.clone();
            let lag = match (&following.head, &applied) {
                (Some(head), Some(applied)) if head.epoch == applied.epoch => {
                    head.seq.0.saturating_sub(applied.seq.0)
                }
                _ => 0,
            };
            Progress {
                is_complete: applied.is_some() && state.keys.is_complete() && state.has_all_folders,
                applied,
                rules: state.count,
                lag,
                is_connected: following.is_connected,
                age_ms: following.heard_ms.map(|it| elapsed_ms.saturating_sub(it)),
                reason: following.reason.or_else(|| state.lacks_room().map(str::to_owned)),
            }
        })
    }
}

/// Numbers that are read when somebody asks for them.
#[derive(Debug)]
struct Gauges<O>(Weak<Core<O>>);

pub(super) fn register<O: Origin>(core: &Arc<Core<O>>, registry: &mut Registry) {
    registry.register_collector(Box::new(Gauges(Arc::downgrade(core))));
}

impl<O: Origin> Collector for Gauges<O> {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let Some(core) = self.0.upgrade() else { return Ok(()) };
        let (cache, progress) = (core.report(), core.progress());
        let mut gauge = |name: &str, help: &str, unit: Option<&Unit>, value: u64| {
            let gauge = ConstGauge::new(i64::try_from(value).unwrap_or(i64::MAX));
            let metric = encoder.encode_descriptor(name, help, unit, gauge.metric_type())?;
            gauge.encode(metric)
        };
        gauge(
            "tidegate_edge_rules",
            "Rules in the database, as this worker knows them",
            None,
            progress.rules,
        )?;
        gauge("tidegate_edge_cached_rules", "Rules in memory", None, cache.items)?;
        gauge("tidegate_edge_cache", "Memory of rules, filter and hosts", Some(&Unit::Bytes), cache.bytes)?;
        gauge("tidegate_edge_cache_max", "Memory that they may have", Some(&Unit::Bytes), cache.max_bytes)?;
        gauge("tidegate_edge_evictions", "Rounds of evictions", None, cache.evictions)?;
        gauge("tidegate_edge_evicted_rules", "Rules that were evicted", None, cache.items_evicted)?;
        gauge("tidegate_edge_lag", "Changes heard of and not applied", None, progress.lag)?;
        gauge(
            "tidegate_edge_connected",
            "Whether the change stream is connected",
            None,
            u64::from(progress.is_connected),
        )?;
        gauge("tidegate_edge_lost_clicks", "Clicks that there was no room for", None, core.clicks.lost())?;
        let age = progress.age_ms.map_or(0, |ms| ms / 1000);
        gauge(
            "tidegate_edge_age",
            "Time since anything was heard of the rules' database",
            Some(&Unit::Seconds),
            age,
        )
    }
}
