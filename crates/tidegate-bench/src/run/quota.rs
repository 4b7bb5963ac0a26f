//! The quota of a family of runs, beside the seed's script called once per charge: how many charges a second, and
//! how much gets through in the fullest 60 minutes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use redis::AsyncConnectionConfig;
use redis::aio::MultiplexedConnection;
use tidegate::clock::{ManualClock, Timestamp, monotonic};
use tidegate::run::{Quota, QuotaKind, QuotaOptions};
use tidegate::store::StoreOptions;
use tidegate::{Cost, Tidegate};
use tokio::task::JoinSet;

use crate::progress;
use crate::redis_server::RedisServer;
use crate::report::{Figure, Goal};
use crate::rounds::{Effort, Samples};

/// Tasks that charge at the same time, over one connection.
const TASKS: usize = 64;

/// More than any run of this charges in an hour.
const GENEROUS: u64 = 1_000_000_000_000;

/// A machine that is busy with something else must not turn into an outage.
const DEADLINE: Duration = Duration::from_secs(10);

const SEED: &str = "the seed's script";

/// Who charges.
#[derive(Clone)]
enum Charger {
    Ours(Quota),
    OursById(Quota, Arc<AtomicU64>),
    Seed(Seed),
}

impl Charger {
    async fn charge(&self) -> Result<()> {
        let is_admitted = match self {
            Self::Ours(quota) => quota.charge(Cost::ONE, None).await?.is_admitted(),
            Self::OursById(quota, next) => {
                let id = format!("0f9c1c52-6c1e-4a55-9f50-{:012}", next.fetch_add(1, Ordering::Relaxed));
                quota.charge(Cost::ONE, Some(&id)).await?.is_admitted()
            }
            Self::Seed(seed) => seed.charge("2024-09-17_14", 1, GENEROUS).await?,
        };
        ensure!(is_admitted, "a charge was refused");
        Ok(())
    }

    /// Charges per second.
    async fn turn(&self, charges: usize) -> Result<f64> {
        let start = monotonic();
        let mut tasks = JoinSet::new();
        for _ in 0..TASKS {
            let charger = self.clone();
            tasks.spawn(async move {
                for _ in 0..charges / TASKS {
                    charger.charge().await?;
                }
                anyhow::Ok(())
            });
        }
        while let Some(ended) = tasks.join_next().await {
            ended.context("a task failed")??;
        }
        Ok((charges / TASKS * TASKS) as f64 / start.elapsed().as_secs_f64())
    }
}

pub(super) async fn ops(effort: Effort) -> Result<Vec<Figure>> {
    progress("run.quota_ops");
    let server = RedisServer::start()?;
    let gate = open(&server, StoreOptions::default()).await?;
    let quota = |prefix: &str, kind: QuotaKind| {
        gate.quota(QuotaOptions::new().kind(kind).limit(GENEROUS).prefix(prefix.to_owned()))
    };
    let next = Arc::<AtomicU64>::default();
    let chargers = [
        Charger::Ours(quota("plain", QuotaKind::Aligned)?),
        Charger::OursById(quota("by_id", QuotaKind::Aligned)?, next.clone()),
        Charger::OursById(quota("both_by_id", QuotaKind::Both)?, next),
        Charger::Seed(Seed::open(&server).await?),
    ];
    let mut samples = Samples::<4>::new();
    for round in 0..=effort.rounds {
        let mut sample = [0.0; 4];
        for turn in 0..chargers.len() {
            // Nobody always follows the same neighbour.
            let who = (turn + round) % chargers.len();
            sample[who] = chargers[who].turn(TASKS * effort.pick(100, 400)).await?;
        }
        if round > 0 {
            samples.push(sample);
        }
    }
    gate.shutdown().await;
    let [plain, by_id, both, seed] = samples.medians();
    let figure = |name: &str, ours: f64| Figure::ours(name, "ops/s", ours).beside(SEED, seed);
    Ok(vec![
        figure("run.quota_ops", plain).goal(Goal::AtLeast(0.8)),
        figure("run.quota_ops.by_id", by_id).goal(Goal::AtLeast(0.6)),
        figure("run.quota_ops.both_by_id", both),
    ])
}

