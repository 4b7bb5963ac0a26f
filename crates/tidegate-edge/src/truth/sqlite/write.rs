//! Changes, written in one transaction with their rows of the log.

use rusqlite::{Connection, OptionalExtension as _, ToSql, Transaction, TransactionBehavior, params};
use tidegate::random::Random;

use super::budget;
use super::failure::failed;
use super::read::rule_of;
use crate::error::{Error, Result};
use crate::rule::Rule;
use crate::truth::digest::Digest;
use crate::truth::group::{Group, Head, Write};
use crate::truth::types::{Change, Outcome, Place, Seq};

/// Rows of the log that leave with one group, at most: a bound that was lowered is reached step by step.
const COMPACTED: u64 = 2000;

/// Makes changes, all that are not refused in one transaction.
pub(super) fn commit(
    connection: &mut Connection,
    changes: Vec<Change>,
    now_ms: u64,
    max_log: u64,
    random: &Random,
) -> Result<Vec<Outcome>> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(failed)?;
    let mut group = Group::new(changes, now_ms, random);
    let rules = rules(&transaction, group.ids())?;
    group.told_rules(rules);
    let owners = owners(&transaction, group.places())?;
    group.told_owners(owners);
    let mut head = head(&transaction)?;
    let (outcomes, writes) = group.decide(&mut head)?;
    if writes.is_empty() {
        return Ok(outcomes);
    }
    // Places are given up before others take them.
    for write in &writes {
        leave(&transaction, write)?;
    }
    for write in &writes {
        come(&transaction, write, now_ms)?;
    }
    log(&transaction, &writes)?;
    advance(&transaction, &head, max_log)?;
    transaction.commit().map_err(failed)?;
    Ok(outcomes)
}

/// Says where the rules stand now, and lets the oldest of the log go.
pub(super) fn advance(transaction: &Transaction<'_>, head: &Head, max_log: u64) -> Result<()> {
    let oldest = head.seq.0.saturating_sub(max_log);
    transaction
        .prepare_cached("DELETE FROM log WHERE seq IN (SELECT seq FROM log WHERE seq <= ?1 LIMIT ?2)")
        .and_then(|mut it| it.execute(params![oldest, COMPACTED]))
        .map_err(failed)?;
    transaction
        .prepare_cached("UPDATE state SET seq = ?1, count = ?2, digest = ?3")
        .and_then(|mut it| it.execute(params![head.seq.0, head.count, head.digest.to_bytes()]))
        .map_err(failed)?;
    Ok(())
}

fn rules<'a>(transaction: &Transaction<'_>, ids: impl Iterator<Item = &'a str>) -> Result<Vec<Rule>> {
    let mut select =
        transaction.prepare_cached("SELECT body, clicks FROM rules WHERE id = ?1").map_err(failed)?;
    let found = ids.map(|id| select.query_row([id], rule_of).optional());
    found.filter_map(|rule| rule.map_err(failed).transpose()).map(|rule| rule?).collect()
}

fn owners(transaction: &Transaction<'_>, places: Vec<Place>) -> Result<Vec<(Place, String)>> {
    let mut select =
        transaction.prepare_cached("SELECT id FROM rules WHERE host = ?1 AND path = ?2").map_err(failed)?;
    let mut owners = Vec::new();
    for place in places {
        let owner =
            select.query_row([&place.host, &place.path], |row| row.get(0)).optional().map_err(failed)?;
        owners.extend(owner.map(|owner| (place, owner)));
    }
    Ok(owners)
}

pub(super) fn head(transaction: &Transaction<'_>) -> Result<Head> {
    let (seq, count, digest): (u64, u64, Vec<u8>) = transaction
        .prepare_cached("SELECT seq, count, digest FROM state")
        .and_then(|mut it| it.query_row([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?))))
        .map_err(failed)?;
    let digest =
        Digest::from_bytes(&digest).ok_or_else(|| Error::corrupt("the digest of all rules is no digest"))?;
    Ok(Head { seq: Seq(seq), count, digest })
}

fn leave(transaction: &Transaction<'_>, write: &Write) -> Result<()> {
    let Some(rule) = &write.before else { return Ok(()) };
    let run = |statement: &str| {
        transaction.prepare_cached(statement).and_then(|mut it| it.execute([&rule.id])).map_err(failed)
    };
    if !keeps_tags(write) {
        let mut delete =
            transaction.prepare_cached("DELETE FROM tags WHERE tag = ?1 AND id = ?2").map_err(failed)?;
        for tag in &rule.terms.tags {
            delete.execute([tag, &rule.id]).map_err(failed)?;
        }
    }
    match &write.after {
        None => {
            run("DELETE FROM rules WHERE id = ?1")?;
            budget::forget(transaction, &rule.id)
        }
        // No place is like this: what two rules exchange is nobody's for a moment.
        Some((after, _)) if Place::of(&after.terms) != Place::of(&rule.terms) => {
            run("UPDATE rules SET path = char(0) || id WHERE id = ?1").map(drop)
        }
        Some(_) => Ok(()),
    }
}

