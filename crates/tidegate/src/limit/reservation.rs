//! Reservations: a charge that is held first, then committed or released; each
//! request may be sent twice and charges once.
//!
//! A pending reservation counts from the moment it is made as if it were spent at
//! its deadline, so whenever it is committed no window holds too much. A commit
//! moves it to the moment of the commit. What happens at the deadline is a setting.

use std::collections::{BTreeSet, HashMap};
use std::time::Duration;

use compact_str::CompactString;

use super::charge::Identity;
use super::decision::Decision;
use crate::error::{Error, Result};
use crate::key::MAX_KEY_BYTES;
use crate::store::memory::Entry;

/// What becomes of a reservation that is neither committed nor released in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum OnLapse {
    /// It counts as spent at its deadline: whoever made it may have done the work.
    #[default]
    Spend,
    /// It is given back; committing it is refused.
    GiveBack,
}

/// The answer to a reserve.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Reserve {
    /// It is held, now or since an earlier request with the same id; or committed since.
    Held(Reservation),
    /// It was held under this id, and has been released or has lapsed: nothing is held.
    Ended(Reservation),
    /// Over the limit; nothing is held.
    Refused(Decision),
}

impl From<Reservation> for Reserve {
    fn from(reservation: Reservation) -> Self {
        match reservation.state {
            ReservationState::Pending | ReservationState::Committed => Self::Held(reservation),
            ReservationState::Released | ReservationState::Lapsed => Self::Ended(reservation),
        }
    }
}

/// A reservation as it stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reservation {
    /// What it is for.
    pub cost: u64,
    /// Where it stands.
    pub state: ReservationState,
    /// Until its deadline; 0 unless it is pending.
    pub expires_in_ms: u64,
    /// Whether this request made it, and not an earlier one.
    pub is_new: bool,
}

/// Where a reservation stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReservationState {
    /// Held.
    Pending,
    /// Spent.
    Committed,
    /// Given back.
    Released,
    /// Its deadline has passed: spent or given back, by setting.
    Lapsed,
}

impl ReservationState {
    /// The name in answers.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Committed => "committed",
            Self::Released => "released",
            Self::Lapsed => "lapsed",
        }
    }
}

/// What to do with a reservation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Settle {
    Commit,
    Release,
    /// Nothing.
    See,
}

impl Settle {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Commit => "commit",
            Self::Release => "release",
            Self::See => "see",
        }
    }
}

/// Ids are remembered for the window, or for so long if that is longer.
const REMEMBERED_MS: u64 = 3_600_000;

/// How long ids are remembered after the end of their reservation.
pub(super) fn remembered_ms(window_ms: u64) -> u64 {
    window_ms.max(REMEMBERED_MS)
}

/// Ids that a call looks at, at most, to forget what is due or make room.
pub(super) const LOOKED_AT: usize = 16;

/// Checks an id, and how long a reservation may be held: no longer than a window.
pub(super) fn check(id: &str, lasting: Duration, window_ms: u64) -> Result<u64> {
    check_id(id)?;
    let lasting_ms = u64::try_from(lasting.as_millis()).unwrap_or(u64::MAX);
    if !(1..=window_ms).contains(&lasting_ms) {
        return Err(Error::invalid(format!(
            "a reservation of {lasting:?} is not allowed: 1 ms to the window, {window_ms} ms, are"
        )));
    }
    Ok(lasting_ms)
}

pub(super) fn check_id(id: &str) -> Result<()> {
    if id.is_empty() || id.len() > MAX_KEY_BYTES {
        return Err(Error::invalid(format!(
            "a reservation's id has {} bytes: 1 to {MAX_KEY_BYTES} are allowed",
            id.len()
        )));
    }
    Ok(())
}

/// The same id was used for another cost.
pub(super) fn conflict(id: &str, cost: u64, other: u64) -> Error {
    let id: String = id.chars().take(64).collect();
    Error::conflict(format!("the reservation {id:?} is for {other} and cannot be for {cost}: use another id"))
}

/// The key has as many pending reservations as it may.
pub(super) fn too_many(max: usize) -> Error {
    Error::conflict(format!("the key has {max} reservations, and those that end first are still pending"))
}

/// Where a limit holds a reservation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Place {
    /// The bucket, or the first window.
    pub(super) at: u64,
    /// Whether the next window is charged too.
    pub(super) spans: bool,
}

/// Why nothing is held.
pub(super) enum NotHeld {
    Refused(Decision),
    /// As much is lent as may be.
    TooMany,
}

/// What a limit can do with a reservation's charge.
pub(super) trait Holder {
    /// Holds `cost` for `lasting_ms` if it fits.
    fn hold(&self, cost: u64, lasting_ms: u64, on_lapse: OnLapse) -> std::result::Result<Place, NotHeld>;

    /// Spends what is held, now. False if it is no longer there, and there is no
    /// room for it.
    fn spend(&self, held: &Held) -> bool;

