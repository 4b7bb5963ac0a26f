//! What was staged, compared with what there is.

use rusqlite::{OptionalExtension as _, Transaction, params};
use tidegate::random::Random;

use super::TOGETHER;
use super::staged::{CHANGED, LEFT_OUT, SAME, action, digest_at, make_anew, set_action};
use crate::error::Result;
use crate::rule::Rule;
use crate::truth::digest::Digest;
use crate::truth::group::Head;
use crate::truth::import::{Changed, ImportMode, Plan};
use crate::truth::sqlite::failure::failed;
use crate::truth::sqlite::write::head;
use crate::truth::types::Place;

/// Compares all of it; where the rules stand.
pub(super) fn compare(transaction: &Transaction<'_>, plan: &mut Plan, random: &Random) -> Result<Head> {
    let head = head(transaction)?;
    if head.count > 0 {
        if plan.has_made_ids() {
            make_taken_ids_anew(transaction, plan, random)?;
            find_by_place(transaction)?;
        }
        match plan.mode() {
            ImportMode::Merge => leave_out_taken(transaction, plan)?,
            ImportMode::Replace => find_leaving(transaction, plan)?,
        }
        compare_rules(transaction, plan)?;
    }
    Ok(head)
}

/// Chance has made an id that a rule has already.
fn make_taken_ids_anew(transaction: &Transaction<'_>, plan: &mut Plan, random: &Random) -> Result<()> {
    let mut taken = transaction
        .prepare(
            "SELECT staged.n FROM staging.staged AS staged CROSS JOIN main.rules AS rules ON rules.id = staged.id
             WHERE staged.is_made = 1 AND staged.action = 0",
        )
        .map_err(failed)?;
    let taken = taken.query_map([], |row| row.get(0));
    let taken: Vec<u64> = taken.and_then(Iterator::collect).map_err(failed)?;
    taken.into_iter().try_for_each(|n| make_anew(transaction, plan, n, random))
}

/// Rows without an id are the rule of their host and path, unless the file names that itself.
fn find_by_place(transaction: &Transaction<'_>) -> Result<()> {
    let mut select = transaction
        .prepare(
            "SELECT staged.n, rules.id FROM staging.staged AS staged
             CROSS JOIN main.rules AS rules ON rules.host = staged.host AND rules.path = staged.path
             WHERE staged.n > ?1 AND staged.is_made = 1 AND staged.action = 0 AND NOT EXISTS
                 (SELECT 1 FROM staging.staged AS other WHERE other.id = rules.id AND other.action = 0)
             ORDER BY staged.n LIMIT ?2",
        )
        .map_err(failed)?;
    let mut update =
        transaction.prepare("UPDATE staging.staged SET id = ?2, is_made = 0 WHERE n = ?1").map_err(failed)?;
    let mut last = 0;
    loop {
        let found = select.query_map(params![last, TOGETHER], |row| Ok((row.get(0)?, row.get(1)?)));
        let found: Vec<(u64, String)> = found.and_then(Iterator::collect).map_err(failed)?;
        let Some((n, _)) = found.last() else { return Ok(()) };
        last = *n;
        for (n, id) in found {
            update.execute(params![n, id]).map_err(failed)?;
        }
    }
}

/// What is in the database already is left alone, or is the next version.
fn compare_rules(transaction: &Transaction<'_>, plan: &mut Plan) -> Result<()> {
    struct Pair {
        n: u64,
        id: String,
        wanted: String,
        hash: Digest,
        there: String,
        clicks: u64,
    }
    let mut select = transaction
        .prepare(
            "SELECT staged.n, staged.id, staged.body, staged.hash, rules.body, rules.clicks
             FROM staging.staged AS staged CROSS JOIN main.rules AS rules ON rules.id = staged.id
             WHERE staged.id > ?1 AND staged.action = 0 ORDER BY staged.id LIMIT ?2",
        )
        .map_err(failed)?;
    // In the order that rules are in.
    let mut last = String::new();
    loop {
        let pairs = select.query_map(params![last, TOGETHER], |row| {
            let (wanted, hash) = (row.get(2)?, digest_at(row, 3)?);
            let (there, clicks) = (row.get(4)?, row.get(5)?);
            Ok(Pair { n: row.get(0)?, id: row.get(1)?, wanted, hash, there, clicks })
        });
        let pairs: Vec<Pair> = pairs.and_then(Iterator::collect).map_err(failed)?;
        let Some(pair) = pairs.last() else { return Ok(()) };
        last.clone_from(&pair.id);
        for Pair { n, wanted, hash, there, clicks, .. } in pairs {
            match plan.compare(&wanted, hash, &there, clicks)? {
                None => set_action(transaction, n, SAME)?,
                Some(changed) => change(transaction, n, &changed, plan.now_ms)?,
            }
        }
    }
}

