//! Rules in a database of PostgreSQL, which several servers may share: each writes in groups, one at a time of all of them.
//!
//! How that comes out right is told in [`write`]; which time it is in, in [`epoch`]; where the tables are, in [`migrate`]. A
//! connection is held for long and remembers what it was told, so there must be no pooler before the database that gives it
//! to others in between.

mod budget;
mod clicks;
mod epoch;
mod export;
mod failure;
mod import;
mod list;
mod listen;
mod migrate;
mod open;
mod read;
mod session;
mod snapshot;
mod spool;
mod tls;
mod write;

use std::cmp::Ordering;
use std::fs::File;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tidegate::clock::{Clock, monotonic};
use tidegate::random::Random;
use tokio::sync::{Semaphore, SemaphorePermit, watch};
use tokio::task::JoinHandle;

use self::export::Export;
use self::failure::Failure;
use self::open::Dial;
use self::read::Now;
use self::session::Session;
use self::snapshot::Snapshot;
use super::TruthOptions;
use super::budget::{Ask, Granted, Return, Returned};
use super::clicks::{Clicked, Report};
use super::import::{ImportOptions, ImportReport, OnProgress};
use super::list::{Cursor, Filter, RulePage};
use super::metrics::TruthMetrics;
use super::returns::{Returns, TakeBack};
use super::snapshot::Fields;
use super::types::{Change, LogRow, Outcome, Position, Resolution, Seq};
use super::writer::{Commit, Writer};
use crate::error::{Error, ErrorKind, Result};
use crate::formats::{ExportFormat, Reader};
use crate::rule::Rule;

/// Questions that are answered at once, at most, each on a connection of its own.
const READERS: usize = 8;

/// Rules whose states are brought up to date in one transaction, at most: changes wait for it.
const SETTLED: i64 = 1000;

/// How often something is tried while others are in its way.
const ATTEMPTS: usize = 5;

/// Asks on a connection that nobody else has meanwhile.
macro_rules! ask {
    ($database:expr, $session:ident => $question:expr) => {{
        let mut asking = Asking::begin(&$database.shared).await?;
        loop {
            let $session = &asking.session;
            let answer = $question.await;
            if let Some(answer) = asking.end(answer).await {
                asking.leave();
                break answer;
            }
        }
    }};
}

/// A database of rules on a server of PostgreSQL.
#[derive(Debug, Clone)]
pub(super) struct Postgres {
    writer: Writer,
    returns: Returns,
    last: watch::Receiver<Seq>,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    dial: Arc<Dial>,
    clock: Clock,
    random: Random,
    block_life: Duration,
    max_log: u64,
    last: watch::Sender<Seq>,
    /// One import at a time, of this server.
    turn: Arc<Semaphore>,
    idle: Mutex<Vec<Session>>,
    permits: Semaphore,
    listener: JoinHandle<()>,
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.listener.abort();
    }
}

/// What takes blocks back.
struct TakingBack {
    shared: Arc<Shared>,
}

/// What groups are written by.
struct Writing {
    dial: Arc<Dial>,
    session: Option<Session>,
    clock: Clock,
    random: Random,
    max_log: u64,
}

impl Postgres {
    pub(super) async fn open(url: &str, options: &TruthOptions) -> Result<Self> {
        let dial = Arc::new(Dial::new(url)?);
        let session = dial.connect().await?;
        migrate::migrate(&session, &dial.place(), &options.random).await?;
        let position = read::position(&session, now(&options.clock)).await?;
        let writing = Writing {
            dial: Arc::clone(&dial),
            session: Some(session),
            clock: options.clock.clone(),
            random: options.random.clone(),
            max_log: options.max_log,
        };
        let (sender, last) = watch::channel(position.seq);
        let shared = Shared {
            listener: tokio::spawn(listen::listen(Arc::clone(&dial), sender.clone())),
            dial,
            clock: options.clock.clone(),
            random: options.random.clone(),
            block_life: options.block_life,
            max_log: options.max_log,
            last: sender.clone(),
            turn: Arc::new(Semaphore::new(1)),
            idle: Mutex::default(),
            permits: Semaphore::new(READERS),
        };
        let shared = Arc::new(shared);
        let returns = Returns::start(TakingBack { shared: Arc::clone(&shared) });
        Ok(Self { writer: Writer::start(writing, sender), returns, last, shared })
    }

    pub(super) async fn write(&self, changes: Vec<Change>) -> Result<Vec<Outcome>> {
        self.writer.write(changes).await
    }

    pub(super) fn metrics(&self) -> &TruthMetrics {
        self.writer.metrics()
    }

    pub(super) fn last_change(&self) -> watch::Receiver<Seq> {
        self.last.clone()
    }

    pub(super) async fn get(&self, id: String) -> Result<Option<Rule>> {
        ask!(self, session => read::get(session, &id))
    }

    pub(super) async fn position(&self) -> Result<Position> {
        ask!(self, session => read::position(session, self.now()))
    }

    pub(super) async fn new_epoch(&self) -> Result<String> {
        let text = epoch::new_text(&self.shared.random);
        ask!(self, session => epoch::begin(session, &text))
    }

    pub(super) async fn log(&self, after: Seq, limit: usize) -> Result<Option<Vec<LogRow>>> {
        ask!(self, session => read::log(session, after, limit))
    }

    pub(super) async fn since(&self, after: Seq, limit: usize) -> Result<(Position, Option<Vec<LogRow>>)> {
        let mut position = self.position().await?;
        let read_at = monotonic();
        let rows = match position.seq.cmp(&after) {
            Ordering::Less => None,
            Ordering::Equal => Some(Vec::new()),
            Ordering::Greater => self.log(after, limit).await?,
        };
        // The time goes on while the log is read.
        position.time_ms += read_at.elapsed().as_millis() as u64;
        Ok((position, rows))
    }

