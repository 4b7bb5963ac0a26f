//! A limit on a store: the same calls wherever that is.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::algorithm::{Algorithm, Request};
use super::decision::{Decision, Source};
use super::lease::{Leases, Taken};
#[cfg(doc)]
use super::listing::MAX_PAGE;
use super::listing::{Cursor, KeyOverride, KeyReservation, Page};
use super::memory::InProcess;
use super::options::LimitOptions;
use super::overrides::Override;
use super::receipt::{Receipt, ReceiptText};
use super::redis::{Hold, OnRedis};
use super::reservation::{Reservation, Reserve, Settle};
use super::tally::TallyBySource;
use crate::Background;
use crate::bounds::{Cost, Rate};
use crate::error::Result;
use crate::key::{Key, Name, check_prefix};
use crate::log;
use crate::metrics::Metrics;
use crate::outage::{AfterLoss, Outage, Share};
use crate::random::Random;
use crate::registry::OpenPart;
use crate::store::memory::Swept;
use crate::store::redis::PartPolicy;
use crate::store::{self, DeclaredSettings, MemoryStore, Part, PartKind, Store};

/// A named limit on a store. Clones share it.
#[derive(Debug, Clone)]
pub struct Limit {
    pub(super) core: Arc<Core>,
    /// What runs in the background for it, for as long as somebody holds it.
    _background: Option<Arc<Background>>,
}

#[derive(Debug)]
pub(super) struct Core {
    name: Name,
    pub(super) algorithm: Algorithm,
    pub(super) options: LimitOptions,
    pub(super) backend: Backend,
    /// What this node holds of it.
    leases: Option<Arc<Leases>>,
    /// Decides during an outage, under that policy.
    pub(super) local: Option<(Share, InProcess)>,
    random: Random,
    pub(super) tallies: TallyBySource,
}

#[derive(Debug)]
pub(super) enum Backend {
    Memory(InProcess),
    Redis(Arc<OnRedis>),
}

impl OpenPart for Limit {
    const KIND: PartKind = PartKind::Limit;
    const TOLD_APART_BY: &str = "numbers or options";
    type Options = (Algorithm, LimitOptions);

    fn open(store: &Store, name: Name, options: &Self::Options, _: &Metrics) -> Result<Self> {
        Self::new(store, name, options.0, &options.1)
    }

    fn part_name(&self) -> &Name {
        self.name()
    }

    fn has(&self, (algorithm, options): &Self::Options) -> bool {
        self.algorithm() == algorithm && self.options() == options
    }

    fn declared(&self) -> (Part, Duration) {
        let Core { name, algorithm, options, .. } = &*self.core;
        (options.declared(name, algorithm), Duration::from_secs(algorithm.window_size_seconds()))
    }

    fn respect(&self, others: &[DeclaredSettings]) {
        if let Backend::Redis(limit) = &self.core.backend {
            limit.respect(others);
        }
    }

    fn with(&self, background: &Arc<Background>) -> Self {
        Self { core: self.core.clone(), _background: Some(background.clone()) }
    }
}

impl Limit {
    fn new(store: &Store, name: Name, algorithm: Algorithm, options: &LimitOptions) -> Result<Self> {
        options.check()?;
        let prefix = Key::new(options.prefix.as_deref().unwrap_or(algorithm.prefix()))?;
        check_prefix(prefix.as_str())?;
        let (backend, clock, random) = match store.backend() {
            store::Backend::Memory(MemoryStore { clock, random, .. }) => {
                let limit = InProcess::checked(algorithm, options, clock.clone(), random.clone());
                (Backend::Memory(limit), clock.clone(), random.clone())
            }
            store::Backend::Redis(store) => {
                let longer = match options.lease {
                    Some(lease) => lease.longest(&algorithm)?,
                    None => Duration::ZERO,
                };
                let hold = Hold((options.after_loss == AfterLoss::Hold).then_some(longer));
                store.declare_policy(PartPolicy {
                    name: format!("limit {}", name.as_str()),
                    outage: options.outage.as_str(),
                    hold: hold.0.map(|longer| longer + Duration::from_secs(algorithm.window_size_seconds())),
                });
                let on_redis = OnRedis::new(store.clone(), &name, prefix, algorithm, hold);
                (Backend::Redis(Arc::new(on_redis)), store.clock().clone(), store.random().clone())
            }
        };
        let local = match (options.outage, &backend) {
            (Outage::Local(share), Backend::Redis(_)) => {
                let local =
                    algorithm.share(share).filter(|_| algorithm.share_of(algorithm.terms(), share).is_some());
                if local.is_none() {
                    log::warn!(
                        limit = name.as_str(),
                        capacity = algorithm.capacity(),
                        "the local share of this limit is less than one permit: while the store is away it \
                         refuses everything"
                    );
                }
                local.map(|local| (share, InProcess::checked(local, options, clock, random.clone())))
            }
            _ => None,
        };
        let leases = match (options.lease, &backend) {
            (Some(lease), Backend::Redis(store)) => {
                Leases::new(lease, algorithm, store.clone(), random.clone())?
            }
            _ => None,
        };
        let (options, tallies) = (options.clone(), TallyBySource::default());
        let core = Core { name, algorithm, options, backend, leases, local, random, tallies };
        Ok(Self { core: Arc::new(core), _background: None })
    }