fn change(transaction: &Transaction<'_>, n: u64, changed: &Changed, now_ms: u64) -> Result<()> {
    let Changed { before, after, body } = changed;
    let is_moved = Place::of(&before.terms) != Place::of(&after.terms);
    transaction
        .prepare_cached(
            "UPDATE staging.staged SET action = ?2, body = ?3, is_moved = ?4, state = ?5, next_at = ?6
             WHERE n = ?1",
        )
        .and_then(|mut it| {
            let (state, next_at) = (after.state(now_ms).as_str(), after.next_at(now_ms));
            it.execute(params![n, CHANGED, body, is_moved, state, next_at])
        })
        .map_err(failed)?;
    leave_tags(transaction, before)
}

/// A place belongs to a rule that the file does not have, or that stays where it is because its own line is left
/// out: which may be why another stays too.
fn leave_out_taken(transaction: &Transaction<'_>, plan: &mut Plan) -> Result<()> {
    struct Taken {
        n: u64,
        line: u64,
        hash: Digest,
        id: String,
        owner: String,
    }
    let mut select = transaction
        .prepare(
            "SELECT staged.n, staged.line, staged.hash, staged.id, rules.id FROM staging.staged AS staged
             CROSS JOIN main.rules AS rules ON rules.host = staged.host AND rules.path = staged.path
             WHERE staged.n > ?1 AND staged.action = 0 AND rules.id != staged.id AND NOT EXISTS
                 (SELECT 1 FROM staging.staged AS other WHERE other.id = rules.id AND other.action = 0)
             ORDER BY staged.n LIMIT ?2",
        )
        .map_err(failed)?;
    let mut waits = transaction
        .prepare(
            "SELECT staged.n, staged.line, staged.hash, staged.id, rules.id FROM main.rules AS rules
             CROSS JOIN staging.staged AS staged ON staged.host = rules.host AND staged.path = rules.path
             WHERE rules.id = ?1 AND staged.action = 0 AND staged.id != rules.id",
        )
        .map_err(failed)?;
    let taken = |row: &rusqlite::Row<'_>| {
        let (n, line, hash) = (row.get(0)?, row.get(1)?, digest_at(row, 2)?);
        Ok(Taken { n, line, hash, id: row.get(3)?, owner: row.get(4)? })
    };
    let mut last = 0;
    loop {
        let found = select.query_map(params![last, TOGETHER], taken);
        let found: Vec<Taken> = found.and_then(Iterator::collect).map_err(failed)?;
        let Some(row) = found.last() else { return Ok(()) };
        last = row.n;
        for row in found {
            let mut stays = Some(row);
            while let Some(Taken { n, line, hash, id, owner }) = stays {
                if action(transaction, n)? == LEFT_OUT {
                    break;
                }
                set_action(transaction, n, LEFT_OUT)?;
                plan.is_taken(line, hash, &owner);
                stays = waits.query_row([&id], taken).optional().map_err(failed)?;
            }
        }
    }
}

/// Rules that the file does not have.
fn find_leaving(transaction: &Transaction<'_>, plan: &mut Plan) -> Result<()> {
    let mut select = transaction
        .prepare(
            "SELECT rules.id, rules.body FROM main.rules AS rules WHERE rules.id > ?1 AND NOT EXISTS
                 (SELECT 1 FROM staging.staged AS staged WHERE staged.id = rules.id AND staged.action = 0)
             ORDER BY rules.id LIMIT ?2",
        )
        .map_err(failed)?;
    let mut insert = transaction.prepare("INSERT INTO staging.leaving (id) VALUES (?1)").map_err(failed)?;
    let mut last = String::new();
    loop {
        let leaving = select.query_map(params![last, TOGETHER], |row| Ok((row.get(0)?, row.get(1)?)));
        let leaving: Vec<(String, String)> = leaving.and_then(Iterator::collect).map_err(failed)?;
        let Some((id, _)) = leaving.last() else { return Ok(()) };
        last.clone_from(id);
        for (id, body) in leaving {
            let rule = plan.lacks(&body)?;
            insert.execute([&id]).map_err(failed)?;
            leave_tags(transaction, &rule)?;
        }
    }
}

/// Notes which tags of a rule are to go.
fn leave_tags(transaction: &Transaction<'_>, rule: &Rule) -> Result<()> {
    if rule.terms.tags.is_empty() {
        return Ok(());
    }
    let mut insert = transaction
        .prepare_cached("INSERT INTO staging.left_tags (tag, id) VALUES (?1, ?2)")
        .map_err(failed)?;
    rule.terms.tags.iter().try_for_each(|tag| insert.execute([tag, &rule.id]).map(drop).map_err(failed))
}
