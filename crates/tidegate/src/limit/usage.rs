//! What one key has used: its buckets, in 32 bytes while there is only one.
//!
//! The rules are those of `sliding.lua`, step by step; the differential test holds
//! the two together. A refusal and a
//! peek change nothing of what counts, not even what has expired, so that a clock
//! stepping back finds the same on every store.

mod give_back;
mod newest;

use self::newest::{Newest, number};
use super::algorithm::{Request, Terms};
use super::receipt::Receipt;
use super::sliding::Grid;
use super::verdict::{Outcome, Verdict};

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
    /// What the other buckets hold, those that are over included.
    others: u64,
    more: Option<Box<More>>,
}

/// What many keys do not have.
#[derive(Debug, Default)]
struct More {
    /// Buckets before the newest, oldest first, 8 bytes each: the number's low 8
    /// bits above a count of 56. All are less than 256 before the newest, so the
    /// low bits tell which.
    older: Vec<u64>,
    /// Buckets ahead of the newest, the nearest first: what may be spent until then.
    ahead: Vec<(u64, u64)>,
    /// Refunded from the newest bucket.
    refunded: u64,
    /// The capacity of the last `take_with`, 0 after a plain take.
    capacity: u64,
    /// What was given back: a receipt that overlaps one of these is void.
    refunds: Vec<Receipt>,
}

impl Usage {
    /// Charges `request.cost` if it fits.
    #[inline(always)]
    pub(super) fn take(&mut self, grid: &Grid, now_ms: u64, request: Request) -> Verdict {
        let live = self.live(grid, now_ms);
        if live.total + request.cost > request.terms[0] {
            if self.newest.has(Newest::HAS_QUIRKS) && !request.remember {
                self.forget_terms();
            }
            return self.refuse(grid, now_ms, live, request);
        }
        if live.age != Age::Counts {
            self.forget(grid, live);
        }
        let mut bucket = self.newest.number();
        // Never before it starts, unless the clock was wrong.
        if live.instant.wrapping_sub(grid.start_ms(bucket)) >= grid.coalesce_ms {
            bucket = grid.bucket(live.instant);
            self.start(bucket);
        }
        let (mut offset, mut last) = (self.charged, bucket);
        if self.newest.has(Newest::HAS_QUIRKS) || request.remember {
            let more = self.more.get_or_insert_default();
            more.capacity = if request.remember { request.terms[0] } else { 0 };
            offset += more.refunded;
            last = more.ahead.last().map_or(bucket, |ahead| ahead.0);
            self.note_quirks();
        }
        self.charged += request.cost;
        Verdict {
            outcome: Outcome::Admitted,
            capacity: request.terms[0],
            remaining: request.terms[0] - live.total - request.cost,
            reset_after_ms: grid.end_of_life_ms(last) - now_ms,
            a: bucket * LIVES + self.newest.life(),
            b: offset,
        }
    }

    /// Judges a cost without charging it.
    pub(super) fn peek(&self, grid: &Grid, now_ms: u64, request: Request) -> Verdict {
        let live = self.live(grid, now_ms);
        if live.total + request.cost > request.terms[0] {
            return self.refuse(grid, now_ms, live, request);
        }
        Verdict {
            outcome: Outcome::Fits,
            capacity: request.terms[0],
            remaining: request.terms[0] - live.total,
            reset_after_ms: self.reset_after_ms(grid, now_ms, live.total),
            a: 0,
            b: 0,
        }
    }

    /// The terms of the last `take_with`, if they still count.
    pub(super) fn remembered(&self, grid: &Grid, now_ms: u64) -> Option<Terms> {
        let capacity = self.more.as_ref()?.capacity;
        (capacity != 0 && self.live(grid, now_ms).age != Age::StartedOver).then_some([capacity, 0])
    }

