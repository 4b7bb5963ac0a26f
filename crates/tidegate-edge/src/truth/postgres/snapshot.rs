//! All rules at one place of the log, to a file without a name.

use std::fs::File;
use std::io::Write as _;
use std::pin::pin;

use futures_util::TryStreamExt as _;
use tokio::sync::mpsc;

use super::failure::Result;
use super::read::{Now, position};
use super::session::Session;
use crate::error::{Error, ErrorKind};
use crate::truth::snapshot::{Fields, key_line, position_line};
use crate::truth::types::Position;

/// Bytes that are written to the file at once, about.
const PIECE: usize = 1 << 18;

/// Pieces that wait for the disk, at most: the database waits for it too.
const WAITING: usize = 4;

/// Writes the place and then every rule, a line each. The connection is not used for anything else.
pub(super) async fn snapshot(session: &Session, fields: Fields, now: Now) -> Result<(Position, File)> {
    session.run("SET statement_timeout = 0").await?;
    // From its first question on it sees one state of the database, however long it takes.
    session.run("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY").await?;
    let position = position(session, now).await?;
    let (sender, pieces) = mpsc::channel(WAITING);
    let writing = tokio::task::spawn_blocking(move || write(pieces));
    let read = read(session, &position, fields, sender).await;
    let written = writing.await.map_err(|error| {
        Error::new(ErrorKind::Internal, format!("what writes a snapshot has ended: {error}"))
    })?;
    // Whoever reads stops when nothing can be written: that is the reason then.
    let file = written.map_err(unwritable)?;
    read?;
    Ok((position, file))
}

async fn read(
    session: &Session,
    position: &Position,
    fields: Fields,
    pieces: mpsc::Sender<Vec<u8>>,
) -> Result<()> {
    let select = "SELECT host, path, body FROM tidegate.rules ORDER BY id";
    let mut rows = pin!(session.in_time(session.client().query_raw(select, Vec::<i64>::new())).await?);
    let mut piece = position_line(position)?.into_bytes();
    while let Some(row) = session.in_time(rows.try_next()).await? {
        let (host, path, body): (&str, &str, &str) = (row.try_get(0)?, row.try_get(1)?, row.try_get(2)?);
        match fields {
            Fields::Keys => key_line(&mut piece, host, path, body).map_err(unwritable)?,
            Fields::All => {
                piece.extend_from_slice(body.as_bytes());
                piece.push(b'\n');
            }
        }
        if piece.len() >= PIECE && pieces.send(std::mem::take(&mut piece)).await.is_err() {
            break;
        }
    }
    let _ = pieces.send(piece).await;
    Ok(())
}

fn write(mut pieces: mpsc::Receiver<Vec<u8>>) -> std::io::Result<File> {
    let mut file = tempfile::tempfile()?;
    while let Some(piece) = pieces.blocking_recv() {
        file.write_all(&piece)?;
    }
    Ok(file)
}

fn unwritable(error: std::io::Error) -> Error {
    let kind = if error.kind() == std::io::ErrorKind::StorageFull {
        ErrorKind::Full
    } else {
        ErrorKind::Unavailable
    };
    Error::new(kind, format!("a snapshot cannot be written: {error}"))
}
