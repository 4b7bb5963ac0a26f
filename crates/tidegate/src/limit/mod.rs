//! Rate limits: never more than the capacity in any window, wherever it starts.
//!
//! A [`Limit`] answers the same on every store. A refusal is a value with the
//! exact time to come back; an error says that there was no answer at all.
//! What happens while the store is away is an [outage policy](crate::Outage),
//! and every decision tells [who made it](Source).
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> tidegate::Result<()> {
//! use std::time::Duration;
//! use tidegate::{Cost, Key, Tidegate, limit::{LimitOptions, Sliding}};
//!
//! let gate = Tidegate::open("memory:").await?;
//! let sliding = Sliding::new("5/s".parse()?, Duration::from_secs(60))?;
//! let limit = gate.limit("api", sliding, LimitOptions::default())?;
//!
//! let user = Key::new("user_123")?;
//! let decision = limit.take(user, Cost::ONE).await?;
//! assert_eq!(decision.quota().remaining, 299);
//!
//! // The work failed: give the permit back. Twice does no harm.
//! let receipt = decision.receipt().expect("it was charged");
//! assert_eq!(limit.refund(user, receipt).await?, 1);
//! assert_eq!(limit.refund(user, receipt).await?, 0);
//! assert_eq!(limit.peek(user).await?.quota().remaining, 300);
//! # Ok(())
//! # }
//! ```

mod decision;
mod memory;
mod redis;
mod sliding;
mod usage;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

pub use self::decision::{Admitted, Decision, Quota, Receipt, Rejected, Source, Wait};
pub use self::memory::InProcess;
use self::redis::OnRedis;
pub use self::sliding::Sliding;
use self::usage::Ask;
use crate::bounds::{Cost, Rate};
use crate::error::Result;
use crate::key::{Key, Name};
use crate::outage::{AfterLoss, Outage};
use crate::store::Store;

/// What a new key gets when the process already holds as many as it may.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum WhenFull {
    /// A refusal, with the time at which the first key may be idle.
    #[default]
    Refuse,
    /// A common window with all other keys beyond the cap.
    Share,
}

/// What a limit does beside counting.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct LimitOptions {
    /// What to answer while the store is away.
    pub outage: Outage,
    /// What to answer after the store lost charges.
    pub after_loss: AfterLoss,
    /// What Redis keys start with.
    pub prefix: String,
    /// The most keys held in this process at a time.
    pub max_keys: usize,
    /// What a key beyond that gets.
    pub when_full: WhenFull,
}

impl Default for LimitOptions {
    fn default() -> Self {
        Self {
            outage: Outage::default(),
            after_loss: AfterLoss::default(),
            prefix: "trypema".to_owned(),
            max_keys: InProcess::DEFAULT_MAX_KEYS,
            when_full: WhenFull::default(),
        }
    }
}

/// A named limit on a store. Clones share it.
#[derive(Debug, Clone)]
pub struct Limit {
    core: Arc<Core>,
}

#[derive(Debug)]
struct Core {
    name: Name,
    sliding: Sliding,
    backend: Backend,
    outage: Outage,
    /// Decides during an outage, under that policy.
    local: InProcess,
    tallies: Tallies,
}

#[derive(Debug)]
enum Backend {
    Memory(InProcess),
    Redis(OnRedis),
}

/// How long a caller is told to wait when nothing is known: by then the store
/// has been tried again.
const OUTAGE_RETRY_MS: u64 = 1000;

impl Limit {
    pub(crate) fn new(store: &Store, name: Name, sliding: Sliding, options: &LimitOptions) -> Result<Self> {
        let prefix = Key::new(&options.prefix)?;
        let in_process = |clock| InProcess::with(sliding, clock, options.max_keys, options.when_full);
        let (backend, clock) = match store {
            Store::Memory(clock) => (Backend::Memory(in_process(clock.clone())), clock.clone()),
            Store::Redis(store) => {
                let on_redis = OnRedis::new(store.clone(), &name, prefix, sliding, options.after_loss);
                (Backend::Redis(on_redis), store.clock().clone())
            }
        };
        let (local, tallies) = (in_process(clock), Tallies::default());
        Ok(Self { core: Arc::new(Core { name, sliding, backend, outage: options.outage, local, tallies }) })
    }

    /// The name.
    pub fn name(&self) -> &Name {
        &self.core.name
    }

    /// How much over what window.
    pub fn sliding(&self) -> &Sliding {
        &self.core.sliding
    }

    /// Charges `cost` to `key` if it fits.
    pub async fn take(&self, key: Key<'_>, cost: Cost) -> Result<Decision> {
        self.ask(key, Ask { cost: cost.get(), capacity: self.core.sliding.capacity(), remember: 0 }).await
    }

    /// The same against `rate` instead of the configured one; a later
    /// [`peek`](Self::peek) judges by it too, until a plain take.
    pub async fn take_with(&self, key: Key<'_>, rate: Rate, cost: Cost) -> Result<Decision> {
        let capacity = rate.capacity(self.core.sliding.window())?;
        self.ask(key, Ask { cost: cost.get(), capacity, remember: capacity }).await
    }

