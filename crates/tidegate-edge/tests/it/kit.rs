//! Databases for tests.

mod full_disk;
mod postgres;

use std::io::{Read as _, Seek as _};
use std::sync::OnceLock;
use std::time::Duration;

use tempfile::TempDir;
use tidegate::clock::{ManualClock, Timestamp};
use tidegate::random::Random;
use tidegate_edge::rule::{Draft, Terms};
use tidegate_edge::truth::{Change, Counted, Digest, Fields, LogRow, Position, Truth, TruthOptions, Written};
use tokio_postgres::Client;

pub(crate) use self::postgres::{PostgresServer, QUICK};

/// Long enough for anything that comes at all.
pub(crate) const SOON: Duration = Duration::from_secs(60);

pub(crate) const START_MS: u64 = 1_700_000_000_000;

/// What chance begins with.
pub(crate) const SEED: u64 = 7;

/// A database of its own, with a clock that stands still.
pub(crate) struct World {
    pub(crate) truth: Truth,
    pub(crate) clock: ManualClock,
    pub(crate) url: String,
    pub(crate) options: TruthOptions,
    folder: TempDir,
}

/// Clicks of whichever rule has that id.
pub(crate) fn counted(id: impl Into<String>, clicks: u64) -> Counted {
    Counted { id: id.into(), created_at: None, clicks }
}

impl World {
    /// In a file of SQLite.
    pub(crate) async fn sqlite() -> Self {
        Self::sqlite_with(|_| ()).await
    }

    pub(crate) async fn sqlite_with(change: impl FnOnce(&mut TruthOptions)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let url = format!("sqlite:{}", folder.path().join("rules.db").display());
        Self::open(url, folder, change).await
    }

    /// In a database of PostgreSQL.
    pub(crate) async fn postgres() -> Self {
        Self::postgres_with(|_| ()).await
    }

    pub(crate) async fn postgres_with(change: impl FnOnce(&mut TruthOptions)) -> Self {
        let (_, url) = PostgresServer::shared().database().await;
        Self::open(url, tempfile::tempdir().unwrap(), change).await
    }

    /// In a database of PostgreSQL that was used before, empty again: to make one takes longer than most of what is done
    /// in it. The first to come makes it.
    pub(crate) async fn postgres_again(database: &OnceLock<String>) -> Self {
        let server = PostgresServer::shared();
        match database.get() {
            Some(name) => {
                server.client(name).await.batch_execute("DROP SCHEMA tidegate CASCADE").await.unwrap();
                Self::open(server.url(name), tempfile::tempdir().unwrap(), |_| ()).await
            }
            None => {
                let world = Self::postgres().await;
                database.set(world.database().to_owned()).unwrap();
                world
            }
        }
    }

    /// Another one of the same kind.
    pub(crate) async fn another(&self) -> Self {
        self.another_with(|_| ()).await
    }

    pub(crate) async fn another_with(&self, change: impl FnOnce(&mut TruthOptions)) -> Self {
        match self.is_sqlite() {
            true => Self::sqlite_with(change).await,
            false => Self::postgres_with(change).await,
        }
    }

    pub(crate) fn is_sqlite(&self) -> bool {
        self.url.starts_with("sqlite:")
    }

    /// What PostgreSQL calls it.
    pub(crate) fn database(&self) -> &str {
        self.url.rsplit_once('/').unwrap().1
    }

    /// A connection to its database of PostgreSQL, of somebody who may do everything.
    pub(crate) async fn client(&self) -> Client {
        PostgresServer::shared().client(self.database()).await
    }

    /// Changes the database behind everybody's back.
    pub(crate) async fn execute(&self, statement: &str) {
        match self.url.strip_prefix("sqlite:") {
            Some(file) => rusqlite::Connection::open(file).unwrap().execute_batch(statement).unwrap(),
            None => {
                let statement = format!("SET search_path TO tidegate; {statement}");
                self.client().await.batch_execute(&statement).await.unwrap();
            }
        }
    }

