//! Reservations in this process.

use std::time::Duration;

use super::super::algorithm::no_reservations;
use super::super::hold::{At, Noted};
use super::super::listing::member;
use super::super::reservation::{self, Book, Holder, Reservation, Reserve, Settle};
use super::super::rule::Rule as _;
use super::{Engine, InProcess, Shared};
use crate::bounds::Cost;
use crate::error::{Error, Result};
use crate::key::Key;
use crate::store::memory::Lookup;

impl InProcess {
    /// Does something with the reservations of a key.
    fn booked<T>(
        &self,
        key: Key<'_>,
        id: &str,
        act: impl FnOnce(&mut Book, &dyn Holder, &reservation::Terms) -> T,
    ) -> Result<T> {
        let Shared { algorithm, clock, engine, reservations, pending_by_deadline, .. } = &*self.shared;
        let Shared { on_lapse, max_reservations, .. } = *self.shared;
        let now = clock.now();
        pending_by_deadline.sweep(now.as_millis());
        let request = self.by_override(key, now, self.plain(1));
        let terms = reservation::Terms {
            now_ms: now.as_millis(),
            remembered_ms: reservation::remembered_ms(algorithm.holding_ms()?),
            max: max_reservations,
            on_lapse,
        };
        let found = reservations.upsert(key.as_str(), now, &(), |book: &mut Book, _, _| {
            let before_ms = book.pending_until_ms(id);
            let done = match engine {
                Engine::Sliding(counted) => {
                    let at = At { limit: self, counted, key, now, terms: request.terms };
                    act(book, &Noted { holder: &at, limit: self, key }, &terms)
                }
                Engine::Calendar(counted) => {
                    let at = At { limit: self, counted, key, now, terms: request.terms };
                    act(book, &Noted { holder: &at, limit: self, key }, &terms)
                }
                // It has been asked above how long they hold.
                Engine::Suppressed(_) | Engine::Token(_) => return (None, false),
            };
            pending_by_deadline.moved(&member(key, id), before_ms, book.pending_until_ms(id));
            (Some(done), !book.is_empty())
        });
        match found {
            Lookup::Found(Some(done)) => Ok(done),
            Lookup::Found(None) => Err(no_reservations(algorithm)),
            Lookup::Full => {
                Err(Error::unavailable("there are as many keys with reservations as are allowed"))
            }
        }
    }

    /// Holds `cost` for `key` under the caller's own `id`, to be [committed](Self::commit) or
    /// [released](Self::release) within `lasting`, which is at most a window. Asked for twice it is
    /// held once; the same id with another cost is an error. Needs a sliding or a calendar limit.
    pub fn reserve(&self, key: Key<'_>, id: &str, cost: Cost, lasting: Duration) -> Result<Reserve> {
        let lasting_ms = reservation::check(id, lasting, self.shared.algorithm.holding_ms()?)?;
        self.booked(key, id, |book, holder, terms| book.reserve(holder, terms, id, cost.get(), lasting_ms))?
    }

    /// Spends what is held under `id`, as of now. None if there is no such
    /// reservation; see its state for whether it could be.
    pub fn commit(&self, key: Key<'_>, id: &str) -> Result<Option<Reservation>> {
        self.settle(key, id, Settle::Commit)
    }

    /// Gives back what is held under `id`.
    pub fn release(&self, key: Key<'_>, id: &str) -> Result<Option<Reservation>> {
        self.settle(key, id, Settle::Release)
    }

    /// The reservation under `id`, if it is remembered.
    pub fn reservation(&self, key: Key<'_>, id: &str) -> Result<Option<Reservation>> {
        self.settle(key, id, Settle::See)
    }

    pub(in crate::limit) fn settle(
        &self,
        key: Key<'_>,
        id: &str,
        what: Settle,
    ) -> Result<Option<Reservation>> {
        reservation::check_id(id)?;
        self.booked(key, id, |book, holder, terms| match what {
            Settle::Commit => book.commit(holder, terms, id),
            Settle::Release => book.release(holder, terms, id),
            Settle::See => book.see(terms.now_ms, id),
        })
    }

    /// Forgets what `key` has used; receipts and reservations from before are void.
    pub fn reset(&self, key: Key<'_>) -> Result<()> {
        let Shared { clock, engine, reservations, pending_by_deadline, .. } = &*self.shared;
        let now = clock.now();
        let now_ms = now.as_millis();
        // Under the lock of its reservations: they are void too.
        let reset = || {
            with!(engine, counted => {
                for moment_ms in counted.rule.moments(now_ms) {
                    let entry = counted.rule.entry(key.as_str(), moment_ms);
                    counted.table.get(&entry, |state| counted.rule.reset(state, moment_ms));
                }
            });
        };
        let found = reservations.upsert(key.as_str(), now, &(), |book: &mut Book, _, _| {
            for (id, until_ms) in std::mem::take(book).pending() {
                pending_by_deadline.moved(&member(key, id), until_ms, 0);
            }
            (reset(), false)
        });
        if matches!(found, Lookup::Full) {
            // It has none, and cannot get any.
            reset();
        }
        Ok(())
    }
}
