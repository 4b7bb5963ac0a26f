//! Leases beside trypema's hybrid, and beside a round trip per decision.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, ensure};
use tidegate::clock::monotonic;
use tidegate::limit::{LeaseOptions, Limit, LimitOptions, Sliding};
use tidegate::store::StoreOptions;
use tidegate::{Cost, Key, Rate, Tidegate};
use trypema::hybrid::HybridRateLimiterProvider;
use trypema::redis::RedisKey;
use trypema::{BucketSize, RateLimit, RateLimitDecision, RateLimiterBuilder as _, WindowSize};

use super::keys::{keys, mixed};
use super::nodes::{Admitted, Demand, Node, admitted_by};
use super::takers::{Ours, TASKS, Taker, connection_manager, drive, open};
use super::{TRYPEMA_HYBRID, generous};
use crate::progress;
use crate::redis_server::RedisServer;
use crate::report::{Figure, Goal};
use crate::rounds::{Effort, Samples};

/// Options of a limit with leases, as they are unless told otherwise.
fn leased() -> LimitOptions {
    let mut options = LimitOptions::default();
    options.lease = Some(LeaseOptions::default());
    options
}

const NODES: usize = 8;
const KEYS: usize = 1_000;
const HOT: &str = "user_123456";

/// How many times the limit is asked for.
const OVERLOAD: u64 = 20;

pub(super) async fn figures(effort: Effort) -> Result<Vec<Figure>> {
    let mut figures = admitted(effort, &leased()).await?;
    figures.extend(speed(effort, &leased()).await?);
    Ok(figures)
}

/// What 8 nodes admit in a window when they are asked for 20 times the limit.
async fn admitted(effort: Effort, options: &LimitOptions) -> Result<Vec<Figure>> {
    progress("limit.lease: 8 nodes, 20 times the limit");
    let window = Duration::from_secs(effort.pick(4, 10));
    let sliding = Sliding::new(Rate::per_second(2_000), window)?;
    let limit = sliding.capacity();
    let demand = Demand { window, windows: 4, per_window: limit * OVERLOAD };
    let server = RedisServer::start()?;
    let (mut gates, mut ours, mut peers) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..NODES {
        let gate = open(&server.url(), StoreOptions::default()).await?;
        ours.push(OurNode(gate.limit("nodes", sliding, options.clone())?));
        gates.push(gate);
        peers.push(Hybrid::open(&server.url(), &sliding).await?);
    }
    let ours = admitted_by(ours, demand).await?;
    close(gates).await;
    let peers = admitted_by(peers, demand).await?;
    let share = |count: usize| count as f64 / limit as f64;
    let figure = |name: &str, of: fn(Admitted) -> usize| {
        Figure::ours(name, "× limit", share(of(ours))).beside(TRYPEMA_HYBRID, share(of(peers)))
    };
    Ok(vec![
        figure("limit.lease.admitted_8_nodes", |admitted| admitted.most).own_goal(Goal::AtMost(1.0)),
        figure("limit.lease.admitted_8_nodes.least", |admitted| admitted.least).own_goal(Goal::AtLeast(0.97)),
    ])
}

async fn close(gates: Vec<Tidegate>) {
    for gate in gates {
        gate.shutdown().await;
    }
}

/// Decisions per second of one node, all admitted.
async fn speed(effort: Effort, options: &LimitOptions) -> Result<Vec<Figure>> {
    progress("limit.lease: decisions per second");
    let (server, sliding) = (RedisServer::start()?, generous()?);
    let gate = open(&server.url(), StoreOptions::default()).await?;
    let leased = gate.limit("leased", sliding, options.clone())?;
    let direct = gate.limit("direct", sliding, LimitOptions::default())?;
    let hybrid = Hybrid::open(&server.url(), &sliding).await?;

    let in_a_row = effort.pick(200_000, 500_000);
    let mut samples = Samples::new();
    for round in 0..=effort.rounds {
        let sample = [
            per_second(in_a_row, async || OurNode(leased.clone()).expect_many(in_a_row).await).await?,
            per_second(in_a_row, async || hybrid.expect_many(in_a_row).await).await?,
            per_second(in_a_row, async || hybrid.try_many(in_a_row).await).await?,
            per_second(in_a_row / 100, async || OurNode(direct.clone()).expect_many(in_a_row / 100).await)
                .await?,
        ];
        if round > 0 {
            samples.push(sample);
        }
    }
    let [hot, hot_peer, hot_peer_try, hot_direct] = samples.medians();

    let many: Arc<[u32]> = mixed(TASKS * effort.pick(5_000, 10_000), KEYS).into();
    let few: Arc<[u32]> = many[..many.len() / 20].into();
    let leased = Ours::new(&leased, keys(KEYS)).leased();
    let direct = Ours::new(&direct, keys(KEYS));
    let hybrid = hybrid.of(&keys(KEYS))?;
    let mut samples = Samples::new();
    for round in 0..=effort.rounds {
        let sample =
            [rate_of(&leased, &many).await?, rate_of(&hybrid, &many).await?, rate_of(&direct, &few).await?];
        if round > 0 {
            samples.push(sample);
        }
    }
    let [tasks, tasks_peer, tasks_direct] = samples.medians();
    gate.shutdown().await;

    const DIRECT: &str = "one round trip each";
    let ops = |name: &str, ours, peer_name, peer| Figure::ours(name, "ops/s", ours).beside(peer_name, peer);
    Ok(vec![
        ops("limit.lease.ops", hot, TRYPEMA_HYBRID, hot_peer).goal(Goal::AtLeast(1.0)),
        ops("limit.lease.ops.try", hot, "trypema hybrid, try", hot_peer_try),
        ops("limit.lease.ops.tasks64", tasks, TRYPEMA_HYBRID, tasks_peer).goal(Goal::AtLeast(1.0)),
        ops("limit.lease.vs_redis", tasks, DIRECT, tasks_direct).goal(Goal::AtLeast(20.0)),
        ops("limit.lease.vs_redis.one_task", hot, DIRECT, hot_direct),
    ])
}

