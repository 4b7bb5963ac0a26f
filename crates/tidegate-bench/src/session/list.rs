//! A hundred orphans among ever more sessions: by a walk through the keys, and by the
//! index.

use std::time::Duration;

use anyhow::{Result, ensure};
use tidegate::clock::monotonic;

use super::ours::{CONFIG, Ours, START_MS};
use super::seed::Seed;
use crate::progress;
use crate::report::{Figure, Goal};
use crate::rounds::{Effort, Samples};

const DUE: usize = 100;
const GRACE: Duration = Duration::from_secs(30);

/// The seed's table: what a row is called, and how many sessions it has. In its layout a
/// session is three keys, so the last has a million keys.
const SIZES: [(&str, usize); 4] = [("1k", 1_000), ("10k", 10_000), ("100k", 100_000), ("1m", 333_333)];

pub(super) async fn figures(effort: Effort) -> Result<Vec<Figure>> {
    let mut figures = Vec::new();
    let mut times = Vec::new();
    let large = effort.pick(SIZES.len() - 1, SIZES.len());
    let (ours, mut seed) = (Ours::start(CONFIG).await?, Seed::start(CONFIG).await?);
    let mut filled = 0;
    for (name, sessions) in SIZES.into_iter().take(large) {
        progress(&format!("session.list_vs_scan_{name}"));
        // The due ones are among the first.
        if filled == 0 {
            ours.fill(0, DUE, true).await?;
            seed.fill(0, DUE, START_MS / 1000).await?;
            ours.pass(GRACE).await?;
            filled = DUE;
        }
        ours.fill(filled, sessions - filled, false).await?;
        seed.fill(filled, sessions - filled, 0).await?;
        filled = sessions;
        let [index_us, scan_us] = both(&ours, &mut seed, effort).await?;
        times.push((sessions, index_us));
        let figure = Figure::ours(&format!("session.list_vs_scan_{name}"), "/s", 1e6 / index_us)
            .beside("the seed's SCAN", 1e6 / scan_us);
        let is_large = sessions >= 100_000;
        figures.push(if is_large { figure.goal(Goal::AtLeast(500.0)) } else { figure });
        figures.push(
            Figure::ours(&format!("session.list_ms_{name}"), "ms", index_us / 1e3)
                .beside("the seed's SCAN", scan_us / 1e3),
        );
    }
    ours.gate.shutdown().await;
    if let (Some((_, few)), Some((_, many))) = (times.get(1), times.last()) {
        let grown = Figure::ours("session.list_growth", "µs", *many).beside("10,000 sessions", *few);
        figures.push(grown.goal(Goal::AtMost(1.2)));
    }
    Ok(figures)
}

/// Microseconds by the index and by the walk.
async fn both(ours: &Ours, seed: &mut Seed, effort: Effort) -> Result<[f64; 2]> {
    let mut samples = Samples::new();
    for _ in 0..effort.pick(3, 5) {
        let start = monotonic();
        let found = seed.scan(START_MS / 1000).await?;
        let scan_us = start.elapsed().as_secs_f64() * 1e6;
        ensure!(found == DUE, "SCAN found {found} orphans");
        // Short ones take the median of many.
        let mut index = Vec::new();
        for _ in 0..200 {
            let start = monotonic();
            let found = ours.sessions.orphans(GRACE, 1_000).await?.sessions.len();
            index.push(start.elapsed().as_secs_f64() * 1e6);
            ensure!(found == DUE, "the index found {found} orphans");
        }
        index.sort_by(f64::total_cmp);
        samples.push([index[index.len() / 2], scan_us]);
    }
    Ok(samples.medians())
}
