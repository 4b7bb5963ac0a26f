//! A limit as a caller sees it, and how a store makes fresh ones.
//!
//! Small on purpose: whoever puts the limit behind something else, like HTTP,
//! implements these and has the whole suite.

use std::time::Duration;

use crate::bounds::{Cost, Rate};
use crate::clock::ManualClock;
use crate::error::Result;
use crate::key::Key;
use crate::limit::{
    Algorithm, AllCharge, AllDecision, Decision, Limit, LimitOptions, Override, Quota, Receipt, Release,
    Reservation, Reserve,
};
use crate::{Name, Tidegate};

/// What cases write where there is no subject: [`Key::EVERYONE`].
pub const EVERYONE: &str = "\u{0}everyone";

/// The key that a case means.
pub fn key_of(text: &str) -> Result<Key<'_>> {
    if text == EVERYONE { Ok(Key::EVERYONE) } else { Key::new(text) }
}

/// A limit as a caller sees it.
pub trait Face: Clone + Send + Sync + 'static {
    /// Takes; with a rate, against that rate.
    fn take(&self, key: &str, cost: u64, rate: Option<Rate>)
    -> impl Future<Output = Result<Decision>> + Send;
    /// Peeks for one permit.
    fn peek(&self, key: &str) -> impl Future<Output = Result<Decision>> + Send {
        self.peek_for(key, 1)
    }
    /// Peeks.
    fn peek_for(&self, key: &str, cost: u64) -> impl Future<Output = Result<Decision>> + Send;
    /// Refunds.
    fn refund(&self, key: &str, receipt: Receipt) -> impl Future<Output = Result<u64>> + Send;
    /// Resets.
    fn reset(&self, key: &str) -> impl Future<Output = Result<()>> + Send;
    /// Sets an override.
    fn set_override(
        &self,
        key: &str,
        rate: Rate,
        lasting: Duration,
    ) -> impl Future<Output = Result<()>> + Send;
    /// Tells the override.
    fn get_override(&self, key: &str) -> impl Future<Output = Result<Option<Override>>> + Send;
    /// Ends the override.
    fn clear_override(&self, key: &str) -> impl Future<Output = Result<()>> + Send;
    /// Reserves.
    fn reserve(
        &self,
        key: &str,
        id: &str,
        cost: u64,
        lasting: Duration,
    ) -> impl Future<Output = Result<Reserve>> + Send;
    /// Commits a reservation; as it is then, if there is one.
    fn commit(&self, key: &str, id: &str) -> impl Future<Output = Result<Option<Reservation>>> + Send;
    /// Releases a reservation; as it is then, if there is one.
    fn release(&self, key: &str, id: &str) -> impl Future<Output = Result<Option<Reservation>>> + Send;
    /// Tells a reservation.
    fn reservation(&self, key: &str, id: &str) -> impl Future<Output = Result<Option<Reservation>>> + Send;
}

/// What a charge of several limits is told.
#[derive(Debug, Clone, PartialEq)]
pub enum ChargeAnswer {
    /// Charged: whether by this request, and where each limit stands.
    Charged {
        /// Whether by this request.
        is_new: bool,
        /// Where each limit stands.
        quotas: Vec<(String, Quota)>,
    },
    /// The id was released.
    Released,
    /// Refused; what each limit said.
    Refused(Vec<(String, Decision)>),
}

/// Several limits on one store, as a caller sees them.
pub trait Gate: Clone + Send + Sync + 'static {
    /// One of them.
    type Face: Face;
    /// The limit called `name`.
    fn limit(&self, name: &str) -> Self::Face;
    /// Takes from several; what each said.
    fn take_all(
        &self,
        key: &str,
        limits: &[(&str, u64)],
    ) -> impl Future<Output = Result<Vec<(String, Decision)>>> + Send;
    /// Charges several by an id.
    fn charge_all(
        &self,
        key: &str,
        id: &str,
        limits: &[(&str, u64)],
    ) -> impl Future<Output = Result<ChargeAnswer>> + Send;
    /// Gives back what an id has charged to several.
    fn release_all(
        &self,
        key: &str,
        id: &str,
        limits: &[&str],
    ) -> impl Future<Output = Result<Release>> + Send;
}

/// A store of the library with its limits.
#[derive(Debug, Clone)]
pub struct Library {
    gate: Tidegate,
    limits: Vec<Limit>,
}

impl Library {
    /// These limits, which are of `gate`.
    pub fn new(gate: Tidegate, limits: Vec<Limit>) -> Self {
        Self { gate, limits }
    }