    pub(super) async fn resolve(&self, host: String, path: String) -> Result<Resolution> {
        ask!(self, session => read::resolve(session, &host, &path, self.now()))
    }

    /// On a connection of its own: nobody waits for one that is busy for long.
    pub(super) async fn snapshot(&self, fields: Fields) -> Result<(Position, File)> {
        let session = self.shared.dial.reconnect().await?;
        Ok(spool::spool(&session, Snapshot(fields), self.now()).await?)
    }

    /// The same.
    pub(super) async fn export(&self, format: ExportFormat) -> Result<(Position, File)> {
        let session = self.shared.dial.reconnect().await?;
        Ok(spool::spool(&session, Export(format), self.now()).await?)
    }

    /// Goes on if nobody waits for it any more.
    pub(super) async fn import(
        &self,
        reader: Reader,
        options: ImportOptions,
        progress: OnProgress,
    ) -> Result<ImportReport> {
        let shared = Arc::clone(&self.shared);
        let turn = Arc::clone(&shared.turn).acquire_owned().await.map_err(|_| closed())?;
        let importing = tokio::spawn(async move {
            let _turn = turn;
            import::import(shared, reader, options, progress).await
        });
        let ended = |error| Error::new(ErrorKind::Internal, format!("an import has ended: {error}"));
        Ok(importing.await.map_err(ended)??)
    }

    pub(super) async fn list(
        &self,
        filter: Filter,
        cursor: Option<Cursor>,
        limit: usize,
    ) -> Result<RulePage> {
        if filter.state.is_some() {
            self.settle().await?;
        }
        ask!(self, session => list::list(session, &filter, cursor.clone(), limit, self.now()))
    }

    pub(super) async fn grant(&self, ask: Ask) -> Result<Granted> {
        let life = self.shared.block_life;
        ask!(self, session => budget::grant(session, &ask, life, self.now()))
    }

    pub(super) async fn give_back(&self, it: Return) -> Result<Returned> {
        self.returns.give_back(it).await
    }

    pub(super) async fn report(&self, report: Report) -> Result<bool> {
        ask!(self, session => clicks::report(session, &report, self.now()))
    }

    pub(super) async fn clicks(&self, id: String) -> Result<Option<Clicked>> {
        ask!(self, session => clicks::clicks(session, &id))
    }

    /// Brings the states of some rules up to date that are not.
    async fn settle(&self) -> Result<()> {
        if !ask!(self, session => read::is_due(session, self.now()))? {
            return Ok(());
        }
        match ask!(self, session => write::settle(session, self.now(), SETTLED)) {
            // Rules are read also while none can be written.
            Err(error) if error.kind() == ErrorKind::Full => Ok(()),
            settled => settled,
        }
    }

    fn now(&self) -> Now {
        now(&self.shared.clock)
    }
}

/// A question under way. Who gives it up takes the connection along, and what was begun on it ends.
struct Asking<'a> {
    shared: &'a Shared,
    session: Session,
    attempts: usize,
    _permit: SemaphorePermit<'a>,
}

impl<'a> Asking<'a> {
    async fn begin(shared: &'a Shared) -> Result<Self> {
        let permit = shared.permits.acquire().await.map_err(|_| closed())?;
        let idle = || shared.idle.lock().pop();
        let session = match std::iter::from_fn(idle).find(Session::is_open) {
            Some(session) => session,
            None => shared.dial.reconnect().await?,
        };
        Ok(Self { shared, session, attempts: 0, _permit: permit })
    }

    /// The answer, unless it is to be asked again: on another connection if this one is lost. Whatever commits says itself
    /// when it cannot be done again.
    async fn end<T>(&mut self, answer: failure::Result<T>) -> Option<Result<T>> {
        self.attempts += 1;
        match answer {
            Err(Failure::Lost(_)) if self.attempts == 1 => match self.shared.dial.reconnect().await {
                Ok(session) => {
                    self.session = session;
                    None
                }
                Err(failure) => Some(Err(failure.into())),
            },
            Err(Failure::Passing(_)) if self.attempts < ATTEMPTS => None,
            answer => Some(answer.map_err(Error::from)),
        }
    }

    /// Leaves the connection to others.
    fn leave(self) {
        if self.session.is_open() {
            self.shared.idle.lock().push(self.session);
        }
    }
}

/// The time to go along with what is asked, if it is a test's: otherwise it is the database's.
fn now(clock: &Clock) -> Now {
    match clock {
        Clock::Manual(clock) => Some(clock.now().as_millis() as i64),
        _ => None,
    }
}

impl TakeBack for TakingBack {
    async fn take_back(&mut self, blocks: Vec<Return>) -> Result<Vec<Returned>> {
        ask!(self, session => budget::take_back(session, &blocks, now(&self.shared.clock)))
    }
}

impl Commit for Writing {
    async fn commit(&mut self, changes: Vec<Change>) -> Result<Vec<Outcome>> {
        let mut attempts = 0;
        loop {
            let session = match self.session.take().filter(Session::is_open) {
                Some(session) => session,
                None => self.dial.reconnect().await?,
            };
            let now = now(&self.clock);
            let written = write::commit(&session, changes.clone(), now, self.max_log, &self.random).await;
            attempts += 1;
            match written {
                // Nothing was committed yet.
                Err(Failure::Lost(_)) if attempts == 1 => {}
                Err(Failure::Passing(_)) if attempts < ATTEMPTS => self.session = Some(session),
                written => {
                    self.session = Some(session).filter(Session::is_open);
                    return Ok(written?);
                }
            }
        }
    }
}

fn closed() -> Error {
    Error::unavailable("the rules' database is closed")
}
