//! The handle: an open store, what is open on it, and what runs in the background.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use crate::bounds::Cost;
use crate::error::{Error, Result};
use crate::key::{Key, Name};
use crate::limit::{self, Algorithm, AllCharge, AllDecision, Limit, LimitOptions, Release};
use crate::metrics::Metrics;
use crate::reaper::{Progress, Reaper, ReaperMetrics, Rhythm};
use crate::registry::{OpenPart, Registries, Registry};
use crate::run::{DEFAULT_FAMILY, Quota, QuotaOptions, Quotas};
use crate::store::declarer::{Declarer, DeclarerTask};
use crate::store::metrics::StoreMetrics;
use crate::store::{self, Declaration, DeclaredSettings, Differences, Part, Store, StoreOptions};

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
    store_metrics: StoreMetrics,
    limits: Arc<Limits>,
    /// All other parts.
    spaces: Registries,
    quotas: Quotas,
    /// A store in this process has nobody to agree with.
    declarer: Option<Arc<Declarer>>,
}

/// The limits that are open.
#[derive(Debug, Default)]
struct Limits {
    by_name: Registry<Limit>,
    /// Those of quotas of other families than the default one, which all have the same names.
    of_families: Mutex<Vec<Limit>>,
}

impl Limits {
    /// All of them, each with what it is called in metrics.
    fn all(&self) -> Vec<(String, Limit)> {
        let by_name = self.by_name.all().into_iter().map(|limit| (limit.name().as_str().to_owned(), limit));
        let of_families = self.of_families.lock().clone().into_iter();
        let of_families =
            of_families.map(|limit| (format!("{}:{}", limit.prefix(), limit.name().as_str()), limit));
        by_name.chain(of_families).collect()
    }
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

/// For how long anything of a quota counts.
const HOUR: Duration = Duration::from_secs(3600);

/// Markers live for months; once an hour keeps them so.
const RENEW: Rhythm = Rhythm { interval: Duration::from_secs(3600), batch: NonZeroUsize::MIN };

impl Inner {
    fn declares_strictly(&self) -> bool {
        self.store.on_redis().is_some_and(|store| store.declarations() == store::Declarations::Strict)
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
        let (metrics, store_metrics) = (Metrics::default(), store.metrics());
        let limits = Arc::<Limits>::default();
        metrics.read({
            let (limits, store) = (limits.clone(), store.clone());
            move |reading| {
                limits.all().iter().for_each(|(name, limit)| limit::metrics::read(name, limit, reading));
                let help = "Partitions whose server is away";
                reading.gauge("tidegate_store_partitions_away", help, &[], store.away());
            }
        });
        let sweeping = ReaperMetrics::new(&metrics, "limit");
        let mut reapers = vec![Reaper::of(&limits, SWEEP, sweeping, async |limits, batch| {
            let swept = limits.all().into_iter().map(|(_, limit)| limit.sweep(batch));
            let nothing = Progress { items: 0, is_more: false };
            Ok(swept.fold(nothing, |sum, swept| Progress {
                items: sum.items + swept.dropped,
                is_more: sum.is_more || swept.looked_at == batch,
            }))
        })];
        if let Some(store) = store.on_redis()
            && !store.is_read_only()
        {
            let renewing = ReaperMetrics::new(&metrics, "marker");
            reapers.push(Reaper::of(store, RENEW, renewing, async |store, _| {
                store.renew_markers().await.map(|()| Progress { items: 0, is_more: false })
            }));
        }
        let declarer = store
            .on_redis()
            .map(|redis| Arc::new(Declarer::new(redis.clone(), redis.declarations(), metrics.clone())));
        let declaring = Mutex::new(declarer.as_ref().and_then(Declarer::start));
        let (spaces, quotas) = (Registries::default(), Quotas::default());
        let inner = Inner { store, metrics, store_metrics, limits, spaces, quotas, declarer };
        let background = Background { reapers: Mutex::new(reapers), declaring };
        Self { inner: Arc::new(inner), background: Arc::new(background) }
    }

    /// The limit called `name`. Asked again with the same numbers and options it
    /// is the same limit; with others it is an error.
    pub fn limit(&self, name: &str, algorithm: impl Into<Algorithm>, options: LimitOptions) -> Result<Limit> {
        self.open_part(&self.inner.limits.by_name, name, &(algorithm.into(), options))
    }

    /// The space called `name`, of any kind: what the kind calls it is in its own folder.
    pub(crate) fn open_space<P: OpenPart>(&self, name: &str, options: &P::Options) -> Result<P> {
        self.open_part(&self.inner.spaces.of(), name, options)
    }

