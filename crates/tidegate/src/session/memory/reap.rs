//! What was left behind in this process: found by its list, claimed, and let go of.

use std::ops::Bound;

use compact_str::CompactString;

use super::{Claimed, Entry, Partition, Set, Sweep};
use crate::clock::Timestamp;
use crate::session::hold::Hold;
use crate::session::options::Bounds;
use crate::session::types::{Claim, Claims, Generation, Granted, Refusal, SessionId, Swept};

/// The lists, as a cleanup goes through them.
const ORDER: [Set; 3] = [Set::Active, Set::Claimed, Set::Disconnected];

/// Where a dry run of a cleanup goes on: in which list, and behind whom.
#[derive(Debug, Clone, Copy, Default)]
pub(in crate::session) struct DryRunPlace {
    list: usize,
    after: Option<(u64, SessionId)>,
}

/// What came of looking at a session as it is now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Settled {
    AsItWas,
    /// What a clock that was absurdly ahead has left begins anew.
    Reset,
    /// Its holders have just been found silent: it was left when the last lease ended.
    Silent,
}

/// What becomes of a session as it is now, if claims that have ended count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Kept,
    Buried,
    Reaped,
}

impl Entry {
    /// Brings it up to `now_ms`.
    pub(super) fn settle(&mut self, bounds: &Bounds, hold: &Hold, now_ms: u64) -> Settled {
        let ahead_ms = now_ms + bounds.retention_ms;
        let until_ms = if let Claimed::Until(until_ms) = self.claimed { until_ms } else { 0 };
        let deadline_ms = if self.left_ms.is_none() { self.deadline_ms() } else { 0 };
        let latest = self.seen_ms.max(deadline_ms).max(self.left_ms.unwrap_or(0)).max(until_ms);
        let mut settled = Settled::AsItWas;
        if latest > ahead_ms {
            self.seen_ms = self.seen_ms.min(now_ms);
            match &mut self.left_ms {
                None => {
                    self.holders.clear();
                    self.holders.insert(CompactString::default(), now_ms + bounds.lease_ms);
                }
                Some(left_ms) => *left_ms = now_ms.min(*left_ms),
            }
            if until_ms > ahead_ms {
                self.claimed = Claimed::Until(now_ms + bounds.claim_ms);
            }
            settled = Settled::Reset;
        }
        let ends_ms = hold.ends_ms(self.deadline_ms());
        if self.left_ms.is_none() && ends_ms <= now_ms {
            self.left_ms = Some(ends_ms);
            self.holders.clear();
            settled = Settled::Silent;
        }
        settled
    }

    fn fate(&self, bounds: &Bounds, now_ms: u64) -> Fate {
        match (self.left_ms, self.claimed) {
            (None, _) | (_, Claimed::Dead) => Fate::Kept,
            (_, Claimed::Until(until_ms)) if until_ms > now_ms => Fate::Kept,
            (_, Claimed::Until(_)) if self.attempts >= bounds.max_attempts => Fate::Buried,
            (Some(left_ms), Claimed::No) if left_ms + bounds.grace_ms > now_ms => Fate::Kept,
            _ => Fate::Reaped,
        }
    }
}

impl Partition {
    /// Until when the sessions of a list are due.
    fn due_until(&self, set: Set, now_ms: u64) -> u64 {
        match set {
            Set::Active => self.hold.ended_by(now_ms).unwrap_or(0),
            Set::Disconnected => now_ms.saturating_sub(self.bounds.grace_ms),
            _ => now_ms,
        }
    }

    /// Up to `limit` sessions of a list that are due, then such as are absurdly far ahead; from the
    /// first on, or those behind another.
    fn due_after(
        &self,
        set: Set,
        after: Option<(u64, SessionId)>,
        now_ms: u64,
        limit: usize,
    ) -> Vec<(u64, SessionId)> {
        let until_ms = self.due_until(set, now_ms);
        let set = &self.sets[set as usize];
        let ahead = (now_ms + self.bounds.retention_ms, SessionId::LAST);
        let behind =
            |place: Option<_>| set.range((place.map_or(Bound::Unbounded, Bound::Excluded), Bound::Unbounded));
        let due = behind(after).take_while(|(at_ms, _)| *at_ms <= until_ms);
        let far = behind(after.max(Some(ahead)));
        due.chain(far).take(limit).copied().collect()
    }

