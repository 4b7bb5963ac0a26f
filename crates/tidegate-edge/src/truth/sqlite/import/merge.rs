//! All that is new or says something else, written as one change.

use rusqlite::Transaction;

use super::staged::{CHANGED, NEW};
use crate::error::Result;
use crate::truth::group::Head;
use crate::truth::import::Plan;
use crate::truth::sqlite::failure::failed;
use crate::truth::sqlite::write::{advance, log};

/// Changes from which on indices are made anew, if there are not many more rules than that.
const LARGE: u64 = 10_000;

/// Writes it, and where the rules stand then.
pub(super) fn merge(transaction: &Transaction<'_>, plan: &Plan, head: &mut Head, max_log: u64) -> Result<()> {
    let report = plan.report();
    let changes = report.created + report.changed + report.deleted;
    let indices = match changes >= LARGE && changes * 3 > head.count {
        true => take_indices(transaction)?,
        false => Vec::new(),
    };
    transaction
        .execute_batch(
            "DELETE FROM main.tags WHERE (tag, id) IN (SELECT tag, id FROM staging.left_tags);
             DELETE FROM main.rules WHERE id IN (SELECT id FROM staging.leaving);
             DELETE FROM main.blocks WHERE rule IN (SELECT id FROM staging.leaving);
             DELETE FROM main.days WHERE rule IN (SELECT id FROM staging.leaving);",
        )
        .map_err(failed)?;
    if report.changed > 0 && indices.is_empty() {
        // No place is like this: what two rules exchange is nobody's for a moment. Without indices nobody looks.
        let away = "UPDATE main.rules SET path = char(0) || id
            WHERE id IN (SELECT id FROM staging.staged WHERE action = ?1 AND is_moved = 1)";
        transaction.execute(away, [CHANGED]).map_err(failed)?;
    }
    // What was spent elsewhere is spent; what was spent here stays.
    transaction
        .execute(
            "INSERT INTO main.rules (id, host, path, destination, state, next_at, body, clicks, granted)
             SELECT id, host, path, destination, state, next_at, body, clicks, clicks FROM staging.staged
             WHERE action IN (?1, ?2) ORDER BY id
             ON CONFLICT (id) DO UPDATE SET host = excluded.host, path = excluded.path,
                 destination = excluded.destination, state = excluded.state, next_at = excluded.next_at,
                 body = excluded.body",
            [NEW, CHANGED],
        )
        .map_err(failed)?;
    transaction
        .execute(
            "INSERT INTO main.tags (tag, id)
             SELECT tags.tag, staged.id FROM staging.staged_tags AS tags
             CROSS JOIN staging.staged AS staged ON staged.n = tags.n
             WHERE staged.action IN (?1, ?2) ORDER BY tags.tag, staged.id",
            [NEW, CHANGED],
        )
        .map_err(failed)?;
    for index in indices {
        transaction.execute_batch(&index).map_err(failed)?;
    }
    log(transaction, &[plan.write(head)])?;
    advance(transaction, head, max_log)
}

/// Takes away what only makes finding fast; how it is made anew.
fn take_indices(transaction: &Transaction<'_>) -> Result<Vec<String>> {
    let mut select = transaction
        .prepare(
            "SELECT name, sql FROM main.sqlite_schema
             WHERE type = 'index' AND tbl_name = 'rules' AND sql IS NOT NULL ORDER BY name",
        )
        .map_err(failed)?;
    let indices = select.query_map([], |row| Ok((row.get(0)?, row.get(1)?)));
    let indices: Vec<(String, String)> = indices.and_then(Iterator::collect).map_err(failed)?;
    drop(select);
    for (name, _) in &indices {
        transaction.execute_batch(&format!("DROP INDEX main.\"{name}\"")).map_err(failed)?;
    }
    Ok(indices.into_iter().map(|(_, sql)| sql).collect())
}
