//! All rules with all they have, to a file without a name: whoever sends it on keeps no reader of the database waiting.

use std::fs::File;
use std::io::{self, BufWriter, Seek as _, Write as _};
use std::path::Path;

use rusqlite::Connection;

use super::failure::failed;
use super::read::position_at;
use super::spool::spool;
use crate::error::{Error, Result};
use crate::formats::{ExportFormat, csv, jsonl};
use crate::truth::group::rule;
use crate::truth::types::Position;

/// Writes every rule, in the order of their ids.
pub(super) fn export(
    connection: &Connection,
    path: &Path,
    format: ExportFormat,
    now_ms: u64,
) -> Result<(Position, File)> {
    spool(path, |folder| export_in(folder, connection, format, now_ms))
}

fn export_in(
    folder: &Path,
    connection: &Connection,
    format: ExportFormat,
    now_ms: u64,
) -> Result<(Position, File)> {
    let mut into = BufWriter::with_capacity(1 << 18, tempfile::tempfile_in(folder).map_err(unwritable)?);
    let transaction = connection.unchecked_transaction().map_err(failed)?;
    let position = position_at(&transaction, now_ms)?;
    if format == ExportFormat::Csv {
        into.write_all(csv::header().as_bytes()).map_err(unwritable)?;
    }
    let mut select =
        transaction.prepare_cached("SELECT body, clicks FROM rules ORDER BY id").map_err(failed)?;
    let mut rows = select.query([]).map_err(failed)?;
    while let Some(row) = rows.next().map_err(failed)? {
        let body = row.get_ref(0).and_then(|it| Ok(it.as_str()?)).map_err(failed)?;
        let clicks = row.get(1).map_err(failed)?;
        match format {
            ExportFormat::Csv => csv::write(&mut into, &rule(body, clicks)?),
            ExportFormat::Jsonl => jsonl::write(&mut into, body, clicks),
        }
        .map_err(unwritable)?;
    }
    let mut file = into.into_inner().map_err(|error| unwritable(error.into_error()))?;
    file.rewind().map_err(unwritable)?;
    Ok((position, file))
}

fn unwritable(error: io::Error) -> Error {
    Error::unwritable("an export", &error)
}
