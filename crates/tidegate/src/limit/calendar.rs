//! The calendar limit: so many per UTC minute, hour or day.
//!
//! Each window has a counter of its own, named by the store's clock. That is what
//! many services promise their users, and it lets twice the limit through around a
//! boundary: where that matters, take a sliding limit, or both.

use compact_str::{CompactString, format_compact};

use super::algorithm::{Request, Terms};
use super::receipt::Receipt;
use super::usage::MAX_REFUNDS;
use super::verdict::{Outcome, Verdict};
use crate::bounds::{Cost, MAX_COUNT, Rate, Window};
use crate::clock;
use crate::error::{Error, Result};
use crate::store::memory::Entry;
use std::time::Duration;

/// A stretch of the calendar, in UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Period {
    /// A minute.
    Minute,
    /// An hour.
    Hour,
    /// A day.
    Day,
}

impl Period {
    /// Its length.
    pub fn as_millis(self) -> u64 {
        match self {
            Self::Minute => 60_000,
            Self::Hour => 3_600_000,
            Self::Day => 86_400_000,
        }
    }

    /// The name in settings.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Minute => "minute",
            Self::Hour => "hour",
            Self::Day => "day",
        }
    }

    /// How the window with this number is called: `2024-09-17_14` is an hour.
    pub(crate) fn label(self, number: u64) -> String {
        let minutes = number * (self.as_millis() / 60_000);
        let (days, minute_of_day) = (minutes / 1440, minutes % 1440);
        let (hour, minute) = (minute_of_day / 60, minute_of_day % 60);
        let (year, month, day) = date(days);
        match self {
            Self::Minute => format!("{year:04}-{month:02}-{day:02}_{hour:02}-{minute:02}"),
            Self::Hour => format!("{year:04}-{month:02}-{day:02}_{hour:02}"),
            Self::Day => format!("{year:04}-{month:02}-{day:02}"),
        }
    }
}

/// Year, month and day of a day counted from 1970-01-01.
fn date(days: u64) -> (u64, u64, u64) {
    // Counted in eras of 400 years that begin on a first of March, so that the day
    // a leap year has more comes last.
    const ERA: u64 = 146_097;
    let days = days + 719_468;
    let (era, day_of_era) = (days / ERA, days % ERA);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    (era * 400 + year_of_era + u64::from(month <= 2), month, day)
}

/// `limit` per period, less a safety buffer.
///
/// ```
/// use tidegate::limit::{Calendar, Period};
/// let limit = Calendar::new(5000, Period::Hour)?.with_safety_buffer(25)?;
/// assert_eq!(limit.capacity(), 4975);
/// # Ok::<(), tidegate::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Calendar {
    limit: u64,
    safety_buffer: u64,
    period: Period,
    counter_ttl: Duration,
}

impl Calendar {
    /// The longest that a counter may be kept beyond its window.
    const MAX_TTL: Duration = Duration::from_secs(31 * 86_400);

    /// `limit` per `period`, all of it usable; counters are kept for 2 hours.
    pub fn new(limit: u64, period: Period) -> Result<Self> {
        let limit = Cost::new(limit).map_err(|_| {
            Error::invalid(format!("{limit} per {} is not allowed: 1 to {MAX_COUNT} are", period.as_str()))
        })?;
        let counter_ttl = Duration::from_secs(2 * 3600);
        Ok(Self { limit: limit.get(), safety_buffer: 0, period, counter_ttl })
    }

    /// The same, with so many permits that are never given out.
    pub fn with_safety_buffer(self, safety_buffer: u64) -> Result<Self> {
        if safety_buffer >= self.limit {
            return Err(Error::invalid(format!(
                "a safety buffer of {safety_buffer} leaves nothing of a limit of {}: 0 to {} are allowed",
                self.limit,
                self.limit - 1
            )));
        }
        Ok(Self { safety_buffer, ..self })
    }

    /// The same, with counters that are kept for `ttl` from their first charge;
    /// never shorter than the rest of their window.
    pub fn with_counter_ttl(self, ttl: Duration) -> Result<Self> {
        if ttl > Self::MAX_TTL {
            return Err(Error::invalid(format!(
                "counters kept for {ttl:?} are not allowed: up to 31 days are"
            )));
        }
        Ok(Self { counter_ttl: ttl, ..self })
    }

    /// Permits per period, the buffer included.
    pub fn limit(&self) -> u64 {
        self.limit
    }

    /// Permits that are never given out.
    pub fn safety_buffer(&self) -> u64 {
        self.safety_buffer
    }

    /// How long counters are kept.
    pub fn counter_ttl(&self) -> Duration {
        self.counter_ttl
    }

    /// Permits per period that are given out.
    pub fn capacity(&self) -> u64 {
        self.limit - self.safety_buffer
    }

    /// The period.
    pub fn period(&self) -> Period {
        self.period
    }

    pub(super) fn capacity_of(&self, rate: Rate) -> Result<u64> {
        let limit = rate.capacity(Window::new(Duration::from_millis(self.period.as_millis()))?)?;
        let calendar = Self { limit, safety_buffer: 0, ..*self }.with_safety_buffer(self.safety_buffer)?;
        Ok(calendar.capacity())
    }