    /// Charges `cost`, which has been judged to fit, as if spent after `lasting_ms`;
    /// or so that it counts only until then, to the end of a bucket. Returns the
    /// bucket.
    pub(super) fn hold(
        &mut self,
        grid: &Grid,
        now_ms: u64,
        cost: u64,
        lasting_ms: u64,
        is_lent: bool,
    ) -> u64 {
        let live = self.live(grid, now_ms);
        self.forget(grid, live);
        let bucket_now = grid.bucket(live.instant);
        if bucket_now != self.newest.number() {
            self.start(bucket_now);
        }
        let bucket = match live.instant + lasting_ms {
            until_ms if is_lent => {
                until_ms.saturating_sub(grid.window_ms).div_ceil(grid.coalesce_ms).saturating_sub(1)
            }
            spent_ms => grid.bucket(spent_ms),
        };
        let newest = self.newest.number();
        if bucket == newest {
            self.charged += cost;
            return bucket;
        }
        let more = self.more.get_or_insert_default();
        if bucket > newest {
            match more.ahead.binary_search_by_key(&bucket, |ahead| ahead.0) {
                Ok(at) => more.ahead[at].1 += cost,
                Err(at) => more.ahead.insert(at, (bucket, cost)),
            }
        } else if let Some(packed) = more.find(bucket, newest) {
            *packed += cost;
        } else {
            let at = more.older.partition_point(|packed| number((packed >> 56) as u8, newest) < bucket);
            more.older.insert(at, bucket << 56 | cost);
            self.newest.set_oldest(more.older.first().map(|packed| (packed >> 56) as u8));
        }
        self.others += cost;
        self.note_quirks();
        bucket
    }

    /// Takes up to `cost` out of a bucket again, if it still counts, and charges up
    /// to `spent` of that to this moment. Returns what was taken out.
    pub(super) fn settle(&mut self, grid: &Grid, now_ms: u64, bucket: u64, cost: u64, spent: u64) -> u64 {
        let live = self.live(grid, now_ms);
        if live.age == Age::StartedOver || grid.end_of_life_ms(bucket) <= live.instant || bucket > self.last()
        {
            return 0;
        }
        self.forget(grid, live);
        let bucket_now = grid.bucket(live.instant);
        if bucket_now != self.newest.number() {
            self.start(bucket_now);
        }
        let newest = self.newest.number();
        let more = self.more.get_or_insert_default();
        let taken = if bucket == newest {
            let taken = cost.min(self.charged);
            self.charged -= taken;
            // No receipt is for what was taken out.
            more.refunded += taken;
            taken
        } else if bucket > newest {
            match more.ahead.binary_search_by_key(&bucket, |ahead| ahead.0) {
                Ok(at) => {
                    let taken = cost.min(more.ahead[at].1);
                    more.ahead[at].1 -= taken;
                    if more.ahead[at].1 == 0 {
                        more.ahead.remove(at);
                    }
                    self.others -= taken;
                    taken
                }
                Err(_) => 0,
            }
        } else {
            let taken = more.find(bucket, newest).map_or(0, |packed| {
                let taken = cost.min(count(*packed));
                *packed -= taken;
                taken
            });
            self.others -= taken;
            taken
        };
        self.charged += spent.min(taken);
        self.note_quirks();
        taken
    }

    /// After a plain take, be it refused, a peek goes by the limit's own terms.
    #[cold]
    fn forget_terms(&mut self) {
        if let Some(more) = &mut self.more {
            more.capacity = 0;
        }
        self.note_quirks();
    }

    /// Whether a take has to look at what is rarely there.
    fn note_quirks(&mut self) {
        let quirks = self
            .more
            .as_ref()
            .is_some_and(|more| more.capacity != 0 || more.refunded != 0 || !more.ahead.is_empty());
        self.newest.set(Newest::HAS_QUIRKS, quirks);
    }

    /// The last bucket with a charge.
    fn last(&self) -> u64 {
        let ahead = self.more.as_ref().and_then(|more| more.ahead.last());
        ahead.map_or(self.newest.number(), |ahead| ahead.0)
    }

