//! A file, line by line into a place of its own; and what in it is there twice.

use rusqlite::{Connection, Transaction, params};
use tidegate::random::Random;

use super::TOGETHER;
use super::staged::{LEFT_OUT, digest_at, make_anew, set_action};
use crate::error::Result;
use crate::formats::Reader;
use crate::truth::import::{Candidate, OnProgress, Plan};
use crate::truth::sqlite::failure::failed;

/// Reads all lines, and keeps those that may be.
pub(super) fn stage(
    connection: &mut Connection,
    plan: &mut Plan,
    reader: &mut Reader,
    random: &Random,
    progress: &mut OnProgress,
) -> Result<()> {
    let transaction = connection.transaction().map_err(failed)?;
    let mut insert = transaction
        .prepare(
            "INSERT INTO staging.staged (n, line, id, is_made, version, host, path, destination, state, next_at,
                                         body, hash, clicks, action)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, 0)",
        )
        .map_err(failed)?;
    let mut insert_tag =
        transaction.prepare("INSERT INTO staging.staged_tags (n, tag) VALUES (?1, ?2)").map_err(failed)?;
    let now_ms = plan.now_ms;
    plan.read(reader, random, progress, |Candidate { n, line, is_made, rule, body, hash }| {
        let terms = &rule.terms;
        insert
            .execute(params![
                n,
                line,
                rule.id,
                is_made,
                rule.version,
                terms.host,
                terms.path,
                terms.destination,
                rule.state(now_ms).as_str(),
                rule.next_at(now_ms),
                body,
                hash.to_bytes(),
                rule.clicks,
            ])
            .map_err(failed)?;
        terms.tags.iter().try_for_each(|tag| insert_tag.execute(params![n, tag]).map(drop).map_err(failed))
    })?;
    drop((insert, insert_tag));
    transaction.commit().map_err(failed)
}

/// Finds lines that are about one rule, or about one place: the first stands.
pub(super) fn leave_out_duplicates(
    connection: &mut Connection,
    plan: &mut Plan,
    random: &Random,
) -> Result<()> {
    let transaction = connection.transaction().map_err(failed)?;
    transaction
        .execute_batch(
            "CREATE INDEX staging.staged_by_id ON staged (id);
             CREATE INDEX staging.staged_by_place ON staged (host, path);",
        )
        .map_err(failed)?;
    let of_id = Common {
        several: "SELECT id, '' FROM staging.staged WHERE id > ?1 AND ?2 = ?2
            GROUP BY id HAVING count(*) > 1 ORDER BY id LIMIT ?3",
        all: "SELECT n, line, is_made, hash FROM staging.staged WHERE id = ?1 AND ?2 = ?2 ORDER BY n",
    };
    of_id.leave_out(&transaction, plan, random, |plan, first, row, id, _| {
        plan.has_id_of(first, row.line, row.hash, id);
    })?;
    let of_place = Common {
        several: "SELECT host, path FROM staging.staged WHERE (host, path) > (?1, ?2)
            GROUP BY host, path HAVING count(*) > 1 ORDER BY host, path LIMIT ?3",
        all: "SELECT n, line, 0, hash FROM staging.staged WHERE host = ?1 AND path = ?2 AND action = 0 ORDER BY n",
    };
    of_place.leave_out(&transaction, plan, random, |plan, first, row, host, path| {
        plan.has_place_of(first, row.line, row.hash, host, path);
    })?;
    transaction.commit().map_err(failed)
}

/// What lines may have in common.
struct Common {
    /// Texts that several rows have.
    several: &'static str,
    /// Rows that have them.
    all: &'static str,
}

/// A row that has something in common with others.
struct Alike {
    n: u64,
    line: u64,
    is_made: bool,
    hash: crate::truth::digest::Digest,
}

impl Common {
    /// Leaves out all but the first of those that have something in common.
    fn leave_out(
        &self,
        transaction: &Transaction<'_>,
        plan: &mut Plan,
        random: &Random,
        tell: impl Fn(&mut Plan, u64, &Alike, &str, &str),
    ) -> Result<()> {
        let mut several = transaction.prepare(self.several).map_err(failed)?;
        let mut all = transaction.prepare(self.all).map_err(failed)?;
        let mut last = (String::new(), String::new());
        loop {
            let keys =
                several.query_map(params![last.0, last.1, TOGETHER], |row| Ok((row.get(0)?, row.get(1)?)));
            let keys: Vec<(String, String)> = keys.and_then(Iterator::collect).map_err(failed)?;
            let Some(key) = keys.last() else { return Ok(()) };
            last.clone_from(key);
            for (one, two) in keys {
                let rows = all.query_map([&one, &two], |row| {
                    let (n, line, is_made) = (row.get(0)?, row.get(1)?, row.get(2)?);
                    Ok(Alike { n, line, is_made, hash: digest_at(row, 3)? })
                });
                let rows: Vec<Alike> = rows.and_then(Iterator::collect).map_err(failed)?;
                let mut first = None;
                for row in rows {
                    match first {
                        // Chance has made an id twice, or one that somebody has thought of.
                        _ if row.is_made => make_anew(transaction, plan, row.n, random)?,
                        None => first = Some(row.line),
                        Some(first) => {
                            set_action(transaction, row.n, LEFT_OUT)?;
                            tell(plan, first, &row, &one, &two);
                        }
                    }
                }
            }
        }
    }
}
