//! All rules at one place of the log, written to a file once for all who ask at about the same time.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tidegate::clock::monotonic;
use tokio::sync::Mutex;

use super::changes::cannot_resume;
use super::mark::Mark;
use crate::error::{Error, Result};
use crate::truth::{Fields, Position, Truth};

/// For how long a snapshot is given to others too.
const SHARED: Duration = Duration::from_secs(10);

/// Snapshots of a database. Clones are one.
#[derive(Debug, Clone)]
pub struct Snapshots {
    truth: Truth,
    /// The last of each kind: one is made at a time, and who waits for it gets it.
    all: Arc<Mutex<Option<Snapshot>>>,
    keys: Arc<Mutex<Option<Snapshot>>>,
}

/// All rules at one place: lines of JSON, the first of which is the place. The file has no name and ends with its last
/// reader.
#[derive(Debug, Clone)]
pub struct Snapshot {
    position: Position,
    file: Arc<File>,
    bytes: u64,
    made_at: Instant,
}

impl Snapshots {
    /// Those of that database.
    pub fn of(truth: &Truth) -> Self {
        Self { truth: truth.clone(), all: Arc::default(), keys: Arc::default() }
    }

    /// All rules, as they were at most ten seconds ago, and not before `from` if that is said.
    pub async fn get(&self, fields: Fields, from: Option<&Mark>) -> Result<Snapshot> {
        let last = match fields {
            Fields::All => &self.all,
            Fields::Keys => &self.keys,
        };
        let mut last = last.lock().await;
        let is_new = |it: &Snapshot| monotonic().saturating_duration_since(it.made_at) < SHARED;
        let is_far = |it: &Snapshot| {
            from.is_none_or(|from| it.position.epoch == from.epoch && it.position.seq >= from.seq)
        };
        if let Some(snapshot) = last.as_ref().filter(|it| is_new(it) && is_far(it)) {
            // Since it was made the database may have gone back, and on by another way.
            let now = self.truth.position().await?;
            if cannot_resume(&self.truth, &Mark::from(&snapshot.position), &now).await?.is_none() {
                return Ok(snapshot.clone());
            }
        }
        let made_at = monotonic();
        let (position, file) = self.truth.snapshot(fields).await?;
        let bytes = file.metadata().map_err(unreadable)?.len();
        let snapshot = Snapshot { position, file: Arc::new(file), bytes, made_at };
        *last = Some(snapshot.clone());
        Ok(snapshot)
    }

    /// Forgets files that are given to nobody any more.
    pub async fn forget_old(&self) {
        for last in [&self.all, &self.keys] {
            let mut last = last.lock().await;
            if last.as_ref().is_some_and(|it| monotonic().saturating_duration_since(it.made_at) >= SHARED) {
                *last = None;
            }
        }
    }
}

impl Snapshot {
    /// Where the rules were read.
    pub fn position(&self) -> &Position {
        &self.position
    }

    /// How long it is.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// What stands at that byte and behind it, at most so much; nothing at the end. Waits for the disk.
    pub fn read(&self, at: u64, limit: usize) -> Result<Vec<u8>> {
        let left = usize::try_from(self.bytes.saturating_sub(at)).unwrap_or(usize::MAX);
        let mut bytes = vec![0; left.min(limit)];
        self.file.read_exact_at(&mut bytes, at).map_err(unreadable)?;
        Ok(bytes)
    }
}

fn unreadable(error: std::io::Error) -> Error {
    Error::unavailable(format!("a snapshot cannot be read: {error}"))
}
