//! Opening a database of rules: one process at a time, of this version.

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{Read as _, Seek as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::{Connection, OpenFlags, OptionalExtension as _, TransactionBehavior};
use tidegate::random::Random;

use super::failure::failed;
use crate::error::{Error, ErrorKind, Result};
use crate::truth::digest::Digest;

/// The version of the schema that this program has.
const VERSION: i64 = 1;

/// How long a statement waits for others, who are at most reading a snapshot or making a backup.
const BUSY: Duration = Duration::from_secs(5);

/// Pages of the write-ahead log after which they are brought to their places in the file, about: 32 MB. A group of changes
/// all over the indices is some hundreds of them, and most are the next group's too: those are brought there once.
const CHECKPOINT_PAGES: i64 = 8000;

/// Memory for pages of the database of the one who writes: so that a group fits, and the inner pages of the indices.
const WRITER_CACHE_KIB: i64 = 16 << 10;

/// Statements that the one who writes has ready: more than there are.
const STATEMENTS: usize = 64;

/// Memory for pages of the database of each who reads: the system has them too, and whoever writes next makes these worthless.
const READER_CACHE_KIB: i64 = 256;

/// Memory for pages of the database while something is imported, for those of what is staged, and for sorting: each.
const IMPORT_CACHE_KIB: i64 = 48 << 10;

/// Says that this process writes to a database, to others that would. The lock ends with the process, however it ends.
#[derive(Debug)]
pub(super) struct Lock(#[expect(dead_code, reason = "it is held")] File);

impl Lock {
    /// Locks the database at `path`, or says who has.
    pub(super) fn take(path: &Path) -> Result<Self> {
        let beside = lock_path(path);
        let cannot =
            |error: std::io::Error| Error::config(format!("{} cannot be locked: {error}", beside.display()));
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&beside)
            .map_err(cannot)?;
        if file.try_lock().is_err() {
            let mut holder = String::new();
            file.read_to_string(&mut holder).map_err(cannot)?;
            let holder = if holder.is_empty() { "another process".to_owned() } else { holder };
            let message =
                format!("{} is open for writing in {holder}: one process at a time", path.display());
            return Err(Error::config(message));
        }
        file.set_len(0).map_err(cannot)?;
        file.rewind().map_err(cannot)?;
        write!(file, "process {}", std::process::id()).map_err(cannot)?;
        Ok(Self(file))
    }
}

/// Where a database is, whatever link leads there, so that all who open it lock the same. It is made if it is not there.
pub(super) fn place(path: &Path) -> Result<PathBuf> {
    let made = OpenOptions::new().append(true).create(true).mode(0o644).open(path);
    made.and_then(|_| path.canonicalize())
        .map_err(|error| Error::config(format!("{} cannot be opened: {error}", path.display())))
}

fn lock_path(path: &Path) -> PathBuf {
    let mut beside = path.as_os_str().to_owned();
    beside.push("-lock");
    beside.into()
}

/// A connection that writes, to a database of this version.
pub(super) fn writer(path: &Path, random: &Random) -> Result<Connection> {
    let mut connection = Connection::open(path).map_err(|error| cannot_open(path, &error))?;
    connection.busy_timeout(BUSY).map_err(failed)?;
    let mode: String =
        connection.query_row("PRAGMA journal_mode = wal", [], |row| row.get(0)).map_err(failed)?;
    if mode != "wal" {
        return Err(Error::config(format!("{} cannot have a write-ahead log, but {mode}", path.display())));
    }
    connection.pragma_update(None, "synchronous", "FULL").map_err(failed)?;
    connection.pragma_update(None, "wal_autocheckpoint", CHECKPOINT_PAGES).map_err(failed)?;
    connection.pragma_update(None, "cache_size", -WRITER_CACHE_KIB).map_err(failed)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS);
    migrate(&mut connection, path, random)?;
    Ok(connection)
}

/// Brings all that is in the write-ahead log to its place in the file, once nobody reads what was before, which is waited
/// for so long. Whether all of it is there.
pub(super) fn checkpoint(connection: &Connection, most: Duration) -> Result<bool> {
    connection.busy_timeout(most).map_err(failed)?;
    let is_busy: i64 =
        connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get(0)).map_err(failed)?;
    Ok(is_busy == 0)
}

