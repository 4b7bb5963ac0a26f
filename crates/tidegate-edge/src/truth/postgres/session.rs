//! One connection, with the statements that it has prepared.

use std::collections::HashMap;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio_postgres::binary_copy::BinaryCopyInWriter;
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Row, RowStream, Statement};

use super::failure::{Failure, Result};

/// How long an answer may take: a little longer than the server gives it, so that it is the server that says so.
const ANSWER: Duration = Duration::from_secs(35);

/// What a statement is given.
pub(super) type Params<'a> = &'a [&'a (dyn ToSql + Sync)];

/// A connection.
pub(super) struct Session {
    client: Client,
    statements: Mutex<HashMap<&'static str, Statement>>,
    /// How long an answer may take, if it may not take as long as it does.
    limit: Option<Duration>,
    /// Whether an answer was waited for too long: nobody knows what it is doing.
    is_stuck: AtomicBool,
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session").finish_non_exhaustive()
    }
}

impl Session {
    pub(super) fn new(client: Client) -> Self {
        let limit = Some(ANSWER);
        Self { client, statements: Mutex::default(), limit, is_stuck: AtomicBool::new(false) }
    }

    /// One on which a statement takes as long as it does. A server that is gone is noticed by the system.
    pub(super) async fn without_limit(mut self) -> Result<Self> {
        self.run("SET statement_timeout = 0").await?;
        self.limit = None;
        Ok(self)
    }

    /// Whether it can be asked something, as far as is known.
    pub(super) fn is_open(&self) -> bool {
        !self.client.is_closed() && !self.is_stuck.load(Ordering::Relaxed)
    }

    /// Prepares what was not yet. Statements that are sent together come in their order only if they were prepared before.
    pub(super) async fn prepare(&self, statements: &[&'static str]) -> Result<()> {
        for statement in statements {
            self.statement(statement).await?;
        }
        Ok(())
    }

    async fn statement(&self, text: &'static str) -> Result<Statement> {
        if let Some(statement) = self.statements.lock().get(text) {
            return Ok(statement.clone());
        }
        let statement = self.in_time(self.client.prepare(text)).await?;
        self.statements.lock().insert(text, statement.clone());
        Ok(statement)
    }

    pub(super) async fn rows(&self, statement: &'static str, params: Params<'_>) -> Result<Vec<Row>> {
        let statement = self.statement(statement).await?;
        self.in_time(self.client.query(&statement, params)).await
    }

    pub(super) async fn row(&self, statement: &'static str, params: Params<'_>) -> Result<Option<Row>> {
        Ok(self.rows(statement, params).await?.into_iter().next())
    }

    pub(super) async fn execute(&self, statement: &'static str, params: Params<'_>) -> Result<()> {
        let statement = self.statement(statement).await?;
        self.in_time(self.client.execute(&statement, params)).await.map(drop)
    }

    /// What a statement answers, row by row as it comes.
    pub(super) async fn stream(&self, statement: &str) -> Result<RowStream> {
        self.in_time(self.client.query_raw(statement, Vec::<i64>::new())).await
    }

    /// Copies rows into a table, all of them or none: `statement` says where, in PostgreSQL's binary form.
    pub(super) async fn copy<'a, const N: usize>(
        &self,
        statement: &'static str,
        types: &[Type; N],
        rows: impl Iterator<Item = [&'a (dyn ToSql + Sync); N]>,
    ) -> Result<()> {
        let statement = self.statement(statement).await?;
        let copying = async {
            let sink = self.client.copy_in(&statement).await?;
            let mut writer = pin!(BinaryCopyInWriter::new(sink, types));
            for row in rows {
                writer.as_mut().write(&row).await?;
            }
            writer.finish().await
        };
        self.in_time(copying).await.map(drop)
    }

    /// Runs statements that answer nothing, as they are.
    pub(super) async fn run(&self, statements: &str) -> Result<()> {
        self.in_time(self.client.batch_execute(statements)).await
    }

    /// Begins a transaction in which each statement sees what was committed before it.
    pub(super) async fn begin(&self) -> Result<()> {
        self.run("BEGIN ISOLATION LEVEL READ COMMITTED").await
    }

    /// Ends a transaction: commits it if all went well.
    pub(super) async fn end<T>(&self, result: Result<T>) -> Result<T> {
        match result {
            Ok(value) => {
                self.run("COMMIT").await.map_err(Failure::of_commit)?;
                Ok(value)
            }
            Err(failure) => {
                self.roll_back().await;
                Err(failure)
            }
        }
    }

    /// Ends a transaction with nothing written. On a connection that is lost it ends by itself.
    pub(super) async fn roll_back(&self) {
        if self.is_open() && self.run("ROLLBACK").await.is_err() {
            self.is_stuck.store(true, Ordering::Relaxed);
        }
    }

    /// What is answered, unless that takes too long: then this connection is of no use any more.
    pub(super) async fn in_time<T>(
        &self,
        answer: impl Future<Output = Result<T, tokio_postgres::Error>>,
    ) -> Result<T> {
        let Some(limit) = self.limit else { return Ok(answer.await?) };
        match tokio::time::timeout(limit, answer).await {
            Ok(answer) => Ok(answer?),
            Err(_) => {
                self.is_stuck.store(true, Ordering::Relaxed);
                Err(Failure::timeout())
            }
        }
    }
}
