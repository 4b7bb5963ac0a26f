//! Sessions: who is connected, and what was left behind.
//!
//! A session is held by leases, one per holder. When the last one ends, by a disconnect or
//! by silence, the session is disconnected at that moment; when nobody resumes it within
//! the grace it is an orphan, and is reaped: claimed, its side effects run by whoever
//! claimed it, acknowledged, deleted. A live session is never reaped, and nothing is ever
//! found by scanning.
//!
//! ```
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use tidegate::{Key, Tidegate, session::{Refusal, SessionOptions, State}};
//!
//! let gate = Tidegate::open("memory:").await?;
//! let sessions = gate.sessions("main", SessionOptions::default())?;
//!
//! let (channel, browser) = (Key::new("channel_7")?, Key::new("browser-1")?);
//! let id = sessions.activate(channel, r#"{"theme":"dark"}"#, None).await??.id;
//! sessions.connect(id, browser).await??;
//! assert_eq!(sessions.delete(id).await?, Err(Refusal::Active));
//!
//! sessions.disconnect(id, browser).await??;
//! let session = sessions.get(id).await?.ok_or(Refusal::Gone)?;
//! assert_eq!((session.state, session.ref_count), (State::Disconnected, 0));
//!
//! // It is resumed within its grace, and is in its second life.
//! assert_eq!(sessions.resume(id, browser).await??.generation.get(), 2);
//! # Ok(())
//! # }
//! ```

mod effects;
mod hold;
mod memory;
mod options;
mod reap;
mod reconcile;
mod redis;
mod store_time;
mod types;

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use self::hold::{HoldLog, HoldWatch};
use self::memory::{Partition, Set};
use self::options::MAX_BATCH;
pub use self::options::{Reap, SessionOptions};
use self::reconcile::{LOOKED_AT, StepRequest};
pub use self::reconcile::{Reconciled, Reconciliation, Step};
use self::redis::OnRedis;
pub use self::types::{
    Activated, Answer, Claim, Claims, Counts, Disconnect, Found, Generation, HeldBy, Holder, Lease, List,
    Listed, Refusal, Session, SessionId, State, Swept,
};
use crate::Background;
use crate::clock::{Clock, Timestamp};
use crate::error::{Error, Result};
use crate::key::{Key, Name};
use crate::metrics::SessionMetrics;
use crate::reaper::Progress;
use crate::store::{Store, partitions};

/// The largest config or value, in bytes.
pub const MAX_TEXT_BYTES: usize = 64 << 10;

/// A space of sessions on a store. Clones share it.
#[derive(Debug, Clone)]
pub struct Sessions {
    core: Arc<Core>,
    /// What runs in the background for it, for as long as somebody holds it.
    _background: Option<Arc<Background>>,
}

#[derive(Debug)]
struct Core {
    space: Name,
    options: SessionOptions,
    backend: Backend,
    metrics: SessionMetrics,
    /// The partition that the next claim begins with.
    hand: AtomicUsize,
    /// When the cleanup that is under way in the background began.
    cleaning_since: Mutex<Option<Instant>>,
}

#[derive(Debug)]
enum Backend {
    Memory { clock: Clock, partition: Box<Mutex<Partition>>, holds: HoldWatch },
    Redis(Box<[OnRedis]>),
}

/// Calls what the backend has of that name, on the partition of a session.
macro_rules! on_session {
    ($self:ident, $id:ident, $call:ident($($argument:expr),*)) => {
        match &$self.core.backend {
            Backend::Memory { clock, partition, .. } => {
                Ok(partition.lock().$call(clock.now().as_millis(), $id, $($argument),*))
            }
            Backend::Redis(partitions) => partitions[$self.partition($id)].$call($id, $($argument),*).await,
        }
    };
}