    /// The name.
    pub fn name(&self) -> &Name {
        &self.core.name
    }

    /// What it counts by.
    pub fn algorithm(&self) -> &Algorithm {
        &self.core.algorithm
    }

    /// What it does beside counting.
    pub fn options(&self) -> &LimitOptions {
        &self.core.options
    }

    /// What its keys on Redis start with.
    pub(crate) fn prefix(&self) -> &str {
        self.core.options.prefix.as_deref().unwrap_or(self.core.algorithm.prefix())
    }

    /// Charges `cost` to `key` if it fits.
    pub async fn take(&self, key: Key<'_>, cost: Cost) -> Result<Decision> {
        match &self.core.backend {
            // Counts for itself, under its own locks.
            Backend::Memory(limit) => limit.take(key, cost),
            Backend::Redis(limit) => {
                if let Some(leases) = &self.core.leases {
                    if let Some(decision) = leases.try_take(key, cost.get()) {
                        return Ok(decision);
                    }
                    match leases.take(key, cost.get()).await {
                        Taken::Decided(decision) => return Ok(decision),
                        Taken::NotLeased => {}
                        Taken::Failed(error) => return Err(error),
                        Taken::Away => {
                            let decision = self.without_the_store(key, self.plain(cost));
                            self.core.tallies.count(decision.is_admitted(), decision.source());
                            return Ok(decision);
                        }
                    }
                }
                self.decide(limit, key, self.plain(cost)).await
            }
        }
    }

    /// The same against `rate` instead of the configured one; a later
    /// [`peek`](Self::peek) judges by it too, until a plain take, be it refused.
    pub async fn take_with(&self, key: Key<'_>, rate: Rate, cost: Cost) -> Result<Decision> {
        match &self.core.backend {
            Backend::Memory(limit) => limit.take_with(key, rate, cost),
            Backend::Redis(limit) => {
                let terms = self.core.algorithm.terms_of(rate)?;
                self.decide(limit, key, Request { terms, remember: true, ..self.plain(cost) }).await
            }
        }
    }

    /// A request by the configured terms.
    pub(super) fn plain(&self, cost: Cost) -> Request {
        let Core { algorithm, random, .. } = &*self.core;
        let draw = if algorithm.draws() { random.draw() } else { 0.0 };
        Request { cost: cost.get(), terms: algorithm.terms(), remember: false, draw }
    }

    async fn decide(&self, limit: &OnRedis, key: Key<'_>, request: Request) -> Result<Decision> {
        let decision = match limit.take(key, request).await {
            Err(error) if error.is_transient() => self.without_the_store(key, request),
            decision => decision?,
        };
        self.core.tallies.count(decision.is_admitted(), decision.source());
        Ok(decision)
    }

    /// What the next take of one permit would be told; charges nothing.
    pub async fn peek(&self, key: Key<'_>) -> Result<Decision> {
        self.peek_for(key, Cost::ONE).await
    }

