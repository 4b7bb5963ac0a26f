//! One partition's way to its server.
//!
//! Calls that wait at the same time travel together: up to [16 or 32](LARGEST_BATCH) of one
//! script in one round trip. While four batches are under way the next one
//! gathers, so batches grow with the load and a lone call never waits for
//! company. Those that may be [joined](super::Joining) with others on the same keys become one item. A lane whose server is away refuses at once, and its keeper probes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use redis::Value;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use super::breaker::{Breaker, is_passing};
use super::call::Call;
use super::failure::Failure;
use super::items::Items;
use super::link::{Link, MAX_MOVES};
use super::script::{BATCH, LARGEST_BATCH};
use super::{Shared, Task};
use crate::clock;
use crate::error::{Error, ErrorKind, Result};
use crate::outage::OutageReason;

/// Round trips under way at once: enough to keep a server busy while answers
/// are handed out.
const IN_FLIGHT: usize = 4;

/// Calls that may wait; beyond it the store counts as away.
const MAX_WAITING: usize = 16_384;

/// Pauses between connections that end before they are of any use.
const FIRST_PAUSE: Duration = Duration::from_millis(5);
const LONGEST_PAUSE: Duration = Duration::from_millis(100);

struct Job {
    call: Call,
    deadline: Instant,
    reply: oneshot::Sender<Result<Value>>,
}

/// What callers have of a lane.
#[derive(Debug)]
pub(super) struct Lane {
    pub(super) breaker: Arc<Breaker>,
    jobs: mpsc::Sender<Job>,
    _keeper: Task,
}

impl Lane {
    /// Starts a lane. `first` hears of its first attempt to reach the server.
    pub(super) fn start(shared: Arc<Shared>, partition: u32, first: oneshot::Sender<Result<()>>) -> Self {
        let slot = shared.keyspace.slot(partition);
        let breaker = Arc::new(Breaker::new(shared.links.server_of(slot), shared.changed.clone()));
        let (jobs, waiting) = mpsc::channel(MAX_WAITING);
        let was_used = AtomicBool::new(false);
        let worker = Arc::new(Worker { shared, partition, breaker: breaker.clone(), was_used });
        let keeper = Task(tokio::spawn(worker.clone().keep(first)));
        tokio::spawn(worker.run(waiting));
        Self { breaker, jobs, _keeper: keeper }
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
        self.jobs.try_send(Job { call, deadline, reply }).map_err(|_| overloaded())?;
        answered(answer, deadline).await
    }

    /// Makes a call that has time until `deadline`: it waits for room among those that
    /// wait, and for a server that is there and does not answer for now.
    pub(super) async fn call_queued(&self, call: &Call, deadline: Instant) -> Result<Value> {
        loop {
            self.breaker.wait(deadline).await?;
            let (reply, answer) = oneshot::channel();
            let job = Job { call: call.clone(), deadline, reply };
            if !matches!(tokio::time::timeout_at(deadline, self.jobs.send(job)).await, Ok(Ok(()))) {
                return Err(overloaded());
            }
            match answered(answer, deadline).await {
                // It was refused, not sent: others found the server silent meanwhile.
                Err(error) if !error.is_in_doubt() && is_passing(&error) => {}
                answer => return answer,
            }
        }
    }
}

async fn answered(answer: oneshot::Receiver<Result<Value>>, deadline: Instant) -> Result<Value> {
    match tokio::time::timeout_at(deadline, answer).await {
        Ok(Ok(answer)) => answer,
        Ok(Err(_)) => Err(Error::away(OutageReason::Stopping, "the store is shutting down").in_doubt()),
        Err(_) => Err(late()),
    }
}

fn overloaded() -> Error {
    let text = format!("{MAX_WAITING} calls are already waiting for the store");
    Error::away(OutageReason::Overloaded, text)
}

fn late() -> Error {
    Error::away(OutageReason::Timeout, "the store did not answer within the deadline").in_doubt()
}