    /// Rows that a table has.
    pub(crate) async fn rows_of(&self, table: &str) -> u64 {
        if let Some(path) = self.url.strip_prefix("sqlite:") {
            let connection = rusqlite::Connection::open(path).unwrap();
            return connection
                .query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0))
                .unwrap();
        }
        let count = format!("SELECT count(*) FROM tidegate.{table}");
        self.client().await.query_one(&count, &[]).await.unwrap().get::<_, i64>(0) as u64
    }

    async fn open(url: String, folder: TempDir, change: impl FnOnce(&mut TruthOptions)) -> Self {
        let clock = ManualClock::at(Timestamp::from_millis(START_MS));
        let mut options = TruthOptions::default();
        options.clock = clock.clone().into();
        options.random = Random::seeded(SEED);
        change(&mut options);
        let truth = Truth::open(&url, &options).await.unwrap();
        Self { truth, clock, url, options, folder }
    }

    /// Another server on the same database; the same one if a database is one server's.
    pub(crate) async fn another_server(&self) -> Truth {
        if self.is_sqlite() {
            return self.truth.clone();
        }
        Truth::open(&self.url, &self.options).await.unwrap()
    }

    /// Closes it and opens it again, with other options.
    pub(crate) async fn opened_again(self, change: impl FnOnce(&mut TruthOptions)) -> Self {
        let Self { truth, clock, url, mut options, folder } = self;
        drop(truth);
        change(&mut options);
        let opened = async {
            loop {
                // A process that another test starts just now may have the lock until it runs.
                match Truth::open(&url, &options).await {
                    Err(error) if error.to_string().contains("one process at a time") => {
                        tokio::task::yield_now().await;
                    }
                    opened => break opened.unwrap(),
                }
            }
        };
        let truth = tokio::time::timeout(SOON, opened).await.expect("its lock is free");
        Self { truth, clock, url, options, folder }
    }

    /// Rows that the log has in the database.
    pub(crate) async fn log_rows(&self) -> i64 {
        match self.url.strip_prefix("sqlite:") {
            Some(file) => {
                let connection = rusqlite::Connection::open(file).unwrap();
                connection.query_row("SELECT count(*) FROM log", [], |row| row.get(0)).unwrap()
            }
            None => {
                let (_, name) = self.url.rsplit_once('/').unwrap();
                let client = PostgresServer::shared().client(name).await;
                client.query_one("SELECT count(*) FROM tidegate.log", &[]).await.unwrap().get(0)
            }
        }
    }

    pub(crate) fn folder(&self) -> &std::path::Path {
        self.folder.path()
    }

    /// A rule of that id, made now.
    pub(crate) async fn create(&self, id: &str, terms: Terms) -> Written {
        let change = Change::Create(draft(id, terms));
        self.truth.change(change).await.unwrap().unwrap_or_else(|refusal| panic!("{id}: {refusal}"))
    }

    /// All rows of the log.
    pub(crate) async fn log(&self) -> Vec<LogRow> {
        self.truth.log(Default::default(), usize::MAX >> 1).await.unwrap().expect("the log is whole")
    }

    /// All of it fits together: what the log makes of nothing is what the database has.
    pub(crate) async fn check(&self) {
        check(&self.truth).await;
    }
}

/// Waits until PostgreSQL has no such rows.
pub(crate) async fn until_none(client: &Client, of: &str) {
    let count = format!("SELECT count(*) FROM {of}");
    let none = async {
        while client.query_one(&count, &[]).await.unwrap().get::<_, i64>(0) > 0 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(SOON, none).await.unwrap_or_else(|_| panic!("there are rows of {of}"));
}

/// All of it fits together: what the log makes of nothing is what the database says it has, and what it has.
pub(crate) async fn check(truth: &Truth) {
    let position = truth.position().await.unwrap();
    let log = truth.log(Default::default(), usize::MAX >> 1).await.unwrap().expect("the log is whole");
    let (mut digest, mut count) = (Digest::default(), 0);
    for (number, row) in log.iter().enumerate() {
        assert_eq!(row.seq.0, number as u64 + 1, "no gap");
        digest = digest.without(row.left).with(row.came);
        assert_eq!(row.digest, digest, "{row:?}");
        if row.id.is_some() {
            count = count + u64::from(row.after.is_some()) - u64::from(row.before.is_some());
            assert_eq!(row.count, count, "{row:?}");
        }
        count = row.count;
    }
    assert_eq!((position.digest, position.count), (digest, count));
    let (at, bodies) = bodies(truth).await;
    let all = bodies.iter().fold(Digest::default(), |digest, body| {
        let rule: serde_json::Value = serde_json::from_str(body).unwrap();
        let (id, version) = (rule["id"].as_str().unwrap(), rule["version"].as_u64().unwrap());
        digest.with(Digest::of(id, version, body))
    });
    assert_eq!((at.seq, all, bodies.len() as u64), (position.seq, digest, count));
}

/// All rules as a snapshot has them, and where it was made.
pub(crate) async fn bodies(truth: &Truth) -> (Position, Vec<String>) {
    let (position, mut file) = truth.snapshot(Fields::All).await.unwrap();
    let mut text = String::new();
    file.rewind().unwrap();
    file.read_to_string(&mut text).unwrap();
    let mut lines = text.lines().map(str::to_owned);
    assert_eq!(serde_json::from_str::<Position>(&lines.next().unwrap()).unwrap(), position);
    (position, lines.collect())
}

pub(crate) fn draft(id: &str, terms: Terms) -> Draft {
    let mut draft = Draft::new(terms);
    draft.id = Some(id.to_owned());
    draft
}

pub(crate) fn terms(path: &str, destination: &str) -> Terms {
    Terms::new(path, destination)
}