/// A connection that only reads.
pub(super) fn reader(path: &Path) -> Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags).map_err(|error| cannot_open(path, &error))?;
    connection.busy_timeout(BUSY).map_err(failed)?;
    connection.pragma_update(None, "cache_size", -READER_CACHE_KIB).map_err(failed)?;
    Ok(connection)
}

/// A connection that imports, with a database `staging` that has no name: it ends with the connection, however that ends.
pub(super) fn importer(path: &Path) -> Result<Connection> {
    let connection = Connection::open(path).map_err(|error| cannot_open(path, &error))?;
    connection.busy_timeout(BUSY).map_err(failed)?;
    connection.pragma_update(None, "synchronous", "FULL").map_err(failed)?;
    // What is written is brought to its place when nobody waits for it.
    connection.pragma_update(None, "wal_autocheckpoint", 0).map_err(failed)?;
    connection.pragma_update(None, "cache_size", -IMPORT_CACHE_KIB).map_err(failed)?;
    let unnamed = |error: std::io::Error| {
        let kind = match error.kind() {
            std::io::ErrorKind::StorageFull => ErrorKind::Full,
            _ => ErrorKind::Unavailable,
        };
        Error::new(kind, format!("an import has no place beside {}: {error}", path.display()))
    };
    let (folder, prefix) = beside(path);
    let file = tempfile::Builder::new().prefix(&prefix).tempfile_in(folder).map_err(unnamed)?;
    let name =
        file.path().to_str().ok_or_else(|| Error::config(format!("{} is not UTF-8", path.display())))?;
    connection.execute("ATTACH ?1 AS staging", [name]).map_err(failed)?;
    // If it is lost it is lost as a whole: nothing of it need be kept or undone.
    for (name, value) in [("journal_mode", "off"), ("synchronous", "off"), ("locking_mode", "exclusive")] {
        let set = format!("PRAGMA staging.{name} = {value}");
        connection.query_row(&set, [], |_| Ok(())).optional().map_err(failed)?;
    }
    connection
        .execute_batch(&format!(
            "PRAGMA staging.cache_size = -{IMPORT_CACHE_KIB}; PRAGMA staging.user_version = 1"
        ))
        .map_err(failed)?;
    file.close().map_err(unnamed)?;
    Ok(connection)
}

/// Takes away what a process has left that ended just before its import lost its name.
pub(super) fn clean(path: &Path) {
    let (folder, prefix) = beside(path);
    let Ok(entries) = std::fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let is_left = entry.file_name().as_encoded_bytes().starts_with(prefix.as_encoded_bytes());
        if is_left {
            // It is in nobody's way.
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

/// The folder of a database, and how files of its imports begin.
fn beside(path: &Path) -> (&Path, OsString) {
    let folder = path.parent().filter(|it| !it.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut prefix = path.file_name().unwrap_or_default().to_owned();
    prefix.push("-import-");
    (folder, prefix)
}

fn cannot_open(path: &Path, error: &rusqlite::Error) -> Error {
    Error::config(format!("{} cannot be opened: {error}", path.display()))
}

/// Brings a database to this version, all of it or nothing.
fn migrate(connection: &mut Connection, path: &Path, random: &Random) -> Result<()> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(failed)?;
    let version: i64 = transaction.query_row("PRAGMA user_version", [], |row| row.get(0)).map_err(failed)?;
    match version {
        VERSION => return Ok(()),
        0 => {}
        newer => {
            let path = path.display();
            return Err(Error::config(format!(
                "{path} is of version {newer}, and this program knows {VERSION}: it was written by a newer one"
            )));
        }
    }
    let tables: i64 =
        transaction.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0)).map_err(failed)?;
    if tables > 0 {
        return Err(Error::config(format!("{} is a database of something else", path.display())));
    }
    transaction.execute_batch(include_str!("schema.sql")).map_err(failed)?;
    let state = (new_epoch(random), Digest::default().to_bytes());
    transaction
        .execute("INSERT INTO state (one, epoch, seq, count, digest) VALUES (1, ?1, 0, 0, ?2)", state)
        .map_err(failed)?;
    transaction.pragma_update(None, "user_version", VERSION).map_err(failed)?;
    transaction.commit().map_err(failed)
}

/// A name for the time from now until the database goes back.
pub(super) fn new_epoch(random: &Random) -> String {
    format!("{:016x}", random.bits())
}