impl Sessions {
    pub(crate) fn new(
        store: &Store,
        space: Name,
        options: &SessionOptions,
        metrics: SessionMetrics,
    ) -> Result<Self> {
        options.check()?;
        let (begun, running) = (metrics.holds.clone(), metrics.held_partitions.clone());
        let hold_log = Arc::new(HoldLog::new(space.as_str(), begun, running));
        let holds = |partition: u32| HoldWatch::new(hold_log.clone(), partition);
        let backend = match store {
            Store::Memory(clock, _) => {
                let partition = Box::new(Mutex::new(Partition::new(options.bounds(1), clock.slack_ms())));
                Backend::Memory { clock: clock.clone(), partition, holds: holds(0) }
            }
            Store::Redis(store) => {
                let of = store.partitions();
                let bounds = options.bounds(of);
                let partition = |it| OnRedis::new(store.clone(), &space, bounds, it, holds(it));
                Backend::Redis((0..of).map(partition).collect())
            }
        };
        let core = Core {
            space,
            options: options.clone(),
            backend,
            metrics,
            hand: AtomicUsize::new(0),
            cleaning_since: Mutex::default(),
        };
        Ok(Self { core: Arc::new(core), _background: None })
    }

    /// The same space, keeping `background` alive.
    pub(crate) fn with(&self, background: &Arc<Background>) -> Self {
        Self { core: self.core.clone(), _background: Some(background.clone()) }
    }

    /// The name.
    pub fn space(&self) -> &Name {
        &self.core.space
    }

    /// How its sessions live.
    pub fn options(&self) -> &SessionOptions {
        &self.core.options
    }

    /// The session of `broadcaster`: the one it has, resumed if it was disconnected, or a
    /// new one. Held by `holder`, or for the length of a lease by whoever will connect.
    pub async fn activate(
        &self,
        broadcaster: Key<'_>,
        config: &str,
        holder: Option<Key<'_>>,
    ) -> Result<Answer<Activated>> {
        check_text("config", config)?;
        let holder = holder.map_or("", Key::as_str);
        match &self.core.backend {
            Backend::Memory { clock, partition, .. } => {
                let (now_ms, new) = (clock.now().as_millis(), SessionId::random());
                Ok(partition.lock().activate(now_ms, new, broadcaster.as_str(), config, holder))
            }
            Backend::Redis(partitions) => {
                // A session is found by its id, and must be where its broadcaster is.
                let number = self.partition(broadcaster.as_str());
                let mut new = SessionId::random();
                while self.partition(new) != number {
                    new = SessionId::random();
                }
                partitions[number].activate(new, broadcaster, config, holder).await
            }
        }
    }

    /// One more holder of an active session.
    pub async fn connect(&self, id: SessionId, holder: impl Into<Holder<'_>>) -> Result<Answer<Lease>> {
        let Holder { name, generation } = holder.into();
        on_session!(self, id, connect(name.as_str(), generation))
    }

    /// A holder of a session that may have been disconnected: if so, it is active again.
    pub async fn resume(&self, id: SessionId, holder: impl Into<Holder<'_>>) -> Result<Answer<Lease>> {
        let Holder { name, generation } = holder.into();
        on_session!(self, id, resume(name.as_str(), generation))
    }

    /// A holder is still there: its lease begins anew.
    pub async fn heartbeat(&self, id: SessionId, holder: impl Into<Holder<'_>>) -> Result<Answer<Lease>> {
        let Holder { name, generation } = holder.into();
        on_session!(self, id, heartbeat(name.as_str(), generation))
    }

    /// A holder leaves. One that does not hold the session changes nothing.
    pub async fn disconnect(
        &self,
        id: SessionId,
        holder: impl Into<Holder<'_>>,
    ) -> Result<Answer<Disconnect>> {
        let Holder { name, generation } = holder.into();
        on_session!(self, id, disconnect(name.as_str(), generation))
    }

    /// A session as it is.
    pub async fn get(&self, id: SessionId) -> Result<Option<Session>> {
        on_session!(self, id, get())
    }

    /// The session that `broadcaster` last activated.
    pub async fn find(&self, broadcaster: Key<'_>) -> Result<Option<Session>> {
        match &self.core.backend {
            Backend::Memory { clock, partition, .. } => {
                Ok(partition.lock().find(clock.now().as_millis(), broadcaster.as_str()))
            }
            Backend::Redis(partitions) => {
                partitions[self.partition(broadcaster.as_str())].find(broadcaster).await
            }
        }
    }

