//! The limit in this process: exact, synchronous, bounded in keys.

use std::sync::Arc;

use parking_lot::Mutex;

use super::WhenFull;
use super::decision::{Admitted, Decision, Quota, Receipt, Rejected, Source, Wait};
use super::sliding::{Grid, Sliding};
use super::usage::{Ask, Outcome, Usage, Verdict};
use crate::bounds::{Cost, Rate};
use crate::clock::{Clock, Timestamp};
use crate::error::Result;
use crate::key::Key;
use crate::store::memory::{Entry, Lookup, Table, Tally};

/// A sliding limit in this process. Clones share their state.
///
/// ```
/// use std::time::Duration;
/// use tidegate::{Cost, Key, limit::{InProcess, Sliding}};
///
/// let limit = InProcess::new(Sliding::new("5/s".parse()?, Duration::from_secs(60))?);
/// let user = Key::new("user_123")?;
/// for _ in 0..300 {
///     assert!(limit.take(user, Cost::ONE)?.is_admitted());
/// }
/// assert!(!limit.take(user, Cost::ONE)?.is_admitted());
/// # Ok::<(), tidegate::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct InProcess {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    sliding: Sliding,
    clock: Clock,
    slack_ms: u64,
    when_full: WhenFull,
    table: Table<Usage>,
    /// What the keys beyond the cap share, by setting.
    overflow: Mutex<Usage>,
}

impl Entry for Usage {
    type Context = Grid;

    fn end_ms(&self, grid: Grid) -> u64 {
        self.end_of_life_ms(&grid)
    }
}

impl InProcess {
    /// How many keys are kept unless something else is asked for.
    pub const DEFAULT_MAX_KEYS: usize = 1_000_000;

    /// A limit on the system's clock, for up to a million keys at a time.
    pub fn new(sliding: Sliding) -> Self {
        Self::with(sliding, Clock::system(), Self::DEFAULT_MAX_KEYS, WhenFull::default())
    }

    /// A limit on `clock` that never holds more than `max_keys` keys.
    pub fn with(sliding: Sliding, clock: Clock, max_keys: usize, when_full: WhenFull) -> Self {
        let slack_ms = clock.slack_ms();
        let table = Table::new(max_keys);
        Self {
            shared: Arc::new(Shared {
                sliding,
                clock,
                slack_ms,
                when_full,
                table,
                overflow: Mutex::default(),
            }),
        }
    }

    /// Charges `cost` to `key` if it fits.
    #[inline]
    pub fn take(&self, key: Key<'_>, cost: Cost) -> Result<Decision> {
        self.ask(key, Ask { cost: cost.get(), capacity: self.shared.sliding.capacity(), remember: 0 })
    }

    /// The same against `rate` instead of the configured one; a later
    /// [`peek`](Self::peek) judges by it too.
    pub fn take_with(&self, key: Key<'_>, rate: Rate, cost: Cost) -> Result<Decision> {
        let capacity = rate.capacity(self.shared.sliding.window())?;
        self.ask(key, Ask { cost: cost.get(), capacity, remember: capacity })
    }