    fn due(&self, set: Set, now_ms: u64, limit: usize) -> Vec<SessionId> {
        self.due_after(set, None, now_ms, limit).into_iter().map(|(_, id)| id).collect()
    }

    /// What was left before that is not kept any longer.
    fn kept_ms(&self, now_ms: u64) -> u64 {
        now_ms.saturating_sub(self.bounds.retention_ms + self.slack_ms)
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
        for id in self.due(Set::Active, now_ms, limit) {
            lapsed += u64::from(self.settle(id, now_ms));
        }
        let kept_ms = self.kept_ms(now_ms);
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
        let ended = if is_claiming { self.due(Set::Claimed, now_ms, limit) } else { Vec::new() };
        for id in ended {
            self.settle(id, now_ms);
            let Some(entry) = self.sessions.get_mut(&id) else { continue };
            let fate = entry.fate(&self.bounds, now_ms);
            if fate == Fate::Kept {
                continue;
            }
            if fate == Fate::Buried {
                entry.claimed = Claimed::Dead;
                swept.buried += 1;
                self.sets[Set::Claimed as usize].remove(&(entry.place.1, id));
                entry.place = (Set::Dead, now_ms);
                self.sets[Set::Dead as usize].insert((now_ms, id));
                continue;
            }
            taken.push(id);
        }
        for id in self.due(Set::Disconnected, now_ms, limit - taken.len()) {
            self.settle(id, now_ms);
            if self.sessions.get(&id).is_some_and(|it| it.fate(&self.bounds, now_ms) == Fate::Reaped) {
                taken.push(id);
            }
        }
        taken
    }

    fn is_more(&self, now_ms: u64, is_claiming: bool) -> bool {
        let is_due = |set: Set| !self.due(set, now_ms, 1).is_empty();
        is_due(Set::Active) || is_claiming && is_due(Set::Claimed) || is_due(Set::Disconnected)
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

    /// What a cleanup would do with up to `limit` of those who are due, and where to go on.
    pub(in crate::session) fn cleanup_dry_run(
        &mut self,
        clock_ms: u64,
        from: DryRunPlace,
        limit: usize,
    ) -> (Swept, Option<DryRunPlace>) {
        let now_ms = self.advance(clock_ms);
        let mut swept = self.look(now_ms, clock_ms);
        let Some(set) = ORDER.get(from.list) else { return (swept, None) };
        let due = self.due_after(*set, from.after, now_ms, limit);
        // What was left for longer than anything is kept is no more.
        let kept_ms = self.kept_ms(now_ms);
        for (_, id) in due.iter().filter(|(at_ms, _)| *set == Set::Active || *at_ms >= kept_ms) {
            let Some(mut entry) = self.sessions.get(id).cloned() else { continue };
            swept.lapsed += u64::from(entry.settle(&self.bounds, &self.hold, now_ms) == Settled::Silent);
            match entry.fate(&self.bounds, now_ms) {
                Fate::Kept => {}
                Fate::Buried => swept.buried += 1,
                Fate::Reaped => swept.deleted += 1,
            }
        }
        let next = match due.last() {
            Some(last) => DryRunPlace { after: Some(*last), ..from },
            None => DryRunPlace { list: from.list + 1, after: None },
        };
        (swept, Some(next))
    }

    pub(in crate::session) fn lapse(&mut self, clock_ms: u64, limit: usize) -> Swept {
        let now_ms = self.advance(clock_ms);
        let mut swept = self.look(now_ms, clock_ms);
        if swept.held_until.is_none() {
            swept.lapsed = self.lapse_some(now_ms, limit);
            swept.is_more = !self.due(Set::Active, now_ms, 1).is_empty();
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
