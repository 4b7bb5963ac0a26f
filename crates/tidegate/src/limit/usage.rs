//! What one key has used: its buckets, in 32 bytes while there is only one.
//!
//! The rules are those of `take.lua`, `peek.lua`, `refund.lua` and `reset.lua`,
//! step by step; the differential test holds the two together. A refusal and a
//! peek change nothing, not even what has expired, so that a clock stepping back
//! finds the same on every store.

use super::decision::Receipt;
use super::sliding::Grid;

/// How many refunds a key remembers while their buckets count. Beyond it a
/// refund gives nothing back: forgetting one could give back a charge twice.
pub(crate) const MAX_REFUNDS: usize = 64;

/// A key that starts over begins another life, and a receipt is good for one. So
/// many are told apart: a clock that leaps back and forth can lead to a bucket
/// again in which an earlier life had charges.
pub(super) const LIVES: u64 = 64;

/// The charges of one key, in 32 bytes. What most takes need is in them: they
/// never look at `more`.
#[derive(Debug, Default)]
pub(super) struct Usage {
    newest: Newest,
    /// What counts in the newest bucket.
    charged: u64,
    /// What the older buckets hold, those that are over included.
    older_sum: u64,
    more: Option<Box<More>>,
}

/// The number of the newest bucket, and four things that are short.
#[derive(Debug, Clone, Copy, Default)]
struct Newest(u64);

impl Newest {
    /// There is an older bucket.
    const HAS_OLDER: u64 = 1 << 8;
    /// There is a remembered capacity, or something was refunded from the newest
    /// bucket.
    const HAS_QUIRKS: u64 = 1 << 9;
    /// Where the life stands, see [`LIVES`].
    const LIFE: u32 = 10;

    /// A number of 48 bits: that of the year 10889, in milliseconds.
    #[inline]
    fn number(self) -> u64 {
        self.0 >> 16
    }

    /// The oldest of the older buckets, whose number has these low bits.
    #[inline]
    fn oldest(self) -> u64 {
        number(self.0 as u8, self.number())
    }

    #[inline]
    fn has(self, flag: u64) -> bool {
        self.0 & flag != 0
    }

    fn set(&mut self, flag: u64, on: bool) {
        self.0 = if on { self.0 | flag } else { self.0 & !flag };
    }

    fn set_number(&mut self, number: u64) {
        self.0 = number << 16 | self.0 & 0xFFFF;
    }

    fn set_oldest(&mut self, low_bits: Option<u8>) {
        self.0 = self.0 & !0xFF | u64::from(low_bits.unwrap_or_default());
        self.set(Self::HAS_OLDER, low_bits.is_some());
    }

    /// Which of the key's lives this is.
    #[inline]
    fn life(self) -> u64 {
        self.0 >> Self::LIFE & (LIVES - 1)
    }

    /// This number and life, and nothing else.
    fn alone(self) -> Self {
        Self(self.0 & !((1 << Self::LIFE) - 1))
    }

    /// The same in the next life.
    fn reborn(self) -> Self {
        Self(self.number() << 16 | ((self.life() + 1) % LIVES) << Self::LIFE)
    }
}

/// What many keys do not have.
#[derive(Debug, Default)]
struct More {
    /// Buckets before the newest, oldest first, 8 bytes each: the number's low 8
    /// bits above a count of 56. All are less than 256 before the newest, so the
    /// low bits tell which.
    older: Vec<u64>,
    /// Refunded from the newest bucket.
    refunded: u64,
    /// The capacity of the last `take_with`, 0 after a plain take.
    capacity: u64,
    /// What was given back: a receipt that overlaps one of these is void.
    refunds: Vec<Receipt>,
}

/// An answer before it is dressed as a decision: flat, so that it stays in
/// registers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Verdict {
    pub(super) outcome: Outcome,
    /// What counts, the charge included.
    pub(super) total: u64,
    pub(super) reset_after_ms: u64,
    /// By outcome: the charge's bucket and life, or when to come back.
    pub(super) a: u64,
    /// By outcome: the charge's offset, or what is free then.
    pub(super) b: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    Admitted,
    /// Would be.
    Fits,
    Rejected,
    /// The cost is above the capacity.
    NeverFits,
}

/// What a take is judged by.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ask {
    pub(super) cost: u64,
    pub(super) capacity: u64,
    /// What a later peek shall judge by: 0 for the configured capacity.
    pub(super) remember: u64,
}

