//! One reader of the log per server, for all who follow: they cost the database nothing while they keep up.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use prometheus_client::registry::Registry;
use tidegate::clock::monotonic;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::changes::Changes;
use super::mark::Mark;
use super::metrics::Readers;
use crate::error::Result;
use crate::truth::{LogRow, Position, Seq, Truth};

/// Changes that are read from the log at once.
pub(super) const TOGETHER: usize = 500;

/// How the stream is kept.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct StreamOptions {
    /// How often the log is looked at, though nothing was told.
    pub poll: Duration,
    /// How often followers are told where the database stands.
    pub heartbeat: Duration,
    /// Changes that are kept for those who follow, at most: who is further behind is cut off.
    pub max_changes: usize,
    /// Bytes of them, about.
    pub max_bytes: usize,
}

impl Default for StreamOptions {
    fn default() -> Self {
        Self {
            poll: Duration::from_millis(250),
            heartbeat: Duration::from_secs(5),
            max_changes: 16_384,
            max_bytes: 16 << 20,
        }
    }
}

/// The end of the log, as it grows. Clones are one.
#[derive(Debug, Clone)]
pub struct Tail(Arc<Reading>);

/// What reads, until nobody is left who asks.
#[derive(Debug)]
pub(super) struct Reading {
    shared: Arc<Shared>,
    task: JoinHandle<()>,
}

impl Drop for Reading {
    fn drop(&mut self) {
        self.task.abort();
    }
}

#[derive(Debug)]
struct Shared {
    truth: Truth,
    options: StreamOptions,
    buffer: Mutex<Buffer>,
    /// One reads on at a time: who has asked earlier where the database stands must not find later what was read since.
    turn: tokio::sync::Mutex<()>,
    /// Changes whenever the buffer has.
    moved: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct Buffer {
    /// Which time between two goings back of the database it is, as seen from here.
    life: u64,
    /// Why the one before ended.
    reason: String,
    /// How far it was read, and when.
    at: Option<(Position, Instant)>,
    rows: VecDeque<Arc<LogRow>>,
    bytes: usize,
}

/// What is behind a place.
pub(super) enum Behind {
    /// These changes, in order.
    Rows(Vec<Arc<LogRow>>),
    /// Nothing yet; the place has been reached, or not even that.
    Nothing,
    /// More than is kept here.
    TooMuch,
    /// The place is of another life, which ended so.
    Gone(String),
}

impl Tail {
    /// Reads the log of a database. Needs a tokio runtime.
    pub fn start(truth: &Truth, options: StreamOptions) -> Self {
        let shared = Arc::new(Shared {
            truth: truth.clone(),
            options,
            buffer: Mutex::default(),
            turn: tokio::sync::Mutex::default(),
            moved: watch::Sender::default(),
        });
        let task = tokio::spawn(run(Arc::clone(&shared)));
        Self(Arc::new(Reading { shared, task }))
    }

    /// How many follow now.
    pub fn followers(&self) -> usize {
        // Each has one, and nobody else does.
        self.0.shared.moved.receiver_count()
    }

    /// Puts what is counted here into a registry.
    pub fn register_metrics(&self, registry: &mut Registry) {
        registry.register_collector(Box::new(Readers(self.clone())));
    }

    /// Follows the changes behind `after`, or from now on. Who cannot go on from there is told so by the first message.
    pub async fn follow(&self, after: Option<Mark>) -> Result<Changes> {
        Changes::begin(Arc::clone(&self.0), after).await
    }
}

impl Reading {
    pub(super) fn truth(&self) -> &Truth {
        &self.shared.truth
    }

    pub(super) fn options(&self) -> &StreamOptions {
        &self.shared.options
    }

    pub(super) fn moved(&self) -> watch::Receiver<u64> {
        self.shared.moved.subscribe()
    }

    /// Reads on, if it was not yet.
    pub(super) async fn begin(&self) -> Result<()> {
        let is_begun = self.shared.buffer.lock().at.is_some();
        if is_begun { Ok(()) } else { self.shared.read_on().await }
    }

    /// Which life it is, and where the tail is in it.
    pub(super) fn place(&self) -> (u64, Option<Position>) {
        let buffer = self.shared.buffer.lock();
        (buffer.life, buffer.at.as_ref().map(|(position, _)| position.clone()))
    }

