//! Gathering: counts are added up by page in this process, and sent together.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use tokio::sync::watch;

use super::edit::{Count, Recorded};
use super::gather::{Added, Batch, Gatherer, Loss};
use super::handle::{Backend, Hot};
use crate::clock::{monotonic, since_boot};
use crate::error::{Error, Result};
use crate::key::Key;
use crate::log;
use crate::store::partitions;

/// How many deadlines of a call a batch may wait for a busy store: nobody waits for it.
const BATCH_DEADLINES: u32 = 10;

/// For how long the last flush of all is tried.
const LAST_FLUSH: Duration = Duration::from_secs(3);

/// How long after one that failed the next is tried.
const PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// What became of a batch.
enum Sent {
    Whole,
    /// Some of its counts are lost.
    InPart(Error),
    /// It was known to the store before it was sent, and nothing of it was counted.
    Known,
}

impl Hot {
    /// Sends what this process has [gathered](super::HotOptions::gather), now: when it returns, all that was counted
    /// before is in the store. What a store that is away did not take is an error, and is kept for the next time; what is
    /// lost, since it was away for too long or the page cannot be read, is one too.
    ///
    /// It is done in the background every `gather` anyway, by [`Tidegate::shutdown`](crate::Tidegate::shutdown), and as far as the
    /// runtime lives on, when all handles are dropped. Where nothing is gathered there is nothing to do.
    pub async fn flush(&self) -> Result<()> {
        let Some(gatherer) = &self.core.gatherer else { return Ok(()) };
        let flushed = partitions::all(self.numbers().map(|number| self.flush_one(gatherer, number))).await;
        gatherer.metrics.waiting.set(gatherer.waiting() as i64);
        let is_away = flushed.as_ref().is_err_and(Error::is_transient);
        gatherer.is_failing.store(is_away, Ordering::Relaxed);
        flushed.map(drop)
    }

    /// Adds counts to those that are sent together, unless nothing is gathered here. Where there is no room some are sent
    /// at once, and that is waited for until a moment; while the store is away nothing is waited for.
    pub(super) async fn gathered(&self, count: Count<'_>, until: Instant) -> Option<Recorded> {
        let gatherer = self.core.gatherer.as_ref()?;
        let number = self.partition(count.page);
        loop {
            // What is sent from here on is heard of.
            let freed = gatherer.freed.notified();
            match gatherer.add(number, count, since_boot()) {
                Added::Gathered => return Some(Recorded::Gathered),
                Added::Closed => return None,
                Added::Full => {}
            }
            gatherer.early.notify_one();
            let is_failing = gatherer.is_failing.load(Ordering::Relaxed);
            if is_failing || tokio::time::timeout_at(until.into(), freed).await.is_err() {
                gatherer.metrics.lost(Loss::Dropped, count.count);
                return Some(Recorded::Dropped);
            }
        }
    }

    /// Until when who counts waits for room.
    pub(super) fn room_until(&self, deadline: Option<Duration>) -> Instant {
        let Backend::Redis { partitions, .. } = &self.core.backend else { return monotonic() };
        monotonic() + deadline.unwrap_or_else(|| partitions[0].deadline())
    }

