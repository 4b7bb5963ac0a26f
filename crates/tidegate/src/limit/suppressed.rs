//! Suppression: above its limit a key is thinned out by chance, so that what is
//! left is a fair sample instead of whoever came first.
//!
//! Every call is recorded, the declined ones too: what is offered decides how much
//! of it passes. The rules are those of `suppressed.lua`, in the same arithmetic
//! and the same order, so that both answer alike draw by draw.

use std::collections::VecDeque;

use super::algorithm::{Request, Terms};
use super::sliding::{Grid, Sliding};
use super::verdict::{Outcome, Verdict};
use crate::bounds::Rate;
use crate::error::{Error, Result};
use crate::store::memory::Entry;

/// Half of what can be counted: the other half is for what passes.
const MOST_OFFERED: u64 = 1 << 52;

/// How long a suppression factor is used before it is computed again.
const CACHE_MS: u64 = 100;

/// A limit that declines a share of the calls above it, not all of them.
///
/// ```
/// use std::time::Duration;
/// use tidegate::limit::{Sliding, Suppressed};
/// let sliding = Sliding::new("100/s".parse()?, Duration::from_secs(60))?;
/// // Up to 6000 a minute all pass, above that some, above 9000 none.
/// let limit = Suppressed::new(sliding, 1.5)?;
/// assert_eq!(limit.hard_capacity(), Some(9000));
/// // As many as make the admitted ones 6000, however many are offered.
/// let smooth = Suppressed::smooth(sliding);
/// assert_eq!(smooth.hard_capacity(), None);
/// # Ok::<(), tidegate::Error>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Suppressed {
    sliding: Sliding,
    shape: Shape,
    hard: u64,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Shape {
    /// Between the soft and the hard limit some pass, above it none. In millionths.
    Hard {
        factor: u64,
    },
    Smooth,
}

impl Suppressed {
    /// Above the capacity of `sliding` some pass; once `hard_limit_factor` times it have
    /// passed, none, and when as many were offered none 100 ms later at most: 1 to 1000,
    /// exact to a millionth.
    pub fn new(sliding: Sliding, hard_limit_factor: f64) -> Result<Self> {
        let millionths = (hard_limit_factor * 1e6).round();
        if !(1e6..=1e9).contains(&millionths) {
            return Err(Error::invalid(format!(
                "a hard limit factor of {hard_limit_factor} is not allowed: 1 to 1000 are"
            )));
        }
        let suppressed = Self { sliding, shape: Shape::Hard { factor: millionths as u64 }, hard: 0 };
        let [_, hard] = suppressed.terms_of(sliding.rate())?;
        Ok(Self { hard, ..suppressed })
    }

    /// As many pass as meet the capacity of `sliding`, at every overload.
    pub fn smooth(sliding: Sliding) -> Self {
        Self { sliding, shape: Shape::Smooth, hard: sliding.capacity() }
    }

    /// How much over what window.
    pub fn sliding(&self) -> &Sliding {
        &self.sliding
    }

    /// Above this none pass; none if there is no such limit.
    pub fn hard_capacity(&self) -> Option<u64> {
        match self.shape {
            Shape::Hard { .. } => Some(self.hard),
            Shape::Smooth => None,
        }
    }

    /// Above this many times the capacity none pass; none if there is no such limit.
    pub fn hard_limit_factor(&self) -> Option<f64> {
        match self.shape {
            Shape::Hard { factor } => Some(factor as f64 / 1e6),
            Shape::Smooth => None,
        }
    }

    /// Whether it has no hard limit.
    pub fn is_smooth(&self) -> bool {
        self.shape == Shape::Smooth
    }

    /// The soft and the hard limit.
    #[inline]
    pub(super) fn terms(&self) -> Terms {
        [self.sliding.capacity(), self.hard]
    }

    pub(super) fn terms_of(&self, rate: Rate) -> Result<Terms> {
        let soft = rate.capacity(self.sliding.window())?;
        let hard = match self.shape {
            Shape::Hard { factor } => rate.scaled_capacity(self.sliding.window(), factor),
            Shape::Smooth => u128::from(soft),
        };
        match u64::try_from(hard) {
            Ok(hard @ 1..MOST_OFFERED) => Ok([soft, hard]),
            _ => Err(Error::invalid(format!(
                "a hard limit of {hard} is not allowed: 1 to {} are",
                MOST_OFFERED - 1
            ))),
        }
    }

