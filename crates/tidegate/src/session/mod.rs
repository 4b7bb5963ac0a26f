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
mod reconcile;
mod redis;
mod store_time;
mod types;

use std::num::NonZeroUsize;
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
use crate::metrics::{Metrics, SessionMetrics};
use crate::reaper::{Progress, Reaper, Rhythm};
use crate::registry::OpenPart;
use crate::store::partitions::{self, Spread};
use crate::store::{MemoryStore, Part, PartKind, Store};

/// How often it is asked at least whether sessions are to be compared with their index.
const RECONCILE: Duration = Duration::from_secs(600);

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
    /// Of ids and broadcasters.
    spread: Spread,
    backend: Backend,
    metrics: SessionMetrics,
    /// The partition that the next claim begins with.
    hand: AtomicUsize,
    /// When the cleanup that is under way in the background began.
    cleaning_since: Mutex<Option<Instant>>,
}

#[derive(Debug)]
enum Backend {
    Memory { clock: Clock, partitions: Box<[InMemory]> },
    Redis(Box<[OnRedis]>),
}

/// A partition in this process.
#[derive(Debug)]
struct InMemory {
    partition: Mutex<Partition>,
    holds: HoldWatch,
}

impl InMemory {
    /// Asks all of it, and looks whether it is held.
    fn on<R>(&self, clock: &Clock, ask: impl FnOnce(&mut Partition, u64) -> R) -> R {
        let mut partition = self.partition.lock();
        let now_ms = clock.now().as_millis();
        let answer = ask(&mut partition, now_ms);
        self.holds.note(now_ms, partition.held_until(), None);
        answer
    }
}

/// Calls what the backend has of that name, on the partition of a session.
macro_rules! on_session {
    ($self:ident, $id:ident, $call:ident($($argument:expr),*)) => {
        match &$self.core.backend {
            Backend::Memory { clock, partitions } => {
                let mut partition = partitions[$self.partition($id)].partition.lock();
                Ok(partition.$call(clock.now().as_millis(), $id, $($argument),*))
            }
            Backend::Redis(partitions) => partitions[$self.partition($id)].$call($id, $($argument),*).await,
        }
    };
}

/// The same on all of a partition, by its number.
macro_rules! on_partition {
    ($self:ident, $number:expr, $call:ident($($argument:expr),*)) => {
        match &$self.core.backend {
            Backend::Memory { clock, partitions } => {
                Ok(partitions[$number].on(clock, |it, now_ms| it.$call(now_ms, $($argument),*)))
            }
            Backend::Redis(partitions) => partitions[$number].$call($($argument),*).await,
        }
    };
}

// Behind the macros, which it uses.
mod reap;

impl OpenPart for Sessions {
    const KIND: PartKind = PartKind::Sessions;
    type Options = SessionOptions;

    fn open(store: &Store, name: Name, options: &SessionOptions, metrics: &Metrics) -> Result<Self> {
        let of_space = metrics.sessions(name.as_str());
        Self::new(store, name, options, of_space)
    }

    fn part_name(&self) -> &Name {
        self.space()
    }

    fn has(&self, options: &SessionOptions) -> bool {
        self.options() == options
    }

    fn declared(&self) -> (Part, Duration) {
        let Core { space, options, .. } = &*self.core;
        (options.declared(space), options.grace + options.holder_lease)
    }

    fn reapers(&self, metrics: &Metrics) -> Vec<Reaper> {
        let Core { space, options, .. } = &*self.core;
        let rhythm = |interval: Duration, batch: usize| Rhythm {
            interval,
            batch: NonZeroUsize::new(batch).unwrap_or(NonZeroUsize::MIN),
        };
        // Often enough that it is not late by more than a fraction of its interval.
        let interval = RECONCILE.min(options.reconcile_interval / 20);
        let of_space = |name| metrics.reaper(name).in_space(space.as_str());
        let (cleanup, stamp) = (rhythm(options.cleanup_interval, options.batch), self.stamp_interval());
        vec![
            Reaper::of(self, cleanup, of_space("session"), async |it, batch| it.run(batch).await),
            Reaper::of(self, rhythm(interval, 1), of_space("session_reconcile"), async |it, _| {
                it.reconcile_due().await
            }),
            Reaper::of(self, rhythm(stamp, 1), metrics.reaper("session_stamp"), async |it, _| {
                it.keep_stamped().await
            }),
        ]
    }