    /// Gives back one charge; the amount, or 0 if it no longer counts or has
    /// been given back before.
    pub(super) fn refund(&mut self, grid: &Grid, now_ms: u64, receipt: Receipt) -> u64 {
        let live = self.live(grid, now_ms);
        let receipt = match (receipt.bucket / LIVES, receipt.bucket % LIVES) {
            (bucket, life) if life == self.newest.life() => Receipt { bucket, ..receipt },
            _ => return 0,
        };
        if !self.holds(grid, live, receipt.bucket, receipt.cost) {
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
        let is_newest = receipt.bucket == self.newest.number();
        if is_newest && receipt.offset + receipt.cost > self.charged + more.refunded {
            return 0;
        }
        self.forget(grid, live);
        self.lower(receipt.bucket, receipt.cost);
        let more = self.more.get_or_insert_default();
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
        // Another life: what is held later may be put into a bucket of before.
        *self = Self { newest: self.newest.reborn(), more, ..Self::default() };
        self.newest.set(Newest::HAS_QUIRKS, true);
    }

    /// When nothing of this counts any more.
    pub(super) fn end_of_life_ms(&self, grid: &Grid) -> u64 {
        grid.end_of_life_ms(self.last())
    }

    /// Whether it can only be from a clock that was wrong.
    pub(super) fn is_absurd(&self, grid: &Grid, now_ms: u64) -> bool {
        grid.deciding(self.newest.number(), now_ms).1
    }

    /// What counts at the time that decides: the clock's, or that of the newest
    /// charge if the clock is behind it.
    #[inline]
    fn live(&self, grid: &Grid, now_ms: u64) -> Live {
        let newest = self.newest.number();
        let (instant, is_absurd) = grid.deciding(newest, now_ms);
        if is_absurd || grid.end_of_life_ms(newest) <= instant {
            return match is_absurd || grid.end_of_life_ms(self.last()) <= instant {
                true => Live { instant, age: Age::StartedOver, total: 0 },
                false => self.live_without_the_dead(grid, instant),
            };
        }
        if self.newest.has(Newest::HAS_OLDER) && grid.end_of_life_ms(self.newest.oldest()) <= instant {
            return self.live_without_the_dead(grid, instant);
        }
        Live { instant, age: Age::Counts, total: self.others + self.charged }
    }

    #[inline(never)]
    fn live_without_the_dead(&self, grid: &Grid, instant: u64) -> Live {
        let dead = self.buckets().take_while(|(bucket, _)| grid.end_of_life_ms(*bucket) <= instant);
        let total = self.others + self.charged - dead.map(|(_, count)| count).sum::<u64>();
        Live { instant, age: Age::SomeAreOver, total }
    }

    /// All buckets, the oldest first.
    fn buckets(&self) -> impl Iterator<Item = (u64, u64)> {
        let older = self.older().iter().map(|packed| (self.number(*packed), count(*packed)));
        let ahead = self.more.as_ref().map_or(&[][..], |more| &more.ahead);
        older.chain([(self.newest.number(), self.charged)]).chain(ahead.iter().copied())
    }

    /// Drops what `live` found dead. Every write does, and nothing else: what a
    /// clock that steps back finds is what the last write left.
    #[inline]
    fn forget(&mut self, grid: &Grid, live: Live) {
        let Live { instant, age, total } = live;
        self.forget_dead(grid, instant, age, total);
    }

    /// In numbers, which need not be put into memory before.
    #[inline(never)]
    fn forget_dead(&mut self, grid: &Grid, instant: u64, age: Age, total: u64) {
        if age == Age::StartedOver {
            *self = Self { newest: self.newest.reborn(), ..Self::default() };
        } else if age == Age::SomeAreOver {
            let newest = self.newest.number();
            let counts = |bucket: u64| grid.end_of_life_ms(bucket) > instant;
            if !counts(newest) {
                self.charged = 0;
            }
            if let Some(more) = &mut self.more {
                let dead =
                    more.older.iter().take_while(|packed| !counts(number((**packed >> 56) as u8, newest)));
                let dead = dead.count();
                more.older.drain(..dead);
                more.ahead.retain(|(bucket, _)| counts(*bucket));
                more.refunds.retain(|refund| counts(refund.bucket));
                if !counts(newest) {
                    more.refunded = 0;
                }
                self.newest.set_oldest(more.older.first().map(|packed| (packed >> 56) as u8));
            }
            self.others = total - self.charged;
            self.note_quirks();
        }
    }

    /// Makes `bucket` the newest.
    #[inline(never)]
    fn start(&mut self, bucket: u64) {
        if self.charged > 0 {
            self.put_behind(self.newest.number(), self.charged);
            self.others += self.charged;
        }
        self.charged = 0;
        let has_quirks = self.newest.has(Newest::HAS_QUIRKS);
        self.newest.set_number(bucket);
        if !has_quirks {
            return;
        }
        let Some(more) = &mut self.more else { return };
        more.refunded = 0;
        // What was ahead is behind now, or here.
        let reached: Vec<_> = more.ahead.extract_if(.., |(number, _)| *number <= bucket).collect();
        for (number, count) in reached {
            if number == bucket {
                self.charged = count;
                self.others -= count;
            } else {
                self.put_behind(number, count);
            }
        }
        self.note_quirks();
    }

    /// Adds a bucket behind all older ones.
    fn put_behind(&mut self, number: u64, count: u64) {
        let older = &mut self.more.get_or_insert_default().older;
        if older.len() == older.capacity() {
            // A quarter more: doubling would cost 16 bytes a bucket.
            older.reserve_exact(older.len() / 4 + 4);
        }
        older.push(number << 56 | count);
        if !self.newest.has(Newest::HAS_OLDER) {
            self.newest.set_oldest(Some(number as u8));
        }
    }

    #[inline]
    fn refuse(&self, grid: &Grid, now_ms: u64, live: Live, request: Request) -> Verdict {
        let (cost, capacity) = (request.cost, request.terms[0]);
        let reset_after_ms = self.reset_after_ms(grid, now_ms, live.total);
        let remaining = capacity.saturating_sub(live.total);
        let verdict = |outcome, a, b| Verdict { outcome, capacity, remaining, reset_after_ms, a, b };
        if cost > capacity {
            return verdict(Outcome::NeverFits, 0, 0);
        }
        if !self.newest.has(Newest::HAS_OLDER) && !self.newest.has(Newest::HAS_QUIRKS) {
            // All of it goes at once.
            return verdict(Outcome::Rejected, reset_after_ms, capacity);
        }
        let (free_at, freed) =
            self.first_to_free(grid, live.instant, live.total, live.total + cost - capacity);
        verdict(Outcome::Rejected, free_at - now_ms, capacity.saturating_sub(live.total - freed))
    }

    /// When enough has gone to free `needed`, and how much has gone by then.
    #[inline(never)]
    fn first_to_free(&self, grid: &Grid, instant: u64, total: u64, needed: u64) -> (u64, u64) {
        let mut freed = 0;
        for (bucket, count) in self.buckets() {
            let end = grid.end_of_life_ms(bucket);
            if end > instant {
                freed += count;
                if freed >= needed {
                    return (end, freed);
                }
            }
        }
        // What is needed is at most the total.
        (grid.end_of_life_ms(self.last()), total)
    }

    #[inline]
    fn reset_after_ms(&self, grid: &Grid, now_ms: u64, total: u64) -> u64 {
        if total == 0 { 0 } else { grid.end_of_life_ms(self.last()) - now_ms }
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
#[derive(Debug, Clone, Copy)]
struct Live {
    instant: u64,
    age: Age,
    total: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Age {
    /// All buckets count.
    Counts,
    SomeAreOver,
    /// The last bucket is over, or from a clock that was wrong.
    StartedOver,
}

/// The count of a packed bucket.
fn count(packed: u64) -> u64 {
    packed & (u64::MAX >> 8)
}
