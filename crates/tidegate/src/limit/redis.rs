//! The limit on Redis: thin over its scripts. `docs/redis-keys.md` has the keys.

use std::hash::Hasher as _;
use std::sync::{Arc, LazyLock};

use compact_str::{CompactString, ToCompactString as _};
use redis::Value;
use siphasher::sip::SipHasher24;

use super::decision::{Admitted, Decision, Quota, Receipt, Rejected, Source, Wait};
use super::sliding::Sliding;
use super::usage::{Ask, MAX_REFUNDS};
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
    decide_args: Arc<[CompactString]>,
    refund_args: Arc<[CompactString]>,
    reset_args: Arc<[CompactString]>,
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
        let numbers = [grid.window_ms, grid.coalesce_ms, grid.absurd_ms, slack_ms, sliding.capacity()];
        let with = |more: &[u64]| numbers.iter().chain(more).map(|n| n.to_compact_string()).collect();
        let hold = u64::from(after_loss == AfterLoss::Hold);
        Self {
            family: format!("{}:{}:absolute:h:", escape(prefix.as_str()), name.as_str()),
            decide_args: with(&[hold, MARKER_TTL.as_millis() as u64]),
            refund_args: with(&[MAX_REFUNDS as u64]),
            reset_args: with(&[]),
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

    /// Tells keys apart, and those of one limit from those of another: the same
    /// on every node.
    fn subject(&self, key: Key<'_>) -> u32 {
        let mut hasher = SipHasher24::new_with_key(b"tidegate-receipt");
        hasher.write(self.family.as_bytes());
        hasher.write(key.as_str().as_bytes());
        hasher.finish() as u32
    }

    pub(super) async fn take(&self, key: Key<'_>, ask: Ask) -> Result<Decision> {
        let own = [ask.cost, ask.remember];
        let reply = numbers(&self.run(&TAKE, &self.decide_args, key, &own).await?)?;
        let [1, capacity, total, reset_after_ms, bucket, offset] = reply[..] else {
            return self.refusal(&reply, ask.cost, ask.capacity);
        };
        let subject = self.subject(key);
        let receipt = Receipt { bucket: bucket as u64, offset: offset as u64, cost: ask.cost, subject };
        let quota = self.quota(capacity, total, reset_after_ms);
        Ok(Decision::Admitted(Admitted { receipt: Some(receipt), quota, source: Source::Store }))
    }

    pub(super) async fn peek(&self, key: Key<'_>) -> Result<Decision> {
        let configured = self.sliding.capacity();
        let reply = numbers(&self.run(&PEEK, &self.decide_args, key, &[]).await?)?;
        let [1, capacity, total, reset_after_ms] = reply[..] else {
            return self.refusal(&reply, 1, configured);
        };
        let quota = self.quota(capacity, total, reset_after_ms);
        Ok(Decision::Admitted(Admitted { receipt: None, quota, source: Source::Store }))
    }

    pub(super) async fn refund(&self, key: Key<'_>, receipt: Receipt) -> Result<u64> {
        if receipt.subject != self.subject(key) {
            return Ok(0);
        }
        let own = [receipt.bucket, receipt.offset, receipt.cost];
        match self.run(&REFUND, &self.refund_args, key, &own).await? {
            Value::Int(given_back) => Ok(given_back as u64),
            other => Err(unexpected(&other)),
        }
    }

    pub(super) async fn reset(&self, key: Key<'_>) -> Result<()> {
        self.run(&RESET, &self.reset_args, key, &[]).await.map(|_| ())
    }

    fn refusal(&self, reply: &[i64], cost: u64, capacity: u64) -> Result<Decision> {
        let (wait, quota, source) = match *reply {
            [0, capacity, total, reset_after_ms, retry_after_ms, free] => {
                let wait =
                    Wait { retry_after_ms: retry_after_ms as u64, remaining_after_waiting: free as u64 };
                let quota = self.quota(capacity, total, reset_after_ms);
                ((retry_after_ms >= 0).then_some(wait), quota, Source::Store)
            }
            // Held after a loss: nothing is known of the key, and nothing of it
            // counts once the hold is over.
            [2, held_ms] => {
                let wait = Wait { retry_after_ms: held_ms as u64, remaining_after_waiting: capacity };
                let quota = self.quota(capacity as i64, capacity as i64, held_ms);
                ((cost <= capacity).then_some(wait), quota, Source::Policy)
            }
            _ => return Err(unexpected(reply)),
        };
        Ok(Decision::Rejected(Rejected { wait, quota, source }))
    }

    fn quota(&self, capacity: i64, total: i64, reset_after_ms: i64) -> Quota {
        Quota {
            capacity: capacity as u64,
            remaining: (capacity - total).max(0) as u64,
            reset_after_ms: reset_after_ms as u64,
            window_size_seconds: self.sliding.window().as_seconds(),
        }
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
