//! The token bucket (GCRA): up to a burst at once, refilled at a rate.
//!
//! A bucket's level is what has been used and not yet refilled. It is kept in
//! ticks, of which a whole number are one permit and a whole number leave per
//! microsecond, so that no rate is rounded and every wait is exact. The rules are
//! those of `token.lua`, step by step.

use super::algorithm::{Request, Terms};
use super::divisor::Divisor;
use super::receipt::Receipt;
use super::usage::{LIVES, MAX_REFUNDS};
use super::verdict::{Outcome, Verdict};
use crate::bounds::{Cost, MAX_COUNT, Rate};
use crate::clock;
use crate::error::{Error, Result};
use crate::outage::Share;
use crate::store::memory::Entry;

/// A full bucket has at most so many ticks: Lua's quotients are exact up to here.
pub(super) const MAX_TICKS: u64 = 1 << 50;

/// Longest time that an empty bucket may take to fill, as long as a window.
const MAX_REFILL_MS: u64 = 31 * 86_400_000;

/// A bucket of `burst` permits, refilled at `rate`.
///
/// ```
/// use tidegate::{Cost, limit::Token};
/// let limit = Token::new("10/s".parse()?, Cost::new(50)?)?;
/// assert_eq!((limit.burst(), limit.refill_ms()), (50, 5000));
/// # Ok::<(), tidegate::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Token {
    rate: Rate,
    burst: u64,
    permit: Divisor,
    drain: Divisor,
    /// What leaves per millisecond.
    drain_ms: Divisor,
    /// `burst × permit`.
    full: u64,
    absurd_us: u64,
}

impl Token {
    /// A limit of `rate`, with `burst` permits at once.
    pub fn new(rate: Rate, burst: Cost) -> Result<Self> {
        let (burst, one) = (burst.get(), Divisor::new(1));
        let token = Self { rate, burst, permit: one, drain: one, drain_ms: one, full: 0, absurd_us: 0 };
        let terms = token.terms_of(rate)?;
        let token = token.with(burst, burst * terms[0], terms);
        Ok(Self { absurd_us: clock::absurd_ms(token.refill_ms()) * 1000, ..token })
    }

    fn with(self, burst: u64, full: u64, [permit, drain]: Terms) -> Self {
        let [permit, drain, drain_ms] = [permit, drain, drain * 1000].map(Divisor::new);
        Self { burst, permit, drain, drain_ms, full, ..self }
    }

    /// The rate.
    pub fn rate(&self) -> Rate {
        self.rate
    }

    /// Permits at once.
    pub fn burst(&self) -> u64 {
        self.burst
    }

    /// How long an empty bucket takes to fill, rounded up.
    pub fn refill_ms(&self) -> u64 {
        self.drain.ceil(self.full).div_ceil(1000)
    }

    /// The same in seconds, under other terms.
    pub(super) fn refill_seconds_of(&self, [permit, drain]: Terms) -> u64 {
        (self.burst * permit).div_ceil(drain).div_ceil(1_000_000)
    }

    /// Ticks of a permit, and how many leave per microsecond.
    #[inline]
    pub(super) fn terms(&self) -> Terms {
        [self.permit.get(), self.drain.get()]
    }

    pub(super) fn terms_of(&self, rate: Rate) -> Result<Terms> {
        let refused = |why: &str| {
            Error::invalid(format!("{rate} with a burst of {} is not allowed: {why}", self.burst))
        };
        let (permit, drain) =
            rate.per_microsecond().ok_or_else(|| refused("it admits nothing, or too much"))?;
        let full = self.burst.checked_mul(permit).filter(|full| *full <= MAX_TICKS && drain <= MAX_TICKS);
        let full = full.ok_or_else(|| refused("use a smaller burst, or a rate with fewer digits"))?;
        if full.div_ceil(drain).div_ceil(1000) > MAX_REFILL_MS {
            return Err(refused("an empty bucket has to fill within 31 days"));
        }
        Ok([permit, drain])
    }

    /// A share of such terms: a permit takes as many times longer to come in. None
    /// if not even one is left of the burst.
    pub(super) fn share_of(&self, [permit, drain]: Terms, share: Share) -> Option<Terms> {
        let burst = Some(share.of(self.burst)).filter(|burst| *burst > 0)?;
        Some([permit.checked_mul(self.burst.div_ceil(burst))?, drain])
    }

    /// A share of the whole limit.
    pub(super) fn share(&self, share: Share) -> Option<Self> {
        let terms = self.share_of(self.terms(), share)?;
        let burst = share.of(self.burst);
        let full = burst.checked_mul(terms[0]).filter(|full| *full <= MAX_TICKS)?;
        Some(self.with(burst, full, terms))
    }

    /// How many permits so many ticks are.
    #[inline]
    fn permits(&self, ticks: u64, permit: u64) -> u64 {
        if permit == self.permit.get() { self.permit.floor(ticks) } else { ticks / permit }
    }

