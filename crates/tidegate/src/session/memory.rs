//! Sessions in this process: one table, and one place for each session in one of four
//! lists by time.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Bound;
use std::time::Duration;

use compact_str::CompactString;

use super::hold::Hold;
use super::options::{Bounds, STAMP_MS, SessionOptions};
use super::types::{
    Activated, Counts, Disconnect, Found, Generation, Granted, HeldBy, Lease, List, Listed, Refusal, Session,
    SessionId, State,
};
use crate::clock::{Timestamp, deciding};

mod reap;
#[cfg(test)]
mod tests;

pub(super) use self::reap::DryRunPlace;
use self::reap::Settled;

/// The lists, as scripts number them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Set {
    /// By the end of the last lease.
    Active,
    /// By when they were left.
    Disconnected,
    /// By the end of the claim.
    Claimed,
    /// By when they were put aside.
    Dead,
}

impl Set {
    /// Where sessions in `state` are, and how long ago they were left at least.
    pub(super) fn listing(state: State, options: &SessionOptions) -> (Self, Duration) {
        match state {
            State::Active => (Self::Active, Duration::ZERO),
            State::Disconnected => (Self::Disconnected, Duration::ZERO),
            State::Orphan => (Self::Disconnected, options.grace),
            State::Claimed => (Self::Claimed, Duration::ZERO),
            State::Dead => (Self::Dead, Duration::ZERO),
        }
    }
}

/// What a sweep looks after.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sweep {
    /// Who has fallen silent.
    Lapsed,
    /// Orphans besides, that nobody has claimed.
    Unclaimed,
    /// And those whose claim has ended.
    All,
}

/// How a session is being reaped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Claimed {
    No,
    Until(u64),
    Dead,
}

#[derive(Debug, Clone)]
struct Entry {
    broadcaster: CompactString,
    config: Box<str>,
    value: Box<str>,
    generation: u64,
    updated_s: u64,
    seen_ms: u64,
    /// When each lease ends; without a name, that of whoever is about to connect.
    holders: BTreeMap<CompactString, u64>,
    left_ms: Option<u64>,
    attempts: u64,
    claimed: Claimed,
    /// Where it is listed.
    place: (Set, u64),
}

impl Entry {
    /// The end of the last lease.
    fn deadline_ms(&self) -> u64 {
        self.holders.values().copied().max().unwrap_or(0)
    }

    /// Holders whose leases are written down, those that have ended among them.
    fn named(&self) -> u64 {
        self.holders.len() as u64 - u64::from(self.holders.contains_key(""))
    }

    /// Where it belongs; a dead one stays where it was put.
    fn home(&self) -> (Set, u64) {
        match (self.left_ms, self.claimed) {
            (None, _) => (Set::Active, self.deadline_ms()),
            (Some(left_ms), Claimed::No) => (Set::Disconnected, left_ms),
            (_, Claimed::Until(until_ms)) => (Set::Claimed, until_ms),
            (_, Claimed::Dead) => (Set::Dead, self.place.1),
        }
    }
}

/// What one partition of a space has.
#[derive(Debug)]
pub(super) struct Partition {
    bounds: Bounds,
    /// How much longer than `retention_ms` anything is kept.
    slack_ms: u64,
    /// The latest moment that anything was done at.
    stamp_ms: Option<u64>,
    hold: Hold,
    sessions: HashMap<SessionId, Entry>,
    broadcasters: HashMap<CompactString, SessionId>,
    sets: [BTreeSet<(u64, SessionId)>; 4],
}

impl Partition {
    pub(super) fn new(bounds: Bounds, slack_ms: u64) -> Self {
        Self {
            bounds,
            slack_ms,
            stamp_ms: None,
            hold: Hold::default(),
            sessions: HashMap::new(),
            broadcasters: HashMap::new(),
            sets: Default::default(),
        }
    }

    /// The time that decides. If nobody has asked for long, a hold begins:
    /// this process was stopped, or its machine.
    fn advance(&mut self, clock_ms: u64) -> u64 {
        let Some(stamp_ms) = self.stamp_ms else {
            self.stamp_ms = Some(clock_ms);
            return clock_ms;
        };
        let (now_ms, is_absurd) = deciding(clock_ms, stamp_ms, self.bounds.retention_ms.min(STAMP_MS));
        if is_absurd || 2 * clock_ms.saturating_sub(stamp_ms) > self.bounds.lease_ms {
            self.hold.begin(stamp_ms, now_ms, self.bounds.lease_ms);
        }
        self.stamp_ms = Some(now_ms);
        now_ms
    }

    /// Somebody is there; until when a hold runs. Here that is said however lately it was.
    pub(super) fn stamp(&mut self, clock_ms: u64, _: Duration) -> Option<Timestamp> {
        self.advance(clock_ms);
        self.held_until().map(Timestamp::from_millis)
    }

