//! What is right, written as plainly as possible and with no regard for speed.
//!
//! [`Model`] keeps every charge and answers every field. [`RawEvents`] knows
//! nothing of buckets: it keeps what was admitted and when, and looks for a
//! window that holds too much.

use std::collections::HashMap;

use crate::limit::Sliding;

/// One charge of the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Charge {
    bucket: u64,
    offset: u64,
    cost: u64,
    given_back: bool,
}

/// What the model answers; compared with a decision field by field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Expected {
    /// Whether it fits.
    pub admitted: bool,
    /// The capacity it was judged by.
    pub capacity: u64,
    /// What is left after it.
    pub remaining: u64,
    /// When all is free.
    pub reset_after_ms: u64,
    /// The window.
    pub window_size_seconds: u64,
    /// When to come back, and what is free then.
    pub wait: Option<(u64, u64)>,
    /// Bucket, offset and cost of the charge.
    pub receipt: Option<(u64, u64, u64)>,
}

#[derive(Debug, Clone, Default)]
struct ModelKey {
    charges: Vec<Charge>,
    /// The newest bucket, and how much was ever charged to it.
    newest: Option<(u64, u64)>,
    remembered: Option<u64>,
}

/// The bucketed model of a sliding limit.
#[derive(Debug)]
pub struct Model {
    window_ms: u64,
    coalesce_ms: u64,
    capacity: u64,
    keys: HashMap<String, ModelKey>,
}

impl Model {
    /// A model of `sliding`.
    pub fn new(sliding: &Sliding) -> Self {
        Self {
            window_ms: sliding.window().as_millis(),
            coalesce_ms: sliding.coalesce().as_millis() as u64,
            capacity: sliding.capacity(),
            keys: HashMap::new(),
        }
    }

    fn end(&self, bucket: u64) -> u64 {
        (bucket + 1) * self.coalesce_ms + self.window_ms
    }

    fn is_absurd(&self, bucket: u64, now: u64) -> bool {
        bucket * self.coalesce_ms > now + self.window_ms.max(60_000)
    }

    /// The key as it counts at `now`, and the time that decides.
    fn living(&self, key: &str, now: u64) -> (ModelKey, u64) {
        let Some(stored) = self.keys.get(key) else { return (ModelKey::default(), now) };
        let Some((newest, _)) = stored.newest else { return (ModelKey::default(), now) };
        let starts = newest * self.coalesce_ms;
        if self.is_absurd(newest, now) {
            return (ModelKey::default(), now);
        }
        let instant = now.max(starts);
        if self.end(newest) <= instant {
            return (ModelKey::default(), instant);
        }
        let mut living = stored.clone();
        living.charges.retain(|charge| self.end(charge.bucket) > instant);
        (living, instant)
    }

    fn judge(&self, living: &ModelKey, now: u64, cost: u64, capacity: u64) -> Expected {
        let total = total(living);
        let remaining = capacity.saturating_sub(total);
        let reset_after_ms =
            if total == 0 { 0 } else { living.newest.map_or(0, |(newest, _)| self.end(newest) - now) };
        let admitted = total + cost <= capacity;
        let wait = (!admitted && cost <= capacity).then(|| {
            let mut ends: Vec<u64> = living.charges.iter().map(|charge| self.end(charge.bucket)).collect();
            ends.sort_unstable();
            let left_at = |end: u64| -> u64 {
                let stays = |charge: &&Charge| !charge.given_back && self.end(charge.bucket) > end;
                living.charges.iter().filter(stays).map(|charge| charge.cost).sum()
            };
            let end =
                ends.into_iter().find(|end| left_at(*end) + cost <= capacity).expect("an empty key has room");
            (end - now, capacity - left_at(end))
        });
        let window_size_seconds = self.window_ms / 1000;
        Expected { admitted, capacity, remaining, reset_after_ms, window_size_seconds, wait, receipt: None }
    }

    /// A take; with `rate_capacity`, against that instead of the configured one.
    pub fn take(&mut self, key: &str, now: u64, cost: u64, rate_capacity: Option<u64>) -> Expected {
        let (mut living, instant) = self.living(key, now);
        let mut expected = self.judge(&living, now, cost, rate_capacity.unwrap_or(self.capacity));
        if expected.admitted {
            let bucket = instant / self.coalesce_ms;
            let offset = living.newest.filter(|(newest, _)| *newest == bucket).map_or(0, |(_, ever)| ever);
            living.charges.push(Charge { bucket, offset, cost, given_back: false });
            living.newest = Some((bucket, offset + cost));
            living.remembered = rate_capacity;
            expected.remaining -= cost;
            expected.reset_after_ms = self.end(bucket) - now;
            expected.receipt = Some((bucket, offset, cost));
            self.keys.insert(key.to_owned(), living);
        }
        expected
    }

    /// A peek.
    pub fn peek(&self, key: &str, now: u64) -> Expected {
        let (living, _) = self.living(key, now);
        self.judge(&living, now, 1, living.remembered.unwrap_or(self.capacity))
    }

    /// A refund of a receipt of the same key.
    pub fn refund(&mut self, key: &str, now: u64, receipt: (u64, u64, u64)) -> u64 {
        let (mut living, instant) = self.living(key, now);
        let given_back = living.charges.iter().filter(|charge| charge.given_back).count();
        let is_it = |charge: &Charge| {
            !charge.given_back
                && (charge.bucket, charge.offset, charge.cost) == receipt
                && self.end(charge.bucket) > instant
        };
        if given_back >= 64 || !living.charges.iter().any(is_it) {
            return 0;
        }
        living.charges.iter_mut().filter(|charge| is_it(charge)).for_each(|charge| charge.given_back = true);
        self.keys.insert(key.to_owned(), living);
        receipt.2
    }

    /// A reset.
    pub fn reset(&mut self, key: &str) {
        let Some(stored) = self.keys.get(key) else { return };
        let Some((bucket, ever)) = stored.newest else { return };
        // All that was ever charged to the newest bucket has been given back.
        let charges = vec![Charge { bucket, offset: 0, cost: ever, given_back: true }];
        let reset = ModelKey { charges, newest: Some((bucket, ever)), remembered: None };
        self.keys.insert(key.to_owned(), reset);
    }
}

fn total(key: &ModelKey) -> u64 {
    key.charges.iter().filter(|charge| !charge.given_back).map(|charge| charge.cost).sum()
}

/// Everything that was admitted, and when.
#[derive(Debug, Default)]
pub struct RawEvents(Vec<(u64, u64)>);

impl RawEvents {
    /// Remembers an admission; its number.
    pub fn admitted(&mut self, at_ms: u64, cost: u64) -> usize {
        self.0.push((at_ms, cost));
        self.0.len() - 1
    }

    /// Forgets what was given back; whether it had not been before.
    pub fn gave_back(&mut self, event: usize) -> bool {
        std::mem::take(&mut self.0[event].1) > 0
    }

    /// The most that any window holds that ends with an event, both ends
    /// included. If any window at all held more, one of these would.
    pub fn fullest_window(&self, window_ms: u64) -> u64 {
        let held_until = |end: u64| {
            let inside = |(at, _): &&(u64, u64)| *at <= end && *at + window_ms >= end;
            self.0.iter().filter(inside).map(|(_, cost)| cost).sum()
        };
        self.0.iter().map(|(at, _)| held_until(*at)).max().unwrap_or(0)
    }
}
