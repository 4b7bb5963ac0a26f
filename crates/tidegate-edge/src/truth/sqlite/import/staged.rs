//! Rows of what was staged.

use rusqlite::types::Type;
use rusqlite::{Row, Transaction, params};
use tidegate::random::Random;

use crate::error::Result;
use crate::truth::digest::Digest;
use crate::truth::group::slug;
use crate::truth::import::Plan;
use crate::truth::sqlite::failure::failed;

/// What becomes of a row.
pub(super) const NEW: u8 = 0;
pub(super) const SAME: u8 = 1;
pub(super) const CHANGED: u8 = 2;
pub(super) const LEFT_OUT: u8 = 3;

pub(super) fn set_action(transaction: &Transaction<'_>, n: u64, action: u8) -> Result<()> {
    transaction
        .prepare_cached("UPDATE staging.staged SET action = ?2 WHERE n = ?1")
        .and_then(|mut it| it.execute(params![n, action]))
        .map_err(failed)
        .map(drop)
}

pub(super) fn action(transaction: &Transaction<'_>, n: u64) -> Result<u8> {
    transaction
        .prepare_cached("SELECT action FROM staging.staged WHERE n = ?1")
        .and_then(|mut it| it.query_row([n], |row| row.get(0)))
        .map_err(failed)
}

/// A hash that was staged.
pub(super) fn digest_at(row: &Row<'_>, index: usize) -> rusqlite::Result<Digest> {
    let wrong = || rusqlite::Error::InvalidColumnType(index, "hash".to_owned(), Type::Blob);
    Digest::from_bytes(row.get_ref(index)?.as_blob()?).ok_or_else(wrong)
}

/// Gives a row an id that nobody has.
pub(super) fn make_anew(
    transaction: &Transaction<'_>,
    plan: &mut Plan,
    n: u64,
    random: &Random,
) -> Result<()> {
    let mut find = transaction
        .prepare_cached(
            "SELECT 1 FROM staging.staged WHERE id = ?1 UNION ALL SELECT 1 FROM main.rules WHERE id = ?1",
        )
        .map_err(failed)?;
    let id = loop {
        let id = slug(random);
        if !find.exists([&id]).map_err(failed)? {
            break id;
        }
    };
    let (body, version, hash): (String, u64, _) = transaction
        .prepare_cached("SELECT body, version, hash FROM staging.staged WHERE n = ?1")
        .and_then(|mut it| it.query_row([n], |row| Ok((row.get(0)?, row.get(1)?, digest_at(row, 2)?))))
        .map_err(failed)?;
    let (body, hash) = plan.rename(&body, version, hash, &id)?;
    transaction
        .prepare_cached("UPDATE staging.staged SET id = ?2, body = ?3, hash = ?4 WHERE n = ?1")
        .and_then(|mut it| it.execute(params![n, id, body, hash.to_bytes()]))
        .map_err(failed)
        .map(drop)
}