    /// Gives back what is held.
    fn give_back(&self, held: &Held);
}

/// What is held, and where.
#[derive(Debug, Clone, Copy)]
pub(super) struct Held {
    pub(super) cost: u64,
    pub(super) deadline_ms: u64,
    pub(super) place: Place,
    pub(super) on_lapse: OnLapse,
}

/// What is asked of the reservations of a key.
pub(super) struct Terms {
    pub(super) now_ms: u64,
    pub(super) remembered_ms: u64,
    pub(super) max: usize,
    pub(super) on_lapse: OnLapse,
}

/// The reservations of one key, in this process.
#[derive(Debug, Default)]
pub(super) struct Book {
    records: HashMap<CompactString, Record>,
    /// When each is forgotten, the first first.
    order: BTreeSet<(u64, CompactString)>,
}

#[derive(Debug, Clone, Copy)]
struct Record {
    held: Held,
    state: ReservationState,
    forget_ms: u64,
    /// Of a charge: which limits were charged together.
    together: Option<u64>,
}

/// The cost of a charge that was released before it came.
pub(super) const VOID: u64 = 0;

/// What is known of a charge by its id; `together` is none if the id is of a reservation.
pub(super) struct KnownCharge {
    pub(super) cost: u64,
    pub(super) state: ReservationState,
    pub(super) together: Option<u64>,
}

impl Record {
    fn seen(&self, now_ms: u64, is_new: bool) -> Reservation {
        let is_pending = self.state == ReservationState::Pending && self.held.deadline_ms > now_ms;
        let state = match self.state {
            ReservationState::Pending if !is_pending => ReservationState::Lapsed,
            state => state,
        };
        let expires_in_ms = if is_pending { self.held.deadline_ms - now_ms } else { 0 };
        Reservation { cost: self.held.cost, state, expires_in_ms, is_new }
    }
}

impl Book {
    pub(super) fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// The deadline of one that was neither committed nor released, 0 for none.
    pub(super) fn pending_until_ms(&self, id: &str) -> u64 {
        let pending = self.records.get(id).filter(|it| it.state == ReservationState::Pending);
        pending.map_or(0, |record| record.held.deadline_ms)
    }

    /// Those that were neither committed nor released, with their deadlines.
    pub(super) fn pending(&self) -> impl Iterator<Item = (&str, u64)> {
        let pending = self.records.iter().filter(|(_, it)| it.state == ReservationState::Pending);
        pending.map(|(id, record)| (id.as_str(), record.held.deadline_ms))
    }

    pub(super) fn reserve(
        &mut self,
        holder: &dyn Holder,
        terms: &Terms,
        id: &str,
        cost: u64,
        lasting_ms: u64,
    ) -> Result<Reserve> {
        let now_ms = terms.now_ms;
        self.forget_due(now_ms);
        if let Some(record) = self.records.get(id) {
            return match record.held.cost == cost {
                true => Ok(record.seen(now_ms, false).into()),
                false => Err(conflict(id, cost, record.held.cost)),
            };
        }
        if !self.has_room(now_ms, terms.max) {
            return Err(too_many(terms.max));
        }
        self.make_room(now_ms, terms.max);
        let deadline_ms = now_ms + lasting_ms;
        let place = match holder.hold(cost, lasting_ms, terms.on_lapse) {
            Ok(place) => place,
            Err(NotHeld::Refused(decision)) => return Ok(Reserve::Refused(decision)),
            Err(NotHeld::TooMany) => return Err(too_many(terms.max)),
        };
        let held = Held { cost, deadline_ms, place, on_lapse: terms.on_lapse };
        let forget_ms = deadline_ms + terms.remembered_ms;
        let record = Record { held, state: ReservationState::Pending, forget_ms, together: None };
        self.insert(id, record);
        Ok(record.seen(now_ms, true).into())
    }

    pub(super) fn commit(&mut self, holder: &dyn Holder, terms: &Terms, id: &str) -> Option<Reservation> {
        use ReservationState::{Committed, Lapsed, Pending};
        let record = *self.find(terms.now_ms, id)?;
        let state = match record.seen(terms.now_ms, false).state {
            Pending if holder.spend(&record.held) => Committed,
            // It has been spent already.
            Lapsed if record.state == Pending && record.held.on_lapse == OnLapse::Spend => Committed,
            Pending => Lapsed,
            state => state,
        };
        Some(self.end(terms, id, record, state))
    }

    pub(super) fn release(&mut self, holder: &dyn Holder, terms: &Terms, id: &str) -> Option<Reservation> {
        use ReservationState::{Pending, Released};
        let record = *self.find(terms.now_ms, id)?;
        let state = match record.seen(terms.now_ms, false).state {
            Pending => {
                holder.give_back(&record.held);
                Released
            }
            state => state,
        };
        Some(self.end(terms, id, record, state))
    }

