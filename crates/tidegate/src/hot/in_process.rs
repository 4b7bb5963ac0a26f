//! Hot pages in this process: exact, synchronous, bounded in pages and bytes.

use std::fmt;
use std::ops::RangeInclusive;
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;

use super::batch::{grouped, in_order_of_coming};
use super::edit::{Edit, EditRef, HotPage, Recorded, Removed, Stats};
use super::memory::{Cleaned, Effects, Partition};
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
    partitions: Box<[Mutex<Partition>]>,
    notes: Arc<Notes>,
    listener: OnceLock<Listener>,
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
        let partitions = (0..of).map(|_| Mutex::new(Partition::new(bounds))).collect();
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

    /// Does something with the partition of `page`.
    #[inline]
    fn on<R>(&self, page: Key<'_>, act: impl FnOnce(&mut Partition, u64) -> R) -> R {
        let number = self.partition(page);
        act(&mut self.shared.partitions[number].lock(), self.now_ms())
    }

    /// The same, of what has effects.
    #[inline]
    fn change<R>(&self, number: usize, act: impl FnOnce(&mut Partition, u64) -> (R, Effects)) -> R {
        let now_ms = self.now_ms();
        let (answer, effects) = act(&mut self.shared.partitions[number].lock(), now_ms);
        self.note(number, &effects, now_ms);
        answer
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
        edit.check()?;
        let number = self.partition(edit.page);
        Ok(self.change(number, |partition, now_ms| partition.record(now_ms, edit)))
    }

    /// Records many; what became of each, in order. Those of a page are recorded together, by when they were made,
    /// whatever order they come in. If one of them is not allowed, none is.
    pub fn record_many(&self, edits: &[Edit<'_>]) -> Result<Vec<Recorded>> {
        edits.iter().try_for_each(Edit::check)?;
        let (groups, mut done) = (grouped(edits, edits.len()), Vec::with_capacity(edits.len()));
        for group in &groups {
            let number = self.partition(edits[group[0]].page);
            let in_order: Vec<_> = group.iter().map(|it| &edits[*it]).collect();
            done.extend(self.change(number, |partition, now_ms| partition.record_all(now_ms, &in_order)));
        }
        Ok(in_order_of_coming(groups, done))
    }

    /// Forgets all that is known of `page`, hot or not; what it had been. Its next edit is its
    /// first.
    pub fn remove(&self, page: Key<'_>) -> Removed {
        let number = self.partition(page);
        self.change(number, |partition, now_ms| partition.remove(now_ms, page.as_str()))
    }

    /// Whether `page` is hot.
    pub fn is_hot(&self, page: Key<'_>) -> bool {
        self.on(page, |partition, now_ms| partition.is_hot(now_ms, page.as_str()))
    }

    /// What is known of `page`.
    pub fn stats(&self, page: Key<'_>) -> Stats {
        self.on(page, |partition, now_ms| partition.stats(now_ms, page.as_str()))
    }

    /// The edits of `page` in `range` that are in its window, oldest first.
    pub fn window(&self, page: Key<'_>, range: RangeInclusive<Timestamp>) -> Vec<EditRef> {
        let (from_ms, to_ms) = (range.start().as_millis(), range.end().as_millis());
        self.on(page, |partition, now_ms| partition.window(now_ms, page.as_str(), from_ms, to_ms))
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
        let lists = self.shared.partitions.iter().map(|it| it.lock().list(now_ms, after, limit));
        HotPage::hottest(lists.flatten().collect(), limit)
    }

    /// How many pages are hot, exactly.
    pub fn count(&self) -> u64 {
        let now_ms = self.now_ms();
        let counts = self.shared.partitions.iter().map(|it| it.lock().count(now_ms));
        self.shared.notes.counted(counts)
    }

    /// Drops pages whose window is empty, and activity that is over; how many pages
    /// that were.
    pub fn cleanup(&self) -> u64 {
        let numbers = 0..self.shared.partitions.len();
        let cleaned: Vec<_> = numbers.map(|number| self.clean_one(number)).collect();
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
        let cleaned = self.shared.partitions[number].lock().cleanup(now_ms, limit);
        self.note(number, &cleaned.effects, now_ms);
        cleaned
    }

    /// Bytes that its pages use.
    pub fn bytes(&self) -> usize {
        self.shared.partitions.iter().map(|it| it.lock().bytes()).sum()
    }

    /// What happened in a partition after a position, or the latest position.
    pub(super) fn events(&self, number: usize, after: Option<Position>, limit: usize) -> News {
        self.shared.partitions[number].lock().events(self.now_ms(), after, limit)
    }
}
