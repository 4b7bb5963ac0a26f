//! Rules in a file of SQLite: one process writes, in groups; readers do not wait for it.

mod budget;
mod clicks;
mod export;
mod failure;
mod import;
mod list;
mod open;
mod read;
mod snapshot;
mod spool;
mod write;

use std::fs::File;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use rusqlite::Connection;
use tidegate::clock::Clock;
use tidegate::random::Random;
use tokio::sync::{Semaphore, watch};

use self::import::Importer;
use self::open::Lock;
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

/// Questions that are answered at once, at most: more would only wait for each other.
const READERS: usize = 8;

/// Rows at the end of the log, at most, that are read by whoever asks, and on no other thread: they were just written, and
/// so are in memory.
const FEW: usize = 8;

/// Rules whose states are brought up to date by whoever asks for a page by them, at most: changes wait for it, and so does
/// the page.
const SETTLED: usize = 1000;

/// A database of rules in a file.
#[derive(Debug, Clone)]
pub(super) struct Sqlite {
    writer: Writer,
    returns: Returns,
    last: watch::Sender<Seq>,
    connection: Arc<Mutex<Writable>>,
    block_life: Duration,
    random: Random,
    readers: Arc<Readers>,
    importer: Arc<Importer>,
    /// One import at a time.
    turn: Arc<Semaphore>,
}

#[derive(Debug)]
struct Readers {
    path: PathBuf,
    clock: Clock,
    idle: Mutex<Vec<Connection>>,
    permits: Semaphore,
    _lock: Lock,
}

impl Readers {
    fn read<T>(&self, connection: Connection, read: impl FnOnce(&Connection, u64) -> Result<T>) -> Result<T> {
        let answer = read(&connection, self.clock.now().as_millis());
        // Whoever closes takes those that are idle, and no more come.
        if !self.permits.is_closed() {
            self.idle.lock().push(connection);
        }
        answer
    }
}

/// The connection that writes, until it is closed.
#[derive(Debug)]
struct Writable(Option<Connection>);

impl Writable {
    fn open(&mut self) -> Result<&mut Connection> {
        self.0.as_mut().ok_or_else(closed)
    }
}

/// What groups are written by.
struct Writing {
    connection: Arc<Mutex<Writable>>,
    clock: Clock,
    random: Random,
    max_log: u64,
}

/// What takes blocks back.
struct TakingBack {
    connection: Arc<Mutex<Writable>>,
    clock: Clock,
}

impl Sqlite {
    pub(super) async fn open(path: &Path, options: &TruthOptions) -> Result<Self> {
        let (path, options) = (path.to_owned(), options.clone());
        let (lock, connection, path, options) = blocking(move || {
            let path = open::place(&path)?;
            let lock = Lock::take(&path)?;
            open::clean(&path);
            let connection = open::writer(&path, &options.random)?;
            Ok((lock, connection, path, options))
        })
        .await?;
        let connection = Arc::new(Mutex::new(Writable(Some(connection))));
        let writing = Writing {
            connection: Arc::clone(&connection),
            clock: options.clock.clone(),
            random: options.random.clone(),
            max_log: options.max_log,
        };
        let returns =
            Returns::start(TakingBack { connection: Arc::clone(&connection), clock: options.clock.clone() });
        let readers = Readers {
            path,
            clock: options.clock.clone(),
            idle: Mutex::default(),
            permits: Semaphore::new(READERS),
            _lock: lock,
        };
        let (last, readers) = (watch::Sender::new(Seq::default()), Arc::new(readers));
        let (block_life, random) = (options.block_life, options.random.clone());
        let importer = Importer {
            readers: Arc::clone(&readers),
            writer: Arc::clone(&connection),
            last: last.clone(),
            clock: options.clock,
            random: options.random,
            max_log: options.max_log,
        };
        let writer = Writer::start(writing, last.clone());
        let (importer, turn) = (Arc::new(importer), Arc::new(Semaphore::new(1)));
        Ok(Self { writer, returns, last, connection, block_life, random, readers, importer, turn })
    }

