//! Where a worker has its rules from: the truth, in this process or elsewhere.

use std::future::Future;
use std::time::Duration;

use tidegate::clock::Clock;

use crate::error::{Error, Result};
use crate::stream::{Changes, Following, Mark, Next, Snapshot, Snapshots, Tail, Workers};
use crate::truth::{Ask, Fields, Granted, Report, Resolution, Return, Returned, Seq, Truth};

/// What a worker asks of the truth. An error is that it cannot be had now.
pub trait Origin: Clone + std::fmt::Debug + Send + Sync + 'static {
    /// The change stream from a place on.
    type Changes: OriginChanges;
    /// A snapshot, piece by piece.
    type Snapshot: OriginSnapshot;

    /// Follows the changes.
    fn changes(
        &self,
        worker: &str,
        after: Option<&Mark>,
    ) -> impl Future<Output = Result<Self::Changes>> + Send;

    /// All rules at that place or later.
    fn snapshot(
        &self,
        fields: Fields,
        from: Option<&Mark>,
    ) -> impl Future<Output = Result<Self::Snapshot>> + Send;

    /// Which rule answers a request for a host and a path, both normalised.
    fn resolve(&self, host: &str, path: &str) -> impl Future<Output = Result<Resolution>> + Send;

    /// Permits of a rule that has only so many.
    fn grant(&self, ask: Ask) -> impl Future<Output = Result<Granted>> + Send;

    /// Gives a block of them back.
    fn give_back(&self, it: Return) -> impl Future<Output = Result<Returned>> + Send;

    /// Tells of clicks.
    fn report(&self, report: Report) -> impl Future<Output = Result<()>> + Send;

    /// Says how far this worker is.
    fn applied(&self, worker: &str, seq: Seq) -> impl Future<Output = Result<()>> + Send;

    /// How often the stream says that it is there.
    fn heartbeat(&self) -> Duration {
        Duration::from_secs(5)
    }
}

/// The changes of one follower.
pub trait OriginChanges: Send {
    /// What comes next. To give up waiting loses nothing.
    fn next(&mut self) -> impl Future<Output = Result<Next>> + Send;
}

/// A snapshot, piece by piece.
pub trait OriginSnapshot: Send {
    /// What comes next; nothing at the end.
    fn next(&mut self) -> impl Future<Output = Result<Option<Vec<u8>>>> + Send;
}

/// The truth in this process.
#[derive(Debug, Clone)]
pub struct Local {
    /// The database.
    pub truth: Truth,
    /// Its log.
    pub tail: Tail,
    /// All rules at once.
    pub snapshots: Snapshots,
    /// Who follows.
    pub workers: Workers,
    /// What time it is here.
    pub clock: Clock,
}

/// Changes in this process.
#[derive(Debug)]
pub struct LocalChanges {
    changes: Changes,
    _following: Following,
}

/// A snapshot in this process.
#[derive(Debug)]
pub struct LocalSnapshot {
    snapshot: Snapshot,
    at: u64,
}

/// What of a snapshot is read at once. The allocator sets aside megabytes for what is larger.
const PIECE_BYTES: usize = 56 << 10;

impl Origin for Local {
    type Changes = LocalChanges;
    type Snapshot = LocalSnapshot;

    async fn changes(&self, worker: &str, after: Option<&Mark>) -> Result<LocalChanges> {
        let changes = self.tail.follow(after.cloned()).await?;
        Ok(LocalChanges { changes, _following: self.workers.follows(worker, &self.clock) })
    }

    async fn snapshot(&self, fields: Fields, from: Option<&Mark>) -> Result<LocalSnapshot> {
        Ok(LocalSnapshot { snapshot: self.snapshots.get(fields, from).await?, at: 0 })
    }

    async fn resolve(&self, host: &str, path: &str) -> Result<Resolution> {
        self.truth.fetch(host, path).await
    }

    async fn grant(&self, ask: Ask) -> Result<Granted> {
        self.truth.grant(ask).await
    }

    async fn give_back(&self, it: Return) -> Result<Returned> {
        self.truth.give_back(it).await
    }

    async fn report(&self, report: Report) -> Result<()> {
        self.truth.report(report).await.map(drop)
    }

    async fn applied(&self, worker: &str, seq: Seq) -> Result<()> {
        self.workers.applied(worker, seq, self.clock.now().as_millis());
        Ok(())
    }
}

impl OriginChanges for LocalChanges {
    async fn next(&mut self) -> Result<Next> {
        self.changes.next().await
    }
}

impl OriginSnapshot for LocalSnapshot {
    async fn next(&mut self) -> Result<Option<Vec<u8>>> {
        let (snapshot, at) = (self.snapshot.clone(), self.at);
        let read = tokio::task::spawn_blocking(move || snapshot.read(at, PIECE_BYTES)).await;
        let piece =
            read.map_err(|error| Error::unavailable(format!("a snapshot cannot be read: {error}")))??;
        self.at += piece.len() as u64;
        Ok(Some(piece).filter(|piece| !piece.is_empty()))
    }
}
