//! Hot pages in this process: exact, synchronous, bounded in pages and bytes.

use std::fmt;
use std::ops::{Range, RangeInclusive};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;

use super::batch::{Before, MAX_EDITS, grouped, in_order, in_order_of_coming, summed};
use super::edit::{Count, Edit, EditRef, HotPage, Recorded, Removed, Stats, wrong_kind};
use super::memory::{Cleaned, Counting, Effects, Partition};
use super::metrics::HotMetrics;
use super::notes::Notes;
use super::options::{HotOptions, MAX_TRACKED};
use super::position::{News, Position};
use crate::clock::{Clock, Timestamp};
use crate::error::Result;
use crate::key::Key;
use crate::metrics::Metrics;

/// A space of hot pages in this process. Clones share it.
///
/// ```
/// use tidegate::Key;
/// use tidegate::hot::{Edit, HotOptions, InProcess, Recorded};
///
/// let hot = InProcess::new(HotOptions::new().hot_threshold(2))?;
/// let page = Key::new("en:Tide gate")?;
/// assert_eq!(hot.record(&Edit::new(page, "1", "alice"))?, Recorded::Remembered);
/// assert_eq!(hot.record(&Edit::new(page, "2", "bob"))?, Recorded::Promoted { replaced: None });
/// assert!(hot.is_hot(page));
/// assert_eq!(hot.list(10)[0].page, "en:Tide gate");
/// # Ok::<(), tidegate::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct InProcess {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    clock: Clock,
    partitions: Partitions,
    notes: Arc<Notes>,
    listener: OnceLock<Listener>,
}

/// Those of a space that keeps edits, or of one that only counts.
#[derive(Debug)]
enum Partitions {
    Edits(Box<[Mutex<Partition>]>),
    Counts(Box<[Mutex<Counting>]>),
}

/// Does the same with a partition of either kind.
macro_rules! either {
    ($partitions:expr, $number:expr, $partition:ident => $act:expr) => {
        match &$partitions {
            Partitions::Edits(all) => {
                let $partition = &mut *all[$number].lock();
                $act
            }
            Partitions::Counts(all) => {
                let $partition = &mut *all[$number].lock();
                $act
            }
        }
    };
}

/// Is told in which partition something has happened.
struct Listener(Box<dyn Fn(usize) + Send + Sync>);

impl fmt::Debug for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Listener")
    }
}

/// Pages that a cleanup looks after at a time.
pub(super) const CLEANED_AT_A_TIME: usize = 200;

impl InProcess {
    /// A space on the system's clock.
    ///
    /// Pages leave as edits come; where they may not come for a while, call
    /// [`cleanup`](Self::cleanup) now and then.
    pub fn new(options: HotOptions) -> Result<Self> {
        Self::with_clock(options, Clock::system())
    }

    /// A space on `clock`.
    pub fn with_clock(options: HotOptions, clock: Clock) -> Result<Self> {
        options.check()?;
        let metrics = HotMetrics::new(&Metrics::default(), "");
        Ok(Self::noted(clock, Arc::new(Notes::new("", options, metrics)?)))
    }

    /// One whose options were checked.
    pub(super) fn noted(clock: Clock, notes: Arc<Notes>) -> Self {
        let (bounds, of) = (notes.options.bounds(), notes.options.partitions);
        let partitions = match notes.options.only_counts() {
            true => Partitions::Counts((0..of).map(|_| Mutex::new(Counting::new(bounds))).collect()),
            false => Partitions::Edits((0..of).map(|_| Mutex::new(Partition::new(bounds))).collect()),
        };
        Self { shared: Arc::new(Shared { clock, partitions, notes, listener: OnceLock::new() }) }
    }

    /// Calls `listener` with the partition whenever something has happened in one.
    pub(super) fn listen(&self, listener: impl Fn(usize) + Send + Sync + 'static) {
        // There is one who listens, and it begins once.
        let _ = self.shared.listener.set(Listener(Box::new(listener)));
    }

    /// What it is bounded by.
    pub fn options(&self) -> &HotOptions {
        &self.shared.notes.options
    }

    #[inline]
    pub(super) fn now_ms(&self) -> u64 {
        self.shared.clock.now().as_millis()
    }

    #[inline]
    fn partition(&self, page: Key<'_>) -> usize {
        self.shared.notes.spread.partition(page.as_str()) as usize
    }

    /// The numbers of all partitions.
    fn numbers(&self) -> Range<usize> {
        0..self.options().partitions as usize
    }

