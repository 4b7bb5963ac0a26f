//! Takes per second on Redis: 64 tasks, one connection, everything admitted; and
//! what a take costs the server and this process.

use std::sync::Arc;

use anyhow::Result;
use tidegate::limit::LimitOptions;
use tidegate::store::StoreOptions;

use super::gcra::Gcra;
use super::generous;
use super::keys::{keys, mixed};
use super::takers::{Ours, TASKS, Taker, Trypema, drive, open};
use crate::redis_server::RedisServer;
use crate::report::{Figure, Goal};
use crate::rounds::{Effort, Samples};
use crate::{cpu, progress};

const TRYPEMA: &str = "trypema";
const GCRA: &str = "bare GCRA script";
const KEYS: usize = 1_000;

pub(super) async fn figures(server: &RedisServer, effort: Effort) -> Result<Vec<Figure>> {
    progress("limit.redis: takes per second");
    let (keys, sliding) = (keys(KEYS), generous()?);
    let gate = open(&server.url(), StoreOptions::default()).await?;
    let limit = gate.limit("bench", sliding, LimitOptions::default())?;
    let (window, bucket) = (sliding.window(), sliding.coalesce());
    let window = std::time::Duration::from_millis(window.as_millis());
    let trypema = Trypema::open(&server.url(), &keys, window, bucket).await?;
    let gcra = Gcra::open(&server.url(), &keys).await?;
    let ours = Ours::new(&limit, keys);
    let order: Arc<[u32]> = mixed(TASKS * effort.pick(300, 600), KEYS).into();

    let mut turns: [Samples<3>; 3] = std::array::from_fn(|_| Samples::new());
    for round in 0..=effort.rounds {
        for turn in 0..3 {
            // Nobody always follows the same neighbour.
            let who = (turn + round) % 3;
            let seen = match who {
                0 => take_turn(server, &ours, &order).await?,
                1 => take_turn(server, &trypema, &order).await?,
                _ => take_turn(server, &gcra, &order).await?,
            };
            if round > 0 {
                turns[who].push(seen);
            }
        }
    }
    gate.shutdown().await;
    let [ours, trypema, gcra] = turns.map(Samples::medians);
    let figure = |name, unit, peer_name, peer: &[f64; 3], at: usize| {
        Figure::ours(name, unit, ours[at]).beside(peer_name, peer[at])
    };
    Ok(vec![
        figure("limit.redis.ops", "ops/s", TRYPEMA, &trypema, 0).goal(Goal::AtLeast(2.0)),
        figure("limit.redis.vs_gcra_script", "ops/s", GCRA, &gcra, 0).goal(Goal::AtLeast(0.75)),
        figure("limit.redis.part.server_us", "µs", GCRA, &gcra, 1),
        figure("limit.redis.part.client_us", "µs", GCRA, &gcra, 2),
        figure("limit.redis.part.server_us.trypema", "µs", TRYPEMA, &trypema, 1),
        figure("limit.redis.part.client_us.trypema", "µs", TRYPEMA, &trypema, 2),
    ])
}

/// Takes per second, and microseconds of processor time per take: the server's
/// and this process's.
async fn take_turn(server: &RedisServer, taker: &impl Taker, order: &Arc<[u32]>) -> Result<[f64; 3]> {
    let used = || anyhow::Ok([cpu::used_by(server.pid())?, cpu::used_by(std::process::id())?]);
    let before = used()?;
    let taken = drive(taker, order).await?;
    let after = used()?;
    let takes = order.len() as f64;
    let each_us = |at: usize| after[at].saturating_sub(before[at]).as_secs_f64() * 1e6 / takes;
    Ok([takes / taken.as_secs_f64(), each_us(0), each_us(1)])
}
