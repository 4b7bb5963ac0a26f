//! All that a question answers, written to a file without a name: whoever sends it on keeps no connection busy.

use std::fs::File;
use std::io::{self, Seek as _, Write as _};
use std::pin::pin;

use futures_util::TryStreamExt as _;
use tokio::sync::mpsc;
use tokio_postgres::Row;

use super::failure::Result;
use super::read::{Now, position};
use super::session::Session;
use crate::error::{Error, ErrorKind};
use crate::truth::types::Position;

/// Bytes that are written to the file at once, about.
const PIECE: usize = 1 << 18;

/// Pieces that wait for the disk, at most: the database waits for it too.
const WAITING: usize = 4;

/// What is to be written.
pub(super) trait Lines: Send {
    /// What it is called.
    const NAME: &str;

    /// What is asked of all rules, in the order of their ids.
    const SELECT: &str;

    /// What comes first.
    fn first(&mut self, position: &Position) -> Result<Vec<u8>>;

    /// Appends what is written of a row.
    fn line(&mut self, into: &mut Vec<u8>, row: &Row) -> Result<()>;
}

/// Writes all rules at one place of the log. The connection is not used for anything else. The file is at its start.
pub(super) async fn spool<L: Lines>(session: &Session, mut lines: L, now: Now) -> Result<(Position, File)> {
    session.run("SET statement_timeout = 0").await?;
    // From its first question on it sees one state of the database, however long it takes.
    session.run("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY").await?;
    let position = position(session, now).await?;
    let (sender, pieces) = mpsc::channel(WAITING);
    let writing = tokio::task::spawn_blocking(move || write(pieces));
    let first = lines.first(&position)?;
    let read = read(session, &mut lines, first, sender).await;
    let written = writing
        .await
        .map_err(|error| Error::new(ErrorKind::Internal, format!("what writes a file has ended: {error}")))?;
    // Whoever reads stops when nothing can be written: that is the reason then.
    let file = written.map_err(|error| Error::unwritable(L::NAME, &error))?;
    read?;
    session.roll_back().await;
    Ok((position, file))
}

async fn read<L: Lines>(
    session: &Session,
    lines: &mut L,
    mut piece: Vec<u8>,
    pieces: mpsc::Sender<Vec<u8>>,
) -> Result<()> {
    let mut rows = pin!(session.stream(L::SELECT).await?);
    while let Some(row) = session.in_time(rows.try_next()).await? {
        lines.line(&mut piece, &row)?;
        if piece.len() >= PIECE && pieces.send(std::mem::take(&mut piece)).await.is_err() {
            break;
        }
    }
    let _ = pieces.send(piece).await;
    Ok(())
}

fn write(mut pieces: mpsc::Receiver<Vec<u8>>) -> io::Result<File> {
    let mut file = tempfile::tempfile()?;
    while let Some(piece) = pieces.blocking_recv() {
        file.write_all(&piece)?;
    }
    file.rewind()?;
    Ok(file)
}
