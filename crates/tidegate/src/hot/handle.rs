//! A space of hot pages on a store: the same calls wherever that is.

use std::num::NonZeroUsize;
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;

use super::batch::{Before, MAX_EDITS, grouped, in_order};
use super::declared::longest_window_ms;
use super::edit::check_kind;
use super::edit::{Edit, EditRef, HotPage, Recorded, Removed, Stats};
use super::feed::Feed;
use super::gather::Gatherer;
use super::in_process::{CLEANED_AT_A_TIME, InProcess};
use super::memory::{Cleaned, Effects};
use super::metrics::{GatherMetrics, HotMetrics};
use super::notes::Notes;
use super::options::{HotOptions, MAX_TRACKED};
use super::position::{News, Position};
use super::redis::{MAX_PAGES, OfPage, OnRedis};
use super::watch::Watch;
use crate::clock::Timestamp;
use crate::error::{Error, ErrorKind, Result};
use crate::key::{Key, Name};
use crate::log;
use crate::metrics::Metrics;
use crate::reaper::{Progress, Reaper, ReaperMetrics, Rhythm};
use crate::registry::OpenPart;
use crate::store::{self, DeclaredSettings, MemoryStore, Part, PartKind, Store, partitions};
use crate::{Background, Tidegate};

/// A space of hot pages on a store. Clones share it.
#[derive(Debug, Clone)]
pub struct Hot {
    pub(super) core: Arc<Core>,
    /// What runs in the background for it, for as long as somebody holds it.
    _background: Option<Arc<Background>>,
}

#[derive(Debug)]
pub(super) struct Core {
    space: Name,
    pub(super) backend: Backend,
    pub(super) notes: Arc<Notes>,
    /// What is counted and not sent yet, where that is gathered.
    pub(super) gatherer: Option<Gatherer>,
    /// Reads events while somebody watches.
    feed: Mutex<Weak<Feed>>,
}

#[derive(Debug)]
pub(super) enum Backend {
    Memory(InProcess),
    Redis { partitions: Box<[OnRedis]>, is_pinned: AtomicBool },
}

impl Core {
    /// What this process takes for the time.
    pub(super) fn now_ms(&self) -> u64 {
        match &self.backend {
            Backend::Memory(space) => space.now_ms(),
            Backend::Redis { partitions, .. } => partitions[0].client_now().as_millis(),
        }
    }

    /// Gives those who watch what has just happened in a partition in this process.
    fn feed_from(&self, number: usize) {
        let feed = self.feed.lock().upgrade();
        if let (Some(feed), Backend::Memory(space)) = (feed, &self.backend) {
            feed.take_from(space, number);
        }
    }
}

/// Pages that are looked after at a time in the background.
const CLEANED_BY_REAPER: NonZeroUsize = NonZeroUsize::new(100).unwrap();

/// Pages with a window that has changed which a count asks for at a time.
const COUNTED_AT_A_TIME: usize = 10_000;

impl OpenPart for Hot {
    const KIND: PartKind = PartKind::Hot;
    type Options = HotOptions;

    fn open(store: &Store, name: Name, options: &HotOptions, metrics: &Metrics) -> Result<Self> {
        options.check()?;
        let gatherer = (!options.gather.is_zero() && store.on_redis().is_some()).then(|| {
            let metrics = GatherMetrics::new(metrics, name.as_str());
            Gatherer::new(name.as_str(), options.partitions, options.gather, metrics)
        });
        let metrics = HotMetrics::new(metrics, name.as_str());
        Self::new(store, name, options, metrics, gatherer)
    }

    fn part_name(&self) -> &Name {
        self.space()
    }

    fn has(&self, options: &HotOptions) -> bool {
        self.options() == options
    }

    fn declared(&self) -> (Part, Duration) {
        let options = self.options();
        (options.declared(self.space()), options.window_duration)
    }

    fn respect(&self, others: &[DeclaredSettings]) {
        if let Backend::Redis { partitions, .. } = &self.core.backend {
            let longest_ms = longest_window_ms(others, self.options().only_counts());
            partitions.iter().for_each(|it| it.keep(longest_ms));
        }
    }