    /// What the next take of `cost` would be told; charges nothing.
    pub async fn peek_for(&self, key: Key<'_>, cost: Cost) -> Result<Decision> {
        match &self.core.backend {
            Backend::Memory(limit) => limit.peek_for(key, cost),
            Backend::Redis(limit) => match limit.peek(key, cost).await {
                Err(error) if error.is_transient() => {
                    let (cost, terms) = (cost.get(), self.core.algorithm.terms());
                    let request = Request { cost, terms, remember: false, draw: 0.0 };
                    match self.local_share(request) {
                        Some((local, request)) => Ok(local.peek_by(key, request).decided_by(Source::Local)),
                        None => Ok(self.without_the_store(key, request)),
                    }
                }
                decision => decision,
            },
        }
    }

    /// Judges `key` by `rate` instead of the limit's own for a while: on every node
    /// that shares the store.
    pub async fn set_override(&self, key: Key<'_>, rate: Rate, lasting: Duration) -> Result<Override> {
        match &self.core.backend {
            Backend::Memory(limit) => limit.set_override(key, rate, lasting),
            Backend::Redis(limit) => {
                let set = limit.set_override(key, Override::new(rate, lasting)?).await;
                self.refresh(key);
                set
            }
        }
    }

    /// The override of `key`, with what it has left.
    pub async fn get_override(&self, key: Key<'_>) -> Result<Option<Override>> {
        match &self.core.backend {
            Backend::Memory(limit) => limit.get_override(key),
            Backend::Redis(limit) => limit.get_override(key).await,
        }
    }

    /// Ends the override of `key`.
    pub async fn clear_override(&self, key: Key<'_>) -> Result<()> {
        match &self.core.backend {
            Backend::Memory(limit) => limit.clear_override(key),
            Backend::Redis(limit) => {
                let cleared = limit.clear_override(key).await;
                self.refresh(key);
                cleared
            }
        }
    }

    /// The overrides of all keys, the first to end first: up to `limit` of them, at most
    /// [`MAX_PAGE`], from behind `after` on.
    pub async fn overrides(&self, after: Option<&Cursor>, limit: usize) -> Result<Page<KeyOverride>> {
        match &self.core.backend {
            Backend::Memory(in_process) => in_process.overrides(after, limit),
            Backend::Redis(on_redis) => on_redis.overrides(after, limit).await,
        }
    }

    /// The pending reservations of all keys, the first to reach its deadline first: up to
    /// `limit` of them, at most [`MAX_PAGE`], from behind `after` on.
    pub async fn reservations(&self, after: Option<&Cursor>, limit: usize) -> Result<Page<KeyReservation>> {
        match &self.core.backend {
            Backend::Memory(in_process) => in_process.reservations(after, limit),
            Backend::Redis(on_redis) => on_redis.reservations(after, limit).await,
        }
    }