    /// Until when no lease ends and nothing is reaped.
    pub(super) fn held_until(&self) -> Option<u64> {
        self.stamp_ms.is_some_and(|now_ms| now_ms < self.hold.until_ms).then_some(self.hold.until_ms)
    }

    /// Lists a session where it belongs.
    fn file(&mut self, id: SessionId) {
        let Some(entry) = self.sessions.get_mut(&id) else { return };
        let (set, at_ms) = entry.place;
        entry.place = entry.home();
        self.sets[set as usize].remove(&(at_ms, id));
        self.sets[entry.place.0 as usize].insert((entry.place.1, id));
    }

    /// Brings a session up to `now_ms`; whether its holders have just been found silent.
    /// It was left when the last lease ended.
    fn settle(&mut self, id: SessionId, now_ms: u64) -> bool {
        let Some(entry) = self.sessions.get_mut(&id) else { return false };
        let settled = entry.settle(&self.bounds, &self.hold, now_ms);
        if settled != Settled::AsItWas {
            self.file(id);
        }
        settled == Settled::Silent
    }

    /// A session that can still be held, or why it cannot.
    fn living(&mut self, id: SessionId, now_ms: u64, generation: Option<Generation>) -> Granted<&mut Entry> {
        self.settle(id, now_ms);
        let Bounds { ttl_ms, lease_ms, .. } = self.bounds;
        let hold_ms = self.hold.until_ms;
        let entry = self.sessions.get_mut(&id).ok_or(Refusal::Gone)?;
        // One that was left at the end of a hold counts as seen when that began.
        let seen_ms = |left_ms: u64| entry.seen_ms.max(left_ms.min(hold_ms).saturating_sub(lease_ms));
        let is_expired = entry.left_ms.is_some_and(|left_ms| seen_ms(left_ms) + ttl_ms <= now_ms);
        match entry.claimed {
            Claimed::No if is_expired => Err(Refusal::Gone),
            Claimed::No if generation.is_some_and(|it| it.0 != entry.generation) => Err(Refusal::Stale),
            Claimed::No => Ok(entry),
            _ => Err(Refusal::Reaping),
        }
    }

    /// Gives a holder its lease. Without a name it is that of whoever is about to
    /// connect, and ends when somebody does.
    fn hold(&mut self, id: SessionId, now_ms: u64, holder: &str) -> Granted<Lease> {
        let (bounds, hold) = (self.bounds, self.hold);
        let entry = self.sessions.get_mut(&id).ok_or(Refusal::Gone)?;
        let is_over = |until_ms: &u64| hold.ends_ms(*until_ms) <= now_ms;
        let is_new = !holder.is_empty() && entry.holders.get(holder).is_none_or(is_over);
        if is_new && entry.named() >= bounds.max_holders {
            // Leases that have ended are forgotten where there is no room for them, as on Redis.
            entry.holders.retain(|_, until_ms| !is_over(until_ms));
            if entry.named() >= bounds.max_holders {
                return Err(Refusal::TooManyHolders);
            }
        }
        if entry.left_ms.take().is_some() {
            entry.generation += 1;
        } else if !holder.is_empty() {
            entry.holders.remove("");
        }
        entry.seen_ms = now_ms;
        let ends_ms = entry.holders.get(holder).copied().unwrap_or(0).max(now_ms + bounds.lease_ms);
        entry.holders.insert(holder.into(), ends_ms);
        let lease =
            Lease { generation: Generation(entry.generation), until: Timestamp::from_millis(ends_ms) };
        self.file(id);
        Ok(lease)
    }

    /// The end of a session. Its broadcaster may have a newer one by now.
    fn erase(&mut self, id: SessionId) {
        let Some(entry) = self.sessions.remove(&id) else { return };
        if self.broadcasters.get(&entry.broadcaster) == Some(&id) {
            self.broadcasters.remove(&entry.broadcaster);
        }
        self.sets[entry.place.0 as usize].remove(&(entry.place.1, id));
    }

    pub(super) fn activate(
        &mut self,
        clock_ms: u64,
        new: SessionId,
        broadcaster: &str,
        config: &str,
        holder: &str,
    ) -> Granted<Activated> {
        let now_ms = self.advance(clock_ms);
        if let Some(id) = self.broadcasters.get(broadcaster).copied()
            && let Ok(entry) = self.living(id, now_ms, None)
        {
            let found = if entry.left_ms.is_some() { Found::Disconnected } else { Found::Active };
            let lease = self.hold(id, now_ms, holder)?;
            if let Some(entry) = self.sessions.get_mut(&id) {
                entry.config = config.into();
                entry.updated_s = now_ms / 1000;
            }
            return Ok(Activated { id, lease, found });
        }
        if self.sessions.len() as u64 >= self.bounds.max_sessions {
            return Err(Refusal::Full);
        }
        let entry = Entry {
            broadcaster: broadcaster.into(),
            config: config.into(),
            value: Box::default(),
            generation: 1,
            updated_s: now_ms / 1000,
            seen_ms: now_ms,
            holders: BTreeMap::new(),
            left_ms: None,
            attempts: 0,
            claimed: Claimed::No,
            place: (Set::Active, 0),
        };
        self.sessions.insert(new, entry);
        self.broadcasters.insert(broadcaster.into(), new);
        let lease = self.hold(new, now_ms, holder)?;
        Ok(Activated { id: new, lease, found: Found::Nothing })
    }