    async fn ask(&self, key: Key<'_>, ask: Ask) -> Result<Decision> {
        let decision = match &self.core.backend {
            // Counts for itself, under its own locks.
            Backend::Memory(limit) => return limit.ask(key, ask),
            Backend::Redis(limit) => limit.take(key, ask).await,
        };
        let decision = match decision {
            Err(error) if error.is_transient() => self.without_the_store(key, ask)?,
            decision => decision?,
        };
        self.core.tallies.count(&decision);
        Ok(decision)
    }

    /// What the next take of one permit would be told; charges nothing.
    pub async fn peek(&self, key: Key<'_>) -> Result<Decision> {
        match &self.core.backend {
            Backend::Memory(limit) => limit.peek(key),
            Backend::Redis(limit) => match limit.peek(key).await {
                Err(error) if error.is_transient() => match self.core.outage {
                    Outage::Local(_) => {
                        self.core.local.peek(key).map(|decision| decision.decided_by(Source::Local))
                    }
                    _ => {
                        let capacity = self.core.sliding.capacity();
                        self.without_the_store(key, Ask { cost: 1, capacity, remember: 0 })
                    }
                },
                decision => decision,
            },
        }
    }

    /// Gives back the charge that `receipt` is for, once; how much that was.
    /// Nothing if the charge no longer counts, or was made for another key.
    pub async fn refund(&self, key: Key<'_>, receipt: Receipt) -> Result<u64> {
        match &self.core.backend {
            Backend::Memory(limit) => limit.refund(key, receipt),
            Backend::Redis(limit) => limit.refund(key, receipt).await,
        }
    }

    /// Forgets what `key` has used; receipts from before give nothing back.
    pub async fn reset(&self, key: Key<'_>) -> Result<()> {
        match &self.core.backend {
            Backend::Memory(limit) => limit.reset(key),
            Backend::Redis(limit) => limit.reset(key).await,
        }
    }

    /// The limit in this process, if that is where it is: its calls need no
    /// `await`.
    pub fn in_process(&self) -> Option<&InProcess> {
        match &self.core.backend {
            Backend::Memory(limit) => Some(limit),
            Backend::Redis(_) => None,
        }
    }

    /// Drops up to `limit` idle keys from this process.
    pub(crate) fn sweep(&self, limit: usize) -> usize {
        let first = self.in_process().map_or(0, |in_process| in_process.sweep(limit));
        first + self.core.local.sweep(limit - first)
    }

    pub(crate) fn keys_in_process(&self) -> usize {
        self.in_process().map_or(0, InProcess::keys) + self.core.local.keys()
    }

    /// Decisions so far, by outcome and source.
    pub(crate) fn tallies(&self) -> Vec<(&'static str, Source, u64)> {
        match &self.core.backend {
            Backend::Memory(limit) => {
                let (admitted, rejected) = limit.tallies();
                vec![("admitted", Source::Store, admitted), ("rejected", Source::Store, rejected)]
            }
            Backend::Redis(_) => self.core.tallies.read(),
        }
    }

    fn without_the_store(&self, key: Key<'_>, ask: Ask) -> Result<Decision> {
        let sliding = &self.core.sliding;
        let quota = |remaining| Quota {
            capacity: ask.capacity,
            remaining,
            reset_after_ms: 0,
            window_size_seconds: sliding.window().as_seconds(),
        };
        let come_back = |capacity| {
            let wait = Wait { retry_after_ms: OUTAGE_RETRY_MS, remaining_after_waiting: capacity };
            let wait = (ask.cost <= capacity).then_some(wait);
            Decision::Rejected(Rejected { wait, quota: quota(0), source: Source::Policy })
        };
        Ok(match self.core.outage {
            // What can never fit does not fit now either.
            Outage::Open if ask.cost > ask.capacity => come_back(ask.capacity),
            Outage::Open => Decision::Admitted(Admitted {
                receipt: None,
                quota: quota(ask.capacity),
                source: Source::Policy,
            }),
            Outage::Closed => come_back(ask.capacity),
            Outage::Local(share) => {
                let capacity = share.of(ask.capacity);
                let remember = if ask.remember == 0 { 0 } else { capacity };
                self.core.local.ask(key, Ask { capacity, remember, ..ask })?.decided_by(Source::Local)
            }
        })
    }
}

/// Decisions of a limit whose store is elsewhere.
#[derive(Debug, Default)]
struct Tallies([[AtomicU64; 2]; 3]);

impl Tallies {
    const SOURCES: [Source; 3] = [Source::Store, Source::Local, Source::Policy];

    fn count(&self, decision: &Decision) {
        if let Some(row) = Self::SOURCES.iter().position(|source| *source == decision.source()) {
            self.0[row][usize::from(decision.is_admitted())].fetch_add(1, Ordering::Relaxed);
        }
    }

    fn read(&self) -> Vec<(&'static str, Source, u64)> {
        let rows = Self::SOURCES.into_iter().zip(&self.0);
        rows.flat_map(|(source, [rejected, admitted])| {
            let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
            [("admitted", source, read(admitted)), ("rejected", source, read(rejected))]
        })
        .collect()
    }
}
