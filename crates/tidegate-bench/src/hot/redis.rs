//! Edits per second on Redis: 64 tasks, ours and the seed's sequence of commands, each
//! on a server of its own; and what an edit costs the server and this process.

use std::path::Path;
use std::sync::Arc;

use anyhow::Result;
use tidegate::Tidegate;
use tidegate::clock::monotonic;
use tidegate::store::StoreOptions;

use super::mix::{DayMix, HotMix};
use super::recorders::{BULK, Ours, TASKS, Views, drive, open, production};
use super::seed::{Seed, Settings};
use super::trace::Line;
use super::{POOLED, SEED};
use crate::redis_server::RedisServer;
use crate::report::{Figure, Goal};
use crate::rounds::{Effort, Samples};
use crate::{cpu, progress};

/// The seed's client keeps ten connections per processor, on two of them.
const POOL: usize = 20;

/// Pages that may be hot: neither may fill up, or it would have less to do.
pub(super) const MAX_TRACKED: usize = 100_000;

pub(super) async fn figures(effort: Effort, trace: Option<&Path>) -> Result<Vec<Figure>> {
    progress("hot.redis: edits per second, a day's mix");
    let mut mix = DayMix::new(trace)?;
    let seen = take_turns(effort, true, |count| mix.take(count)).await?;
    let mut figures = named(&seen, "");
    progress("hot.redis: edits per second, hot pages only");
    let mut mix = HotMix::new();
    let seen = take_turns(effort, false, |count| mix.take(count)).await?;
    figures.extend(named(&seen, ".hot_only"));
    Ok(figures)
}

fn named(seen: &[[f64; 3]; 4], mix: &str) -> Vec<Figure> {
    let [ours, bulk, seed, pooled] = seen;
    let figure = |name: &str, unit, at: usize, ours: &[f64; 3], peer_name, peer: &[f64; 3]| {
        Figure::ours(&format!("hot.redis.{name}{mix}"), unit, ours[at]).beside(peer_name, peer[at])
    };
    // Where most pages have one edit there is little to record together.
    let in_bulk = Goal::AtLeast(if mix.is_empty() { 1.4 } else { 4.0 });
    vec![
        figure("edits", "edits/s", 0, ours, SEED, seed).goal(Goal::AtLeast(0.8)),
        figure("edits_bulk", "edits/s", 0, bulk, SEED, seed).goal(in_bulk),
        figure("edits.pooled", "edits/s", 0, ours, POOLED, pooled),
        figure("edits_bulk.pooled", "edits/s", 0, bulk, POOLED, pooled),
        figure("part.server_us", "µs", 1, ours, SEED, seed),
        figure("part.client_us", "µs", 2, ours, SEED, seed),
        figure("part.server_us.bulk", "µs", 1, bulk, SEED, seed),
        figure("part.client_us.bulk", "µs", 2, bulk, SEED, seed),
        figure("part.server_us.pooled", "µs", 1, ours, POOLED, pooled),
    ]
}

/// Who takes turns, each on its own server.
pub(super) enum Contender {
    Ours(Ours, usize),
    Views(Views, usize),
    /// Views that are added up before they are sent: the lines so many times over, and all of them are there in the end.
    Gathered(Views, usize),
    Seed(Seed),
}

/// The medians of each: edits per second, and microseconds of processor time per
/// edit, the server's and this process's. If pages are `fresh` in each round, the seed
/// forgets the old ones, so that its SCAN has no more to do than in real life.
async fn take_turns(
    effort: Effort,
    fresh: bool,
    mut take: impl FnMut(usize) -> Arc<[Line]>,
) -> Result<[[f64; 3]; 4]> {
    let servers = [(); 4].map(|()| RedisServer::start());
    let [one, two, three, four] = servers;
    let servers = [one?, two?, three?, four?];
    let mut options = production();
    options.max_tracked = MAX_TRACKED;
    options.max_activity = 10 * MAX_TRACKED;
    let settings = Settings { hot_threshold: 3, window_s: 1800, max_tracked: MAX_TRACKED, max_members: 200 };
    let gates: [Tidegate; 2] = [
        open(&servers[0].url(), StoreOptions::default()).await?,
        open(&servers[1].url(), StoreOptions::default()).await?,
    ];
    let contenders = [
        Contender::Ours(Ours(gates[0].hot("pages", options.clone())?), 1),
        Contender::Ours(Ours(gates[1].hot("pages", options)?), BULK),
        Contender::Seed(Seed::open(&servers[2].url(), 1, settings).await?),
        Contender::Seed(Seed::open(&servers[3].url(), POOL, settings).await?),
    ];
    let size = TASKS * effort.pick(128, 512);
    let mut turns: [Samples<3>; 4] = std::array::from_fn(|_| Samples::new());
    for round in 0..=effort.rounds {
        let lines = take(size);
        for turn in 0..4 {
            // Nobody always follows the same neighbour.
            let who = (turn + round) % 4;
            if let (Contender::Seed(seed), true) = (&contenders[who], fresh) {
                seed.flush().await?;
            }
            let seen = take_turn(&servers[who], &contenders[who], &lines).await?;
            if round > 0 {
                turns[who].push(seen);
            }
        }
    }
    for gate in gates {
        gate.shutdown().await;
    }
    Ok(turns.map(Samples::medians))
}

pub(super) async fn take_turn(
    server: &RedisServer,
    contender: &Contender,
    lines: &Arc<[Line]>,
) -> Result<[f64; 3]> {
    let used = || anyhow::Ok([cpu::used_by(server.pid())?, cpu::used_by(std::process::id())?]);
    let before = used()?;
    let taken = match contender {
        Contender::Views(views, batch) => drive(views, lines, *batch).await?,
        Contender::Gathered(views, times) => {
            let begun = monotonic();
            for _ in 0..*times {
                drive(views, lines, 1).await?;
            }
            views.0.flush().await?;
            begun.elapsed()
        }
        Contender::Ours(ours, batch) => drive(ours, lines, *batch).await?,
        Contender::Seed(seed) => {
            let taken = drive(seed, lines, 1).await?;
            seed.pause().await;
            taken
        }
    };
    let after = used()?;
    let times = if let Contender::Gathered(_, times) = contender { *times } else { 1 };
    let edits = (lines.len() * times) as f64;
    let each_us = |at: usize| after[at].saturating_sub(before[at]).as_secs_f64() * 1e6 / edits;
    Ok([edits / taken.as_secs_f64(), each_us(0), each_us(1)])
}
