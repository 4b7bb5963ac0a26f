//! The rules' database, which is the truth: whatever a cache has comes from here, change by numbered change.
//!
//! ```
//! # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
//! use tidegate_edge::rule::{Draft, Terms};
//! use tidegate_edge::truth::{Change, Truth, TruthOptions};
//!
//! let folder = tempfile::tempdir().unwrap();
//! let url = format!("sqlite:{}", folder.path().join("rules.db").display());
//! let truth = Truth::open(&url, &TruthOptions::default()).await?;
//! let draft = Draft::new(Terms::new("/docs/*", "https://example.com/manual"));
//! let written = truth.change(Change::Create(draft)).await?.expect("nothing is in its way");
//! let (found, position) = truth.resolve("www.example.org", "/docs/start").await?;
//! assert_eq!(found, Some(written.rule));
//! assert_eq!(Some(position.seq), written.seq);
//! # Ok::<(), tidegate_edge::Error>(())
//! # }).unwrap();
//! ```

mod budget;
mod clicks;
mod digest;
mod group;
mod import;
mod list;
mod metrics;
mod postgres;
mod returns;
mod snapshot;
mod sqlite;
mod types;
mod writer;

use std::fs::File;
use std::path::Path;
use std::time::Duration;

use tidegate::clock::{Clock, monotonic};
use tidegate::random::Random;
use tokio::sync::watch;

pub use self::budget::{Ask, Grant, Granted, Return, Returned};
pub use self::clicks::{Clicked, Counted, DayClicks, MAX_DAYS, Report};
pub use self::digest::Digest;
pub(crate) use self::group::body;
pub use self::import::{ImportMode, ImportOptions, ImportOutcome, ImportProgress, ImportReport, ImportStep};
pub use self::list::{Cursor, Filter, MAX_PAGE, RulePage};
use self::postgres::Postgres;
pub use self::snapshot::Fields;
use self::sqlite::Sqlite;
pub use self::types::{
    Change, Condition, LogRow, Logged, Outcome, Patch, Place, Position, Refusal, Resolution, Seq, Written,
};
use crate::error::{Error, ErrorKind, Result};
use crate::formats::{ExportFormat, Reader};
use crate::rule::Rule;

/// How a database of rules is kept.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct TruthOptions {
    /// Changes that the log goes back.
    pub max_log: u64,
    /// For how long a worker may spend a block of permits.
    pub block_life: Duration,
    /// The time: for SQLite this process's, for PostgreSQL the database's. That of a test goes along with what is asked.
    pub clock: Clock,
    /// Where ids come from that are made here.
    pub random: Random,
}

impl Default for TruthOptions {
    fn default() -> Self {
        Self {
            max_log: 100_000,
            block_life: Duration::from_secs(10),
            clock: Clock::default(),
            random: Random::default(),
        }
    }
}

/// How long a database that is closed waits for who reads it yet.
const CLOSING: Duration = Duration::from_secs(2);

/// A database of rules. Clones are one.
#[derive(Debug, Clone)]
pub struct Truth(Database);

#[derive(Debug, Clone)]
enum Database {
    Sqlite(Sqlite),
    Postgres(Postgres),
}

/// The same of whichever database it is.
macro_rules! of {
    ($truth:expr, $database:ident => $answer:expr) => {
        match &$truth.0 {
            Database::Sqlite($database) => $answer,
            Database::Postgres($database) => $answer,
        }
    };
}

