//! The limit on Redis: thin over its scripts. `docs/redis-keys.md` has the keys.

use std::sync::{Arc, LazyLock};

use compact_str::{CompactString, ToCompactString as _};
use redis::Value;

use super::decision::{Admitted, Decision, Quota, Receipt, Rejected, Source, Wait};
use super::memory::dress;
use super::sliding::Sliding;
use super::usage::{Ask, MAX_REFUNDS, Outcome, Verdict};
use crate::error::{Error, Result};
use crate::key::{Key, Name, escape};
use crate::outage::AfterLoss;
use crate::store::redis::{Call, MARKER_TTL, RedisStore, Script};

const WINDOW: &str = include_str!("window.lua");

static TAKE: LazyLock<Script> = LazyLock::new(|| Script::new(&[WINDOW, include_str!("take.lua")]));
static PEEK: LazyLock<Script> = LazyLock::new(|| Script::new(&[WINDOW, include_str!("peek.lua")]));
static REFUND: LazyLock<Script> = LazyLock::new(|| Script::new(&[WINDOW, include_str!("refund.lua")]));
static RESET: LazyLock<Script> = LazyLock::new(|| Script::new(&[WINDOW, include_str!("reset.lua")]));

/// A sliding limit on Redis.
#[derive(Debug)]
pub(super) struct OnRedis {
    store: RedisStore,
    sliding: Sliding,
    /// What a key starts with, after the partition's prefix.
    family: String,
    take_args: Arc<[CompactString]>,
    refund_args: Arc<[CompactString]>,
    grid_args: Arc<[CompactString]>,
}

impl OnRedis {
    pub(super) fn new(
        store: RedisStore,
        name: &Name,
        prefix: Key<'_>,
        sliding: Sliding,
        after_loss: AfterLoss,
    ) -> Self {
        let grid = sliding.grid();
        let slack_ms = store.clock().slack_ms();
        let numbers = [grid.window_ms, grid.coalesce_ms, grid.absurd_ms, slack_ms];
        let with = |more: &[u64]| numbers.iter().chain(more).map(|n| n.to_compact_string()).collect();
        let hold = u64::from(after_loss == AfterLoss::Hold);
        Self {
            family: format!("{}:{}:absolute:h:", escape(prefix.as_str()), name.as_str()),
            take_args: with(&[hold, MARKER_TTL.as_millis() as u64]),
            refund_args: with(&[MAX_REFUNDS as u64]),
            grid_args: with(&[]),
            store,
            sliding,
        }
    }

    async fn run(
        &self,
        script: &'static LazyLock<Script>,
        shared: &Arc<[CompactString]>,
        key: Key<'_>,
        own: &[u64],
    ) -> Result<Value> {
        let place = self.store.place(key.as_str());
        let call = Call {
            script,
            shared: shared.clone(),
            key: format!("{}{}{}", place.prefix, self.family, key.as_str()),
            own: own.iter().map(|n| n.to_compact_string()).collect(),
            now_ms: self.store.set_time_ms(),
        };
        self.store.call(place.partition, call).await
    }

    pub(super) async fn take(&self, key: Key<'_>, ask: Ask) -> Result<Decision> {
        let reply = self.run(&TAKE, &self.take_args, key, &[ask.cost, ask.capacity, ask.remember]).await?;
        let window_size_seconds = self.sliding.window().as_seconds();
        match numbers(&reply)?[..] {
            [1, capacity, total, reset_after_ms, bucket, offset] => {
                let receipt = Receipt { bucket: bucket as u64, offset: offset as u64, cost: ask.cost };
                let quota = quota(capacity, total, reset_after_ms, window_size_seconds);
                Ok(Decision::Admitted(Admitted { receipt: Some(receipt), quota, source: Source::Store }))
            }
            [2, held_ms] => {
                let wait = Wait { retry_after_ms: held_ms as u64, remaining_after_waiting: ask.capacity };
                let quota = quota(ask.capacity as i64, ask.capacity as i64, held_ms, window_size_seconds);
                let wait = (ask.cost <= ask.capacity).then_some(wait);
                Ok(Decision::Rejected(Rejected { wait, quota, source: Source::Policy }))
            }
            ref other => self.refusal(other),
        }
    }

    pub(super) async fn peek(&self, key: Key<'_>) -> Result<Decision> {
        let reply = self.run(&PEEK, &self.grid_args, key, &[self.sliding.capacity()]).await?;
        match numbers(&reply)?[..] {
            [1, capacity, total, reset_after_ms] => {
                let (capacity, total) = (capacity as u64, total as u64);
                let verdict = Verdict {
                    capacity,
                    total,
                    reset_after_ms: reset_after_ms as u64,
                    outcome: Outcome::Fits,
                };
                Ok(dress(verdict, self.sliding.window().as_seconds(), Source::Store))
            }
            ref other => self.refusal(other),
        }
    }

    pub(super) async fn refund(&self, key: Key<'_>, receipt: Receipt) -> Result<u64> {
        let own = [receipt.bucket, receipt.offset, receipt.cost];
        match self.run(&REFUND, &self.refund_args, key, &own).await? {
            Value::Int(given_back) => Ok(given_back as u64),
            other => Err(unexpected(&other)),
        }
    }

    pub(super) async fn reset(&self, key: Key<'_>) -> Result<()> {
        self.run(&RESET, &self.grid_args, key, &[]).await.map(|_| ())
    }

    fn refusal(&self, reply: &[i64]) -> Result<Decision> {
        let [0, capacity, total, reset_after_ms, retry_after_ms, remaining] = *reply else {
            return Err(unexpected(reply));
        };
        let wait = (retry_after_ms >= 0).then_some(Wait {
            retry_after_ms: retry_after_ms as u64,
            remaining_after_waiting: remaining as u64,
        });
        let quota = quota(capacity, total, reset_after_ms, self.sliding.window().as_seconds());
        Ok(Decision::Rejected(Rejected { wait, quota, source: Source::Store }))
    }
}

fn quota(capacity: i64, total: i64, reset_after_ms: i64, window_size_seconds: u64) -> Quota {
    Quota {
        capacity: capacity as u64,
        remaining: (capacity - total).max(0) as u64,
        reset_after_ms: reset_after_ms as u64,
        window_size_seconds,
    }
}

fn numbers(reply: &Value) -> Result<Vec<i64>> {
    let Value::Array(items) = reply else { return Err(unexpected(reply)) };
    items
        .iter()
        .map(|item| match item {
            Value::Int(number) => Ok(*number),
            _ => Err(unexpected(reply)),
        })
        .collect()
}

fn unexpected(reply: &(impl std::fmt::Debug + ?Sized)) -> Error {
    Error::internal(format!("a script of the limit answered {reply:?}"))
}
