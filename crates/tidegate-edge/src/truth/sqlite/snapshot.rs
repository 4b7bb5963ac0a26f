//! All rules at one place of the log, to a file without a name.

use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::Path;

use rusqlite::Connection;

use super::failure::failed;
use super::read::position_at;
use super::spool::spool;
use crate::error::{Error, Result};
use crate::truth::snapshot::{Fields, key_line, position_line};
use crate::truth::types::Position;

/// Writes the place and then every rule, a line each.
pub(super) fn snapshot(
    connection: &Connection,
    path: &Path,
    fields: Fields,
    now_ms: u64,
) -> Result<(Position, File)> {
    spool(path, |folder| snapshot_in(folder, connection, fields, now_ms))
}

fn snapshot_in(
    folder: &Path,
    connection: &Connection,
    fields: Fields,
    now_ms: u64,
) -> Result<(Position, File)> {
    let mut into = BufWriter::with_capacity(56 << 10, tempfile::tempfile_in(folder).map_err(unwritable)?);
    let transaction = connection.unchecked_transaction().map_err(failed)?;
    let position = position_at(&transaction, now_ms)?;
    into.write_all(position_line(&position)?.as_bytes()).map_err(unwritable)?;
    let mut select =
        transaction.prepare_cached("SELECT id, host, path, body FROM rules ORDER BY id").map_err(failed)?;
    let mut rows = select.query([]).map_err(failed)?;
    while let Some(row) = rows.next().map_err(failed)? {
        let text = |index: usize| row.get_ref(index)?.as_str().map_err(rusqlite::Error::from);
        let body = text(3).map_err(failed)?;
        match fields {
            Fields::Keys => {
                let (id, host, path) =
                    (text(0).map_err(failed)?, text(1).map_err(failed)?, text(2).map_err(failed)?);
                key_line(&mut into, id, host, path, body)
            }
            Fields::All => into.write_all(body.as_bytes()).and_then(|()| into.write_all(b"\n")),
        }
        .map_err(unwritable)?;
    }
    let file = into.into_inner().map_err(|error| unwritable(error.into_error()))?;
    Ok((position, file))
}

fn unwritable(error: std::io::Error) -> Error {
    Error::unwritable("a snapshot", &error)
}
