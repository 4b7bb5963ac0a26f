//! The marker of a partition: read on every new connection, before anything else is asked
//! there, and again every few seconds.
//!
//! It says how the data is spread, and whether writes were lost: the marker that was there
//! is gone, is another one, or the server is not the one that was.

use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::Notify;
use uuid::Uuid;

use super::super::secret::Secret;
use super::Shared;
use super::connection::Connection;
use super::failure::{Failure, server_failure};
use super::link::{Link, MAX_ENDS, MAX_MOVES};
use super::script::Script;
use crate::clock::{self, Clock};
use crate::error::{Error, Result};
use crate::log;
use crate::outage::OutageReason;

/// How long a marker lives after its last renewal: longer than the longest
/// window, so it never ends before what it governs.
pub(crate) const MARKER_TTL: Duration = Duration::from_secs(90 * 24 * 3600);

static MARK: LazyLock<Script> = LazyLock::new(|| Script::new(&[include_str!("mark.lua")]));

/// What is known of a partition's marker.
#[derive(Debug, Clone, Default)]
pub(super) struct Marker {
    /// The number of the connection on which it was read, 0 for never. Once
    /// read, its absence is a loss.
    read_on: u64,
    /// The server that had it.
    run: String,
    /// What tells it from one that was made anew.
    id: String,
    /// When writes were last lost, by our own clock.
    pub(super) lost_at: Option<Instant>,
}

/// From one look at a marker because of calls that met a loss to the next.
const LOSS_PAUSE: Duration = Duration::from_millis(250);

/// Tells the keeper of a partition that a call met a loss.
#[derive(Debug, Default)]
pub(super) struct LossMet {
    at: Mutex<Option<Instant>>,
    met: Notify,
}

impl LossMet {
    /// However many calls meet it, the marker is read a few times a second.
    pub(super) fn meet(&self) {
        let (mut at, now) = (self.at.lock(), clock::monotonic());
        if at.is_none_or(|at| now.saturating_duration_since(at) >= LOSS_PAUSE) {
            *at = Some(now);
            self.met.notify_one();
        }
    }

    pub(super) async fn wait(&self) {
        self.met.notified().await;
    }
}

/// A partition whose marker was just read.
pub(super) struct Renewed {
    pub(super) connection: Connection,
    /// Why the server takes no writes, though it can be asked.
    pub(super) refusal: Option<Error>,
}

/// What `mark.lua` answers.
type Answer = (String, String, u8, String, i64, String, String, String);

impl Shared {
    /// The connection for a partition. On a new one the marker is read first, so
    /// that a loss is known before the first call.
    pub(super) async fn link(self: &Arc<Self>, partition: u32) -> Result<Link> {
        let current = self.links.current(self.keyspace.slot(partition));
        if let Some(link) = current.filter(|link| self.read_on(partition) == link.number) {
            return Ok(link);
        }
        // In a task of its own: who has no time left for it leaves it to the next.
        let shared = self.clone();
        let made = tokio::spawn(async move { shared.make_link(partition).await });
        made.await.unwrap_or_else(|_| Err(Error::away(OutageReason::Stopping, "the store is shutting down")))
    }

    async fn make_link(&self, partition: u32) -> Result<Link> {
        let mut attempts = Attempts::default();
        loop {
            match self.try_link(partition).await {
                Err(failure) if attempts.has_another(&failure) => {}
                link => return link.map_err(|failure| self.failure(failure)),
            }
        }
    }

    async fn try_link(&self, partition: u32) -> Result<Link, Failure> {
        let slot = self.keyspace.slot(partition);
        let mut link = self.links.get(slot).await?;
        let number = link.number;
        let marked = self.in_turn(partition, async {
            // Somebody may have read it meanwhile.
            if self.read_on(partition) == number {
                return Ok(());
            }
            self.mark(partition, &mut link).await.map(drop)
        });
        let marked = marked.await;
        if matches!(marked, Err(Failure::Away(OutageReason::Timeout, _))) {
            self.links.discard(slot, number);
        }
        marked.map(|()| link)
    }

    /// `mark`, by one at a time, and not for ever: a connection may be silent from its very
    /// beginning, and others must have their turn.
    async fn in_turn<T>(
        &self,
        partition: u32,
        mark: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        let until = clock::deadline(self.connect_timeout + self.deadline);
        let in_turn = async {
            let _turn = self.marking[partition as usize].lock().await;
            mark.await
        };
        tokio::time::timeout_at(until, in_turn).await.unwrap_or_else(|_| {
            let text = "the store accepts connections and does not answer";
            Err(Failure::Away(OutageReason::Timeout, text.to_owned()))
        })
    }

    /// The next connection for a partition that nobody has asked lately. Whoever makes it
    /// reads the marker, so that a call finds it ready and a restart is known; the markers of
    /// other partitions there are left to those who ask.
    pub(super) async fn reconnect(&self, partition: u32) -> Result<Renewed> {
        let link = self.links.get(self.keyspace.slot(partition)).await;
        let link = link.map_err(|failure| self.failure(failure))?;
        match link.is_new {
            true => self.renew(partition).await,
            false => Ok(Renewed { connection: link.connection, refusal: None }),
        }
    }

