//! What was left behind in this process: found by its list, claimed, and let go of.

use std::ops::Bound;

use super::{Claimed, Partition, Set, Sweep};
use crate::clock::Timestamp;
use crate::session::types::{Claim, Claims, Generation, Granted, Refusal, SessionId, Swept};

impl Partition {
    /// Up to `limit` sessions of a list that are due, then such as are absurdly far ahead.
    fn due(&self, set: Set, until_ms: u64, now_ms: u64, limit: usize) -> Vec<SessionId> {
        let set = &self.sets[set as usize];
        let ahead_ms = now_ms + self.bounds.retention_ms;
        let due = set.iter().take_while(|(at_ms, _)| *at_ms <= until_ms);
        let far = set.range((Bound::Excluded((ahead_ms, SessionId::LAST)), Bound::Unbounded));
        due.chain(far).take(limit).map(|(_, id)| *id).collect()
    }

    /// Up to `limit` sessions whose holders have fallen silent.
    fn silent(&self, now_ms: u64, limit: usize) -> Vec<SessionId> {
        self.due(Set::Active, self.hold.ended_by(now_ms).unwrap_or(0), now_ms, limit)
    }

    /// What a call that reaps finds before anything else: how far behind it is, and whether
    /// there is a hold, in which it does nothing.
    fn look(&self, now_ms: u64, clock_ms: u64) -> Swept {
        let held_until = self.held_until();
        Swept {
            lag_ms: self.lag_ms(now_ms),
            held_until: held_until.map(Timestamp::from_millis),
            retry_after_ms: held_until.map(|until_ms| until_ms - clock_ms),
            ..Swept::default()
        }
    }

    /// Finds out up to `limit` sessions whose holders have fallen silent; and lets go of
    /// what nobody has reaped for longer than anything is kept.
    fn lapse_some(&mut self, now_ms: u64, limit: usize) -> u64 {
        let mut lapsed = 0;
        for id in self.silent(now_ms, limit) {
            lapsed += u64::from(self.settle(id, now_ms));
        }
        let kept_ms = now_ms.saturating_sub(self.bounds.retention_ms + self.slack_ms);
        for set in [Set::Disconnected, Set::Claimed, Set::Dead] {
            for _ in 0..limit {
                let first = self.sets[set as usize].first().copied();
                let Some((_, id)) = first.filter(|(at_ms, _)| *at_ms < kept_ms) else { break };
                self.erase(id);
            }
        }
        lapsed
    }

    /// Takes up to `limit` orphans: first those whose claim has ended, then those that
    /// were left first, after up to `silent` were found out to be.
    fn take(
        &mut self,
        now_ms: u64,
        [limit, silent]: [usize; 2],
        is_claiming: bool,
        swept: &mut Swept,
    ) -> Vec<SessionId> {
        swept.lapsed = self.lapse_some(now_ms, silent);
        let mut taken = Vec::new();
        let ended = if is_claiming { self.due(Set::Claimed, now_ms, now_ms, limit) } else { Vec::new() };
        for id in ended {
            self.settle(id, now_ms);
            let Some(entry) = self.sessions.get_mut(&id) else { continue };
            if entry.claimed != Claimed::Dead && entry.place.1 > now_ms {
                continue;
            }
            if entry.attempts >= self.bounds.max_attempts {
                entry.claimed = Claimed::Dead;
                swept.buried += 1;
                self.sets[Set::Claimed as usize].remove(&(entry.place.1, id));
                entry.place = (Set::Dead, now_ms);
                self.sets[Set::Dead as usize].insert((now_ms, id));
                continue;
            }
            taken.push(id);
        }
        let due_ms = now_ms.saturating_sub(self.bounds.grace_ms);
        for id in self.due(Set::Disconnected, due_ms, now_ms, limit - taken.len()) {
            self.settle(id, now_ms);
            if self.sessions.get(&id).is_some_and(|entry| entry.place.1 <= due_ms) {
                taken.push(id);
            }
        }
        taken
    }

    fn is_more(&self, now_ms: u64, is_claiming: bool) -> bool {
        let due_ms = now_ms.saturating_sub(self.bounds.grace_ms);
        let is_due = |set: Set, until_ms: u64| !self.due(set, until_ms, now_ms, 1).is_empty();
        !self.silent(now_ms, 1).is_empty()
            || is_claiming && is_due(Set::Claimed, now_ms)
            || is_due(Set::Disconnected, due_ms)
    }

