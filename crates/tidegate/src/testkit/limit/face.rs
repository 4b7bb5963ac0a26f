//! A limit as a caller sees it, and how a store makes fresh ones.
//!
//! Small on purpose: whoever puts the limit behind something else, like HTTP,
//! implements these and has the whole suite.

use std::time::Duration;

use crate::bounds::{Cost, Rate};
use crate::clock::ManualClock;
use crate::error::Result;
use crate::key::Key;
use crate::limit::{Algorithm, Decision, Limit, LimitOptions, Override, Receipt, Reservation, Reserve};
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
}

impl Gate for Library {
    type Face = Limit;

    fn limit(&self, name: &str) -> Limit {
        let found = self.limits.iter().find(|limit| limit.name().as_str() == name);
        found.expect("a limit of that name").clone()
    }

    async fn take_all(&self, key: &str, limits: &[(&str, u64)]) -> Result<Vec<(String, Decision)>> {
        let held: Vec<_> = limits.iter().map(|(name, _)| Gate::limit(self, name)).collect();
        let costs = limits.iter().map(|(_, cost)| Cost::new(*cost));
        let parts: Vec<_> =
            held.iter().zip(costs).map(|(limit, cost)| Ok((limit, cost?))).collect::<Result<_>>()?;
        let decision = self.gate.take_all(key_of(key)?, &parts).await?;
        let named = |(name, decision): (&Name, &Decision)| (name.as_str().to_owned(), *decision);
        Ok(decision.decisions().map(named).collect())
    }
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
