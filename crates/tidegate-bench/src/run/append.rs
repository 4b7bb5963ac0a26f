//! What it takes to note that items are processed: when there are none yet and when there are many.

use anyhow::Result;
use tidegate::clock::monotonic;

use super::ours::{BATCH, Ours};
use super::seed::Seed;
use crate::progress;
use crate::report::{Figure, Goal};
use crate::rounds::{Effort, Samples};

/// Items that a run has which has many.
const MANY: usize = 100_000;

/// Items that a run of the seed has where it is slow already.
const SOME: usize = 2_000;

/// Appends that a round is made of: each to a run of its own, so that none has more than it says.
const RUNS: usize = 40;

fn name(kind: &str, number: usize) -> String {
    format!("{kind}_2024-09-17T14:30:00+00:00_{number}")
}

/// Microseconds per append to runs that have many items, and to runs that have none.
pub(super) async fn growth(effort: Effort) -> Result<Vec<Figure>> {
    progress("run.append_growth");
    let (ours, mut seed) = (Ours::start().await?, Seed::start().await?);
    let runs = effort.pick(4, 10);
    let rounds = effort.pick(5, 15);
    for number in 0..runs {
        ours.run(&name("many", number)).await?;
        ours.fill(&name("many", number), MANY).await?;
    }
    seed.fill("many", MANY).await?;
    let (mut samples, mut seeds) = (Samples::new(), Samples::new());
    for round in 0..=rounds {
        for number in 0..RUNS {
            ours.run(&name("none", round * RUNS + number)).await?;
        }
        let mut taken = [0.0; 2];
        // In turns, so that what else the machine does is in both.
        for number in 0..RUNS {
            let start = monotonic();
            let first = MANY + (round * RUNS + number) * BATCH;
            ours.append(&name("many", number % runs), first, BATCH).await?;
            taken[0] += start.elapsed().as_secs_f64() * 1e6 / RUNS as f64;
            let start = monotonic();
            ours.append(&name("none", round * RUNS + number), 0, BATCH).await?;
            taken[1] += start.elapsed().as_secs_f64() * 1e6 / RUNS as f64;
        }
        let start = monotonic();
        seed.append("many", MANY + round * BATCH, BATCH).await?;
        let many = start.elapsed().as_secs_f64() * 1e6;
        let start = monotonic();
        seed.append(&name("none", round), 0, BATCH).await?;
        let none = start.elapsed().as_secs_f64() * 1e6;
        if round > 0 {
            samples.push(taken);
            seeds.push([many, none]);
        }
    }
    ours.gate.shutdown().await;
    let figure = |name: &str, [many, none]: [f64; 2]| Figure::ours(name, "µs", many).beside("n = 0", none);
    Ok(vec![
        figure("run.append_growth", samples.medians()).goal(Goal::AtMost(1.2)),
        figure("run.append_growth.the_seed", seeds.medians()),
    ])
}

/// Items per second: ours a hundred at a time, the seed's as its program brings them, one at a time, and a
/// hundred at a time too.
pub(super) async fn items(effort: Effort) -> Result<Vec<Figure>> {
    progress("run.append_items");
    let (ours, mut seed) = (Ours::start().await?, Seed::start().await?);
    let appends = effort.pick(20, 100);
    let mut samples = Samples::new();
    for round in 0..=effort.pick(3, 9) {
        let run = name("run", round);
        ours.run(&run).await?;
        ours.fill(&run, SOME).await?;
        let start = monotonic();
        for number in 0..appends {
            ours.append(&run, SOME + number * BATCH, BATCH).await?;
        }
        let ours_per_s = (appends * BATCH) as f64 / start.elapsed().as_secs_f64();
        let mut per_s = [ours_per_s, 0.0, 0.0];
        for (at, batch) in [(1, 1), (2, BATCH)] {
            let mut taken_s = 0.0;
            for number in 0..appends {
                // It has 2,000 each time.
                let run = name("run", number % 2);
                seed.fill(&run, SOME).await?;
                let start = monotonic();
                seed.append(&run, SOME, batch).await?;
                taken_s += start.elapsed().as_secs_f64();
            }
            per_s[at] = (appends * batch) as f64 / taken_s;
        }
        if round > 0 {
            samples.push(per_s);
        }
    }
    ours.gate.shutdown().await;
    let [ours, one, batches] = samples.medians();
    let figure =
        |name: &str, peer: &'static str, seed: f64| Figure::ours(name, "/s", ours).beside(peer, seed);
    Ok(vec![
        figure("run.append_items", "the seed, n = 2000", one).goal(Goal::AtLeast(10.0)),
        figure("run.append_items.in_batches", "the seed, n = 2000, 100 at a time", batches),
    ])
}
