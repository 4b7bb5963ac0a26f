//! Where the rules of real processes are: a file, or a server of PostgreSQL; and a backup of them.

use std::path::Path;

use tempfile::TempDir;

#[allow(dead_code, reason = "the redirect engine's own tests need more of it")]
#[path = "../../../../tidegate-edge/tests/it/kit/postgres.rs"]
mod postgres;

use self::postgres::{Backup, PostgresServer, QUICK};
use crate::rules_full_disk::full_disk;

pub(super) enum Database {
    File(TempDir),
    Postgres { server: Box<PostgresServer>, url: String, backup: Option<Backup> },
}

impl Database {
    pub(super) fn file() -> Self {
        Self::File(tempfile::tempdir().unwrap())
    }

    pub(super) fn postgres() -> Self {
        let server = Box::new(PostgresServer::start(&QUICK));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let (_, url) = runtime.block_on(server.database());
        Self::Postgres { server, url, backup: None }
    }

    pub(super) fn url(&self) -> String {
        match self {
            Self::File(folder) => format!("sqlite:{}", folder.path().join("rules.db").display()),
            Self::Postgres { url, .. } => url.clone(),
        }
    }

    /// Keeps what it has, in place of what was kept before. Nobody may be writing.
    pub(super) fn back_up(&mut self) {
        match self {
            Self::File(folder) => copy(folder.path(), &folder.path().join("backup")),
            Self::Postgres { server, backup, .. } => *backup = Some(server.backup()),
        }
    }

    /// What was kept takes the place of what is there.
    pub(super) fn restore(&mut self) {
        match self {
            Self::File(folder) => copy(&folder.path().join("backup"), folder.path()),
            Self::Postgres { server, backup, .. } => server.restore(backup.take().unwrap()),
        }
    }
}

/// Copies the files of a database.
fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for name in ["rules.db", "rules.db-wal", "rules.db-shm"] {
        match from.join(name).exists() {
            true => drop(std::fs::copy(from.join(name), to.join(name)).unwrap()),
            false => drop(std::fs::remove_file(to.join(name))),
        }
    }
}