    /// Sets the value of a session, in the life of `generation` if that is given.
    pub async fn update(
        &self,
        id: SessionId,
        value: &str,
        generation: Option<Generation>,
    ) -> Result<Answer<Generation>> {
        check_text("value", value)?;
        on_session!(self, id, update(value, generation))
    }

    /// Deletes a session that nobody holds and nobody is reaping, without side effects.
    pub async fn delete(&self, id: SessionId) -> Result<Answer<()>> {
        let deleted = on_session!(self, id, delete());
        if let Ok(Ok(())) = deleted {
            self.core.metrics.deleted.inc();
        }
        deleted
    }

    /// Up to `limit` sessions that nobody has held for `max_age`, longest first.
    pub async fn orphans(&self, max_age: Duration, limit: usize) -> Result<List> {
        self.orphans_after(max_age, None, limit).await
    }

    /// The next of them: those behind `after`, the last of a page.
    pub async fn orphans_after(
        &self,
        max_age: Duration,
        after: Option<Listed>,
        limit: usize,
    ) -> Result<List> {
        let age_ms = max_age.as_millis().min(u64::MAX.into()) as u64;
        self.list_set(Set::Disconnected, age_ms, after, limit).await
    }

    /// Up to `limit` sessions that are in `state`.
    pub async fn list(&self, state: State, limit: usize) -> Result<List> {
        self.list_after(state, None, limit).await
    }

    /// The next of them: those behind `after`, the last of a page.
    pub async fn list_after(&self, state: State, after: Option<Listed>, limit: usize) -> Result<List> {
        let set = match state {
            State::Active => Set::Active,
            State::Disconnected => Set::Disconnected,
            State::Orphan => return self.orphans_after(self.core.options.grace, after, limit).await,
            State::Claimed => Set::Claimed,
            State::Dead => Set::Dead,
        };
        self.list_set(set, 0, after, limit).await
    }

    async fn list_set(&self, set: Set, age_ms: u64, after: Option<Listed>, limit: usize) -> Result<List> {
        let limit = limit.min(MAX_BATCH);
        // Before the epoch nobody was connected.
        let age_ms = age_ms.min(1 << 40);
        let Backend::Redis(partitions) = &self.core.backend else {
            return self.in_memory(|partition, now_ms| partition.list(now_ms, set, age_ms, after, limit));
        };
        let mut all = List::default();
        let lists = partitions.iter().map(|it| it.list(set, age_ms, after, limit)).collect();
        for list in partitions::all(lists).await? {
            all.sessions.extend(list.sessions);
            all.invalid += list.invalid;
        }
        all.sessions.sort();
        // One that was found silent between two steps has been in both sets.
        all.sessions.dedup();
        all.sessions.truncate(limit);
        Ok(all)
    }

    /// Sessions that nobody holds.
    pub async fn disconnected_count(&self) -> Result<u64> {
        Ok(self.counts().await?.disconnected)
    }

    /// How many sessions there are.
    pub async fn counts(&self) -> Result<Counts> {
        let mut all = Counts::default();
        match &self.core.backend {
            Backend::Memory { .. } => all = self.in_memory(Partition::counts)?,
            Backend::Redis(partitions) => {
                for counts in partitions::all(partitions.iter().map(OnRedis::counts).collect()).await? {
                    all += counts;
                }
            }
        }
        self.note_counts(&all);
        Ok(all)
    }

    /// Says that somebody is there and looks after the space; until when a hold runs, in some
    /// partition at least.
    ///
    /// Nobody has to call this: every process that has the space open does so in the
    /// background, every sixth of a lease, and so does every other call. If nobody has for
    /// half a lease, the store or all who use it were away, and holders could not renew: then
    /// for the length of a lease no lease ends and nothing is reaped.
    pub async fn stamp(&self) -> Result<Option<Timestamp>> {
        self.stamp_unless(Duration::ZERO).await
    }

    /// The same of partitions where it was not said within `lately`. One that is away does not
    /// keep others from it.
    async fn stamp_unless(&self, lately: Duration) -> Result<Option<Timestamp>> {
        match &self.core.backend {
            Backend::Memory { clock, partition, holds } => {
                let now_ms = clock.now().as_millis();
                let held_until_ms = partition.lock().stamp(now_ms);
                holds.note(now_ms, held_until_ms, None);
                Ok(held_until_ms.map(Timestamp::from_millis))
            }
            Backend::Redis(partitions) => {
                let stamped = partitions::each(partitions.iter().map(|it| it.stamp(lately)).collect()).await;
                stamped.into_iter().try_fold(None, |latest, held| Ok(held?.max(latest)))
            }
        }
    }

