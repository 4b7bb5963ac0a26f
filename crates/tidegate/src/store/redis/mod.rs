//! Redis, Valkey and their Cluster: connections, deadlines, scripts.
//!
//! What a room sees is [`RedisStore::call`]: one script, one subject, one answer
//! within the deadline. Which server that is, what travels together, what to do
//! when a script or a connection is gone: all of that stays in here.

mod breaker;
mod call;
mod connection;
mod dial;
mod direct;
mod failure;
mod items;
mod keeper;
mod lane;
mod link;
mod marker;
mod outage_log;
mod reply;
mod resp;
mod script;
mod stream;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::hash::{BuildHasher as _, RandomState};
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Mutex, RwLock};
use redis::Value;
use tokio::sync::{Notify, oneshot};
use tokio::task::JoinHandle;

pub(crate) use self::call::{Args, Call, Keys};
pub(crate) use self::direct::Direct;
use self::failure::Failure;
pub(crate) use self::failure::server_failure;
pub(crate) use self::items::Joining;
use self::lane::Lane;
pub(crate) use self::link::Node;
use self::link::{Links, is_cluster};
pub(crate) use self::marker::MARKER_TTL;
use self::marker::{LossMet, Marker};
use self::outage_log::OutageLog;
pub(crate) use self::outage_log::PartPolicy;
#[cfg(test)]
pub(crate) use self::reply::codes;
pub(crate) use self::reply::{Fields, Replies};
pub(crate) use self::script::Script;
use super::keyspace::Keyspace;
use super::secret::Secret;
use super::tally::Tally;
use super::{Away, Declarations, StoreHealth, StoreOptions, StoreStatus};
use super::{Spread, partitions};
use crate::PartKind;
use crate::clock::{self, Clock};
use crate::error::{Error, Result};
use crate::random::Random;
use crate::store::metrics::StoreMetrics;

/// A store on Redis. Clones share their connections, which end with the last.
#[derive(Debug, Clone)]
pub(crate) struct RedisStore {
    lanes: Arc<[Lane]>,
    shared: Arc<Shared>,
    _log: Arc<Task>,
}

/// A task that ends with whoever holds this.
#[derive(Debug)]
struct Task(JoinHandle<()>);

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// What all lanes of a store share.
struct Shared {
    keyspace: Keyspace,
    links: Arc<Links>,
    clock: Clock,
    client_clock: Clock,
    random_source: Random,
    deadline: Duration,
    connect_timeout: Duration,
    declarations: Declarations,
    is_read_only: bool,
    marker_ttl: Duration,
    check_interval: Duration,
    /// By partition, what was last read of its marker.
    markers: Box<[Mutex<Marker>]>,
    /// By partition: a call met a loss that is not known yet.
    losses: Box<[LossMet]>,
    /// By partition: who reads its marker does so alone, and others wait for it.
    marking: Box<[tokio::sync::Mutex<()>]>,
    /// What the marker of the first partition has for all who share the store.
    secret: RwLock<Option<Secret>>,
    random: RandomState,
    metrics: StoreMetrics,
    tally: Tally,
    unhealthy_after: NonZeroU32,
    /// What is answered while the store is away, by part.
    policies: Mutex<Vec<PartPolicy>>,
    /// Wakes the log.
    changed: Arc<Notify>,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The target may hold a password.
        f.debug_struct("Shared").field("keyspace", &self.keyspace).finish_non_exhaustive()
    }
}

impl RedisStore {
    pub(crate) async fn open(url: &str, options: &StoreOptions, metrics: StoreMetrics) -> Result<Self> {
        let namespace = options.namespace.as_ref();
        let keyspace = Keyspace::new(namespace, options.partitions, options.hash_key, is_cluster(url))?;
        let slots = (0..keyspace.partitions()).map(|partition| keyspace.slot(partition)).collect();
        let shared = Arc::new(Shared {
            markers: (0..keyspace.partitions()).map(|_| Mutex::default()).collect(),
            losses: (0..keyspace.partitions()).map(|_| LossMet::default()).collect(),
            marking: (0..keyspace.partitions()).map(|_| tokio::sync::Mutex::default()).collect(),
            secret: RwLock::default(),
            keyspace,
            links: Arc::new(Links::new(url, options)?.with_slots(slots)),
            clock: options.clock.clone(),
            client_clock: options.client_clock.as_ref().unwrap_or(&options.clock).clone(),
            random_source: options.random.clone(),
            deadline: options.deadline,
            connect_timeout: options.connect_timeout,
            // Who writes nothing declares nothing.
            declarations: if options.read_only { Declarations::ReadOnly } else { options.declarations },
            is_read_only: options.read_only,
            marker_ttl: options.marker_ttl,
            check_interval: options.check_interval,
            random: RandomState::new(),
            metrics,
            tally: Tally::default(),
            unhealthy_after: options.unhealthy_after,
            policies: Mutex::default(),
            changed: Arc::default(),
        });
        let (lanes, reached): (Vec<_>, Vec<_>) = (0..shared.keyspace.partitions())
            .map(|partition| {
                let (first, reached) = oneshot::channel();
                (Lane::start(shared.clone(), partition, first), reached)
            })
            .unzip();
        // An outage is told at once, and all partitions have the time of one.
        let log = OutageLog::new(shared.clone(), lanes.iter().map(|lane| lane.breaker.clone()).collect());
        let log = Arc::new(Task(tokio::spawn(log.run())));
        let until = clock::deadline(options.connect_timeout + options.deadline);
        for reached in reached {
            match tokio::time::timeout_at(until, reached).await {
                Ok(Ok(Err(error))) if !error.is_transient() => return Err(error),
                _ => {}
            }
        }
        Ok(Self { lanes: lanes.into(), shared, _log: log })
    }

