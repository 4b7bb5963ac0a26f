//! Short-lived state of a service inside hard bounds of time and memory.
//!
//! One [`Tidegate`] opens one store, in this process or on Redis, Valkey or
//! their Cluster, and hands out parts that answer alike on each: [`limit`], [`hot`] and
//! [`session`].
//!
//! Where to look:
//! - [`limit`]: rate limits.
//! - [`hot`]: which pages are hot right now.
//! - [`session`]: who is connected, and what was left behind.
//! - [`store`]: where state is kept; deadlines, scripts, partitions.
//! - [`outage`]: what is answered while the store is away.
//! - [`clock`], [`random`]: time and chance, and how a test sets them.
//! - [`bounds`], [`key`], [`error`]: numbers, names, errors.
//!
//! This crate knows nothing of configuration files or of a command line, and of HTTP
//! only what a decision is told by: `limit::headers`, and with the feature `tower` a
//! layer.

pub mod bounds;
pub mod clock;
pub mod error;
pub mod hot;
pub mod key;
pub mod limit;
mod metrics;
pub mod outage;
pub mod random;
mod ranges;
mod reaper;
pub mod session;
pub mod store;
#[cfg(feature = "testkit")]
pub mod testkit;

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

pub use crate::bounds::{Cost, Rate, Window};
pub use crate::error::{Error, ErrorKind, Result};
use crate::hot::{Hot, HotOptions};
pub use crate::key::{Key, Name};
use crate::limit::{Algorithm, AllDecision, Limit, LimitOptions};
use crate::metrics::{Metrics, StoreMetrics};
pub use crate::outage::{AfterLoss, ClosedStatus, Outage, OutageReason, Share};
use crate::reaper::{Progress, Reaper, Rhythm};
use crate::session::{SessionOptions, Sessions};
use crate::store::declarer::{Declarer, DeclarerTask};
use crate::store::{Declaration, DeclaredSettings, Differences, Part, Store, StoreOptions};

/// The kinds of parts there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum PartKind {
    /// A limit.
    Limit,
    /// A space of hot pages.
    Hot,
    /// A space of sessions.
    Sessions,
}

impl PartKind {
    pub(crate) const ALL: [Self; 3] = [Self::Limit, Self::Hot, Self::Sessions];

    /// The word for it in declarations and metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Limit => "limit",
            Self::Hot => "hot",
            Self::Sessions => "sessions",
        }
    }
}

/// An open store with its parts. Clones share it.
#[derive(Debug, Clone)]
pub struct Tidegate {
    inner: Arc<Inner>,
    background: Arc<Background>,
}

#[derive(Debug)]
struct Inner {
    store: Store,
    metrics: Metrics,
    limits: Arc<Mutex<BTreeMap<Name, Limit>>>,
    /// By what the store calls them, as are the next.
    spaces: Mutex<BTreeMap<String, Hot>>,
    sessions: Mutex<BTreeMap<String, Sessions>>,
    /// A store in this process has nobody to agree with.
    declarer: Option<Arc<Declarer>>,
}

/// What runs in the background, for as long as somebody holds the store or a
/// part of it.
#[derive(Debug)]
pub(crate) struct Background {
    reapers: Mutex<Vec<Reaper>>,
    declaring: Mutex<Option<DeclarerTask>>,
}

/// Idle keys are looked for every second, a thousand at a time.
const SWEEP: Rhythm = Rhythm { interval: Duration::from_secs(1), batch: NonZeroUsize::new(1000).unwrap() };

/// Hot pages are looked after a hundred at a time.
const CLEANED: NonZeroUsize = NonZeroUsize::new(100).unwrap();

/// How often it is interval at least whether sessions are to be compared with their index.
const RECONCILE: Duration = Duration::from_secs(600);

/// Markers live for months; once an hour keeps them so.
const RENEW: Rhythm = Rhythm { interval: Duration::from_secs(3600), batch: NonZeroUsize::MIN };

impl Inner {
    fn declares_strictly(&self) -> bool {
        matches!(&self.store, Store::Redis(store) if store.declarations() == store::Declarations::Strict)
    }
}

