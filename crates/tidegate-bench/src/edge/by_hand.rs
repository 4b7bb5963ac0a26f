//! Our tables in SQLite, written as one would by hand: a connection, and a transaction for each change.

use anyhow::{Context as _, Result};
use parking_lot::Mutex;
use rusqlite::{Connection, params};
use tempfile::TempDir;
use tidegate::clock::monotonic;
use tidegate_edge::rule::Terms;

use super::rules::{draft, filled_file};

/// A database that is ours but for who writes to it.
pub(super) struct ByHand {
    connection: Mutex<Connection>,
    _folder: TempDir,
}

impl ByHand {
    /// One with as many rules.
    pub(super) async fn open(count: usize) -> Result<Self> {
        let (folder, truth) = filled_file(count).await?;
        drop(truth);
        let connection = Connection::open(folder.path().join("rules.db"))?;
        connection.pragma_update(None, "synchronous", "FULL")?;
        Ok(Self { connection: Mutex::new(connection), _folder: folder })
    }

    /// Changes per second of so many who write.
    pub(super) fn per_s(&self, writers: usize, base: usize, each: usize) -> Result<f64> {
        let start = monotonic();
        std::thread::scope(|threads| {
            let write = |writer: usize| {
                for number in 0..each {
                    let draft = draft(base + writer * each + number, false);
                    self.write(&draft.id.unwrap_or_default(), &draft.terms)?;
                }
                anyhow::Ok(())
            };
            let writers: Vec<_> = (0..writers).map(|writer| threads.spawn(move || write(writer))).collect();
            for writer in writers {
                writer.join().ok().context("a writer ended")??;
            }
            anyhow::Ok(())
        })?;
        Ok((writers * each) as f64 / start.elapsed().as_secs_f64())
    }

    fn write(&self, id: &str, terms: &Terms) -> Result<()> {
        let body = serde_json::to_string(terms)?;
        let mut connection = self.connection.lock();
        let transaction = connection.transaction()?;
        transaction
            .prepare_cached(
                "INSERT INTO rules (id, host, path, destination, state, body) VALUES (?1, ?2, ?3, ?4, 'live', ?5)",
            )?
            .execute(params![id, terms.host, terms.path, terms.destination, body])?;
        for tag in &terms.tags {
            transaction.prepare_cached("INSERT INTO tags (tag, id) VALUES (?1, ?2)")?.execute([tag, id])?;
        }
        let (seq, count): (i64, i64) = transaction
            .prepare_cached("UPDATE state SET seq = seq + 1, count = count + 1 RETURNING seq, count")?
            .query_row([], |row| Ok((row.get(0)?, row.get(1)?)))?;
        transaction
            .prepare_cached(
                "INSERT INTO log (seq, id, host, path, body, left_hash, came_hash, digest, count, at_ms)
                 VALUES (?1, ?2, ?3, ?4, ?5, zeroblob(16), zeroblob(16), zeroblob(16), ?6, 0)",
            )?
            .execute(params![seq, id, terms.host, terms.path, body, count])?;
        transaction.commit()?;
        Ok(())
    }
}
