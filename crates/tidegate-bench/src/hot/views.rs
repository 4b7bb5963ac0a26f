//! Page views, which are only counted, on Redis: beside the seed's commands, which know nothing but edits; and what a page
//! takes there.

use std::time::Duration;

use anyhow::Result;
use tidegate::Key;
use tidegate::clock::{Clock, ManualClock, Timestamp};
use tidegate::hot::{Count, HotOptions};
use tidegate::store::StoreOptions;

use super::SEED;
use super::mix::HotMix;
use super::recorders::{BULK, TASKS, Views, open, production};
use super::redis::{Contender, MAX_TRACKED, take_turn};
use super::seed::{Seed, Settings};
use crate::progress;
use crate::redis_server::{RedisServer, used_bytes};
use crate::report::{Figure, Goal};
use crate::rounds::{Effort, Samples};

/// Pages that are viewed, some far more often than others.
const PAGES: usize = 10_000;

/// For how long views are added up before they are sent; and how many times as many are made in a turn, so that it lasts
/// for several of these.
const GATHER: Duration = Duration::from_millis(100);
const GATHERED: usize = 64;

/// Slots in use of a page whose bytes are measured.
const SLOTS: u64 = 8;

pub(super) async fn figures(effort: Effort) -> Result<Vec<Figure>> {
    let mut figures = views(effort).await?;
    figures.extend(bytes(effort).await?);
    Ok(figures)
}

fn counting() -> HotOptions {
    production().max_members_per_page(0).max_tracked(MAX_TRACKED).max_activity(10 * MAX_TRACKED)
}

async fn views(effort: Effort) -> Result<Vec<Figure>> {
    progress("hot.redis.views: views per second");
    let servers =
        [RedisServer::start()?, RedisServer::start()?, RedisServer::start()?, RedisServer::start()?];
    let settings = Settings { hot_threshold: 3, window_s: 1800, max_tracked: MAX_TRACKED, max_members: 200 };
    let singles = open(&servers[0].url(), StoreOptions::default()).await?;
    let bulk = open(&servers[1].url(), StoreOptions::default()).await?;
    let gathering = open(&servers[3].url(), StoreOptions::default()).await?;
    let gathered = gathering.hot("views", counting().gather(GATHER))?;
    let contenders = [
        Contender::Views(Views(singles.hot("views", counting())?), 1),
        Contender::Views(Views(bulk.hot("views", counting())?), BULK),
        Contender::Seed(Seed::open(&servers[2].url(), 1, settings).await?),
        Contender::Gathered(Views(gathered), GATHERED),
    ];
    let (mut mix, size) = (HotMix::of(PAGES), TASKS * effort.pick(256, 1024));
    let mut turns: [Samples<3>; 4] = std::array::from_fn(|_| Samples::new());
    // The first rounds make the pages hot.
    for round in 0..effort.rounds + 3 {
        let lines = mix.take(size);
        for turn in 0..4 {
            let who = (turn + round) % 4;
            let seen = take_turn(&servers[who], &contenders[who], &lines).await?;
            if round >= 3 {
                turns[who].push(seen);
            }
        }
    }
    let [one, many, seed, gathered] = turns.map(Samples::medians);
    singles.shutdown().await;
    bulk.shutdown().await;
    gathering.shutdown().await;
    let figure = |name: &str, unit, at: usize, ours: &[f64; 3]| {
        Figure::ours(&format!("hot.redis.views{name}"), unit, ours[at]).beside(SEED, seed[at])
    };
    Ok(vec![
        figure("", "views/s", 0, &one).goal(Goal::AtLeast(1.5)),
        figure("_bulk", "views/s", 0, &many),
        figure("_gathered", "views/s", 0, &gathered).goal(Goal::AtLeast(20.0)),
        figure(".server_us.gathered", "µs", 1, &gathered),
        figure(".client_us.gathered", "µs", 2, &gathered),
        figure(".server_us", "µs", 1, &one),
        figure(".client_us", "µs", 2, &one),
        figure(".server_us.bulk", "µs", 1, &many),
    ])
}

/// Bytes of a hot page with its entries in the indices.
async fn bytes(effort: Effort) -> Result<Vec<Figure>> {
    progress("hot.bytes_per_counted_page: on Redis");
    let server = RedisServer::start()?;
    let mut connection = redis::Client::open(server.url())?.get_multiplexed_async_connection().await?;
    let clock = ManualClock::at(Timestamp::from_millis(1_700_000_000_000));
    let mut options = StoreOptions::default();
    options.clock = Clock::from(clock.clone());
    let gate = open(&server.url(), options).await?;
    let hot = gate.hot("main", counting().window_duration(Duration::from_secs(3600)))?;
    let names: Vec<_> = (0..effort.pick(50_000, 100_000)).map(|it| format!("en:A page of {it:07}")).collect();
    let before = used_bytes(&mut connection).await?;
    let mut sizes = Vec::new();
    for slot in 0..3 * SLOTS {
        for (number, names) in names.chunks(BULK).enumerate() {
            let counts: Vec<_> = names
                .iter()
                .map(|name| Ok(Count::new(Key::new(name)?, 3 + (number as u64 * 7 + slot * 100) % 1000)))
                .collect::<Result<_>>()?;
            hot.count_many(&counts).await?;
        }
        // A slot of an hour is 65,536 ms.
        clock.advance_ms(65_536);
        sizes.push((used_bytes(&mut connection).await? - before) / names.len() as f64);
    }
    gate.shutdown().await;
    let (few, many) = (sizes[SLOTS as usize - 1], sizes[3 * SLOTS as usize - 1]);
    Ok(vec![
        Figure::ours("hot.bytes_per_counted_page", "B", few).goal(Goal::AtMost(480.0)),
        Figure::ours("hot.bytes_per_counted_page.further_slot", "B", (many - few) / (2 * SLOTS) as f64),
    ])
}