    /// What scripts are told.
    pub(super) fn numbers(&self) -> [u64; 6] {
        let Grid { window_ms, coalesce_ms, absurd_ms, .. } = *self.sliding.grid();
        let hard_factor = match self.shape {
            Shape::Hard { factor } => factor,
            Shape::Smooth => 0,
        };
        [window_ms, coalesce_ms, absurd_ms, u64::from(self.is_smooth()), CACHE_MS, hard_factor]
    }
}

/// What one key was offered and declined.
#[derive(Debug)]
pub(super) struct Offered {
    /// Oldest first; the last is the newest.
    buckets: VecDeque<Bucket>,
    total: u64,
    declined: u64,
    /// The suppression factor last computed, below 0 for none, and when.
    factor: f64,
    factor_at_ms: u64,
    /// The terms of the last `take_with`, 0 after a plain take.
    kept: Terms,
}

#[derive(Debug, Clone, Copy, Default)]
struct Bucket {
    number: u64,
    offered: u64,
    declined: u64,
}

impl Default for Offered {
    fn default() -> Self {
        Self { buckets: VecDeque::new(), total: 0, declined: 0, factor: -1.0, factor_at_ms: 0, kept: [0; 2] }
    }
}

/// What counts at the deciding moment.
struct Live {
    instant: u64,
    started_over: bool,
    /// How many of the oldest buckets are over.
    dead: usize,
    total: u64,
    declined: u64,
    factor: f64,
    factor_at_ms: u64,
}

impl Offered {
    fn newest(&self) -> u64 {
        self.buckets.back().map_or(0, |bucket| bucket.number)
    }

    fn live(&self, grid: &Grid, now_ms: u64) -> Live {
        let newest = self.newest();
        let (instant, is_absurd) = grid.deciding(newest, now_ms);
        if self.buckets.is_empty() || is_absurd || grid.end_of_life_ms(newest) <= instant {
            let (dead, factor) = (self.buckets.len(), -1.0);
            return Live {
                instant,
                started_over: true,
                dead,
                total: 0,
                declined: 0,
                factor,
                factor_at_ms: 0,
            };
        }
        let mut live = Live {
            instant,
            started_over: false,
            dead: 0,
            total: self.total,
            declined: self.declined,
            factor: self.factor,
            factor_at_ms: self.factor_at_ms,
        };
        for bucket in &self.buckets {
            if grid.end_of_life_ms(bucket.number) > instant {
                break;
            }
            live.dead += 1;
            live.total -= bucket.offered;
            live.declined -= bucket.declined;
            // What was computed with what is gone is void.
            live.factor = -1.0;
        }
        live
    }

    /// What was offered in buckets that began in the last second.
    fn last_second(&self, grid: &Grid, live: &Live) -> u64 {
        let recent = self.buckets.iter().skip(live.dead).rev();
        recent
            .take_while(|bucket| grid.start_ms(bucket.number) + 1000 > live.instant)
            .map(|bucket| bucket.offered)
            .sum()
    }

    pub(super) fn peek(&self, rule: &Suppressed, now_ms: u64, request: Request) -> Verdict {
        let mut live = self.live(rule.sliding.grid(), now_ms);
        let (_, verdict) = self.decide(rule, now_ms, request, &mut live);
        verdict
    }

    pub(super) fn take(&mut self, rule: &Suppressed, now_ms: u64, request: Request) -> Verdict {
        let grid = rule.sliding.grid();
        let mut live = self.live(grid, now_ms);
        let (passes, mut verdict) = self.decide(rule, now_ms, request, &mut live);
        self.buckets.drain(..live.dead);
        let number = grid.bucket(live.instant);
        if self.buckets.back().is_none_or(|newest| newest.number != number) {
            self.buckets.push_back(Bucket { number, ..Bucket::default() });
        }
        // So that sums stay exact: what is declined is counted up to there.
        let counted =
            if passes { request.cost } else { request.cost.min(MOST_OFFERED.saturating_sub(live.total)) };
        let declined = if passes { 0 } else { counted };
        if let Some(newest) = self.buckets.back_mut() {
            newest.offered += counted;
            newest.declined += declined;
        }
        (self.total, self.declined) = (live.total + counted, live.declined + declined);
        (self.factor, self.factor_at_ms) = (live.factor, live.factor_at_ms);
        self.kept = if request.remember { request.terms } else { [0; 2] };
        verdict.remaining = request.terms[0].saturating_sub(self.total - self.declined);
        verdict.reset_after_ms = grid.end_of_life_ms(number) - now_ms;
        verdict
    }