    fn with(&self, background: &Arc<Background>) -> Self {
        Self { core: self.core.clone(), _background: Some(background.clone()) }
    }
}

impl Sessions {
    fn new(store: &Store, space: Name, options: &SessionOptions, metrics: SessionMetrics) -> Result<Self> {
        options.check()?;
        let (begun, running) = (metrics.holds.clone(), metrics.held_partitions.clone());
        let hold_log = Arc::new(HoldLog::new(space.as_str(), begun, running));
        let holds = |partition: u32| HoldWatch::new(hold_log.clone(), partition);
        let spread = match store {
            Store::Memory(store) => store.spread,
            Store::Redis(store) => store.subjects(),
        };
        let (bounds, numbers) = (options.bounds(spread.partitions()), 0..spread.partitions());
        let backend = match store {
            Store::Memory(MemoryStore { clock, .. }) => {
                let partition = |number| InMemory {
                    partition: Mutex::new(Partition::new(bounds, clock.slack_ms())),
                    holds: holds(number),
                };
                Backend::Memory { clock: clock.clone(), partitions: numbers.map(partition).collect() }
            }
            Store::Redis(store) => {
                let partition = |it| OnRedis::new(store.clone(), &space, bounds, it, holds(it));
                Backend::Redis(numbers.map(partition).collect())
            }
        };
        let core = Core {
            space,
            options: options.clone(),
            spread,
            backend,
            metrics,
            hand: AtomicUsize::new(0),
            cleaning_since: Mutex::default(),
        };
        Ok(Self { core: Arc::new(core), _background: None })
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
        // A session is found by its id, and must be where its broadcaster is.
        let number = self.partition(broadcaster.as_str());
        let mut new = SessionId::random();
        while self.partition(new) != number {
            new = SessionId::random();
        }
        match &self.core.backend {
            Backend::Memory { clock, partitions } => {
                let mut partition = partitions[number].partition.lock();
                Ok(partition.activate(clock.now().as_millis(), new, broadcaster.as_str(), config, holder))
            }
            Backend::Redis(partitions) => partitions[number].activate(new, broadcaster, config, holder).await,
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
        let number = self.partition(broadcaster.as_str());
        match &self.core.backend {
            Backend::Memory { clock, partitions } => {
                let mut partition = partitions[number].partition.lock();
                Ok(partition.find(clock.now().as_millis(), broadcaster.as_str()))
            }
            Backend::Redis(partitions) => partitions[number].find(broadcaster).await,
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
        let list = async |number: usize| on_partition!(self, number, list(set, age_ms, after, limit));
        let mut all = List::default();
        for list in partitions::all(self.numbers().map(list)).await? {
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
        let counts = async |number: usize| on_partition!(self, number, counts());
        let mut all = Counts::default();
        partitions::all(self.numbers().map(counts)).await?.into_iter().for_each(|counts| all += counts);
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
        let stamp = async |number: usize| on_partition!(self, number, stamp(lately));
        let held_until = partitions::all(self.numbers().map(stamp)).await?;
        Ok(held_until.into_iter().flatten().max())
    }

    /// How often this process says that it is there.
    fn stamp_interval(&self) -> Duration {
        self.core.options.holder_lease / 6
    }

    /// One run of the loop that does so. A store that is away is told of elsewhere.
    async fn keep_stamped(&self) -> Result<Progress> {
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
    async fn reconcile_due(&self) -> Result<Progress> {
        let Backend::Redis(partitions) = &self.core.backend else {
            return Ok(Progress { items: 0, is_more: false });
        };
        let pause_ms = self.core.options.reconcile_interval.as_millis() as u64;
        let request = StepRequest { is_dry_run: false, from: "", count: LOOKED_AT, pause_ms, age_ms: 0 };
        let (steps, failed) = partitions::reached(partitions.iter().map(|it| it.reconcile(&request))).await?;
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

    /// The partition of a session or a broadcaster.
    fn partition(&self, subject: impl ToString) -> usize {
        match self.core.spread.partitions() {
            1 => 0,
            _ => self.core.spread.partition(&subject.to_string()) as usize,
        }
    }

    fn numbers(&self) -> std::ops::Range<usize> {
        0..self.core.spread.partitions() as usize
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
