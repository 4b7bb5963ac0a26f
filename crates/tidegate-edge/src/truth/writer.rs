//! Group commit: whatever waits while a transaction is written goes into the next one together.

use std::collections::{HashSet, VecDeque};
use std::future::Future;

use tokio::sync::{mpsc, oneshot, watch};

use super::metrics::TruthMetrics;
use super::types::{Change, Outcome, Refusal, Seq};
use crate::error::{Error, Result};

/// Changes that wait, at most; who comes then waits to wait.
const WAITING: usize = 4096;

/// Changes in one transaction, at most, but for those that came together.
const TOGETHER: usize = 512;

/// What writes groups.
pub(super) trait Commit: Send + 'static {
    /// Makes changes, no two of which are about one rule. An error is that nobody knows what became of them, or that
    /// none was made.
    fn commit(&mut self, changes: Vec<Change>) -> impl Future<Output = Result<Vec<Outcome>>> + Send;
}

/// Changes that came together.
struct Job {
    changes: Vec<Change>,
    reply: oneshot::Sender<Result<Vec<Outcome>>>,
}

/// Where changes are handed in.
#[derive(Debug, Clone)]
pub(super) struct Writer {
    jobs: mpsc::Sender<Job>,
    metrics: TruthMetrics,
}

impl Writer {
    /// Starts what writes, and tells of the last change; it ends when nobody is left who could hand in something.
    pub(super) fn start(database: impl Commit, last: watch::Sender<Seq>) -> Self {
        let (jobs, receiver) = mpsc::channel(WAITING);
        let metrics = TruthMetrics::default();
        tokio::spawn(run(database, receiver, last, metrics.clone()));
        Self { jobs, metrics }
    }

    /// What is counted of the database.
    pub(super) fn metrics(&self) -> &TruthMetrics {
        &self.metrics
    }

    /// Makes changes, no two of which are about one rule; what became of each, in their order.
    pub(super) async fn write(&self, changes: Vec<Change>) -> Result<Vec<Outcome>> {
        let made = changes.iter().enumerate().filter(|(_, change)| change.id().is_none());
        let made: Vec<_> = made.map(|(at, change)| (at, change.clone())).collect();
        let mut outcomes = self.send(changes).await?;
        loop {
            // Somebody has thought of that id, or chance has made it twice: they get others.
            let again: Vec<_> = made.iter().filter(|(at, change)| is_taken(change, &outcomes[*at])).collect();
            if again.is_empty() {
                return Ok(outcomes);
            }
            let anew = self.send(again.iter().map(|(_, change)| change.clone()).collect()).await?;
            for ((at, _), outcome) in again.into_iter().zip(anew) {
                outcomes[*at] = outcome;
            }
        }
    }

    async fn send(&self, changes: Vec<Change>) -> Result<Vec<Outcome>> {
        let (reply, outcomes) = oneshot::channel();
        let ended = || Error::unavailable("the rules' database is closed");
        self.jobs.send(Job { changes, reply }).await.map_err(|_| ended())?;
        outcomes.await.map_err(|_| ended())?
    }
}

/// Whether what was made here for a change, its id and so perhaps its path, is somebody else's.
fn is_taken(change: &Change, outcome: &Outcome) -> bool {
    let Change::Create(draft) = change else { return false };
    match outcome {
        Err(Refusal::Exists) => true,
        Err(Refusal::PathTaken { .. }) => draft.terms.path.is_empty(),
        _ => false,
    }
}

async fn run(
    mut database: impl Commit,
    mut receiver: mpsc::Receiver<Job>,
    last: watch::Sender<Seq>,
    metrics: TruthMetrics,
) {
    let mut waiting = VecDeque::new();
    loop {
        if waiting.is_empty() {
            match receiver.recv().await {
                Some(job) => waiting.push_back(job),
                None => return,
            }
        }
        // Whoever was just answered may want to write again: as long as some do, they come along.
        let mut known = 0;
        while waiting.len() < TOGETHER && waiting.len() > known {
            known = waiting.len();
            tokio::task::yield_now().await;
            while waiting.len() < TOGETHER
                && let Ok(job) = receiver.try_recv()
            {
                waiting.push_back(job);
            }
        }
        let jobs = group(&mut waiting);
        let counts: Vec<_> = jobs.iter().map(|job| job.changes.len()).collect();
        let (changes, replies): (Vec<_>, Vec<_>) =
            jobs.into_iter().map(|job| (job.changes, job.reply)).unzip();
        let changes: Vec<_> = changes.into_iter().flatten().collect();
        let group = metrics.begin(&changes);
        let committed = database.commit(changes).await;
        metrics.end(group, &committed);
        // Whoever no longer waits is not answered; its change was made all the same.
        match committed {
            Ok(outcomes) => {
                if let Some(seq) = outcomes.iter().flatten().filter_map(|written| written.seq).max() {
                    tell(&last, seq);
                }
                let mut outcomes = outcomes.into_iter();
                for (count, reply) in counts.into_iter().zip(replies) {
                    let _ = reply.send(Ok(outcomes.by_ref().take(count).collect()));
                }
            }
            Err(error) => {
                for reply in replies {
                    let _ = reply.send(Err(error.again()));
                }
            }
        }
    }
}

/// Tells of a change, unless a later one was told of: an import may have been.
pub(super) fn tell(last: &watch::Sender<Seq>, seq: Seq) {
    last.send_if_modified(|told| {
        let is_later = seq > *told;
        *told = seq.max(*told);
        is_later
    });
}

/// Takes jobs in their order, until there are enough; those about a rule that one before them is about stay.
fn group(waiting: &mut VecDeque<Job>) -> Vec<Job> {
    let (mut jobs, mut left) = (Vec::new(), VecDeque::new());
    let mut ids = HashSet::new();
    let mut count = 0;
    for job in waiting.drain(..) {
        let own: Vec<_> = job.changes.iter().filter_map(Change::id).map(str::to_owned).collect();
        let fits = count == 0 || count + job.changes.len() <= TOGETHER;
        let is_free = own.iter().all(|id| !ids.contains(id));
        // Also for one that stays: those behind it do not overtake it.
        ids.extend(own);
        if fits && is_free {
            count += job.changes.len();
            jobs.push(job);
        } else {
            left.push_back(job);
        }
    }
    *waiting = left;
    jobs
}
