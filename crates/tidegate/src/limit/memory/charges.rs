//! Charges by an id, in this process.

use std::sync::Arc;

use super::super::charge::{Charge, Identity, Outcome, Release, is_something_else};
use super::super::decision::{Decision, Quota};
use super::super::hours::{Hour, HourChange};
use super::super::reservation::{self, Book, ReservationState, VOID, too_many};
use super::super::rule::Rule as _;
use super::super::usage::LIVES;
use super::all::{Overflow, Part, take_all_or};
use super::{Engine, InProcess};
use crate::bounds::Cost;
use crate::clock::Timestamp;
use crate::error::{Error, Result};
use crate::key::Key;
use crate::store::memory::Lookup;

/// Charges `key` under all of `parts`, or under none, and remembers it by its id. Of a quota the first charge of an hour is
/// told.
pub(in crate::limit) fn charge_all(
    parts: &[Part<'_>],
    key: Key<'_>,
    identity: &Identity<'_>,
    is_quota: bool,
) -> Result<(Outcome, Option<HourChange>)> {
    let now = now_of(parts);
    let outcome = match identity.id {
        None => charge_now(parts, key, now).0,
        Some(id) => {
            with_books(parts, key, now, &mut |books| charge_once(books, parts, key, now, id, identity))??
        }
    };
    let is_new = matches!(outcome, Outcome::Charged { is_new: true, .. });
    let hours = || parts.iter().filter_map(|part| part.limit.shared.hours.as_ref());
    // As scripts, which ask the first limit.
    let is_first = is_quota && is_new && hours().next().is_some_and(|it| it.say(now.as_millis()));
    let previous = || hours().map(|it| it.previous(now.as_millis())).collect::<Vec<_>>();
    Ok((outcome, is_first.then(|| HourChange::after(&previous()))))
}
/// Gives back what was charged by an id, where it still counts.
pub(in crate::limit) fn release_all(
    parts: &[Part<'_>],
    key: Key<'_>,
    identity: &Identity<'_>,
) -> Result<Release> {
    let Some(id) = identity.id else { return Ok(Release::Unknown) };
    let (now, together) = (now_of(parts), identity.together);
    with_books(parts, key, now, &mut |books| {
        let mut release = Release::Unknown;
        for book in books.iter() {
            let Some(found) = book.charge(now.as_millis(), id) else { continue };
            if found.together != Some(together) {
                return Err(is_something_else(id));
            }
            if found.cost != VOID {
                release = Release::Released { is_new: false };
            }
        }
        for (book, part) in books.iter_mut().zip(parts) {
            if let Some(held) = book.release_charge(now.as_millis(), id, identity.remembered_ms) {
                part.limit.give_back(key, now, held);
                release = Release::Released { is_new: true };
            }
        }
        if release == Release::Unknown {
            for (book, part) in books.iter_mut().zip(parts) {
                book.void_charge(now.as_millis(), id, identity, part.limit.shared.max_reservations);
            }
        }
        Ok(release)
    })?
}

/// Where `key` stands, and the hours of a day.
pub(in crate::limit) fn hours_of(parts: &[Part<'_>], key: Key<'_>) -> (Timestamp, Vec<Quota>, Vec<Hour>) {
    let now = now_of(parts);
    let list = |part: &Part<'_>| part.limit.shared.hours.as_ref().map(|it| it.list(now.as_millis()));
    let hours: Vec<_> = parts.iter().map(|part| list(part).unwrap_or_default()).collect();
    (now, standing(parts, key, now), Hour::of_all(&hours))
}

fn now_of(parts: &[Part<'_>]) -> Timestamp {
    parts.first().map_or(Timestamp::default(), |part| part.limit.clock().now())
}

/// What each limit says, and where it has charged it if all of them have.
fn charge_now(parts: &[Part<'_>], key: Key<'_>, now: Timestamp) -> (Outcome, Vec<u64>) {
    let decisions = take_all_or(parts, key, now, Overflow::Refuse);
    if !decisions.iter().all(Decision::is_admitted) {
        return (Outcome::Refused(decisions.into_iter().enumerate().collect()), Vec::new());
    }
    let receipts = decisions.iter().filter_map(Decision::receipt);
    let places = receipts.zip(parts).map(|(receipt, part)| part.limit.place(receipt.bucket)).collect();
    let quotas = decisions.iter().map(|decision| *decision.quota()).collect();
    (Outcome::Charged { is_new: true, quotas }, places)
}

fn charge_once(
    books: &mut [&mut Book],
    parts: &[Part<'_>],
    key: Key<'_>,
    now: Timestamp,
    id: &str,
    identity: &Identity<'_>,
) -> Result<Outcome> {
    let now_ms = now.as_millis();
    let mut known = None;
    for (book, part) in books.iter_mut().zip(parts) {
        book.forget_due(now_ms);
        let Some(found) = book.charge(now_ms, id) else { continue };
        if found.cost != part.request.cost && found.cost != VOID {
            return Err(reservation::conflict(id, part.request.cost, found.cost));
        }
        if found.together != Some(identity.together) {
            return Err(is_something_else(id));
        }
        known = Some(found.state);
    }
    match known {
        Some(ReservationState::Released) => return Ok(Outcome::Released),
        Some(_) => return Ok(Outcome::Charged { is_new: false, quotas: standing(parts, key, now) }),
        None => {}
    }
    for (book, part) in books.iter().zip(parts) {
        let max = part.limit.shared.max_reservations;
        if !book.has_room(now_ms, max) {
            return Err(too_many(max));
        }
    }
    let (outcome, places) = charge_now(parts, key, now);
    for ((book, part), place) in books.iter_mut().zip(parts).zip(places) {
        let cost = part.request.cost;
        book.remember_charge(now_ms, id, cost, place, identity, part.limit.shared.max_reservations);
    }
    Ok(outcome)
}

/// Runs `act` with what the limits remember of a key, all of it locked at once, in an order that all callers keep;
/// before any state of theirs, as reservations do.
fn with_books<T>(
    parts: &[Part<'_>],
    key: Key<'_>,
    now: Timestamp,
    act: &mut dyn FnMut(&mut [&mut Book]) -> T,
) -> Result<T> {
    let mut order: Vec<usize> = (0..parts.len()).collect();
    order.sort_by_key(|index| Arc::as_ptr(&parts[*index].limit.shared) as usize);
    lock(parts, &order, key, now, Vec::new(), act)
}

fn lock<T>(
    parts: &[Part<'_>],
    order: &[usize],
    key: Key<'_>,
    now: Timestamp,
    locked: Vec<(usize, &mut Book)>,
    act: &mut dyn FnMut(&mut [&mut Book]) -> T,
) -> Result<T> {
    let Some((index, rest)) = order.split_first() else {
        let mut locked = locked;
        locked.sort_by_key(|(index, _)| *index);
        let mut books: Vec<&mut Book> = locked.into_iter().map(|(_, book)| book).collect();
        return Ok(act(&mut books));
    };
    let found =
        parts[*index].limit.shared.reservations.upsert(key.as_str(), now, &(), |book: &mut Book, _, _| {
            let mut locked: Vec<(usize, &mut Book)> = locked;
            locked.push((*index, &mut *book));
            let done = lock(parts, rest, key, now, locked, act);
            (done, !book.is_empty())
        });
    match found {
        Lookup::Found(done) => done,
        Lookup::Full => Err(Error::unavailable("there are as many keys with reservations as are allowed")),
    }
}

/// Where a key stands under each limit.
fn standing(parts: &[Part<'_>], key: Key<'_>, now: Timestamp) -> Vec<Quota> {
    let stand = |part: &Part<'_>| {
        let request = part.limit.by_override(key, now, part.request);
        let now_ms = now.as_millis();
        with!(&part.limit.shared.engine, counted => {
            let entry = counted.rule.entry(key.as_str(), now_ms);
            let look = |state: &mut _| counted.rule.peek(state, now_ms, request);
            let verdict = counted.table.get(&entry, look);
            let verdict = verdict.unwrap_or_else(|| counted.rule.peek(&Default::default(), now_ms, request));
            *verdict.into_decision(request.cost, 0, part.limit.window_seconds_of(request.terms)).quota()
        })
    };
    parts.iter().map(stand).collect()
}

impl InProcess {
    /// Charges `cost` to `key` by the caller's own `id`: asked for twice it is charged once, and
    /// [`release_charge`](Self::release_charge) gives it back. The same id with another cost is an error. Needs a
    /// sliding or a calendar limit.
    pub fn charge(&self, key: Key<'_>, id: &str, cost: Cost) -> Result<Charge> {
        let part = Part { limit: self, request: self.plain(cost.get()) };
        charge_all(&[part], key, &self.identity(id)?, false)?.0.into_charge()
    }

    /// Gives back what [`charge`](Self::charge) has charged by `id`.
    pub fn release_charge(&self, key: Key<'_>, id: &str) -> Result<Release> {
        let part = Part { limit: self, request: self.plain(1) };
        release_all(&[part], key, &self.identity(id)?)
    }

    fn identity<'a>(&self, id: &'a str) -> Result<Identity<'a>> {
        Identity::new(Some(id), &[("", self.shared.algorithm.holding_ms()?)])
    }

    /// Where a charge is, by what its receipt says.
    fn place(&self, bucket: u64) -> u64 {
        match &self.shared.engine {
            Engine::Sliding(_) => bucket / LIVES,
            _ => bucket,
        }
    }

    /// Takes a charge out of its bucket or window again, if it still counts.
    fn give_back(&self, key: Key<'_>, now: Timestamp, held: reservation::Held) {
        let (now_ms, at, cost) = (now.as_millis(), held.place.at, held.cost);
        match &self.shared.engine {
            Engine::Sliding(counted) => {
                let grid = counted.rule.grid();
                counted.table.get(key.as_str(), |usage| usage.give_back(grid, now_ms, at, cost));
            }
            // As scripts, which know the window before and the one after that of the moment.
            Engine::Calendar(counted) if at.abs_diff(counted.rule.window(now_ms)) <= 1 => {
                let start_ms = at * counted.rule.period().as_millis();
                let entry = counted.rule.entry(key.as_str(), start_ms);
                counted.table.get(&entry, |count| count.remove(cost, None, now_ms));
            }
            // Over; or none that holds, as was asked before.
            Engine::Calendar(_) | Engine::Suppressed(_) | Engine::Token(_) => {}
        }
    }
}
