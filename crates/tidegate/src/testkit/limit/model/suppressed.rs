//! Suppression: a list of recorded calls, each in a bucket of the grid. The factor
//! of the hard form is the formula as trypema has it, that of the smooth form as
//! `limit::Suppressed` has it.

use std::collections::HashMap;

use super::{Charge, Expected, Outcome, Pace, Request, Rule};
use crate::limit::Suppressed;

/// A model of suppression.
#[derive(Debug)]
pub struct SuppressedModel {
    window_ms: u64,
    coalesce_ms: u64,
    /// The hard limit in thousandths of the soft one; none for smooth.
    hard_thousandths: Option<u64>,
    keys: HashMap<String, Key>,
}

#[derive(Debug, Clone, Default)]
struct Key {
    calls: Vec<Call>,
    /// The factor last computed, and when.
    cached: Option<(f64, u64)>,
    remembered: Option<Pace>,
}

#[derive(Debug, Clone, Copy)]
struct Call {
    bucket: u64,
    cost: u64,
    passed: bool,
}

impl Key {
    fn total(&self) -> u64 {
        self.calls.iter().map(|call| call.cost).sum()
    }

    fn accepted(&self) -> u64 {
        self.calls.iter().filter(|call| call.passed).map(|call| call.cost).sum()
    }
}

impl SuppressedModel {
    /// A model of `suppressed`, whose hard limit is so many thousandths of the soft
    /// one.
    pub fn new(suppressed: &Suppressed, hard_thousandths: Option<u64>) -> Self {
        let sliding = suppressed.sliding();
        Self {
            window_ms: sliding.window().as_millis(),
            coalesce_ms: sliding.coalesce().as_millis() as u64,
            hard_thousandths,
            keys: HashMap::new(),
        }
    }

    fn end(&self, bucket: u64) -> u64 {
        (bucket + 1) * self.coalesce_ms + self.window_ms
    }

    /// The key as it counts at `now`, and the time that decides.
    fn living(&self, key: &str, now: u64) -> (Key, u64) {
        let Some(stored) = self.keys.get(key) else { return (Key::default(), now) };
        let newest = stored.calls.iter().map(|call| call.bucket).max().unwrap_or(0);
        let starts = newest * self.coalesce_ms;
        // A stamp that far ahead is from a clock that was wrong.
        if starts > now + self.window_ms.max(60_000) {
            return (Key::default(), now);
        }
        let (mut living, instant) = (stored.clone(), now.max(starts));
        living.calls.retain(|call| self.end(call.bucket) > instant);
        if living.calls.len() < stored.calls.len() {
            living.cached = None;
        }
        if living.calls.is_empty() {
            return (Key::default(), instant);
        }
        (living, instant)
    }

    fn hard_factor(&self, living: &Key, instant: u64, soft: u64, hard: u64) -> f64 {
        let (total, accepted) = (living.total(), living.accepted());
        if total >= hard {
            1.0
        } else if accepted < soft {
            0.0
        } else if accepted == soft && soft == hard {
            1.0
        } else {
            let is_recent = |call: &&Call| call.bucket * self.coalesce_ms + 1000 > instant;
            let last_second: u64 = living.calls.iter().filter(is_recent).map(|call| call.cost).sum();
            let seconds = self.window_ms as f64 / 1000.0;
            let wanted = soft as f64 / seconds;
            1.0 - wanted / (total as f64 / seconds).max(last_second as f64)
        }
    }

    fn smooth_factor(&self, living: &Key, instant: u64, cost: u64, soft: u64) -> f64 {
        // Buckets are whole, so they reach back further than the window.
        let from = (instant - self.window_ms) / self.coalesce_ms * self.coalesce_ms;
        let target = soft as f64 * ((instant - from) as f64 / self.window_ms as f64);
        let offered = (living.total() + cost) as f64;
        if offered <= target {
            return 0.0;
        }
        // As much as meets the limit, leaning against what is off; but never so that
        // a single call is expected to exceed it.
        let (accepted, fair) = (living.accepted() as f64, target / offered);
        let lean = target / accepted.max(1.0);
        let most = fair.max((target - accepted) / cost as f64);
        (1.0 - (fair * lean * lean * lean).min(most)).max(0.0)
    }

    /// What is said, whether it passes, and the factor that is cached from then on.
    fn decide(&self, living: &Key, instant: u64, request: &Request) -> (Outcome, Option<(f64, u64)>) {
        let soft = request.pace.capacity(self.window_ms);
        let chance = |factor: f64| Outcome::Suppressed(factor.to_bits(), request.draw < 1.0 - factor);
        let Some(thousandths) = self.hard_thousandths else {
            let factor = self.smooth_factor(living, instant, request.cost, soft);
            let outcome = if factor == 0.0 { Outcome::Admitted(None) } else { chance(factor) };
            return (outcome, None);
        };
        let parts = u128::from(request.pace.permits) * u128::from(self.window_ms) * u128::from(thousandths);
        let hard = (parts / (u128::from(request.pace.per_ms) * 1000)) as u64;
        let forecast = living.accepted() + request.cost;
        if forecast == hard {
            return (Outcome::Admitted(None), Some((1.0, instant)));
        }
        if forecast <= soft {
            return (Outcome::Admitted(None), living.cached);
        }
        if forecast > hard {
            return (chance(1.0), Some((1.0, instant)));
        }
        let cached = match living.cached {
            Some((factor, at)) if instant < at + 100 => (factor, at),
            _ => (self.hard_factor(living, instant, soft, hard), instant),
        };
        (chance(cached.0), Some(cached))
    }

    fn describe(&self, key: &Key, outcome: Outcome, request: &Request) -> Expected {
        let capacity = request.pace.capacity(self.window_ms);
        let newest = key.calls.iter().map(|call| call.bucket).max();
        Expected {
            outcome,
            capacity,
            remaining: capacity.saturating_sub(key.accepted()),
            reset_after_ms: newest.map_or(0, |newest| self.end(newest) - request.now),
            window_size_seconds: self.window_ms / 1000,
        }
    }
}

impl Rule for SuppressedModel {
    fn judge(&self, key: &str, request: &Request) -> Expected {
        let (living, instant) = self.living(key, request.now);
        let (outcome, _) = self.decide(&living, instant, request);
        self.describe(&living, outcome, request)
    }

    fn take(&mut self, key: &str, request: &Request) -> (Expected, Option<Charge>) {
        let (mut living, instant) = self.living(key, request.now);
        let (outcome, cached) = self.decide(&living, instant, request);
        let passed = !matches!(outcome, Outcome::Suppressed(_, false));
        living.calls.push(Call { bucket: instant / self.coalesce_ms, cost: request.cost, passed });
        (living.cached, living.remembered) = (cached, request.is_own.then_some(request.pace));
        let expected = self.describe(&living, outcome, request);
        self.keys.insert(key.to_owned(), living);
        (expected, None)
    }

    fn remembered(&self, key: &str, now: u64) -> Option<Pace> {
        self.living(key, now).0.remembered
    }

    fn refund(&mut self, _: &str, _: u64, _: Charge) -> u64 {
        0
    }

    fn reset(&mut self, key: &str, _: u64) {
        self.keys.remove(key);
    }

    fn records_refusals(&self) -> bool {
        true
    }
}
