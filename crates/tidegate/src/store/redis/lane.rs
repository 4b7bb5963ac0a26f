//! One partition's way to its server.
//!
//! Calls that wait at the same time travel together: up to [`MAX_BATCH`] of one
//! script in one round trip. While four batches are under way the next one
//! gathers, so batches grow with the load and a lone call never waits for
//! company. A lane whose server is away refuses at once and keeps probing.

use std::sync::Arc;
use std::time::Duration;

use compact_str::CompactString;
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use redis::Value;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use super::Shared;
use super::breaker::Breaker;
use super::script::Script;
use crate::clock;
use crate::error::{Error, ErrorKind, Result};

/// Calls per round trip. More would save little of a server's time and keep it
/// and us from working at the same time: with 64 callers, 16 is 10 % faster than
/// 64. It also bounds how long one batch keeps a server busy: 70 µs, or 2.4 ms if
/// each is the worst there is, a refusal by a key with 128 live buckets.
const MAX_BATCH: usize = 16;

/// Round trips under way at once: enough to keep a server busy while answers
/// are handed out.
const IN_FLIGHT: usize = 4;

/// Calls that may wait; beyond it the store counts as away.
const MAX_WAITING: usize = 16_384;

/// One operation on one subject.
#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) script: &'static Script,
    /// Arguments that all calls of one kind share; only those travel together.
    pub(crate) shared: Arc<[CompactString]>,
    /// Keys that all of them share.
    pub(crate) common: Arc<[String]>,
    /// How many items it is; several travel alone and are answered as a list.
    pub(crate) items: usize,
    pub(crate) key: String,
    /// More keys, for an operation that has several; as many in each call of a kind.
    pub(crate) more_keys: Vec<String>,
    pub(crate) own: Vec<CompactString>,
    /// The time a test set.
    pub(crate) now_ms: Option<u64>,
}

impl Call {
    fn travels_with(&self, other: &Self) -> bool {
        self.items == 1
            && other.items == 1
            && std::ptr::eq(self.script, other.script)
            // Mostly the same allocation.
            && (Arc::ptr_eq(&self.shared, &other.shared) || self.shared == other.shared)
            && self.common == other.common
            && self.now_ms == other.now_ms
    }

    fn keys(&self) -> impl Iterator<Item = &str> {
        [&*self.key].into_iter().chain(self.more_keys.iter().map(|key| &**key))
    }
}

struct Job {
    call: Call,
    deadline: Instant,
    reply: oneshot::Sender<Result<Value>>,
}

/// The near end of a lane.
#[derive(Debug)]
pub(super) struct Lane {
    pub(super) breaker: Arc<Breaker>,
    jobs: mpsc::Sender<Job>,
}

impl Lane {
    /// Starts a lane. `first` hears of its first attempt to reach the server.
    pub(super) fn start(shared: Arc<Shared>, partition: u32, first: oneshot::Sender<Result<()>>) -> Self {
        let breaker = Arc::new(Breaker::new());
        let (jobs, waiting) = mpsc::channel(MAX_WAITING);
        let far = Arc::new(Far { shared, partition, breaker: breaker.clone() });
        tokio::spawn(far.clone().probe(Some(first), jobs.downgrade()));
        tokio::spawn(far.run(waiting, jobs.downgrade()));
        Self { breaker, jobs }
    }

    /// Makes a call; always answers by `deadline`, give or take a timer's tick.
    pub(super) async fn call(&self, call: Call, deadline: Instant) -> Result<Value> {
        if let Err(refusal) = self.breaker.check() {
            // A caller in a loop gets its refusals at once; without this it would
            // keep those that wait for their deadline from being answered.
            tokio::task::yield_now().await;
            return Err(refusal);
        }
        let (reply, answer) = oneshot::channel();
        self.jobs.try_send(Job { call, deadline, reply }).map_err(|_| {
            Error::unavailable(format!("{MAX_WAITING} calls are already waiting for the store"))
        })?;
        match tokio::time::timeout_at(deadline, answer).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) => Err(Error::unavailable("the store is shutting down")),
            Err(_) => Err(Error::unavailable("the store did not answer within the deadline")),
        }
    }
}

/// The far end of a lane: what its tasks share.
struct Far {
    shared: Arc<Shared>,
    partition: u32,
    breaker: Arc<Breaker>,
}

impl Far {
    async fn run(self: Arc<Self>, mut jobs: mpsc::Receiver<Job>, alive: mpsc::WeakSender<Job>) {
        let mut gathered = Vec::with_capacity(MAX_BATCH);
        let mut under_way = FuturesUnordered::new();
        loop {
            tokio::select! {
                biased;
                Some(()) = under_way.next() => {}
                count = jobs.recv_many(&mut gathered, MAX_BATCH), if under_way.len() < IN_FLIGHT => {
                    if count == 0 {
                        break;
                    }
                    // Those who are about to call, mostly those who have just
                    // been answered, get to travel along.
                    tokio::task::yield_now().await;
                    while gathered.len() < MAX_BATCH && let Ok(job) = jobs.try_recv() {
                        gathered.push(job);
                    }
                    for batch in batches(&mut gathered) {
                        under_way.push(self.clone().deliver(batch, alive.clone()));
                    }
                }
            }
        }
        while under_way.next().await.is_some() {}
    }

