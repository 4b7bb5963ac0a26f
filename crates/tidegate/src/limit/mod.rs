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
use crate::Background;
use crate::bounds::{Cost, Rate};
use crate::error::Result;
use crate::key::{Key, Name};
use crate::outage::{AfterLoss, Outage, Share};
use crate::store::Store;
use crate::store::memory::Swept;

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
#[derive(Debug, Clone, PartialEq, Eq)]
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
    /// What runs in the background for it, for as long as somebody holds it.
    _background: Option<Arc<Background>>,
}

#[derive(Debug)]
struct Core {
    name: Name,
    sliding: Sliding,
    options: LimitOptions,
    backend: Backend,
    /// Decides during an outage, under that policy.
    local: Option<(Share, InProcess)>,
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
        let local = match (options.outage, &backend) {
            (Outage::Local(share), Backend::Redis(_)) => Some((share, in_process(clock))),
            _ => None,
        };
        let (options, tallies) = (options.clone(), Tallies::default());
        let core = Core { name, sliding, options, backend, local, tallies };
        Ok(Self { core: Arc::new(core), _background: None })
    }

    /// The same limit, keeping `background` alive.
    pub(crate) fn with(&self, background: &Arc<Background>) -> Self {
        Self { core: self.core.clone(), _background: Some(background.clone()) }
    }

    /// The name.
    pub fn name(&self) -> &Name {
        &self.core.name
    }

    /// How much over what window.
    pub fn sliding(&self) -> &Sliding {
        &self.core.sliding
    }

    /// What it does beside counting.
    pub fn options(&self) -> &LimitOptions {
        &self.core.options
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
                Err(error) if error.is_transient() => {
                    let capacity = self.core.sliding.capacity();
                    match &self.core.local {
                        Some((share, local)) if share.of(capacity) > 0 => {
                            Ok(local.peek_at(key, share.of(capacity))?.decided_by(Source::Local))
                        }
                        _ => self.without_the_store(key, Ask { cost: 1, capacity, remember: 0 }),
                    }
                }
                decision => decision,
            },
        }
    }

    /// Gives back the charge that `receipt` is for, once; how much that was.
    /// Nothing if the charge no longer counts, or was made to another key.
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

    /// Drops idle keys from this process, looking at up to `limit`.
    pub(crate) fn sweep(&self, limit: usize) -> Swept {
        self.in_this_process().map_or(Swept { looked_at: 0, dropped: 0 }, |held| held.swept(limit))
    }

    pub(crate) fn keys_in_process(&self) -> usize {
        self.in_this_process().map_or(0, InProcess::keys)
    }

    /// The keys that this process holds: all of them, or those of an outage.
    fn in_this_process(&self) -> Option<&InProcess> {
        self.in_process().or(self.core.local.as_ref().map(|(_, local)| local))
    }

    /// Decisions so far, by outcome and source.
    pub(crate) fn tallies(&self) -> Vec<(&'static str, Source, u64)> {
        match &self.core.backend {
            Backend::Memory(limit) => limit.tallies().to_vec(),
            Backend::Redis(_) => self.core.tallies.read(),
        }
    }

    fn without_the_store(&self, key: Key<'_>, ask: Ask) -> Result<Decision> {
        let quota = |remaining, reset_after_ms| Quota {
            capacity: ask.capacity,
            remaining,
            reset_after_ms,
            window_size_seconds: self.core.sliding.window().as_seconds(),
        };
        // What can never fit does not fit now either.
        let fits_ever = ask.cost <= ask.capacity;
        match (self.core.options.outage, &self.core.local) {
            (Outage::Open, _) if fits_ever => {
                let quota = quota(ask.capacity, 0);
                return Ok(Decision::Admitted(Admitted { receipt: None, quota, source: Source::Policy }));
            }
            (_, Some((share, local))) if ask.cost <= share.of(ask.capacity) => {
                let capacity = share.of(ask.capacity);
                let remember = if ask.remember == 0 { 0 } else { capacity };
                return Ok(local.ask(key, Ask { capacity, remember, ..ask })?.decided_by(Source::Local));
            }
            _ => {}
        }
        let wait = Wait { retry_after_ms: OUTAGE_RETRY_MS, remaining_after_waiting: ask.capacity };
        let (wait, quota) = (fits_ever.then_some(wait), quota(0, OUTAGE_RETRY_MS));
        Ok(Decision::Rejected(Rejected { wait, quota, source: Source::Policy }))
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
