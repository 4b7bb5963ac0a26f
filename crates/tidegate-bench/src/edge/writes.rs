//! Changes per second of many who write at once, beside one transaction for each, both flushed to the disk.

use anyhow::{Result, bail};
use tidegate::clock::monotonic;
use tidegate_edge::truth::{Change, Truth};

use super::by_hand::ByHand;
use super::by_hand_postgres::ByHandPostgres;
use super::rules::{draft, filled, filled_file};
use crate::postgres_server::PostgresServer;
use crate::progress;
use crate::report::{Figure, Goal};
use crate::rounds::{Effort, Samples};

const WRITERS: usize = 64;

/// Rules that are there before.
const RULES: usize = 1000;

const PEER: &str = "a transaction each";

/// Changes per second, in a file and on PostgreSQL.
pub(super) async fn figures(effort: Effort, wants: impl Fn(&str) -> bool) -> Result<Vec<Figure>> {
    let mut figures = Vec::new();
    if wants("edge.writes_per_s.sqlite") {
        progress("edge.writes_per_s.sqlite");
        let (_folder, truth) = filled_file(RULES).await?;
        let by_hand = ByHand::open(RULES).await?;
        let mut samples = Samples::new();
        for round in 0..=effort.pick(5, 15) {
            let (base, ours_each, theirs_each) = size(effort, round);
            let ours = ours_per_s(&truth, base, ours_each).await?;
            let theirs = by_hand.per_s(WRITERS, base, theirs_each)?;
            if round > 0 {
                samples.push([ours, theirs]);
            }
        }
        figures.push(figure("edge.writes_per_s.sqlite", samples));
    }
    if wants("edge.writes_per_s.postgres") {
        progress("edge.writes_per_s.postgres");
        let server = PostgresServer::start()?;
        let truth = filled(&server.database("ours").await?, RULES).await?;
        let by_hand = ByHandPostgres::open(&server, WRITERS, RULES).await?;
        let mut samples = Samples::new();
        for round in 0..=effort.pick(5, 15) {
            let (base, ours_each, theirs_each) = size(effort, round);
            let ours = ours_per_s(&truth, base, ours_each).await?;
            let theirs = by_hand.per_s(base, theirs_each).await?;
            if round > 0 {
                samples.push([ours, theirs]);
            }
        }
        figures.push(figure("edge.writes_per_s.postgres", samples));
    }
    Ok(figures)
}

/// The first rule of a round, and how many of them each writes: of ours, and of theirs.
fn size(effort: Effort, round: usize) -> (usize, usize, usize) {
    let (ours_each, theirs_each) = effort.pick((64, 8), (400, 50));
    (10_000 + round * WRITERS * ours_each, ours_each, theirs_each)
}

fn figure(name: &str, samples: Samples<2>) -> Figure {
    let [ours, theirs] = samples.medians();
    Figure::ours(name, "changes/s", ours).beside(PEER, theirs).goal(Goal::AtLeast(5.0))
}

async fn ours_per_s(truth: &Truth, base: usize, each: usize) -> Result<f64> {
    let start = monotonic();
    let writers: Vec<_> = (0..WRITERS)
        .map(|writer| {
            let truth = truth.clone();
            tokio::spawn(async move {
                for number in 0..each {
                    let change = Change::Create(draft(base + writer * each + number, false));
                    if let Err(refusal) = truth.change(change).await? {
                        bail!("a change was refused: {refusal}");
                    }
                }
                Ok(())
            })
        })
        .collect();
    for writer in writers {
        writer.await??;
    }
    Ok((WRITERS * each) as f64 / start.elapsed().as_secs_f64())
}