    /// Reads and renews the marker of a partition. A connection on which that fails is
    /// dropped.
    pub(super) async fn renew(&self, partition: u32) -> Result<Renewed> {
        let mut attempts = Attempts::default();
        loop {
            match self.try_renew(partition).await {
                Err(failure) if attempts.has_another(&failure) => {}
                renewed => return renewed.map_err(|failure| self.failure(failure)),
            }
        }
    }

    async fn try_renew(&self, partition: u32) -> Result<Renewed, Failure> {
        let slot = self.keyspace.slot(partition);
        let mut link = self.links.get(slot).await?;
        let marked = self.in_turn(partition, self.mark(partition, &mut link)).await;
        match marked {
            Ok(refusal) => Ok(Renewed { connection: link.connection, refusal }),
            // By now the slot is known to be elsewhere, and that server is not in doubt.
            Err(Failure::Moved) => Err(Failure::Moved),
            Err(failure) => {
                self.links.discard(slot, link.number);
                Err(failure)
            }
        }
    }

    /// Drops the connection that a partition last used.
    pub(super) fn drop_link(&self, partition: u32) {
        self.links.discard(self.keyspace.slot(partition), self.read_on(partition));
    }

    fn read_on(&self, partition: u32) -> u64 {
        self.markers[partition as usize].lock().read_on
    }

    /// Reads and renews the marker; why the server takes no writes, if it does not.
    async fn mark(&self, partition: u32, link: &mut Link) -> Result<Option<Error>, Failure> {
        let seen = self.markers[partition as usize].lock().clone();
        // A connection leads to one run of a server for as long as it lives.
        let run = if seen.read_on == link.number { &*seen.run } else { "" };
        let time = match &self.clock {
            Clock::System(_) => String::new(),
            Clock::Manual(clock) => clock.now().as_millis().to_string(),
        };
        let (partitions, hash) = (self.keyspace.partitions().to_string(), self.keyspace.hash_id());
        let known = if seen.read_on > 0 { "1" } else { "0" };
        let only_read = if self.is_read_only { "1" } else { "0" };
        let ttl = self.marker_ttl.as_millis().to_string();
        let marker = self.keyspace.marker(partition);
        // One that was known before a loss is restored, so that what it checked stays good.
        let secret = match partition {
            0 => self.secret.read().unwrap_or_else(Secret::random).to_text(),
            _ => String::new(),
        };
        let new_id = Uuid::new_v4().simple().to_string();
        let args =
            [&*time, &partitions, &hash, run, known, &seen.run, &ttl, &secret, only_read, &new_id, &seen.id];
        let answer = MARK.run(link, &[&marker], &args).await?;
        let (stored, stored_hash, lost, secret, since_loss_ms, run, id, refusal): Answer =
            redis::from_redis_value(answer)
                .map_err(|error| Failure::Server(format!("ERR the marker cannot be read: {error}")))?;
        if stored != partitions || stored_hash != hash {
            return Err(Failure::Config(format!(
                "the data was written with {stored} partitions (hash {stored_hash}), this is set to {partitions} \
                 (hash {hash}): use the same, or another namespace"
            )));
        }
        if let Some(secret) = Secret::read(&secret) {
            *self.secret.write() = Some(secret);
        }
        let since_loss = u64::try_from(since_loss_ms).ok().map(Duration::from_millis);
        // What was lost before this machine was started is over.
        let lost_at = since_loss.and_then(|since| clock::monotonic().checked_sub(since));
        *self.markers[partition as usize].lock() = Marker { read_on: link.number, run, id, lost_at };
        if lost == 1 {
            let server = self.links.server_of(self.keyspace.slot(partition));
            log::warn!(
                server,
                partition,
                "the store lost writes (a restart, a failover, a flush): charges may be forgotten"
            );
            self.metrics.losses.inc();
        }
        // Give or take the way that the answer took.
        let is_new = match (lost_at, seen.lost_at) {
            (Some(now), Some(seen)) => now > seen + Duration::from_secs(1),
            (now, _) => now.is_some(),
        };
        if is_new {
            self.changed.notify_one();
        }
        Ok(if refusal.is_empty() { None } else { Some(server_failure(&refusal)) })
    }
}

/// How often reading a marker has failed in a way that does not matter.
#[derive(Debug, Default)]
struct Attempts {
    ends: usize,
    moves: usize,
}

impl Attempts {
    /// Whether it is tried again. Whoever cut a connection, to look for the server and to read
    /// a marker twice does no harm.
    fn has_another(&mut self, failure: &Failure) -> bool {
        let (count, most) = match failure {
            failure if failure.is_cut() => (&mut self.ends, MAX_ENDS),
            Failure::Moved => (&mut self.moves, MAX_MOVES),
            _ => return false,
        };
        *count += 1;
        *count <= most
    }
}