    fn reapers(&self, metrics: &Metrics) -> Vec<Reaper> {
        let rhythm = Rhythm { interval: self.core.notes.options.cleanup_interval, batch: CLEANED_BY_REAPER };
        let metrics = ReaperMetrics::new(metrics, "hot").in_space(self.space().as_str());
        let flusher = self.core.gatherer.is_some().then(|| {
            let space = self.clone();
            Reaper::spawn(|stopped| space.keep_flushing(stopped))
        });
        flusher.into_iter().chain([Reaper::of(self, rhythm, metrics, Self::reap)]).collect()
    }

    fn with(&self, background: &Arc<Background>) -> Self {
        Self { core: self.core.clone(), _background: Some(background.clone()) }
    }
}

impl Tidegate {
    /// The space of hot pages called `name`. Asked again with the same options it is
    /// the same space; with others it is an error. [`DEFAULT_SPACE`](store::DEFAULT_SPACE)
    /// and `pages` are two names of one space: that whose keys have no name in them.
    pub fn hot(&self, name: &str, options: HotOptions) -> Result<Hot> {
        self.open_space(name, &options)
    }
}

impl Hot {
    fn new(
        store: &Store,
        space: Name,
        options: &HotOptions,
        metrics: HotMetrics,
        gatherer: Option<Gatherer>,
    ) -> Result<Self> {
        let (bounds, of) = (options.bounds(), options.partitions);
        let notes = Arc::new(Notes::new(space.as_str(), options.clone(), metrics)?);
        let backend = match store.backend() {
            store::Backend::Memory(MemoryStore { clock, .. }) => {
                Backend::Memory(InProcess::noted(clock.clone(), notes.clone()))
            }
            store::Backend::Redis(store) => {
                let one = |number| OnRedis::new(store.clone(), &space, bounds, number, of);
                Backend::Redis { partitions: (0..of).map(one).collect(), is_pinned: AtomicBool::new(false) }
            }
        };
        let core = Arc::new(Core { space, backend, notes, gatherer, feed: Mutex::default() });
        if let Backend::Memory(space) = &core.backend {
            let core = Arc::downgrade(&core);
            space.listen(move |number| {
                if let Some(core) = core.upgrade() {
                    core.feed_from(number);
                }
            });
        }
        Ok(Self { core, _background: None })
    }

    /// The name.
    pub fn space(&self) -> &Name {
        &self.core.space
    }

    /// What it is bounded by.
    pub fn options(&self) -> &HotOptions {
        &self.core.notes.options
    }

