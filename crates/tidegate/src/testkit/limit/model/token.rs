//! The token bucket: a list of charges that leave in the order they came, as
//! fractions, without any rounding.

use std::collections::HashMap;

use super::{Charge, Expected, Outcome, Pace, Request, Rule};
use crate::limit::Token;

/// A model of the token bucket.
#[derive(Debug)]
pub struct TokenModel {
    burst: u64,
    refill_ms: u64,
    keys: HashMap<String, Key>,
    next: Charge,
}

/// What a key has used: what is left of each charge, as of its last charge.
#[derive(Debug, Clone)]
struct Key {
    stamp: u64,
    /// The rate of the last charge.
    pace: Pace,
    is_own: bool,
    charges: Vec<Charged>,
}

#[derive(Debug, Clone, Copy)]
struct Charged {
    /// None if it can no longer be given back.
    number: Option<Charge>,
    left: Fraction,
}

/// A number of permits, as a whole number of parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Fraction {
    parts: i128,
    of: i128,
}

impl Fraction {
    const ZERO: Self = Self { parts: 0, of: 1 };

    fn new(parts: u64, of: u64) -> Self {
        Self { parts: i128::from(parts), of: i128::from(of) }.reduced()
    }

    fn reduced(self) -> Self {
        let (mut divisor, mut rest) = (self.of, self.parts.abs());
        while rest > 0 {
            (divisor, rest) = (rest, divisor % rest);
        }
        Self { parts: self.parts / divisor, of: self.of / divisor }
    }

    fn plus(self, other: Self) -> Self {
        Self { parts: self.parts * other.of + other.parts * self.of, of: self.of * other.of }.reduced()
    }

    fn minus(self, other: Self) -> Self {
        self.plus(Self { parts: -other.parts, of: other.of })
    }

    fn times(self, other: Self) -> Self {
        Self { parts: self.parts * other.parts, of: self.of * other.of }.reduced()
    }

    fn is_more_than(self, other: Self) -> bool {
        self.minus(other).parts > 0
    }

    fn floor(self) -> u64 {
        self.parts.div_euclid(self.of).max(0) as u64
    }

    fn ceil(self) -> u64 {
        (-(-self.parts).div_euclid(self.of)).max(0) as u64
    }
}

impl Pace {
    fn per_ms(self) -> Fraction {
        Fraction::new(self.permits, self.per_ms)
    }

    /// The smallest part of a permit that a key is kept in: as many of them leave
    /// per microsecond as is a whole number.
    fn tick(self) -> Fraction {
        let per_us =
            Fraction { parts: i128::from(self.permits), of: i128::from(self.per_ms) * 1000 }.reduced();
        Fraction { parts: 1, of: per_us.of }
    }
}

fn sum(charges: &[Charged]) -> Fraction {
    charges.iter().fold(Fraction::ZERO, |sum, charge| sum.plus(charge.left))
}

impl TokenModel {
    /// A model of `token`.
    pub fn new(token: &Token) -> Self {
        Self { burst: token.burst(), refill_ms: token.refill_ms(), keys: HashMap::new(), next: 0 }
    }

    /// What counts at `now` if permits come back at `pace`, and the time that decides.
    fn living(&self, key: &str, now: u64, pace: Pace) -> (Vec<Charged>, u64) {
        let Some(stored) = self.keys.get(key) else { return (Vec::new(), now) };
        // A stamp that far ahead is from a clock that was wrong.
        if stored.stamp > now + self.refill_ms.max(60_000) {
            return (Vec::new(), now);
        }
        let mut charges = stored.charges.clone();
        if stored.pace.tick() != pace.tick() {
            // Kept in other ticks: rounded up to those, and receipts are void.
            let ticks = sum(&charges).times(Fraction { parts: pace.tick().of, of: 1 }).ceil();
            let left = Fraction::new(ticks, 1).times(pace.tick());
            charges = vec![Charged { number: None, left }];
        }
        let instant = now.max(stored.stamp);
        let mut back = Fraction::new(instant - stored.stamp, 1).times(pace.per_ms());
        for charge in &mut charges {
            let leaves = if charge.left.is_more_than(back) { back } else { charge.left };
            (charge.left, back) = (charge.left.minus(leaves), back.minus(leaves));
        }
        charges.retain(|charge| charge.left != Fraction::ZERO);
        (charges, instant)
    }