/// What the tasks of a lane share: one delivers, one keeps the connection.
pub(super) struct Worker {
    pub(super) shared: Arc<Shared>,
    pub(super) partition: u32,
    pub(super) breaker: Arc<Breaker>,
    /// Whether a call was made since the keeper last replaced a connection.
    pub(super) was_used: AtomicBool,
}

impl Worker {
    async fn run(self: Arc<Self>, mut jobs: mpsc::Receiver<Job>) {
        let mut gathered = Vec::with_capacity(LARGEST_BATCH);
        let mut under_way = FuturesUnordered::new();
        loop {
            tokio::select! {
                biased;
                Some(()) = under_way.next() => {}
                count = jobs.recv_many(&mut gathered, BATCH), if under_way.len() < IN_FLIGHT => {
                    if count == 0 {
                        break;
                    }
                    // Those who are about to call, mostly those who have just
                    // been answered, get to travel along.
                    tokio::task::yield_now().await;
                    let most = gathered.first().map_or(BATCH, |job| job.call.script.batch);
                    while gathered.len() < most && let Ok(job) = jobs.try_recv() {
                        gathered.push(job);
                    }
                    for batch in batches(&mut gathered) {
                        under_way.push(self.clone().deliver(batch));
                    }
                }
            }
        }
        while under_way.next().await.is_some() {}
    }

    /// Sends a batch and hands out its answers.
    async fn deliver(self: Arc<Self>, mut batch: Vec<Job>) {
        let Some(deadline) = batch.iter().map(|job| job.deadline).max() else { return };
        if let Err(refusal) = self.breaker.check() {
            return answer_all(batch, &refusal);
        }
        self.was_used.store(true, Ordering::Relaxed);
        let part = batch.first().and_then(|job| job.call.script.part);
        let started = clock::monotonic();
        let outcome = tokio::time::timeout_at(deadline, self.attempt(&mut batch, deadline)).await;
        self.shared.count_batch(part, batch.len(), started);
        match outcome {
            Ok(Ok(replies)) => {
                self.breaker.succeeded();
                let answers = batch.iter().zip(replies);
                let answers: Vec<_> =
                    answers.map(|(job, reply)| reply.map_err(|error| named(error, &job.call))).collect();
                // A server that answers, but as a replica or with its memory full, is
                // away too: it takes a connection to its successor, or time.
                let failure = answers.iter().filter_map(|it| it.as_ref().err()).rfind(|it| it.is_transient());
                match failure {
                    Some(failure) => self.is_away(failure),
                    // Nobody may have been left to ask for.
                    None if !answers.is_empty() => self.breaker.was_reached(),
                    None => {}
                }
                for (job, answer) in batch.into_iter().zip(answers) {
                    // The caller may have given up.
                    let _ = job.reply.send(answer);
                }
            }
            Ok(Err(Undelivered { error, is_away })) => {
                let error = match batch.first() {
                    Some(job) => named(error, &job.call),
                    None => error,
                };
                if is_away {
                    self.is_away(&error);
                } else if error.is_transient() {
                    self.breaker.was_missed();
                } else {
                    // It has said no.
                    self.breaker.was_reached();
                }
                answer_all(batch, &error);
            }
            Err(_) => {
                let error = late();
                self.breaker.was_missed();
                if self.breaker.was_silent(&error, || self.server()) {
                    self.shared.drop_link(self.partition);
                }
                answer_all(batch, &error);
            }
        }
    }

    fn is_away(&self, error: &Error) {
        self.breaker.was_missed();
        if self.breaker.open(error, || self.server()) {
            self.shared.drop_link(self.partition);
        }
    }

    /// The address of the partition's server.
    pub(super) fn server(&self) -> String {
        self.shared.links.server_of(self.shared.keyspace.slot(self.partition))
    }

