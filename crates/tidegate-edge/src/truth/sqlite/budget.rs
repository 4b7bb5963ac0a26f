//! Blocks of permits, each debited in one transaction before it is sent.

use std::time::Duration;

use rusqlite::{Connection, OptionalExtension as _, Transaction, TransactionBehavior, params};

use super::clicks;
use super::failure::failed;
use super::read::{position_at, rule_of};
use crate::error::{Error, Result};
use crate::rule::Rule;
use crate::truth::budget::{
    Ask, Grant, Granted, NO_RULE, REMEMBERED_MS, Return, Returned, Standing, nothing, permits,
};

/// Blocks that are forgotten with one that comes, at most.
const FORGOTTEN: u64 = 100;

struct Block {
    rule: String,
    permits: u64,
    deadline_ms: u64,
    standing: Standing,
}

pub(super) fn grant(connection: &mut Connection, ask: &Ask, life: Duration, now_ms: u64) -> Result<Granted> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(failed)?;
    let epoch = position_at(&transaction, now_ms)?.epoch;
    if let Some(block) = block(&transaction, &ask.worker, ask.number)? {
        let created_at = rule(&transaction, &ask.rule)?.map(|(rule, _)| rule.created_at);
        // Its answer was lost. What is over is asked for by another number.
        let left = Duration::from_millis(block.deadline_ms.saturating_sub(now_ms));
        let is_same = block.standing == Standing::Open && block.rule == ask.rule && !left.is_zero();
        let grant = if is_same {
            Grant::Block { permits: block.permits, life: left.min(life), epoch }
        } else {
            Grant::Wait { retry_after: Duration::ZERO }
        };
        return Ok(Granted { grant, created_at });
    }
    lose(&transaction, Some(&ask.rule), now_ms, u64::MAX)?;
    let Some((rule, granted)) = rule(&transaction, &ask.rule)? else { return Ok(Granted::UNKNOWN) };
    let granted_of = |grant| Granted { grant, created_at: Some(rule.created_at) };
    let Some(max_clicks) = rule.terms.max_clicks else { return Ok(granted_of(Grant::Unbounded)) };
    let permits = permits(max_clicks, granted, ask.wanted);
    if permits == 0 {
        let held = "SELECT max(deadline_ms) FROM blocks WHERE rule = ?1 AND standing = 0";
        let until = transaction
            .prepare_cached(held)
            .and_then(|mut it| it.query_row([&ask.rule], |row| row.get(0)))
            .map_err(failed)?;
        transaction.commit().map_err(failed)?;
        return Ok(granted_of(nothing(until, now_ms)));
    }
    execute(
        &transaction,
        "UPDATE rules SET granted = ?2 WHERE id = ?1",
        params![ask.rule, granted + permits],
    )?;
    execute(
        &transaction,
        "INSERT INTO blocks (worker, number, rule, permits, deadline_ms, standing) VALUES (?1, ?2, ?3, ?4, ?5, 0)",
        params![ask.worker, ask.number, ask.rule, permits, now_ms.saturating_add(life.as_millis() as u64)],
    )?;
    forget_old(&transaction, now_ms)?;
    transaction.commit().map_err(failed)?;
    Ok(granted_of(Grant::Block { permits, life, epoch }))
}

/// Takes blocks back, all in one transaction.
pub(super) fn take_back(
    connection: &mut Connection,
    blocks: &[Return],
    now_ms: u64,
) -> Result<Vec<Returned>> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(failed)?;
    let returned = blocks.iter().map(|it| take_back_one(&transaction, it, now_ms)).collect::<Result<_>>()?;
    transaction.commit().map_err(failed)?;
    Ok(returned)
}

fn take_back_one(transaction: &Transaction<'_>, it: &Return, now_ms: u64) -> Result<Returned> {
    let Some(block) = block(transaction, &it.worker, it.number)? else {
        // Who has spent some of it has had it.
        if it.spent == 0 {
            let refused = params![it.worker, it.number, NO_RULE, now_ms, Standing::Returned.as_number()];
            execute(
                transaction,
                "INSERT INTO blocks (worker, number, rule, permits, deadline_ms, standing) VALUES (?1, ?2, ?3, 0, ?4, ?5)",
                refused,
            )?;
            forget_old(transaction, now_ms)?;
        }
        return Ok(Returned::Unknown);
    };
    if block.rule == NO_RULE {
        return Ok(Returned::Unknown);
    }
    if it.spent > block.permits {
        return Ok(Returned::TooMany);
    }
    // What counts as spent already.
    let counted = match block.standing {
        Standing::Returned => return Ok(Returned::Known),
        Standing::Open => 0,
        Standing::Lost => block.permits,
    };
    let returned = Standing::Returned.as_number();
    let params = params![it.worker, it.number, returned];
    execute(transaction, "UPDATE blocks SET standing = ?3 WHERE worker = ?1 AND number = ?2", params)?;
    if let Some((rule, granted)) = rule(transaction, &block.rule)? {
        let clicks_now = (rule.clicks + it.spent).saturating_sub(counted);
        let granted = granted.saturating_sub(block.permits - it.spent);
        let last_click_at = (it.spent > 0).then_some(now_ms);
        count(transaction, Rule { clicks: clicks_now, ..rule }, granted, last_click_at, now_ms)?;
        if it.spent > 0 {
            clicks::on_day(transaction, &block.rule, it.spent, now_ms)?;
        }
    }
    Ok(Returned::Counted)
}

