//! Who takes on Redis, and how many at a time.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use tidegate::limit::{Limit, Source};
use tidegate::store::StoreOptions;
use tidegate::{Cost, Key, Tidegate};
use tokio::task::JoinSet;
use trypema::redis::{RedisKey, RedisRateLimiterProvider};
use trypema::{BucketSize, RateLimit, RateLimitDecision, RateLimiterBuilder as _, WindowSize};

/// Tasks that take at the same time.
pub(super) const TASKS: usize = 64;

/// Something that takes a permit for the key at a position, and makes sure that
/// the answer is the one expected.
pub(super) trait Taker: Clone + Send + Sync + 'static {
    fn take(&self, at: usize) -> impl Future<Output = Result<()>> + Send;
}

/// Takes in `order`, spread over the tasks; how long all of it took.
pub(super) async fn drive(taker: &impl Taker, order: &Arc<[u32]>) -> Result<Duration> {
    let start = tidegate::clock::monotonic();
    let mut tasks = JoinSet::new();
    for task in 0..TASKS {
        let (taker, order) = (taker.clone(), order.clone());
        tasks.spawn(async move {
            for at in order.iter().skip(task).step_by(TASKS) {
                taker.take(*at as usize).await?;
            }
            anyhow::Ok(())
        });
    }
    while let Some(ended) = tasks.join_next().await {
        ended.context("a task failed")??;
    }
    Ok(start.elapsed())
}

/// Opens our store. A machine that is busy with something else must not turn
/// into an outage, so calls may take their time.
pub(super) async fn open(url: &str, mut options: StoreOptions) -> Result<Tidegate> {
    options.deadline = Duration::from_secs(10);
    let gate = Tidegate::open_with(url, options).await?;
    gate.store().check()?;
    Ok(gate)
}

/// Our limit.
#[derive(Clone)]
pub(super) struct Ours {
    limit: Limit,
    keys: Arc<[String]>,
    cost: Cost,
    admitted: bool,
}

impl Ours {
    /// Takes of one permit that are admitted.
    pub(super) fn new(limit: &Limit, keys: Vec<String>) -> Self {
        Self { limit: limit.clone(), keys: keys.into(), cost: Cost::ONE, admitted: true }
    }

    /// Takes of all the limit allows, which are refused.
    pub(super) fn asking_too_much(&self) -> Result<Self> {
        let cost = Cost::new(self.limit.sliding().capacity())?;
        Ok(Self { cost, admitted: false, ..self.clone() })
    }
}

impl Taker for Ours {
    async fn take(&self, at: usize) -> Result<()> {
        let decision = self.limit.take(Key::new(&self.keys[at])?, self.cost).await?;
        ensure!(
            decision.is_admitted() == self.admitted && decision.source() == Source::Store,
            "ours decided {decision:?}"
        );
        Ok(())
    }
}

/// trypema's absolute limit.
#[derive(Clone)]
pub(super) struct Trypema {
    provider: Arc<RedisRateLimiterProvider>,
    keys: Arc<[RedisKey]>,
    rate: RateLimit,
}

impl Trypema {
    /// With the window and the buckets of ours.
    pub(super) async fn open(url: &str, keys: &[String], window: Duration, bucket: Duration) -> Result<Self> {
        let connection = redis::Client::open(url)?.get_connection_manager().await?;
        let provider = RedisRateLimiterProvider::builder(connection)
            .prefix(RedisKey::try_from("peer".to_owned())?)
            .window_size(WindowSize::seconds(window.as_secs())?)
            .bucket_size(BucketSize::milliseconds(bucket.as_millis() as u64)?)
            .build()?;
        let keys = keys.iter().map(|key| RedisKey::try_from(key.clone()));
        Ok(Self { provider, keys: keys.collect::<Result<_, _>>()?, rate: RateLimit::per_second(1e9)? })
    }
}

impl Taker for Trypema {
    async fn take(&self, at: usize) -> Result<()> {
        let decision = self.provider.absolute().inc(&self.keys[at], &self.rate, 1).await?;
        ensure!(matches!(decision, RateLimitDecision::Allowed), "trypema decided {decision:?}");
        Ok(())
    }
}
