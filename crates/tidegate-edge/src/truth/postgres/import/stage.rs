//! A file, line by line into a table of its own; and what in it is there twice.

use std::pin::pin;

use futures_util::TryStreamExt as _;
use tidegate::random::Random;
use tokio::sync::mpsc;
use tokio_postgres::types::{ToSql, Type};

use super::{Session, ended};
use crate::error::Error;
use crate::formats::Reader;
use crate::truth::group::slug;
use crate::truth::import::{Candidate, OnProgress, Plan};
use crate::truth::postgres::failure::Result;
use crate::truth::postgres::list::indexed;
use crate::truth::postgres::read::digest_of;

/// Bytes of rules that are copied at once, about.
const PIECE: usize = 1 << 20;

/// Pieces that wait for the database, at most: the file waits for it too.
const WAITING: usize = 2;

const COPY: &str = "COPY pg_temp.staged (n, line, id, is_made, version, host, path, destination, state, next_at, clicks, hash,
        tags, body) FROM STDIN (FORMAT binary)";

const TYPES: [Type; 14] = [
    Type::INT8,
    Type::INT8,
    Type::TEXT,
    Type::BOOL,
    Type::INT8,
    Type::TEXT,
    Type::TEXT,
    Type::TEXT,
    Type::TEXT,
    Type::INT8,
    Type::INT8,
    Type::BYTEA,
    Type::TEXT_ARRAY,
    Type::TEXT,
];

/// A rule of the file, as the table has it.
struct Row {
    n: i64,
    line: i64,
    id: String,
    is_made: bool,
    version: i64,
    host: String,
    path: String,
    destination: String,
    state: &'static str,
    next_at: Option<i64>,
    clicks: i64,
    hash: Vec<u8>,
    tags: Vec<String>,
    body: String,
}

impl Row {
    fn of(candidate: Candidate, now_ms: u64) -> Self {
        let Candidate { n, line, is_made, rule, body, hash } = candidate;
        let (state, next_at) = (rule.state(now_ms).as_str(), rule.next_at(now_ms).map(|at| at as i64));
        Self {
            n: n as i64,
            line: line as i64,
            id: rule.id,
            is_made,
            version: rule.version as i64,
            host: rule.terms.host,
            path: rule.terms.path,
            destination: indexed(&rule.terms.destination).to_owned(),
            state,
            next_at,
            clicks: rule.clicks as i64,
            hash: hash.to_bytes().to_vec(),
            tags: rule.terms.tags,
            body,
        }
    }

    fn columns(&self) -> [&(dyn ToSql + Sync); 14] {
        let Self { n, line, id, is_made, version, host, path, destination, .. } = self;
        let Self { state, next_at, clicks, hash, tags, body, .. } = self;
        [n, line, id, is_made, version, host, path, destination, state, next_at, clicks, hash, tags, body]
    }
}

/// Reads all lines, on a thread where that may block, and keeps those that may be.
pub(super) async fn stage(
    session: &Session,
    mut plan: Plan,
    mut reader: Reader,
    random: Random,
    mut progress: OnProgress,
) -> Result<(Plan, OnProgress)> {
    let (sender, mut pieces) = mpsc::channel::<Vec<Row>>(WAITING);
    let reading = tokio::task::spawn_blocking(move || {
        // If nobody takes it, the database has failed: that is told then.
        let send = |piece| sender.blocking_send(piece).map_err(|_| Error::unavailable("an import has ended"));
        let (now_ms, mut piece, mut bytes) = (plan.now_ms, Vec::new(), 0);
        plan.read(&mut reader, &random, &mut progress, |candidate| {
            bytes += candidate.body.len();
            piece.push(Row::of(candidate, now_ms));
            if bytes >= PIECE {
                bytes = 0;
                send(std::mem::take(&mut piece))?;
            }
            Ok(())
        })?;
        send(piece)?;
        Ok::<_, Error>((plan, progress))
    });
    while let Some(piece) = pieces.recv().await {
        session.copy(COPY, &TYPES, piece.iter().map(Row::columns)).await?;
    }
    Ok(reading.await.map_err(|error| ended(&error))??)
}

const INDEX: &str = "CREATE INDEX staged_by_id ON pg_temp.staged (id); ANALYZE pg_temp.staged";