    /// The window of this moment.
    pub(super) fn window(&self, now_ms: u64) -> u64 {
        now_ms / self.period.as_millis()
    }

    /// What scripts are told.
    pub(super) fn numbers(&self) -> [u64; 3] {
        [self.period.as_millis(), self.counter_ttl.as_millis() as u64, self.safety_buffer]
    }

    /// Each window of a key is an entry of its own.
    pub(super) fn entry(&self, key: &str, now_ms: u64) -> CompactString {
        format_compact!("{}:{key}", self.window(now_ms))
    }
}

/// What is lent of a window at a time, at most.
const MAX_LOANS: usize = 128;

/// What one key has used of one window.
#[derive(Debug, Default)]
pub(super) struct Count {
    window: u64,
    count: u64,
    /// What was given back or reset.
    given: u64,
    kept: u64,
    refunds: Vec<(u64, u64)>,
    /// What counts only until a deadline, the first to end first.
    loans: Vec<(u64, u64)>,
    /// What is held in the next window: without an end in it, and what ends.
    ahead: u64,
    loans_ahead: Vec<(u64, u64)>,
}

impl Count {
    pub(super) fn take(&mut self, rule: &Calendar, now_ms: u64, request: Request) -> Verdict {
        if self.window < rule.window(now_ms) {
            // What keys beyond the cap share goes on in another window.
            *self = Self::default();
        }
        let verdict = self.peek(rule, now_ms, request);
        if verdict.outcome != Outcome::Fits {
            if !request.remember {
                // After a plain take, be it refused, a peek goes by the limit's own terms.
                self.kept = 0;
            }
            return verdict;
        }
        let offset = self.count + self.given;
        self.add(rule.window(now_ms), request.cost);
        self.kept = if request.remember { request.terms[0] } else { 0 };
        Verdict {
            outcome: Outcome::Admitted,
            remaining: verdict.remaining - request.cost,
            reset_after_ms: self.reset_after_ms(rule, now_ms),
            a: self.window,
            b: offset,
            ..verdict
        }
    }

    /// Counts `cost` in `window`, that of this moment or the next.
    pub(super) fn add(&mut self, window: u64, cost: u64) {
        self.window = window;
        self.count += cost;
    }

    /// Counts `cost` only until a deadline. False if too much is lent already.
    pub(super) fn lend(&mut self, now_ms: u64, window: u64, cost: u64, until_ms: u64) -> bool {
        self.loans.retain(|(until_ms, _)| *until_ms > now_ms);
        if self.loans.len() >= MAX_LOANS {
            return false;
        }
        let at = self.loans.partition_point(|loan| loan.0 <= until_ms);
        self.loans.insert(at, (until_ms, cost));
        self.window = window;
        true
    }

    /// Notes that `cost` is held in the next window, until a deadline if there is one.
    pub(super) fn hold_ahead(&mut self, cost: u64, until_ms: Option<u64>) {
        match until_ms {
            None => self.ahead += cost,
            Some(until_ms) => {
                let at = self.loans_ahead.partition_point(|loan| loan.0 <= until_ms);
                self.loans_ahead.insert(at, (until_ms, cost));
            }
        }
    }

    /// Notes that it no longer is.
    pub(super) fn drop_ahead(&mut self, cost: u64, until_ms: Option<u64>) {
        match until_ms {
            None => self.ahead = self.ahead.saturating_sub(cost),
            Some(until_ms) => {
                if let Some(at) = self.loans_ahead.iter().position(|loan| *loan == (until_ms, cost)) {
                    self.loans_ahead.remove(at);
                }
            }
        }
    }

    /// What counts in the next window when it begins, and which of that ends in it.
    fn used_ahead(&self, boundary_ms: u64) -> (u64, impl Iterator<Item = (u64, u64)>) {
        let loans = self.loans_ahead.iter().copied().filter(move |(until_ms, _)| *until_ms > boundary_ms);
        (self.ahead + loans.clone().map(|(_, cost)| cost).sum::<u64>(), loans)
    }

    /// When all is free: with the window, or with the next if something reaches into it.
    fn reset_after_ms(&self, rule: &Calendar, now_ms: u64) -> u64 {
        let rest_ms = rest_ms(rule, now_ms);
        match self.window < rule.window(now_ms) {
            true => 0,
            false if self.used_ahead(now_ms + rest_ms).0 > 0 => rest_ms + rule.period.as_millis(),
            false if self.used(now_ms) > 0 => rest_ms,
            false => 0,
        }
    }

    /// Takes out again what was added; whether it was there.
    pub(super) fn remove(&mut self, cost: u64, lent_until_ms: Option<u64>, now_ms: u64) -> bool {
        let Some(until_ms) = lent_until_ms else {
            let is_there = self.count >= cost;
            if is_there {
                // As if refunded: no two charges shall have the same receipt.
                (self.count, self.given) = (self.count - cost, self.given + cost);
            }
            return is_there;
        };
        let found = self.loans.iter().position(|loan| *loan == (until_ms, cost) && until_ms > now_ms);
        let is_there = found.map(|at| self.loans.remove(at)).is_some();
        if is_there {
            self.loans.retain(|(until_ms, _)| *until_ms > now_ms);
        }
        is_there
    }