    #[inline]
    pub(super) fn ask(&self, key: Key<'_>, ask: Ask) -> Result<Decision> {
        let Shared { sliding, clock, table, .. } = &*self.shared;
        let (now, grid) = (clock.now(), sliding.grid());
        let take = |usage: &mut Usage, tally: &mut Tally<'_>| {
            let verdict = usage.take(&grid, now.as_millis(), ask);
            let admitted = matches!(verdict.outcome, Outcome::Admitted(_));
            if admitted {
                *tally.admitted += 1
            } else {
                *tally.rejected += 1
            }
            (verdict, admitted)
        };
        match table.upsert(key.as_str(), now, grid, take) {
            Lookup::Found(verdict) => Ok(self.dress(verdict, Source::Store)),
            Lookup::Full => self.beyond_the_cap(now, ask),
        }
    }

    /// What the next take of one permit would be told.
    pub fn peek(&self, key: Key<'_>) -> Result<Decision> {
        let Shared { sliding, clock, table, .. } = &*self.shared;
        let (now, grid) = (clock.now().as_millis(), sliding.grid());
        let verdict = table.get(key.as_str(), |usage| usage.peek(&grid, now, sliding.capacity()));
        let verdict = verdict.unwrap_or_else(|| Usage::default().peek(&grid, now, sliding.capacity()));
        Ok(self.dress(verdict, Source::Store))
    }

    /// Gives back the charge that `receipt` is for, once; how much that was.
    /// Nothing if the charge no longer counts.
    pub fn refund(&self, key: Key<'_>, receipt: Receipt) -> Result<u64> {
        let Shared { sliding, clock, table, .. } = &*self.shared;
        let (now, grid) = (clock.now().as_millis(), sliding.grid());
        Ok(table.get(key.as_str(), |usage| usage.refund(&grid, now, receipt)).unwrap_or(0))
    }

    /// Forgets what `key` has used; receipts from before give nothing back.
    pub fn reset(&self, key: Key<'_>) -> Result<()> {
        self.shared.table.get(key.as_str(), Usage::reset);
        Ok(())
    }

    /// How many keys are held.
    pub fn keys(&self) -> usize {
        self.shared.table.len()
    }

    /// Drops up to `limit` keys that have been idle for long enough; how many.
    pub fn sweep(&self, limit: usize) -> usize {
        let Shared { sliding, clock, table, slack_ms, .. } = &*self.shared;
        let now = clock.now().as_millis().saturating_sub(*slack_ms);
        table.sweep(Timestamp::from_millis(now), limit, sliding.grid())
    }

    pub(super) fn tallies(&self) -> (u64, u64) {
        self.shared.table.tallies()
    }

    #[cold]
    fn beyond_the_cap(&self, now: Timestamp, ask: Ask) -> Result<Decision> {
        let grid = self.shared.sliding.grid();
        match self.shared.when_full {
            WhenFull::Refuse => {
                let first_idle_ms = self.shared.table.next_due().as_millis();
                let wait = Wait {
                    retry_after_ms: first_idle_ms.saturating_sub(now.as_millis()).max(1),
                    remaining_after_waiting: ask.capacity,
                };
                let quota = Quota {
                    capacity: ask.capacity,
                    remaining: 0,
                    reset_after_ms: wait.retry_after_ms,
                    window_size_seconds: self.shared.sliding.window().as_seconds(),
                };
                let wait = (ask.cost <= ask.capacity).then_some(wait);
                Ok(Decision::Rejected(Rejected { wait, quota, source: Source::Policy }))
            }
            WhenFull::Share => {
                let verdict = self.shared.overflow.lock().take(&grid, now.as_millis(), ask);
                // A receipt would not be for this key's own charge.
                Ok(self.dress(verdict, Source::Store).decided_by(Source::Policy))
            }
        }
    }

    #[inline]
    fn dress(&self, verdict: Verdict, source: Source) -> Decision {
        dress(verdict, self.shared.sliding.window().as_seconds(), source)
    }
}

/// Makes a decision of a verdict.
#[inline]
pub(super) fn dress(verdict: Verdict, window_size_seconds: u64, source: Source) -> Decision {
    let quota = Quota {
        capacity: verdict.capacity,
        remaining: verdict.capacity.saturating_sub(verdict.total),
        reset_after_ms: verdict.reset_after_ms,
        window_size_seconds,
    };
    match verdict.outcome {
        Outcome::Admitted(receipt) => Decision::Admitted(Admitted { receipt: Some(receipt), quota, source }),
        Outcome::Fits => Decision::Admitted(Admitted { receipt: None, quota, source }),
        Outcome::Rejected(wait) => Decision::Rejected(Rejected { wait, quota, source }),
    }
}