/// Whether lines are about one rule. To hash is much faster than to sort, and most files have none.
const IS_SAME_ID: &str = "SELECT EXISTS
    (SELECT 1 FROM pg_temp.staged GROUP BY hashtextextended(id, 0) HAVING count(*) > 1)";

const SAME_ID: &str = "DELETE FROM pg_temp.staged USING
        (SELECT ctid, row_number() OVER of_id AS number, first_value(line) OVER of_id AS first
         FROM pg_temp.staged WHERE NOT is_made WINDOW of_id AS (PARTITION BY id ORDER BY n)) alike
    WHERE alike.number > 1 AND staged.ctid = alike.ctid
    RETURNING alike.first, staged.line, staged.hash, staged.id";

/// Chance has made an id twice, or one that somebody has thought of.
const MADE_TWICE: &str = "SELECT s.n, s.id, s.version, s.hash, s.body FROM pg_temp.staged s
    WHERE s.is_made AND EXISTS (SELECT 1 FROM pg_temp.staged o WHERE o.id = s.id AND o.n <> s.n)";

const IS_SAME_PLACE: &str = "SELECT EXISTS (SELECT 1 FROM pg_temp.staged
    GROUP BY hashtextextended(path, hashtextextended(host, 0)) HAVING count(*) > 1)";

const SAME_PLACE: &str = "DELETE FROM pg_temp.staged USING
        (SELECT ctid, row_number() OVER of_place AS number, first_value(line) OVER of_place AS first
         FROM pg_temp.staged WINDOW of_place AS (PARTITION BY host, path ORDER BY n)) alike
    WHERE alike.number > 1 AND staged.ctid = alike.ctid
    RETURNING alike.first, staged.line, staged.hash, staged.host, staged.path";

/// Finds lines that are about one rule, or about one place: the first stands.
pub(super) async fn leave_out_duplicates(session: &Session, plan: &mut Plan, random: &Random) -> Result<()> {
    session.run(INDEX).await?;
    if is_so(session, IS_SAME_ID).await? {
        let mut rows = pin!(session.stream(SAME_ID).await?);
        while let Some(row) = session.in_time(rows.try_next()).await? {
            let (first, line): (i64, i64) = (row.try_get(0)?, row.try_get(1)?);
            plan.has_id_of(first as u64, line as u64, digest_of(row.try_get(2)?)?, row.try_get(3)?);
        }
        make_anew(session, plan, MADE_TWICE, random).await?;
    }
    if is_so(session, IS_SAME_PLACE).await? {
        let mut rows = pin!(session.stream(SAME_PLACE).await?);
        while let Some(row) = session.in_time(rows.try_next()).await? {
            let (first, line): (i64, i64) = (row.try_get(0)?, row.try_get(1)?);
            let (hash, host, path) = (digest_of(row.try_get(2)?)?, row.try_get(3)?, row.try_get(4)?);
            plan.has_place_of(first as u64, line as u64, hash, host, path);
        }
    }
    Ok(())
}

/// The answer to a question of yes or no.
pub(super) async fn is_so(session: &Session, question: &'static str) -> Result<bool> {
    let row = session.row(question, &[]).await?;
    Ok(row.map_or(Ok(false), |row| row.try_get(0))?)
}

/// Gives rows that were found ids that nobody has. They are few: chance has found them.
pub(super) async fn make_anew(
    session: &Session,
    plan: &mut Plan,
    found: &'static str,
    random: &Random,
) -> Result<()> {
    let exists = "SELECT EXISTS (SELECT 1 FROM pg_temp.staged WHERE id = $1)
        OR EXISTS (SELECT 1 FROM tidegate.rules WHERE id = $1)";
    let rename = "UPDATE pg_temp.staged SET id = $3, hash = $4, body = $5 WHERE id = $2 AND n = $1";
    for row in session.rows(found, &[]).await? {
        let (n, old, version): (i64, &str, i64) = (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
        let id = loop {
            let id = slug(random);
            let row = session.row(exists, &[&id]).await?;
            if !row.map_or(Ok(false), |row| row.try_get(0))? {
                break id;
            }
        };
        let hash = digest_of(row.try_get(3)?)?;
        let (body, hash) = plan.rename(row.try_get(4)?, version as u64, hash, &id)?;
        session.execute(rename, &[&n, &old, &id, &&hash.to_bytes()[..], &body]).await?;
    }
    Ok(())
}