impl Usage {
    /// Charges `ask.cost` if it fits.
    #[inline]
    pub(super) fn take(&mut self, grid: &Grid, now_ms: u64, ask: Ask) -> Verdict {
        let live = self.live(grid, now_ms);
        if live.total + ask.cost > ask.capacity {
            return self.refuse(grid, now_ms, &live, ask.cost, ask.capacity);
        }
        if live.started_over || live.dead > 0 {
            self.forget(grid, &live);
        }
        let bucket = grid.bucket(live.instant);
        if bucket != self.newest.number() {
            self.start(bucket);
        }
        let mut offset = self.charged;
        if self.newest.has(Newest::HAS_QUIRKS) || ask.remember != 0 {
            let more = self.more.get_or_insert_default();
            more.capacity = ask.remember;
            offset += more.refunded;
            self.newest.set(Newest::HAS_QUIRKS, more.capacity != 0 || more.refunded != 0);
        }
        self.charged += ask.cost;
        Verdict {
            outcome: Outcome::Admitted,
            total: live.total + ask.cost,
            reset_after_ms: grid.end_of_life_ms(bucket) - now_ms,
            a: bucket * LIVES + self.newest.life(),
            b: offset,
        }
    }

    /// Judges a cost of one without charging it; by which capacity, too.
    pub(super) fn peek(&self, grid: &Grid, now_ms: u64, configured: u64) -> (Verdict, u64) {
        let live = self.live(grid, now_ms);
        let remembered = self.more.as_ref().map_or(0, |more| more.capacity);
        let capacity = if live.started_over || remembered == 0 { configured } else { remembered };
        if live.total + 1 > capacity {
            return (self.refuse(grid, now_ms, &live, 1, capacity), capacity);
        }
        let reset_after_ms = self.reset_after_ms(grid, now_ms, live.total);
        (Verdict { outcome: Outcome::Fits, total: live.total, reset_after_ms, a: 0, b: 0 }, capacity)
    }

    /// Gives back one charge; the amount, or 0 if it no longer counts or has
    /// been given back before.
    pub(super) fn refund(&mut self, grid: &Grid, now_ms: u64, receipt: Receipt) -> u64 {
        let live = self.live(grid, now_ms);
        let receipt = match (receipt.bucket / LIVES, receipt.bucket % LIVES) {
            (bucket, life) if life == self.newest.life() => Receipt { bucket, ..receipt },
            _ => return 0,
        };
        // A receipt of a later bucket than the newest is none of ours.
        let newest = self.newest.number();
        let known = receipt.bucket <= newest && !live.started_over;
        if !known || grid.end_of_life_ms(receipt.bucket) <= live.instant {
            return 0;
        }
        let more = self.more.get_or_insert_default();
        let overlaps = |other: &Receipt| {
            other.bucket == receipt.bucket
                && receipt.offset < other.offset + other.cost
                && other.offset < receipt.offset + receipt.cost
        };
        let counts = |refund: &Receipt| grid.end_of_life_ms(refund.bucket) > live.instant;
        let remembered = more.refunds.iter().filter(|refund| counts(refund)).count();
        if remembered >= MAX_REFUNDS || more.refunds.iter().any(overlaps) {
            return 0;
        }
        let is_newest = receipt.bucket == newest;
        let is_charged = match is_newest {
            true => receipt.offset + receipt.cost <= self.charged + more.refunded,
            false => more.find(receipt.bucket, newest).is_some_and(|packed| count(*packed) >= receipt.cost),
        };
        if !is_charged {
            return 0;
        }
        self.forget(grid, &live);
        let more = self.more.get_or_insert_default();
        if is_newest {
            self.charged -= receipt.cost;
            more.refunded += receipt.cost;
            self.newest.set(Newest::HAS_QUIRKS, true);
        } else if let Some(packed) = more.find(receipt.bucket, newest) {
            // The count is in the low bits: the number stays as it is.
            *packed -= receipt.cost;
            self.older_sum -= receipt.cost;
        }
        more.refunds.retain(counts);
        more.refunds.push(receipt);
        receipt.cost
    }

    /// Forgets all charges. Receipts from before are void: all that was ever
    /// charged to the newest bucket counts as given back.
    pub(super) fn reset(&mut self) {
        let ever = self.charged + self.more.as_ref().map_or(0, |more| more.refunded);
        let refunds = vec![Receipt { bucket: self.newest.number(), offset: 0, cost: ever, subject: 0 }];
        let more = Some(Box::new(More { refunded: ever, refunds, ..More::default() }));
        *self = Self { newest: self.newest.alone(), more, ..Self::default() };
        self.newest.set(Newest::HAS_QUIRKS, true);
    }

    /// When nothing of this counts any more.
    pub(super) fn end_of_life_ms(&self, grid: &Grid) -> u64 {
        grid.end_of_life_ms(self.newest.number())
    }

    /// Whether it can only be from a clock that was wrong.
    pub(super) fn is_absurd(&self, grid: &Grid, now_ms: u64) -> bool {
        grid.is_absurd(self.newest.number(), now_ms)
    }

    /// What counts at the time that decides: the clock's, or that of the newest
    /// charge if the clock is behind it.
    #[inline]
    fn live(&self, grid: &Grid, now_ms: u64) -> Live {
        let newest = self.newest.number();
        let is_absurd = grid.is_absurd(newest, now_ms);
        let instant = if is_absurd { now_ms } else { grid.start_ms(newest).max(now_ms) };
        if is_absurd || grid.end_of_life_ms(newest) <= instant {
            return Live { instant, started_over: true, dead: 0, dead_sum: 0, total: 0 };
        }
        if self.newest.has(Newest::HAS_OLDER) && grid.end_of_life_ms(self.newest.oldest()) <= instant {
            return self.live_without_the_dead(grid, instant);
        }
        let total = self.older_sum + self.charged;
        Live { instant, started_over: false, dead: 0, dead_sum: 0, total }
    }

