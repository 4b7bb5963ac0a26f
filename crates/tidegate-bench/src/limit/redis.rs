//! Takes per second on Redis: 64 tasks, one connection; and what a take costs the
//! server and this process.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use tidegate::Rate;
use tidegate::bounds::MAX_COUNT;
use tidegate::limit::{Algorithm, Calendar, Limit, LimitOptions, Period, Sliding, Suppressed};
use tidegate::store::StoreOptions;

use super::gcra::Gcra;
use super::keys::{keys, mixed};
use super::takers::{Ours, TASKS, Taker, Trypema, drive, open};
use super::{HARD_LIMIT_FACTOR, TRYPEMA, generous, generous_token};
use crate::redis_server::RedisServer;
use crate::report::{Figure, Goal};
use crate::rounds::{Effort, Samples};
use crate::{cpu, progress};

const GCRA: &str = "bare GCRA script";
const TRYPEMA_SUPPRESSED: &str = "trypema suppressed";
const KEYS: usize = 1_000;

/// A key is asked for more often than this even on a slow machine.
const SLOW_PER_SECOND: u32 = 1;

pub(super) async fn figures(server: &RedisServer, effort: Effort) -> Result<Vec<Figure>> {
    progress("limit.redis: takes per second");
    let gate = open(&server.url(), StoreOptions::default()).await?;
    let limit = |name: &str, algorithm: Algorithm| -> Result<Limit> {
        Ok(gate.limit(name, algorithm, LimitOptions::default())?)
    };
    let (names, sliding) = (keys(KEYS), generous()?);
    let (window, bucket) = (Duration::from_millis(sliding.window().as_millis()), sliding.coalesce());
    let suppressed = Suppressed::new(sliding, HARD_LIMIT_FACTOR)?;
    let suppressing = Sliding::new(Rate::per_second(SLOW_PER_SECOND), window)?;
    let suppressing = Suppressed::new(suppressing, HARD_LIMIT_FACTOR)?;
    let calendar = Calendar::new(MAX_COUNT, Period::Hour)?;
    let ours = |limit: Limit| Ours::new(&limit, names.clone());
    let others: Vec<String> = names.iter().map(|name| format!("above_{name}")).collect();
    let trypema = Trypema::open(&server.url(), &names, window, bucket).await?;
    let contenders = [
        Contender::Ours(ours(limit("sliding", sliding.into())?)),
        Contender::Trypema(trypema.clone()),
        Contender::Gcra(Gcra::open(&server.url(), &names).await?),
        Contender::Ours(ours(limit("suppressed", suppressed.into())?)),
        Contender::Trypema(trypema.suppressed()),
        Contender::Ours(ours(limit("suppressing", suppressing.into())?).by_chance()),
        Contender::Trypema(trypema.suppressing(SLOW_PER_SECOND, &others)?),
        Contender::Ours(ours(limit("token", generous_token()?.into())?)),
        Contender::Ours(ours(limit("calendar", calendar.into())?)),
    ];
    let seen = take_turns(server, effort, &contenders).await?;
    gate.shutdown().await;
    let [ours, trypema, gcra, suppressed, their_suppressed, suppressing, their_suppressing, token, calendar] =
        seen;
    let figure = |name: &str, unit, at: usize, ours: [f64; 3], peer_name, peer: [f64; 3]| {
        Figure::ours(name, unit, ours[at]).beside(peer_name, peer[at])
    };
    let ops = |name: &str, ours, peer_name, peer| figure(name, "ops/s", 0, ours, peer_name, peer);
    let twice = Goal::AtLeast(2.0);
    Ok(vec![
        ops("limit.redis.ops", ours, TRYPEMA, trypema).goal(twice),
        ops("limit.redis.vs_gcra_script", ours, GCRA, gcra).goal(Goal::AtLeast(0.75)),
        figure("limit.redis.part.server_us", "µs", 1, ours, GCRA, gcra),
        figure("limit.redis.part.client_us", "µs", 2, ours, GCRA, gcra),
        figure("limit.redis.part.server_us.trypema", "µs", 1, ours, TRYPEMA, trypema),
        figure("limit.redis.part.client_us.trypema", "µs", 2, ours, TRYPEMA, trypema),
        ops("limit.suppressed.redis_ops", suppressed, TRYPEMA_SUPPRESSED, their_suppressed).goal(twice),
        ops("limit.suppressed.redis_ops.above", suppressing, TRYPEMA_SUPPRESSED, their_suppressing)
            .goal(twice),
        ops("limit.token.redis_ops", token, GCRA, gcra),
        ops("limit.calendar.redis_ops", calendar, TRYPEMA, trypema),
    ])
}

/// Who takes turns.
#[derive(Clone)]
enum Contender {
    Ours(Ours),
    Trypema(Trypema),
    Gcra(Gcra),
}

impl Taker for Contender {
    async fn take(&self, at: usize) -> Result<()> {
        match self {
            Self::Ours(taker) => taker.take(at).await,
            Self::Trypema(taker) => taker.take(at).await,
            Self::Gcra(taker) => taker.take(at).await,
        }
    }
}

/// The medians of each contender: see [`take_turn`].
async fn take_turns<const N: usize>(
    server: &RedisServer,
    effort: Effort,
    contenders: &[Contender; N],
) -> Result<[[f64; 3]; N]> {
    let order: Arc<[u32]> = mixed(TASKS * effort.pick(150, 600), KEYS).into();
    let mut turns: [Samples<3>; N] = std::array::from_fn(|_| Samples::new());
    for round in 0..=effort.rounds {
        for turn in 0..N {
            // Nobody always follows the same neighbour.
            let who = (turn + round) % N;
            let seen = take_turn(server, &contenders[who], &order).await?;
            if round > 0 {
                turns[who].push(seen);
            }
        }
    }
    Ok(turns.map(Samples::medians))
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