async fn per_second(operations: usize, work: impl AsyncFnOnce() -> Result<()>) -> Result<f64> {
    let start = monotonic();
    work().await?;
    Ok(operations as f64 / start.elapsed().as_secs_f64())
}

async fn rate_of(taker: &impl Taker, order: &Arc<[u32]>) -> Result<f64> {
    Ok(order.len() as f64 / drive(taker, order).await?.as_secs_f64())
}

/// A node of ours, and its hot key.
struct OurNode(Limit);

impl Node for OurNode {
    async fn take(&self) -> Result<bool> {
        Ok(self.0.take(Key::new(HOT)?, Cost::ONE).await?.is_admitted())
    }
}

impl OurNode {
    async fn expect_many(&self, count: usize) -> Result<()> {
        expect_many(self, count).await
    }
}

async fn expect_many(node: &impl Node, count: usize) -> Result<()> {
    let mut admitted = 0;
    for _ in 0..count {
        admitted += usize::from(node.take().await?);
    }
    ensure!(admitted == count, "only {admitted} of {count} were admitted");
    Ok(())
}

/// trypema's absolute limit, decided in this process and told to Redis later.
#[derive(Clone)]
struct Hybrid {
    provider: Arc<HybridRateLimiterProvider>,
    keys: Arc<[RedisKey]>,
    rate: RateLimit,
}

impl Hybrid {
    /// With the numbers of ours, and a connection of its own.
    async fn open(url: &str, sliding: &Sliding) -> Result<Self> {
        let connection = connection_manager(url).await?;
        let provider = HybridRateLimiterProvider::builder(connection)
            .prefix(RedisKey::try_from("hybrid".to_owned())?)
            .window_size(WindowSize::seconds(sliding.window().as_seconds())?)
            .bucket_size(BucketSize::milliseconds(sliding.coalesce().as_millis() as u64)?)
            .build()?;
        let per_second = sliding.capacity() as f64 / sliding.window().as_seconds() as f64;
        let keys = [RedisKey::try_from(HOT.to_owned())?].into();
        Ok(Self { provider, keys, rate: RateLimit::per_second(per_second)? })
    }

    /// The same for these keys.
    fn of(&self, keys: &[String]) -> Result<Self> {
        let keys = keys.iter().map(|key| RedisKey::try_from(key.clone())).collect::<Result<_, _>>()?;
        Ok(Self { keys, ..self.clone() })
    }

    async fn inc(&self, at: usize) -> Result<bool> {
        let decision = self.provider.absolute().inc(&self.keys[at], &self.rate, 1).await?;
        Ok(matches!(decision, RateLimitDecision::Allowed))
    }

    async fn expect_many(&self, count: usize) -> Result<()> {
        expect_many(self, count).await
    }

    /// By the way in that does not wait, where it can be gone.
    async fn try_many(&self, count: usize) -> Result<()> {
        for _ in 0..count {
            let decided = self.provider.absolute().try_inc(self.keys[0].as_key_ref(), 1)?;
            let is_admitted = match decided {
                Some(decision) => matches!(decision, RateLimitDecision::Allowed),
                None => self.inc(0).await?,
            };
            ensure!(is_admitted, "trypema's hybrid refused");
        }
        Ok(())
    }
}

impl Node for Hybrid {
    async fn take(&self) -> Result<bool> {
        self.inc(0).await
    }
}

impl Taker for Hybrid {
    async fn take(&self, at: usize) -> Result<()> {
        ensure!(self.inc(at).await?, "trypema's hybrid refused");
        Ok(())
    }
}