/// What gets through in the fullest 60 minutes, in limits: charged as fast as it can be around a full hour.
pub(super) async fn sliding_hour_max() -> Result<Vec<Figure>> {
    progress("run.sliding_hour_max");
    const LIMIT: u64 = 500;
    const MINUTE: u64 = 60_000;
    let server = RedisServer::start()?;
    // 2024-09-17 14:00:00 UTC.
    let full_hour_ms = 1_726_581_600_000;
    let clock = ManualClock::at(Timestamp::from_millis(full_hour_ms));
    let gate = open(&server, StoreOptions::new().clock(clock.clone().into())).await?;
    let options = QuotaOptions::new().kind(QuotaKind::Sliding).limit(LIMIT).safety_buffer(0);
    let (quota, seed) = (gate.quota(options)?, Seed::open(&server).await?);
    let (mut ours, mut seeds) = (Vec::new(), Vec::new());
    for minute in 0..=150 {
        let at_ms = full_hour_ms + minute * MINUTE;
        clock.set(Timestamp::from_millis(at_ms));
        let hour = format!("2024-09-17_{}", 14 + minute / 60);
        // Nobody asks for anything until shortly before an hour is over.
        if minute % 60 < 58 && minute < 60 {
            continue;
        }
        while quota.charge(Cost::new(5)?, None).await?.is_admitted() {
            ours.push((at_ms, 5));
        }
        while seed.charge(&hour, 5, LIMIT).await? {
            seeds.push((at_ms, 5));
        }
    }
    gate.shutdown().await;
    let fullest = |charges: &[(u64, u64)]| {
        let from = |start: usize| {
            let end_ms = charges[start].0 + 60 * MINUTE;
            charges[start..]
                .iter()
                .take_while(|(at_ms, _)| *at_ms < end_ms)
                .map(|(_, cost)| cost)
                .sum::<u64>()
        };
        (0..charges.len()).map(from).max().unwrap_or(0) as f64 / LIMIT as f64
    };
    let figure = Figure::ours("run.sliding_hour_max", "limits", fullest(&ours));
    Ok(vec![figure.beside("the seed's hours", fullest(&seeds)).own_goal(Goal::AtMost(1.0))])
}

async fn open(server: &RedisServer, mut options: StoreOptions) -> Result<Tidegate> {
    options.deadline = DEADLINE;
    let gate = Tidegate::open_with(&server.url(), options).await?;
    gate.store().check()?;
    Ok(gate)
}

/// The seed's script, called the plain way: one EVALSHA per charge, through one connection that all tasks share.
#[derive(Clone)]
struct Seed {
    connection: MultiplexedConnection,
    sha: Arc<str>,
}

impl Seed {
    async fn open(server: &RedisServer) -> Result<Self> {
        let config = AsyncConnectionConfig::new().set_response_timeout(Some(DEADLINE));
        let client = redis::Client::open(server.url())?;
        let mut connection = client.get_multiplexed_async_connection_with_config(&config).await?;
        let mut load = redis::cmd("SCRIPT");
        load.arg("LOAD").arg(include_str!("quota.lua"));
        let sha: String = load.query_async(&mut connection).await.context("the seed's script")?;
        Ok(Self { connection, sha: sha.into() })
    }

    /// Whether it is admitted.
    async fn charge(&self, hour: &str, increment: u64, limit: u64) -> Result<bool> {
        let mut connection = self.connection.clone();
        let mut call = redis::cmd("EVALSHA");
        call.arg(&*self.sha)
            .arg(1)
            .arg(format!("seed:rate_limit:{hour}"))
            .arg(increment)
            .arg(limit)
            .arg(7200);
        let (_, allowed): (u64, u64) = call.query_async(&mut connection).await?;
        Ok(allowed == 1)
    }
}