    #[inline(never)]
    fn live_without_the_dead(&self, grid: &Grid, instant: u64) -> Live {
        let is_dead = |packed: &&u64| grid.end_of_life_ms(self.number(**packed)) <= instant;
        let (mut dead, mut dead_sum) = (0, 0);
        for packed in self.older().iter().take_while(is_dead) {
            dead += 1;
            dead_sum += count(*packed);
        }
        Live { instant, started_over: false, dead, dead_sum, total: self.older_sum - dead_sum + self.charged }
    }

    /// Drops what `live` found dead. Every write does, and nothing else: what a
    /// clock that steps back finds is what the last write left.
    #[inline(never)]
    fn forget(&mut self, grid: &Grid, live: &Live) {
        if live.started_over {
            *self = Self { newest: self.newest.reborn(), ..Self::default() };
        } else if live.dead > 0
            && let Some(more) = &mut self.more
        {
            more.older.drain(..live.dead);
            more.refunds.retain(|refund| grid.end_of_life_ms(refund.bucket) > live.instant);
            self.older_sum -= live.dead_sum;
            self.newest.set_oldest(more.older.first().map(|packed| (packed >> 56) as u8));
        }
    }

    /// Makes `bucket` the newest.
    #[inline(never)]
    fn start(&mut self, bucket: u64) {
        if self.charged > 0 {
            let older = &mut self.more.get_or_insert_default().older;
            if older.len() == older.capacity() {
                // A quarter more: doubling would cost 16 bytes a bucket.
                older.reserve_exact(older.len() / 4 + 4);
            }
            older.push(self.newest.number() << 56 | self.charged);
            if !self.newest.has(Newest::HAS_OLDER) {
                self.newest.set_oldest(Some(self.newest.number() as u8));
            }
            self.older_sum += self.charged;
        }
        if self.newest.has(Newest::HAS_QUIRKS)
            && let Some(more) = &mut self.more
        {
            more.refunded = 0;
        }
        self.newest.set_number(bucket);
        self.charged = 0;
    }

    #[inline]
    fn refuse(&self, grid: &Grid, now_ms: u64, live: &Live, cost: u64, capacity: u64) -> Verdict {
        let reset_after_ms = self.reset_after_ms(grid, now_ms, live.total);
        let verdict = |outcome, a, b| Verdict { outcome, total: live.total, reset_after_ms, a, b };
        if cost > capacity {
            return verdict(Outcome::NeverFits, 0, 0);
        }
        if !self.newest.has(Newest::HAS_OLDER) {
            // All of it goes at once.
            return verdict(Outcome::Rejected, reset_after_ms, capacity);
        }
        let (free_at, freed) = self.first_to_free(grid, live, live.total + cost - capacity);
        verdict(Outcome::Rejected, free_at - now_ms, capacity.saturating_sub(live.total - freed))
    }

    /// When enough has gone to free `needed`, and how much has gone by then.
    #[inline(never)]
    fn first_to_free(&self, grid: &Grid, live: &Live, needed: u64) -> (u64, u64) {
        let mut freed = 0;
        for packed in &self.older()[live.dead..] {
            freed += count(*packed);
            if freed >= needed {
                return (grid.end_of_life_ms(self.number(*packed)), freed);
            }
        }
        // What is needed is at most the total, and the newest is the rest of it.
        (grid.end_of_life_ms(self.newest.number()), live.total)
    }

    #[inline]
    fn reset_after_ms(&self, grid: &Grid, now_ms: u64, total: u64) -> u64 {
        if total == 0 { 0 } else { grid.end_of_life_ms(self.newest.number()) - now_ms }
    }

    fn older(&self) -> &[u64] {
        self.more.as_ref().map_or(&[], |more| &more.older)
    }

    /// The number of a packed bucket.
    fn number(&self, packed: u64) -> u64 {
        number((packed >> 56) as u8, self.newest.number())
    }
}

impl More {
    fn find(&mut self, bucket: u64, newest: u64) -> Option<&mut u64> {
        self.older.iter_mut().find(|packed| number((**packed >> 56) as u8, newest) == bucket)
    }
}

/// What still counts.
struct Live {
    instant: u64,
    /// The newest bucket is over, or from a clock that was wrong.
    started_over: bool,
    /// How many of the older buckets are over, and what they hold.
    dead: usize,
    dead_sum: u64,
    total: u64,
}

/// The number of a bucket by its low bits: the last such one up to the newest.
#[inline]
fn number(low_bits: u8, newest: u64) -> u64 {
    newest - u64::from((newest as u8).wrapping_sub(low_bits))
}

/// The count of a packed bucket.
fn count(packed: u64) -> u64 {
    packed & (u64::MAX >> 8)
}