    /// Microseconds until so many ticks have left, rounded up.
    #[inline]
    fn until_left_us(&self, ticks: u64, drain: u64) -> u64 {
        if drain == self.drain.get() { self.drain.ceil(ticks) } else { ticks.div_ceil(drain) }
    }

    /// Milliseconds from now until `ticks` have left, rounded up.
    #[inline]
    fn until_left(&self, now_us: u64, instant_us: u64, ticks: u64, drain: u64) -> u64 {
        match ticks {
            // The same, at once: rounding up twice is rounding up.
            _ if instant_us == now_us && drain == self.drain.get() => self.drain_ms.ceil(ticks),
            0 => 0,
            _ => (instant_us - now_us + self.until_left_us(ticks, drain)).div_ceil(1000),
        }
    }

    /// What scripts are told.
    pub(super) fn numbers(&self) -> [u64; 2] {
        [self.burst, self.absurd_us / 1000]
    }
}

/// What one key has used.
#[derive(Debug, Default)]
pub(super) struct Level {
    stamp_us: u64,
    /// Ticks used then.
    level: u64,
    /// The ticks of a permit that the level is in; 0 for a key that is new.
    permit: u64,
    /// When this life began, in ms, × [`LIVES`] + which one it is.
    life: u64,
    /// Ticks ever charged in this life: receipts are intervals of it.
    ever: u64,
    more: Option<Box<More>>,
}

#[derive(Debug, Default)]
struct More {
    /// The terms of the last charge, 0 for those of the limit.
    terms: Terms,
    /// It was a `take_with`.
    is_kept: bool,
    /// Ticks given back that the list no longer tells of.
    given: u64,
    /// What was given back of charges that have not begun to leave: offset and
    /// ticks, by offset.
    refunds: Vec<(u64, u64)>,
}

/// The key as of the deciding moment.
#[derive(Debug, Clone, Copy)]
struct Now {
    instant_us: u64,
    level: u64,
    /// The level is in other ticks than it was: receipts are void.
    rescaled: bool,
}

impl Level {
    /// The terms of the last charge.
    fn charged_by(&self, rule: &Token) -> Terms {
        self.more.as_ref().map(|more| more.terms).filter(|terms| terms[0] != 0).unwrap_or(rule.terms())
    }

    #[inline]
    fn now(&self, rule: &Token, now_us: u64, [permit, drain]: Terms) -> Now {
        let (instant_us, is_absurd) = clock::deciding(now_us, self.stamp_us, rule.absurd_us);
        if is_absurd || self.permit == 0 {
            return Now { instant_us: now_us, level: 0, rescaled: false };
        }
        let (mut level, rescaled) = (self.level, self.permit != permit);
        if rescaled {
            // As many permits as before; in the arithmetic that Lua has.
            let (whole, part) = (level / self.permit, level % self.permit);
            level = whole * permit + (part as f64 * permit as f64 / self.permit as f64).ceil() as u64;
        }
        let left = (instant_us - self.stamp_us).saturating_mul(drain);
        Now { instant_us, level: level.saturating_sub(left), rescaled }
    }

    #[inline(always)]
    pub(super) fn take(&mut self, rule: &Token, now_ms: u64, request: Request) -> Verdict {
        let [permit, drain] = request.terms;
        let now = self.now(rule, now_ms * 1000, request.terms);
        // What is larger than the burst may have more ticks than can be counted.
        let (ticks, full) = (request.cost.wrapping_mul(permit), rule.burst * permit);
        if request.cost > rule.burst || now.level + ticks > full {
            self.forget_terms(request);
            return refuse(rule, now_ms * 1000, now, request);
        }
        if now.level == 0 || now.rescaled || self.ever + ticks > MAX_COUNT {
            self.begin(now_ms, now.level);
        }
        let offset = self.ever;
        self.ever += ticks;
        (self.stamp_us, self.level, self.permit) = (now.instant_us, now.level + ticks, permit);
        if self.more.is_some() || request.remember || request.terms != rule.terms() {
            let more = self.more.get_or_insert_default();
            (more.terms, more.is_kept) = (request.terms, request.remember);
        }
        Verdict {
            outcome: Outcome::Admitted,
            capacity: rule.burst,
            remaining: rule.permits(full - self.level, permit),
            reset_after_ms: rule.until_left(now_ms * 1000, now.instant_us, self.level, drain),
            a: self.life,
            b: offset,
        }
    }

    /// After a plain take, be it refused, a peek goes by the limit's own terms.
    #[inline]
    fn forget_terms(&mut self, request: Request) {
        if let Some(more) = &mut self.more
            && !request.remember
        {
            more.is_kept = false;
        }
    }

    /// Another life: all of it has left, or counting on would not be exact.
    fn begin(&mut self, now_ms: u64, level: u64) {
        let number = if self.permit == 0 { 0 } else { (self.life + 1) % LIVES };
        (self.life, self.ever, self.more) = (now_ms * LIVES + number, level, None);
    }