    pub(super) fn connect(
        &mut self,
        clock_ms: u64,
        id: SessionId,
        holder: &str,
        generation: Option<Generation>,
    ) -> Granted<Lease> {
        let now_ms = self.advance(clock_ms);
        if self.living(id, now_ms, generation)?.left_ms.is_some() {
            return Err(Refusal::Disconnected);
        }
        self.hold(id, now_ms, holder)
    }

    pub(super) fn resume(
        &mut self,
        clock_ms: u64,
        id: SessionId,
        holder: &str,
        generation: Option<Generation>,
    ) -> Granted<Lease> {
        let now_ms = self.advance(clock_ms);
        self.living(id, now_ms, generation)?;
        self.hold(id, now_ms, holder)
    }

    pub(super) fn heartbeat(
        &mut self,
        clock_ms: u64,
        id: SessionId,
        holder: &str,
        generation: Option<Generation>,
    ) -> Granted<Lease> {
        let now_ms = self.advance(clock_ms);
        let (lease_ms, hold) = (self.bounds.lease_ms, self.hold);
        let entry = self.living(id, now_ms, generation)?;
        if entry.left_ms.is_some() {
            return Err(Refusal::Disconnected);
        }
        let held = entry.holders.get_mut(holder).filter(|it| hold.ends_ms(**it) > now_ms);
        let ends_ms = held.ok_or(Refusal::Lapsed)?;
        *ends_ms = (*ends_ms).max(now_ms + lease_ms);
        entry.seen_ms = now_ms;
        let until = Timestamp::from_millis(*ends_ms);
        let lease = Lease { generation: Generation(entry.generation), until };
        self.file(id);
        Ok(lease)
    }

    pub(super) fn disconnect(
        &mut self,
        clock_ms: u64,
        id: SessionId,
        holder: &str,
        generation: Option<Generation>,
    ) -> Granted<Disconnect> {
        let now_ms = self.advance(clock_ms);
        let hold = self.hold;
        let is_over = |until_ms: &u64| hold.ends_ms(*until_ms) <= now_ms;
        let entry = self.living(id, now_ms, generation)?;
        if entry.left_ms.is_some() {
            return Ok(Disconnect::Disconnected);
        }
        if entry.holders.get(holder).is_none_or(is_over) {
            return Ok(Disconnect::Held);
        }
        entry.holders.remove(holder);
        entry.seen_ms = now_ms;
        let is_left = entry.holders.values().all(is_over);
        if is_left {
            entry.left_ms = Some(now_ms);
            entry.holders.clear();
        }
        self.file(id);
        Ok(if is_left { Disconnect::Disconnected } else { Disconnect::Held })
    }

    pub(super) fn get(&mut self, clock_ms: u64, id: SessionId) -> Option<Session> {
        let now_ms = self.advance(clock_ms);
        self.settle(id, now_ms);
        let entry = self.sessions.get(&id)?;
        let is_orphan = entry.left_ms.is_some_and(|left_ms| left_ms + self.bounds.grace_ms <= now_ms);
        let ends = |until_ms: &u64| self.hold.ends_ms(*until_ms);
        let held =
            entry.holders.iter().filter(|(name, until_ms)| !name.is_empty() && ends(until_ms) > now_ms);
        let held_by = |(name, until_ms): (&CompactString, &u64)| HeldBy {
            holder: name.to_string(),
            until: Timestamp::from_millis(ends(until_ms)),
        };
        let holders: Vec<_> = held.map(held_by).collect();
        Some(Session {
            id,
            broadcaster: entry.broadcaster.to_string(),
            config: entry.config.to_string(),
            value: entry.value.to_string(),
            state: match (entry.left_ms, entry.claimed) {
                (None, _) => State::Active,
                (_, Claimed::Until(_)) => State::Claimed,
                (_, Claimed::Dead) => State::Dead,
                _ if is_orphan => State::Orphan,
                _ => State::Disconnected,
            },
            generation: Generation(entry.generation),
            ref_count: holders.len() as u64,
            holders,
            held_until: entry.left_ms.is_none().then(|| Timestamp::from_millis(ends(&entry.deadline_ms()))),
            last_disconnect: entry.left_ms.map(Timestamp::from_millis),
            last_update: Timestamp::from_millis(entry.updated_s * 1000),
            last_seen: Timestamp::from_millis(entry.seen_ms),
            attempts: entry.attempts,
        })
    }