/// Forgets what nobody asks for or gives back any more, some of it.
fn forget_old(transaction: &Transaction<'_>, now_ms: u64) -> Result<()> {
    execute(
        transaction,
        "DELETE FROM blocks WHERE (worker, number) IN
             (SELECT worker, number FROM blocks WHERE deadline_ms < ?1 AND standing != 0 LIMIT ?2)",
        params![now_ms.saturating_sub(REMEMBERED_MS), FORGOTTEN],
    )
}

/// Counts permits as spent whose workers were silent until the deadline: those of a rule, or of all, at most so many
/// blocks.
pub(super) fn lose(transaction: &Transaction<'_>, of: Option<&str>, now_ms: u64, limit: u64) -> Result<()> {
    let due = "SELECT worker, number, rule, permits FROM blocks
        WHERE standing = 0 AND deadline_ms <= ?1 AND (?2 IS NULL OR rule = ?2) LIMIT ?3";
    let mut select = transaction.prepare_cached(due).map_err(failed)?;
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let lost = select
        .query_map(params![now_ms, of, limit], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?)))
        .and_then(Iterator::collect::<rusqlite::Result<Vec<(String, u64, String, u64)>>>)
        .map_err(failed)?;
    for (worker, number, id, permits) in lost {
        let params = params![worker, number, Standing::Lost.as_number()];
        execute(transaction, "UPDATE blocks SET standing = ?3 WHERE worker = ?1 AND number = ?2", params)?;
        if let Some((rule, granted)) = rule(transaction, &id)? {
            let clicks = rule.clicks + permits;
            count(transaction, Rule { clicks, ..rule }, granted, None, now_ms)?;
        }
    }
    Ok(())
}

/// A rule is gone, and its blocks and clicks with it: one of that id that comes later has nothing to do with them.
pub(super) fn forget(transaction: &Transaction<'_>, rule: &str) -> Result<()> {
    execute(transaction, "DELETE FROM blocks WHERE rule = ?1", params![rule])?;
    clicks::forget(transaction, rule)
}

/// Says how often a rule has redirected, and how often it may have.
pub(super) fn count(
    transaction: &Transaction<'_>,
    rule: Rule,
    granted: u64,
    last_click_at: Option<u64>,
    now_ms: u64,
) -> Result<()> {
    execute(
        transaction,
        "UPDATE rules SET clicks = ?2, granted = ?3, last_click_at = coalesce(?4, last_click_at), state = ?5, next_at = ?6
         WHERE id = ?1",
        params![rule.id, rule.clicks, granted, last_click_at, rule.state(now_ms).as_str(), rule.next_at(now_ms)],
    )
}

/// A rule, and how often it may have redirected.
pub(super) fn rule(transaction: &Transaction<'_>, id: &str) -> Result<Option<(Rule, u64)>> {
    let select = "SELECT body, clicks, granted FROM rules WHERE id = ?1";
    let found = transaction
        .prepare_cached(select)
        .and_then(|mut it| it.query_row([id], |row| Ok((rule_of(row)?, row.get(2)?))).optional())
        .map_err(failed)?;
    found.map(|(rule, granted)| Ok((rule?, granted))).transpose()
}

fn block(transaction: &Transaction<'_>, worker: &str, number: u64) -> Result<Option<Block>> {
    let select = "SELECT rule, permits, deadline_ms, standing FROM blocks WHERE worker = ?1 AND number = ?2";
    let row = transaction
        .prepare_cached(select)
        .and_then(|mut it| {
            let read = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?));
            it.query_row(params![worker, number], read).optional()
        })
        .map_err(failed)?;
    let block = |(rule, permits, deadline_ms, standing): (String, u64, u64, u8)| {
        let standing =
            Standing::from_number(standing).ok_or_else(|| Error::corrupt("a block stands like none"))?;
        Ok(Block { rule, permits, deadline_ms, standing })
    };
    row.map(block).transpose()
}

pub(super) fn execute(
    transaction: &Transaction<'_>,
    statement: &str,
    params: &[&dyn rusqlite::ToSql],
) -> Result<()> {
    transaction.prepare_cached(statement).and_then(|mut it| it.execute(params)).map_err(failed)?;
    Ok(())
}
