//! The sliding limit: a list of charges, each in a bucket of the grid.

use std::collections::HashMap;

use super::{Charge, Expected, Outcome, Pace, Request, Rule};
use crate::limit::Sliding;

/// A model of the sliding limit.
#[derive(Debug)]
pub struct SlidingModel {
    window_ms: u64,
    coalesce_ms: u64,
    keys: HashMap<String, Key>,
    next: Charge,
}

#[derive(Debug, Clone, Default)]
struct Key {
    charges: Vec<Charged>,
    /// The newest bucket with a charge, also if that was given back.
    newest: Option<u64>,
    remembered: Option<Pace>,
}

#[derive(Debug, Clone, Copy)]
struct Charged {
    number: Charge,
    bucket: u64,
    cost: u64,
    given_back: bool,
    by_id: bool,
}

impl Key {
    fn total(&self) -> u64 {
        self.charges.iter().filter(|charge| !charge.given_back).map(|charge| charge.cost).sum()
    }
}

impl SlidingModel {
    /// A model of `sliding`.
    pub fn new(sliding: &Sliding) -> Self {
        Self {
            window_ms: sliding.window().as_millis(),
            coalesce_ms: sliding.coalesce().as_millis() as u64,
            keys: HashMap::new(),
            next: 0,
        }
    }

    fn end(&self, bucket: u64) -> u64 {
        (bucket + 1) * self.coalesce_ms + self.window_ms
    }

    /// The key as it counts at `now`, and the time that decides.
    fn living(&self, key: &str, now: u64) -> (Key, u64) {
        let Some(stored) = self.keys.get(key) else { return (Key::default(), now) };
        let Some(newest) = stored.newest else { return (Key::default(), now) };
        let starts = newest * self.coalesce_ms;
        // A stamp that far ahead is from a clock that was wrong.
        if starts > now + self.window_ms.max(60_000) {
            return (Key::default(), now);
        }
        let instant = now.max(starts);
        if self.end(newest) <= instant {
            return (Key::default(), instant);
        }
        let mut living = stored.clone();
        living.charges.retain(|charge| self.end(charge.bucket) > instant);
        (living, instant)
    }

    fn judge_living(&self, living: &Key, request: &Request) -> Expected {
        let (total, capacity) = (living.total(), request.pace.capacity(self.window_ms));
        let wait = || {
            let mut ends: Vec<u64> = living.charges.iter().map(|charge| self.end(charge.bucket)).collect();
            ends.sort_unstable();
            let left_at = |end: u64| -> u64 {
                let stays = |charge: &&Charged| !charge.given_back && self.end(charge.bucket) > end;
                living.charges.iter().filter(stays).map(|charge| charge.cost).sum()
            };
            let end = ends.into_iter().find(|end| left_at(*end) + request.cost <= capacity);
            let end = end.expect("an empty key has room");
            (end - request.now, capacity - left_at(end))
        };
        let outcome = match total + request.cost <= capacity {
            true => Outcome::Admitted(None),
            false => Outcome::Rejected((request.cost <= capacity).then(wait)),
        };
        Expected {
            outcome,
            capacity,
            remaining: capacity.saturating_sub(total),
            reset_after_ms: living
                .newest
                .filter(|_| total > 0)
                .map_or(0, |newest| self.end(newest) - request.now),
            window_size_seconds: self.window_ms / 1000,
        }
    }
}

impl Rule for SlidingModel {
    fn judge(&self, key: &str, request: &Request) -> Expected {
        self.judge_living(&self.living(key, request.now).0, request)
    }

    fn take(&mut self, key: &str, request: &Request) -> (Expected, Option<Charge>) {
        let (mut living, instant) = self.living(key, request.now);
        let mut expected = self.judge_living(&living, request);
        if !expected.is_admitted() {
            if let Some(stored) = self.keys.get_mut(key)
                && !request.is_own
            {
                stored.remembered = None;
            }
            return (expected, None);
        }
        let (bucket, number, cost) = (instant / self.coalesce_ms, self.next, request.cost);
        self.next += 1;
        living.charges.push(Charged { number, bucket, cost, given_back: false, by_id: false });
        living.newest = Some(bucket);
        living.remembered = request.is_own.then_some(request.pace);
        self.keys.insert(key.to_owned(), living);
        expected.outcome = Outcome::Admitted(Some(cost));
        expected.remaining -= cost;
        expected.reset_after_ms = self.end(bucket) - request.now;
        (expected, Some(number))
    }

    fn remembered(&self, key: &str, now: u64) -> Option<Pace> {
        self.living(key, now).0.remembered
    }

    /// So many refunds are remembered; what is given back by an id needs none of it.
    fn refund(&mut self, key: &str, now: u64, charge: Charge) -> u64 {
        let (living, _) = self.living(key, now);
        if living.charges.iter().filter(|charge| charge.given_back && !charge.by_id).count() >= 64 {
            return 0;
        }
        self.lower(key, now, charge, false)
    }

    fn give_back(&mut self, key: &str, now: u64, charge: Charge) {
        self.lower(key, now, charge, true);
    }

    fn reset(&mut self, key: &str, _: u64) {
        if let Some(stored) = self.keys.get_mut(key) {
            // The clock still may not go back behind the newest bucket.
            *stored = Key { newest: stored.newest, ..Key::default() };
        }
    }
}

impl SlidingModel {
    fn lower(&mut self, key: &str, now: u64, charge: Charge, by_id: bool) -> u64 {
        let (mut living, _) = self.living(key, now);
        let found = living.charges.iter_mut().find(|it| it.number == charge && !it.given_back);
        let Some(found) = found else { return 0 };
        (found.given_back, found.by_id) = (true, by_id);
        let cost = found.cost;
        self.keys.insert(key.to_owned(), living);
        cost
    }
}