    /// Sends batch by batch what a partition has, until all of it is answered for.
    async fn flush_one(&self, gatherer: &Gatherer, number: usize) -> Result<()> {
        let mut sending = gatherer.partitions[number].sending.lock().await;
        // Of earlier ones somebody else was told.
        sending.lost = 0;
        let mut flushed = Ok(());
        // Those that could not be sent before, and then what was counted since.
        let mut has_taken = false;
        loop {
            let node = sending.node.clone();
            let Some(batch) = gatherer.next(&mut sending, since_boot()) else {
                if has_taken {
                    break;
                }
                has_taken = true;
                gatherer.take(number, &mut sending);
                continue;
            };
            // If nobody waits for the answer any more, nobody knows.
            let was_sent = std::mem::replace(&mut batch.was_sent, true);
            let answer = self.send_batch(gatherer, number, &node, batch, was_sent).await;
            match answer {
                Ok(Sent::Whole) => {}
                Ok(Sent::Known) => {
                    let (space, node) = (self.space().as_str(), &*node);
                    let why = "somebody else has written what it sent last: it has another name from now on";
                    log::warn!(space, node, why, "a node that gathers was not known by its number");
                    batch.was_sent = false;
                    sending.begin_anew();
                    continue;
                }
                Ok(Sent::InPart(error)) => flushed = flushed.and(Err(error)),
                Err(error) if error.is_transient() => {
                    batch.was_sent = was_sent || error.is_in_doubt();
                    gatherer.metrics.failed.inc();
                    return Err(error);
                }
                Err(error) => {
                    gatherer.lost(Loss::Failed, &batch.pages, &error.to_string());
                    flushed = Err(error);
                }
            }
            gatherer.done(&mut sending);
        }
        match sending.lost {
            0 => flushed,
            lost => flushed.and(Err(Error::unavailable(format!(
                "{lost} counts that were gathered are lost: the store was away for too long"
            )))),
        }
    }

    /// Sends a batch until all of it is answered for.
    async fn send_batch(
        &self,
        gatherer: &Gatherer,
        number: usize,
        node: &str,
        Batch { number: batch, pages, .. }: &Batch,
        was_sent: bool,
    ) -> Result<Sent> {
        // Whatever went wrong before, they were not sent.
        let partition = self.on_redis(number).await.map_err(Error::undone)?;
        // Each was a key when it was counted.
        let key = |page| Key::new(page).unwrap_or(Key::EVERYONE);
        let counts: Vec<_> = pages.iter().map(|(page, count)| Count::new(key(page), *count)).collect();
        let deadline = partition.deadline() * BATCH_DEADLINES;
        let (mut answered, mut failed) = (0, None);
        while answered < counts.len() {
            let answers = partition.flush(node, *batch, &counts, deadline).await;
            // Of one that was answered in part the store has that part.
            let answers = answers.map_err(|error| if answered > 0 { error.in_doubt() } else { error })?;
            if answered == 0 && !was_sent && answers.iter().all(Option::is_none) {
                return Ok(Sent::Known);
            }
            if answered == 0 {
                // Some of it was here, or all.
                let is_repeated = answers.first().is_some_and(Option::is_none);
                let metrics = &gatherer.metrics;
                if is_repeated { &metrics.repeated } else { &metrics.counted }.inc();
            }
            for (answer, page) in answers.iter().zip(pages).skip(answered) {
                match answer {
                    Some(Ok((_, effects))) => self.core.notes.note(effects, || self.core.now_ms()),
                    Some(Err(error)) => {
                        gatherer.lost(Loss::Failed, std::slice::from_ref(page), &error.to_string());
                        failed.get_or_insert_with(|| error.clone());
                    }
                    // It was counted when no answer came.
                    None => {}
                }
            }
            answered = answers.len();
        }
        Ok(failed.map_or(Sent::Whole, Sent::InPart))
    }

    /// Flushes again and again until it is told to end, and once more then.
    pub(super) async fn keep_flushing(self, mut stopped: watch::Receiver<bool>) {
        let Some(gatherer) = &self.core.gatherer else { return };
        let gather = self.options().gather;
        loop {
            tokio::select! {
                _ = stopped.changed() => break,
                () = gatherer.begun.notified() => {}
            }
            tokio::select! {
                _ = stopped.changed() => break,
                () = gatherer.early.notified() => {}
                () = tokio::time::sleep(gather) => {}
            }
            if self.flush().await.is_err() {
                // What is left begins anew, however much there is.
                tokio::select! {
                    _ = stopped.changed() => break,
                    () = tokio::time::sleep(gather.clamp(PAUSE, LONGEST_PAUSE)) => {}
                }
                gatherer.begun.notify_one();
            }
        }
        gatherer.close();
        let until = monotonic() + LAST_FLUSH;
        while self.flush().await.is_err_and(|error| error.is_transient()) && monotonic() < until {
            tokio::time::sleep(PAUSE).await;
        }
    }
}
