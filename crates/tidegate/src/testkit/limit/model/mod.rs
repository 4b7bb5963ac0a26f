//! What is right, written as plainly as possible and with no regard for speed.
//!
//! [`Modelled`] is a limit with its overrides over a [`Rule`], one per algorithm:
//! each keeps every charge and answers every field. [`RawEvents`] knows nothing of
//! buckets: it keeps what was admitted and when, and looks for a window that holds
//! too much. [`ReservationModel`] is one key of a limit that holds reservations.

mod calendar;
mod charges;
mod raw;
mod reservation;
mod sliding;
mod suppressed;
mod token;

use std::collections::HashMap;
use std::fmt::Debug;

pub use self::calendar::CalendarModel;
pub use self::charges::{Charged, Charges, GivenBack};
pub use self::raw::RawEvents;
pub use self::reservation::ReservationModel;
pub use self::sliding::SlidingModel;
pub use self::suppressed::SuppressedModel;
pub use self::token::TokenModel;

/// So many permits per so many milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pace {
    /// Permits.
    pub permits: u64,
    /// Milliseconds.
    pub per_ms: u64,
}

impl Pace {
    /// What fits into `window_ms`, rounded down.
    fn capacity(self, window_ms: u64) -> u64 {
        (u128::from(self.permits) * u128::from(window_ms) / u128::from(self.per_ms)) as u64
    }
}

/// What a model answers; compared with a decision field by field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Expected {
    /// What is decided.
    pub outcome: Outcome,
    /// The capacity it was judged by.
    pub capacity: u64,
    /// What is left after it.
    pub remaining: u64,
    /// When all is free.
    pub reset_after_ms: u64,
    /// The window.
    pub window_size_seconds: u64,
}

/// What is decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It fits; what a receipt is for, if there is one.
    Admitted(Option<u64>),
    /// It does not; when to come back, and what is free then.
    Rejected(Option<(u64, u64)>),
    /// Chance decided: the bits of the factor, and whether it passes.
    Suppressed(u64, bool),
}

impl Expected {
    /// Whether to go ahead.
    pub fn is_admitted(&self) -> bool {
        matches!(self.outcome, Outcome::Admitted(_) | Outcome::Suppressed(_, true))
    }
}

/// A take, and what it is judged by.
#[derive(Debug, Clone, Copy)]
pub struct Request {
    /// When.
    pub now: u64,
    /// How much.
    pub cost: u64,
    /// By which rate.
    pub pace: Pace,
    /// Whether that was asked for by the call.
    pub is_own: bool,
    /// What chance says.
    pub draw: f64,
}

/// One charge that can be given back, by its number.
pub type Charge = u64;

/// An algorithm.
pub trait Rule: Debug {
    /// What a take would be told. Nothing changes.
    fn judge(&self, key: &str, request: &Request) -> Expected;
    /// A take, recorded as the algorithm does; and the charge to give back.
    fn take(&mut self, key: &str, request: &Request) -> (Expected, Option<Charge>);
    /// The rate of the last call that had one of its own, if it still counts.
    fn remembered(&self, key: &str, now: u64) -> Option<Pace>;
    /// Gives back a charge.
    fn refund(&mut self, key: &str, now: u64, charge: Charge) -> u64;
    /// Gives back a charge that was made by an id, wherever it is.
    fn give_back(&mut self, key: &str, now: u64, charge: Charge) {
        self.refund(key, now, charge);
    }
    /// Forgets all charges.
    fn reset(&mut self, key: &str, now: u64);
    /// Whether calls that were refused are recorded.
    fn records_refusals(&self) -> bool {
        false
    }
}

/// A limit with its overrides.
#[derive(Debug)]
pub struct Modelled {
    rule: Box<dyn Rule>,
    pace: Pace,
    overrides: HashMap<String, (Pace, u64)>,
}

impl Modelled {
    /// A limit of `pace` that counts by `rule`.
    pub fn new(rule: impl Rule + 'static, pace: Pace) -> Self {
        Self { rule: Box::new(rule), pace, overrides: HashMap::new() }
    }

    /// The override of a key, and how many milliseconds it has left.
    pub fn get_override(&self, key: &str, now: u64) -> Option<(Pace, u64)> {
        let (pace, until) = self.overrides.get(key)?;
        (*until > now).then(|| (*pace, until - now))
    }

    /// Sets an override.
    pub fn set_override(&mut self, key: &str, now: u64, pace: Pace, lasting_ms: u64) {
        self.overrides.insert(key.to_owned(), (pace, now + lasting_ms));
    }

    /// Ends an override.
    pub fn clear_override(&mut self, key: &str) {
        self.overrides.remove(key);
    }

    fn request(&self, key: &str, now: u64, cost: u64, own: Option<Pace>, draw: f64) -> Request {
        let usual = self.get_override(key, now).map_or(self.pace, |(pace, _)| pace);
        Request { now, cost, pace: own.unwrap_or(usual), is_own: own.is_some(), draw }
    }

    /// A take; with `own`, by that rate.
    pub fn take(
        &mut self,
        key: &str,
        now: u64,
        cost: u64,
        own: Option<Pace>,
        draw: f64,
    ) -> (Expected, Option<Charge>) {
        let request = self.request(key, now, cost, own, draw);
        self.rule.take(key, &request)
    }

    /// A peek.
    pub fn peek(&self, key: &str, now: u64, cost: u64) -> Expected {
        let request = self.request(key, now, cost, self.rule.remembered(key, now), 0.0);
        self.rule.judge(key, &request)
    }

    /// Where a key stands by the limit's own rate, or its override's.
    fn judge(&self, key: &str, now: u64, cost: u64) -> Expected {
        self.rule.judge(key, &self.request(key, now, cost, None, 0.0))
    }

    /// A refund of a charge of the same key.
    pub fn refund(&mut self, key: &str, now: u64, charge: Charge) -> u64 {
        self.rule.refund(key, now, charge)
    }

    /// A reset.
    pub fn reset(&mut self, key: &str, now: u64) {
        self.rule.reset(key, now);
    }
}

/// A take from several: of each its cost, and what chance says.
pub fn take_all(
    limits: &mut [Modelled],
    key: &str,
    now: u64,
    request: &[(usize, u64, f64)],
) -> Vec<(Expected, Option<Charge>)> {
    let judge =
        |limit: &Modelled, cost, draw| limit.rule.judge(key, &limit.request(key, now, cost, None, draw));
    let judged: Vec<Expected> =
        request.iter().map(|(index, cost, draw)| judge(&limits[*index], *cost, *draw)).collect();
    let all_fit = judged.iter().all(Expected::is_admitted);
    let mut answers = Vec::new();
    for ((index, cost, draw), judged) in request.iter().zip(judged) {
        let limit = &mut limits[*index];
        let is_recorded = all_fit || (!judged.is_admitted() && limit.rule.records_refusals());
        answers.push(if is_recorded { limit.take(key, now, *cost, None, *draw) } else { (judged, None) });
    }
    answers
}
