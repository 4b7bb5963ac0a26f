//! Charges by an id, of limits on any store.

use super::all::{AllDecision, check, elsewhere};
use super::charge::{Charge, Identity, Outcome, Release};
use super::decision::{Quota, Source};
use super::handle::{Backend, Limit};
use super::hours::{Hour, HourChange};
use super::{memory, redis};
use crate::bounds::Cost;
use crate::clock::Timestamp;
use crate::error::Result;
use crate::key::{Key, Name};

/// The answer to a charge of several limits by an id.
#[derive(Debug, Clone, PartialEq)]
pub enum AllCharge {
    /// All limits are charged, now or by an earlier request with the same id.
    Charged {
        /// Whether this request did it.
        is_new: bool,
        /// Where the key stands now, in the order in which the limits were given.
        quotas: Vec<(Name, Quota)>,
    },
    /// They were charged by this id, which has been released: nothing is charged.
    Released,
    /// Over at least one of the limits; nothing is charged.
    Refused(AllDecision),
}

/// What limits keep between charges by the hour, which are always without a subject.
#[derive(Debug, Default)]
pub(crate) struct Hourly {
    prepared: redis::Prepared,
}

/// Limits that are charged together, all on one store.
struct Together<'a> {
    limits: &'a [(&'a Limit, Cost)],
    identity: Identity<'a>,
}

/// The same, where they are.
enum Parts<'a> {
    Memory(Vec<memory::Part<'a>>),
    Redis(Vec<redis::ChargePart<'a>>),
}

impl<'a> Together<'a> {
    fn new(limits: &'a [(&'a Limit, Cost)], id: Option<&'a str>) -> Result<Self> {
        check(limits)?;
        let named =
            |(limit, _): &(&'a Limit, Cost)| Ok((limit.name().as_str(), limit.algorithm().holding_ms()?));
        let named: Vec<_> = limits.iter().map(named).collect::<Result<_>>()?;
        Ok(Self { limits, identity: Identity::new(id, &named)? })
    }

    fn parts(&self) -> Result<Parts<'a>> {
        let of_memory = self.limits.iter().map(|(limit, cost)| match &limit.core.backend {
            Backend::Memory(on) => Ok(memory::Part { limit: on, request: limit.plain(*cost) }),
            Backend::Redis(_) => Err(elsewhere(limit)),
        });
        let Some(Backend::Redis(first)) = self.limits.first().map(|(limit, _)| &limit.core.backend) else {
            return of_memory.collect::<Result<_>>().map(Parts::Memory);
        };
        let of_redis = self.limits.iter().map(|(limit, cost)| match &limit.core.backend {
            Backend::Redis(on) if on.shares_its_store(first) => {
                Ok(redis::ChargePart { limit: on, cost: *cost, max: limit.core.options.max_reservations })
            }
            _ => Err(elsewhere(limit)),
        });
        of_redis.collect::<Result<_>>().map(Parts::Redis)
    }

    /// Charges them; with `hourly`, says of the first charge of an hour what came before it.
    async fn charge(&self, key: Key<'_>, hourly: Option<&Hourly>) -> Result<(Outcome, Option<HourChange>)> {
        let parts = match self.parts()? {
            // They count for themselves, under their own locks.
            Parts::Memory(parts) => {
                return memory::charge_all(&parts, key, &self.identity, hourly.is_some());
            }
            Parts::Redis(parts) => parts,
        };
        let prepared = hourly.map(|hourly| &hourly.prepared);
        let charged = redis::charge_all(&parts, key, &self.identity, prepared).await?;
        for (limit, _) in self.limits {
            match &charged.0 {
                Outcome::Charged { is_new: true, .. } => limit.core.tallies.count(true, Source::Store),
                Outcome::Charged { .. } | Outcome::Released => {}
                Outcome::Refused(decisions) => {
                    let source = decisions.first().map_or(Source::Store, |(_, decision)| decision.source());
                    limit.core.tallies.count(false, source);
                }
            }
        }
        Ok(charged)
    }

    async fn release(&self, key: Key<'_>) -> Result<Release> {
        let parts = match self.parts()? {
            Parts::Memory(parts) => return memory::release_all(&parts, key, &self.identity),
            Parts::Redis(parts) => parts,
        };
        let released = redis::release_all(&parts, key, &self.identity).await;
        self.limits.iter().for_each(|(limit, _)| limit.refresh(key));
        released
    }

    fn name(&self, outcome: Outcome) -> AllCharge {
        let name = |index: usize| self.limits[index].0.name().clone();
        match outcome {
            Outcome::Charged { is_new, quotas } => {
                let quotas = quotas.into_iter().enumerate().map(|(index, quota)| (name(index), quota));
                AllCharge::Charged { is_new, quotas: quotas.collect() }
            }
            Outcome::Released => AllCharge::Released,
            Outcome::Refused(decisions) => {
                let named = decisions.into_iter().map(|(index, decision)| (name(index), decision));
                AllCharge::Refused(AllDecision::new(named.collect()))
            }
        }
    }
}