    /// Whether a cost passes, and what to say.
    fn decide(&self, rule: &Suppressed, now_ms: u64, request: Request, live: &mut Live) -> (bool, Verdict) {
        let grid = rule.sliding.grid();
        let [soft, hard] = request.terms;
        let accepted = live.total - live.declined;
        let forecast = accepted + request.cost;
        let (passes, factor) = match rule.shape {
            Shape::Smooth => {
                live.factor = smooth_factor(grid, live, request.cost, soft);
                (
                    live.factor == 0.0 || request.draw < 1.0 - live.factor,
                    Some(live.factor).filter(|f| *f != 0.0),
                )
            }
            Shape::Hard { .. } if forecast == hard => {
                (live.factor, live.factor_at_ms) = (1.0, live.instant);
                (true, None)
            }
            Shape::Hard { .. } if forecast <= soft => (true, None),
            Shape::Hard { .. } => {
                if forecast > hard {
                    (live.factor, live.factor_at_ms) = (1.0, live.instant);
                } else if live.factor < 0.0 || live.instant >= live.factor_at_ms + CACHE_MS {
                    (live.factor, live.factor_at_ms) =
                        (self.hard_factor(grid, live, soft, hard), live.instant);
                }
                (request.draw < 1.0 - live.factor, Some(live.factor))
            }
        };
        let reset_after_ms = match live.total {
            0 => 0,
            _ => grid.end_of_life_ms(self.newest()) - now_ms,
        };
        let verdict = Verdict {
            outcome: match (factor, passes) {
                (None, _) => Outcome::Fits,
                (Some(_), true) => Outcome::LetThrough,
                (Some(_), false) => Outcome::HeldBack,
            },
            capacity: soft,
            remaining: soft.saturating_sub(accepted),
            reset_after_ms,
            a: factor.unwrap_or(0.0).to_bits(),
            b: 0,
        };
        (passes, verdict)
    }

    fn hard_factor(&self, grid: &Grid, live: &Live, soft: u64, hard: u64) -> f64 {
        let accepted = live.total - live.declined;
        if live.total >= hard {
            return 1.0;
        }
        if accepted < soft {
            return 0.0;
        }
        if accepted == soft && soft == hard {
            return 1.0;
        }
        let window_s = grid.window_ms as f64 / 1000.0;
        let last_second = self.last_second(grid, live) as f64;
        1.0 - (soft as f64 / window_s) / (live.total as f64 / window_s).max(last_second)
    }

    /// The terms of the last `take_with`, if they still count.
    pub(super) fn remembered(&self, rule: &Suppressed, now_ms: u64) -> Option<Terms> {
        let started_over = self.live(rule.sliding.grid(), now_ms).started_over;
        Some(self.kept).filter(|kept| kept[0] != 0 && !started_over)
    }
}

/// One minus the share of calls that makes the admitted ones meet the limit: by
/// what is offered, leaning against how far off the admitted ones are. Without the
/// lean a sudden flood would get several times the limit through before the window
/// has seen all of it.
fn smooth_factor(grid: &Grid, live: &Live, cost: u64, soft: u64) -> f64 {
    let oldest_ms = (live.instant.saturating_sub(grid.window_ms) / grid.coalesce_ms) * grid.coalesce_ms;
    // Buckets reach back a little further than the window.
    let target = soft as f64 * ((live.instant - oldest_ms) as f64 / grid.window_ms as f64);
    let (offered, accepted) = ((live.total + cost) as f64, (live.total - live.declined) as f64);
    if offered <= target {
        return 0.0;
    }
    let (fair, lean) = (target / offered, target / accepted.max(1.0));
    // What is asked for at once may be more than the limit: likely to pass it is only
    // as far as that does not exceed it in the mean.
    let most = fair.max((target - accepted) / cost as f64);
    (1.0 - (fair * lean * lean * lean).min(most)).max(0.0)
}

impl Entry for Offered {
    type Context = Suppressed;

    fn end_ms(&self, rule: &Suppressed) -> u64 {
        rule.sliding.grid().end_of_life_ms(self.newest())
    }

    fn is_absurd(&self, rule: &Suppressed, now_ms: u64) -> bool {
        rule.sliding.grid().deciding(self.newest(), now_ms).1
    }
}