impl Truth {
    /// Opens `sqlite:FILE`, which is made if it is not there, or `postgres://USER@HOST/DATABASE`, which several servers may
    /// share. Needs a tokio runtime.
    ///
    /// PostgreSQL gets TLS by `sslmode`: `disable`, `prefer` (if the server has it; this is the default), or `require` and
    /// `verify-full`, which check the server's certificate by what the system trusts, or by the file in `sslrootcert`. Of
    /// several hosts the one that may write is taken with `target_session_attrs=read-write`.
    pub async fn open(url: &str, options: &TruthOptions) -> Result<Self> {
        match url.split_once(':') {
            Some(("sqlite", "")) => Err(Error::config("sqlite: needs a file behind it: sqlite:rules.db")),
            Some(("sqlite", path)) => {
                Ok(Self(Database::Sqlite(Sqlite::open(Path::new(path), options).await?)))
            }
            Some(("postgres" | "postgresql", _)) => {
                Ok(Self(Database::Postgres(Postgres::open(url, options).await?)))
            }
            // Whatever it is, it may hold a password.
            Some((scheme, _)) => Err(Error::config(format!(
                "{scheme:?} is no database of rules: sqlite:FILE and postgres://USER@HOST/DATABASE are"
            ))),
            None => Err(Error::config(format!(
                "{url:?} is no database of rules: sqlite:FILE and postgres://USER@HOST/DATABASE are"
            ))),
        }
    }

    /// Makes a change, with all others that wait.
    pub async fn change(&self, change: Change) -> Result<Outcome> {
        let outcome = self.change_all(vec![change]).await?.pop();
        outcome.ok_or_else(|| Error::new(ErrorKind::Internal, "a change became nothing"))
    }

    /// Makes changes in one transaction, all but those that are refused. No two may be about one rule.
    pub async fn change_all(&self, changes: Vec<Change>) -> Result<Vec<Outcome>> {
        of!(self, database => database.write(changes).await)
    }

    /// The rule of that id.
    pub async fn get(&self, id: &str) -> Result<Option<Rule>> {
        of!(self, database => database.get(id.to_owned()).await)
    }

    /// Where the database stands.
    pub async fn position(&self) -> Result<Position> {
        of!(self, database => {
            let position = database.position().await?;
            database.metrics().stands_at(&position);
            Ok(position)
        })
    }

    /// Puts what is counted here into a registry. How many rules there are and the last change are as they were when
    /// somebody last asked for the position.
    pub fn register_metrics(&self, registry: &mut prometheus_client::registry::Registry) {
        of!(self, database => database.metrics().register(registry))
    }

    /// Says that the database may have gone back, since a backup was put in its place: all who follow begin anew. The name
    /// of the time from now on.
    pub async fn new_epoch(&self) -> Result<String> {
        of!(self, database => database.new_epoch().await)
    }

    /// The last change that was noticed here: of one's own at once, of other servers' if the database tells. Who goes by
    /// it alone misses some.
    pub fn last_change(&self) -> watch::Receiver<Seq> {
        of!(self, database => database.last_change())
    }

    /// Changes behind `after`, at most so many. None if the log does not go back so far, or there was no such change
    /// yet: whoever asks must begin anew.
    pub async fn log(&self, after: Seq, limit: usize) -> Result<Option<Vec<LogRow>>> {
        of!(self, database => database.log(after, limit).await)
    }

    /// Where the database stands, and then changes behind `after` as [`log`](Self::log) has them. Cheap for who is near
    /// the end of the log.
    pub(crate) async fn since(&self, after: Seq, limit: usize) -> Result<(Position, Option<Vec<LogRow>>)> {
        of!(self, database => {
            let since = database.since(after, limit).await?;
            database.metrics().stands_at(&since.0);
            Ok(since)
        })
    }

    /// The rule that answers a request for a host and a path, both [normalised](crate::path), and where the database
    /// stood when that was so.
    pub async fn resolve(&self, host: &str, path: &str) -> Result<(Option<Rule>, Position)> {
        let Resolution { rule, position, .. } = self.fetch(host, path).await?;
        Ok((rule, position))
    }

    /// The same with all that a cache has to know for it: which rules were passed over.
    pub async fn fetch(&self, host: &str, path: &str) -> Result<Resolution> {
        of!(self, database => {
            database.metrics().resolves();
            database.resolve(host.to_owned(), path.to_owned()).await
        })
    }

    /// Rules, page by page: in the order of what they are looked for by, and of their ids. At most [`MAX_PAGE`] at once.
    pub async fn list(&self, filter: Filter, cursor: Option<Cursor>, limit: usize) -> Result<RulePage> {
        of!(self, database => database.list(filter, cursor, limit.clamp(1, MAX_PAGE)).await)
    }

