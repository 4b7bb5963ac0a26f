//! The production settings, full: how many bytes that is, and how long each operation
//! takes then.

use std::time::Duration;

use anyhow::{Result, ensure};
use tidegate::clock::{Clock, ManualClock, Timestamp, monotonic};
use tidegate::hot::{Edit, Hot};
use tidegate::store::StoreOptions;
use tidegate::{Key, Tidegate};

use super::random::Random;
use super::recorders::{BATCH, open, production};
use crate::heap::growth;
use crate::progress;
use crate::redis_server::{RedisServer, used_bytes};
use crate::report::{Figure, Goal};
use crate::rounds::Effort;

const START_MS: u64 = 1_700_000_000_000;
const MEMBERS: usize = 200;
const PAGES: usize = 5_000;

/// What all of it may take.
const MOST_MB: f64 = 150.0;

/// What passes between an operation and the next of its kind.
const STEP_MS: u64 = 1_000;

/// No operation may take longer.
const MOST_MS: f64 = 10.0;

/// Every page full, the edits spread over the window, by editors of whom none is the
/// same.
async fn fill(hot: &Hot, clock: &ManualClock, pages: &[String]) -> Result<()> {
    let window_ms = hot.options().window_duration.as_millis() as u64;
    for member in 0..MEMBERS {
        for (chunk, names) in pages.chunks(BATCH).enumerate() {
            let first = member * pages.len() + chunk * BATCH;
            let texts: Vec<_> = (0..names.len())
                .map(|at| (format!("{}", 1_000_000_000 + first + at), format!("Editor {}", first + at)))
                .collect();
            let edits: Vec<Edit<'_>> = names
                .iter()
                .zip(&texts)
                .map(|(name, (id, editor))| {
                    Ok(Edit { byte_change: (first % 5_000) as i64, ..Edit::new(Key::new(name)?, id, editor) })
                })
                .collect::<Result<_>>()?;
            hot.record_many(&edits).await?;
            // All have their edits at moments of their own, as real pages have.
            clock.advance_ms(window_ms * names.len() as u64 / (MEMBERS * pages.len()) as u64);
        }
    }
    let count = hot.tracked().await?;
    ensure!(count == pages.len() as u64, "{count} pages are hot");
    Ok(())
}

fn names(effort: Effort) -> Vec<String> {
    (0..effort.pick(PAGES / 10, PAGES)).map(|number| format!("en:A page of renown {number}")).collect()
}

/// A store in this process or on a server, with the clock that drives it.
async fn opened(url: &str) -> Result<(Tidegate, Hot, ManualClock)> {
    let clock = ManualClock::at(Timestamp::from_millis(START_MS));
    let mut options = StoreOptions::default();
    options.clock = Clock::from(clock.clone());
    let gate = open(url, options).await?;
    let hot = gate.hot("pages", production())?;
    Ok((gate, hot, clock))
}

/// Bytes in this process, as the allocator sees them and as we account for them.
pub(super) fn in_memory(effort: Effort) -> Result<Vec<Figure>> {
    progress("hot.bytes_per_page: in this process");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let pages = names(effort);
    let (gate, hot, clock) = runtime.block_on(opened("memory:"))?;
    let (filled, grown) = growth(|| runtime.block_on(fill(&hot, &clock, &pages)));
    filled?;
    let accounted = hot.bytes_in_process() as f64;
    runtime.block_on(gate.shutdown());
    let each = |bytes: f64| bytes / pages.len() as f64;
    Ok(vec![
        Figure::ours("hot.bytes_per_page.memory", "B", each(grown.taken)),
        Figure::ours("hot.bytes_per_page.memory.accounted", "B", each(accounted))
            .beside("what the allocator takes", each(grown.taken)),
        Figure::ours("hot.bytes_per_page.memory.total_mb", "MB", each(grown.taken) * PAGES as f64 / 1e6),
    ])
}

