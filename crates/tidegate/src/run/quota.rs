//! The quota of a family of runs: so many calls per hour, whoever makes them and however often they are sent.
//!
//! It stands on limits: what is enforced is what is shown, and the store's clock says which hour it is. The counter
//! of an hour of UTC is that of the calendar limit `rate_limit` without a subject, so whoever takes from that limit and
//! whoever charges the quota share it. A charge belongs to no attempt of a run: a call that was made is made.

mod metrics;
mod options;
mod types;

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;

use self::metrics::QuotaMetrics;
use self::options::{ALIGNED, SLIDING};
pub(crate) use self::options::{DEFAULT_FAMILY, LIMITS};
pub use self::options::{QuotaKind, QuotaOptions};
pub use self::types::{QuotaCharge, QuotaHour, QuotaRefusal, QuotaStatus, QuotaUse};
use crate::bounds::Cost;
use crate::error::{Error, Result};
use crate::key::Key;
use crate::limit::{
    Algorithm, AllCharge, HourChange, Hourly, Limit, LimitOptions, Release, charge_by_the_hour, hours_of,
    release_all,
};
use crate::log;
use crate::metrics::Metrics;
use crate::store::Part;

/// The quota of a family of runs on a store. Clones share it.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> tidegate::Result<()> {
/// use tidegate::run::{QuotaKind, QuotaOptions};
/// use tidegate::{Cost, Tidegate};
///
/// let gate = Tidegate::open("memory:").await?;
/// let quota = gate.quota(QuotaOptions::new().kind(QuotaKind::Both))?;
///
/// // Sent twice, since nobody knows whether the first arrived: charged once.
/// for _ in 0..2 {
///     assert!(quota.charge(Cost::new(10)?, Some("docket-12345")).await?.is_admitted());
/// }
/// assert_eq!(quota.status().await?.remaining, 5000 - 25 - 10);
///
/// // The calls were not made after all.
/// quota.release("docket-12345").await?;
/// assert_eq!(quota.status().await?.remaining, 4975);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Quota {
    options: Arc<QuotaOptions>,
    aligned: Option<Limit>,
    sliding: Option<Limit>,
    hourly: Arc<Hourly>,
    metrics: QuotaMetrics,
}

impl Quota {
    /// What it was opened with.
    pub fn options(&self) -> &QuotaOptions {
        &self.options
    }

    /// The limits it stands on, that of the hours of UTC first.
    fn limits(&self) -> impl Iterator<Item = &Limit> {
        self.aligned.iter().chain(&self.sliding)
    }

    /// Charges `cost`, if it fits; by the caller's own `id` once, however often it is sent, and so that
    /// [`release`](Self::release) can give it back. The same id with another cost is an error. Ids are remembered for an
    /// hour, within [`max_charges`](QuotaOptions::max_charges).
    ///
    /// While the store is away it is an error: nothing is guessed. Whoever sends it again uses the same id.
    pub async fn charge(&self, cost: Cost, id: Option<&str>) -> Result<QuotaCharge> {
        let limits: Vec<_> = self.limits().map(|limit| (limit, cost)).collect();
        let (charge, change) = charge_by_the_hour(Key::EVERYONE, &limits, id, &self.hourly).await?;
        if let Some(change) = change {
            self.say(&change);
        }
        let charge = match charge {
            AllCharge::Charged { is_new, quotas } => {
                let remaining = quotas.iter().map(|(_, quota)| quota.remaining).min().unwrap_or(0);
                QuotaCharge::Charged { is_new, remaining }
            }
            AllCharge::Released => QuotaCharge::Released,
            AllCharge::Refused(decision) => QuotaCharge::Refused(QuotaRefusal::new(&decision, ALIGNED)),
        };
        self.metrics.charged(&charge, cost);
        Ok(charge)
    }

    /// Gives back what was charged by `id`, as far as it still counts. Sent twice it is given back once.
    pub async fn release(&self, id: &str) -> Result<Release> {
        let limits: Vec<_> = self.limits().collect();
        release_all(Key::EVERYONE, &limits, id).await
    }

    /// What is left, when there is more, and what was used at most in the hours of the last day.
    pub async fn status(&self) -> Result<QuotaStatus> {
        let limits: Vec<_> = self.limits().collect();
        let (at, standing, hours) = hours_of(Key::EVERYONE, &limits).await?;
        let QuotaOptions { kind, limit, safety_buffer, .. } = *self.options;
        let remaining = standing.iter().map(|quota| quota.remaining).min().unwrap_or(0);
        let mut standing = standing.iter();
        let aligned = self.aligned.as_ref().and_then(|_| standing.next());
        let sliding = self.sliding.as_ref().and_then(|_| standing.next());
        let aligned = aligned.map(|quota| QuotaUse::aligned(quota, at));
        let hours = hours.iter().map(|hour| QuotaHour::new(hour, kind)).collect();
        Ok(QuotaStatus {
            at,
            kind,
            limit,
            safety_buffer,
            remaining,
            aligned,
            sliding: sliding.map(QuotaUse::sliding),
            hours: QuotaHour::with_use(hours, at, aligned.map_or(0, |it| it.used)),
        })
    }

    /// Says that an hour has begun: whoever's charge was the first of it says so, and nobody else.
    fn say(&self, change: &HourChange) {
        let (family, quota) = (self.options.prefix.as_str(), self.options.capacity());
        let Some(previous) = &change.previous else {
            log::info!(family, quota, "the quota counts a new hour, the first of a day");
            return;
        };
        let hour = QuotaHour::new(previous, self.options.kind);
        let (previous, used) = (&hour.hour, hour.most());
        log::info!(family, quota, %previous, used, "the quota counts a new hour");
    }
}

/// The quotas that are open, by the prefix of their family.
#[derive(Debug, Default)]
pub(crate) struct Quotas(Mutex<BTreeMap<String, Quota>>);

impl Quotas {
    /// The quota of a family: the one that is open, or one on limits that `limit` opens, which is declared. With other
    /// options than those it was opened with it is an error.
    pub(crate) fn open(
        &self,
        options: QuotaOptions,
        metrics: &Metrics,
        limit: impl Fn(&str, Algorithm, LimitOptions) -> Result<Limit>,
        declare: impl FnOnce(Part),
    ) -> Result<Quota> {
        options.check()?;
        // Held until it is open, so that nobody else opens it meanwhile.
        let mut quotas = self.0.lock();
        match quotas.get(&options.prefix) {
            Some(quota) if *quota.options == options => return Ok(quota.clone()),
            Some(_) => {
                let prefix = &options.prefix;
                return Err(Error::invalid(format!(
                    "there is a quota {prefix:?} with other options already"
                )));
            }
            None => {}
        }
        let open = |name: &str, algorithm: Option<Algorithm>| {
            algorithm.map(|algorithm| limit(name, algorithm, options.of_limits())).transpose()
        };
        let aligned = open(ALIGNED, options.aligned()?)?;
        let sliding = open(SLIDING, options.sliding()?)?;
        declare(options.declared()?);
        let metrics = QuotaMetrics::new(metrics, &options.prefix);
        let quota = Quota { options: Arc::new(options), aligned, sliding, hourly: Arc::default(), metrics };
        quotas.insert(quota.options.prefix.clone(), quota.clone());
        Ok(quota)
    }
}