    /// Records an edit. While the store is away edits are [dropped](Recorded::Dropped)
    /// and counted; of one that it was sent and did not answer nobody
    /// [knows](Recorded::Unknown).
    pub async fn record(&self, edit: &Edit<'_>) -> Result<Recorded> {
        match &self.core.backend {
            Backend::Memory(space) => space.record(edit),
            Backend::Redis { .. } => {
                check_kind(self.options(), false)?;
                edit.check()?;
                let number = self.partition(edit.page);
                let pages: [&[Edit<'_>]; 1] = [std::slice::from_ref(edit)];
                let recorded = self.recorded(self.record_on(number, &pages, None).await, &pages);
                recorded.into_iter().next().unwrap_or(Ok(Recorded::Unknown))
            }
        }
    }

    /// Records many, in one round trip per five hundred and partition; what became of
    /// each, in order. Those of a page are recorded together, by when they were made, whatever order they come in. A page
    /// that cannot be read stops no other: its edits are [corrupt](Recorded::Corrupt), and the log has the key.
    pub async fn record_many(&self, edits: &[Edit<'_>]) -> Result<Vec<Recorded>> {
        self.record_all(edits, None).await
    }

    /// The same, for who can wait: a round trip may take `deadline` instead of the store's, so
    /// a store that is busy drops nothing. One that is away does, at once.
    pub async fn record_many_within(&self, edits: &[Edit<'_>], deadline: Duration) -> Result<Vec<Recorded>> {
        self.record_all(edits, Some(deadline)).await
    }

    async fn record_all(&self, edits: &[Edit<'_>], deadline: Option<Duration>) -> Result<Vec<Recorded>> {
        if let Backend::Memory(space) = &self.core.backend {
            return space.record_many(edits);
        }
        check_kind(self.options(), false)?;
        edits.iter().try_for_each(Edit::check)?;
        let send = |number, edits| self.send(number, edits, deadline);
        let of = self.core.notes.options.partitions as usize;
        partitions::split(edits, of, |edit| self.partition(edit.page), send).await.into_iter().collect()
    }

    /// Sends the edits of one partition, those of a page together.
    async fn send(
        &self,
        number: usize,
        edits: Vec<Edit<'_>>,
        deadline: Option<Duration>,
    ) -> Vec<Result<Recorded>> {
        let mut groups = grouped(&edits, MAX_EDITS).into_iter().peekable();
        let (mut before, mut answers) = (Before::default(), Vec::with_capacity(edits.len()));
        while groups.peek().is_some() {
            // As many pages as have no more edits than fit.
            let (mut left, mut is_full, mut sent) = (MAX_EDITS, false, Vec::new());
            while sent.len() < MAX_PAGES
                && let Some(mut group) = groups.next_if(|group| group.len() <= left)
            {
                left -= group.len();
                // More of its page may follow, in another call.
                is_full |= group.len() == MAX_EDITS;
                let known = before.take_known(&edits, &mut group);
                answers.extend(known.into_iter().map(|(number, recorded)| (number, Ok(recorded))));
                if !group.is_empty() {
                    sent.push(group);
                }
            }
            let ordered: Vec<Vec<Edit<'_>>> =
                sent.iter().map(|group| group.iter().map(|it| edits[*it]).collect()).collect();
            let pages: Vec<&[Edit<'_>]> = ordered.iter().map(Vec::as_slice).collect();
            if pages.is_empty() {
                continue;
            }
            let recorded = self.recorded(self.record_on(number, &pages, deadline).await, &pages);
            for (number, recorded) in sent.into_iter().flatten().zip(recorded) {
                let recorded = recorded.or_else(|error| self.corrupt(error));
                if is_full && let Ok(recorded) = &recorded {
                    before.note(&edits[number], recorded);
                }
                answers.push((number, recorded));
            }
        }
        in_order(answers)
    }

    /// What one of many is told of a page that cannot be read.
    pub(super) fn corrupt(&self, error: Error) -> Result<Recorded> {
        if error.kind() != ErrorKind::Corrupt {
            return Err(error);
        }
        let space = self.core.space.as_str();
        log::error!(space, %error, "an edit was not recorded");
        Ok(Recorded::Corrupt)
    }

    async fn record_on(
        &self,
        number: usize,
        pages: &[&[Edit<'_>]],
        deadline: Option<Duration>,
    ) -> Result<Vec<OfPage>> {
        // Whatever went wrong before, the edits were not sent.
        self.on_redis(number).await.map_err(Error::undone)?.record(pages, deadline).await
    }

    /// A partition on Redis, once it is known to be one of as many as we take it for.
    pub(super) async fn on_redis(&self, number: usize) -> Result<&OnRedis> {
        let Backend::Redis { partitions, .. } = &self.core.backend else {
            return Err(Error::internal("the space is not on Redis"));
        };
        if !self.is_pinned() {
            self.pin().await?;
        }
        Ok(&partitions[number])
    }

    fn is_pinned(&self) -> bool {
        matches!(&self.core.backend, Backend::Redis { is_pinned, .. } if is_pinned.load(Ordering::Relaxed))
    }

    /// Asks the first partition, which is the same for all, over how many the space is spread.
    async fn pin(&self) -> Result<()> {
        if let Backend::Redis { partitions, is_pinned } = &self.core.backend {
            let is_written = partitions[0].pin(&self.core.space, self.core.notes.options.partitions).await?;
            is_pinned.fetch_or(is_written, Ordering::Relaxed);
        }
        Ok(())
    }

    /// What a partition said; an outage drops edits instead of failing.
    fn recorded(&self, answer: Result<Vec<OfPage>>, pages: &[&[Edit<'_>]]) -> Vec<Result<Recorded>> {
        let each = match answer {
            Ok(each) => each,
            Err(error) => {
                return pages.iter().flat_map(|edits| *edits).map(|_| self.lost(error.clone(), 1)).collect();
            }
        };
        let mut all = Vec::with_capacity(pages.len());
        for page in each {
            self.core.notes.note(&page.effects, || self.core.now_ms());
            all.extend(page.recorded.into_iter().map(|it| it.or_else(|error| self.lost(error, 1))));
        }
        all
    }

    /// What becomes of an edit, or of so many counts, that the store did not answer for.
    pub(super) fn lost(&self, error: Error, counts: u64) -> Result<Recorded> {
        let metrics = &self.core.notes.metrics;
        if !error.is_transient() {
            if error.kind() == ErrorKind::Corrupt {
                metrics.corrupt.inc_by(counts);
            }
            return Err(error);
        }
        match error.is_in_doubt() {
            true => {
                metrics.unknown.inc_by(counts);
                Ok(Recorded::Unknown)
            }
            false => {
                metrics.dropped.inc_by(counts);
                Ok(Recorded::Dropped)
            }
        }
    }

    /// Forgets all that is known of `page`, hot or not; what it had been. Its next edit is its
    /// first.
    pub async fn remove(&self, page: Key<'_>) -> Result<Removed> {
        match &self.core.backend {
            Backend::Memory(space) => Ok(space.remove(page)),
            Backend::Redis { .. } => {
                let (removed, effects) = self.on_redis(self.partition(page)).await?.remove(page).await?;
                self.core.notes.note(&effects, || self.core.now_ms());
                Ok(removed)
            }
        }
    }

    /// Whether `page` is hot. Cheaper than [`stats`](Self::stats), and changes nothing.
    pub async fn is_hot(&self, page: Key<'_>) -> Result<bool> {
        match &self.core.backend {
            Backend::Memory(space) => Ok(space.is_hot(page)),
            Backend::Redis { .. } => self.on_redis(self.partition(page)).await?.is_hot(page).await,
        }
    }

    /// What is known of `page`.
    pub async fn stats(&self, page: Key<'_>) -> Result<Stats> {
        match &self.core.backend {
            Backend::Memory(space) => Ok(space.stats(page)),
            Backend::Redis { .. } => self.on_redis(self.partition(page)).await?.stats(page).await,
        }
    }

    /// The edits of `page` in `range` that are in its window, oldest first.
    pub async fn window(&self, page: Key<'_>, range: RangeInclusive<Timestamp>) -> Result<Vec<EditRef>> {
        let (from_ms, to_ms) = (range.start().as_millis(), range.end().as_millis());
        match &self.core.backend {
            Backend::Memory(space) => Ok(space.window(page, range)),
            Backend::Redis { .. } => {
                self.on_redis(self.partition(page)).await?.window(page, from_ms, to_ms).await
            }
        }
    }

    /// The `limit` hottest pages, hottest first: by edits in the window, then by the
    /// latest of them.
    pub async fn list(&self, limit: usize) -> Result<Vec<HotPage>> {
        self.list_after(None, limit).await
    }

    /// The same, of those that are ranked behind `after`: the last page of the list before. So
    /// all hot pages can be listed, however many there are.
    ///
    /// Each list is of its moment. A page that stays where it is is told once; one that becomes
    /// hotter in between may be told in neither list, and one that becomes colder in both.
    pub async fn list_after(&self, after: Option<&HotPage>, limit: usize) -> Result<Vec<HotPage>> {
        if let Backend::Memory(space) = &self.core.backend {
            return Ok(space.list_after(after, limit));
        }
        let limit = limit.min(MAX_TRACKED);
        if limit == 0 {
            return Ok(Vec::new());
        }
        let list = async |number| self.on_redis(number).await?.list(after, limit, COUNTED_AT_A_TIME).await;
        let lists = partitions::all(self.numbers().map(list)).await?;
        Ok(HotPage::hottest(lists.concat(), limit))
    }

    /// How many pages are hot, exactly.
    pub async fn tracked(&self) -> Result<u64> {
        if let Backend::Memory(space) = &self.core.backend {
            return Ok(space.tracked());
        }
        let tracked = async |number| self.on_redis(number).await?.tracked(COUNTED_AT_A_TIME).await;
        let counts = partitions::all(self.numbers().map(tracked)).await?;
        Ok(self.core.notes.counted(counts.into_iter()))
    }

    /// Drops pages whose window is empty, and activity that is over; how many pages
    /// that were. A partition that is away keeps no other from being cleaned up: it is an error
    /// when they are.
    pub async fn cleanup(&self) -> Result<u64> {
        if let Backend::Memory(space) = &self.core.backend {
            return Ok(space.cleanup());
        }
        let (cleaned, failed) =
            partitions::reached(self.numbers().map(|number| self.clean_one(number))).await?;
        failed?;
        self.core.notes.counted(cleaned.iter().map(|it| (it.tracked, it.activities)));
        self.core.notes.metrics.cleanups.inc();
        Ok(cleaned.iter().map(|it| it.effects.expired).sum())
    }

    /// What happens from now on, or after `cursor`. However many watch, the store is read by
    /// one.
    pub async fn watch(&self, cursor: Option<&str>) -> Result<Watch> {
        Watch::new(self.clone(), cursor).await
    }

    /// Cleans a partition up, until every page is exact and no activity is over.
    async fn clean_one(&self, number: usize) -> Result<Cleaned> {
        let mut expired = 0;
        loop {
            let cleaned = self.clean_batch(number, CLEANED_AT_A_TIME).await?;
            expired += cleaned.effects.expired;
            if !(cleaned.is_more || cleaned.is_more_activity) {
                let effects = Effects { expired, ..cleaned.effects };
                return Ok(Cleaned { effects, ..cleaned });
            }
        }
    }

    async fn clean_batch(&self, number: usize, limit: usize) -> Result<Cleaned> {
        match &self.core.backend {
            Backend::Memory(space) => Ok(space.clean_batch(number, limit)),
            Backend::Redis { .. } => {
                let cleaned = self.on_redis(number).await?.cleanup(limit).await?;
                self.core.notes.note(&cleaned.effects, || self.core.now_ms());
                Ok(cleaned)
            }
        }
    }

    /// One run of the reaper.
    async fn reap(self, batch: usize) -> Result<Progress> {
        match self.pin().await {
            // Of the first partition's being away the others know nothing, if it was asked once.
            Err(error) if !(error.is_transient() && self.is_pinned()) => return Err(error),
            _ => {}
        }
        let (cleaned, failed) =
            partitions::reached(self.numbers().map(|number| self.clean_batch(number, batch))).await?;
        let items = cleaned.iter().map(|it| it.effects.expired as usize).sum();
        let is_more = cleaned.iter().any(|it| it.is_more || it.is_more_activity);
        if failed.is_ok() {
            self.core.notes.counted(cleaned.iter().map(|it| (it.tracked, it.activities)));
        }
        self.core.notes.tell(self.core.now_ms());
        if !is_more {
            // Those that can be reached have caught up: now is the time to say who cannot.
            failed?;
            self.core.notes.metrics.cleanups.inc();
        }
        Ok(Progress { items, is_more })
    }

    /// The space in this process, if that is where it is: its calls need no `await`.
    pub fn in_process(&self) -> Option<&InProcess> {
        match &self.core.backend {
            Backend::Memory(space) => Some(space),
            Backend::Redis { .. } => None,
        }
    }

    /// Bytes that pages in this process use.
    pub fn bytes_in_process(&self) -> usize {
        self.in_process().map_or(0, InProcess::bytes)
    }

    /// What happened in a partition after a position, or the latest position.
    pub(super) async fn events(&self, number: usize, after: Option<Position>, limit: usize) -> Result<News> {
        match &self.core.backend {
            Backend::Memory(space) => Ok(space.events(number, after, limit)),
            Backend::Redis { .. } => self.on_redis(number).await?.events(after, limit).await,
        }
    }

    /// What reads events for all who watch.
    pub(super) fn feed(&self) -> Arc<Feed> {
        let mut current = self.core.feed.lock();
        match current.upgrade().filter(|feed| feed.is_alive()) {
            Some(feed) => feed,
            None => {
                // It keeps nothing alive that would end otherwise.
                let feed = Arc::new(Feed::start(&Self { core: self.core.clone(), _background: None }));
                *current = Arc::downgrade(&feed);
                feed
            }
        }
    }

    /// The partition that a page is in.
    #[inline]
    pub(super) fn partition(&self, page: Key<'_>) -> usize {
        self.core.notes.spread.partition(page.as_str()) as usize
    }

    pub(super) fn numbers(&self) -> std::ops::Range<usize> {
        0..self.core.notes.options.partitions as usize
    }
}