    /// Claims up to `limit` orphans, and finds out up to `silent` that have fallen silent.
    pub(in crate::session) fn claim(&mut self, clock_ms: u64, limit: usize, silent: usize) -> Claims {
        let now_ms = self.advance(clock_ms);
        let mut swept = self.look(now_ms, clock_ms);
        let mut claims = Vec::new();
        if swept.held_until.is_some() {
            return Claims { claims, swept };
        }
        for id in self.take(now_ms, [limit, silent], true, &mut swept) {
            let Some(entry) = self.sessions.get_mut(&id) else { continue };
            entry.attempts += 1;
            entry.claimed = Claimed::Until(now_ms + self.bounds.claim_ms);
            claims.push(Claim {
                id,
                generation: Generation(entry.generation),
                broadcaster: entry.broadcaster.to_string(),
                config: entry.config.to_string(),
                value: entry.value.to_string(),
                since: Timestamp::from_millis(entry.left_ms.unwrap_or(0)),
                attempt: entry.attempts,
                until: Timestamp::from_millis(now_ms + self.bounds.claim_ms),
            });
            self.file(id);
        }
        swept.is_more = self.is_more(now_ms, true);
        Claims { claims, swept }
    }

    pub(in crate::session) fn ack(
        &mut self,
        clock_ms: u64,
        id: SessionId,
        generation: Generation,
    ) -> Granted<()> {
        let now_ms = self.advance(clock_ms);
        self.settle(id, now_ms);
        let entry = self.sessions.get(&id).ok_or(Refusal::Gone)?;
        if entry.generation != generation.0 {
            return Err(Refusal::Stale);
        }
        if entry.claimed == Claimed::No {
            return Err(Refusal::NotClaimed);
        }
        self.erase(id);
        Ok(())
    }

    pub(in crate::session) fn renew(
        &mut self,
        clock_ms: u64,
        id: SessionId,
        generation: Generation,
        attempt: u64,
    ) -> Granted<Timestamp> {
        let now_ms = self.advance(clock_ms);
        self.settle(id, now_ms);
        let entry = self.sessions.get_mut(&id).ok_or(Refusal::Gone)?;
        if entry.generation != generation.0 {
            return Err(Refusal::Stale);
        }
        let Claimed::Until(until_ms) = entry.claimed else { return Err(Refusal::NotClaimed) };
        if entry.attempts != attempt {
            return Err(Refusal::NotClaimed);
        }
        let until_ms = until_ms.max(now_ms + self.bounds.claim_ms);
        entry.claimed = Claimed::Until(until_ms);
        self.file(id);
        Ok(Timestamp::from_millis(until_ms))
    }

    /// With `is_claiming` also what was claimed and not acknowledged in time.
    pub(in crate::session) fn sweep(&mut self, clock_ms: u64, limit: usize, sweep: Sweep) -> Swept {
        match sweep {
            Sweep::Lapsed => self.lapse(clock_ms, limit),
            Sweep::Unclaimed => self.cleanup(clock_ms, limit, false),
            Sweep::All => self.cleanup(clock_ms, limit, true),
        }
    }

    pub(in crate::session) fn cleanup(&mut self, clock_ms: u64, limit: usize, is_claiming: bool) -> Swept {
        let now_ms = self.advance(clock_ms);
        let mut swept = self.look(now_ms, clock_ms);
        if swept.held_until.is_some() {
            return swept;
        }
        for id in self.take(now_ms, [limit, limit], is_claiming, &mut swept) {
            self.erase(id);
            swept.deleted += 1;
        }
        swept.is_more = self.is_more(now_ms, is_claiming);
        swept
    }

    pub(in crate::session) fn lapse(&mut self, clock_ms: u64, limit: usize) -> Swept {
        let now_ms = self.advance(clock_ms);
        let mut swept = self.look(now_ms, clock_ms);
        if swept.held_until.is_none() {
            swept.lapsed = self.lapse_some(now_ms, limit);
            swept.is_more = !self.silent(now_ms, 1).is_empty();
        }
        swept
    }

    pub(in crate::session) fn retry(&mut self, clock_ms: u64, id: SessionId) -> Granted<()> {
        let now_ms = self.advance(clock_ms);
        self.settle(id, now_ms);
        let entry = self.sessions.get_mut(&id).ok_or(Refusal::Gone)?;
        match entry.claimed {
            Claimed::No => Err(Refusal::NotClaimed),
            Claimed::Until(_) => Err(Refusal::Reaping),
            Claimed::Dead => {
                entry.attempts = 0;
                entry.claimed = Claimed::Until(now_ms);
                self.file(id);
                Ok(())
            }
        }
    }
}