    /// What counts, what is lent included.
    pub(super) fn used(&self, now_ms: u64) -> u64 {
        self.count + self.live_loans(now_ms).map(|(_, cost)| cost).sum::<u64>()
    }

    fn live_loans(&self, now_ms: u64) -> impl Iterator<Item = (u64, u64)> {
        self.loans.iter().copied().filter(move |(until_ms, _)| *until_ms > now_ms)
    }

    pub(super) fn peek(&self, rule: &Calendar, now_ms: u64, request: Request) -> Verdict {
        let capacity = request.terms[0];
        let used = if self.window < rule.window(now_ms) { 0 } else { self.used(now_ms) };
        let (outcome, a, b) = match used.saturating_add(request.cost) > capacity {
            false => (Outcome::Fits, 0, 0),
            true if request.cost > capacity => (Outcome::NeverFits, 0, 0),
            true => {
                let (retry_after_ms, free) = self.wait(rule, now_ms, used, request);
                (Outcome::Rejected, retry_after_ms, free)
            }
        };
        let reset_after_ms = self.reset_after_ms(rule, now_ms);
        Verdict { outcome, capacity, remaining: capacity.saturating_sub(used), reset_after_ms, a, b }
    }

    /// When the cost fits, and what is free then: as loans end, when the next window
    /// begins, as those end that reach into it, or when it is over too.
    fn wait(&self, rule: &Calendar, now_ms: u64, used: u64, request: Request) -> (u64, u64) {
        let (rest_ms, period_ms) = (rest_ms(rule, now_ms), rule.period.as_millis());
        let (mut used, capacity) = (used, request.terms[0]);
        for (until_ms, cost) in self.live_loans(now_ms) {
            used -= cost;
            if used + request.cost <= capacity && until_ms - now_ms < rest_ms {
                return (until_ms - now_ms, capacity - used);
            }
        }
        let (mut used, loans) = self.used_ahead(now_ms + rest_ms);
        if used + request.cost <= capacity {
            return (rest_ms, capacity - used);
        }
        for (until_ms, cost) in loans {
            used -= cost;
            if used + request.cost <= capacity && until_ms - now_ms < rest_ms + period_ms {
                return (until_ms - now_ms, capacity - used);
            }
        }
        (rest_ms + period_ms, capacity)
    }

    /// The terms of the last `take_with`.
    pub(super) fn remembered(&self) -> Option<Terms> {
        Some([self.kept, 0]).filter(|kept| kept[0] != 0)
    }

    pub(super) fn refund(&mut self, receipt: Receipt) -> u64 {
        let Receipt { bucket, offset, cost, .. } = receipt;
        let overlaps = |(o, c): &(u64, u64)| offset < o + c && *o < offset.saturating_add(cost);
        let is_charged = bucket == self.window
            && cost <= self.count
            && offset.saturating_add(cost) <= self.count + self.given;
        if !is_charged || self.refunds.len() >= MAX_REFUNDS || self.refunds.iter().any(overlaps) {
            return 0;
        }
        self.count -= cost;
        self.given += cost;
        self.refunds.push((offset, cost));
        cost
    }

    /// Forgets all charges; receipts from before are void.
    pub(super) fn reset(&mut self) {
        self.given += self.count;
        (self.count, self.kept, self.refunds) = (0, 0, vec![(0, self.given)]);
        self.loans.clear();
        (self.ahead, self.loans_ahead) = (0, Vec::new());
    }
}

/// What is left of the window.
pub(super) fn rest_ms(rule: &Calendar, now_ms: u64) -> u64 {
    (rule.window(now_ms) + 1) * rule.period.as_millis() - now_ms
}

impl Entry for Count {
    type Context = Calendar;

    /// Over with its window: nobody else looks at what this process holds.
    fn end_ms(&self, rule: &Calendar) -> u64 {
        (self.window + 1) * rule.period.as_millis()
    }

    fn is_absurd(&self, rule: &Calendar, now_ms: u64) -> bool {
        let period_ms = rule.period.as_millis();
        clock::deciding(now_ms, self.window * period_ms, clock::absurd_ms(period_ms)).1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_are_called_by_their_date() {
        for (hours, expected) in [
            (0, "1970-01-01_00"),
            (479_678, "2024-09-20_14"),
            (24 * 11_016 + 23, "2000-02-29_23"),
            (24 * 11_017, "2000-03-01_00"),
            (24 * 47_540, "2100-02-28_00"),
            (24 * 47_541, "2100-03-01_00"),
        ] {
            assert_eq!(Period::Hour.label(hours), expected, "{hours}");
        }
        assert_eq!(Period::Minute.label(61), "1970-01-01_01-01");
        assert_eq!(Period::Day.label(31), "1970-02-01");
    }
}
