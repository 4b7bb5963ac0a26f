//! Our runs on a server of their own.

use std::time::Duration;

use anyhow::{Result, ensure};
use tidegate::run::{RunOptions, Runs};
use tidegate::store::StoreOptions;
use tidegate::{Key, Tidegate};

use crate::redis_server::RedisServer;

/// Items of one call.
pub(super) const BATCH: usize = 100;

pub(super) struct Ours {
    pub(super) runs: Runs,
    pub(super) server: RedisServer,
    pub(super) gate: Tidegate,
}

impl Ours {
    pub(super) async fn start() -> Result<Self> {
        let server = RedisServer::start()?;
        let mut options = StoreOptions::default();
        // A machine that is busy with something else is no failure.
        options.deadline = Duration::from_secs(10);
        let gate = Tidegate::open_with(&server.url(), options).await?;
        let runs = gate.runs("main", RunOptions::new())?;
        Ok(Self { runs, server, gate })
    }

    pub(super) async fn run(&self, run: &str) -> Result<()> {
        self.runs.start(Key::new(run)?).await?.into_result()?;
        Ok(())
    }

    /// Notes items `first` and on, so many in one call.
    pub(super) async fn append(&self, run: &str, first: usize, count: usize) -> Result<()> {
        let texts: Vec<String> = (first..first + count).map(item).collect();
        let items: Vec<Key<'_>> = texts.iter().map(|text| Key::new(text)).collect::<tidegate::Result<_>>()?;
        let processed = self.runs.processed(Key::new(run)?, None, &items).await?.into_result()?;
        ensure!(processed.new == count as u64, "{processed:?}");
        Ok(())
    }

    /// Notes items up to `count`, in the largest calls.
    pub(super) async fn fill(&self, run: &str, count: usize) -> Result<()> {
        for first in (0..count).step_by(10_000) {
            self.append(run, first, 10_000.min(count - first)).await?;
        }
        Ok(())
    }
}

/// A docket's number, as long as they are.
pub(super) fn item(number: usize) -> String {
    (60_000_000 + number).to_string()
}
