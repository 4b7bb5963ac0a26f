//! Who takes on Redis, and how many at a time.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use redis::aio::{ConnectionManager, ConnectionManagerConfig};
use tidegate::limit::{Limit, Source};
use tidegate::store::StoreOptions;
use tidegate::{Cost, Key, Tidegate};
use tokio::task::JoinSet;
use trypema::redis::{RedisKey, RedisRateLimiterProvider};
use trypema::{
    BucketSize, HardLimitFactor, RateLimit, RateLimitDecision, RateLimiterBuilder as _, WindowSize,
};

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

/// A machine that is busy with something else must not turn into an outage, so calls
/// may take their time, ours and those of peers.
pub(super) const DEADLINE: Duration = Duration::from_secs(10);

/// A connection of a peer.
pub(super) async fn connection_manager(url: &str) -> Result<ConnectionManager> {
    let config = ConnectionManagerConfig::new().set_response_timeout(Some(DEADLINE));
    Ok(redis::Client::open(url)?.get_connection_manager_with_config(config).await?)
}

/// Opens our store.
pub(super) async fn open(url: &str, mut options: StoreOptions) -> Result<Tidegate> {
    options.deadline = DEADLINE;
    let gate = Tidegate::open_with(url, options).await?;
    gate.store().check()?;
    Ok(gate)
}

/// What a taker makes sure of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Expect {
    Admission,
    Refusal,
    /// Either: chance decides.
    Answer,
}

impl Expect {
    fn is_met_by(self, admitted: bool) -> bool {
        match self {
            Self::Admission => admitted,
            Self::Refusal => !admitted,
            Self::Answer => true,
        }
    }
}

/// Our limit.
#[derive(Clone)]
pub(super) struct Ours {
    limit: Limit,
    keys: Arc<[String]>,
    cost: Cost,
    expect: Expect,
    may_lease: bool,
}

impl Ours {
    /// Takes of one permit that are admitted.
    pub(super) fn new(limit: &Limit, keys: Vec<String>) -> Self {
        let (limit, keys) = (limit.clone(), keys.into());
        Self { limit, keys, cost: Cost::ONE, expect: Expect::Admission, may_lease: false }
    }

    /// Takes of all the limit allows, which are refused.
    pub(super) fn asking_too_much(&self) -> Result<Self> {
        let cost = Cost::new(self.limit.algorithm().capacity())?;
        Ok(Self { cost, expect: Expect::Refusal, ..self.clone() })
    }

    /// The same from leases, most of them.
    pub(super) fn leased(self) -> Self {
        Self { may_lease: true, ..self }
    }

    /// Takes that chance decides about.
    pub(super) fn by_chance(self) -> Self {
        Self { expect: Expect::Answer, ..self }
    }
}

impl Taker for Ours {
    async fn take(&self, at: usize) -> Result<()> {
        let decision = self.limit.take(Key::new(&self.keys[at])?, self.cost).await?;
        let is_from_here = match decision.source() {
            Source::Store => true,
            Source::Lease => self.may_lease,
            _ => false,
        };
        ensure!(self.expect.is_met_by(decision.is_admitted()) && is_from_here, "ours decided {decision:?}");
        Ok(())
    }
}

/// trypema's limit on Redis.
#[derive(Clone)]
pub(super) struct Trypema {
    provider: Arc<RedisRateLimiterProvider>,
    keys: Arc<[RedisKey]>,
    rate: RateLimit,
    strategy: Strategy,
}

#[derive(Debug, Clone, Copy)]
enum Strategy {
    Absolute,
    Suppressed(Expect),
}

impl Trypema {
    /// Its absolute limit, with the window and the buckets of ours; everything is
    /// admitted.
    pub(super) async fn open(url: &str, keys: &[String], window: Duration, bucket: Duration) -> Result<Self> {
        let connection = connection_manager(url).await?;
        let provider = RedisRateLimiterProvider::builder(connection)
            .prefix(RedisKey::try_from("peer".to_owned())?)
            .window_size(WindowSize::seconds(window.as_secs())?)
            .bucket_size(BucketSize::milliseconds(bucket.as_millis() as u64)?)
            .hard_limit_factor(HardLimitFactor::new(super::HARD_LIMIT_FACTOR)?)
            .build()?;
        let rate = RateLimit::per_second(1e9)?;
        Ok(Self { provider, keys: redis_keys(keys)?, rate, strategy: Strategy::Absolute })
    }

    /// Its suppressed limit, with nothing to suppress.
    pub(super) fn suppressed(&self) -> Self {
        Self { strategy: Strategy::Suppressed(Expect::Admission), ..self.clone() }
    }

    /// Its suppressed limit of so few a second that there is.
    pub(super) fn suppressing(&self, per_second: u32, keys: &[String]) -> Result<Self> {
        let (keys, rate) = (redis_keys(keys)?, RateLimit::per_second(f64::from(per_second))?);
        Ok(Self { keys, rate, strategy: Strategy::Suppressed(Expect::Answer), ..self.clone() })
    }
}

fn redis_keys(keys: &[String]) -> Result<Arc<[RedisKey]>> {
    Ok(keys.iter().map(|key| RedisKey::try_from(key.clone())).collect::<Result<_, _>>()?)
}

impl Taker for Trypema {
    async fn take(&self, at: usize) -> Result<()> {
        let key = &self.keys[at];
        let (decision, expect) = match self.strategy {
            Strategy::Absolute => {
                (self.provider.absolute().inc(key, &self.rate, 1).await?, Expect::Admission)
            }
            Strategy::Suppressed(expect) => {
                (self.provider.suppressed().inc(key, &self.rate, 1).await?, expect)
            }
        };
        let is_admitted = match decision {
            RateLimitDecision::Allowed => true,
            RateLimitDecision::Suppressed { is_allowed, .. } => is_allowed,
            RateLimitDecision::Rejected { .. } => false,
        };
        ensure!(expect.is_met_by(is_admitted), "trypema decided {decision:?}");
        Ok(())
    }
}