impl Tidegate {
    /// Opens the store at `url`, see [`Store::open`].
    pub async fn open(url: &str) -> Result<Self> {
        Ok(Self::on(Store::open(url).await?))
    }

    /// The same, with options.
    pub async fn open_with(url: &str, options: StoreOptions) -> Result<Self> {
        Ok(Self::on(Store::open_with(url, &options).await?))
    }

    /// On a store that is open already. Needs a tokio runtime.
    pub fn on(store: Store) -> Self {
        let metrics = Metrics::new(match &store {
            Store::Memory(..) => StoreMetrics::default(),
            Store::Redis(store) => store.metrics().clone(),
        });
        let limits = Arc::<Mutex<BTreeMap<Name, Limit>>>::default();
        let mut reapers = vec![Reaper::start(SWEEP, metrics.reaper("limit"), {
            let limits = limits.clone();
            move |batch| {
                let limits: Vec<_> = limits.lock().values().cloned().collect();
                let swept = limits.iter().map(|limit| limit.sweep(batch));
                let nothing = Progress { items: 0, is_more: false };
                std::future::ready(Ok(swept.fold(nothing, |sum, swept| Progress {
                    items: sum.items + swept.dropped,
                    is_more: sum.is_more || swept.looked_at == batch,
                })))
            }
        })];
        if let Store::Redis(store) = &store
            && !store.is_read_only()
        {
            let store = store.clone();
            reapers.push(Reaper::start(RENEW, metrics.reaper("marker"), move |_| {
                let store = store.clone();
                async move { store.renew_markers().await.map(|()| Progress { items: 0, is_more: false }) }
            }));
        }
        let declarer = match &store {
            Store::Memory(..) => None,
            Store::Redis(store) => {
                let (policy, metrics) = (store.declarations(), metrics.declarations.clone());
                Some(Arc::new(Declarer::new(store.clone(), policy, metrics)))
            }
        };
        let declaring = Mutex::new(declarer.as_ref().and_then(Declarer::start));
        let (spaces, sessions) = (Mutex::default(), Mutex::default());
        let inner = Inner { store, metrics, limits, spaces, sessions, declarer };
        let background = Background { reapers: Mutex::new(reapers), declaring };
        Self { inner: Arc::new(inner), background: Arc::new(background) }
    }

    /// The limit called `name`. Asked again with the same numbers and options it
    /// is the same limit; with others it is an error.
    pub fn limit(&self, name: &str, algorithm: impl Into<Algorithm>, options: LimitOptions) -> Result<Limit> {
        let (name, algorithm) = (Name::new(name)?, algorithm.into());
        let mut limits = self.inner.limits.lock();
        if let Some(limit) = limits.get(&name) {
            if *limit.algorithm() != algorithm || *limit.options() != options {
                return Err(Error::invalid(format!(
                    "there is a limit {:?} with other numbers or options already",
                    name.as_str()
                )));
            }
            return Ok(limit.with(&self.background));
        }
        let limit = Limit::new(&self.inner.store, name.clone(), algorithm, &options)?;
        self.inner.metrics.add_limit(limit.clone());
        if let Some(declarer) = &self.inner.declarer {
            let counts_for = Duration::from_secs(algorithm.window_size_seconds());
            let open = limit.clone();
            declarer.add(options.declared(&name, &algorithm), counts_for, move |others| open.respect(others));
        }
        limits.insert(name, limit.clone());
        Ok(limit.with(&self.background))
    }