    /// All rules at one place of the log, as lines of JSON in a file without a name: the place, then a rule each.
    pub async fn snapshot(&self, fields: Fields) -> Result<(Position, File)> {
        of!(self, database => {
            database.metrics().reads_all();
            database.snapshot(fields).await
        })
    }

    /// Gives a worker permits of a rule that has only so many. They are debited when this answers, whether the answer
    /// arrives or not: asked for again by the same number, they are the same.
    pub async fn grant(&self, ask: Ask) -> Result<Granted> {
        of!(self, database => database.grant(ask).await)
    }

    /// Takes back a block: what was spent is counted, the rest is anybody's again. Once, however often it is sent.
    pub async fn give_back(&self, it: Return) -> Result<Returned> {
        of!(self, database => database.give_back(it).await)
    }

    /// Counts clicks of rules that need no permits; whether they had not been counted before. Those of rules that are
    /// not there any more are not, whoever has their ids now.
    pub async fn report(&self, report: Report) -> Result<bool> {
        of!(self, database => database.report(report).await)
    }

    /// How often a rule has redirected; none if there is no such rule.
    pub async fn clicks(&self, id: &str) -> Result<Option<Clicked>> {
        of!(self, database => database.clicks(id.to_owned()).await)
    }

    /// Imports a file: all of it as one change, or nothing if there is any problem and what is good alone was not asked
    /// for. One at a time; `progress` is told how far it is, every few thousand lines, on a thread where it may block. It is
    /// not to take long: while it is told that rules are written, others wait.
    ///
    /// The file is read on a thread of its own and may block there; if it cannot be read nothing is written. While it is
    /// read and staged nobody waits. While it is merged, other changes wait, and so do lists by state if a state is due;
    /// all else that is read goes on. That takes some fifteen seconds for a million new rules, on PostgreSQL twice that,
    /// and a minute for a million that change. On PostgreSQL who has waited for 30 seconds is told that it is
    /// unavailable. Who stops waiting for an import does not stop it: an error of the file does.
    ///
    /// ```
    /// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
    /// use tidegate_edge::formats::{Format, Reader};
    /// use tidegate_edge::truth::{ImportOptions, Truth, TruthOptions};
    ///
    /// let folder = tempfile::tempdir().unwrap();
    /// let url = format!("sqlite:{}", folder.path().join("rules.db").display());
    /// let truth = Truth::open(&url, &TruthOptions::default()).await?;
    /// let file = "path,destination\n/a,https://example.com/a\n/b,https://example.com/b\n";
    /// let reader = Reader::new(Format::Csv, file.as_bytes());
    /// let report = truth.import(reader, ImportOptions::default(), |_| ()).await?;
    /// assert_eq!((report.created, report.problems.count), (2, 0));
    /// assert_eq!(report.seq, Some(truth.position().await?.seq));
    /// # Ok::<(), tidegate_edge::Error>(())
    /// # }).unwrap();
    /// ```
    pub async fn import(
        &self,
        reader: Reader,
        options: ImportOptions,
        progress: impl FnMut(ImportProgress) + Send + 'static,
    ) -> Result<ImportReport> {
        if options.partial && options.mode == ImportMode::Replace {
            let message =
                "an import that replaces all rules cannot be partial: it would delete those of bad lines";
            return Err(Error::config(message));
        }
        let since = monotonic();
        of!(self, database => {
            let imported = database.import(reader, options, Box::new(progress)).await;
            database.metrics().imported(since, &imported);
            imported
        })
    }

    /// Ends: who asks for something from now on is told that it is closed. Rules in a file are all in it then, and nothing
    /// of them is only beside it, unless somebody reads for longer than a few seconds yet. Whether that is so.
    pub async fn close(&self) -> bool {
        match &self.0 {
            Database::Sqlite(database) => database.close(CLOSING).await,
            // It is another process's, which writes what it has said to have written.
            Database::Postgres(_) => true,
        }
    }

    /// All rules at one place of the log, with all they have, in the order of their ids: a file without a name, from its
    /// start on. Imported into an empty database it gives the same rules, and the same export.
    pub async fn export(&self, format: ExportFormat) -> Result<(Position, File)> {
        of!(self, database => database.export(format).await)
    }
}
