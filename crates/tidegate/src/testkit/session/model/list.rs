//! The part of the model that lists and counts.

use super::{Claimed, Known, MOST, SessionModel};
use crate::clock::Timestamp;
use crate::session::{Counts, List, Listed, State};

impl SessionModel {
    /// When it was left, noticed or not; nothing for those that are reaped.
    pub(super) fn left(&self, it: &Known, now: u64) -> Option<u64> {
        let ends = self.ends(it.deadline());
        let silent = (it.left.is_none() && ends <= now).then_some(ends);
        it.left.or(silent).filter(|_| it.claimed == Claimed::No)
    }

    /// Sessions with the moment that `at` has for them, by it.
    pub(super) fn by_time(&self, at: impl Fn(&Known) -> Option<u64>) -> Vec<Listed> {
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
        // By the end of the last lease as it was given, whatever a hold has made of it.
        let given = |it: &Known| it.left.unwrap_or(it.deadline());
        let is_old = |it: &Known| self.left(it, now).is_some_and(|left| left + max_age <= now);
        let all = self.by_time(|it| is_old(it).then(|| given(it)));
        Self::page(all, after, limit)
    }

    /// Those in a state.
    pub fn list(&mut self, clock: u64, state: State, after: Option<Listed>, limit: usize) -> List {
        let now = self.now(clock);
        let all = match state {
            State::Disconnected => return self.orphans(clock, 0, after, limit),
            State::Orphan => return self.orphans(clock, self.grace(), after, limit),
            State::Active => {
                let is_held = |it: &Known| it.left.is_none() && self.ends(it.deadline()) > now;
                self.by_time(|it| is_held(it).then(|| it.deadline()))
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
            active: count(&|it| it.left.is_none() && self.ends(it.deadline()) > now),
            disconnected: count(&|it| self.left(it, now).is_some()),
            orphans: count(&|it| self.left(it, now).is_some_and(|left| left + grace <= now)),
            claimed: count(&|it| matches!(it.claimed, Claimed::Until(_))),
            dead: count(&|it| matches!(it.claimed, Claimed::Dead(_))),
            lag_ms: self.lag(now),
            held_until: self.held_until(now).map(Timestamp::from_millis),
        }
    }

    pub(super) fn lag(&self, now: u64) -> u64 {
        let lefts = self.sessions.values().filter_map(|it| self.left(it, now));
        lefts.map(|left| now.saturating_sub(left + self.grace())).max().unwrap_or(0)
    }
}
