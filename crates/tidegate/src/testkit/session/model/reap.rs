//! The part of the model that reaps.

use super::{Claimed, Known, MOST, SessionModel};
use crate::clock::Timestamp;
use crate::session::{Claim, Claims, Generation, Refusal, SessionId, Swept};
use crate::testkit::session::Granted;

impl SessionModel {
    /// Ids whose moment has come, by moment; then those dated absurdly far ahead.
    fn due(&self, at: impl Fn(&Known) -> Option<u64>, by: u64, now: u64, limit: usize) -> Vec<SessionId> {
        let all = self.by_time(at);
        let due = all.iter().filter(|it| it.at.as_millis() <= by);
        let far = all.iter().filter(|it| it.at.as_millis() > self.far(now));
        due.chain(far).take(limit).map(|it| it.id).collect()
    }

    fn silent(&self, now: u64, limit: usize) -> Vec<SessionId> {
        let all = self.by_time(|it| it.left.is_none().then(|| it.deadline()));
        let due = all.iter().filter(|it| self.ends(it.at.as_millis()) <= now);
        let far = all.iter().filter(|it| it.at.as_millis() > self.far(now));
        due.chain(far).take(limit).map(|it| it.id).collect()
    }

    fn ended_claims(&self, now: u64, limit: usize) -> Vec<SessionId> {
        let until = |it: &Known| match it.claimed {
            Claimed::Until(until) => Some(until),
            _ => None,
        };
        self.due(until, now, now, limit)
    }

    fn noticed_orphans(&self, now: u64, limit: usize) -> Vec<SessionId> {
        let left = |it: &Known| it.left.filter(|_| it.claimed == Claimed::No);
        self.due(left, now.saturating_sub(self.grace()), now, limit)
    }

    fn is_more(&self, now: u64) -> bool {
        let due = [self.silent(now, 1), self.ended_claims(now, 1), self.noticed_orphans(now, 1)];
        due.iter().any(|it| !it.is_empty())
    }

    /// What a call that reaps tells of a hold, in which it does nothing.
    fn look(&self, now: u64, clock: u64) -> Swept {
        let held = self.held_until(now);
        Swept {
            lag_ms: self.lag(now),
            held_until: held.map(Timestamp::from_millis),
            retry_after_ms: held.map(|until| until - clock),
            ..Swept::default()
        }
    }

    fn take(&mut self, now: u64, limit: usize, swept: &mut Swept) -> Vec<SessionId> {
        for id in self.silent(now, limit) {
            swept.lapsed += u64::from(self.touch(id, now));
        }
        let mut taken = Vec::new();
        for id in self.ended_claims(now, limit) {
            self.touch(id, now);
            let it = self.sessions.get_mut(&id).expect("it was just found");
            if !matches!(it.claimed, Claimed::Until(until) if until <= now) {
                continue;
            }
            if it.attempts < u64::from(self.options.max_attempts) {
                taken.push(id);
            } else {
                it.claimed = Claimed::Dead(now);
                swept.buried += 1;
            }
        }
        for id in self.noticed_orphans(now, limit - taken.len()) {
            self.touch(id, now);
            if self.sessions[&id].left.is_some_and(|left| left + self.grace() <= now) {
                taken.push(id);
            }
        }
        taken
    }

    /// Orphans to reap.
    pub fn claim(&mut self, clock: u64, limit: usize) -> Claims {
        let (now, until) = (self.now(clock), Self::ms(self.options.claim_lease));
        let mut swept = self.look(now, clock);
        let mut claims = Vec::new();
        if swept.held_until.is_some() {
            return Claims { claims, swept };
        }
        for id in self.take(now, limit.min(MOST), &mut swept) {
            let it = self.sessions.get_mut(&id).expect("it was just taken");
            it.attempts += 1;
            it.claimed = Claimed::Until(now + until);
            claims.push(Claim {
                id,
                generation: Generation::new(it.generation),
                broadcaster: it.broadcaster.clone(),
                config: it.config.clone(),
                value: it.value.clone(),
                since: Timestamp::from_millis(it.left.expect("it was left")),
                attempt: it.attempts,
                until: Timestamp::from_millis(now + until),
            });
        }
        swept.is_more = self.is_more(now);
        Claims { claims, swept }
    }

    /// The side effects have run.
    pub fn ack(&mut self, clock: u64, id: SessionId, generation: Generation) -> Granted<()> {
        let now = self.now(clock);
        self.touch(id, now);
        let it = self.sessions.get(&id).ok_or(Refusal::Gone)?;
        if it.generation != generation.get() {
            return Err(Refusal::Stale);
        }
        if it.claimed == Claimed::No {
            return Err(Refusal::NotClaimed);
        }
        self.erase(id);
        Ok(())
    }

    /// They take longer.
    pub fn renew(&mut self, clock: u64, id: SessionId, of: Generation, attempt: u64) -> Granted<Timestamp> {
        let (now, lease) = (self.now(clock), Self::ms(self.options.claim_lease));
        self.touch(id, now);
        let it = self.sessions.get_mut(&id).ok_or(Refusal::Gone)?;
        if it.generation != of.get() {
            return Err(Refusal::Stale);
        }
        match it.claimed {
            Claimed::Until(until) if it.attempts == attempt => {
                let until = until.max(now + lease);
                it.claimed = Claimed::Until(until);
                Ok(Timestamp::from_millis(until))
            }
            _ => Err(Refusal::NotClaimed),
        }
    }

    /// Deletes all that is due.
    pub fn cleanup(&mut self, clock: u64) -> Swept {
        let now = self.now(clock);
        let mut swept = self.look(now, clock);
        if swept.held_until.is_some() {
            return swept;
        }
        loop {
            for id in self.take(now, MOST, &mut swept) {
                self.erase(id);
                swept.deleted += 1;
            }
            if !self.is_more(now) {
                return swept;
            }
        }
    }

    /// A dead one can be claimed again.
    pub fn retry(&mut self, clock: u64, id: SessionId) -> Granted<()> {
        let now = self.now(clock);
        self.touch(id, now);
        let it = self.sessions.get_mut(&id).ok_or(Refusal::Gone)?;
        match it.claimed {
            Claimed::No => Err(Refusal::NotClaimed),
            Claimed::Until(_) => Err(Refusal::Reaping),
            Claimed::Dead(_) => {
                it.attempts = 0;
                it.claimed = Claimed::Until(now);
                Ok(())
            }
        }
    }
}
