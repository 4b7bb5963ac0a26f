//! Our sessions on a server of their own, with a clock that the bench moves.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use tidegate::clock::{Clock, ManualClock, Timestamp};
use tidegate::session::{Reap, SessionOptions, Sessions};
use tidegate::store::StoreOptions;
use tidegate::{Key, Tidegate};
use tokio::task::JoinSet;

use crate::redis_server::RedisServer;

/// What every session is configured with, here and in the seed's layout: two words to
/// vote with, two labels, a speed.
pub(super) const CONFIG: &str = r#"{"for_trigger":"yes","against_trigger":"no","left_label":"Against","right_label":"For","decay_speed":0.5}"#;
/// One that fits the compact encoding of a hash.
pub(super) const SMALL_CONFIG: &str = r#"{"theme":"dark","lang":"en","decay":0.98}"#;
pub(super) const VALUE: &str = "0.523809";
pub(super) const START_MS: u64 = 1_700_000_000_000;

/// Tasks that fill a server.
const TASKS: usize = 64;

pub(super) struct Ours {
    pub(super) sessions: Sessions,
    pub(super) clock: ManualClock,
    pub(super) server: RedisServer,
    pub(super) gate: Tidegate,
    config: &'static str,
}

impl Ours {
    pub(super) async fn start(config: &'static str) -> Result<Self> {
        let server = RedisServer::start()?;
        let clock = ManualClock::at(Timestamp::from_millis(START_MS));
        let mut options = StoreOptions::default();
        options.clock = Clock::from(clock.clone());
        // A machine that is busy with something else is no failure.
        options.deadline = Duration::from_secs(10);
        let gate = Tidegate::open_with(&server.url(), options).await?;
        let mut options = SessionOptions::default();
        // Only when the bench says so.
        options.reap = Reap::Claims;
        options.cleanup_interval = Duration::from_secs(24 * 3600);
        options.max_sessions = 10_000_000;
        let sessions = gate.sessions("sessions", options)?;
        Ok(Self { sessions, clock, server, gate, config })
    }

    /// Lets time pass with somebody there: half a lease without a call would be an outage, after which nothing is reaped
    /// for a while.
    pub(super) async fn pass(&self, duration: Duration) -> Result<()> {
        const STEP: Duration = Duration::from_secs(10);
        let mut left = duration;
        while !left.is_zero() {
            let step = left.min(STEP);
            self.clock.advance_ms(step.as_millis() as u64);
            self.sessions.stamp().await?;
            left -= step;
        }
        Ok(())
    }

    /// Sessions of broadcasters `first` and on, each held by one holder, or left already.
    pub(super) async fn fill(&self, first: usize, count: usize, is_left: bool) -> Result<()> {
        let numbers: Arc<[usize]> = (first..first + count).collect();
        let mut tasks = JoinSet::new();
        for task in 0..TASKS {
            let (sessions, numbers, config) = (self.sessions.clone(), numbers.clone(), self.config);
            tasks.spawn(async move {
                for number in numbers.iter().skip(task).step_by(TASKS) {
                    let (broadcaster, holder) = (broadcaster(*number), format!("server-{}", number % 8));
                    let holder = Key::new(&holder)?;
                    let key = Key::new(&broadcaster)?;
                    let id = sessions.activate(key, config, Some(holder)).await?.into_result()?.id;
                    sessions.update(id, VALUE, None).await?.into_result()?;
                    if is_left {
                        sessions.disconnect(id, holder).await?.into_result()?;
                    }
                }
                anyhow::Ok(())
            });
        }
        while let Some(ended) = tasks.join_next().await {
            ended.context("a task failed")??;
        }
        Ok(())
    }
}

/// A broadcaster's id, as long as they are.
pub(super) fn broadcaster(number: usize) -> String {
    format!("{}", 100_000_000 + number)
}
