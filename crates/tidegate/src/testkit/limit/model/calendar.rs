//! The calendar limit: charges by window.

use std::collections::HashMap;

use super::{Charge, Expected, Outcome, Pace, Request, Rule};
use crate::limit::Calendar;

/// A model of the calendar limit.
#[derive(Debug)]
pub struct CalendarModel {
    period_ms: u64,
    safety_buffer: u64,
    /// By key and window.
    windows: HashMap<(String, u64), Window>,
    next: Charge,
}

#[derive(Debug, Clone, Default)]
struct Window {
    /// What was charged and not given back.
    charges: Vec<(Charge, u64)>,
    remembered: Option<Pace>,
}

impl CalendarModel {
    /// A model of `calendar`.
    pub fn new(calendar: &Calendar) -> Self {
        let safety_buffer = calendar.safety_buffer();
        Self { period_ms: calendar.period().as_millis(), safety_buffer, windows: HashMap::new(), next: 0 }
    }

    fn at(&self, key: &str, now: u64) -> (String, u64) {
        (key.to_owned(), now / self.period_ms)
    }

    fn rest_ms(&self, now: u64) -> u64 {
        self.period_ms - now % self.period_ms
    }
}

impl Rule for CalendarModel {
    fn judge(&self, key: &str, request: &Request) -> Expected {
        let window = self.windows.get(&self.at(key, request.now)).cloned().unwrap_or_default();
        let count: u64 = window.charges.iter().map(|(_, cost)| cost).sum();
        let capacity = request.pace.capacity(self.period_ms) - self.safety_buffer;
        let rest_ms = self.rest_ms(request.now);
        let outcome = match count + request.cost <= capacity {
            true => Outcome::Admitted(None),
            false => Outcome::Rejected((request.cost <= capacity).then_some((rest_ms, capacity))),
        };
        Expected {
            outcome,
            capacity,
            remaining: capacity.saturating_sub(count),
            reset_after_ms: if count == 0 { 0 } else { rest_ms },
            window_size_seconds: self.period_ms / 1000,
        }
    }

    fn take(&mut self, key: &str, request: &Request) -> (Expected, Option<Charge>) {
        let mut expected = self.judge(key, request);
        if !expected.is_admitted() {
            let at = self.at(key, request.now);
            if let Some(window) = self.windows.get_mut(&at)
                && !request.is_own
            {
                window.remembered = None;
            }
            return (expected, None);
        }
        let (at, number) = (self.at(key, request.now), self.next);
        self.next += 1;
        let window = self.windows.entry(at).or_default();
        window.charges.push((number, request.cost));
        window.remembered = request.is_own.then_some(request.pace);
        expected.outcome = Outcome::Admitted(Some(request.cost));
        expected.remaining -= request.cost;
        expected.reset_after_ms = self.rest_ms(request.now);
        (expected, Some(number))
    }

    fn remembered(&self, key: &str, now: u64) -> Option<Pace> {
        self.windows.get(&self.at(key, now))?.remembered
    }

    fn refund(&mut self, key: &str, now: u64, charge: Charge) -> u64 {
        let at = self.at(key, now);
        let Some(window) = self.windows.get_mut(&at) else { return 0 };
        let Some(found) = window.charges.iter().position(|(number, _)| *number == charge) else { return 0 };
        window.charges.remove(found).1
    }

    /// Of the window before or the one after too.
    fn give_back(&mut self, key: &str, now: u64, charge: Charge) {
        let near = (now / self.period_ms).saturating_sub(1)..=now / self.period_ms + 1;
        for window in near {
            if let Some(window) = self.windows.get_mut(&(key.to_owned(), window)) {
                window.charges.retain(|(number, _)| *number != charge);
            }
        }
    }

    fn reset(&mut self, key: &str, now: u64) {
        // With what reaches into the next window.
        let next = now + self.period_ms;
        for at in [self.at(key, now), self.at(key, next)] {
            self.windows.remove(&at);
        }
    }
}