    /// Holds `cost` for `key` under the caller's own `id`, to be
    /// [committed](Self::commit) or [released](Self::release) within `lasting`, which
    /// is at most a window. Sent twice it is held once; the same id with another cost
    /// is an error. Needs a sliding or a calendar limit.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> tidegate::Result<()> {
    /// # use std::time::Duration;
    /// # use tidegate::{Cost, Key, Tidegate, limit::{LimitOptions, ReservationState, Reserve, Sliding}};
    /// # let gate = Tidegate::open("memory:").await?;
    /// # let sliding = Sliding::new("5/s".parse()?, Duration::from_secs(60))?;
    /// # let limit = gate.limit("api", sliding, LimitOptions::default())?;
    /// let (user, half_a_minute) = (Key::new("user_123")?, Duration::from_secs(30));
    /// for _ in 0..2 {
    ///     let reserved = limit.reserve(user, "order-17", Cost::new(10)?, half_a_minute).await?;
    ///     assert!(matches!(reserved, Reserve::Held(_)));
    /// }
    /// assert_eq!(limit.peek(user).await?.quota().remaining, 290);
    /// let done = limit.commit(user, "order-17").await?.expect("it was reserved");
    /// assert_eq!(done.state, ReservationState::Committed);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn reserve(&self, key: Key<'_>, id: &str, cost: Cost, lasting: Duration) -> Result<Reserve> {
        match &self.core.backend {
            Backend::Memory(limit) => limit.reserve(key, id, cost, lasting),
            Backend::Redis(limit) => {
                let reserved = limit.reserve(key, id, cost, lasting, &self.core.options).await?;
                match &reserved {
                    Reserve::Held(held) if held.is_new => self.core.tallies.count(true, Source::Store),
                    Reserve::Held(_) | Reserve::Ended(_) => {}
                    Reserve::Refused(decision) => self.core.tallies.count(false, decision.source()),
                }
                Ok(reserved)
            }
        }
    }

    /// Spends what is held under `id`, as of now. None if there is no such
    /// reservation; see its state for whether it could be.
    pub async fn commit(&self, key: Key<'_>, id: &str) -> Result<Option<Reservation>> {
        self.settle(key, id, Settle::Commit).await
    }

    /// Gives back what is held under `id`.
    pub async fn release(&self, key: Key<'_>, id: &str) -> Result<Option<Reservation>> {
        self.settle(key, id, Settle::Release).await
    }

    /// The reservation under `id`, if it is remembered.
    pub async fn reservation(&self, key: Key<'_>, id: &str) -> Result<Option<Reservation>> {
        self.settle(key, id, Settle::See).await
    }

    async fn settle(&self, key: Key<'_>, id: &str, what: Settle) -> Result<Option<Reservation>> {
        match &self.core.backend {
            Backend::Memory(limit) => limit.settle(key, id, what),
            Backend::Redis(limit) => {
                let settled = limit.settle(key, id, what, &self.core.options).await;
                self.refresh(key);
                settled
            }
        }
    }

    /// Gives back the charge that `receipt` is for, once; how much that was.
    /// Nothing if the charge no longer counts, or was made to another key.
    pub async fn refund(&self, key: Key<'_>, receipt: Receipt) -> Result<u64> {
        match &self.core.backend {
            Backend::Memory(limit) => limit.refund(key, receipt),
            Backend::Redis(limit) => {
                let refunded = limit.refund(key, receipt).await;
                self.refresh(key);
                refunded
            }
        }
    }

    /// A receipt of `key` as text, to be read by [`read_receipt`](Self::read_receipt) of
    /// whoever shares the store. None if it is not of this key, or if this process has never
    /// reached the store's first partition, which knows what texts are checked by.
    pub fn receipt_text(&self, key: Key<'_>, receipt: Receipt) -> Option<ReceiptText> {
        match &self.core.backend {
            Backend::Memory(limit) => limit.receipt_text(key, receipt),
            Backend::Redis(limit) => limit.receipt_text(key, receipt),
        }
    }

    /// The receipt of `key` that a text is; an error if it is none, or was made up.
    pub fn read_receipt(&self, key: Key<'_>, text: &str) -> Result<Receipt> {
        match &self.core.backend {
            Backend::Memory(limit) => limit.read_receipt(key, text),
            Backend::Redis(limit) => limit.read_receipt(key, text),
        }
    }

    /// Forgets what `key` has used; receipts and reservations from before are void. What
    /// nodes hold by lease stays charged.
    pub async fn reset(&self, key: Key<'_>) -> Result<()> {
        match &self.core.backend {
            Backend::Memory(limit) => limit.reset(key),
            Backend::Redis(limit) => {
                let reset = limit.reset(key).await;
                self.refresh(key);
                reset
            }
        }
    }

    /// This node asks again for a key of which it knew that nothing was to be had.
    pub(super) fn refresh(&self, key: Key<'_>) {
        if let Some(leases) = &self.core.leases {
            leases.refresh(key);
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
            Backend::Memory(limit) => limit.tallies(),
            Backend::Redis(_) => {
                let leased = self.core.leases.as_ref().map(|it| it.tally()).unwrap_or_default();
                self.core.tallies.rows().chain(leased.rows(Source::Lease)).collect()
            }
        }
    }

    /// What became of leases, if there are any.
    pub(crate) fn lease_counts(&self) -> Option<LeaseCounts> {
        let leases = self.core.leases.as_ref()?;
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let counts = leases.counts();
        Some(LeaseCounts {
            leases: read(&counts.leases),
            granted: read(&counts.granted),
            returned: read(&counts.returned),
            size: read(&counts.size),
            held: leases.held(),
        })
    }

    /// Returns what this node holds.
    pub(crate) async fn end_leases(&self) {
        if let Some(leases) = &self.core.leases {
            leases.end().await;
        }
    }
}

/// What became of the leases of a limit.
pub(crate) struct LeaseCounts {
    pub(crate) leases: u64,
    pub(crate) granted: u64,
    pub(crate) returned: u64,
    pub(crate) size: u64,
    pub(crate) held: u64,
}
