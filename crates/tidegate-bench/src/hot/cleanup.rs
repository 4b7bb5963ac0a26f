//! What the cleanup of a hundred pages takes, whatever else is hot.

use std::time::Duration;

use anyhow::{Result, ensure};
use tidegate::Key;
use tidegate::clock::{Clock, ManualClock, Timestamp, monotonic};
use tidegate::hot::{Edit, Hot, HotOptions};
use tidegate::store::StoreOptions;

use super::recorders::{BATCH, open};
use crate::progress;
use crate::redis_server::RedisServer;
use crate::report::{Figure, Goal};
use crate::rounds::{Effort, Samples};

const FEW: usize = 1_000;
const MANY: usize = 100_000;
const DUE: usize = 100;
const WINDOW: Duration = Duration::from_secs(3600);

pub(super) async fn figures(effort: Effort) -> Result<Vec<Figure>> {
    progress("hot.cleanup_growth");
    let many = effort.pick(MANY / 5, MANY);
    let clock = ManualClock::at(Timestamp::from_millis(1_700_000_000_000));
    let few = Tracked::new(&clock, FEW).await?;
    let many = Tracked::new(&clock, many).await?;
    let mut samples = Samples::new();
    for round in 0..=effort.pick(20, 100) {
        let sample = match round % 2 {
            0 => [many.cleanup(&clock, round).await?, few.cleanup(&clock, round).await?],
            _ => {
                let few = few.cleanup(&clock, round).await?;
                [many.cleanup(&clock, round).await?, few]
            }
        };
        if round > 0 {
            samples.push(sample);
        }
    }
    let [many, few] = samples.medians();
    Ok(vec![
        Figure::ours("hot.cleanup_growth", "µs", many).beside("1,000 hot pages", few).goal(Goal::AtMost(1.2)),
    ])
}

/// A server with so many hot pages.
struct Tracked {
    hot: Hot,
    pages: usize,
    _gate: tidegate::Tidegate,
    _server: RedisServer,
}

impl Tracked {
    async fn new(clock: &ManualClock, pages: usize) -> Result<Self> {
        let server = RedisServer::start()?;
        let mut options = StoreOptions::default();
        options.clock = Clock::from(clock.clone());
        let gate = open(&server.url(), options).await?;
        let mut options = HotOptions::default();
        options.max_tracked = MANY + DUE;
        options.hot_threshold = 1;
        options.window_duration = WINDOW;
        let hot = gate.hot("pages", options)?;
        let tracked = Self { hot, pages, _gate: gate, _server: server };
        let names: Vec<String> = (0..pages).map(|number| format!("en:Hot page {number}")).collect();
        tracked.record(&names, None).await?;
        Ok(tracked)
    }

    async fn record(&self, names: &[String], at: Option<Timestamp>) -> Result<()> {
        for chunk in names.chunks(BATCH) {
            let edits: Vec<Edit<'_>> = chunk
                .iter()
                .map(|name| Ok(Edit { at, ..Edit::new(Key::new(name)?, "680000000", "Editor 1") }))
                .collect::<Result<_>>()?;
            self.hot.record_many(&edits).await?;
        }
        Ok(())
    }

    /// Microseconds for a hundred pages more, whose window is over.
    async fn cleanup(&self, clock: &ManualClock, round: usize) -> Result<f64> {
        let names: Vec<String> = (0..DUE).map(|number| format!("en:Due page {round} {number}")).collect();
        let window_ms = WINDOW.as_millis() as u64;
        let at = Timestamp::from_millis(clock.now().as_millis() - window_ms + 1);
        self.record(&names, Some(at)).await?;
        clock.advance_ms(1);
        let start = monotonic();
        let cleaned = self.hot.cleanup().await?;
        let taken = start.elapsed();
        ensure!(cleaned == DUE as u64, "{cleaned} pages were cleaned up");
        let left = self.hot.tracked().await?;
        ensure!(left == self.pages as u64, "{left} pages are left");
        Ok(taken.as_secs_f64() * 1e6)
    }
}
