//! A list of rules imported into a file, beside `sqlite3 .import` of the same list, each in a process of its own.
//!
//! The tool writes what it reads: a table of the list's columns with as many indices as ours, of the same columns. It
//! checks nothing, makes no JSON and no digest. Both have a write-ahead log, flush it, bring it to its place in the end,
//! and have as much memory for pages.

use std::fs::File;
use std::io::{BufWriter, ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use serde::{Deserialize, Serialize};
use tempfile::TempDir;
use tidegate::clock::monotonic;
use tidegate_edge::formats::{Format, Reader};
use tidegate_edge::truth::{ImportOptions, Truth, TruthOptions};

use crate::progress;
use crate::report::{Figure, Goal};
use crate::rounds::{Effort, Samples};

const PEER: &str = "sqlite3 .import";

/// What a large list may take at most.
const MAX_SECONDS: f64 = 60.0;
const MAX_MB: f64 = 300.0;

/// The tool's schema, and how much memory it has for pages: as much as an import of ours.
const SCHEMA: &str = "PRAGMA journal_mode = wal;
PRAGMA synchronous = FULL;
PRAGMA cache_size = -49152;
CREATE TABLE rules (id TEXT NOT NULL PRIMARY KEY, host TEXT NOT NULL, path TEXT NOT NULL, destination TEXT NOT NULL,
    code INTEGER NOT NULL, tags TEXT NOT NULL, note TEXT NOT NULL) STRICT;
CREATE UNIQUE INDEX rules_by_place ON rules (host, path);
CREATE INDEX rules_by_path ON rules (path, id);
CREATE INDEX rules_by_destination ON rules (destination, id);
CREATE INDEX rules_by_code ON rules (code, id);
CREATE INDEX rules_by_tag ON rules (tags, id);
";

/// What an import has taken.
#[derive(Debug, Serialize, Deserialize)]
struct Taken {
    seconds: f64,
    /// The most memory that its process has had.
    mb: f64,
}

/// Rules per second of a list in the order of its ids, as an export is, and of one in no order; time and memory of a
/// large one.
pub(super) fn figures(effort: Effort) -> Result<Vec<Figure>> {
    let mut figures = Vec::new();
    for (order, step) in [("", 1), (".shuffled", 7919)] {
        progress(&format!("edge.import_rules_per_s{order}"));
        let list = List::write(effort.pick(50_000, 1_000_000), step)?;
        let (mut samples, mut has_peer) = (Samples::new(), true);
        for _ in 0..effort.pick(5, 3) {
            let (ours_per_s, taken) = list.ours_per_s()?;
            let theirs_per_s = list.theirs_per_s()?;
            has_peer &= theirs_per_s.is_some();
            samples.push([ours_per_s, theirs_per_s.unwrap_or(f64::NAN), taken.seconds, taken.mb]);
        }
        let [ours, theirs, seconds, mb] = samples.medians();
        let (figure, goal) =
            (Figure::ours(&format!("edge.import_rules_per_s{order}"), "rules/s", ours), Goal::AtLeast(0.3));
        figures.push(match has_peer {
            true => figure.beside(PEER, theirs).goal(goal),
            false => figure.without("sqlite3, which is not installed", goal),
        });
        if !effort.quick {
            let figure =
                |what: &str, unit, value| Figure::ours(&format!("edge.import_{what}{order}"), unit, value);
            figures.push(figure("seconds", "s", seconds).goal(Goal::AtMost(MAX_SECONDS)));
            figures.push(figure("mb", "MB", mb).goal(Goal::AtMost(MAX_MB)));
        }
    }
    Ok(figures)
}

/// A list in a file, and where to import it into.
struct List {
    folder: TempDir,
    count: usize,
}

impl List {
    /// One of so many rules, in steps through their numbers.
    fn write(count: usize, step: usize) -> Result<Self> {
        let list = Self { folder: tempfile::tempdir()?, count };
        let mut into = BufWriter::new(File::create(list.path())?);
        writeln!(into, "id,host,path,destination,code,tags,note")?;
        for number in 0..count {
            let number = number * step % count;
            let tag = number % 50;
            writeln!(
                into,
                "rule-{number:08},www.example.com,/campaigns/{tag}/{number:x},\
                 https://shop.example.org/products/{number}?ref=mail,301,campaign-{tag},made up"
            )?;
        }
        into.flush()?;
        Ok(list)
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("list.csv")
    }

    /// Runs a process that imports it into a new database; how many rules per second, and what it has said.
    fn per_s(&self, command: &mut Command, database: &Path) -> Result<(f64, Vec<u8>)> {
        let start = monotonic();
        let ran = command.output()?;
        let seconds = start.elapsed().as_secs_f64();
        ensure!(ran.status.success(), "an import failed: {}", String::from_utf8_lossy(&ran.stderr));
        let count =
            rusqlite::Connection::open(database)?
                .query_row("SELECT count(*) FROM rules", [], |row| row.get::<_, usize>(0))?;
        ensure!(count == self.count, "{count} of {} rules were imported", self.count);
        for end in ["", "-wal", "-shm", "-lock"] {
            let mut path = database.as_os_str().to_owned();
            path.push(end);
            match std::fs::remove_file(&path) {
                Err(error) if error.kind() != ErrorKind::NotFound => return Err(error.into()),
                _ => {}
            }
        }
        Ok((self.count as f64 / seconds, ran.stdout))
    }

    fn ours_per_s(&self) -> Result<(f64, Taken)> {
        let database = self.folder.path().join("ours.db");
        let mut command = Command::new(std::env::current_exe().context("where this binary is")?);
        command.args(["edge", "--import"]).args([&database, &self.path()]);
        let (per_s, said) = self.per_s(&mut command, &database)?;
        Ok((per_s, serde_json::from_slice(&said)?))
    }

    /// None if the tool is not installed.
    fn theirs_per_s(&self) -> Result<Option<f64>> {
        let database = self.folder.path().join("theirs.db");
        let is_installed = Command::new("sqlite3").arg("--version").output().is_ok();
        if !is_installed {
            return Ok(None);
        }
        let script = self.folder.path().join("import.sql");
        std::fs::write(&script, format!("{SCHEMA}.import --csv --skip 1 {} rules\n", self.path().display()))?;
        let mut command = Command::new("sqlite3");
        command.arg("-bail").arg(&database).stdin(File::open(&script)?);
        Ok(Some(self.per_s(&mut command, &database)?.0))
    }
}

/// Imports a list into a database, and says what that has taken: what a process of its own does.
pub(crate) fn import(database: &Path, list: &Path) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let seconds = runtime.block_on(async {
        let truth = Truth::open(&format!("sqlite:{}", database.display()), &TruthOptions::default()).await?;
        let start = monotonic();
        let reader = Reader::new(Format::Csv, File::open(list)?);
        let report = truth.import(reader, ImportOptions::default(), |_| ()).await?;
        ensure!(report.problems.count == 0, "the list has problems: {:?}", report.problems.first.first());
        anyhow::Ok(start.elapsed().as_secs_f64())
    })?;
    println!("{}", serde_json::to_string(&Taken { seconds, mb: peak_mb()? })?);
    Ok(())
}

/// The most memory that this process has had.
fn peak_mb() -> Result<f64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = peak.and_then(|peak| peak.trim().strip_suffix(" kB")?.trim().parse::<f64>().ok());
    Ok(kib.context("the system does not say how much memory it was")? * 1024.0 / 1e6)
}
