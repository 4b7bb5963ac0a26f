//! Hot pages: which keys are hot right now, inside exact bounds.
//!
//! Most pages get one edit and never another. What is remembered of them is little,
//! ends ten minutes after the first edit and is bounded in number. A page with
//! `hot_threshold` edits in that time becomes hot: all its edits of the last
//! `window_duration` are kept, the newest `max_members_per_page` of them, until there
//! are none left. Never more than `max_tracked` pages are hot.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> tidegate::Result<()> {
//! use tidegate::{Key, Tidegate, hot::{Edit, HotOptions, Recorded}};
//!
//! let gate = Tidegate::open("memory:").await?;
//! let hot = gate.hot("main", HotOptions::default())?;
//!
//! let page = Key::new("en:Tide gate")?;
//! assert_eq!(hot.record(&Edit::new(page, "1", "alice")).await?, Recorded::Remembered);
//! assert_eq!(hot.record(&Edit::new(page, "2", "bob")).await?, Recorded::Promoted { replaced: None });
//! assert_eq!(hot.record(&Edit::new(page, "2", "bob")).await?, Recorded::Duplicate);
//!
//! let stats = hot.stats(page).await?;
//! assert_eq!((stats.edits_last_hour, stats.unique_editors), (2, 2));
//! assert_eq!(hot.list(10).await?[0].page, "en:Tide gate");
//! # Ok(())
//! # }
//! ```

mod edit;
mod feed;
mod full;
mod memory;
mod options;
mod position;
mod redis;
mod watch;

use std::hash::Hasher as _;
use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use siphasher::sip::SipHasher24;

pub use self::edit::{Edit, EditRef, Event, EventKind, HotPage, MAX_BYTE_CHANGE, Recorded, Removed, Stats};
use self::feed::Feed;
use self::full::Refusals;
use self::memory::{Effects, Partition};
pub use self::options::{HotOptions, WhenFull};
use self::options::{MAX_TRACKED, longest_window_ms};
use self::position::{News, Position};
use self::redis::{Cleaned, MAX_EDITS, OnRedis};
pub use self::watch::Watch;
use crate::Background;
use crate::clock::{Clock, Timestamp};
use crate::error::{Error, ErrorKind, Result};
use crate::key::{Key, Name};
use crate::metrics::HotMetrics;
use crate::reaper::Progress;
use crate::store::{DeclaredSettings, Store, partitions};

/// A space of hot pages on a store. Clones share it.
#[derive(Debug, Clone)]
pub struct Hot {
    core: Arc<Core>,
    /// What runs in the background for it, for as long as somebody holds it.
    _background: Option<Arc<Background>>,
}

#[derive(Debug)]
struct Core {
    space: Name,
    options: HotOptions,
    backend: Backend,
    metrics: HotMetrics,
    /// Reads events while somebody watches.
    feed: Mutex<Weak<Feed>>,
    refusals: Refusals,
}

#[derive(Debug)]
enum Backend {
    Memory { clock: Clock, partitions: Box<[Mutex<Partition>]> },
    Redis { partitions: Box<[OnRedis]>, is_pinned: AtomicBool },
}

impl Core {
    /// What this process takes for the time.
    fn now_ms(&self) -> u64 {
        match &self.backend {
            Backend::Memory { clock, .. } => clock.now().as_millis(),
            Backend::Redis { partitions, .. } => partitions[0].client_now().as_millis(),
        }
    }
}

/// Pages that a cleanup looks after at a time.
const CLEANED_AT_A_TIME: usize = 200;

/// Pages with a window that has changed which a count asks for at a time.
const COUNTED_AT_A_TIME: usize = 10_000;

impl Hot {
    pub(crate) fn new(store: &Store, space: Name, options: &HotOptions, metrics: HotMetrics) -> Result<Self> {
        options.check()?;
        let (bounds, of) = (options.bounds(), options.partitions);
        let backend = match store {
            Store::Memory(clock, _) => {
                let partitions = (0..of).map(|_| Mutex::new(Partition::new(bounds))).collect();
                Backend::Memory { clock: clock.clone(), partitions }
            }
            Store::Redis(store) => {
                let one = |number| OnRedis::new(store.clone(), &space, bounds, number, of);
                Backend::Redis { partitions: (0..of).map(one).collect(), is_pinned: AtomicBool::new(false) }
            }
        };
        let core = Core {
            space,
            options: options.clone(),
            backend,
            metrics,
            feed: Mutex::default(),
            refusals: Refusals::default(),
        };
        Ok(Self { core: Arc::new(core), _background: None })
    }

