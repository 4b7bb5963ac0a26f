//! Opening a store.

use std::num::NonZeroU32;
use std::time::Duration;

use super::declaration::Declarations;
use super::health::StoreHealth;
use super::metrics::StoreMetrics;
use super::redis::{MARKER_TTL, RedisStore};
use super::spread::Spread;
use super::status::StoreStatus;
use crate::clock::Clock;
use crate::error::{Error, Result};
use crate::key::Name;
use crate::random::Random;
use crate::setters::setters;

/// An open store. Clones share it.
#[derive(Debug, Clone)]
pub struct Store(Backend);

/// Where it is: a closed enum, so that nothing is boxed on the way and no type parameter leaks
/// into a user's types. Rooms implement each operation once per variant.
#[derive(Debug, Clone)]
pub(crate) enum Backend {
    /// In this process: nothing to install, and gone with it.
    Memory(MemoryStore),
    /// Redis, Valkey or a Cluster of either.
    Redis(RedisStore),
}

/// A store in this process.
#[derive(Debug, Clone)]
pub(crate) struct MemoryStore {
    pub(crate) clock: Clock,
    pub(crate) random: Random,
    pub(crate) spread: Spread,
    unhealthy_after: NonZeroU32,
}

/// How to open a store.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct StoreOptions {
    /// The clock; on Redis, the system's clock means the server's.
    pub clock: Clock,
    /// What this process takes for the time where the store's clock decides: its own
    /// clock, which a test may set wrong.
    #[doc(hidden)]
    pub client_clock: Option<Clock>,
    /// Where limits that decide by chance take it from.
    pub random: Random,
    /// A prefix of every Redis key, so that several can share a server.
    pub namespace: Option<Name>,
    /// How many partitions subjects are spread over: 1 in this process and on a single server,
    /// 64 in a cluster unless set. Fixed by the first use of a namespace.
    pub partitions: Option<u32>,
    /// The key of the hash that spreads them. Fixed likewise.
    pub hash_key: [u8; 16],
    /// How long a call may take, waiting included.
    pub deadline: Duration,
    /// How long connecting may take.
    pub connect_timeout: Duration,
    /// Write nothing by itself: no marker, and nothing in the background. For those who
    /// only look at what is there.
    pub read_only: bool,
    /// Send small packets at once. Calls are batched before they are sent, so
    /// this costs nothing.
    pub nodelay: bool,
    /// How long the markers of a namespace outlive their last renewal, which is hourly. Less
    /// than the 90 days that it is by default is for a namespace that ends as a whole soon.
    pub marker_ttl: Duration,
    /// How long a connection is idle before the system asks whether the other side is
    /// still there; none to leave that out.
    pub keepalive: Option<Duration>,
    /// How often each partition's server is asked whether it is still there, whether or
    /// not anybody else does.
    pub check_interval: Duration,
    /// How often in a row a server must have been of no use for the store to count as unhealthy: a
    /// connection that cannot be made, a batch or a check without an answer.
    pub unhealthy_after: NonZeroU32,
    /// The certificate authority to trust for `rediss://`, in PEM form; the
    /// system's unless set.
    pub tls_ca: Option<Vec<u8>>,
    /// What to do when a limit or a space is declared in the store with other settings.
    pub declarations: Declarations,
}

impl Default for StoreOptions {
    fn default() -> Self {
        Self {
            clock: Clock::system(),
            client_clock: None,
            random: Random::default(),
            namespace: None,
            partitions: None,
            hash_key: *b"tidegate-spread1",
            deadline: Duration::from_millis(100),
            connect_timeout: Duration::from_millis(500),
            read_only: false,
            nodelay: true,
            marker_ttl: MARKER_TTL,
            keepalive: Some(Duration::from_secs(30)),
            check_interval: Duration::from_secs(5),
            // Three in a row are no accident.
            unhealthy_after: const { NonZeroU32::new(3).unwrap() },
            tls_ca: None,
            declarations: Declarations::default(),
        }
    }
}

setters!(StoreOptions {
    clock: Clock,
    random: Random,
    hash_key: [u8; 16],
    deadline: Duration,
    connect_timeout: Duration,
    read_only: bool,
    nodelay: bool,
    marker_ttl: Duration,
    keepalive: Option<Duration>,
    check_interval: Duration,
    unhealthy_after: NonZeroU32,
    declarations: Declarations,
    ; some
    namespace: Name,
    partitions: u32,
    tls_ca: Vec<u8>,
});

impl Store {
    /// Opens the store at `url`: `memory:`, `redis://host:port/db`, `rediss://…`,
    /// `redis-cluster://host:port,host:port` or `rediss-cluster://…`. Needs a
    /// tokio runtime.
    ///
    /// A server that cannot be reached now is no error: calls follow their
    /// outage policy until it can. One that can be reached and not used is.
    pub async fn open(url: &str) -> Result<Self> {
        Self::open_with(url, &StoreOptions::default()).await
    }

    /// The same, with options.
    pub async fn open_with(url: &str, options: &StoreOptions) -> Result<Self> {
        let (scheme, _) = url.split_once(':').unwrap_or((url, ""));
        match scheme {
            "memory" => {
                let spread = Spread::new(options.partitions.unwrap_or(1), options.hash_key)?;
                let (clock, random) = (options.clock.clone(), options.random.clone());
                let unhealthy_after = options.unhealthy_after;
                Ok(Self(Backend::Memory(MemoryStore { clock, random, spread, unhealthy_after })))
            }
            "redis" | "rediss" | "redis-cluster" | "rediss-cluster" => {
                let store = RedisStore::open(url, options, StoreMetrics::default()).await?;
                Ok(Self(Backend::Redis(store)))
            }
            // Only the scheme is repeated: the rest may hold a password.
            _ => Err(Error::config(format!(
                "the store's URL starts with {scheme:?}: memory:, redis://, rediss://, redis-cluster:// and \
                 rediss-cluster:// are allowed"
            ))),
        }
    }

    /// Where it is.
    pub(crate) fn backend(&self) -> &Backend {
        &self.0
    }

    /// The same, if it is not in this process.
    pub(crate) fn on_redis(&self) -> Option<&RedisStore> {
        match &self.0 {
            Backend::Memory(..) => None,
            Backend::Redis(store) => Some(store),
        }
    }

    /// Whether it is in this process.
    pub fn is_in_process(&self) -> bool {
        matches!(self.0, Backend::Memory(_))
    }

    /// Whether it was opened to look only.
    pub(crate) fn is_read_only(&self) -> bool {
        self.on_redis().is_some_and(RedisStore::is_read_only)
    }

    /// How many partitions are away.
    pub(crate) fn away(&self) -> u64 {
        self.on_redis().map_or(0, RedisStore::away) as u64
    }

    /// What is counted of it.
    pub(crate) fn metrics(&self) -> StoreMetrics {
        self.on_redis().map_or_else(StoreMetrics::default, |store| store.metrics().clone())
    }

    /// What of it is away right now, since when and why.
    pub fn status(&self) -> StoreStatus {
        self.on_redis().map_or_else(StoreStatus::of_memory, RedisStore::status)
    }

    /// How it has been doing: connections, operations, response times, memory. Known here, so it
    /// is answered at once, whether the store is there or not.
    pub fn health(&self) -> StoreHealth {
        match &self.0 {
            Backend::Memory(store) => StoreHealth::new(store.unhealthy_after),
            Backend::Redis(store) => store.health(),
        }
    }

    /// Whether all of it can be used right now.
    pub fn check(&self) -> Result<()> {
        self.on_redis().map_or(Ok(()), RedisStore::check)
    }
}