    /// How often this process says that it is there.
    pub(crate) fn stamp_interval(&self) -> Duration {
        self.core.options.holder_lease / 6
    }

    /// One run of the loop that does so. A store that is away is told of elsewhere.
    pub(crate) async fn keep_stamped(&self) -> Result<Progress> {
        match self.stamp_unless(self.stamp_interval() / 2).await {
            Err(error) if !error.is_transient() => Err(error),
            _ => Ok(Progress { items: 0, is_more: false }),
        }
    }

    fn note_counts(&self, counts: &Counts) {
        let metrics = &self.core.metrics;
        metrics.disconnected.set(counts.disconnected as i64);
        metrics.active.set(counts.active as i64);
        metrics.claimed.set(counts.claimed as i64);
        metrics.dead.set(counts.dead as i64);
        metrics.lag_seconds.set(counts.lag_ms as f64 / 1000.0);
    }

    /// A session that was claimed too often can be claimed again.
    pub async fn retry(&self, id: SessionId) -> Result<Answer<()>> {
        on_session!(self, id, retry())
    }

    /// Goes through all keys and entries and corrects what is not as it should be, beside
    /// whatever else happens; takes over what an older program has written.
    pub fn reconcile(&self) -> Reconciliation {
        Reconciliation::new(self.clone(), false, 0)
    }

    /// The same without changing anything. Each step reports orphans that were left for
    /// `max_age`, as sessions say and not the index.
    pub fn reconcile_dry_run(&self, max_age: Duration) -> Reconciliation {
        Reconciliation::new(self.clone(), true, max_age.as_millis().min(1 << 40) as u64)
    }

    /// One step of the reconciliation that goes on in the background, if it is time.
    pub(crate) async fn reconcile_due(&self) -> Result<Progress> {
        let Backend::Redis(partitions) = &self.core.backend else {
            return Ok(Progress { items: 0, is_more: false });
        };
        let pause_ms = self.core.options.reconcile_interval.as_millis() as u64;
        let request = StepRequest { is_dry_run: false, from: "", count: LOOKED_AT, pause_ms, age_ms: 0 };
        let (steps, failed) =
            partitions::reached(partitions.iter().map(|it| it.reconcile(&request)).collect()).await?;
        let (mut items, mut is_more) = (0, false);
        for step in steps {
            self.note_step(&step);
            items += step.reconciled.faults() as usize;
            is_more |= !step.next.is_empty();
        }
        if is_more {
            return Ok(Progress { items, is_more });
        }
        failed.map(|()| Progress { items, is_more })
    }

    fn note_step(&self, step: &Step) {
        self.core.metrics.scanned.inc_by(step.scanned);
        self.core.metrics.unrecognised.inc_by(step.reconciled.unrecognised);
    }

    fn in_memory<R>(&self, on: impl FnOnce(&mut Partition, u64) -> R) -> Result<R> {
        match &self.core.backend {
            Backend::Memory { clock, partition, holds } => {
                let mut partition = partition.lock();
                let now_ms = clock.now().as_millis();
                let answer = on(&mut partition, now_ms);
                holds.note(now_ms, partition.held_until(), None);
                Ok(answer)
            }
            Backend::Redis(_) => Err(Error::internal("these sessions are not in this process")),
        }
    }

    /// The partition of a session or a broadcaster.
    fn partition(&self, subject: impl ToString) -> usize {
        match &self.core.backend {
            Backend::Memory { .. } => 0,
            Backend::Redis(partitions) if partitions.len() == 1 => 0,
            Backend::Redis(partitions) => partitions[0].partition_of(&subject.to_string()),
        }
    }
}

fn check_text(what: &str, text: &str) -> Result<()> {
    if text.len() <= MAX_TEXT_BYTES {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "a {what} of {} bytes is not allowed: up to {MAX_TEXT_BYTES} are",
        text.len()
    )))
}