    /// One round trip, on the next connection if the one there was had ended before
    /// anything was sent, or leads to a server that has the slot no more.
    async fn attempt(
        &self,
        batch: &mut Vec<Job>,
        deadline: Instant,
    ) -> Result<Vec<Result<Value>>, Undelivered> {
        let mut moves = 0;
        loop {
            let mut link = self.link(deadline).await?;
            // Who has been answered meanwhile must not be charged after that.
            batch.retain(|job| !job.reply.is_closed());
            let Some(Job { call: first, .. }) = batch.first() else { return Ok(Vec::new()) };
            let items = Items::of(batch.iter().map(|job| &job.call));
            let marker = self.shared.keyspace.marker(self.partition);
            let now = first.now_ms.map(|ms| ms.to_string()).unwrap_or_default();
            let keys: Vec<&str> = [marker.as_str()]
                .into_iter()
                .chain(first.shared_keys.iter().map(|key| &**key))
                .chain(items.keys())
                .collect();
            let args: Vec<&str> = [now.as_str()]
                .into_iter()
                .chain(first.shared_args.iter().map(|arg| &**arg))
                .chain(items.args())
                .collect();
            return match first.script.run(&mut link, &keys, &args).await {
                Ok(Value::Array(replies)) if first.items > 1 && replies.len() == first.items => {
                    Ok(vec![Ok(Value::Array(replies))])
                }
                Ok(Value::Array(replies)) if first.items == 1 && replies.len() == items.len() => {
                    Ok(items.answers(replies))
                }
                Ok(other) => {
                    let error = Error::internal(format!("{} replies were due, got {other:?}", items.len()));
                    Err(Undelivered { error, is_away: false })
                }
                Err(Failure::Unsent) => continue,
                Err(Failure::Moved) if moves < MAX_MOVES => {
                    moves += 1;
                    continue;
                }
                Err(failure) => {
                    // Without an answer of the server's nobody knows what it did.
                    let is_in_doubt = matches!(failure, Failure::Away(..));
                    let error = self.shared.failure(failure);
                    let error = if is_in_doubt { error.in_doubt() } else { error };
                    // A connection that was cut says nothing of the next one.
                    let is_away = error.is_transient() && error.reason() != Some(OutageReason::Cut);
                    Err(Undelivered { error, is_away })
                }
            };
        }
    }

    /// The connection, waited for while those that are made end: nothing of a call is sent yet,
    /// and the next one may last. The keeper tries too, and opens the breaker if none does.
    async fn link(&self, deadline: Instant) -> Result<Link, Undelivered> {
        let mut pause = FIRST_PAUSE;
        loop {
            let error = match self.shared.link(self.partition).await {
                Ok(link) => return Ok(link),
                Err(error) => error,
            };
            let is_cut = error.reason() == Some(OutageReason::Cut) && self.breaker.check().is_ok();
            if !is_cut || clock::deadline(pause) >= deadline {
                // While running, a store that refuses us is away like any other: it was
                // right when it was opened.
                return Err(Undelivered { error: error.into_unavailable(), is_away: true });
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }
}

/// A batch that was not answered, and whether its server is away.
struct Undelivered {
    error: Error,
    is_away: bool,
}

/// Splits what has gathered into calls that travel together, in order.
fn batches(gathered: &mut Vec<Job>) -> Vec<Vec<Job>> {
    let mut batches: Vec<Vec<Job>> = Vec::with_capacity(1);
    for job in gathered.drain(..) {
        // Its caller has been answered: carrying it out now would only do harm.
        if job.reply.is_closed() {
            continue;
        }
        let has_room = |batch: &Vec<Job>| batch.len() < job.call.script.batch;
        match batches.iter_mut().find(|batch| has_room(batch) && batch[0].call.travels_with(&job.call)) {
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

/// An error that is about a key says of which call, and what keys that has: one of them is meant.
fn named(error: Error, call: &Call) -> Error {
    match error.kind() {
        ErrorKind::Corrupt => Error::corrupt(format!("{error} (of the call on {})", call.named_keys())),
        _ => error,
    }
}
