//! What a take on Redis costs when its key has a full window of buckets, beside
//! one with a single bucket: the work per call is bounded, and this is by how much.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use tidegate::clock::{Clock, ManualClock, Timestamp};
use tidegate::limit::{Limit, LimitOptions, Sliding};
use tidegate::store::StoreOptions;

use super::takers::{Ours, TASKS, Taker, drive, open};
use crate::progress;
use crate::redis_server::RedisServer;
use crate::report::{Figure, Goal};
use crate::rounds::{Effort, Samples};

const ONE: &str = "one bucket";

/// The most buckets that a window may have, and how long each is.
const BUCKETS: usize = 128;
const BUCKET_MS: u64 = 469;
const WINDOW: Duration = Duration::from_secs(60);

/// Keys of each kind; fewer where each round has to fill them anew.
const KEYS: usize = 1_024;
const FEW_KEYS: usize = 256;

/// Takes per key in a round in which takes change nothing that matters.
const PASSES: usize = 4;

pub(super) async fn figures(server: &RedisServer, effort: Effort) -> Result<Vec<Figure>> {
    progress("limit.redis: keys with many buckets");
    let clock = ManualClock::at(Timestamp::from_millis(BUCKET_MS * 3_000_000_000));
    let mut options = StoreOptions::default();
    options.clock = Clock::from(clock.clone());
    let gate = open(&server.url(), options).await?;
    let rate = tidegate::Rate::per_second(u32::MAX);
    let sliding = Sliding::new(rate, WINDOW)?.with_coalesce(Duration::from_millis(BUCKET_MS))?;
    let bench = Bench { limit: gate.limit("growth", sliding, LimitOptions::default())?, clock, effort };

    let full = bench.group("full", KEYS);
    bench.fill(&full, KEYS).await?;
    let one = bench.group("one", KEYS);
    drive(&one, &each_once(KEYS)).await?;
    let allow = bench.standing_still(&full, &one).await?;
    let reject = bench.standing_still(&full.asking_too_much()?, &one.asking_too_much()?).await?;
    let new_bucket = bench.new_bucket(&full).await?;
    progress("limit.redis: keys whose buckets have all ended but one");
    let after_expiry = bench.after_expiry().await?;
    gate.shutdown().await;

    let figure = |name: &str, [ours, peer]: [f64; 2]| Figure::ours(name, "µs", ours).beside(ONE, peer);
    Ok(vec![
        figure("limit.redis.bucket_growth", allow).goal(Goal::AtMost(1.25)),
        figure("limit.redis.bucket_growth.new_bucket", new_bucket),
        figure("limit.redis.bucket_growth.reject_large_cost", reject),
        figure("limit.redis.bucket_growth.first_after_expiry", after_expiry),
    ])
}

struct Bench {
    limit: Limit,
    clock: ManualClock,
    effort: Effort,
}

impl Bench {
    fn group(&self, name: &str, keys: usize) -> Ours {
        Ours::new(&self.limit, (0..keys).map(|number| format!("{name}_{number}")).collect())
    }

    /// Gives each of the keys a full window of buckets, the newest of them now.
    async fn fill(&self, group: &Ours, keys: usize) -> Result<()> {
        let order = each_once(keys);
        for _ in 0..BUCKETS {
            self.clock.advance_ms(BUCKET_MS);
            drive(group, &order).await?;
        }
        Ok(())
    }

    /// Takes within the newest bucket.
    async fn standing_still(&self, full: &Ours, one: &Ours) -> Result<[f64; 2]> {
        let order: Arc<[u32]> = (0..PASSES).flat_map(|_| 0..KEYS as u32).collect();
        let mut samples = Samples::new();
        for round in 0..=self.effort.rounds {
            let sample = match round % 2 {
                0 => [us_each(full, &order).await?, us_each(one, &order).await?],
                _ => {
                    let peer = us_each(one, &order).await?;
                    [us_each(full, &order).await?, peer]
                }
            };
            if round > 0 {
                samples.push(sample);
            }
        }
        Ok(samples.medians())
    }

    /// Takes that each start a bucket; with a full window, one ends by it.
    async fn new_bucket(&self, full: &Ours) -> Result<[f64; 2]> {
        let order = each_once(KEYS);
        let mut samples = Samples::new();
        for round in 0..=self.effort.rounds {
            let one = self.group(&format!("fresh{round}"), KEYS);
            drive(&one, &order).await?;
            self.clock.advance_ms(BUCKET_MS);
            let sample = [us_each(full, &order).await?, us_each(&one, &order).await?];
            if round > 0 {
                samples.push(sample);
            }
        }
        Ok(samples.medians())
    }

    /// The first take after a pause in which all buckets but the newest ended.
    async fn after_expiry(&self) -> Result<[f64; 2]> {
        let order = each_once(FEW_KEYS);
        let mut samples = Samples::new();
        for round in 0..=self.effort.pick(5, self.effort.rounds) {
            let full = self.group(&format!("ended{round}"), FEW_KEYS);
            let one = self.group(&format!("lone{round}"), FEW_KEYS);
            self.fill(&full, FEW_KEYS).await?;
            drive(&one, &order).await?;
            self.clock.advance_ms(WINDOW.as_millis() as u64);
            let sample = [us_each(&full, &order).await?, us_each(&one, &order).await?];
            if round > 0 {
                samples.push(sample);
            }
        }
        Ok(samples.medians())
    }
}

/// Microseconds per take.
async fn us_each(taker: &impl Taker, order: &Arc<[u32]>) -> Result<f64> {
    Ok(drive(taker, order).await?.as_secs_f64() * 1e6 / order.len() as f64)
}

/// Every key once, the tasks apart from each other.
fn each_once(keys: usize) -> Arc<[u32]> {
    debug_assert!(keys.is_multiple_of(TASKS), "all tasks have the same to do");
    (0..keys as u32).collect()
}
