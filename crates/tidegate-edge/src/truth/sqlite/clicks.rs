//! Clicks, in all and per day.

use rusqlite::{Connection, OptionalExtension as _, Transaction, TransactionBehavior, params};

use super::budget::{count, execute, rule};
use super::failure::failed;
use crate::error::Result;
use crate::rule::Rule;
use crate::truth::clicks::{Clicked, Counted, DayClicks, MAX_DAYS, REMEMBERED_MS, Report, day_of};

/// Counts a report, unless it was counted before; whether it was not.
pub(super) fn report(connection: &mut Connection, report: &Report, now_ms: u64) -> Result<bool> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(failed)?;
    let last: Option<u64> = transaction
        .prepare_cached("SELECT number FROM reports WHERE worker = ?1")
        .and_then(|mut it| it.query_row([&report.worker], |row| row.get(0)).optional())
        .map_err(failed)?;
    if last.is_some_and(|last| last >= report.number) {
        return Ok(false);
    }
    for counted in &report.clicks {
        if add(&transaction, counted, now_ms)? {
            on_day(&transaction, &counted.id, counted.clicks, now_ms)?;
        }
    }
    execute(
        &transaction,
        "INSERT INTO reports (worker, number, at_ms) VALUES (?1, ?2, ?3)
         ON CONFLICT (worker) DO UPDATE SET number = excluded.number, at_ms = excluded.at_ms",
        params![report.worker, report.number, now_ms],
    )?;
    let old = now_ms.saturating_sub(REMEMBERED_MS);
    execute(&transaction, "DELETE FROM reports WHERE at_ms < ?1", params![old])?;
    transaction.commit().map_err(failed)?;
    Ok(true)
}

/// Adds clicks to a rule; whether it is there: whoever was deleted meanwhile is counted no more.
fn add(transaction: &Transaction<'_>, counted: &Counted, now_ms: u64) -> Result<bool> {
    let Counted { id, created_at, clicks } = counted;
    // Inside a text there would be a backslash in front of the quotes.
    let created_at = created_at.map(|at| format!("\"createdAt\":{at},"));
    // How a rule without a bound is doing is not a matter of its clicks: it is not read, and no index written.
    let unbounded = transaction
        .prepare_cached(
            "UPDATE rules SET clicks = clicks + ?2, granted = granted + ?2, last_click_at = ?3
             WHERE id = ?1 AND instr(body, '\"maxClicks\":') = 0 AND (?4 IS NULL OR instr(body, ?4) > 0)",
        )
        .and_then(|mut it| it.execute(params![id, clicks, now_ms, created_at]))
        .map_err(failed)?;
    if unbounded > 0 {
        return Ok(true);
    }
    let found = rule(transaction, id)?.filter(|(rule, _)| counted.is_of(rule));
    let Some((rule, granted)) = found else { return Ok(false) };
    let counted = Rule { clicks: rule.clicks + clicks, ..rule };
    count(transaction, counted, granted + clicks, Some(now_ms), now_ms)?;
    Ok(true)
}

/// Adds clicks to a rule's day.
pub(super) fn on_day(transaction: &Transaction<'_>, rule: &str, clicks: u64, now_ms: u64) -> Result<()> {
    let of_day: u64 = transaction
        .prepare_cached(
            "INSERT INTO days (rule, day, clicks) VALUES (?1, ?2, ?3)
             ON CONFLICT (rule, day) DO UPDATE SET clicks = clicks + excluded.clicks RETURNING clicks",
        )
        .and_then(|mut it| it.query_row(params![rule, day_of(now_ms), clicks], |row| row.get(0)))
        .map_err(failed)?;
    // Only a new day is one too many.
    if of_day > clicks {
        return Ok(());
    }
    execute(
        transaction,
        "DELETE FROM days WHERE rule = ?1 AND day <=
             (SELECT day FROM days WHERE rule = ?1 ORDER BY day DESC LIMIT 1 OFFSET ?2)",
        params![rule, MAX_DAYS],
    )
}

/// A rule is gone, and what was counted of it.
pub(super) fn forget(transaction: &Transaction<'_>, rule: &str) -> Result<()> {
    execute(transaction, "DELETE FROM days WHERE rule = ?1", params![rule])
}

/// How often a rule has redirected; none if there is no such rule.
pub(super) fn clicks(connection: &Connection, id: &str) -> Result<Option<Clicked>> {
    let transaction = connection.unchecked_transaction().map_err(failed)?;
    let found = transaction
        .prepare_cached("SELECT clicks, last_click_at FROM rules WHERE id = ?1")
        .and_then(|mut it| it.query_row([id], |row| Ok((row.get(0)?, row.get(1)?))).optional())
        .map_err(failed)?;
    let Some((clicks, last_click_at)) = found else { return Ok(None) };
    let days = transaction
        .prepare_cached("SELECT day, clicks FROM days WHERE rule = ?1 ORDER BY day DESC")
        .and_then(|mut it| {
            let days = it.query_map([id], |row| Ok(DayClicks::new(row.get(0)?, row.get(1)?)))?;
            days.collect::<rusqlite::Result<Vec<_>>>()
        })
        .map_err(failed)?;
    Ok(Some(Clicked { clicks, last_click_at, days }))
}
