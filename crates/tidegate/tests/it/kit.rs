//! The stores that the suites run on. Servers are shared by all tests of this
//! process; every limit has keys of its own.

use std::sync::LazyLock;

use tidegate::clock::{ManualClock, Timestamp};
use tidegate::hot::HotOptions;
use tidegate::limit::{Algorithm, LimitOptions};
use tidegate::random::Random;
use tidegate::run::RunOptions;
use tidegate::session::SessionOptions;
use tidegate::store::StoreOptions;
use tidegate::testkit::{RedisCluster, RedisServer, TlsServer, hot, limit, run, session, unique};
use tidegate::{Name, Tidegate};

pub(crate) static REDIS: LazyLock<RedisServer> = LazyLock::new(RedisServer::start);
pub(crate) static TLS: LazyLock<TlsServer> = LazyLock::new(TlsServer::start);
pub(crate) static CLUSTER: LazyLock<RedisCluster> = LazyLock::new(RedisCluster::start);

/// For tests that look for keys again and again: all that others write would be gone through too.
pub(crate) static FEW_KEYS: LazyLock<RedisServer> = LazyLock::new(RedisServer::start);
pub(crate) static FEW_KEYS_CLUSTER: LazyLock<RedisCluster> = LazyLock::new(RedisCluster::start);

/// A store to make limits and spaces on.
pub(crate) struct On {
    pub(crate) url: String,
    pub(crate) options: fn(&mut StoreOptions),
}

impl On {
    pub(crate) fn url(url: impl Into<String>) -> Self {
        Self { url: url.into(), options: |_| {} }
    }

    /// The cluster, of few partitions.
    pub(crate) fn cluster() -> Self {
        Self { url: CLUSTER.url(), options: |options| options.partitions = Some(3) }
    }

    pub(crate) async fn open(&self, clock: ManualClock, seed: u64) -> Tidegate {
        self.open_in(&unique("t"), clock, seed).await
    }

    async fn open_in(&self, namespace: &str, clock: ManualClock, seed: u64) -> Tidegate {
        let mut options = StoreOptions::default();
        options.clock = clock.into();
        options.random = Random::seeded(seed);
        // Tests share the machine: what is late here is not lost.
        options.deadline = std::time::Duration::from_secs(10);
        options.namespace = Some(Name::new(namespace).unwrap());
        (self.options)(&mut options);
        Tidegate::open_with(&self.url, options).await.unwrap()
    }
}

/// Waits until the parts of a history are declared: else it may be over before they are, and whoever looks at what
/// it has left does not know whose it is.
async fn declared(gate: &Tidegate) {
    gate.declare().await.unwrap();
}

impl limit::Kit for On {
    type Gate = limit::Library;

    async fn fresh(
        &self,
        limits: &[(&str, Algorithm)],
        options: &LimitOptions,
        clock: ManualClock,
        seed: u64,
    ) -> limit::Library {
        let gate = self.open(clock, seed).await;
        let made =
            limits.iter().map(|(name, algorithm)| gate.limit(name, *algorithm, options.clone()).unwrap());
        let face = limit::Library::new(gate.clone(), made.collect());
        declared(&gate).await;
        face
    }
}

impl hot::Kit for On {
    type Face = hot::Library;

    fn gathers(&self) -> bool {
        self.url != "memory:"
    }

    async fn fresh(&self, options: HotOptions) -> hot::Library {
        let clock = ManualClock::at(Timestamp::from_millis(hot::START_MS));
        let gate = self.open(clock.clone(), 1).await;
        let face = hot::Library::new(gate.clone(), options, clock);
        declared(&gate).await;
        face
    }
}

impl session::Kit for On {
    type Face = session::Library;

    async fn fresh(&self, options: SessionOptions) -> session::Library {
        let (namespace, clock) = (unique("t"), ManualClock::at(Timestamp::from_millis(session::START_MS)));
        let gate = self.open_in(&namespace, clock.clone(), 1).await;
        let face = session::Library::new(&gate, options, namespace, clock);
        declared(&gate).await;
        face
    }

    fn is_partitioned(&self) -> bool {
        self.url.starts_with("redis-cluster")
    }

    fn is_quick(&self) -> bool {
        self.url == "memory:"
    }
}

impl run::Kit for On {
    type Face = run::Library;

    async fn fresh(&self, options: RunOptions) -> run::Library {
        let (namespace, clock) = (unique("t"), ManualClock::at(Timestamp::from_millis(run::START_MS)));
        let gate = self.open_in(&namespace, clock.clone(), 1).await;
        let face = run::Library::new(&gate, options, namespace, clock);
        declared(&gate).await;
        face
    }

    fn is_partitioned(&self) -> bool {
        self.url.starts_with("redis-cluster")
    }
}
