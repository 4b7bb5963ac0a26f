//! What can be seen from outside, in the text format that Prometheus reads.
//!
//! Labels are bounded: the name of a limit or of a reaper, never a user's key.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use parking_lot::Mutex;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::{ConstCounter, Counter};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::{ConstGauge, Gauge};
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::Registry;

use crate::hot::EventKind;
use crate::limit::{LeaseCounts, Limit};
use crate::outage::OutageReason;

/// All metrics of one [`Tidegate`](crate::Tidegate).
#[derive(Debug, Clone)]
pub(crate) struct Metrics {
    registry: Arc<Mutex<Registry>>,
    limits: Arc<Mutex<Vec<Limit>>>,
    reapers: ReaperFamilies,
    pub(crate) declarations: DeclarationMetrics,
    hot: HotFamilies,
    sessions: SessionFamilies,
    pub(crate) store: StoreMetrics,
}

#[derive(Debug, Clone)]
struct ReaperFamilies {
    runs: Family<[(&'static str, &'static str); 1], Counter>,
    items: Family<[(&'static str, &'static str); 1], Counter>,
    failures: Family<[(&'static str, &'static str); 1], Counter>,
    seconds: Family<[(&'static str, &'static str); 1], Histogram>,
}

/// Handles of one reaper.
#[derive(Debug, Clone)]
pub(crate) struct ReaperMetrics {
    /// Which one, for the log.
    pub(crate) name: &'static str,
    /// Of which space, if it is one's own.
    pub(crate) space: Option<String>,
    runs: Counter,
    items: Counter,
    pub(crate) failures: Counter,
    seconds: Histogram,
}

impl ReaperMetrics {
    /// The same, of the loop of one space.
    pub(crate) fn in_space(self, space: &str) -> Self {
        Self { space: Some(space.to_owned()), ..self }
    }

    pub(crate) fn ran(&self, items: usize, took: Duration) {
        self.runs.inc();
        self.items.inc_by(items as u64);
        self.seconds.observe(took.as_secs_f64());
    }
}

