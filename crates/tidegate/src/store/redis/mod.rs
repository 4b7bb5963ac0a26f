//! Redis, Valkey and their Cluster: connections, deadlines, scripts.
//!
//! What a room sees is [`RedisStore::call`]: one script, one subject, one answer
//! within the deadline. Which server that is, what travels together, what to do
//! when a script or a connection is gone: all of that stays in here.

mod breaker;
mod lane;
mod link;
mod script;
#[cfg(test)]
mod tests;

use std::hash::{BuildHasher as _, RandomState};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use parking_lot::{Mutex, RwLock};
use redis::{ServerErrorKind, Value};
use tokio::sync::oneshot;

pub(crate) use self::lane::Call;
use self::lane::Lane;
use self::link::{Link, Links, is_cluster};
pub(crate) use self::script::Script;
use super::keyspace::Keyspace;
use super::secret::Secret;
use super::{Declarations, StoreOptions};
use crate::clock::{self, Clock};
use crate::error::{Error, Result};
use crate::metrics::StoreMetrics;
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
    /// By partition, what was last read of its marker.
    markers: Box<[Mutex<Marker>]>,
    /// What the marker of the first partition has for all who share the store.
    secret: RwLock<Option<Secret>>,
    random: RandomState,
    metrics: StoreMetrics,
}

/// What is known of a partition's marker.
#[derive(Debug, Clone, Default)]
struct Marker {
    /// The number of the connection on which it was read, 0 for never. Once
    /// read, its absence is a loss.
    read_on: u64,
    /// The server that had it.
    run: String,
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
            declarations: options.declarations,
            random: RandomState::new(),
            metrics,
        });
        let (lanes, reached): (Vec<_>, Vec<_>) = (0..shared.keyspace.partitions())
            .map(|partition| {
                let (first, reached) = oneshot::channel();
                (Lane::start(shared.clone(), partition, first), reached)
            })
            .unzip();
        for reached in reached {
            match reached.await {
                Ok(Err(error)) if !error.is_transient() => return Err(error),
                _ => {}
            }
        }
        Ok(Self { lanes: lanes.into(), shared })
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
        let metrics = &self.shared.metrics;
        metrics.calls.inc();
        let deadline = clock::deadline(self.shared.deadline);
        let answer = self.lanes[partition as usize].call(call, deadline).await;
        if answer.is_err() {
            metrics.failed_calls.inc();
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
        let mut renewed = Ok(());
        for partition in 0..self.shared.keyspace.partitions() {
            renewed = self.shared.renew(partition).await.and(renewed);
        }
        renewed
    }

    /// Whether every partition's server can be used right now.
    pub(crate) fn check(&self) -> Result<()> {
        self.lanes.iter().try_for_each(|lane| lane.breaker.check())
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
    async fn link(&self, partition: u32) -> Result<Link> {
        let slot = self.keyspace.slot(partition);
        let mut link = self.links.get(slot).await.map_err(|error| self.failure(&error))?;
        if self.read_on(partition) != link.number {
            self.mark(partition, &mut link).await?;
        }
        Ok(link)
    }

    /// Reads and renews the marker of a partition. A connection on which that
    /// fails is dropped.
    async fn renew(&self, partition: u32) -> Result<()> {
        let slot = self.keyspace.slot(partition);
        let mut link = self.links.get(slot).await.map_err(|error| self.failure(&error))?;
        let number = link.number;
        let patience = clock::deadline(self.connect_timeout + self.deadline);
        let renewed = match tokio::time::timeout_at(patience, self.mark(partition, &mut link)).await {
            Ok(renewed) => renewed,
            Err(_) => Err(Error::unavailable("the store accepts connections and does not answer")),
        };
        if renewed.is_err() {
            self.links.discard(slot, number);
        }
        renewed
    }

    /// Drops the connection that a partition last used.
    fn drop_link(&self, partition: u32) {
        self.links.discard(self.keyspace.slot(partition), self.read_on(partition));
    }

    fn read_on(&self, partition: u32) -> u64 {
        self.markers[partition as usize].lock().read_on
    }

    async fn mark(&self, partition: u32, link: &mut Link) -> Result<()> {
        let failed = |error: redis::RedisError| self.failure(&error);
        let run = server_run(link).await.map_err(failed)?;
        let seen = self.markers[partition as usize].lock().clone();
        let time = match &self.clock {
            Clock::System(_) => String::new(),
            Clock::Manual(clock) => clock.now().as_millis().to_string(),
        };
        let (partitions, hash) = (self.keyspace.partitions().to_string(), self.keyspace.hash_id());
        let known = if seen.read_on > 0 { "1" } else { "0" };
        let ttl = MARKER_TTL.as_millis().to_string();
        let marker = self.keyspace.marker(partition);
        // One that was known before a loss is restored, so that what it checked stays good.
        let secret = match partition {
            0 => self.secret.read().unwrap_or_else(Secret::random).to_text(),
            _ => String::new(),
        };
        let args = [&*time, &partitions, &hash, &run, known, &seen.run, &ttl, &secret];
        let answer = MARK.run(link, &[&marker], &args).await.map_err(failed)?;
        let (stored, stored_hash, lost, secret): (String, String, u8, String) =
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
        *self.markers[partition as usize].lock() = Marker { read_on: link.number, run };
        if lost == 1 {
            tracing::warn!(partition, "store was restarted or replaced: charges may be lost");
            self.metrics.losses.inc();
        }
        Ok(())
    }

    /// What a failed round trip means.
    fn failure(&self, error: &redis::RedisError) -> Error {
        use redis::ErrorKind;
        match error.kind() {
            ErrorKind::AuthenticationFailed | ErrorKind::InvalidClientConfig => {
                Error::config(format!("the store refuses us: {error}"))
            }
            ErrorKind::Io | ErrorKind::ClusterConnectionNotFound | ErrorKind::Parse => {
                Error::unavailable(format!("the store cannot be reached: {error}"))
            }
            ErrorKind::UnexpectedReturnType => Error::internal(format!("the store answered: {error}")),
            // In a cluster these have been followed.
            ErrorKind::Server(ServerErrorKind::Moved | ServerErrorKind::Ask | ServerErrorKind::CrossSlot)
                if !self.links.is_cluster() =>
            {
                Error::config("the store is one node of a cluster: use redis-cluster:// for it")
            }
            _ => match error.code() {
                Some(code) => {
                    let text = format!("{code} {}", error.detail().unwrap_or_default());
                    if self.links.is_cluster() && text.contains("cluster support disabled") {
                        return Error::config("the store is not a cluster: use redis:// for it");
                    }
                    server_failure(&text)
                }
                None => Error::unavailable(format!("the store cannot be reached: {error}")),
            },
        }
    }

    /// Half of `pause` to all of it, so that many nodes do not come back at once.
    fn jitter(&self, pause: Duration) -> Duration {
        let random = self.random.hash_one(clock::monotonic()) % 1024;
        pause / 2 + pause.mul_f64(random as f64 / 2048.0)
    }
}

