//! Questions, each answered from one state of the database.

use rusqlite::types::Type;
use rusqlite::{Connection, OptionalExtension as _, Row, params};

use super::failure::failed;
use crate::error::{Error, Result};
use crate::path::{candidates, folders};
use crate::rule::{Rule, State};
use crate::truth::digest::Digest;
use crate::truth::group::rule;
use crate::truth::types::{LogRow, Logged, Place, Position, Resolution, Seq};

/// A rule of the columns `body` and `clicks`; what cannot be read names it.
pub(super) fn rule_of(row: &Row<'_>) -> rusqlite::Result<Result<Rule>> {
    let (body, clicks): (String, u64) = (row.get(0)?, row.get(1)?);
    Ok(rule(&body, clicks))
}

pub(super) fn get(connection: &Connection, id: &str) -> Result<Option<Rule>> {
    let found = connection
        .prepare_cached("SELECT body, clicks FROM rules WHERE id = ?1")
        .and_then(|mut it| it.query_row([id], rule_of).optional())
        .map_err(failed)?;
    found.transpose()
}

pub(super) fn position_at(connection: &Connection, time_ms: u64) -> Result<Position> {
    let (epoch, seq, count, digest): (_, _, _, Vec<u8>) = connection
        .prepare_cached("SELECT epoch, seq, count, digest FROM state")
        .and_then(|mut it| it.query_row([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?))))
        .map_err(failed)?;
    Ok(Position { epoch, seq: Seq(seq), count, digest: digest_of(&digest)?, time_ms })
}

fn digest_of(bytes: &[u8]) -> Result<Digest> {
    Digest::from_bytes(bytes).ok_or_else(|| Error::corrupt("a digest in the rules' database is none"))
}

/// Whether time has changed the state of some rule.
pub(super) fn is_due(connection: &Connection, now_ms: u64) -> Result<bool> {
    connection
        .prepare_cached(
            "SELECT 1 FROM rules WHERE next_at <= ?1
             UNION ALL SELECT 1 FROM blocks WHERE standing = 0 AND deadline_ms <= ?1 LIMIT 1",
        )
        .and_then(|mut it| it.exists([now_ms]))
        .map_err(failed)
}

/// Changes behind `after`, at most so many; none if the log does not go back so far.
pub(super) fn log(connection: &Connection, after: Seq, limit: usize) -> Result<Option<Vec<LogRow>>> {
    since(connection, after, limit, 0).map(|(_, rows)| rows)
}

/// The same, and where the database stands then.
pub(super) fn since(
    connection: &Connection,
    after: Seq,
    limit: usize,
    now_ms: u64,
) -> Result<(Position, Option<Vec<LogRow>>)> {
    let transaction = connection.unchecked_transaction().map_err(failed)?;
    let position = position_at(&transaction, now_ms)?;
    if after >= position.seq {
        let rows = (after == position.seq).then(Vec::new);
        return Ok((position, rows));
    }
    let mut select = transaction
        .prepare_cached(
            "SELECT seq, id, before_host, before_path, host, path, body, left_hash, came_hash, digest, count, at_ms
             FROM log WHERE seq > ?1 ORDER BY seq LIMIT ?2",
        )
        .map_err(failed)?;
    let rows = select.query_map(params![after.0, limit], log_row).map_err(failed)?;
    let rows = rows.collect::<rusqlite::Result<Vec<_>>>().map_err(failed)?;
    let is_whole = rows.first().is_some_and(|row| row.seq == after.next());
    Ok((position, is_whole.then_some(rows)))
}

fn log_row(row: &Row<'_>) -> rusqlite::Result<LogRow> {
    let place =
        |host: Option<String>, path: Option<String>| host.zip(path).map(|(host, path)| Place { host, path });
    let digest = |index: usize| {
        let bytes: Vec<u8> = row.get(index)?;
        Digest::from_bytes(&bytes)
            .ok_or_else(|| rusqlite::Error::InvalidColumnType(index, "a digest".to_owned(), Type::Blob))
    };
    let body: Option<String> = row.get(6)?;
    let after = place(row.get(4)?, row.get(5)?).zip(body).map(|(place, body)| Logged { place, body });
    Ok(LogRow {
        seq: Seq(row.get(0)?),
        id: row.get(1)?,
        before: place(row.get(2)?, row.get(3)?),
        after,
        left: digest(7)?,
        came: digest(8)?,
        digest: digest(9)?,
        count: row.get(10)?,
        at_ms: row.get(11)?,
    })
}

/// The rule that answers a request for a host and a path, both normalised, at that time: of the nearest host that has
/// one, the exact one, or else that of the longest folder.
pub(super) fn resolve(connection: &Connection, host: &str, path: &str, now_ms: u64) -> Result<Resolution> {
    let transaction = connection.unchecked_transaction().map_err(failed)?;
    let position = position_at(&transaction, now_ms)?;
    let mut has_rules =
        transaction.prepare_cached("SELECT 1 FROM rules WHERE host = ?1 LIMIT 1").map_err(failed)?;
    let mut select = transaction
        .prepare_cached("SELECT body, clicks FROM rules WHERE host = ?1 AND path = ?2")
        .map_err(failed)?;
    let mut passed = Vec::new();
    for host in candidates(host) {
        if !has_rules.exists([&host]).map_err(failed)? {
            continue;
        }
        for path in std::iter::once(path.to_owned()).chain(folders(path)) {
            let found = select.query_row([&*host, &path], rule_of).optional().map_err(failed)?;
            let Some(rule) = found.transpose()? else { continue };
            if !matches!(rule.state(now_ms), State::Disabled | State::Scheduled) {
                return Ok(Resolution { rule: Some(rule), passed, position });
            }
            passed.push(rule);
        }
    }
    Ok(Resolution { rule: None, passed, position })
}