/// Bytes on a server, and the operations there.
pub(super) async fn on_redis(effort: Effort) -> Result<Vec<Figure>> {
    progress("hot.bytes_per_page: on Redis");
    let server = RedisServer::start()?;
    let mut connection = redis::Client::open(server.url())?.get_multiplexed_async_connection().await?;
    let pages = names(effort);
    let (gate, hot, clock) = opened(&server.url()).await?;
    let before = used_bytes(&mut connection).await?;
    fill(&hot, &clock, &pages).await?;
    let each = (used_bytes(&mut connection).await? - before) / pages.len() as f64;
    let mut figures = vec![
        Figure::ours("hot.bytes_per_page", "B", each),
        Figure::ours("hot.bytes_per_page.total_mb", "MB", each * PAGES as f64 / 1e6)
            .goal(Goal::AtMost(MOST_MB)),
    ];
    figures.extend(operations(effort, &hot, &clock, &pages).await?);
    // Windows that have been full for a while, edits coming and going.
    let each = (used_bytes(&mut connection).await? - before) / pages.len() as f64;
    figures.push(Figure::ours("hot.bytes_per_page.later", "B", each));
    gate.shutdown().await;
    Ok(figures)
}

/// The edits of a step: as many as leave the windows in it.
async fn keep_full(hot: &Hot, pages: &[String], step: usize, random: &mut Random) -> Result<()> {
    let window_ms = hot.options().window_duration.as_millis() as usize;
    let edits = pages.len() * MEMBERS * STEP_MS as usize / window_ms;
    let texts: Vec<_> = (0..edits)
        .map(|at| (format!("{}", 3_000_000_000 + step * edits + at), format!("Visitor {at}")))
        .collect();
    for chunk in texts.chunks(BATCH) {
        let edits: Vec<Edit<'_>> = chunk
            .iter()
            .map(|(id, editor)| {
                Ok(Edit::new(Key::new(&pages[random.below(pages.len() as u64) as usize])?, id, editor))
            })
            .collect::<Result<_>>()?;
        hot.record_many(&edits).await?;
    }
    Ok(())
}

/// How long each operation takes at most, 99 times of a hundred, while edits come as
/// fast as others leave.
async fn operations(effort: Effort, hot: &Hot, clock: &ManualClock, pages: &[String]) -> Result<Vec<Figure>> {
    progress("hot.redis.op_ms_p99");
    const NAMES: [&str; 7] = ["record", "stats", "window", "list", "count", "is_hot", "cleanup"];
    let mut taken: [Vec<Duration>; 7] = Default::default();
    let mut random = Random::new();
    let window_ms = hot.options().window_duration.as_millis() as u64;
    for step in 0..effort.pick(200, 1_000_usize) {
        keep_full(hot, pages, step, &mut random).await?;
        for (operation, taken) in taken.iter_mut().enumerate() {
            clock.advance_ms(STEP_MS / NAMES.len() as u64);
            let page = Key::new(&pages[random.below(pages.len() as u64) as usize])?;
            let (id, editor) = (format!("{}", 2_000_000_000 + step), format!("Editor of {step}"));
            let edit = Edit::new(page, &id, &editor);
            let range = Timestamp::from_millis(clock.now().as_millis() - window_ms)..=clock.now();
            let start = monotonic();
            match operation {
                0 => drop(hot.record(&edit).await?),
                1 => {
                    hot.stats(page).await?;
                }
                2 => drop(hot.window(page, range).await?),
                3 => drop(hot.list(20).await?),
                4 => drop(hot.tracked().await?),
                5 => drop(hot.is_hot(page).await?),
                _ => drop(hot.cleanup().await?),
            }
            taken.push(start.elapsed());
        }
    }
    let figure = |(name, taken): (&str, &mut Vec<Duration>)| {
        taken.sort();
        let at = |share: usize| taken[(taken.len() * share / 100).min(taken.len() - 1)].as_secs_f64() * 1e3;
        [
            Figure::ours(&format!("hot.redis.op_ms_p99.{name}"), "ms", at(99)).goal(Goal::AtMost(MOST_MS)),
            Figure::ours(&format!("hot.redis.op_ms_p50.{name}"), "ms", at(50)),
        ]
    };
    Ok(NAMES.into_iter().zip(&mut taken).flat_map(figure).collect())
}