    /// Sends a batch and hands out its answers.
    async fn deliver(self: Arc<Self>, batch: Vec<Job>, alive: mpsc::WeakSender<Job>) {
        let Some(deadline) = batch.iter().map(|job| job.deadline).max() else { return };
        if let Err(refusal) = self.breaker.check() {
            return answer_all(batch, &refusal);
        }
        let metrics = &self.shared.metrics;
        let started = clock::monotonic();
        let outcome = tokio::time::timeout_at(deadline, self.attempt(&batch)).await;
        metrics.batch(batch.len(), started.elapsed());
        let timed_out = outcome.is_err();
        let outcome = outcome
            .unwrap_or_else(|_| Err(Error::unavailable("the store did not answer within the deadline")));
        let failure = match outcome {
            Ok(replies) => {
                self.breaker.succeeded();
                let mut failure = None;
                for (job, reply) in batch.into_iter().zip(replies) {
                    let answer = item(reply).map_err(|error| named(error, &job.call));
                    if let Err(error) = &answer
                        && error.is_transient()
                    {
                        failure = Some(error.clone());
                    }
                    // The caller may have given up.
                    let _ = job.reply.send(answer);
                }
                failure
            }
            Err(error) => {
                let error = named(error, &batch[0].call);
                answer_all(batch, &error);
                error.is_transient().then_some(error)
            }
        };
        // A server that answers, but as a replica or with its memory full, is
        // away too: it takes a connection to its successor, or time.
        let opened = failure.is_some_and(|failure| match timed_out {
            true => self.breaker.was_silent(&failure),
            false => self.breaker.open(&failure),
        });
        if opened {
            tracing::warn!(partition = self.partition, "store is away");
            self.shared.drop_link(self.partition);
            tokio::spawn(self.clone().probe(None, alive));
        }
    }

    /// One round trip.
    async fn attempt(&self, batch: &[Job]) -> Result<Vec<Value>> {
        // While running, a store that refuses us is away like any other: it was
        // right when it was opened.
        let link = self.shared.link(self.partition).await;
        let mut link = link.map_err(|error| Error::unavailable(error.to_string()))?;
        let first = &batch[0].call;
        let marker = self.shared.keyspace.marker(self.partition);
        let now = first.now_ms.map(|ms| ms.to_string()).unwrap_or_default();
        let keys: Vec<&str> = [marker.as_str()]
            .into_iter()
            .chain(first.common.iter().map(|key| &**key))
            .chain(batch.iter().flat_map(|job| job.call.keys()))
            .collect();
        let args: Vec<&str> = [now.as_str()]
            .into_iter()
            .chain(first.shared.iter().map(|arg| &**arg))
            .chain(batch.iter().flat_map(|job| &job.call.own).map(|arg| &**arg))
            .collect();
        match first.script.run(&mut link, &keys, &args).await {
            Ok(Value::Array(replies)) if first.items > 1 && replies.len() == first.items => {
                Ok(vec![Value::Array(replies)])
            }
            Ok(Value::Array(replies)) if first.items == 1 && replies.len() == batch.len() => Ok(replies),
            Ok(other) => Err(Error::internal(format!("{} replies were due, got {other:?}", batch.len()))),
            Err(error) => Err(self.shared.failure(&error)),
        }
    }

    /// Tries to reach the server, with backoff and jitter, until it answers.
    async fn probe(
        self: Arc<Self>,
        first: Option<oneshot::Sender<Result<()>>>,
        alive: mpsc::WeakSender<Job>,
    ) {
        let mut first = first;
        let mut pause = Duration::from_millis(20);
        while alive.strong_count() > 0 {
            let reached = self.shared.renew(self.partition).await;
            match &reached {
                Ok(()) => self.breaker.close(),
                Err(error) => {
                    self.breaker.open(error);
                }
            }
            let is_reached = reached.is_ok();
            if let Some(first) = first.take() {
                // Nobody may be waiting any more.
                let _ = first.send(reached);
            }
            if is_reached {
                tracing::info!(partition = self.partition, "store is reached");
                return;
            }
            tokio::time::sleep(self.shared.jitter(pause)).await;
            pause = (pause * 2).min(Duration::from_secs(1));
        }
    }
}

/// Splits what has gathered into calls that travel together, in order.
fn batches(gathered: &mut Vec<Job>) -> Vec<Vec<Job>> {
    let mut batches: Vec<Vec<Job>> = Vec::with_capacity(1);
    for job in gathered.drain(..) {
        // Its caller has been answered: carrying it out now would only do harm.
        if job.reply.is_closed() {
            continue;
        }
        match batches.iter_mut().find(|batch| batch[0].call.travels_with(&job.call)) {
            Some(batch) => batch.push(job),
            None => batches.push(vec![job]),
        }
    }
    batches
}

fn answer_all(batch: Vec<Job>, error: &Error) {
    for job in batch {
        // The caller may have given up.
        let _ = job.reply.send(Err(error.clone()));
    }
}

/// An error that is about a key says of which call. The key that is meant is one of its own,
/// made of the same names.
fn named(error: Error, call: &Call) -> Error {
    match error.kind() {
        ErrorKind::Corrupt => Error::corrupt(format!("{error} (of the call on {:?})", call.key)),
        _ => error,
    }
}

/// A script answers an item that failed with the error's text.
fn item(reply: Value) -> Result<Value> {
    match reply {
        Value::BulkString(text) => Err(super::server_failure(&String::from_utf8_lossy(&text))),
        Value::SimpleString(text) => Err(super::server_failure(&text)),
        reply => Ok(reply),
    }
}
