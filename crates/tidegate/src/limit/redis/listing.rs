//! Overrides and pending reservations on Redis, page by page: of all partitions at once.

use std::time::Duration;

use compact_str::{CompactString, ToCompactString as _};
use redis::Value;

use super::super::listing::{self, Cursor, KeyOverride, KeyReservation, Page};
use super::super::reservation::{Reservation, ReservationState};
use super::reply::REPLIES;
use super::scripts::{OVERRIDES, RESERVATIONS};
use super::{OVERRIDES_BY_END, OnRedis, PENDING_BY_DEADLINE};
use crate::error::Result;
use crate::store::partitions;
use crate::store::redis::{Call, Fields, Script};

impl OnRedis {
    pub(in crate::limit) async fn overrides(
        &self,
        after: Option<&Cursor>,
        limit: usize,
    ) -> Result<Page<KeyOverride>> {
        self.list(&OVERRIDES, OVERRIDES_BY_END, "override:", after, limit, |place, left_ms, rate| {
            let lasting = Duration::from_millis(left_ms);
            Ok(KeyOverride { key: place.member.to_string(), rate: rate.parse()?, lasting })
        })
        .await
    }

    pub(in crate::limit) async fn reservations(
        &self,
        after: Option<&Cursor>,
        limit: usize,
    ) -> Result<Page<KeyReservation>> {
        self.algorithm.holding_ms()?;
        self.list(
            &RESERVATIONS,
            PENDING_BY_DEADLINE,
            "reservations:",
            after,
            limit,
            |place, expires_in_ms, cost| {
                let (key, id) =
                    listing::texts_of(&place.member).ok_or_else(|| REPLIES.unexpected(&place.member))?;
                let cost = cost.parse().map_err(|_| REPLIES.unexpected(cost))?;
                let reservation =
                    Reservation { cost, state: ReservationState::Pending, expires_in_ms, is_new: false };
                Ok(KeyReservation { key: key.to_owned(), id: id.to_owned(), reservation })
            },
        )
        .await
    }

    /// A page of an index, of all partitions at once.
    async fn list<T>(
        &self,
        script: &'static Script,
        index: &str,
        family: &str,
        after: Option<&Cursor>,
        limit: usize,
        read: impl Fn(&Cursor, u64, &str) -> Result<T>,
    ) -> Result<Page<T>> {
        listing::check(limit)?;
        let after_ms = after.map(|after| after.at_ms.to_compact_string()).unwrap_or_default();
        let after = after.map(|after| after.member.clone()).unwrap_or_default();
        let calls = (0..self.store.partitions()).map(|partition| {
            let prefix = self.store.prefix(partition);
            let call = Call::new(script)
                .key(self.index(&prefix, index))
                .args([after_ms.clone(), after.clone()])
                .arg(limit)
                .arg(self.index(&prefix, family));
            self.store.call(partition, call)
        });
        let answers = partitions::all(calls).await?;
        let parts = answers.iter().map(|answer| part(answer, &read));
        Ok(listing::merge(parts.collect::<Result<_>>()?, limit, listing::Order::OldestFirst))
    }
}

/// What a script says of one partition's page.
fn part<T>(answer: &Value, read: impl Fn(&Cursor, u64, &str) -> Result<T>) -> Result<listing::Part<T>> {
    let mut fields = REPLIES.list(answer)?;
    let has_more = fields.flag()?;
    let (at_ms, member, now_ms) = (fields.integer()?, fields.bytes()?, fields.number()?);
    let looked_to = has_more.then(|| cursor(&fields, at_ms, member)).transpose()?;
    let found = fields.each(|it| {
        let (member, at_ms, text) = (it.bytes()?, it.integer()?, it.text()?);
        let place = cursor(it, at_ms, member)?;
        let listed = read(&place, place.at_ms.saturating_sub(now_ms), &text)?;
        Ok((place, listed))
    });
    Ok(listing::Part { found: found?, looked_to })
}

/// Anybody may have written to an index: a time that is none is the last of all.
fn cursor(fields: &Fields<'_>, at_ms: i64, member: &[u8]) -> Result<Cursor> {
    let member = CompactString::from_utf8(member).map_err(|_| fields.unexpected())?;
    Ok(Cursor { at_ms: at_ms as u64, member })
}