    pub(super) fn find(&mut self, clock_ms: u64, broadcaster: &str) -> Option<Session> {
        self.advance(clock_ms);
        let id = *self.broadcasters.get(broadcaster)?;
        self.get(clock_ms, id)
    }

    pub(super) fn update(
        &mut self,
        clock_ms: u64,
        id: SessionId,
        value: &str,
        generation: Option<Generation>,
    ) -> Granted<Generation> {
        let now_ms = self.advance(clock_ms);
        let entry = self.living(id, now_ms, generation)?;
        entry.value = value.into();
        entry.updated_s = now_ms / 1000;
        Ok(Generation(entry.generation))
    }

    pub(super) fn delete(&mut self, clock_ms: u64, id: SessionId) -> Granted<()> {
        let now_ms = self.advance(clock_ms);
        self.settle(id, now_ms);
        let entry = self.sessions.get(&id).ok_or(Refusal::Gone)?;
        match (entry.left_ms, entry.claimed) {
            (None, _) => Err(Refusal::Active),
            (_, Claimed::Until(_)) => Err(Refusal::Reaping),
            _ => {
                self.erase(id);
                Ok(())
            }
        }
    }

    /// Sessions of a list, the first first; of the disconnected, those that were left at
    /// least `age_ms` ago, the silent ones among them.
    pub(super) fn list(
        &mut self,
        clock_ms: u64,
        set: Set,
        age_ms: u64,
        after: Option<Listed>,
        limit: usize,
    ) -> List {
        let now_ms = self.advance(clock_ms);
        let listed = |&(at_ms, id): &(u64, SessionId)| Listed { at: Timestamp::from_millis(at_ms), id };
        let after = after.map_or(Bound::Unbounded, |it| Bound::Excluded((it.at.as_millis(), it.id)));
        let of = |set: Set| self.sets[set as usize].range((after, Bound::Unbounded));
        let mut sessions: Vec<_> = match set {
            Set::Active => {
                let ended = self.hold.ended_by(now_ms).map(|ms| (ms, SessionId::LAST));
                let from = match after {
                    Bound::Excluded(after) if ended.is_none_or(|ended| after > ended) => {
                        Bound::Excluded(after)
                    }
                    _ => ended.map_or(Bound::Unbounded, Bound::Excluded),
                };
                self.sets[set as usize].range((from, Bound::Unbounded)).take(limit).map(listed).collect()
            }
            Set::Disconnected => {
                let until_ms = now_ms.saturating_sub(age_ms);
                let ended = self.hold.ended_by(until_ms);
                let left = of(set).take_while(|(left, _)| *left <= until_ms);
                let silent = of(Set::Active).take_while(|(at_ms, _)| ended.is_some_and(|it| *at_ms <= it));
                left.take(limit).chain(silent.take(limit)).map(listed).collect()
            }
            _ => of(set).take(limit).map(listed).collect(),
        };
        sessions.sort();
        sessions.truncate(limit);
        List { sessions, invalid: 0 }
    }

    pub(super) fn counts(&mut self, clock_ms: u64) -> Counts {
        let now_ms = self.advance(clock_ms);
        let due_ms = now_ms.saturating_sub(self.bounds.grace_ms);
        let until = |set: Set, ms: u64| {
            self.sets[set as usize].iter().take_while(|(at_ms, _)| *at_ms <= ms).count() as u64
        };
        let of = |set: Set| self.sets[set as usize].len() as u64;
        let silent = |at_ms: u64| self.hold.ended_by(at_ms).map_or(0, |ms| until(Set::Active, ms));
        Counts {
            active: of(Set::Active) - silent(now_ms),
            disconnected: of(Set::Disconnected) + silent(now_ms),
            orphans: until(Set::Disconnected, due_ms) + silent(due_ms),
            claimed: of(Set::Claimed),
            dead: of(Set::Dead),
            lag_ms: self.lag_ms(now_ms),
            held_until: self.held_until().map(Timestamp::from_millis),
        }
    }

    /// For how long the first orphan has been due.
    fn lag_ms(&self, now_ms: u64) -> u64 {
        let first = |set: Set| self.sets[set as usize].first().map(|(at_ms, _)| *at_ms);
        let silent = first(Set::Active).map(|at_ms| self.hold.ends_ms(at_ms));
        let oldest = [first(Set::Disconnected), silent].into_iter().flatten().min();
        let due_ms = now_ms.saturating_sub(self.bounds.grace_ms);
        oldest.map_or(0, |oldest_ms| due_ms.saturating_sub(oldest_ms))
    }
}