    /// The space of hot pages called `name`. Asked again with the same options it is
    /// the same space; with others it is an error. [`DEFAULT_SPACE`](store::DEFAULT_SPACE)
    /// and `pages` are two names of one space: that whose keys have no name in them.
    pub fn hot(&self, name: &str, options: HotOptions) -> Result<Hot> {
        let name = Name::new(name)?;
        let stored = PartKind::Hot.stored_name(name.as_str()).to_owned();
        let mut spaces = self.inner.spaces.lock();
        if let Some(hot) = spaces.get(&stored) {
            if *hot.options() != options {
                return Err(Error::invalid(format!(
                    "there is a space {:?} with other options already",
                    hot.space().as_str()
                )));
            }
            return Ok(hot.with(&self.background));
        }
        let metrics = self.inner.metrics.hot(name.as_str());
        let hot = Hot::new(&self.inner.store, name.clone(), &options, metrics)?;
        let rhythm = Rhythm { interval: options.cleanup_interval, batch: CLEANED };
        let reaper = Reaper::start(rhythm, self.inner.metrics.reaper("hot").in_space(name.as_str()), {
            let hot = hot.clone();
            move |batch| {
                let hot = hot.clone();
                async move { hot.reap(batch).await }
            }
        });
        self.background.reapers.lock().push(reaper);
        if let Some(declarer) = &self.inner.declarer {
            let open = hot.clone();
            let respect = move |others: &[_]| open.respect(others);
            declarer.add(options.declared(&name), options.window_duration, respect);
        }
        spaces.insert(stored, hot.clone());
        Ok(hot.with(&self.background))
    }

    /// The space of sessions called `name`. Asked again with the same options it is the
    /// same space; with others it is an error. [`DEFAULT_SPACE`](store::DEFAULT_SPACE)
    /// and `sessions` are two names of one space: that whose keys have no name in them.
    pub fn sessions(&self, name: &str, options: SessionOptions) -> Result<Sessions> {
        let name = Name::new(name)?;
        let stored = PartKind::Sessions.stored_name(name.as_str()).to_owned();
        let mut spaces = self.inner.sessions.lock();
        if let Some(sessions) = spaces.get(&stored) {
            if *sessions.options() != options {
                return Err(Error::invalid(format!(
                    "there is a space {:?} with other options already",
                    sessions.space().as_str()
                )));
            }
            return Ok(sessions.with(&self.background));
        }
        let metrics = self.inner.metrics.sessions(name.as_str());
        let sessions = Sessions::new(&self.inner.store, name.clone(), &options, metrics)?;
        if self.inner.store.is_read_only() {
            spaces.insert(stored, sessions.clone());
            return Ok(sessions.with(&self.background));
        }
        let batch = NonZeroUsize::new(options.batch).unwrap_or(NonZeroUsize::MIN);
        let rhythm = Rhythm { interval: options.cleanup_interval, batch };
        let reaper = Reaper::start(rhythm, self.inner.metrics.reaper("session").in_space(name.as_str()), {
            let sessions = sessions.clone();
            move |batch| {
                let sessions = sessions.clone();
                async move { sessions.run(batch).await }
            }
        });
        // Often enough that it is not late by more than a fraction of its interval.
        let interval = RECONCILE.min(options.reconcile_interval / 20);
        let rhythm = Rhythm { interval, batch: NonZeroUsize::MIN };
        let metrics = self.inner.metrics.reaper("session_reconcile").in_space(name.as_str());
        let reconciler = Reaper::start(rhythm, metrics, {
            let sessions = sessions.clone();
            move |_| {
                let sessions = sessions.clone();
                async move { sessions.reconcile_due().await }
            }
        });
        let rhythm = Rhythm { interval: sessions.stamp_interval(), batch: NonZeroUsize::MIN };
        let stamper = Reaper::start(rhythm, self.inner.metrics.reaper("session_stamp"), {
            let sessions = sessions.clone();
            move |_| {
                let sessions = sessions.clone();
                async move { sessions.keep_stamped().await }
            }
        });
        self.background.reapers.lock().extend([reaper, reconciler, stamper]);
        if let Some(declarer) = &self.inner.declarer {
            declarer.add(options.declared(&name), options.grace + options.holder_lease, |_| {});
        }
        spaces.insert(stored, sessions.clone());
        Ok(sessions.with(&self.background))
    }