    /// Says what a part answers while the store is away.
    pub(crate) fn declare_policy(&self, policy: PartPolicy) {
        let mut policies = self.shared.policies.lock();
        policies.retain(|known| known.name != policy.name);
        policies.push(policy);
        // It may have begun with a hold.
        self.shared.changed.notify_one();
    }

    /// A call was refused since the store lost writes: the marker is read now and not when it is due, so that the
    /// loss is counted and logged while it matters.
    pub(crate) fn meet_loss(&self, subject: &str) {
        self.shared.losses[self.shared.keyspace.partition(subject) as usize].meet();
    }

    /// Where the keys of `subject` are.
    pub(crate) fn place(&self, subject: &str) -> Place {
        let partition = self.shared.keyspace.partition(subject);
        Place { partition, prefix: self.shared.keyspace.prefix(partition) }
    }

    /// Where one of several things of `subject` is, each by its number: next to each
    /// other.
    pub(crate) fn spread(&self, subject: &str, number: u32) -> Place {
        let first = self.shared.keyspace.partition(subject);
        let partition = (first + number) % self.shared.keyspace.partitions();
        Place { partition, prefix: self.shared.keyspace.prefix(partition) }
    }

    /// How many partitions there are.
    pub(crate) fn partitions(&self) -> u32 {
        self.shared.keyspace.partitions()
    }

    /// How subjects are spread over them.
    pub(crate) fn subjects(&self) -> Spread {
        self.shared.keyspace.spread()
    }

    /// What keys of a partition start with.
    pub(crate) fn prefix(&self, partition: u32) -> String {
        self.shared.keyspace.prefix(partition)
    }

    /// The marker of a partition.
    pub(crate) fn marker(&self, partition: u32) -> String {
        self.shared.keyspace.marker(partition)
    }

    /// Whether a partition's server can be used right now.
    pub(crate) fn check_partition(&self, partition: u32) -> Result<()> {
        self.lanes[partition as usize].breaker.check()
    }

    /// What to do about other settings that are declared.
    pub(crate) fn declarations(&self) -> Declarations {
        self.shared.declarations
    }

    /// Makes a call to a partition.
    pub(crate) async fn call(&self, partition: u32, call: Call) -> Result<Value> {
        let (deadline, part) = (clock::deadline(self.shared.deadline), call.script.part);
        self.counted(partition, part, self.lanes[partition as usize].call(self.timed(call), deadline)).await
    }

    /// The same with a deadline of its own, for work that can wait: for its turn, however
    /// many others do, and for a server that is only busy.
    pub(crate) async fn call_within(&self, partition: u32, call: Call, within: Duration) -> Result<Value> {
        let (deadline, part) = (clock::deadline(within.max(self.shared.deadline)), call.script.part);
        let lane = &self.lanes[partition as usize];
        self.counted(partition, part, lane.call_queued(&self.timed(call), deadline)).await
    }

    /// The same for what nobody asked for: it is in no count of calls, and of no use to an
    /// outage's.
    pub(crate) async fn call_uncounted(&self, partition: u32, call: Call) -> Result<Value> {
        let deadline = clock::deadline(self.shared.deadline);
        self.lanes[partition as usize].call(self.timed(call), deadline).await
    }

    /// A call with the time that a test set.
    fn timed(&self, call: Call) -> Call {
        Call { now_ms: self.set_time_ms(), ..call }
    }

    async fn counted(
        &self,
        partition: u32,
        part: Option<PartKind>,
        call: impl Future<Output = Result<Value>>,
    ) -> Result<Value> {
        self.shared.tally.operation(part);
        let answer = call.await;
        if let Err(error) = &answer {
            self.shared.tally.failure(part);
            self.shared.metrics.failed(error.reason());
            self.lanes[partition as usize].breaker.count_refused();
        }
        answer
    }

