//! Overrides and pending reservations in this process, page by page.

use super::super::listing::{self, Cursor, Index, KeyOverride, KeyReservation, Page};
use super::super::reservation::Book;
use super::{InProcess, Shared};
use crate::clock::Timestamp;
use crate::error::Result;

impl InProcess {
    /// The overrides, the first to end first, from behind `after` on: up to `limit`.
    pub fn overrides(&self, after: Option<&Cursor>, limit: usize) -> Result<Page<KeyOverride>> {
        let Shared { clock, overrides, overrides_by_end, .. } = &*self.shared;
        let now = clock.now();
        listed(overrides_by_end, now, after, limit, |place| {
            let found = overrides.get(&place.member, |found| found.at(now)).flatten()?;
            Some(KeyOverride { key: place.member.to_string(), rate: found.rate, lasting: found.lasting })
        })
    }

    /// The pending reservations, the first to end first, from behind `after` on: up to
    /// `limit`.
    pub fn reservations(&self, after: Option<&Cursor>, limit: usize) -> Result<Page<KeyReservation>> {
        let Shared { algorithm, clock, reservations, pending_by_deadline, .. } = &*self.shared;
        algorithm.holding_ms()?;
        let now = clock.now();
        listed(pending_by_deadline, now, after, limit, |place| {
            let (key, id) = listing::texts_of(&place.member)?;
            let see = |book: &mut Book| {
                // Not of a reservation before a reset, which had the same id.
                let is_it = book.pending_until_ms(id) == place.at_ms;
                book.see(now.as_millis(), id).filter(|_| is_it)
            };
            let reservation = reservations.get(key, see).flatten()?;
            Some(KeyReservation { key: key.to_owned(), id: id.to_owned(), reservation })
        })
    }
}

/// A page of what an index knows, as far as `look` finds it.
fn listed<T>(
    index: &Index,
    now: Timestamp,
    after: Option<&Cursor>,
    limit: usize,
    look: impl Fn(&Cursor) -> Option<T>,
) -> Result<Page<T>> {
    listing::check(limit)?;
    let (places, has_more) = index.page(now.as_millis(), after, limit);
    let looked_to = places.last().filter(|_| has_more).cloned();
    let look = |place: Cursor| look(&place).map(|it| (place, it));
    let found = places.into_iter().filter_map(look).collect();
    Ok(listing::merge(vec![listing::Part { found, looked_to }], limit, listing::Order::OldestFirst))
}
