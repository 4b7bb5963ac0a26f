//! The stores that the suites run on. Servers are shared by all tests of this
//! process; every limit has keys of its own.

use std::sync::LazyLock;

use tidegate::clock::ManualClock;
use tidegate::limit::{Algorithm, LimitOptions};
use tidegate::random::Random;
use tidegate::store::StoreOptions;
use tidegate::testkit::limit::{Kit, Library};
use tidegate::testkit::{RedisCluster, RedisServer, TlsServer, unique};
use tidegate::{Name, Tidegate};

pub(crate) static REDIS: LazyLock<RedisServer> = LazyLock::new(RedisServer::start);
pub(crate) static TLS: LazyLock<TlsServer> = LazyLock::new(TlsServer::start);
pub(crate) static CLUSTER: LazyLock<RedisCluster> = LazyLock::new(RedisCluster::start);

/// A store to make limits on.
pub(crate) struct On {
    pub(crate) url: String,
    pub(crate) options: fn(&mut StoreOptions),
}

impl On {
    pub(crate) fn url(url: impl Into<String>) -> Self {
        Self { url: url.into(), options: |_| {} }
    }

    pub(crate) async fn open(&self, clock: ManualClock, seed: u64) -> Tidegate {
        let mut options = StoreOptions::default();
        options.clock = clock.into();
        options.random = Random::seeded(seed);
        // Tests share the machine: what is late here is not lost.
        options.deadline = std::time::Duration::from_secs(10);
        options.namespace = Some(Name::new(&unique("t")).unwrap());
        (self.options)(&mut options);
        Tidegate::open_with(&self.url, options).await.unwrap()
    }
}

impl Kit for On {
    type Gate = Library;

    async fn fresh(&self, limits: &[(&str, Algorithm)], clock: ManualClock, seed: u64) -> Library {
        let gate = self.open(clock, seed).await;
        let made = limits
            .iter()
            .map(|(name, algorithm)| gate.limit(name, *algorithm, LimitOptions::default()).unwrap());
        Library::new(gate.clone(), made.collect())
    }
}