    /// The time to send along, if a test set one.
    pub(crate) fn set_time_ms(&self) -> Option<u64> {
        match &self.shared.clock {
            Clock::System(_) => None,
            Clock::Manual(clock) => Some(clock.now().as_millis()),
        }
    }

    /// How long a call is waited for.
    pub(crate) fn deadline(&self) -> Duration {
        self.shared.deadline
    }

    /// Whether both are clones of one.
    pub(crate) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
    }

    /// What all who share the store make checks with, if it was ever reached.
    pub(crate) fn secret(&self) -> Option<Secret> {
        *self.shared.secret.read()
    }

    pub(crate) fn metrics(&self) -> &StoreMetrics {
        &self.shared.metrics
    }

    pub(crate) fn clock(&self) -> &Clock {
        &self.shared.clock
    }

    /// What this process takes for the time: only good for a guess.
    pub(crate) fn client_clock(&self) -> &Clock {
        &self.shared.client_clock
    }

    pub(crate) fn random(&self) -> &Random {
        &self.shared.random_source
    }

    /// Renews the markers, so that they outlive whatever is written meanwhile.
    /// One that cannot be reached does not keep the others from it.
    pub(crate) async fn renew_markers(&self) -> Result<()> {
        let all = 0..self.shared.keyspace.partitions();
        partitions::all(all.map(|it| self.shared.renew(it))).await.map(drop)
    }

    /// Whether it was opened to look only.
    pub(crate) fn is_read_only(&self) -> bool {
        self.shared.is_read_only
    }

    /// Whether every partition's server can be used right now.
    pub(crate) fn check(&self) -> Result<()> {
        self.lanes.iter().try_for_each(|lane| lane.breaker.check())
    }

    /// What is away, by server.
    pub(crate) fn status(&self) -> StoreStatus {
        let mut away: Vec<Away> = Vec::new();
        for outage in self.lanes.iter().filter_map(|lane| lane.breaker.outage()) {
            match away.iter_mut().find(|away| away.server == outage.server) {
                Some(away) => {
                    away.partitions += 1;
                    away.since = away.since.min(outage.since);
                }
                None => away.push(Away {
                    reason: outage.reason(),
                    detail: outage.error.to_string(),
                    server: outage.server,
                    partitions: 1,
                    since: outage.since,
                }),
            }
        }
        away.sort_by_key(|away| away.since);
        let was_reached = self.lanes.iter().any(|lane| lane.breaker.was_closed());
        StoreStatus { partitions: self.partitions(), was_reached, away }
    }

    /// How the servers have been doing, as this process has seen it.
    pub(crate) fn health(&self) -> StoreHealth {
        let Shared { links, keyspace, tally, .. } = &*self.shared;
        let (attempts, failures) = links.attempts();
        let consecutive = self.lanes.iter().map(|lane| lane.breaker.consecutive_failures());
        let servers: BTreeSet<_> =
            (0..self.partitions()).map(|partition| links.server_of(keyspace.slot(partition))).collect();
        let mut health = StoreHealth::new(self.shared.unhealthy_after);
        health.connection_attempts = attempts;
        health.connection_failures = failures;
        health.consecutive_failures = consecutive.max().unwrap_or_default();
        tally.tell(&mut health, (clock::monotonic(), self.client_clock().now()), &servers);
        health
    }

    /// Partitions whose server is away, or takes no writes.
    pub(crate) fn away(&self) -> usize {
        self.lanes.iter().filter(|lane| lane.breaker.outage().is_some()).count()
    }
}

/// The partition of a subject, and what its keys start with.
pub(crate) struct Place {
    pub(crate) partition: u32,
    pub(crate) prefix: String,
}

impl Shared {
    /// What a failed round trip means.
    fn failure(&self, failure: Failure) -> Error {
        failure.into_error(self.links.is_cluster())
    }

    /// Counts a round trip of `calls`, which has just ended.
    fn count_batch(&self, part: Option<PartKind>, calls: usize, started: Instant) {
        let now = clock::monotonic();
        let took = now.saturating_duration_since(started);
        self.metrics.batch(calls, took);
        self.tally.round_trip(part, calls as u64, took, (now, self.client_clock.now()));
    }

    /// Half of `pause` to all of it, so that many nodes do not come back at once.
    fn jitter(&self, pause: Duration) -> Duration {
        let random = self.random.hash_one(clock::monotonic()) % 1024;
        pause / 2 + pause.mul_f64(random as f64 / 2048.0)
    }
}
