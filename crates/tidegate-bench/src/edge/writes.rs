//! Changes per second of many who write at once, beside one transaction for each, both flushed to the disk.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context as _, Result, bail};
use parking_lot::Mutex;
use rusqlite::{Connection, params};
use tidegate::clock::monotonic;
use tidegate_edge::truth::{Change, Truth};

use super::rules::{draft, filled};
use crate::progress;
use crate::report::{Figure, Goal};
use crate::rounds::{Effort, Samples};

const WRITERS: usize = 64;

/// Changes per second.
pub(super) async fn figures(effort: Effort) -> Result<Vec<Figure>> {
    progress("edge.writes_per_s");
    let (_folder, truth) = filled(1000).await?;
    let by_hand = ByHand::open()?;
    let (ours_each, theirs_each) = effort.pick((64, 8), (400, 50));
    let mut samples = Samples::new();
    for round in 0..=effort.pick(5, 15) {
        let base = 10_000 + round * WRITERS * ours_each;
        let ours = ours_per_s(&truth, base, ours_each).await?;
        let theirs = by_hand.per_s(base, theirs_each)?;
        if round > 0 {
            samples.push([ours, theirs]);
        }
    }
    let [ours, theirs] = samples.medians();
    let figure = Figure::ours("edge.writes_per_s", "changes/s", ours);
    Ok(vec![figure.beside("a transaction each", theirs).goal(Goal::AtLeast(5.0))])
}

async fn ours_per_s(truth: &Truth, base: usize, each: usize) -> Result<f64> {
    let start = monotonic();
    let writers: Vec<_> = (0..WRITERS)
        .map(|writer| {
            let truth = truth.clone();
            tokio::spawn(async move {
                for number in 0..each {
                    let change = Change::Create(draft(base + writer * each + number, false));
                    if let Err(refusal) = truth.change(change).await? {
                        bail!("a change was refused: {refusal}");
                    }
                }
                Ok(())
            })
        })
        .collect();
    for writer in writers {
        writer.await??;
    }
    Ok((WRITERS * each) as f64 / start.elapsed().as_secs_f64())
}

/// The same tables, written as one would by hand: a connection, and a transaction for each change.
struct ByHand {
    connection: Arc<Mutex<Connection>>,
    _folder: tempfile::TempDir,
}

impl ByHand {
    fn open() -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let connection = Self::tables(&folder.path().join("by-hand.db"))?;
        Ok(Self { connection: Arc::new(Mutex::new(connection)), _folder: folder })
    }

    fn tables(path: &Path) -> Result<Connection> {
        let connection = Connection::open(path)?;
        connection.query_row("PRAGMA journal_mode = wal", [], |_| Ok(()))?;
        connection.pragma_update(None, "synchronous", "FULL")?;
        connection.execute_batch(
            "CREATE TABLE rules (id TEXT PRIMARY KEY, host TEXT NOT NULL, path TEXT NOT NULL, destination TEXT NOT NULL,
                 body TEXT NOT NULL);
             CREATE UNIQUE INDEX rules_by_place ON rules (host, path);
             CREATE INDEX rules_by_path ON rules (path, id);
             CREATE INDEX rules_by_destination ON rules (destination, id);
             CREATE TABLE tags (tag TEXT NOT NULL, id TEXT NOT NULL, PRIMARY KEY (tag, id)) WITHOUT ROWID;
             CREATE TABLE log (seq INTEGER PRIMARY KEY, id TEXT NOT NULL, body TEXT);",
        )?;
        Ok(connection)
    }

    fn per_s(&self, base: usize, each: usize) -> Result<f64> {
        let (done, start) = (AtomicUsize::new(0), monotonic());
        std::thread::scope(|threads| {
            let write = |writer: usize| {
                for number in 0..each {
                    let draft = draft(base + writer * each + number, false);
                    self.write(&draft.id.unwrap_or_default(), &draft.terms)?;
                    done.fetch_add(1, Ordering::Relaxed);
                }
                anyhow::Ok(())
            };
            let writers: Vec<_> = (0..WRITERS).map(|writer| threads.spawn(move || write(writer))).collect();
            for writer in writers {
                writer.join().ok().context("a writer ended")??;
            }
            anyhow::Ok(())
        })?;
        Ok(done.load(Ordering::Relaxed) as f64 / start.elapsed().as_secs_f64())
    }

    fn write(&self, id: &str, terms: &tidegate_edge::rule::Terms) -> Result<()> {
        let body = serde_json::to_string(terms)?;
        let mut connection = self.connection.lock();
        let transaction = connection.transaction()?;
        transaction
            .prepare_cached(
                "INSERT INTO rules (id, host, path, destination, body) VALUES (?1, ?2, ?3, ?4, ?5)",
            )?
            .execute(params![id, terms.host, terms.path, terms.destination, body])?;
        for tag in &terms.tags {
            transaction.prepare_cached("INSERT INTO tags (tag, id) VALUES (?1, ?2)")?.execute([tag, id])?;
        }
        transaction.prepare_cached("INSERT INTO log (id, body) VALUES (?1, ?2)")?.execute([id, &body])?;
        transaction.commit()?;
        Ok(())
    }
}
