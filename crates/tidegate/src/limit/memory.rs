//! The limit in this process: exact, synchronous, bounded in keys.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use super::WhenFull;
use super::decision::{Admitted, Decision, Quota, Receipt, Rejected, Source, Wait};
use super::sliding::{Grid, Sliding};
use super::usage::{Ask, Outcome, Usage, Verdict};
use crate::bounds::{Cost, Rate};
use crate::clock::{Clock, Timestamp};
use crate::error::Result;
use crate::key::Key;
use crate::store::memory::{Entry, Lookup, Swept, Table, Tally};

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
    when_full: WhenFull,
    table: Table<Usage>,
    /// What the keys beyond the cap share, by setting.
    overflow: Mutex<Usage>,
    /// Decisions about keys beyond the cap.
    beyond: Beyond,
}

#[derive(Debug, Default)]
struct Beyond {
    admitted: AtomicU64,
    rejected: AtomicU64,
}

impl Entry for Usage {
    type Context = Grid;

    fn end_ms(&self, grid: Grid) -> u64 {
        self.end_of_life_ms(&grid)
    }

    fn is_absurd(&self, grid: Grid, now_ms: u64) -> bool {
        Usage::is_absurd(self, &grid, now_ms)
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
        let table = Table::new(max_keys, clock.slack_ms());
        let (overflow, beyond) = (Mutex::default(), Beyond::default());
        Self { shared: Arc::new(Shared { sliding, clock, when_full, table, overflow, beyond }) }
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
        let take = |usage: &mut Usage, subject: u32, tally: &mut Tally<'_>| {
            let verdict = usage.take(&grid, now.as_millis(), ask);
            let admitted = verdict.outcome == Outcome::Admitted;
            *tally.admitted += u64::from(admitted);
            *tally.rejected += u64::from(!admitted);
            ((verdict, subject), admitted)
        };
        match table.upsert(key.as_str(), now, grid, take) {
            Lookup::Found((verdict, subject)) => {
                Ok(dress(verdict, ask.cost, ask.capacity, subject, sliding.window().as_seconds()))
            }
            Lookup::Full => Ok(self.beyond_the_cap(now, ask, true)),
        }
    }

    /// What the next take of one permit would be told.
    pub fn peek(&self, key: Key<'_>) -> Result<Decision> {
        self.peek_at(key, self.shared.sliding.capacity())
    }

    /// The same, where `capacity` is the configured one.
    pub(super) fn peek_at(&self, key: Key<'_>, capacity: u64) -> Result<Decision> {
        let Shared { sliding, clock, table, .. } = &*self.shared;
        let (now, grid) = (clock.now(), sliding.grid());
        let look = |usage: &Usage| usage.peek(&grid, now.as_millis(), capacity);
        let (verdict, capacity) = match table.get(key.as_str(), |usage| look(usage)) {
            Some(found) => found,
            None if table.is_full(now) => {
                return Ok(self.beyond_the_cap(now, Ask { cost: 1, capacity, remember: 0 }, false));
            }
            None => look(&Usage::default()),
        };
        Ok(dress(verdict, 1, capacity, 0, sliding.window().as_seconds()))
    }

    /// Gives back the charge that `receipt` is for, once; how much that was.
    /// Nothing if the charge no longer counts.
    pub fn refund(&self, key: Key<'_>, receipt: Receipt) -> Result<u64> {
        let Shared { sliding, clock, table, .. } = &*self.shared;
        let (now, grid) = (clock.now().as_millis(), sliding.grid());
        if receipt.subject != table.subject(key.as_str()) {
            return Ok(0);
        }
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

    /// Drops keys that have been idle for long enough, looking at up to `limit`;
    /// how many. New keys clear away old ones too: this is for a limit that has
    /// none for a while.
    pub fn sweep(&self, limit: usize) -> usize {
        self.swept(limit).dropped
    }

    pub(super) fn swept(&self, limit: usize) -> Swept {
        let Shared { sliding, clock, table, .. } = &*self.shared;
        table.sweep(clock.now(), limit, sliding.grid())
    }

    /// Decisions so far by outcome and source.
    pub(super) fn tallies(&self) -> [(&'static str, Source, u64); 4] {
        let (admitted, rejected) = self.shared.table.tallies();
        let beyond = &self.shared.beyond;
        [
            ("admitted", Source::Store, admitted),
            ("rejected", Source::Store, rejected),
            ("admitted", Source::Policy, beyond.admitted.load(Ordering::Relaxed)),
            ("rejected", Source::Policy, beyond.rejected.load(Ordering::Relaxed)),
        ]
    }

    /// Decides about a key for which there is no room; `counts` unless it is
    /// only a peek.
    #[cold]
    fn beyond_the_cap(&self, now: Timestamp, ask: Ask, counts: bool) -> Decision {
        let Shared { sliding, when_full, table, overflow, beyond, .. } = &*self.shared;
        let window_size_seconds = sliding.window().as_seconds();
        let decision = match when_full {
            WhenFull::Refuse => {
                let first_idle_ms = table.next_due().as_millis();
                let retry_after_ms = first_idle_ms.saturating_sub(now.as_millis()).max(1);
                let wait = Wait { retry_after_ms, remaining_after_waiting: ask.capacity };
                let wait = (ask.cost <= ask.capacity).then_some(wait);
                let quota = Quota {
                    capacity: ask.capacity,
                    remaining: 0,
                    reset_after_ms: retry_after_ms,
                    window_size_seconds,
                };
                Decision::Rejected(Rejected { wait, quota, source: Source::Policy })
            }
            WhenFull::Share => {
                let (grid, now_ms) = (sliding.grid(), now.as_millis());
                let mut shared = overflow.lock();
                let (verdict, capacity) = match counts {
                    true => (shared.take(&grid, now_ms, ask), ask.capacity),
                    false => shared.peek(&grid, now_ms, ask.capacity),
                };
                // A receipt would not be for this key's own charge.
                dress(verdict, ask.cost, capacity, 0, window_size_seconds).decided_by(Source::Policy)
            }
        };
        if counts {
            let counter = if decision.is_admitted() { &beyond.admitted } else { &beyond.rejected };
            counter.fetch_add(1, Ordering::Relaxed);
        }
        decision
    }
}

/// Makes a decision of a verdict about `cost` by `capacity`.
#[inline]
fn dress(verdict: Verdict, cost: u64, capacity: u64, subject: u32, window_size_seconds: u64) -> Decision {
    let quota = Quota {
        capacity,
        remaining: capacity.saturating_sub(verdict.total),
        reset_after_ms: verdict.reset_after_ms,
        window_size_seconds,
    };
    let source = Source::Store;
    match verdict.outcome {
        Outcome::Admitted => {
            let receipt = Receipt { bucket: verdict.a, offset: verdict.b, cost, subject };
            Decision::Admitted(Admitted { receipt: Some(receipt), quota, source })
        }
        Outcome::Fits => Decision::Admitted(Admitted { receipt: None, quota, source }),
        Outcome::Rejected => {
            let wait = Wait { retry_after_ms: verdict.a, remaining_after_waiting: verdict.b };
            Decision::Rejected(Rejected { wait: Some(wait), quota, source })
        }
        Outcome::NeverFits => Decision::Rejected(Rejected { wait: None, quota, source }),
    }
}