    pub(super) async fn write(&self, changes: Vec<Change>) -> Result<Vec<Outcome>> {
        self.writer.write(changes).await
    }

    pub(super) fn metrics(&self) -> &TruthMetrics {
        self.writer.metrics()
    }

    pub(super) fn last_change(&self) -> watch::Receiver<Seq> {
        self.last.subscribe()
    }

    pub(super) async fn get(&self, id: String) -> Result<Option<Rule>> {
        self.read(move |connection, _| read::get(connection, &id)).await
    }

    pub(super) async fn position(&self) -> Result<Position> {
        self.read(read::position_at).await
    }

    pub(super) async fn log(&self, after: Seq, limit: usize) -> Result<Option<Vec<LogRow>>> {
        self.read(move |connection, _| read::log(connection, after, limit)).await
    }

    pub(super) async fn since(&self, after: Seq, limit: usize) -> Result<(Position, Option<Vec<LogRow>>)> {
        let few = FEW.min(limit);
        if let Some(since) = self.read_here(|it, now_ms| read::since(it, after, few, now_ms)).await? {
            let (position, rows) = &since;
            let last = rows.as_ref().and_then(|rows| rows.last());
            if few == limit || last.is_none_or(|row| row.seq == position.seq) {
                return Ok(since);
            }
        }
        self.read(move |connection, now_ms| read::since(connection, after, limit, now_ms)).await
    }

    pub(super) async fn resolve(&self, host: String, path: String) -> Result<Resolution> {
        self.read(move |connection, now_ms| read::resolve(connection, &host, &path, now_ms)).await
    }

    pub(super) async fn snapshot(&self, fields: Fields) -> Result<(Position, File)> {
        let path = self.readers.path.clone();
        self.read(move |connection, now_ms| snapshot::snapshot(connection, &path, fields, now_ms)).await
    }

    pub(super) async fn import(
        &self,
        reader: Reader,
        options: ImportOptions,
        progress: OnProgress,
    ) -> Result<ImportReport> {
        let turn = Arc::clone(&self.turn).acquire_owned().await.map_err(|_| closed())?;
        let importer = Arc::clone(&self.importer);
        blocking(move || {
            let _turn = turn;
            let mut connection = open::importer(&importer.readers.path)?;
            importer.run(&mut connection, reader, options, progress)
        })
        .await
    }

    pub(super) async fn export(&self, format: ExportFormat) -> Result<(Position, File)> {
        let path = self.readers.path.clone();
        self.read(move |connection, now_ms| export::export(connection, &path, format, now_ms)).await
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
        self.read(move |connection, now_ms| list::list(connection, &filter, cursor, limit, now_ms)).await
    }

    pub(super) async fn new_epoch(&self) -> Result<String> {
        let random = self.random.clone();
        self.in_turn(move |connection, _| write::new_epoch(connection, open::new_epoch(&random))).await
    }

    pub(super) async fn grant(&self, ask: Ask) -> Result<Granted> {
        let life = self.block_life;
        self.in_turn(move |connection, now_ms| budget::grant(connection, &ask, life, now_ms)).await
    }

    pub(super) async fn give_back(&self, it: Return) -> Result<Returned> {
        self.returns.give_back(it).await
    }

    pub(super) async fn report(&self, report: Report) -> Result<bool> {
        self.in_turn(move |connection, now_ms| clicks::report(connection, &report, now_ms)).await
    }

    pub(super) async fn clicks(&self, id: String) -> Result<Option<Clicked>> {
        self.read(move |connection, _| clicks::clicks(connection, &id)).await
    }

    /// Closes it: what is beside the file gets into it, and nobody reads or writes any more. Who reads yet is waited for,
    /// for so long at most. Whether all is in the file.
    pub(super) async fn close(&self, most: Duration) -> bool {
        self.readers.permits.close();
        let (connection, readers) = (Arc::clone(&self.connection), Arc::clone(&self.readers));
        let closing = blocking(move || {
            drop(std::mem::take(&mut *readers.idle.lock()));
            // An import may hold it for long.
            let Some(mut connection) = connection.try_lock_for(most) else { return Ok(false) };
            let Some(connection) = connection.0.take() else { return Ok(true) };
            open::checkpoint(&connection, most)
        });
        match closing.await {
            Ok(true) => true,
            Ok(false) => {
                tracing::warn!(
                    "the rules' database is still in use: what is in its write-ahead log stays there"
                );
                false
            }
            Err(error) => {
                tracing::warn!(%error, "the write-ahead log of the rules' database stays");
                false
            }
        }
    }