    fn judge_living(&self, charges: &[Charged], instant: u64, request: &Request) -> Expected {
        let (used, burst) = (sum(charges), Fraction::new(self.burst, 1));
        let behind_ms = instant - request.now;
        // Milliseconds from the deciding time until so much has come back.
        let until = |permits: Fraction| {
            let of = Fraction::new(request.pace.per_ms, request.pace.permits);
            permits.times(of).ceil()
        };
        let free_after = |ms: u64| {
            let back = Fraction::new(ms, 1).times(request.pace.per_ms());
            let used = if used.is_more_than(back) { used.minus(back) } else { Fraction::ZERO };
            burst.minus(used).floor()
        };
        let over = used.plus(Fraction::new(request.cost, 1)).minus(burst);
        let outcome = match over.is_more_than(Fraction::ZERO) {
            false => Outcome::Admitted(None),
            true if request.cost > self.burst => Outcome::Rejected(None),
            true => Outcome::Rejected(Some((behind_ms + until(over), free_after(until(over))))),
        };
        Expected {
            outcome,
            capacity: self.burst,
            remaining: burst.minus(used).floor(),
            reset_after_ms: if used == Fraction::ZERO { 0 } else { behind_ms + until(used) },
            window_size_seconds: Fraction::new(self.burst * request.pace.per_ms, request.pace.permits * 1000)
                .ceil(),
        }
    }
}

impl Rule for TokenModel {
    fn judge(&self, key: &str, request: &Request) -> Expected {
        let (charges, instant) = self.living(key, request.now, request.pace);
        self.judge_living(&charges, instant, request)
    }

    fn take(&mut self, key: &str, request: &Request) -> (Expected, Option<Charge>) {
        let Request { now, cost, pace, is_own, .. } = *request;
        let (mut charges, instant) = self.living(key, now, pace);
        let mut expected = self.judge_living(&charges, instant, request);
        if !expected.is_admitted() {
            if let Some(stored) = self.keys.get_mut(key)
                && !is_own
            {
                stored.is_own = false;
            }
            return (expected, None);
        }
        let number = self.next;
        self.next += 1;
        charges.push(Charged { number: Some(number), left: Fraction::new(cost, 1) });
        let after = self.judge_living(&charges, instant, request);
        self.keys.insert(key.to_owned(), Key { stamp: instant, pace, is_own, charges });
        expected.outcome = Outcome::Admitted(Some(cost));
        (expected.remaining, expected.reset_after_ms) = (after.remaining, after.reset_after_ms);
        (expected, Some(number))
    }

    fn remembered(&self, key: &str, now: u64) -> Option<Pace> {
        let stored = self.keys.get(key).filter(|stored| stored.is_own)?;
        let (charges, _) = self.living(key, now, stored.pace);
        (!charges.is_empty()).then_some(stored.pace)
    }

    /// What has not come back yet of the charge comes back at once: how many more
    /// permits there are.
    fn refund(&mut self, key: &str, now: u64, charge: Charge) -> u64 {
        let Some(stored) = self.keys.get(key).cloned() else { return 0 };
        let (mut charges, instant) = self.living(key, now, stored.pace);
        let Some(found) = charges.iter().position(|it| it.number == Some(charge)) else { return 0 };
        let free = |charges: &[Charged]| Fraction::new(self.burst, 1).minus(sum(charges)).floor();
        let free_before = free(&charges);
        charges.remove(found);
        let more = free(&charges) - free_before;
        self.keys.insert(key.to_owned(), Key { stamp: instant, charges, ..stored });
        more
    }

    fn reset(&mut self, key: &str, now: u64) {
        let Some(stored) = self.keys.get(key).cloned() else { return };
        let (_, stamp) = self.living(key, now, stored.pace);
        // The clock still may not go back behind the last charge.
        self.keys.insert(key.to_owned(), Key { stamp, is_own: false, charges: Vec::new(), ..stored });
    }
}
