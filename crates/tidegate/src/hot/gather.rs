//! What a node has counted and not sent yet: sums by page, and the batches that they are sent in, one after the other.
//! Knows nothing of a store, nor of time: both are given.
//!
//! A batch has a number from when it is made, and stays at the front until it is answered for: what was sent and not
//! answered is sent again with the same number, as it was. So the store needs to remember no more than the last
//! number of each node, and a batch that arrives late, or twice, is known by it.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use compact_str::CompactString;
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::batch::MAX_EDITS;
use super::edit::{Count, MAX_COUNTED};
use super::metrics::GatherMetrics;
use crate::log;
use crate::random::Random;

/// Pages that wait, at most; and bytes of them, by what each takes beside its name.
const MAX_PAGES: usize = 100_000;
const MAX_BYTES: usize = 16 << 20;
const PAGE_BYTES: usize = 64;

/// For how long counts are held while the store is away: what is older would be counted as of a time when it was not.
const HELD: Duration = Duration::from_secs(60);

/// Counts of so long are added up together, and of the time that they are gathered for if that is longer: they are held
/// for up to so much longer, and are given up together.
const STRETCH: Duration = Duration::from_secs(10);

/// What a node has gathered for all partitions of a space.
#[derive(Debug)]
pub(super) struct Gatherer {
    pub(super) partitions: Box<[Gathered]>,
    /// For how long counts are added up together.
    stretch: Duration,
    most: (usize, usize),
    pages: AtomicUsize,
    bytes: AtomicUsize,
    /// There is something to send; there is much; and some was sent.
    pub(super) begun: Notify,
    pub(super) early: Notify,
    pub(super) freed: Notify,
    /// Nothing could be sent when it was last tried.
    pub(super) is_failing: AtomicBool,
    pub(super) metrics: GatherMetrics,
    space: String,
}

/// The same of one partition.
#[derive(Debug, Default)]
pub(super) struct Gathered {
    sums: Mutex<Sums>,
    /// Whoever sends holds it: one batch is under way at a time.
    pub(super) sending: tokio::sync::Mutex<Sending>,
}

#[derive(Debug, Default)]
struct Sums {
    /// In the order of time: one, unless the store was away.
    stretches: VecDeque<Stretch>,
    /// How many pages there were when they were last taken.
    capacity: usize,
    is_closed: bool,
}

/// What was counted in a stretch of time.
#[derive(Debug)]
struct Stretch {
    pages: HashMap<CompactString, u64>,
    /// When the first of it came.
    since: Duration,
}

/// Batches in the order of their numbers.
#[derive(Debug)]
pub(super) struct Sending {
    /// Which node: a number that nobody else draws.
    pub(super) node: String,
    last: u64,
    batches: VecDeque<Batch>,
    /// Counts that were given up since this was last set to 0.
    pub(super) lost: u64,
}

impl Default for Sending {
    fn default() -> Self {
        Self { node: drawn(), last: 0, batches: VecDeque::new(), lost: 0 }
    }
}

impl Sending {
    /// Is another node from now on, of which nobody knows any batch.
    pub(super) fn begin_anew(&mut self) {
        self.node = drawn();
    }
}

fn drawn() -> String {
    format!("{:016x}{:016x}", Random::System.bits(), Random::System.bits())
}

/// Sums that are sent together.
#[derive(Debug)]
pub(super) struct Batch {
    pub(super) number: u64,
    pub(super) pages: Vec<(CompactString, u64)>,
    since: Duration,
    /// Whether the store may have it.
    pub(super) was_sent: bool,
}

/// What became of counts that were to be gathered.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Added {
    Gathered,
    /// There is no room until something was sent.
    Full,
    /// Nobody sends them any more.
    Closed,
}

/// Why counts are lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Loss {
    /// They were never sent.
    Dropped,
    /// The store may have counted them.
    Unknown,
    /// It could not count them.
    Failed,
}

impl Gatherer {
    pub(super) fn new(space: &str, partitions: u32, gather: Duration, metrics: GatherMetrics) -> Self {
        Self::bounded(space, partitions, gather, metrics, (MAX_PAGES, MAX_BYTES))
    }

    fn bounded(
        space: &str,
        partitions: u32,
        gather: Duration,
        metrics: GatherMetrics,
        most: (usize, usize),
    ) -> Self {
        Self {
            partitions: (0..partitions).map(|_| Gathered::default()).collect(),
            stretch: gather.max(STRETCH),
            most,
            pages: AtomicUsize::new(0),
            bytes: AtomicUsize::new(0),
            begun: Notify::new(),
            early: Notify::new(),
            freed: Notify::new(),
            is_failing: AtomicBool::new(false),
            metrics,
            space: space.to_owned(),
        }
    }

