//! Redis, Valkey and their Cluster: connections, deadlines, scripts.
//!
//! What a room sees is [`RedisStore::call`]: one script, one subject, one answer
//! within the deadline. Which server that is, what travels together, what to do
//! when a script or a connection is gone: all of that stays in here.

mod breaker;
mod connection;
mod dial;
mod failure;
mod keeper;
mod lane;
mod link;
mod outage_log;
mod resp;
mod script;
mod stream;
#[cfg(test)]
mod tests;

use std::hash::{BuildHasher as _, RandomState};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use parking_lot::{Mutex, RwLock};
use redis::Value;
use tokio::sync::{Notify, oneshot};
use tokio::task::JoinHandle;

use self::connection::Connection;
use self::failure::Failure;
pub(crate) use self::failure::server_failure;
pub(crate) use self::lane::Call;
use self::lane::Lane;
use self::link::{Link, Links, is_cluster};
use self::outage_log::OutageLog;
pub(crate) use self::outage_log::PartPolicy;
pub(crate) use self::script::Script;
use super::keyspace::Keyspace;
use super::partitions;
use super::secret::Secret;
use super::{Away, Declarations, StoreOptions, StoreStatus};
use crate::clock::{self, Clock};
use crate::error::{Error, Result};
use crate::metrics::StoreMetrics;
use crate::outage::OutageReason;
use crate::random::Random;

/// How long a marker lives after its last renewal: longer than the longest
/// window, so it never ends before what it governs.
pub(crate) const MARKER_TTL: Duration = Duration::from_secs(90 * 24 * 3600);

static MARK: LazyLock<Script> = LazyLock::new(|| Script::new(&[include_str!("mark.lua")]));

/// A store on Redis. Clones share their connections, which end with the last.
#[derive(Debug, Clone)]
pub struct RedisStore {
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

/// How often a connection is made again that ends before it was of any use.
const MAX_ENDS: usize = 3;

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
    /// What the marker of the first partition has for all who share the store.
    secret: RwLock<Option<Secret>>,
    random: RandomState,
    metrics: StoreMetrics,
    /// What is answered while the store is away, by part.
    policies: Mutex<Vec<PartPolicy>>,
    /// Wakes the log.
    changed: Arc<Notify>,
}

/// What is known of a partition's marker.
#[derive(Debug, Clone, Default)]
struct Marker {
    /// The number of the connection on which it was read, 0 for never. Once
    /// read, its absence is a loss.
    read_on: u64,
    /// The server that had it.
    run: String,
    /// When writes were last lost, by our own clock.
    lost_at: Option<Instant>,
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
            secret: RwLock::default(),
            keyspace,
            links: Arc::new(Links::new(url, options)?.will_ask_for(slots)),
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

    /// The partition of `subject`.
    pub(crate) fn partition(&self, subject: &str) -> u32 {
        self.shared.keyspace.partition(subject)
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
        let deadline = clock::deadline(self.shared.deadline);
        self.counted(partition, self.lanes[partition as usize].call(call, deadline)).await
    }

    /// The same with a deadline of its own, for work that can wait: for its turn, however
    /// many others do, and for a server that is only busy.
    pub(crate) async fn call_within(&self, partition: u32, call: Call, within: Duration) -> Result<Value> {
        let deadline = clock::deadline(within.max(self.shared.deadline));
        self.counted(partition, self.lanes[partition as usize].call_queued(&call, deadline)).await
    }

    /// The same for what nobody asked for: it is in no count of calls, and of no use to an
    /// outage's.
    pub(crate) async fn call_unasked(&self, partition: u32, call: Call) -> Result<Value> {
        let deadline = clock::deadline(self.shared.deadline);
        self.lanes[partition as usize].call(call, deadline).await
    }