    /// The same space, keeping `background` alive.
    pub(crate) fn with(&self, background: &Arc<Background>) -> Self {
        Self { core: self.core.clone(), _background: Some(background.clone()) }
    }

    /// The name.
    pub fn space(&self) -> &Name {
        &self.core.space
    }

    /// What it is bounded by.
    pub fn options(&self) -> &HotOptions {
        &self.core.options
    }

    /// Deletes nothing from now on that is in the window of those who have these settings.
    pub(crate) fn respect(&self, others: &[DeclaredSettings]) {
        if let Backend::Redis { partitions, .. } = &self.core.backend {
            let longest_ms = longest_window_ms(others);
            partitions.iter().for_each(|it| it.keep(longest_ms));
        }
    }

    /// Records an edit. While the store is away edits are [dropped](Recorded::Dropped)
    /// and counted; of one that it was sent and did not answer nobody
    /// [knows](Recorded::Unknown).
    pub async fn record(&self, edit: &Edit<'_>) -> Result<Recorded> {
        edit.check()?;
        let number = self.partition(edit.page);
        match &self.core.backend {
            Backend::Memory { clock, partitions } => {
                let now_ms = clock.now().as_millis();
                let (recorded, effects) = partitions[number].lock().record(now_ms, edit);
                self.note(&effects, || now_ms);
                self.feed_with(number, &effects);
                Ok(recorded)
            }
            Backend::Redis { .. } => {
                let recorded = self.recorded(self.record_on(number, &[*edit], None).await, 1);
                recorded.into_iter().next().unwrap_or(Ok(Recorded::Unknown))
            }
        }
    }