fn come(transaction: &Transaction<'_>, write: &Write, now_ms: u64) -> Result<()> {
    let Some((rule, body)) = &write.after else { return Ok(()) };
    match &write.before {
        Some(before) => update(transaction, before, rule, body, now_ms)?,
        None => insert(transaction, rule, body, now_ms)?,
    }
    if !keeps_tags(write) {
        let mut insert =
            transaction.prepare_cached("INSERT INTO tags (tag, id) VALUES (?1, ?2)").map_err(failed)?;
        for tag in &rule.terms.tags {
            insert.execute([tag, &rule.id]).map_err(failed)?;
        }
    }
    Ok(())
}

/// Whether a rule has the tags that it had.
fn keeps_tags(write: &Write) -> bool {
    let before = write.before.as_ref().map_or(&[][..], |rule| &rule.terms.tags);
    let after = write.after.as_ref().map_or(&[][..], |(rule, _)| &rule.terms.tags);
    before == after
}

fn insert(transaction: &Transaction<'_>, rule: &Rule, body: &str, now_ms: u64) -> Result<()> {
    let terms = &rule.terms;
    let (state, next_at) = (rule.state(now_ms).as_str(), rule.next_at(now_ms));
    transaction
        .prepare_cached(
            "INSERT INTO rules (id, host, path, destination, state, next_at, body)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
        )
        .and_then(|mut it| {
            it.execute(params![rule.id, terms.host, terms.path, terms.destination, state, next_at, body])
        })
        .map_err(failed)?;
    Ok(())
}

/// Only what is another: each column that is set costs the pages of its indices, whether it was the same before or not.
fn update(transaction: &Transaction<'_>, before: &Rule, rule: &Rule, body: &str, now_ms: u64) -> Result<()> {
    let (was, terms) = (&before.terms, &rule.terms);
    let run = |statement: &str, values: &[&dyn ToSql]| {
        transaction.prepare_cached(statement).and_then(|mut it| it.execute(values)).map_err(failed)
    };
    run("UPDATE rules SET body = ?2 WHERE id = ?1", params![rule.id, body])?;
    if Place::of(was) != Place::of(terms) {
        run("UPDATE rules SET host = ?2, path = ?3 WHERE id = ?1", params![rule.id, terms.host, terms.path])?;
    }
    if was.destination != terms.destination {
        run("UPDATE rules SET destination = ?2 WHERE id = ?1", params![rule.id, terms.destination])?;
    }
    // What is there may be of a time before.
    run(
        "UPDATE rules SET state = ?2, next_at = ?3 WHERE id = ?1 AND (state IS NOT ?2 OR next_at IS NOT ?3)",
        params![rule.id, rule.state(now_ms).as_str(), rule.next_at(now_ms)],
    )?;
    Ok(())
}

pub(super) fn log(transaction: &Transaction<'_>, writes: &[Write]) -> Result<()> {
    let mut insert = transaction
        .prepare_cached(
            "INSERT INTO log (seq, id, before_host, before_path, host, path, body, left_hash, came_hash, digest, count,
                              at_ms)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)",
        )
        .map_err(failed)?;
    for Write { row, .. } in writes {
        let (before, after) = (row.before.as_ref(), row.after.as_ref());
        insert
            .execute(params![
                row.seq.0,
                row.id,
                before.map(|it| &it.host),
                before.map(|it| &it.path),
                after.map(|it| &it.place.host),
                after.map(|it| &it.place.path),
                after.map(|it| &it.body),
                row.left.to_bytes(),
                row.came.to_bytes(),
                row.digest.to_bytes(),
                row.count,
                row.at_ms,
            ])
            .map_err(failed)?;
    }
    Ok(())
}

/// Says that the database may have gone back.
pub(super) fn new_epoch(connection: &Connection, epoch: String) -> Result<String> {
    connection.execute("UPDATE state SET epoch = ?1", [&epoch]).map_err(failed)?;
    Ok(epoch)
}

/// Brings the states of rules up to date that time has changed, at most so many.
pub(super) fn settle(connection: &mut Connection, now_ms: u64, limit: usize) -> Result<()> {
    let due = "SELECT body, clicks FROM rules WHERE next_at <= ?1 LIMIT ?2";
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(failed)?;
    let mut select = transaction.prepare_cached(due).map_err(failed)?;
    let rules = select.query_map(params![now_ms, limit], rule_of).map_err(failed)?;
    let rules = rules.map(|rule| rule.map_err(failed)?).collect::<Result<Vec<_>>>()?;
    drop(select);
    let mut update = transaction
        .prepare_cached("UPDATE rules SET state = ?2, next_at = ?3 WHERE id = ?1")
        .map_err(failed)?;
    for rule in &rules {
        update
            .execute(params![rule.id, rule.state(now_ms).as_str(), rule.next_at(now_ms)])
            .map_err(failed)?;
    }
    drop(update);
    budget::lose(&transaction, None, now_ms, limit as u64)?;
    transaction.commit().map_err(failed)
}