    /// Brings the states of some rules up to date that are not.
    async fn settle(&self) -> Result<()> {
        if !self.read(read::is_due).await? {
            return Ok(());
        }
        match self.in_turn(|connection, now_ms| write::settle(connection, now_ms, SETTLED)).await {
            // Rules are read also while none can be written.
            Err(error) if error.kind() == ErrorKind::Full => Ok(()),
            settled => settled,
        }
    }

    /// Writes on the connection that writes, told the time.
    async fn in_turn<T: Send + 'static>(
        &self,
        write: impl FnOnce(&mut Connection, u64) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let (connection, readers) = (Arc::clone(&self.connection), Arc::clone(&self.readers));
        blocking(move || {
            let mut connection = connection.lock();
            // The time when it is written, however long it waited for others.
            write(connection.open()?, readers.clock.now().as_millis())
        })
        .await
    }

    /// Asks on a connection of its own, told the time.
    async fn read<T: Send + 'static>(
        &self,
        ask: impl FnOnce(&Connection, u64) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let readers = Arc::clone(&self.readers);
        let _permit = self.readers.permits.acquire().await.map_err(|_| closed())?;
        blocking(move || {
            let idle = readers.idle.lock().pop();
            let connection = idle.map_or_else(|| open::reader(&readers.path), Ok)?;
            readers.read(connection, ask)
        })
        .await
    }

    /// Asks here and now what is in memory, so that no other thread has to be woken; nothing, if a connection would have to be
    /// opened for it.
    async fn read_here<T>(&self, ask: impl FnOnce(&Connection, u64) -> Result<T>) -> Result<Option<T>> {
        let _permit = self.readers.permits.acquire().await.map_err(|_| closed())?;
        let Some(connection) = self.readers.idle.lock().pop() else { return Ok(None) };
        // A bug in it ends nobody else, as on another thread.
        let answer = catch_unwind(AssertUnwindSafe(|| self.readers.read(connection, ask)));
        answer.unwrap_or_else(|_| Err(Error::new(ErrorKind::Internal, "a question ended by a bug"))).map(Some)
    }
}

impl Commit for Writing {
    async fn commit(&mut self, changes: Vec<Change>) -> Result<Vec<Outcome>> {
        let (connection, random, max_log) = (Arc::clone(&self.connection), self.random.clone(), self.max_log);
        let now_ms = self.clock.now().as_millis();
        blocking(move || write::commit(connection.lock().open()?, changes, now_ms, max_log, &random)).await
    }
}

impl TakeBack for TakingBack {
    async fn take_back(&mut self, blocks: Vec<Return>) -> Result<Vec<Returned>> {
        let (connection, clock) = (Arc::clone(&self.connection), self.clock.clone());
        blocking(move || {
            let mut connection = connection.lock();
            // The time when it is written, however long it waited for others.
            budget::take_back(connection.open()?, &blocks, clock.now().as_millis())
        })
        .await
    }
}

fn closed() -> Error {
    Error::unavailable("the rules' database is closed")
}

