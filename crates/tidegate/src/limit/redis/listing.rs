//! Overrides and pending reservations on Redis, page by page: of all partitions at once.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use compact_str::{CompactString, ToCompactString as _};
use futures_util::future::join_all;
use redis::Value;

use super::super::listing::{self, Cursor, KeyOverride, KeyReservation, Page};
use super::super::reservation::{Reservation, ReservationState};
use super::{OVERRIDES_BY_END, OnRedis, PENDING, RATE, unexpected};
use crate::error::Result;
use crate::store::redis::{Call, Script};

const LISTING: &str = include_str!("../listing.lua");
static OVERRIDES: LazyLock<Script> =
    LazyLock::new(|| Script::new(&[RATE, LISTING, include_str!("../overrides.lua")]));
static RESERVATIONS: LazyLock<Script> =
    LazyLock::new(|| Script::new(&[LISTING, include_str!("../reservations.lua")]));

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
        self.list(&RESERVATIONS, PENDING, "reservations:", after, limit, |place, expires_in_ms, cost| {
            let (key, id) = listing::key_and_id(&place.member).ok_or_else(|| unexpected(&place.member))?;
            let cost = cost.parse().map_err(|_| unexpected(cost))?;
            let reservation =
                Reservation { cost, state: ReservationState::Pending, expires_in_ms, is_new: false };
            Ok(KeyReservation { key: key.to_owned(), id: id.to_owned(), reservation })
        })
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
        let after_ms = after.map(|after| after.ends_at_ms.to_compact_string()).unwrap_or_default();
        let after = after.map(|after| after.member.clone()).unwrap_or_default();
        let calls = (0..self.store.partitions()).map(|partition| {
            let prefix = self.store.prefix(partition);
            let family = self.index(&prefix, family).to_compact_string();
            let call = Call {
                script,
                shared_args: Arc::default(),
                key: self.index(&prefix, index),
                shared_keys: Arc::default(),
                items: 1,
                more_keys: Vec::new(),
                item_args: vec![after_ms.clone(), after.clone(), limit.to_compact_string(), family],
                now_ms: self.store.set_time_ms(),
            };
            self.store.call(partition, call)
        });
        let mut parts = Vec::new();
        for answer in join_all(calls).await {
            parts.push(part(answer?, &read)?);
        }
        Ok(listing::merge(parts, limit))
    }
}

/// What a script says of one partition's page.
fn part<T>(answer: Value, read: impl Fn(&Cursor, u64, &str) -> Result<T>) -> Result<listing::Part<T>> {
    let Value::Array(items) = answer else { return Err(unexpected(&answer)) };
    let place = |ends_at: &Value, member: &Value| match (ends_at, member) {
        (Value::Int(ends_at_ms), Value::BulkString(member)) => {
            let member = CompactString::from_utf8(member).map_err(|error| unexpected(&error))?;
            Ok(Cursor { ends_at_ms: *ends_at_ms as u64, member })
        }
        other => Err(unexpected(&other)),
    };
    let [has_more, ends_at, member, Value::Int(now_ms), listed @ ..] = &items[..] else {
        return Err(unexpected(&items));
    };
    let looked_to = match has_more {
        Value::Int(1) => Some(place(ends_at, member)?),
        _ => None,
    };
    let (listed, _) = listed.as_chunks::<3>();
    let found = listed.iter().map(|[member, ends_at, text]| {
        let (place, Value::BulkString(text)) = (place(ends_at, member)?, text) else {
            return Err(unexpected(text));
        };
        let left_ms = place.ends_at_ms.saturating_sub(*now_ms as u64);
        let text = read(&place, left_ms, &String::from_utf8_lossy(text))?;
        Ok((place, text))
    });
    Ok(listing::Part { found: found.collect::<Result<_>>()?, looked_to })
}