/// Tells one run of a server from the next; unknown where INFO is forbidden.
async fn server_run(link: &mut Link) -> redis::RedisResult<String> {
    match link.send(redis::cmd("INFO").arg("server")).await {
        Ok(info) => {
            let info: String = redis::from_redis_value(info)?;
            let run = info.lines().find_map(|line| line.strip_prefix("run_id:"));
            Ok(run.unwrap_or_default().to_owned())
        }
        Err(error) if error.kind() == ServerErrorKind::NoPerm.into() => Ok(String::new()),
        Err(error) => Err(error),
    }
}

/// What an error of the server means, by its code. Before version 7 a script's
/// error has the line in front: `@user_script: 12: -OOM command not allowed`.
pub(crate) fn server_failure(text: &str) -> Error {
    let told = text
        .rsplit_once("@user_script: ")
        .and_then(|(_, line)| line.split_once(": "))
        .map_or(text, |it| it.1);
    let code = told.trim_start_matches('-').split(' ').next().unwrap_or_default();
    match code {
        "LOADING" | "READONLY" | "OOM" | "BUSY" | "MISCONF" | "TRYAGAIN" | "CLUSTERDOWN" | "MASTERDOWN"
        | "NOREPLICAS" | "UNBLOCKED" => Error::unavailable(format!("the store cannot answer now: {told}")),
        "NOAUTH" | "WRONGPASS" | "NOPERM" => Error::config(format!("the store refuses us: {told}")),
        _ if CORRUPT.iter().any(|mark| told.contains(mark)) => Error::corrupt(format!(
            "a key in the store is of another type than ours, or cannot be read: {told}"
        )),
        _ => Error::internal(format!("the store answered: {told}")),
    }
}

/// What Redis and Lua say of a key that is not what a script takes it for. `is_corrupt` in
/// `limit/reset.lua` goes by the same words.
const CORRUPT: [&str; 6] = [
    "WRONGTYPE",
    "attempt to ",
    "bad argument",
    "data string too short",
    "not an integer",
    "not a valid float",
];