    pub(super) fn see(&self, now_ms: u64, id: &str) -> Option<Reservation> {
        self.find(now_ms, id).map(|record| record.seen(now_ms, false))
    }

    fn find(&self, now_ms: u64, id: &str) -> Option<&Record> {
        self.records.get(id).filter(|record| record.forget_ms > now_ms)
    }

    /// Notes the end of a pending one; its id is remembered from now on.
    fn end(&mut self, terms: &Terms, id: &str, old: Record, state: ReservationState) -> Reservation {
        if old.state == ReservationState::Pending && state != ReservationState::Pending {
            self.insert(id, Record { state, forget_ms: terms.now_ms + terms.remembered_ms, ..old });
        }
        Reservation { cost: old.held.cost, state, expires_in_ms: 0, is_new: false }
    }

    /// Remembers a record by its id, in place of what was there.
    fn insert(&mut self, id: &str, record: Record) {
        if let Some(old) = self.records.insert(id.into(), record) {
            self.order.remove(&(old.forget_ms, CompactString::from(id)));
        }
        self.order.insert((record.forget_ms, id.into()));
    }

    /// What was charged by an id.
    pub(super) fn charge(&self, now_ms: u64, id: &str) -> Option<KnownCharge> {
        let Record { held, state, together, .. } = *self.find(now_ms, id)?;
        Some(KnownCharge { cost: held.cost, state, together })
    }

    /// Remembers what was charged by an id; there is room for it.
    pub(super) fn remember_charge(
        &mut self,
        now_ms: u64,
        id: &str,
        cost: u64,
        at: u64,
        identity: &Identity<'_>,
        max: usize,
    ) {
        self.make_room(now_ms, max);
        let place = Place { at, spans: false };
        let held = Held { cost, deadline_ms: now_ms, place, on_lapse: OnLapse::Spend };
        let (forget_ms, together) = (now_ms + identity.remembered_ms, Some(identity.together));
        self.insert(id, Record { held, state: ReservationState::Committed, forget_ms, together });
    }

    /// Notes that a charge by an id which is not known is released before it has come, where there is room: nothing else
    /// is forgotten for it.
    pub(super) fn void_charge(&mut self, now_ms: u64, id: &str, identity: &Identity<'_>, max: usize) {
        self.forget_due(now_ms);
        if self.records.len() >= max && !self.records.contains_key(id) {
            return;
        }
        let place = Place { at: 0, spans: false };
        let held = Held { cost: VOID, deadline_ms: now_ms, place, on_lapse: OnLapse::Spend };
        let (forget_ms, together) = (now_ms + identity.remembered_ms, Some(identity.together));
        self.insert(id, Record { held, state: ReservationState::Released, forget_ms, together });
    }

    /// Notes that a charge is given back, unless that was done before: what it is.
    pub(super) fn release_charge(&mut self, now_ms: u64, id: &str, remembered_ms: u64) -> Option<Held> {
        let record = *self.find(now_ms, id)?;
        if record.state != ReservationState::Committed {
            return None;
        }
        let (state, forget_ms) = (ReservationState::Released, now_ms + remembered_ms);
        self.insert(id, Record { state, forget_ms, ..record });
        Some(record.held)
    }

    pub(super) fn forget_due(&mut self, now_ms: u64) {
        for _ in 0..LOOKED_AT {
            match self.order.first() {
                Some((forget_ms, _)) if *forget_ms <= now_ms => {}
                _ => return,
            }
            if let Some((_, id)) = self.order.pop_first() {
                self.records.remove(&id);
            }
        }
    }

    /// The first that is forgotten and not pending any more, if there is one among the first few.
    fn first_over(&self, now_ms: u64) -> Option<(u64, CompactString)> {
        let is_over = |id: &CompactString| {
            let record = self.records.get(id);
            record.is_none_or(|record| record.seen(now_ms, false).state != ReservationState::Pending)
        };
        self.order.iter().take(LOOKED_AT).find(|(_, id)| is_over(id)).cloned()
    }

    /// Whether there is room for one more, or can be made.
    pub(super) fn has_room(&self, now_ms: u64, max: usize) -> bool {
        self.records.len() < max || self.first_over(now_ms).is_some()
    }

    /// Makes it.
    fn make_room(&mut self, now_ms: u64, max: usize) {
        if self.records.len() >= max
            && let Some((forget_ms, id)) = self.first_over(now_ms)
        {
            self.records.remove(&id);
            self.order.remove(&(forget_ms, id));
        }
    }
}

impl Entry for Book {
    type Context = ();

    fn end_ms(&self, (): &()) -> u64 {
        self.order.last().map_or(0, |(forget_ms, _)| *forget_ms)
    }

    /// One from a clock that was far ahead ends by itself.
    fn is_absurd(&self, (): &(), _: u64) -> bool {
        false
    }
}