    /// Records many, in one round trip per hundred and partition; what became of
    /// each, in order. A page that cannot be read stops no other: its edits are
    /// [corrupt](Recorded::Corrupt), and the log has the key.
    pub async fn record_many(&self, edits: &[Edit<'_>]) -> Result<Vec<Recorded>> {
        self.record_all(edits, None).await
    }

    /// The same, for who can wait: a round trip may take `deadline` instead of the store's, so
    /// a store that is busy drops nothing. One that is away does, at once.
    pub async fn record_many_within(&self, edits: &[Edit<'_>], deadline: Duration) -> Result<Vec<Recorded>> {
        self.record_all(edits, Some(deadline)).await
    }

    async fn record_all(&self, edits: &[Edit<'_>], deadline: Option<Duration>) -> Result<Vec<Recorded>> {
        edits.iter().try_for_each(Edit::check)?;
        let Backend::Redis { partitions, .. } = &self.core.backend else {
            let mut recorded = Vec::with_capacity(edits.len());
            for edit in edits {
                recorded.push(self.record(edit).await?);
            }
            return Ok(recorded);
        };
        let mut by_partition = vec![Vec::new(); partitions.len()];
        for (index, edit) in edits.iter().enumerate() {
            by_partition[self.partition(edit.page)].push((index, *edit));
        }
        let sent =
            by_partition.into_iter().enumerate().map(|(number, edits)| self.send(number, edits, deadline));
        let mut all = vec![Recorded::Dropped; edits.len()];
        for done in partitions::each(sent.collect()).await {
            for (index, recorded) in done? {
                all[index] = recorded;
            }
        }
        Ok(all)
    }

    /// Sends the edits of one partition.
    async fn send(
        &self,
        number: usize,
        edits: Vec<(usize, Edit<'_>)>,
        deadline: Option<Duration>,
    ) -> Result<Vec<(usize, Recorded)>> {
        let mut done = Vec::with_capacity(edits.len());
        for chunk in edits.chunks(MAX_EDITS) {
            let (indices, chunk): (Vec<_>, Vec<_>) = chunk.iter().copied().unzip();
            let recorded = self.recorded(self.record_on(number, &chunk, deadline).await, chunk.len());
            for (index, recorded) in indices.into_iter().zip(recorded) {
                done.push((index, recorded.or_else(|error| self.corrupt(error))?));
            }
        }
        Ok(done)
    }

    /// What one of many is told of a page that cannot be read.
    fn corrupt(&self, error: Error) -> Result<Recorded> {
        if error.kind() != ErrorKind::Corrupt {
            return Err(error);
        }
        let space = self.core.space.as_str();
        tracing::error!(space, %error, "an edit was not recorded");
        Ok(Recorded::Corrupt)
    }

    async fn record_on(
        &self,
        number: usize,
        edits: &[Edit<'_>],
        deadline: Option<Duration>,
    ) -> Result<Vec<Result<(Recorded, Effects)>>> {
        // Whatever went wrong before, the edits were not sent.
        self.on_redis(number).await.map_err(Error::undone)?.record(edits, deadline).await
    }

    /// A partition on Redis, once it is known to be one of as many as we take it for.
    async fn on_redis(&self, number: usize) -> Result<&OnRedis> {
        let Backend::Redis { partitions, is_pinned } = &self.core.backend else {
            return Err(Error::internal("the space is not on Redis"));
        };
        if !is_pinned.load(Ordering::Relaxed) {
            is_pinned.store(self.pin().await?, Ordering::Relaxed);
        }
        Ok(&partitions[number])
    }

    async fn pin(&self) -> Result<bool> {
        match &self.core.backend {
            Backend::Redis { partitions, .. } => {
                partitions[0].pin(&self.core.space, self.core.options.partitions).await
            }
            Backend::Memory { .. } => Ok(true),
        }
    }

    /// What a partition said; an outage drops edits instead of failing.
    fn recorded(
        &self,
        answer: Result<Vec<Result<(Recorded, Effects)>>>,
        count: usize,
    ) -> Vec<Result<Recorded>> {
        let each = answer.unwrap_or_else(|error| vec![Err(error); count]);
        let one = |answer| match answer {
            Ok((recorded, effects)) => {
                self.note(&effects, || self.core.now_ms());
                Ok(recorded)
            }
            Err(error) => self.lost(error),
        };
        each.into_iter().map(one).collect()
    }

    /// What becomes of an edit that the store did not answer for.
    fn lost(&self, error: Error) -> Result<Recorded> {
        let metrics = &self.core.metrics;
        if !error.is_transient() {
            if error.kind() == ErrorKind::Corrupt {
                metrics.corrupt.inc();
            }
            return Err(error);
        }
        match error.is_in_doubt() {
            true => {
                metrics.unknown.inc();
                Ok(Recorded::Unknown)
            }
            false => {
                metrics.dropped.inc();
                Ok(Recorded::Dropped)
            }
        }
    }

    #[inline]
    fn note(&self, effects: &Effects, now_ms: impl FnOnce() -> u64) {
        let metrics = &self.core.metrics;
        // Most are zero, and to add nothing costs as much as to add something.
        for (count, metric) in [
            (effects.activity, &metrics.activity),
            (effects.promoted, &metrics.promoted),
            (effects.rejected, &metrics.rejected),
            (effects.expired, &metrics.expired),
        ] {
            if count > 0 {
                metric.inc_by(count);
            }
        }
        if let Some(counts) = &effects.events {
            for (count, metric) in counts.iter().zip(&metrics.events) {
                metric.inc_by((*count).into());
            }
        }
        if effects.rejected > 0 {
            self.core.refusals.add(effects.rejected, now_ms(), &self.core);
        }
    }

    /// Forgets all that is known of `page`, hot or not; what it had been. Its next edit is its
    /// first.
    pub async fn remove(&self, page: Key<'_>) -> Result<Removed> {
        let number = self.partition(page);
        let (removed, effects) = match &self.core.backend {
            Backend::Memory { clock, partitions } => {
                partitions[number].lock().remove(clock.now().as_millis(), page.as_str())
            }
            Backend::Redis { .. } => self.on_redis(number).await?.remove(page).await?,
        };
        self.note(&effects, || self.core.now_ms());
        self.feed_with(number, &effects);
        Ok(removed)
    }

    /// Whether `page` is hot. Cheaper than [`stats`](Self::stats), and changes nothing.
    pub async fn is_hot(&self, page: Key<'_>) -> Result<bool> {
        let number = self.partition(page);
        match &self.core.backend {
            Backend::Memory { clock, partitions } => {
                Ok(partitions[number].lock().is_hot(clock.now().as_millis(), page.as_str()))
            }
            Backend::Redis { .. } => self.on_redis(number).await?.is_hot(page).await,
        }
    }

    /// What is known of `page`.
    pub async fn stats(&self, page: Key<'_>) -> Result<Stats> {
        let number = self.partition(page);
        match &self.core.backend {
            Backend::Memory { clock, partitions } => {
                Ok(partitions[number].lock().stats(clock.now().as_millis(), page.as_str()))
            }
            Backend::Redis { .. } => self.on_redis(number).await?.stats(page).await,
        }
    }

    /// The edits of `page` in `range` that are in its window, oldest first.
    pub async fn window(&self, page: Key<'_>, range: RangeInclusive<Timestamp>) -> Result<Vec<EditRef>> {
        let number = self.partition(page);
        let (from_ms, to_ms) = (range.start().as_millis(), range.end().as_millis());
        match &self.core.backend {
            Backend::Memory { clock, partitions } => {
                let now_ms = clock.now().as_millis();
                Ok(partitions[number].lock().window(now_ms, page.as_str(), from_ms, to_ms))
            }
            Backend::Redis { .. } => self.on_redis(number).await?.window(page, from_ms, to_ms).await,
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
        let limit = limit.min(MAX_TRACKED);
        if limit == 0 {
            return Ok(Vec::new());
        }
        let numbers = 0..self.core.options.partitions as usize;
        let all = partitions::each(numbers.map(|number| self.list_one(number, after, limit)).collect()).await;
        let mut pages = all.into_iter().collect::<Result<Vec<_>>>()?.concat();
        pages.sort_by(|a, b| (b.edits, b.last_seen, &b.page).cmp(&(a.edits, a.last_seen, &a.page)));
        pages.truncate(limit);
        Ok(pages)
    }

    /// The hottest of a partition, and perhaps more, in no order.
    async fn list_one(&self, number: usize, after: Option<&HotPage>, limit: usize) -> Result<Vec<HotPage>> {
        match &self.core.backend {
            Backend::Memory { clock, partitions } => {
                Ok(partitions[number].lock().list(clock.now().as_millis(), after, limit))
            }
            Backend::Redis { .. } => self.on_redis(number).await?.list(after, limit, COUNTED_AT_A_TIME).await,
        }
    }

    /// How many pages are hot, exactly.
    pub async fn count(&self) -> Result<u64> {
        let numbers = 0..self.core.options.partitions as usize;
        let all = partitions::each(numbers.map(|number| self.count_one(number)).collect()).await;
        let all: Vec<(u64, u64)> = all.into_iter().collect::<Result<_>>()?;
        let (tracked, activities) = all.iter().fold((0, 0), |sum, it| (sum.0 + it.0, sum.1 + it.1));
        self.core.metrics.tracked.set(tracked as i64);
        self.core.metrics.activities.set(activities as i64);
        Ok(tracked)
    }

    /// Hot pages and activities of a partition.
    async fn count_one(&self, number: usize) -> Result<(u64, u64)> {
        match &self.core.backend {
            Backend::Memory { clock, partitions } => {
                Ok(partitions[number].lock().count(clock.now().as_millis()))
            }
            Backend::Redis { .. } => self.on_redis(number).await?.count(COUNTED_AT_A_TIME).await,
        }
    }

    /// Drops pages whose window is empty, and activity that is over; how many pages
    /// that were.
    pub async fn cleanup(&self) -> Result<u64> {
        let cleaned = self.clean().await?;
        self.core.metrics.cleanups.inc();
        Ok(cleaned.iter().map(|it| it.effects.expired).sum())
    }

    /// What happens from now on, or after `cursor`. However many watch, the store is read by
    /// one.
    pub async fn watch(&self, cursor: Option<&str>) -> Result<Watch> {
        Watch::new(self.clone(), cursor).await
    }

    /// Cleans all partitions up, in parallel, until every page is exact and no activity is
    /// over.
    async fn clean(&self) -> Result<Vec<Cleaned>> {
        let numbers = 0..self.core.options.partitions as usize;
        let cleaned = partitions::all(numbers.map(|number| self.clean_one(number)).collect()).await?;
        let tracked: u64 = cleaned.iter().map(|it| it.tracked).sum();
        self.core.metrics.tracked.set(tracked as i64);
        self.core.metrics.activities.set(cleaned.iter().map(|it| it.activities).sum::<u64>() as i64);
        Ok(cleaned)
    }

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
        let cleaned = match &self.core.backend {
            Backend::Memory { clock, partitions } => {
                let mut partition = partitions[number].lock();
                let (effects, is_more, is_more_activity) = partition.cleanup(clock.now().as_millis(), limit);
                Cleaned {
                    effects,
                    is_more,
                    is_more_activity,
                    tracked: partition.tracked(),
                    activities: partition.activities(),
                }
            }
            Backend::Redis { .. } => self.on_redis(number).await?.cleanup(limit).await?,
        };
        self.note(&cleaned.effects, || self.core.now_ms());
        self.feed_with(number, &cleaned.effects);
        Ok(cleaned)
    }

    /// One run of the reaper.
    pub(crate) async fn reap(&self, batch: usize) -> Result<Progress> {
        self.pin().await?;
        let (mut items, mut is_more) = (0, false);
        let (mut tracked, mut activities) = (0, 0);
        let all = 0..self.core.options.partitions as usize;
        let (answers, failed) =
            partitions::reached(all.map(|number| self.clean_batch(number, batch)).collect()).await?;
        for cleaned in answers {
            items += cleaned.effects.expired as usize;
            is_more |= cleaned.is_more || cleaned.is_more_activity;
            tracked += cleaned.tracked;
            activities += cleaned.activities;
        }
        self.core.refusals.tell(self.core.now_ms(), &self.core);
        if !is_more {
            // Those that can be reached have caught up: now is the time to say who cannot.
            failed?;
            self.core.metrics.cleanups.inc();
        }
        self.core.metrics.tracked.set(tracked as i64);
        self.core.metrics.activities.set(activities as i64);
        Ok(Progress { items, is_more })
    }

    /// Bytes that pages in this process use.
    pub fn bytes_in_process(&self) -> usize {
        match &self.core.backend {
            Backend::Memory { partitions, .. } => partitions.iter().map(|it| it.lock().bytes()).sum(),
            Backend::Redis { .. } => 0,
        }
    }

    /// What happened in a partition after a position, or the latest position.
    async fn events(&self, number: usize, after: Option<Position>, limit: usize) -> Result<News> {
        match self.events_in_process(number, after, limit) {
            Some(news) => Ok(news),
            None => self.on_redis(number).await?.events(after, limit).await,
        }
    }

    /// The same of a space in this process, and nothing of another.
    fn events_in_process(&self, number: usize, after: Option<Position>, limit: usize) -> Option<News> {
        match &self.core.backend {
            Backend::Memory { clock, partitions } => {
                Some(partitions[number].lock().events(clock.now().as_millis(), after, limit))
            }
            Backend::Redis { .. } => None,
        }
    }

    fn is_in_process(&self) -> bool {
        matches!(self.core.backend, Backend::Memory { .. })
    }

    /// Gives those who watch what has just happened in a partition in this process.
    #[inline]
    fn feed_with(&self, number: usize, effects: &Effects) {
        if effects.events.is_none() || !self.is_in_process() {
            return;
        }
        let feed = self.core.feed.lock().upgrade();
        if let Some(feed) = feed {
            feed.take_from(self, number);
        }
    }

    /// What reads events for all who watch.
    fn feed(&self) -> Arc<Feed> {
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

    /// The same on every node and every store.
    fn partition(&self, page: Key<'_>) -> usize {
        let of = self.core.options.partitions;
        if of == 1 {
            return 0;
        }
        let mut hasher = SipHasher24::new_with_key(b"tidegate-hotpage");
        hasher.write(page.as_str().as_bytes());
        (hasher.finish() % u64::from(of)) as usize
    }
}