    /// The database's time, unless it was not reached for as long as it should say so.
    pub(super) fn time_ms(&self) -> Option<u64> {
        let buffer = self.shared.buffer.lock();
        let (position, read_at) = buffer.at.as_ref()?;
        let since = monotonic().saturating_duration_since(*read_at);
        (since < self.options().heartbeat).then(|| position.time_ms + since.as_millis() as u64)
    }

    /// What is behind a place of that life, at most so many changes.
    pub(super) fn behind(&self, life: u64, after: Seq, limit: usize) -> Behind {
        let buffer = self.shared.buffer.lock();
        if buffer.life != life {
            return Behind::Gone(buffer.reason.clone());
        }
        if buffer.at.as_ref().is_none_or(|(at, _)| at.seq <= after) {
            return Behind::Nothing;
        }
        match buffer.rows.front() {
            Some(first) if first.seq <= after.next() => {
                let from = (after.next().0 - first.seq.0) as usize;
                Behind::Rows(buffer.rows.iter().skip(from).take(limit).cloned().collect())
            }
            _ => Behind::TooMuch,
        }
    }
}

async fn run(shared: Arc<Shared>) {
    let mut last_change = shared.truth.last_change();
    loop {
        // Whoever follows sees by the age of what it has that nothing comes.
        let _ = shared.read_on().await;
        let poll = tokio::time::sleep(shared.options.poll);
        tokio::select! {
            () = poll => {}
            changed = last_change.changed() => if changed.is_err() { return },
        }
    }
}

impl Shared {
    /// Reads what was written since.
    async fn read_on(&self) -> Result<()> {
        let _turn = self.turn.lock().await;
        loop {
            let at = self.buffer.lock().at.as_ref().map(|(at, _)| at.clone());
            let Some(at) = at else {
                let position = self.truth.position().await?;
                self.begin_anew(position, monotonic(), "");
                return Ok(());
            };
            let (position, rows) = self.truth.since(at.seq, TOGETHER).await?;
            // From when it is here: its time is then behind by what it took, and nothing ends too early.
            let read_at = monotonic();
            if at.epoch != position.epoch || position.seq < at.seq {
                self.begin_anew(position, read_at, "the database may have gone back");
                return Ok(());
            }
            if position.seq == at.seq {
                if position.digest == at.digest {
                    self.buffer.lock().at = Some((position, read_at));
                } else {
                    self.begin_anew(position, read_at, "the database has gone back");
                }
                return Ok(());
            }
            let Some(rows) = rows.filter(|rows| !rows.is_empty()) else {
                self.begin_anew(position, read_at, "the log does not go back so far");
                return Ok(());
            };
            if rows[0].digest_before() != at.digest {
                self.begin_anew(position, read_at, "the database has gone back, and on by another way");
                return Ok(());
            }
            if self.keep(rows, &position, read_at) {
                return Ok(());
            }
        }
    }

    /// Keeps changes for those who follow. Whether that is all there was.
    fn keep(&self, rows: Vec<LogRow>, position: &Position, read_at: Instant) -> bool {
        let mut buffer = self.buffer.lock();
        let buffer = &mut *buffer;
        for row in rows {
            buffer.bytes += bytes(&row);
            let (seq, count, digest) = (row.seq, row.count, row.digest);
            buffer.rows.push_back(Arc::new(row));
            buffer.at = Some((Position { seq, count, digest, ..position.clone() }, read_at));
            while buffer.rows.len() > self.options.max_changes || buffer.bytes > self.options.max_bytes {
                let Some(row) = buffer.rows.pop_front() else { break };
                buffer.bytes -= bytes(&row);
            }
        }
        self.moved.send_modify(|moved| *moved += 1);
        buffer.at.as_ref().is_some_and(|(at, _)| at.seq >= position.seq)
    }

    fn begin_anew(&self, position: Position, read_at: Instant, reason: &str) {
        let mut buffer = self.buffer.lock();
        let life = buffer.life + 1;
        *buffer =
            Buffer { life, reason: reason.to_owned(), at: Some((position, read_at)), ..Buffer::default() };
        drop(buffer);
        self.moved.send_modify(|moved| *moved += 1);
    }
}

/// What a row costs, about.
fn bytes(row: &LogRow) -> usize {
    let place = row.before.as_ref().map_or(0, |it| it.host.len() + it.path.len());
    let after = row.after.as_ref().map_or(0, |it| it.place.host.len() + it.place.path.len() + it.body.len());
    size_of::<LogRow>() + row.id.as_ref().map_or(0, String::len) + place + after
}
