//! Reservations on Redis.

use std::time::Duration;

use compact_str::{CompactString, ToCompactString as _};

use super::super::listing::member;
use super::super::options::LimitOptions;
use super::super::reservation::{self, OnLapse, Reservation, Reserve, Settle};
use super::reply::{REPLIES, Reply};
use super::scripts::Scripts;
use super::{OnRedis, PENDING_BY_DEADLINE, RECORDS};
use crate::bounds::Cost;
use crate::error::{Error, Result};
use crate::key::Key;

impl OnRedis {
    pub(in crate::limit) async fn reserve(
        &self,
        key: Key<'_>,
        id: &str,
        cost: Cost,
        lasting: Duration,
        options: &LimitOptions,
    ) -> Result<Reserve> {
        let lasting_ms = reservation::check(id, lasting, self.algorithm.holding_ms()?)?;
        match self.reservation_call(key, id, "reserve", cost.get(), lasting_ms, options).await? {
            Reply::Reservation(reservation) => Ok(reservation.into()),
            Reply::OtherCost(other) => Err(reservation::conflict(id, cost.get(), other)),
            Reply::NoRoom => Err(reservation::too_many(options.max_reservations)),
            other => Ok(Reserve::Refused(self.decision(other, key, &self.plain(cost))?)),
        }
    }

    pub(in crate::limit) async fn settle(
        &self,
        key: Key<'_>,
        id: &str,
        what: Settle,
        options: &LimitOptions,
    ) -> Result<Option<Reservation>> {
        reservation::check_id(id)?;
        self.algorithm.holding_ms()?;
        match self.reservation_call(key, id, what.as_str(), 0, 0, options).await? {
            Reply::Reservation(reservation) => Ok(Some(reservation)),
            Reply::Unknown => Ok(None),
            // After a loss nothing is known, and it is not guessed.
            Reply::Held(_) => {
                self.store.meet_loss(key.as_str());
                Err(Error::unavailable("the store lost writes: reservations cannot be settled for a window"))
            }
            other => Err(REPLIES.unexpected(&other)),
        }
    }

    async fn reservation_call(
        &self,
        key: Key<'_>,
        id: &str,
        what: &str,
        cost: u64,
        lasting_ms: u64,
        options: &LimitOptions,
    ) -> Result<Reply> {
        let gives_back = u64::from(options.on_lapse == OnLapse::GiveBack);
        let remembered_ms = reservation::remembered_ms(self.algorithm.holding_ms()?);
        let args = |first: u64| {
            let numbers =
                [first, cost, lasting_ms, gives_back, options.max_reservations as u64, remembered_ms];
            let texts = [CompactString::from(what), CompactString::from(id)];
            let member = [member(key, id)];
            texts.into_iter().chain(numbers.map(|n| n.to_compact_string())).chain(member).collect()
        };
        let script = &Scripts::of(&self.algorithm).reserve;
        self.run_with(script, key, &RECORDS, &[PENDING_BY_DEADLINE], args).await
    }
}