/// Runs what waits for a disk where nobody else is kept waiting.
async fn blocking<T: Send + 'static>(run: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    let task = tokio::task::spawn_blocking(run);
    task.await
        .unwrap_or_else(|error| Err(Error::new(ErrorKind::Internal, format!("a question ended: {error}"))))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rule::{Draft, Terms};
    use crate::truth::Truth;

    /// As many rules as a copy of the file has, without what is beside it.
    fn rules_in_the_file_alone(path: &Path) -> u64 {
        let alone = path.with_extension("alone");
        std::fs::copy(path, &alone).unwrap();
        Connection::open(&alone)
            .unwrap()
            .query_row("SELECT count(*) FROM rules", [], |row| row.get(0))
            .unwrap()
    }

    #[tokio::test]
    async fn the_file_alone_has_all_rules_once_it_is_closed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rules.db");
        let truth =
            Truth::open(&format!("sqlite:{}", path.display()), &TruthOptions::default()).await.unwrap();
        let change = |path: &str| Change::Create(Draft::new(Terms::new(path, "/")));
        truth.change(change("/a")).await.unwrap().unwrap();
        // Somebody reads yet, as of now.
        let reader = open::reader(&path).unwrap();
        reader.execute_batch("BEGIN; SELECT count(*) FROM rules").unwrap();
        truth.change(change("/b")).await.unwrap().unwrap();
        let closing = tokio::spawn({
            let truth = truth.clone();
            async move { truth.close().await }
        });
        tokio::task::yield_now().await;
        drop(reader);
        assert!(closing.await.unwrap());
        assert_eq!(rules_in_the_file_alone(&path), 2);
        let error = truth.change(change("/c")).await.expect_err("it is closed");
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        assert!(truth.position().await.is_err());
        assert!(truth.close().await, "it is so already");
    }

    #[tokio::test]
    async fn who_reads_for_long_is_not_waited_for_and_nothing_is_lost() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rules.db");
        let url = format!("sqlite:{}", path.display());
        let truth = Sqlite::open(&path, &TruthOptions::default()).await.unwrap();
        let change = |path: &str| vec![Change::Create(Draft::new(Terms::new(path, "/")))];
        truth.write(change("/a")).await.unwrap();
        let reader = open::reader(&path).unwrap();
        reader.execute_batch("BEGIN; SELECT count(*) FROM rules").unwrap();
        truth.write(change("/b")).await.unwrap();
        assert!(!truth.close(Duration::from_millis(20)).await);
        drop((truth, reader));
        let again = Truth::open(&url, &TruthOptions::default()).await.unwrap();
        assert_eq!(again.position().await.unwrap().count, 2);
    }

    #[tokio::test]
    async fn the_end_of_the_log_is_the_same_however_much_of_it_is_asked_for() {
        let folder = tempfile::tempdir().unwrap();
        let truth = Sqlite::open(&folder.path().join("rules.db"), &TruthOptions::default()).await.unwrap();
        for number in 0..3 * FEW {
            let change = Change::Create(Draft::new(Terms::new(format!("/{number}"), "/")));
            truth.write(vec![change]).await.unwrap();
        }
        let last = 3 * FEW as u64;
        for after in 0..=last {
            let (position, rows) = truth.since(Seq(after), 500).await.unwrap();
            assert_eq!(position.seq, Seq(last));
            let seqs: Vec<_> = rows.unwrap().iter().map(|row| row.seq.0).collect();
            assert_eq!(seqs, (after + 1..=last).collect::<Vec<_>>());
        }
        assert!(truth.since(Seq(last + 1), 500).await.unwrap().1.is_none(), "there was no such change yet");
        for limit in [1, FEW, FEW + 1, 10] {
            let (_, rows) = truth.since(Seq(0), limit).await.unwrap();
            assert_eq!(rows.map(|rows| rows.len()), Some(limit));
        }
    }

    #[tokio::test]
    async fn a_bug_in_a_question_is_an_error_and_ends_nobody_else() {
        let folder = tempfile::tempdir().unwrap();
        let truth = Sqlite::open(&folder.path().join("rules.db"), &TruthOptions::default()).await.unwrap();
        truth.position().await.unwrap();
        let failed = truth.read_here(|_, _| -> Result<()> { panic!("a bug") }).await;
        assert_eq!(failed.expect_err("it has not ended well").kind(), ErrorKind::Internal);
        assert!(
            truth.read_here(|_, _| Ok(())).await.unwrap().is_none(),
            "its connection is nobody's any more"
        );
        assert_eq!(truth.since(Seq(0), 10).await.unwrap().0.count, 0);
    }
}