    /// Adds counts to those of their page.
    pub(super) fn add(&self, partition: usize, count: Count<'_>, now: Duration) -> Added {
        let page = count.page.as_str();
        let mut sums = self.partitions[partition].sums.lock();
        if sums.is_closed {
            return Added::Closed;
        }
        let is_of = |it: &&mut Stretch| now.saturating_sub(it.since) < self.stretch;
        if let Some(sum) = sums.stretches.back_mut().filter(is_of).and_then(|it| it.pages.get_mut(page)) {
            *sum = (*sum + count.count).min(MAX_COUNTED);
            return Added::Gathered;
        }
        let (pages, bytes) = (self.pages.load(Ordering::Relaxed), self.bytes.load(Ordering::Relaxed));
        if pages >= self.most.0 || bytes + page.len() + PAGE_BYTES > self.most.1 {
            // Those of a page that waits find room with the latest of its counts.
            let Some(sum) = sums.stretches.iter_mut().rev().find_map(|it| it.pages.get_mut(page)) else {
                return Added::Full;
            };
            *sum = (*sum + count.count).min(MAX_COUNTED);
            return Added::Gathered;
        }
        if sums.stretches.is_empty() {
            self.begun.notify_one();
        }
        if sums.stretches.back_mut().filter(is_of).is_none() {
            // As many as came the last time; while the store is away there are several stretches.
            let capacity = if sums.stretches.is_empty() { sums.capacity } else { 0 };
            sums.stretches.push_back(Stretch { pages: HashMap::with_capacity(capacity), since: now });
        }
        if let Some(stretch) = sums.stretches.back_mut() {
            stretch.pages.insert(page.into(), count.count);
        }
        self.pages.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(page.len() + PAGE_BYTES, Ordering::Relaxed);
        if pages >= self.most.0 / 2 || bytes >= self.most.1 / 2 {
            self.early.notify_one();
        }
        Added::Gathered
    }

    /// Makes batches of what was added, the oldest stretch first, in the order of the names. While there are some that wait, what comes is added up.
    pub(super) fn take(&self, partition: usize, sending: &mut Sending) {
        if !sending.batches.is_empty() {
            return;
        }
        let stretches = {
            let mut sums = self.partitions[partition].sums.lock();
            sums.capacity = sums.stretches.back().map_or(0, |it| it.pages.len());
            std::mem::take(&mut sums.stretches)
        };
        for Stretch { pages, since } in stretches {
            let mut sums: Vec<_> = pages.into_iter().collect();
            sums.sort_unstable();
            for pages in sums.chunks(MAX_EDITS) {
                sending.last += 1;
                let batch = Batch { number: sending.last, pages: pages.to_vec(), since, was_sent: false };
                sending.batches.push_back(batch);
            }
        }
    }

    /// The batch that is next. Those that are too old by now are given up.
    pub(super) fn next<'a>(&self, sending: &'a mut Sending, now: Duration) -> Option<&'a mut Batch> {
        while let Some(batch) = sending.batches.front() {
            if now.saturating_sub(batch.since) <= self.stretch + HELD {
                break;
            }
            sending.lost += self.give_up(batch, "the store was away for too long");
            self.done(sending);
        }
        sending.batches.front_mut()
    }

    /// The first batch is answered for.
    pub(super) fn done(&self, sending: &mut Sending) {
        if let Some(batch) = sending.batches.pop_front() {
            let bytes = batch.pages.iter().map(|(page, _)| page.len() + PAGE_BYTES).sum();
            self.pages.fetch_sub(batch.pages.len(), Ordering::Relaxed);
            self.bytes.fetch_sub(bytes, Ordering::Relaxed);
            self.freed.notify_waiters();
        }
    }

    /// What was sent may have been counted, and nobody will know. How many are lost.
    fn give_up(&self, batch: &Batch, why: &str) -> u64 {
        self.lost(if batch.was_sent { Loss::Unknown } else { Loss::Dropped }, &batch.pages, why)
    }

    /// Says that counts are lost; how many.
    pub(super) fn lost(&self, loss: Loss, pages: &[(CompactString, u64)], why: &str) -> u64 {
        let counts: u64 = pages.iter().map(|(_, count)| count).sum();
        self.metrics.lost(loss, counts);
        let space = &*self.space;
        log::warn!(space, counts, ?loss, why, "counts that were gathered are lost");
        counts
    }

    /// How many pages wait.
    pub(super) fn waiting(&self) -> usize {
        self.pages.load(Ordering::Relaxed)
    }

    /// Nothing is gathered from now on.
    pub(super) fn close(&self) {
        self.partitions.iter().for_each(|it| it.sums.lock().is_closed = true);
    }
}

/// What nobody will send.
impl Drop for Gatherer {
    fn drop(&mut self) {
        for number in 0..self.partitions.len() {
            let mut sending = std::mem::take(self.partitions[number].sending.get_mut());
            let mut rest = Sending::default();
            self.take(number, &mut rest);
            sending.batches.append(&mut rest.batches);
            for batch in sending.batches {
                self.give_up(&batch, "the space was closed before the store took them");
            }
        }
    }
}

#[cfg(test)]
#[path = "gather/tests.rs"]
mod tests;