    /// Limits by their names, and their costs.
    fn parts(&self, limits: &[(&str, u64)]) -> Result<Vec<(Limit, Cost)>> {
        limits.iter().map(|(name, cost)| Ok((Gate::limit(self, name), Cost::new(*cost)?))).collect()
    }
}

impl Gate for Library {
    type Face = Limit;

    fn limit(&self, name: &str) -> Limit {
        let found = self.limits.iter().find(|limit| limit.name().as_str() == name);
        found.expect("a limit of that name").clone()
    }

    async fn take_all(&self, key: &str, limits: &[(&str, u64)]) -> Result<Vec<(String, Decision)>> {
        let parts = self.parts(limits)?;
        let parts: Vec<_> = parts.iter().map(|(limit, cost)| (limit, *cost)).collect();
        Ok(named(&self.gate.take_all(key_of(key)?, &parts).await?))
    }

    async fn charge_all(&self, key: &str, id: &str, limits: &[(&str, u64)]) -> Result<ChargeAnswer> {
        let parts = self.parts(limits)?;
        let parts: Vec<_> = parts.iter().map(|(limit, cost)| (limit, *cost)).collect();
        Ok(match self.gate.charge_all(key_of(key)?, &parts, id).await? {
            AllCharge::Charged { is_new, quotas } => {
                let named = |(name, quota): (Name, Quota)| (name.as_str().to_owned(), quota);
                ChargeAnswer::Charged { is_new, quotas: quotas.into_iter().map(named).collect() }
            }
            AllCharge::Released => ChargeAnswer::Released,
            AllCharge::Refused(decision) => ChargeAnswer::Refused(named(&decision)),
        })
    }

    async fn release_all(&self, key: &str, id: &str, limits: &[&str]) -> Result<Release> {
        let limits: Vec<_> = limits.iter().map(|name| Gate::limit(self, name)).collect();
        let limits: Vec<_> = limits.iter().collect();
        self.gate.release_all(key_of(key)?, &limits, id).await
    }
}

fn named(decision: &AllDecision) -> Vec<(String, Decision)> {
    let named = |(name, decision): (&Name, &Decision)| (name.as_str().to_owned(), *decision);
    decision.decisions().map(named).collect()
}

impl Face for Limit {
    async fn take(&self, key: &str, cost: u64, rate: Option<Rate>) -> Result<Decision> {
        let (key, cost) = (key_of(key)?, Cost::new(cost)?);
        match rate {
            Some(rate) => self.take_with(key, rate, cost).await,
            None => Limit::take(self, key, cost).await,
        }
    }

    async fn peek_for(&self, key: &str, cost: u64) -> Result<Decision> {
        Limit::peek_for(self, key_of(key)?, Cost::new(cost)?).await
    }

    async fn refund(&self, key: &str, receipt: Receipt) -> Result<u64> {
        Limit::refund(self, key_of(key)?, receipt).await
    }

    async fn reset(&self, key: &str) -> Result<()> {
        Limit::reset(self, key_of(key)?).await
    }

    async fn set_override(&self, key: &str, rate: Rate, lasting: Duration) -> Result<()> {
        Limit::set_override(self, key_of(key)?, rate, lasting).await.map(|_| ())
    }

    async fn get_override(&self, key: &str) -> Result<Option<Override>> {
        Limit::get_override(self, key_of(key)?).await
    }

    async fn clear_override(&self, key: &str) -> Result<()> {
        Limit::clear_override(self, key_of(key)?).await
    }

    async fn reserve(&self, key: &str, id: &str, cost: u64, lasting: Duration) -> Result<Reserve> {
        Limit::reserve(self, key_of(key)?, id, Cost::new(cost)?, lasting).await
    }

    async fn commit(&self, key: &str, id: &str) -> Result<Option<Reservation>> {
        Limit::commit(self, key_of(key)?, id).await
    }

    async fn release(&self, key: &str, id: &str) -> Result<Option<Reservation>> {
        Limit::release(self, key_of(key)?, id).await
    }

    async fn reservation(&self, key: &str, id: &str) -> Result<Option<Reservation>> {
        Limit::reservation(self, key_of(key)?, id).await
    }
}

/// Makes fresh limits on one kind of store, on a clock that the case moves.
pub trait Kit {
    /// The store it makes them on.
    type Gate: Gate;
    /// Limits that nobody has used, on a clock that the case moves and chance that
    /// a seed decides.
    fn fresh(
        &self,
        limits: &[(&str, Algorithm)],
        options: &LimitOptions,
        clock: ManualClock,
        seed: u64,
    ) -> impl Future<Output = Self::Gate>;
}