    /// Charges `key` under several limits of this store, or under none: in one
    /// atomic step, one round trip.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> tidegate::Result<()> {
    /// use std::time::Duration;
    /// use tidegate::{Cost, Key, Tidegate, limit::{Calendar, LimitOptions, Period, Sliding}};
    /// let gate = Tidegate::open("memory:").await?;
    /// let sliding = Sliding::new("2/s".parse()?, Duration::from_secs(1))?;
    /// let burst = gate.limit("burst", sliding, LimitOptions::default())?;
    /// let day = gate.limit("day", Calendar::new(5000, Period::Day)?, LimitOptions::default())?;
    /// let user = Key::new("user_123")?;
    /// let both = [(&burst, Cost::ONE), (&day, Cost::ONE)];
    /// assert!(gate.take_all(user, &both).await?.is_admitted());
    /// assert!(gate.take_all(user, &both).await?.is_admitted());
    /// let third = gate.take_all(user, &both).await?;
    /// assert_eq!(third.refused_by().map(|name| name.as_str()), Some("burst"));
    /// assert_eq!(day.peek(user).await?.quota().remaining, 4998);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn take_all(&self, key: Key<'_>, limits: &[(&Limit, Cost)]) -> Result<AllDecision> {
        limit::take_all(&self.inner.store, key, limits).await
    }

    /// Declares in the store what is open, and what it is, now. It is done in the background
    /// anyway, without waiting for it.
    ///
    /// With [`Declarations::Strict`](store::Declarations::Strict) a part that is declared with
    /// other settings is an error. A store in this process has nothing to declare.
    pub async fn declare(&self) -> Result<()> {
        let Some(declarer) = &self.inner.declarer else { return Ok(()) };
        declarer.declare().await?;
        if self.inner.declares_strictly()
            && let Some((part, declared)) = declarer.differing().into_iter().next()
        {
            let differences = Differences { declared: &declared, own: &part.settings };
            return Err(Error::config(format!(
                "{} {:?} is declared with other settings: {differences}",
                part.kind.as_str(),
                part.name.as_str()
            )));
        }
        Ok(())
    }

    /// What is declared in the store, and by whom; nothing in a store in this process.
    pub async fn declarations(&self) -> Result<Vec<Declaration>> {
        match &self.inner.declarer {
            Some(declarer) => declarer.list(None).await,
            None => Ok(Vec::new()),
        }
    }

    /// What is open here with other settings than the store declares, as far as it is known
    /// since [`declare`](Self::declare) was last called or the background has looked; and the
    /// declared ones.
    pub fn differing(&self) -> Vec<(Part, DeclaredSettings)> {
        self.inner.declarer.as_ref().map(|declarer| declarer.differing()).unwrap_or_default()
    }

    /// Declares `part`, open or not, whatever was declared of it before; what that was.
    pub async fn replace_declaration(&self, part: &Part) -> Result<Option<Declaration>> {
        match &self.inner.declarer {
            Some(declarer) => declarer.replace(part).await,
            None => Ok(None),
        }
    }

    /// The store.
    pub fn store(&self) -> &Store {
        &self.inner.store
    }

    /// All metrics as text, in the format that Prometheus reads.
    pub fn metrics(&self) -> String {
        if let Store::Redis(store) = &self.inner.store {
            self.inner.metrics.store.partitions_away.set(store.away() as i64);
        }
        self.inner.metrics.encode()
    }

    /// Adds metrics of the caller's to those of [`metrics`](Self::metrics).
    pub fn register_metrics(&self, register: impl FnOnce(&mut prometheus_client::registry::Registry)) {
        self.inner.metrics.register(register);
    }

    /// Returns what limits hold by lease, and stops the background loops, each after
    /// the batch it is in.
    pub async fn shutdown(&self) {
        let limits: Vec<_> = self.inner.limits.lock().values().cloned().collect();
        for limit in limits {
            limit.end_leases().await;
        }
        drop(self.background.declaring.lock().take());
        let reapers: Vec<_> = self.background.reapers.lock().drain(..).collect();
        for reaper in reapers {
            reaper.stop().await;
        }
    }
}

/// The examples of the guide and the README are tests.
#[cfg(doctest)]
mod pages {
    #[doc = include_str!("../../../README.md")]
    struct Readme;
    #[doc = include_str!("../../../docs/guide.md")]
    struct Guide;
}