    async fn counted(&self, partition: u32, call: impl Future<Output = Result<Value>>) -> Result<Value> {
        let metrics = &self.shared.metrics;
        metrics.calls.inc();
        let answer = call.await;
        if let Err(error) = &answer {
            metrics.failed(error.reason());
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
        let renewed = partitions::each(all.map(|it| self.shared.renew(it)).collect()).await;
        renewed.into_iter().try_for_each(|it| it.map(drop))
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

    /// Partitions whose server is away.
    pub(crate) fn away(&self) -> usize {
        self.lanes.iter().filter(|lane| lane.breaker.is_open()).count()
    }
}

/// The partition of a subject, and what its keys start with.
pub(crate) struct Place {
    pub(crate) partition: u32,
    pub(crate) prefix: String,
}

impl Shared {
    /// The connection for a partition. On a new one the marker is read first, so
    /// that a loss is known before the first call.
    async fn link(self: &Arc<Self>, partition: u32) -> Result<Link> {
        let current = self.links.current(self.keyspace.slot(partition));
        if let Some(link) = current.filter(|link| self.read_on(partition) == link.number) {
            return Ok(link);
        }
        // In a task of its own: who has no time left for it leaves it to the next.
        let shared = self.clone();
        let made = tokio::spawn(async move { shared.make_link(partition).await });
        made.await.unwrap_or_else(|_| Err(Error::away(OutageReason::Stopping, "the store is shutting down")))
    }

    async fn make_link(&self, partition: u32) -> Result<Link> {
        let slot = self.keyspace.slot(partition);
        let mut ends = 0;
        loop {
            let mut link = self.links.get(slot).await.map_err(|failure| self.failure(failure))?;
            if self.read_on(partition) == link.number {
                return Ok(link);
            }
            match self.mark(partition, &mut link).await {
                Ok(()) => return Ok(link),
                // Whoever cut it, to read a marker twice does no harm.
                Err(error) if error.reason() == Some(OutageReason::Cut) && ends < MAX_ENDS => ends += 1,
                Err(error) => return Err(error),
            }
        }
    }

    /// Reads and renews the marker of a partition; the connection. One on which that
    /// fails is dropped.
    async fn renew(&self, partition: u32) -> Result<Connection> {
        let slot = self.keyspace.slot(partition);
        let mut ends = 0;
        loop {
            let mut link = self.links.get(slot).await.map_err(|failure| self.failure(failure))?;
            let number = link.number;
            let patience = clock::deadline(self.connect_timeout + self.deadline);
            let renewed = match tokio::time::timeout_at(patience, self.mark(partition, &mut link)).await {
                Ok(renewed) => renewed,
                Err(_) => {
                    let text = "the store accepts connections and does not answer";
                    Err(Error::away(OutageReason::Timeout, text))
                }
            };
            let Err(error) = renewed else { return Ok(link.connection) };
            self.links.discard(slot, number);
            if error.reason() != Some(OutageReason::Cut) || ends == MAX_ENDS {
                return Err(error);
            }
            ends += 1;
        }
    }

    /// Drops the connection that a partition last used.
    fn drop_link(&self, partition: u32) {
        self.links.discard(self.keyspace.slot(partition), self.read_on(partition));
    }

    fn read_on(&self, partition: u32) -> u64 {
        self.markers[partition as usize].lock().read_on
    }

    async fn mark(&self, partition: u32, link: &mut Link) -> Result<()> {
        let failed = |failure| self.failure(failure);
        let seen = self.markers[partition as usize].lock().clone();
        // A connection leads to one run of a server for as long as it lives.
        let run = match seen.read_on == link.number {
            true => seen.run.clone(),
            false => server_run(link).await.map_err(failed)?,
        };
        let time = match &self.clock {
            Clock::System(_) => String::new(),
            Clock::Manual(clock) => clock.now().as_millis().to_string(),
        };
        let (partitions, hash) = (self.keyspace.partitions().to_string(), self.keyspace.hash_id());
        let known = if seen.read_on > 0 { "1" } else { "0" };
        let only_read = if self.is_read_only { "1" } else { "0" };
        let ttl = self.marker_ttl.as_millis().to_string();
        let marker = self.keyspace.marker(partition);
        // One that was known before a loss is restored, so that what it checked stays good.
        let secret = match partition {
            0 => self.secret.read().unwrap_or_else(Secret::random).to_text(),
            _ => String::new(),
        };
        let args = [&*time, &partitions, &hash, &run, known, &seen.run, &ttl, &secret, only_read];
        let answer = MARK.run(link, &[&marker], &args).await.map_err(failed)?;
        let (stored, stored_hash, lost, secret, since_loss_ms): (String, String, u8, String, i64) =
            redis::from_redis_value(answer)
                .map_err(|error| Error::internal(format!("the marker: {error}")))?;
        if stored != partitions || stored_hash != hash {
            return Err(Error::config(format!(
                "the data was written with {stored} partitions (hash {stored_hash}), this is set to {partitions} \
                 (hash {hash}): use the same, or another namespace"
            )));
        }
        if let Some(secret) = Secret::read(&secret) {
            *self.secret.write() = Some(secret);
        }
        let since_loss = u64::try_from(since_loss_ms).ok().map(Duration::from_millis);
        // What was lost before this machine was started is over.
        let lost_at = since_loss.and_then(|since| clock::monotonic().checked_sub(since));
        *self.markers[partition as usize].lock() = Marker { read_on: link.number, run, lost_at };
        if lost == 1 {
            let server = self.links.server_of(self.keyspace.slot(partition));
            tracing::warn!(
                server,
                partition,
                "the store lost writes (a restart, a failover, a flush): charges may be forgotten"
            );
            self.metrics.losses.inc();
        }
        // Give or take the way that the answer took.
        let is_new = match (lost_at, seen.lost_at) {
            (Some(now), Some(seen)) => now > seen + Duration::from_secs(1),
            (now, _) => now.is_some(),
        };
        if is_new {
            self.changed.notify_one();
        }
        Ok(())
    }

    /// What a failed round trip means.
    fn failure(&self, failure: Failure) -> Error {
        failure.into_error(self.links.is_cluster())
    }

    /// Half of `pause` to all of it, so that many nodes do not come back at once.
    fn jitter(&self, pause: Duration) -> Duration {
        let random = self.random.hash_one(clock::monotonic()) % 1024;
        pause / 2 + pause.mul_f64(random as f64 / 2048.0)
    }
}

/// Tells one run of a server from the next; unknown where INFO is forbidden.
async fn server_run(link: &mut Link) -> Result<String, Failure> {
    match link.send(redis::cmd("INFO").arg("server")).await {
        Ok(info) => {
            let info: String = redis::from_redis_value(info).unwrap_or_default();
            let run = info.lines().find_map(|line| line.strip_prefix("run_id:"));
            Ok(run.unwrap_or_default().to_owned())
        }
        Err(failure) if failure.has_code("NOPERM") => Ok(String::new()),
        Err(failure) => Err(failure),
    }
}
