//! Orphans reaped: in batches with every check, and one by one as the seed does.

use std::time::Duration;

use anyhow::{Result, ensure};
use tidegate::clock::monotonic;

use super::ours::{CONFIG, Ours, START_MS};
use super::seed::Seed;
use crate::progress;
use crate::report::{Figure, Goal};
use crate::rounds::{Effort, Samples};

pub(super) async fn figures(effort: Effort) -> Result<Vec<Figure>> {
    progress("session.reap_vs_one_by_one");
    let orphans = effort.pick(5_000, 50_000);
    let (ours, mut seed) = (Ours::start(CONFIG).await?, Seed::start(CONFIG).await?);
    // Somebody is there all the time.
    ours.fill(0, 1_000, false).await?;
    seed.fill(0, 1_000, 0).await?;
    let mut samples = Samples::new();
    for round in 0..=effort.pick(3, 7) {
        let first = 1_000 + round * orphans;
        ours.fill(first, orphans, true).await?;
        seed.fill(first, orphans, START_MS / 1000).await?;
        // Past the grace of these, within the lease of those that are held.
        ours.pass(Duration::from_secs(30)).await?;
        let start = monotonic();
        let swept = ours.sessions.cleanup().await?;
        let ours_s = start.elapsed().as_secs_f64();
        let lapsed = if round == 1 { 1_000 } else { 0 };
        ensure!(swept.lapsed == lapsed, "{swept:?}");
        let expected = orphans as u64 + if round == 2 { 1_000 } else { 0 };
        ensure!(swept.deleted == expected, "{swept:?}");
        let start = monotonic();
        let deleted = seed.reap(START_MS / 1000).await?;
        let seed_s = start.elapsed().as_secs_f64();
        ensure!(deleted == orphans, "the seed deleted {deleted}");
        if round > 0 {
            samples.push([swept.deleted as f64 / ours_s, orphans as f64 / seed_s]);
        }
    }
    ours.gate.shutdown().await;
    let [ours, seed] = samples.medians();
    let figure = Figure::ours("session.reap_vs_one_by_one", "/s", ours).beside("the seed, one by one", seed);
    Ok(vec![figure.goal(Goal::AtLeast(20.0))])
}