    /// The part called `name`: looked after from when it is first opened, and declared.
    fn open_part<P: OpenPart>(&self, parts: &Registry<P>, name: &str, options: &P::Options) -> Result<P> {
        let Inner { store, metrics, declarer, .. } = &*self.inner;
        let part = parts.open(Name::new(name)?, options, |name| {
            let part = P::open(store, name, options, metrics)?;
            if !store.is_read_only() {
                self.background.reapers.lock().extend(part.reapers(metrics));
            }
            if let Some(declarer) = declarer {
                let ((declared, counts_for), open) = (part.declared(), part.clone());
                declarer.add(declared, counts_for, move |others| open.respect(others));
            }
            Ok(part)
        })?;
        Ok(part.with(&self.background))
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

    /// Charges `key` under several limits of one store, or under none, by the caller's own `id`: sent twice it charges
    /// once, and [`release_all`](Self::release_all) gives it back. In one atomic step, one round trip.
    ///
    /// The id is remembered by each of the limits, as that of a reservation that was committed: for the longest of
    /// their windows, and for an hour at least, within `max_reservations`. With another cost, or with other limits, it is
    /// an error. Needs sliding or calendar limits. While the store is away it is an error, whatever the policies of the
    /// limits are: sent again later, with the same id, it is charged once.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> tidegate::Result<()> {
    /// use std::time::Duration;
    /// use tidegate::limit::{AllCharge, Calendar, LimitOptions, Period, Sliding};
    /// use tidegate::{Cost, Key, Tidegate};
    /// let gate = Tidegate::open("memory:").await?;
    /// let sliding = Sliding::new("2/s".parse()?, Duration::from_secs(10))?;
    /// let burst = gate.limit("burst", sliding, LimitOptions::default())?;
    /// let day = gate.limit("day", Calendar::new(5000, Period::Day)?, LimitOptions::default())?;
    /// let user = Key::new("user_123")?;
    /// let both = [(&burst, Cost::new(3)?), (&day, Cost::new(3)?)];
    /// for is_first in [true, false] {
    ///     let charged = gate.charge_all(user, &both, "order-17").await?;
    ///     assert!(matches!(charged, AllCharge::Charged { is_new, .. } if is_new == is_first));
    /// }
    /// assert_eq!(day.peek(user).await?.quota().remaining, 4997);
    /// gate.release_all(user, &[&burst, &day], "order-17").await?;
    /// assert_eq!(day.peek(user).await?.quota().remaining, 5000);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn charge_all(&self, key: Key<'_>, limits: &[(&Limit, Cost)], id: &str) -> Result<AllCharge> {
        limit::charge_all(key, limits, Some(id)).await
    }

    /// Gives back what [`charge_all`](Self::charge_all) has charged by `id`, as far as it still counts. Sent twice it
    /// is given back once.
    pub async fn release_all(&self, key: Key<'_>, limits: &[&Limit], id: &str) -> Result<Release> {
        limit::release_all(key, limits, id).await
    }

    /// The quota of the family of runs whose keys start with [`prefix`](QuotaOptions::prefix). Asked again with the
    /// same options it is the same quota; with others it is an error.
    pub fn quota(&self, options: QuotaOptions) -> Result<Quota> {
        let limit = |name: &str, algorithm, options| self.limit_of(name, algorithm, options);
        self.inner.quotas.open(options, limit, |quota| {
            if let Some(declarer) = &self.inner.declarer {
                // Nobody deletes anything that counts for others: an hour is an hour to all of them.
                declarer.add(quota, HOUR, |_| ());
            }
        })
    }

    /// A limit of a family of runs. Limits are found by their names, so only those of the default family are open to
    /// everybody, and declared; one that is open with the same name and prefix is the same, whatever else was set of it.
    fn limit_of(&self, name: &str, algorithm: Algorithm, mut options: LimitOptions) -> Result<Limit> {
        let prefix = options.prefix.clone().unwrap_or_default();
        let is_it = |limit: &Limit| limit.name().as_str() == name && limit.prefix() == prefix;
        if let Some((_, open)) = self.inner.limits.all().into_iter().find(|(_, limit)| is_it(limit)) {
            if *open.algorithm() != algorithm {
                return Err(Error::invalid(format!(
                    "the limit {name:?} with the prefix {prefix:?} is open with other numbers than the quota has"
                )));
            }
            return Ok(open.with(&self.background));
        }
        if prefix != DEFAULT_FAMILY {
            let Inner { store, metrics, limits, .. } = &*self.inner;
            let limit = Limit::open(store, Name::new(name)?, &(algorithm, options), metrics)?;
            limits.of_families.lock().push(limit.clone());
            return Ok(limit.with(&self.background));
        }
        if prefix == algorithm.prefix() {
            // As it is opened by whoever does not care.
            options.prefix = None;
        }
        self.limit(name, algorithm, options)
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

    /// Puts all metrics into a registry of the caller's, those of parts that are opened later
    /// among them.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> tidegate::Result<()> {
    /// use prometheus_client::{encoding::text, registry::Registry};
    /// use tidegate::{Tidegate, hot::HotOptions};
    ///
    /// let gate = Tidegate::open("memory:").await?;
    /// let mut registry = Registry::default();
    /// gate.register_metrics(&mut registry);
    /// gate.hot("main", HotOptions::new())?;
    ///
    /// let mut metrics = String::new();
    /// text::encode(&mut metrics, &registry).expect("a string can be written to");
    /// assert!(metrics.contains(r#"hot_pages_promoted_total{space="main"} 0"#));
    /// # Ok(())
    /// # }
    /// ```
    #[cfg(feature = "metrics")]
    pub fn register_metrics(&self, registry: &mut prometheus_client::registry::Registry) {
        self.inner.metrics.register(registry);
        self.inner.store_metrics.all.register(registry);
    }

    /// All metrics as text, in the format that Prometheus reads.
    #[cfg(feature = "metrics")]
    pub fn metrics(&self) -> String {
        let mut registry = prometheus_client::registry::Registry::default();
        self.register_metrics(&mut registry);
        let mut text = String::new();
        // Writing to a String cannot fail.
        let _ = prometheus_client::encoding::text::encode(&mut text, &registry);
        text
    }

    /// Returns what limits hold by lease, and stops the background loops, each after
    /// the batch it is in.
    pub async fn shutdown(&self) {
        for (_, limit) in self.inner.limits.all() {
            limit.end_leases().await;
        }
        drop(self.background.declaring.lock().take());
        let reapers: Vec<_> = self.background.reapers.lock().drain(..).collect();
        for reaper in reapers {
            reaper.stop().await;
        }
    }
}