    #[inline]
    fn note(&self, number: usize, effects: &Effects, now_ms: u64) {
        self.shared.notes.note(effects, || now_ms);
        if effects.events.is_some()
            && let Some(Listener(tell)) = self.shared.listener.get()
        {
            tell(number);
        }
    }

    /// Records an edit.
    #[inline]
    pub fn record(&self, edit: &Edit<'_>) -> Result<Recorded> {
        let partitions = self.edits()?;
        edit.check()?;
        let (number, now_ms) = (self.partition(edit.page), self.now_ms());
        let (recorded, effects) = partitions[number].lock().record(now_ms, edit);
        self.note(number, &effects, now_ms);
        Ok(recorded)
    }

    /// Records many; what became of each, in order. Those of a page are recorded together, by when they were made,
    /// whatever order they come in. If one of them is not allowed, none is.
    pub fn record_many(&self, edits: &[Edit<'_>]) -> Result<Vec<Recorded>> {
        let partitions = self.edits()?;
        edits.iter().try_for_each(Edit::check)?;
        let (mut before, mut answers) = (Before::default(), Vec::with_capacity(edits.len()));
        for mut group in grouped(edits, MAX_EDITS) {
            // More of its page may follow.
            let is_full = group.len() == MAX_EDITS;
            answers.extend(before.take_known(edits, &mut group));
            let Some(first) = group.first() else { continue };
            let (number, now_ms) = (self.partition(edits[*first].page), self.now_ms());
            let its: Vec<_> = group.iter().map(|it| &edits[*it]).collect();
            let (recorded, effects) = partitions[number].lock().record_all(now_ms, &its);
            self.note(number, &effects, now_ms);
            if is_full {
                its.iter().zip(&recorded).for_each(|(edit, recorded)| before.note(edit, recorded));
            }
            answers.extend(group.into_iter().zip(recorded));
        }
        Ok(in_order(answers))
    }

    /// Counts `count` more of `page`, now, in a space that [only counts](HotOptions::only_counts).
    ///
    /// ```
    /// use tidegate::Key;
    /// use tidegate::hot::{HotOptions, InProcess, Recorded};
    ///
    /// let hot = InProcess::new(HotOptions::new().hot_threshold(100).max_members_per_page(0))?;
    /// let page = Key::new("en:Tide gate")?;
    /// assert_eq!(hot.count(page, 60)?, Recorded::Remembered);
    /// assert_eq!(hot.count(page, 60)?, Recorded::Promoted { replaced: None });
    /// assert_eq!(hot.count(page, 1)?, Recorded::Counted);
    /// assert_eq!(hot.stats(page).edits_last_hour, 121);
    /// # Ok::<(), tidegate::Error>(())
    /// ```
    #[inline]
    pub fn count(&self, page: Key<'_>, count: u64) -> Result<Recorded> {
        let partitions = self.counts()?;
        Count::new(page, count).check()?;
        Ok(self.count_at(partitions, page, count, 1, self.now_ms()))
    }

    /// Counts many; what became of each, in order. Those of a page are counted together and meet the same. If one of them
    /// is not allowed, none is.
    pub fn count_many(&self, counts: &[Count<'_>]) -> Result<Vec<Recorded>> {
        let partitions = self.counts()?;
        counts.iter().try_for_each(Count::check)?;
        let ((pages, numbers), now_ms) = (summed(counts), self.now_ms());
        let mut done = Vec::with_capacity(counts.len());
        for (Count { page, count }, its) in pages.into_iter().zip(&numbers) {
            // What a page met, all of its counts did.
            let recorded = self.count_at(partitions, page, count, its.len(), now_ms);
            done.extend(its.iter().map(|_| recorded.clone()));
        }
        Ok(in_order_of_coming(numbers, done))
    }

    /// Counts the sum of so many counts.
    #[inline]
    fn count_at(
        &self,
        partitions: &[Mutex<Counting>],
        page: Key<'_>,
        count: u64,
        counts: usize,
        now_ms: u64,
    ) -> Recorded {
        let number = self.partition(page);
        let (recorded, effects) = partitions[number].lock().count(now_ms, page.as_str(), count);
        self.note(number, &effects.of_counts(counts), now_ms);
        recorded
    }

    /// Where edits are kept; an error if they are not.
    #[inline]
    fn edits(&self) -> Result<&[Mutex<Partition>]> {
        match &self.shared.partitions {
            Partitions::Edits(partitions) => Ok(partitions),
            Partitions::Counts(_) => Err(wrong_kind(self.options(), false)),
        }
    }

    /// Where counts are, or an error.
    #[inline]
    fn counts(&self) -> Result<&[Mutex<Counting>]> {
        match &self.shared.partitions {
            Partitions::Counts(partitions) => Ok(partitions),
            Partitions::Edits(_) => Err(wrong_kind(self.options(), true)),
        }
    }

    /// Forgets all that is known of `page`, hot or not; what it had been. Its next edit is its
    /// first.
    pub fn remove(&self, page: Key<'_>) -> Removed {
        let (number, now_ms) = (self.partition(page), self.now_ms());
        let (removed, effects) =
            either!(self.shared.partitions, number, it => it.remove(now_ms, page.as_str()));
        self.note(number, &effects, now_ms);
        removed
    }

    /// Whether `page` is hot.
    pub fn is_hot(&self, page: Key<'_>) -> bool {
        let number = self.partition(page);
        either!(self.shared.partitions, number, it => it.is_hot(self.now_ms(), page.as_str()))
    }

    /// What is known of `page`.
    pub fn stats(&self, page: Key<'_>) -> Stats {
        let number = self.partition(page);
        either!(self.shared.partitions, number, it => it.stats(self.now_ms(), page.as_str()))
    }

    /// The edits of `page` in `range` that are in its window, oldest first; none in a space that only counts.
    pub fn window(&self, page: Key<'_>, range: RangeInclusive<Timestamp>) -> Vec<EditRef> {
        let (from_ms, to_ms) = (range.start().as_millis(), range.end().as_millis());
        let number = self.partition(page);
        either!(self.shared.partitions, number, it => it.window(self.now_ms(), page.as_str(), from_ms, to_ms))
    }

    /// The `limit` hottest pages, hottest first: by edits in the window, then by the
    /// latest of them.
    pub fn list(&self, limit: usize) -> Vec<HotPage> {
        self.list_after(None, limit)
    }

    /// The same, of those that are ranked behind `after`: the last page of the list before.
    pub fn list_after(&self, after: Option<&HotPage>, limit: usize) -> Vec<HotPage> {
        let (limit, now_ms) = (limit.min(MAX_TRACKED), self.now_ms());
        if limit == 0 {
            return Vec::new();
        }
        let list =
            |number: usize| either!(self.shared.partitions, number, it => it.list(now_ms, after, limit));
        let lists = self.numbers().map(list);
        HotPage::hottest(lists.flatten().collect(), limit)
    }

    /// How many pages are hot, exactly.
    pub fn tracked(&self) -> u64 {
        let now_ms = self.now_ms();
        let count =
            |number: usize| either!(self.shared.partitions, number, it => it.hot_and_remembered(now_ms));
        self.shared.notes.counted(self.numbers().map(count))
    }

    /// Drops pages whose window is empty, and activity that is over; how many pages
    /// that were.
    pub fn cleanup(&self) -> u64 {
        let cleaned: Vec<_> = self.numbers().map(|number| self.clean_one(number)).collect();
        self.shared.notes.counted(cleaned.iter().map(|it| (it.tracked, it.activities)));
        self.shared.notes.metrics.cleanups.inc();
        cleaned.iter().map(|it| it.effects.expired).sum()
    }

    fn clean_one(&self, number: usize) -> Cleaned {
        let mut expired = 0;
        loop {
            let mut cleaned = self.clean_batch(number, CLEANED_AT_A_TIME);
            expired += cleaned.effects.expired;
            if !(cleaned.is_more || cleaned.is_more_activity) {
                cleaned.effects.expired = expired;
                return cleaned;
            }
        }
    }

    /// Looks after up to `limit` pages of a partition.
    pub(super) fn clean_batch(&self, number: usize, limit: usize) -> Cleaned {
        let now_ms = self.now_ms();
        let cleaned = either!(self.shared.partitions, number, it => it.cleanup(now_ms, limit));
        self.note(number, &cleaned.effects, now_ms);
        cleaned
    }

    /// Bytes that its pages use.
    pub fn bytes(&self) -> usize {
        self.numbers().map(|number| either!(self.shared.partitions, number, it => it.bytes())).sum()
    }

    /// What happened in a partition after a position, or the latest position.
    pub(super) fn events(&self, number: usize, after: Option<Position>, limit: usize) -> News {
        either!(self.shared.partitions, number, it => it.events(self.now_ms(), after, limit))
    }
}
