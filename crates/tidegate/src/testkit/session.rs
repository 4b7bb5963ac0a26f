//! What is right about sessions, as plainly as possible: one map of sessions, and every
//! question answered by going through all of them.

mod reap;

use std::collections::BTreeMap;

use crate::clock::Timestamp;
use crate::session::{
    Activated, Answer, Counts, Found, Generation, Hold, Lease, Left, List, Listed, Refusal, Session,
    SessionId, SessionOptions, State,
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

/// The model of a space with one partition.
#[derive(Debug)]
pub struct SessionModel {
    options: SessionOptions,
    sessions: BTreeMap<SessionId, Known>,
    broadcasters: BTreeMap<String, SessionId>,
    latest: u64,
}

/// Nothing is listed or claimed in larger numbers.
const MOST: usize = 1000;

impl SessionModel {
    /// A model of a space with these options.
    pub fn new(options: SessionOptions) -> Self {
        Self { options, sessions: BTreeMap::new(), broadcasters: BTreeMap::new(), latest: 0 }
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
        self.latest = if self.latest > clock + tolerated { clock } else { self.latest.max(clock) };
        self.latest
    }

    /// Moments at which something changes by itself.
    pub fn edges(&self) -> Vec<u64> {
        let mut edges = Vec::new();
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
        let Some(it) = self.sessions.get_mut(&id) else { return false };
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
        if it.left.is_none() && it.deadline() <= now {
            it.left = Some(it.deadline());
            it.holders.clear();
            return true;
        }
        false
    }

    fn living(&mut self, id: SessionId, now: u64, generation: Option<Generation>) -> Answer<&mut Known> {
        self.touch(id, now);
        let ttl = self.ttl();
        let it = self.sessions.get_mut(&id).ok_or(Refusal::Gone)?;
        if it.claimed != Claimed::No {
            return Err(Refusal::Reaping);
        }
        if it.seen + ttl <= now {
            return Err(Refusal::Gone);
        }
        if generation.is_some_and(|meant| meant.get() != it.generation) {
            return Err(Refusal::Stale);
        }
        Ok(it)
    }

    fn hold(&mut self, id: SessionId, now: u64, holder: &str) -> Answer<Lease> {
        let (lease, most) = (self.lease(), self.options.max_holders);
        let it = self.sessions.get_mut(&id).ok_or(Refusal::Gone)?;
        let held = |it: &Known, name: &str| it.holders.get(name).copied().filter(|ends| *ends > now);
        if !holder.is_empty() && held(it, holder).is_none() {
            let live = it.holders.iter().filter(|(name, ends)| !name.is_empty() && **ends > now).count();
            if live >= most {
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
        let until = held(it, holder).unwrap_or(0).max(now + lease);
        it.holders.insert(holder.to_owned(), until);
        Ok(Lease { generation: Generation::new(it.generation), until: Timestamp::from_millis(until) })
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
    ) -> Answer<Activated> {
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
    ) -> Answer<Lease> {
        let now = self.now(clock);
        if self.living(id, now, of)?.left.is_some() {
            return Err(Refusal::Disconnected);
        }
        self.hold(id, now, name)
    }

    /// A holder of a session that may have been left.
    pub fn resume(&mut self, clock: u64, id: SessionId, name: &str, of: Option<Generation>) -> Answer<Lease> {
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
    ) -> Answer<Lease> {
        let now = self.now(clock);
        let it = self.living(id, now, of)?;
        if it.left.is_some() {
            return Err(Refusal::Disconnected);
        }
        match it.holders.get(name) {
            Some(ends) if *ends > now => {}
            _ => return Err(Refusal::Lapsed),
        }
        // It is a holder already: only its lease is another, and nobody else's.
        let until = it.holders[name].max(now + Self::ms(self.options.holder_lease));
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
    ) -> Answer<Left> {
        let now = self.now(clock);
        let it = self.living(id, now, of)?;
        if it.left.is_some() {
            return Ok(Left::Disconnected);
        }
        if it.holders.get(name).is_none_or(|ends| *ends <= now) {
            return Ok(Left::Held);
        }
        it.holders.remove(name);
        it.seen = now;
        if it.holders.values().any(|ends| *ends > now) {
            return Ok(Left::Held);
        }
        it.left = Some(now);
        it.holders.clear();
        Ok(Left::Disconnected)
    }

    /// A session as it is.
    pub fn get(&mut self, clock: u64, id: SessionId) -> Option<Session> {
        let now = self.now(clock);
        self.touch(id, now);
        let it = self.sessions.get(&id)?;
        let live = it.holders.iter().filter(|(name, ends)| !name.is_empty() && **ends > now);
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
            ref_count: live.clone().count() as u64,
            holders: live
                .map(|(name, ends)| Hold { holder: name.clone(), until: Timestamp::from_millis(*ends) })
                .collect(),
            held_until: it.left.is_none().then(|| Timestamp::from_millis(it.deadline())),
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
    ) -> Answer<Generation> {
        let now = self.now(clock);
        let it = self.living(id, now, of)?;
        value.clone_into(&mut it.value);
        it.updated = now / 1000;
        Ok(Generation::new(it.generation))
    }

    /// Deletes what nobody holds and nobody reaps.
    pub fn delete(&mut self, clock: u64, id: SessionId) -> Answer<()> {
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

    /// When it was left, noticed or not; nothing for those that are reaped.
    fn left(it: &Known, now: u64) -> Option<u64> {
        let silent = (it.left.is_none() && it.deadline() <= now).then(|| it.deadline());
        it.left.or(silent).filter(|_| it.claimed == Claimed::No)
    }

    /// Sessions with the moment that `at` has for them, by it.
    fn by_time(&self, at: impl Fn(&Known) -> Option<u64>) -> Vec<Listed> {
        let mut sessions: Vec<_> = self
            .sessions
            .iter()
            .filter_map(|(id, it)| Some(Listed { at: Timestamp::from_millis(at(it)?), id: *id }))
            .collect();
        sessions.sort();
        sessions
    }

    /// Those behind `after`.
    fn page(all: Vec<Listed>, after: Option<Listed>, limit: usize) -> List {
        let behind = all.into_iter().filter(|it| after.is_none_or(|after| *it > after));
        List { sessions: behind.take(limit.min(MOST)).collect(), invalid: 0 }
    }

    /// Those that were left for at least so long.
    pub fn orphans(&mut self, clock: u64, max_age: u64, after: Option<Listed>, limit: usize) -> List {
        let now = self.now(clock);
        let all = self.by_time(|it| Self::left(it, now).filter(|left| left + max_age <= now));
        Self::page(all, after, limit)
    }

    /// Those in a state.
    pub fn list(&mut self, clock: u64, state: State, after: Option<Listed>, limit: usize) -> List {
        let now = self.now(clock);
        let all = match state {
            State::Disconnected => return self.orphans(clock, 0, after, limit),
            State::Orphan => return self.orphans(clock, self.grace(), after, limit),
            State::Active => {
                self.by_time(|it| Some(it.deadline()).filter(|ends| it.left.is_none() && *ends > now))
            }
            State::Claimed => self.by_time(|it| match it.claimed {
                Claimed::Until(until) => Some(until),
                _ => None,
            }),
            State::Dead => self.by_time(|it| match it.claimed {
                Claimed::Dead(since) => Some(since),
                _ => None,
            }),
        };
        Self::page(all, after, limit)
    }

    /// How many there are.
    pub fn counts(&mut self, clock: u64) -> Counts {
        let now = self.now(clock);
        let grace = self.grace();
        let count = |is: &dyn Fn(&Known) -> bool| self.sessions.values().filter(|it| is(it)).count() as u64;
        Counts {
            active: count(&|it| it.left.is_none() && it.deadline() > now),
            disconnected: count(&|it| Self::left(it, now).is_some()),
            orphans: count(&|it| Self::left(it, now).is_some_and(|left| left + grace <= now)),
            claimed: count(&|it| matches!(it.claimed, Claimed::Until(_))),
            dead: count(&|it| matches!(it.claimed, Claimed::Dead(_))),
            lag_ms: self.lag(now),
        }
    }

    fn lag(&self, now: u64) -> u64 {
        let lefts = self.sessions.values().filter_map(|it| Self::left(it, now));
        lefts.map(|left| now.saturating_sub(left + self.grace())).max().unwrap_or(0)
    }
}
