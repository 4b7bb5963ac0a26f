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
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use redis::{ServerErrorKind, Value};
use tokio::sync::oneshot;

pub(crate) use self::lane::Call;
use self::lane::Lane;
use self::link::{Link, Links};
pub(crate) use self::script::Script;
use super::StoreOptions;
use super::keyspace::Keyspace;
use crate::clock::{self, Clock};
use crate::error::{Error, Result};
use crate::metrics::StoreMetrics;

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
    links: Links,
    clock: Clock,
    deadline: Duration,
    connect_timeout: Duration,
    /// By partition, the number of the connection on which its marker was last
    /// read, 0 for never. Once read, its absence is a loss.
    marked_on: Box<[AtomicU64]>,
    random: RandomState,
    metrics: StoreMetrics,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The target may hold a password.
        f.debug_struct("Shared").field("keyspace", &self.keyspace).finish_non_exhaustive()
    }
}

impl RedisStore {
    /// Opens the store at `url`. A server that cannot be reached now is no
    /// error: calls follow their outage policy until it can. A server that can
    /// be reached and cannot be used is.
    pub(crate) async fn open(url: &str, options: &StoreOptions, metrics: StoreMetrics) -> Result<Self> {
        let links = Links::new(url, options)?;
        let keyspace = Keyspace::new(
            options.namespace.as_ref(),
            options.partitions,
            options.hash_key,
            links.is_cluster(),
        )?;
        let shared = Arc::new(Shared {
            marked_on: (0..keyspace.partitions()).map(|_| AtomicU64::new(0)).collect(),
            keyspace,
            links,
            clock: options.clock.clone(),
            deadline: options.deadline,
            connect_timeout: options.connect_timeout,
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

    /// Makes a call to a partition.
    pub(crate) async fn call(&self, partition: u32, call: Call) -> Result<Value> {
        self.shared.metrics.calls.inc();
        let deadline = clock::deadline(self.shared.deadline);
        self.lanes[partition as usize].call(call, deadline).await
    }

    /// The time to send along, if a test set one.
    pub(crate) fn set_time_ms(&self) -> Option<u64> {
        match &self.shared.clock {
            Clock::System(_) => None,
            Clock::Manual(clock) => Some(clock.now().as_millis()),
        }
    }

    pub(crate) fn clock(&self) -> &Clock {
        &self.shared.clock
    }

    /// Renews the markers, so that they outlive whatever is written meanwhile.
    pub(crate) async fn renew_markers(&self) -> Result<()> {
        for partition in 0..self.shared.keyspace.partitions() {
            let deadline = clock::deadline(self.shared.probe_timeout());
            tokio::time::timeout_at(deadline, self.shared.renew(partition))
                .await
                .map_err(|_| Error::unavailable("the store did not answer"))??;
        }
        Ok(())
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
        let (number, mut link) = self.links.get().await.map_err(|error| failure(&error))?;
        if self.marked_on(partition) != number {
            self.mark(partition, number, &mut link).await?;
        }
        Ok(link)
    }

    /// Reads and renews the marker of a partition.
    async fn renew(&self, partition: u32) -> Result<()> {
        let (number, mut link) = self.links.get().await.map_err(|error| failure(&error))?;
        self.mark(partition, number, &mut link).await
    }

    fn marked_on(&self, partition: u32) -> u64 {
        self.marked_on[partition as usize].load(Ordering::Acquire)
    }

    async fn mark(&self, partition: u32, number: u64, link: &mut Link) -> Result<()> {
        let failed = |error: redis::RedisError| failure(&error);
        let run = self.server_run(link).await.map_err(failed)?;
        let time = match &self.clock {
            Clock::System(_) => String::new(),
            Clock::Manual(clock) => clock.now().as_millis().to_string(),
        };
        let (partitions, hash) = (self.keyspace.partitions().to_string(), self.keyspace.hash_id());
        let seen = if self.marked_on(partition) > 0 { "1" } else { "0" };
        let ttl = MARKER_TTL.as_millis().to_string();
        let marker = self.keyspace.marker(partition);
        let args = [&*time, &partitions, &hash, &run, seen, &ttl];
        let answer = MARK.run(link, &[&marker], &args).await.map_err(failed)?;
        let (stored, stored_hash, lost): (String, String, u8) = redis::from_redis_value(answer)
            .map_err(|error| Error::internal(format!("the marker: {error}")))?;
        if stored != partitions || stored_hash != hash {
            return Err(Error::config(format!(
                "the data was written with {stored} partitions (hash {stored_hash}), this is set to {partitions} \
                 (hash {hash}): use the same, or another namespace"
            )));
        }
        self.marked_on[partition as usize].store(number, Ordering::Release);
        if lost == 1 {
            tracing::warn!(partition, "store was restarted or replaced: charges may be lost");
            self.metrics.losses.inc();
        }
        Ok(())
    }

    /// Tells one run of a server from the next. Unknown in a cluster, where a
    /// vanished marker tells of a loss instead, and where INFO is forbidden.
    async fn server_run(&self, link: &mut Link) -> redis::RedisResult<String> {
        if self.links.is_cluster() {
            return Ok(String::new());
        }
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

    fn probe_timeout(&self) -> Duration {
        self.connect_timeout + self.deadline
    }

    /// Half of `pause` to all of it, so that many nodes do not come back at once.
    fn jitter(&self, pause: Duration) -> Duration {
        let random = self.random.hash_one(clock::monotonic()) % 1024;
        pause / 2 + pause.mul_f64(random as f64 / 2048.0)
    }
}

/// What a failed round trip means.
fn failure(error: &redis::RedisError) -> Error {
    use redis::ErrorKind;
    match error.kind() {
        ErrorKind::AuthenticationFailed | ErrorKind::InvalidClientConfig => {
            Error::config(format!("the store refuses us: {error}"))
        }
        ErrorKind::Io | ErrorKind::ClusterConnectionNotFound | ErrorKind::Parse => {
            Error::unavailable(format!("the store cannot be reached: {error}"))
        }
        ErrorKind::UnexpectedReturnType => Error::internal(format!("the store answered: {error}")),
        _ => match error.code() {
            Some(code) => server_failure(&format!("{code} {}", error.detail().unwrap_or_default())),
            None => Error::unavailable(format!("the store cannot be reached: {error}")),
        },
    }
}

/// What an error of the server means, by its first word.
fn server_failure(text: &str) -> Error {
    let code = text.trim_start_matches('-').split(' ').next().unwrap_or_default();
    match code {
        "LOADING" | "READONLY" | "OOM" | "BUSY" | "MISCONF" | "TRYAGAIN" | "CLUSTERDOWN" | "MASTERDOWN"
        | "MOVED" | "ASK" | "NOREPLICAS" | "UNBLOCKED" => {
            Error::unavailable(format!("the store cannot answer now: {text}"))
        }
        "NOAUTH" | "WRONGPASS" | "NOPERM" => Error::config(format!("the store refuses us: {text}")),
        _ => Error::internal(format!("the store answered: {text}")),
    }
}
