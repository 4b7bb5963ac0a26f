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

/// Appends of each kind that a round is made of; those to runs without items each to one of its own.
const RUNS: usize = 40;

fn name(kind: &str, number: usize) -> String {
    format!("{kind}_2024-09-17T14:30:00+00:00_{number}")
}

/// Microseconds per append to runs that have many items, and to runs that have none: of one item, as the
/// seed's program brings them, and of a hundred, where what is left of an append is the set's own work.
pub(super) async fn growth(effort: Effort) -> Result<Vec<Figure>> {
    progress("run.append_growth");
    let (ours, mut seed) = (Ours::start().await?, Seed::start().await?);
    let many = effort.pick(4, 10);
    for number in 0..many {
        ours.run(&name("many", number)).await?;
        ours.fill(&name("many", number), MANY).await?;
    }
    seed.fill("many", MANY).await?;
    let (mut ones, mut batches, mut seeds) = (Samples::new(), Samples::new(), Samples::new());
    let mut next = MANY;
    for round in 0..=effort.pick(7, 21) {
        let mut sample = [[0.0; 2]; 2];
        for (sample, batch) in sample.iter_mut().zip([1, BATCH]) {
            // In turns, so that what else the machine does is in both.
            for number in 0..RUNS {
                let none = name("none", next);
                ours.run(&none).await?;
                for (taken_us, (run, first)) in
                    sample.iter_mut().zip([(name("many", number % many), next), (none, 0)])
                {
                    let start = monotonic();
                    ours.append(&run, first, batch).await?;
                    *taken_us += start.elapsed().as_secs_f64() * 1e6 / RUNS as f64;
                }
                next += batch;
            }
        }
        let mut seed_us = [0.0; 2];
        for (taken_us, run) in seed_us.iter_mut().zip(["many".to_owned(), name("none", round)]) {
            let start = monotonic();
            seed.append(&run, MANY + round, 1).await?;
            *taken_us = start.elapsed().as_secs_f64() * 1e6;
        }
        if round > 0 {
            ones.push(sample[0]);
            batches.push(sample[1]);
            seeds.push(seed_us);
        }
    }
    ours.gate.shutdown().await;
    let figure = |name: &str, [many, none]: [f64; 2]| Figure::ours(name, "µs", many).beside("n = 0", none);
    Ok(vec![
        figure("run.append_growth", ones.medians()).goal(Goal::AtMost(1.2)),
        figure("run.append_growth.of_100", batches.medians()),
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
