//! What is right about sessions, as plainly as possible: one map of sessions, and every
//! question answered by going through all of them.

mod list;
mod reap;

use std::collections::BTreeMap;

use super::Granted;
use crate::clock::Timestamp;
use crate::session::{
    Activated, Disconnect, Found, Generation, HeldBy, Lease, Refusal, Session, SessionId, SessionOptions,
    State,
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Claimed {
    No,
    Until(u64),
    /// Since when.
    Dead(u64),
}

#[derive(Debug, Clone)]
struct Known {
    broadcaster: String,
    config: String,
    value: String,
    generation: u64,
    updated: u64,
    seen: u64,
    /// The end of each lease; the provisional one has no name.
    holders: BTreeMap<String, u64>,
    left: Option<u64>,
    attempts: u64,
    claimed: Claimed,
}

impl Known {
    fn deadline(&self) -> u64 {
        self.holders.values().copied().max().unwrap_or(0)
    }
}

/// A time in which no lease ends that had not ended before.
#[derive(Debug, Clone, Copy)]
struct Hold {
    from: u64,
    until: u64,
}

/// The model of a space with one partition.
#[derive(Debug)]
pub struct SessionModel {
    options: SessionOptions,
    sessions: BTreeMap<SessionId, Known>,
    broadcasters: BTreeMap<String, SessionId>,
    latest: Option<u64>,
    /// All that there were, the latest last.
    holds: Vec<Hold>,
}

/// Nothing is listed or claimed in larger numbers.
const MOST: usize = 1000;

impl SessionModel {
    /// A model of a space with these options.
    pub fn new(options: SessionOptions) -> Self {
        let (sessions, broadcasters) = (BTreeMap::new(), BTreeMap::new());
        Self { options, sessions, broadcasters, latest: None, holds: Vec::new() }
    }

    fn ms(duration: std::time::Duration) -> u64 {
        duration.as_millis() as u64
    }

    fn grace(&self) -> u64 {
        Self::ms(self.options.grace)
    }

    fn lease(&self) -> u64 {
        Self::ms(self.options.holder_lease)
    }

    fn ttl(&self) -> u64 {
        Self::ms(self.options.session_ttl)
    }

    /// Whatever is dated later was dated by a clock that was wrong.
    fn far(&self, now: u64) -> u64 {
        now + Self::ms(self.options.retention)
    }

    fn now(&mut self, clock: u64) -> u64 {
        let tolerated = Self::ms(self.options.retention).min(600_000);
        let latest = self.latest.unwrap_or(clock);
        let is_wrong = latest > clock + tolerated;
        let now = if is_wrong { clock } else { latest.max(clock) };
        self.latest = Some(now);
        if is_wrong || clock > latest && 2 * (clock - latest) > self.lease() {
            self.begin_hold(latest.min(now), now);
        }
        now
    }

    /// Nobody was there from `from` to `now`.
    fn begin_hold(&mut self, mut from: u64, now: u64) {
        // One that had not ended when somebody was last there goes on.
        if let Some(running) = self.holds.pop_if(|it| it.until > from) {
            from = running.from;
        }
        // Those of a clock that was wrong are over.
        self.holds.iter_mut().for_each(|it| it.until = it.until.min(now));
        self.holds.push(Hold { from: from.min(now), until: now + self.lease() });
    }

    /// Until when no lease ends and nothing is reaped.
    fn held_until(&self, now: u64) -> Option<u64> {
        self.holds.last().map(|it| it.until).filter(|until| now < *until)
    }

    /// Somebody is there; until when a hold runs.
    pub fn stamp(&mut self, clock: u64) -> Option<u64> {
        let now = self.now(clock);
        self.held_until(now)
    }

    /// When a lease ends that was given until then: with the last hold if it had not ended
    /// before, and never before the end of a hold that came earlier.
    fn ends(&self, given: u64) -> u64 {
        match self.holds.as_slice() {
            [.., last] if given > last.from => given.max(last.until),
            [.., before, _] => given.max(before.until),
            _ => given,
        }
    }

    /// Moments at which something changes by itself.
    pub fn edges(&self) -> Vec<u64> {
        let mut edges = Vec::new();
        edges.extend(self.holds.last().map(|it| it.until));
        edges.extend(self.latest.map(|it| it + self.lease() / 2));
        for it in self.sessions.values() {
            edges.extend(it.holders.values());
            edges.extend(it.left.map(|left| left + self.grace()));
            edges.push(it.seen + self.ttl());
            if let Claimed::Until(until) = it.claimed {
                edges.push(until);
            }
        }
        edges.sort_unstable();
        edges
    }

    /// The life that a session is in.
    pub fn generation(&self, id: SessionId) -> Option<u64> {
        self.sessions.get(&id).map(|it| it.generation)
    }

    /// What time has done to a session; whether it was found silent.
    fn touch(&mut self, id: SessionId, now: u64) -> bool {
        let (far, lease, claim) = (self.far(now), self.lease(), Self::ms(self.options.claim_lease));
        let Some(mut it) = self.sessions.get(&id).cloned() else { return false };
        let until = if let Claimed::Until(until) = it.claimed { until } else { 0 };
        if [it.seen, it.deadline(), it.left.unwrap_or(0), until].iter().any(|at| *at > far) {
            it.seen = it.seen.min(now);
            match it.left {
                None => it.holders = BTreeMap::from([(String::new(), now + lease)]),
                Some(left) => it.left = Some(left.min(now)),
            }
            if until > far {
                it.claimed = Claimed::Until(now + claim);
            }
        }
        let is_silent = it.left.is_none() && self.ends(it.deadline()) <= now;
        if is_silent {
            it.left = Some(self.ends(it.deadline()));
            it.holders.clear();
        }
        self.sessions.insert(id, it);
        is_silent
    }

    fn living(&mut self, id: SessionId, now: u64, generation: Option<Generation>) -> Granted<&mut Known> {
        self.touch(id, now);
        let (ttl, lease) = (self.ttl(), self.lease());
        let held = self.holds.last().map_or(0, |it| it.until);
        let it = self.sessions.get_mut(&id).ok_or(Refusal::Gone)?;
        if it.claimed != Claimed::No {
            return Err(Refusal::Reaping);
        }
        // The end of a hold is a lease after its beginning, when all counted as seen.
        if it.left.is_some_and(|left| it.seen.max(left.min(held).saturating_sub(lease)) + ttl <= now) {
            return Err(Refusal::Gone);
        }
        if generation.is_some_and(|meant| meant.get() != it.generation) {
            return Err(Refusal::Stale);
        }
        Ok(it)
    }

    fn hold(&mut self, id: SessionId, now: u64, holder: &str) -> Granted<Lease> {
        let (lease, most) = (self.lease(), self.options.max_holders);
        let mut it = self.sessions.get(&id).cloned().ok_or(Refusal::Gone)?;
        let held = |it: &Known, name: &str| it.holders.get(name).copied().filter(|it| self.ends(*it) > now);
        let named = |it: &Known| it.holders.keys().filter(|name| !name.is_empty()).count();
        if !holder.is_empty() && held(&it, holder).is_none() && named(&it) >= most {
            // Those whose lease has ended make room: if the clock is put back, they are not there again.
            it.holders.retain(|_, given| self.ends(*given) > now);
            if named(&it) >= most {
                self.sessions.insert(id, it);
                return Err(Refusal::TooManyHolders);
            }
        }
        if it.left.is_some() {
            it.generation += 1;
            it.left = None;
        } else if !holder.is_empty() {
            it.holders.remove("");
        }
        it.seen = now;
        let until = held(&it, holder).unwrap_or(0).max(now + lease);
        it.holders.insert(holder.to_owned(), until);
        let generation = Generation::new(it.generation);
        self.sessions.insert(id, it);
        Ok(Lease { generation, until: Timestamp::from_millis(until) })
    }

    /// Holders that hold it now.
    fn live(&self, it: &Known, now: u64) -> usize {
        it.holders.iter().filter(|(name, given)| !name.is_empty() && self.ends(**given) > now).count()
    }

    fn erase(&mut self, id: SessionId) {
        self.sessions.remove(&id);
        self.broadcasters.retain(|_, mapped| *mapped != id);
    }

    /// `new` is the id of the session if it is a new one.
    pub fn activate(
        &mut self,
        clock: u64,
        new: SessionId,
        broadcaster: &str,
        config: &str,
        holder: Option<&str>,
    ) -> Granted<Activated> {
        let (now, holder) = (self.now(clock), holder.unwrap_or(""));
        if let Some(id) = self.broadcasters.get(broadcaster).copied()
            && let Ok(it) = self.living(id, now, None)
        {
            let found = if it.left.is_some() { Found::Disconnected } else { Found::Active };
            let lease = self.hold(id, now, holder)?;
            let it = self.sessions.get_mut(&id).expect("it is held");
            config.clone_into(&mut it.config);
            it.updated = now / 1000;
            return Ok(Activated { id, lease, found });
        }
        if self.sessions.len() >= self.options.max_sessions {
            return Err(Refusal::Full);
        }
        let fresh = Known {
            broadcaster: broadcaster.to_owned(),
            config: config.to_owned(),
            value: String::new(),
            generation: 1,
            updated: now / 1000,
            seen: now,
            holders: BTreeMap::new(),
            left: None,
            attempts: 0,
            claimed: Claimed::No,
        };
        self.sessions.insert(new, fresh);
        self.broadcasters.insert(broadcaster.to_owned(), new);
        let lease = self.hold(new, now, holder)?;
        Ok(Activated { id: new, lease, found: Found::Nothing })
    }

    /// One more holder of an active session.
    pub fn connect(
        &mut self,
        clock: u64,
        id: SessionId,
        name: &str,
        of: Option<Generation>,
    ) -> Granted<Lease> {
        let now = self.now(clock);
        if self.living(id, now, of)?.left.is_some() {
            return Err(Refusal::Disconnected);
        }
        self.hold(id, now, name)
    }

    /// A holder of a session that may have been left.
    pub fn resume(
        &mut self,
        clock: u64,
        id: SessionId,
        name: &str,
        of: Option<Generation>,
    ) -> Granted<Lease> {
        let now = self.now(clock);
        self.living(id, now, of)?;
        self.hold(id, now, name)
    }

    /// A holder is still there.
    pub fn heartbeat(
        &mut self,
        clock: u64,
        id: SessionId,
        name: &str,
        of: Option<Generation>,
    ) -> Granted<Lease> {
        let now = self.now(clock);
        let it = self.living(id, now, of)?;
        if it.left.is_some() {
            return Err(Refusal::Disconnected);
        }
        let given = it.holders.get(name).copied().ok_or(Refusal::Lapsed)?;
        if self.ends(given) <= now {
            return Err(Refusal::Lapsed);
        }
        // It is a holder already: only its lease is another, and nobody else's.
        let until = given.max(now + self.lease());
        let it = self.sessions.get_mut(&id).ok_or(Refusal::Gone)?;
        it.seen = now;
        it.holders.insert(name.to_owned(), until);
        Ok(Lease { generation: Generation::new(it.generation), until: Timestamp::from_millis(until) })
    }

    /// A holder leaves.
    pub fn disconnect(
        &mut self,
        clock: u64,
        id: SessionId,
        name: &str,
        of: Option<Generation>,
    ) -> Granted<Disconnect> {
        let now = self.now(clock);
        let mut it = self.living(id, now, of)?.clone();
        if it.left.is_some() {
            return Ok(Disconnect::Disconnected);
        }
        if it.holders.get(name).is_none_or(|given| self.ends(*given) <= now) {
            return Ok(Disconnect::Held);
        }
        it.holders.remove(name);
        it.seen = now;
        let is_held = it.holders.values().any(|given| self.ends(*given) > now);
        self.sessions.insert(id, it);
        if is_held {
            return Ok(Disconnect::Held);
        }
        let it = self.sessions.get_mut(&id).ok_or(Refusal::Gone)?;
        it.left = Some(now);
        it.holders.clear();
        Ok(Disconnect::Disconnected)
    }

    /// A session as it is.
    pub fn get(&mut self, clock: u64, id: SessionId) -> Option<Session> {
        let now = self.now(clock);
        self.touch(id, now);
        let it = self.sessions.get(&id)?;
        Some(Session {
            id,
            broadcaster: it.broadcaster.clone(),
            config: it.config.clone(),
            value: it.value.clone(),
            state: match (it.claimed, it.left) {
                (Claimed::Until(_), _) => State::Claimed,
                (Claimed::Dead(_), _) => State::Dead,
                (_, None) => State::Active,
                (_, Some(left)) if left + self.grace() <= now => State::Orphan,
                _ => State::Disconnected,
            },
            generation: Generation::new(it.generation),
            ref_count: self.live(it, now) as u64,
            holders: it
                .holders
                .iter()
                .filter(|(name, given)| !name.is_empty() && self.ends(**given) > now)
                .map(|(name, given)| HeldBy {
                    holder: name.clone(),
                    until: Timestamp::from_millis(self.ends(*given)),
                })
                .collect(),
            held_until: it.left.is_none().then(|| Timestamp::from_millis(self.ends(it.deadline()))),
            last_disconnect: it.left.map(Timestamp::from_millis),
            last_update: Timestamp::from_millis(it.updated * 1000),
            last_seen: Timestamp::from_millis(it.seen),
            attempts: it.attempts,
        })
    }

    /// The session that a broadcaster last activated.
    pub fn find(&mut self, clock: u64, broadcaster: &str) -> Option<Session> {
        self.now(clock);
        let id = *self.broadcasters.get(broadcaster)?;
        self.get(clock, id)
    }

    /// A new value.
    pub fn update(
        &mut self,
        clock: u64,
        id: SessionId,
        value: &str,
        of: Option<Generation>,
    ) -> Granted<Generation> {
        let now = self.now(clock);
        let it = self.living(id, now, of)?;
        value.clone_into(&mut it.value);
        it.updated = now / 1000;
        Ok(Generation::new(it.generation))
    }

    /// Deletes what nobody holds and nobody reaps.
    pub fn delete(&mut self, clock: u64, id: SessionId) -> Granted<()> {
        let now = self.now(clock);
        self.touch(id, now);
        let it = self.sessions.get(&id).ok_or(Refusal::Gone)?;
        if it.left.is_none() {
            return Err(Refusal::Active);
        }
        if matches!(it.claimed, Claimed::Until(_)) {
            return Err(Refusal::Reaping);
        }
        self.erase(id);
        Ok(())
    }
}