/// By space.
type Spaced<M> = Family<[(&'static str, String); 1], M>;

/// By part and name: what is declared otherwise than it is open here.
#[derive(Debug, Clone, Default)]
pub(crate) struct DeclarationMetrics {
    replaced: Family<[(&'static str, String); 2], Counter>,
    differing: Family<[(&'static str, String); 2], Gauge>,
}

impl DeclarationMetrics {
    fn register(&self, registry: &mut Registry) {
        registry.register(
            "tidegate_declarations_replaced",
            "Declarations in the store that were replaced because they had other settings",
            self.replaced.clone(),
        );
        registry.register(
            "tidegate_declarations_differing",
            "1 if the store declares other settings than those in use here",
            self.differing.clone(),
        );
    }

    pub(crate) fn replaced(&self, part: &str, name: &str) {
        self.replaced.get_or_create(&[("part", part.to_owned()), ("name", name.to_owned())]).inc();
    }

    pub(crate) fn differs(&self, part: &str, name: &str, differs: bool) {
        let labels = [("part", part.to_owned()), ("name", name.to_owned())];
        self.differing.get_or_create(&labels).set(i64::from(differs));
    }
}

#[derive(Debug, Clone, Default)]
struct HotFamilies {
    activity: Spaced<Counter>,
    promoted: Spaced<Counter>,
    rejected: Spaced<Counter>,
    expired: Spaced<Counter>,
    cleanups: Spaced<Counter>,
    tracked: Spaced<Gauge>,
    activities: Spaced<Gauge>,
    dropped: Spaced<Counter>,
    unknown: Spaced<Counter>,
    corrupt: Spaced<Counter>,
    events: Family<[(&'static str, String); 2], Counter>,
}

impl HotFamilies {
    fn register(&self, registry: &mut Registry) {
        registry.register("activity_counter", "Edits of pages that are not hot", self.activity.clone());
        registry.register("hot_pages_promoted", "Pages that became hot", self.promoted.clone());
        registry.register("promotion_rejected", "Pages there was no room for", self.rejected.clone());
        registry.register("hot_pages_expired", "Pages that are not hot any more", self.expired.clone());
        registry.register("cleanup_runs", "Cleanups completed", self.cleanups.clone());
        registry.register("hot_pages_tracked", "Hot pages at the last cleanup", self.tracked.clone());
        registry.register(
            "tidegate_hot_activities",
            "Pages that are not hot and remembered, at the last cleanup",
            self.activities.clone(),
        );
        registry.register(
            "tidegate_hot_dropped_edits",
            "Edits lost while the store was away",
            self.dropped.clone(),
        );
        registry.register(
            "tidegate_hot_unknown_edits",
            "Edits that the store was sent and did not answer in time",
            self.unknown.clone(),
        );
        registry.register(
            "tidegate_hot_corrupt_edits",
            "Edits of pages whose keys in the store cannot be read",
            self.corrupt.clone(),
        );
        registry.register("tidegate_hot_events", "What happened to pages, by kind", self.events.clone());
    }
}

/// Handles of one space of hot pages.
#[derive(Debug, Clone)]
pub(crate) struct HotMetrics {
    pub(crate) activity: Counter,
    pub(crate) promoted: Counter,
    pub(crate) rejected: Counter,
    pub(crate) expired: Counter,
    pub(crate) cleanups: Counter,
    pub(crate) tracked: Gauge,
    pub(crate) activities: Gauge,
    pub(crate) dropped: Counter,
    pub(crate) unknown: Counter,
    pub(crate) corrupt: Counter,
    /// In the order of `EventKind::OF_PAGES`.
    pub(crate) events: [Counter; EventKind::OF_PAGES.len()],
}

#[derive(Debug, Clone)]
struct SessionFamilies {
    disconnected: Spaced<Gauge>,
    seconds: Spaced<Histogram>,
    deleted: Spaced<Counter>,
    scanned: Spaced<Counter>,
    active: Spaced<Gauge>,
    claimed: Spaced<Gauge>,
    dead: Spaced<Gauge>,
    lag_seconds: Spaced<Gauge<f64, AtomicU64>>,
    lapsed: Spaced<Counter>,
    buried: Spaced<Counter>,
    missing: Spaced<Counter>,
    invalid: Spaced<Counter>,
    holds: Spaced<Counter>,
    held_partitions: Spaced<Gauge>,
    unrecognised: Spaced<Counter>,
}

impl SessionFamilies {
    fn new() -> Self {
        Self {
            disconnected: Family::default(),
            seconds: Family::new_with_constructor(seconds),
            deleted: Family::default(),
            scanned: Family::default(),
            active: Family::default(),
            claimed: Family::default(),
            dead: Family::default(),
            lag_seconds: Family::default(),
            lapsed: Family::default(),
            buried: Family::default(),
            missing: Family::default(),
            invalid: Family::default(),
            holds: Family::default(),
            held_partitions: Family::default(),
            unrecognised: Family::default(),
        }
    }

    fn register(&self, registry: &mut Registry) {
        registry.register(
            "disconnected_sessions_count",
            "Sessions that nobody holds, at the last look",
            self.disconnected.clone(),
        );
        registry.register("orphan_cleanup_duration_seconds", "Time per cleanup", self.seconds.clone());
        registry.register("orphan_sessions_deleted", "Sessions deleted", self.deleted.clone());
        registry.register(
            "orphan_cleanup_keys_scanned",
            "Keys looked at by migrate, reconcile and compare: nothing else scans",
            self.scanned.clone(),
        );
        registry.register(
            "tidegate_session_active",
            "Sessions that somebody holds, at the last look",
            self.active.clone(),
        );
        registry.register(
            "tidegate_session_claimed",
            "Sessions being reaped, at the last look",
            self.claimed.clone(),
        );
        registry.register(
            "tidegate_session_dead",
            "Sessions that were claimed too often, at the last look",
            self.dead.clone(),
        );
        registry.register(
            "tidegate_session_reap_lag_seconds",
            "For how long the first orphan had been due, at the last look",
            self.lag_seconds.clone(),
        );
        registry.register("tidegate_session_lapsed", "Sessions found silent", self.lapsed.clone());
        registry.register(
            "tidegate_session_buried",
            "Sessions put aside after too many claims",
            self.buried.clone(),
        );
        registry.register(
            "tidegate_session_missing_entries",
            "Index entries without a session, removed",
            self.missing.clone(),
        );
        registry.register(
            "tidegate_session_invalid_entries",
            "Index entries that are no session ids, removed",
            self.invalid.clone(),
        );
        registry.register(
            "tidegate_session_holds",
            "Times that reaping was held, since holders could not renew",
            self.holds.clone(),
        );
        registry.register(
            "tidegate_session_held_partitions",
            "Partitions in which no lease ends and nothing is reaped now",
            self.held_partitions.clone(),
        );
        registry.register(
            "tidegate_session_unrecognised_keys",
            "Keys of others under the names of sessions, met while reconciling and left alone",
            self.unrecognised.clone(),
        );
    }
}

/// Handles of one space of sessions.
#[derive(Debug, Clone)]
pub(crate) struct SessionMetrics {
    pub(crate) disconnected: Gauge,
    pub(crate) seconds: Histogram,
    pub(crate) deleted: Counter,
    pub(crate) scanned: Counter,
    pub(crate) active: Gauge,
    pub(crate) claimed: Gauge,
    pub(crate) dead: Gauge,
    pub(crate) lag_seconds: Gauge<f64, AtomicU64>,
    pub(crate) lapsed: Counter,
    pub(crate) buried: Counter,
    pub(crate) missing: Counter,
    pub(crate) invalid: Counter,
    pub(crate) holds: Counter,
    pub(crate) held_partitions: Gauge,
    pub(crate) unrecognised: Counter,
}

/// Handles of the store.
#[derive(Debug, Clone)]
pub(crate) struct StoreMetrics {
    pub(crate) calls: Counter,
    failed_calls: Family<[(&'static str, &'static str); 1], Counter>,
    /// Handles by reason, in order, and one for what has none.
    failed: [Counter; OutageReason::ALL.len() + 1],
    pub(crate) losses: Counter,
    pub(crate) partitions_away: Gauge,
    batch_calls: Histogram,
    round_trip_seconds: Histogram,
}

impl StoreMetrics {
    pub(crate) fn batch(&self, calls: usize, took: Duration) {
        self.batch_calls.observe(calls as f64);
        self.round_trip_seconds.observe(took.as_secs_f64());
    }

    /// Counts a call without an answer.
    pub(crate) fn failed(&self, reason: Option<OutageReason>) {
        self.failed[reason.map_or(OutageReason::ALL.len(), |reason| reason as usize)].inc();
    }
}

impl Metrics {
    /// With the handles of a store.
    pub(crate) fn new(store: StoreMetrics) -> Self {
        let mut registry = Registry::default();
        let limits = Arc::<Mutex<Vec<Limit>>>::default();
        registry.register_collector(Box::new(LimitCollector(limits.clone())));

        registry.register("tidegate_store_calls", "Calls to the store", store.calls.clone());
        registry.register(
            "tidegate_store_failed_calls",
            "Calls without an answer, by why",
            store.failed_calls.clone(),
        );
        registry.register(
            "tidegate_store_losses",
            "Restarts, failovers and flushes seen",
            store.losses.clone(),
        );
        registry.register(
            "tidegate_store_partitions_away",
            "Partitions whose server is away",
            store.partitions_away.clone(),
        );
        registry.register("tidegate_store_batch_calls", "Calls per round trip", store.batch_calls.clone());
        registry.register(
            "tidegate_store_round_trip_seconds",
            "Time per round trip",
            store.round_trip_seconds.clone(),
        );

        let reapers = ReaperFamilies {
            runs: Family::default(),
            items: Family::default(),
            failures: Family::default(),
            seconds: Family::new_with_constructor(seconds),
        };
        registry.register("tidegate_reaper_runs", "Runs of a background loop", reapers.runs.clone());
        registry.register("tidegate_reaper_items", "Items it handled", reapers.items.clone());
        registry.register("tidegate_reaper_failures", "Runs that failed", reapers.failures.clone());
        registry.register("tidegate_reaper_seconds", "Time per run", reapers.seconds.clone());

        let declarations = DeclarationMetrics::default();
        declarations.register(&mut registry);

        let hot = HotFamilies::default();
        hot.register(&mut registry);
        let sessions = SessionFamilies::new();
        sessions.register(&mut registry);

        Self { registry: Arc::new(Mutex::new(registry)), limits, reapers, declarations, hot, sessions, store }
    }
}

fn seconds() -> Histogram {
    Histogram::new(exponential_buckets(0.000_1, 4.0, 8))
}

impl Default for StoreMetrics {
    fn default() -> Self {
        let failed_calls = Family::<[(&str, &str); 1], Counter>::default();
        let failed = std::array::from_fn(|number| {
            let reason = OutageReason::ALL.get(number).map_or("other", |reason| reason.as_str());
            failed_calls.get_or_create(&[("reason", reason)]).clone()
        });
        Self {
            calls: Counter::default(),
            failed,
            failed_calls,
            losses: Counter::default(),
            partitions_away: Gauge::default(),
            batch_calls: Histogram::new(exponential_buckets(1.0, 2.0, 7)),
            round_trip_seconds: seconds(),
        }
    }
}

impl Metrics {
    /// Adds metrics of others.
    pub(crate) fn register(&self, register: impl FnOnce(&mut Registry)) {
        register(&mut self.registry.lock());
    }

    /// Everything, as text.
    pub(crate) fn encode(&self) -> String {
        let mut text = String::new();
        // Writing to a String cannot fail.
        let _ = prometheus_client::encoding::text::encode(&mut text, &self.registry.lock());
        text
    }

    pub(crate) fn reaper(&self, name: &'static str) -> ReaperMetrics {
        let label = [("reaper", name)];
        ReaperMetrics {
            name,
            space: None,
            runs: self.reapers.runs.get_or_create(&label).clone(),
            items: self.reapers.items.get_or_create(&label).clone(),
            failures: self.reapers.failures.get_or_create(&label).clone(),
            seconds: self.reapers.seconds.get_or_create(&label).clone(),
        }
    }

    pub(crate) fn hot(&self, space: &str) -> HotMetrics {
        let label = [("space", space.to_owned())];
        HotMetrics {
            activity: self.hot.activity.get_or_create(&label).clone(),
            promoted: self.hot.promoted.get_or_create(&label).clone(),
            rejected: self.hot.rejected.get_or_create(&label).clone(),
            expired: self.hot.expired.get_or_create(&label).clone(),
            cleanups: self.hot.cleanups.get_or_create(&label).clone(),
            tracked: self.hot.tracked.get_or_create(&label).clone(),
            activities: self.hot.activities.get_or_create(&label).clone(),
            dropped: self.hot.dropped.get_or_create(&label).clone(),
            unknown: self.hot.unknown.get_or_create(&label).clone(),
            corrupt: self.hot.corrupt.get_or_create(&label).clone(),
            events: EventKind::OF_PAGES.map(|kind| {
                let labels = [("space", space.to_owned()), ("kind", kind.as_str().to_owned())];
                self.hot.events.get_or_create(&labels).clone()
            }),
        }
    }

    pub(crate) fn sessions(&self, space: &str) -> SessionMetrics {
        let label = [("space", space.to_owned())];
        let families = &self.sessions;
        SessionMetrics {
            disconnected: families.disconnected.get_or_create(&label).clone(),
            seconds: families.seconds.get_or_create(&label).clone(),
            deleted: families.deleted.get_or_create(&label).clone(),
            scanned: families.scanned.get_or_create(&label).clone(),
            active: families.active.get_or_create(&label).clone(),
            claimed: families.claimed.get_or_create(&label).clone(),
            dead: families.dead.get_or_create(&label).clone(),
            lag_seconds: families.lag_seconds.get_or_create(&label).clone(),
            lapsed: families.lapsed.get_or_create(&label).clone(),
            buried: families.buried.get_or_create(&label).clone(),
            missing: families.missing.get_or_create(&label).clone(),
            invalid: families.invalid.get_or_create(&label).clone(),
            holds: families.holds.get_or_create(&label).clone(),
            held_partitions: families.held_partitions.get_or_create(&label).clone(),
            unrecognised: families.unrecognised.get_or_create(&label).clone(),
        }
    }

    pub(crate) fn add_limit(&self, limit: Limit) {
        self.limits.lock().push(limit);
    }
}

/// Reads the limits' own counters when asked, so that counting costs a decision
/// nothing.
#[derive(Debug)]
struct LimitCollector(Arc<Mutex<Vec<Limit>>>);

#[derive(Debug, Clone, Hash, PartialEq, Eq, EncodeLabelSet)]
struct DecisionLabels {
    limit: String,
    outcome: &'static str,
    source: &'static str,
}

impl Collector for LimitCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> std::fmt::Result {
        let limits = self.0.lock();
        let mut decisions = encoder.encode_descriptor(
            "tidegate_limit_decisions",
            "Decisions by outcome and by who decided",
            None,
            MetricType::Counter,
        )?;
        for limit in limits.iter() {
            for (outcome, source, count) in limit.tallies() {
                let labels = DecisionLabels {
                    limit: limit.name().as_str().to_owned(),
                    outcome,
                    source: source.as_str(),
                };
                ConstCounter::new(count).encode(decisions.encode_family(&labels)?)?;
            }
        }
        let mut keys = encoder.encode_descriptor(
            "tidegate_limit_keys",
            "Keys held in this process",
            None,
            MetricType::Gauge,
        )?;
        for limit in limits.iter() {
            let labels = [("limit", limit.name().as_str())];
            ConstGauge::new(limit.keys_in_process() as i64).encode(keys.encode_family(&labels)?)?;
        }
        encode_leases(&limits, encoder)
    }
}

/// A name, what it is, and how it is read.
type LeaseMetric = (&'static str, &'static str, fn(&LeaseCounts) -> u64);

/// One row per limit that is leased.
fn encode_leases(limits: &[Limit], mut encoder: DescriptorEncoder<'_>) -> std::fmt::Result {
    let counters: [LeaseMetric; 3] = [
        ("tidegate_limit_leases", "Blocks of permits taken from the store", |it| it.leases),
        ("tidegate_limit_leased_permits", "Permits in them", |it| it.granted),
        ("tidegate_limit_lease_returned_permits", "Permits given back unspent", |it| it.returned),
    ];
    let gauges: [LeaseMetric; 2] = [
        ("tidegate_limit_lease_size_permits", "Permits in the last block", |it| it.size),
        ("tidegate_limit_lease_held_permits", "Permits held now", |it| it.held),
    ];
    let counts: Vec<_> =
        limits.iter().filter_map(|it| Some((it.name().as_str(), it.lease_counts()?))).collect();
    for (name, help, read) in counters {
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        for (limit, counts) in &counts {
            ConstCounter::new(read(counts)).encode(family.encode_family(&[("limit", *limit)])?)?;
        }
    }
    for (name, help, read) in gauges {
        let mut family = encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        for (limit, counts) in &counts {
            ConstGauge::new(read(counts) as i64).encode(family.encode_family(&[("limit", *limit)])?)?;
        }
    }
    Ok(())
}
