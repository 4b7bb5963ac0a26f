//! Our tables in PostgreSQL, written as one would by hand: a connection for each who writes, and a transaction for each
//! change.
//!
//! It is one statement, so one round trip, at its best. Numbers have no gaps and come in the order of commits, as ours:
//! whoever takes one holds it until its commit is on the disk.

use std::sync::Arc;

use anyhow::Result;
use tidegate::clock::monotonic;
use tidegate_edge::rule::Terms;
use tokio_postgres::{Client, Statement};

use super::rules::{draft, filled};
use crate::postgres_server::{PostgresServer, connect};

const WRITE: &str =
    "WITH place AS (UPDATE tidegate.state SET seq = seq + 1, count = count + 1 RETURNING seq, count),
        rule AS (INSERT INTO tidegate.rules (id, host, path, destination, state, body)
            VALUES ($1, $2, $3, $4, 'live', $5)),
        tags AS (INSERT INTO tidegate.tags (tag, id) SELECT tag, $1 FROM unnest($6::text[]) AS given (tag))
    INSERT INTO tidegate.log (seq, id, host, path, body, left_hash, came_hash, digest, count, at_ms)
    SELECT seq, $1, $2, $3, $5, ''::bytea, ''::bytea, ''::bytea, count, 0 FROM place";

/// A database that is ours but for who writes to it.
pub(super) struct ByHandPostgres(Vec<Arc<Writer>>);

struct Writer {
    client: Client,
    statement: Statement,
}

impl ByHandPostgres {
    /// One with as many rules, for so many who write.
    pub(super) async fn open(server: &PostgresServer, writers: usize, count: usize) -> Result<Self> {
        let url = server.database("by_hand").await?;
        drop(filled(&url, count).await?);
        let mut all = Vec::new();
        for _ in 0..writers {
            let client = connect(&url).await?;
            let statement = client.prepare(WRITE).await?;
            all.push(Arc::new(Writer { client, statement }));
        }
        Ok(Self(all))
    }

    /// Changes per second.
    pub(super) async fn per_s(&self, base: usize, each: usize) -> Result<f64> {
        let start = monotonic();
        let writing: Vec<_> = self
            .0
            .iter()
            .cloned()
            .enumerate()
            .map(|(at, writer)| {
                let first = base + at * each;
                tokio::spawn(async move {
                    for number in first..first + each {
                        let draft = draft(number, false);
                        writer.write(&draft.id.unwrap_or_default(), &draft.terms).await?;
                    }
                    anyhow::Ok(())
                })
            })
            .collect();
        for writing in writing {
            writing.await??;
        }
        Ok((self.0.len() * each) as f64 / start.elapsed().as_secs_f64())
    }
}

impl Writer {
    async fn write(&self, id: &str, terms: &Terms) -> Result<()> {
        let body = serde_json::to_string(terms)?;
        let Terms { host, path, destination, tags, .. } = terms;
        self.client.execute(&self.statement, &[&id, host, path, destination, &body, tags]).await?;
        Ok(())
    }
}