    pub(super) fn peek(&self, rule: &Token, now_ms: u64, request: Request) -> Verdict {
        let [permit, drain] = request.terms;
        let now = self.now(rule, now_ms * 1000, request.terms);
        let full = rule.burst * permit;
        if now.level.saturating_add(request.cost.saturating_mul(permit)) > full {
            return refuse(rule, now_ms * 1000, now, request);
        }
        Verdict {
            outcome: Outcome::Fits,
            capacity: rule.burst,
            remaining: rule.permits(full - now.level, permit),
            reset_after_ms: rule.until_left(now_ms * 1000, now.instant_us, now.level, drain),
            a: 0,
            b: 0,
        }
    }

    /// The terms of the last `take_with`, if they still count.
    pub(super) fn remembered(&self, rule: &Token, now_ms: u64) -> Option<Terms> {
        let kept = self.more.as_ref().filter(|more| more.is_kept)?.terms;
        (self.now(rule, now_ms * 1000, kept).level > 0).then_some(kept)
    }

    /// Gives back what has not left of one charge: how many more permits there are
    /// for it.
    pub(super) fn refund(&mut self, rule: &Token, now_ms: u64, receipt: Receipt) -> u64 {
        let now = self.now(rule, now_ms * 1000, self.charged_by(rule));
        let ticks = receipt.cost.saturating_mul(self.permit);
        let is_ours = receipt.bucket == self.life && receipt.offset.saturating_add(ticks) <= self.ever;
        if !is_ours || now.level == 0 {
            return 0;
        }
        let ever = self.ever;
        let more = self.more.get_or_insert_default();
        if more.refunds.len() >= MAX_REFUNDS
            || more.refunds.iter().any(|(offset, _)| *offset == receipt.offset)
        {
            return 0;
        }
        let before: u64 =
            more.refunds.iter().filter(|(offset, _)| *offset < receipt.offset).map(|(_, given)| given).sum();
        let sum = more.given + more.refunds.iter().map(|(_, given)| given).sum::<u64>();
        // Where the charge ends once what was given back before it has moved up, and
        // how much has left in all.
        let end = (receipt.offset + ticks).saturating_sub(more.given + before);
        let left = ever.saturating_sub(sum + now.level);
        let back = end.saturating_sub(left).min(ticks);
        if back == 0 {
            return 0;
        }
        let at = more.refunds.partition_point(|(offset, _)| *offset < receipt.offset);
        more.refunds.insert(at, (receipt.offset, back));
        // Those that have begun to leave need no longer be told apart.
        let mut passed = 0;
        while let Some((offset, given)) = more.refunds.get(passed)
            && offset.saturating_sub(more.given) <= left
        {
            more.given += given;
            passed += 1;
        }
        more.refunds.drain(..passed);
        let full = rule.burst * self.permit;
        let free = |level: u64| full.saturating_sub(level) / self.permit;
        let more_free = free(now.level - back) - free(now.level);
        (self.stamp_us, self.level) = (now.instant_us, now.level - back);
        more_free
    }

    /// An empty bucket: the next charge begins another life.
    pub(super) fn reset(&mut self, rule: &Token, now_ms: u64) {
        if self.permit != 0 {
            let now = self.now(rule, now_ms * 1000, rule.terms());
            let permit = rule.permit.get();
            *self = Self { stamp_us: now.instant_us, permit, life: self.life, ..Self::default() };
        }
    }
}

#[inline(never)]
fn refuse(rule: &Token, now_us: u64, now: Now, request: Request) -> Verdict {
    let [permit, drain] = request.terms;
    let full = rule.burst * permit;
    let verdict = |outcome, a, b| Verdict {
        outcome,
        capacity: rule.burst,
        remaining: rule.permits(full.saturating_sub(now.level), permit),
        reset_after_ms: rule.until_left(now_us, now.instant_us, now.level, drain),
        a,
        b,
    };
    if request.cost > rule.burst {
        return verdict(Outcome::NeverFits, 0, 0);
    }
    let over = now.level + request.cost * permit - full;
    let retry_after_ms = rule.until_left(now_us, now.instant_us, over, drain);
    // What is free at that instant, which is a whole number of milliseconds away.
    let elapsed =
        (retry_after_ms * 1000).saturating_sub(now.instant_us - now_us).max(rule.until_left_us(over, drain));
    let level = now.level.saturating_sub(elapsed.saturating_mul(drain));
    verdict(Outcome::Rejected, retry_after_ms, rule.permits(full - level, permit))
}

impl Entry for Level {
    type Context = Token;

    fn end_ms(&self, rule: &Token) -> u64 {
        let [_, drain] = self.charged_by(rule);
        self.stamp_us.div_ceil(1000) + self.level.div_ceil(drain.max(1)).div_ceil(1000)
    }

    fn is_absurd(&self, rule: &Token, now_ms: u64) -> bool {
        clock::deciding(now_ms * 1000, self.stamp_us, rule.absurd_us).1
    }
}