/// Charges `key` under all of `limits`, or under none; by `id` once, if there is one.
pub(crate) async fn charge_all(
    key: Key<'_>,
    limits: &[(&Limit, Cost)],
    id: Option<&str>,
) -> Result<AllCharge> {
    let together = Together::new(limits, id)?;
    let (outcome, _) = together.charge(key, None).await?;
    Ok(together.name(outcome))
}

/// The same of what is charged by the hour; of the first charge of an hour, what came before it.
pub(crate) async fn charge_by_the_hour(
    key: Key<'_>,
    limits: &[(&Limit, Cost)],
    id: Option<&str>,
    hourly: &Hourly,
) -> Result<(AllCharge, Option<HourChange>)> {
    let together = Together::new(limits, id)?;
    let (outcome, change) = together.charge(key, Some(hourly)).await?;
    Ok((together.name(outcome), change))
}

/// Gives back what was charged to `key` under `limits` by `id`.
pub(crate) async fn release_all(key: Key<'_>, limits: &[&Limit], id: &str) -> Result<Release> {
    let limits: Vec<_> = limits.iter().map(|limit| (*limit, Cost::ONE)).collect();
    Together::new(&limits, Some(id))?.release(key).await
}

/// Where `key` stands under limits that are charged together, and the hours of a day, the last first; and when that
/// was.
pub(crate) async fn hours_of(key: Key<'_>, limits: &[&Limit]) -> Result<(Timestamp, Vec<Quota>, Vec<Hour>)> {
    let limits: Vec<_> = limits.iter().map(|limit| (*limit, Cost::ONE)).collect();
    match Together::new(&limits, None)?.parts()? {
        Parts::Memory(parts) => Ok(memory::hours_of(&parts, key)),
        Parts::Redis(parts) => redis::hours_of(&parts, key).await,
    }
}

impl Limit {
    /// Charges `cost` to `key` by the caller's own `id`: sent twice it is charged once, and
    /// [`release_charge`](Self::release_charge) gives it back. The id is remembered for the window, and for an hour at
    /// least, within `max_reservations`; with another cost it is an error. Needs a sliding or a calendar limit.
    /// [`Tidegate::charge_all`](crate::Tidegate::charge_all) charges several.
    ///
    /// While the store is away it is an error, whatever the limit's policy is: sent again later, with the same id,
    /// it is charged once.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> tidegate::Result<()> {
    /// # use tidegate::{Cost, Key, Tidegate, limit::{Calendar, Charge, LimitOptions, Period}};
    /// # let gate = Tidegate::open("memory:").await?;
    /// let hourly = gate.limit("calls", Calendar::new(5000, Period::Hour)?, LimitOptions::default())?;
    /// let user = Key::new("user_123")?;
    /// for _ in 0..2 {
    ///     let charged = hourly.charge(user, "docket-17", Cost::new(3)?).await?;
    ///     assert!(matches!(charged, Charge::Charged { .. }));
    /// }
    /// assert_eq!(hourly.peek(user).await?.quota().remaining, 4997);
    /// hourly.release_charge(user, "docket-17").await?;
    /// assert_eq!(hourly.peek(user).await?.quota().remaining, 5000);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn charge(&self, key: Key<'_>, id: &str, cost: Cost) -> Result<Charge> {
        let limits = [(self, cost)];
        let (outcome, _) = Together::new(&limits, Some(id))?.charge(key, None).await?;
        outcome.into_charge()
    }

    /// Gives back what [`charge`](Self::charge) has charged by `id`.
    pub async fn release_charge(&self, key: Key<'_>, id: &str) -> Result<Release> {
        release_all(key, &[self], id).await
    }
}
