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
//! let sessions = gate.sessions("sessions", SessionOptions::default())?;
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

mod memory;
mod mend;
mod options;
mod redis;
mod types;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use parking_lot::Mutex;

use self::memory::{Partition, Set};
use self::mend::{Ask, LOOKED_AT};
pub use self::mend::{Mended, Mending, Step};
use self::options::MAX_BATCH;
pub use self::options::{Reap, SessionOptions};
use self::redis::{MAX_ACKS, OnRedis};
pub use self::types::{
    Activated, Answer, Claim, Claims, Counts, Found, Generation, Holder, Lease, Left, List, Listed, Refusal,
    Session, SessionId, State, Swept,
};
use crate::Background;
use crate::clock::{self, Clock};
use crate::error::{Error, Result};
use crate::key::{Key, Name};
use crate::metrics::SessionMetrics;
use crate::reaper::Progress;
use crate::store::Store;

/// Steps of a cleanup in a row that find only sessions of a clock that was wrong.
const MAX_FRUITLESS: usize = 1000;

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
}

#[derive(Debug)]
enum Backend {
    Memory { clock: Clock, partition: Box<Mutex<Partition>> },
    Redis(Box<[OnRedis]>),
}

/// What a sweep looks after.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sweep {
    /// Who has fallen silent.
    Lapsed,
    /// Orphans besides, that nobody has claimed.
    Unclaimed,
    /// And those whose claim has ended.
    All,
}

/// Calls what the backend has of that name, on the partition of a session.
macro_rules! on_session {
    ($self:ident, $id:ident, $call:ident($($argument:expr),*)) => {
        match &$self.core.backend {
            Backend::Memory { clock, partition } => {
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
        let backend = match store {
            Store::Memory(clock, _) => {
                let partition = Partition::new(options.bounds(1), clock.slack_ms());
                Backend::Memory { clock: clock.clone(), partition: Box::new(Mutex::new(partition)) }
            }
            Store::Redis(store) => {
                let of = store.partitions();
                let bounds = options.bounds(of);
                Backend::Redis((0..of).map(|it| OnRedis::new(store.clone(), &space, bounds, it)).collect())
            }
        };
        let core = Core { space, options: options.clone(), backend, metrics, hand: AtomicUsize::new(0) };
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
            Backend::Memory { clock, partition } => {
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
    pub async fn disconnect(&self, id: SessionId, holder: impl Into<Holder<'_>>) -> Result<Answer<Left>> {
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
            Backend::Memory { clock, partition } => {
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
        for list in join_all(partitions.iter().map(|it| it.list(set, age_ms, after, limit))).await {
            let list = list?;
            all.sessions.extend(list.sessions);
            all.invalid += list.invalid;
        }
        all.sessions.sort();
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
                for counts in join_all(partitions.iter().map(OnRedis::counts)).await {
                    all += counts?;
                }
            }
        }
        self.note_counts(&all);
        Ok(all)
    }

    fn note_counts(&self, counts: &Counts) {
        let metrics = &self.core.metrics;
        metrics.disconnected.set(counts.disconnected as i64);
        metrics.active.set(counts.active as i64);
        metrics.claimed.set(counts.claimed as i64);
        metrics.dead.set(counts.dead as i64);
        metrics.lag_seconds.set(counts.lag_ms as f64 / 1000.0);
    }

    /// Claims up to `limit` orphans for the length of a claim. Side effects run at least
    /// once for each, with its id and generation as their token; then
    /// [`ack`](Self::ack). What is not acknowledged in time can be claimed again.
    pub async fn claim(&self, limit: usize) -> Result<Claims> {
        let limit = limit.min(MAX_BATCH);
        let mut all = Claims::default();
        match &self.core.backend {
            Backend::Memory { .. } => all = self.in_memory(|it, now_ms| it.claim(now_ms, limit))?,
            Backend::Redis(partitions) => {
                let first = self.core.hand.fetch_add(1, Ordering::Relaxed);
                let mut failed = None;
                for number in 0..partitions.len() {
                    let left = limit - all.claims.len();
                    if left == 0 && limit > 0 {
                        all.swept.is_more = true;
                        break;
                    }
                    let claims = partitions[(first + number) % partitions.len()].claim(left).await;
                    match claims {
                        Ok(claims) => {
                            all.claims.extend(claims.claims);
                            all.swept += claims.swept;
                        }
                        Err(error) => failed = Some(error),
                    }
                }
                if let Some(error) = failed {
                    self.note_swept(&all.swept);
                    // What is claimed is not lost for another partition's sake.
                    if all.claims.is_empty() {
                        return Err(error);
                    }
                    tracing::warn!(%error, "some partitions could not be claimed from");
                    return Ok(all);
                }
            }
        }
        self.note_swept(&all.swept);
        Ok(all)
    }

    /// The side effects of a claim have run: deletes its session, once.
    pub async fn ack(&self, id: SessionId, generation: Generation) -> Result<Answer<()>> {
        let mut acked = self.ack_many(&[(id, generation)]).await?;
        acked.pop().ok_or_else(|| Error::internal("one answer was due"))
    }

    /// Acknowledges many, in one round trip per hundred and partition; what became of
    /// each, in order.
    pub async fn ack_many(&self, claims: &[(SessionId, Generation)]) -> Result<Vec<Answer<()>>> {
        let mut all = vec![Err(Refusal::Gone); claims.len()];
        match &self.core.backend {
            Backend::Memory { clock, partition } => {
                for (answer, (id, generation)) in all.iter_mut().zip(claims) {
                    *answer = partition.lock().ack(clock.now().as_millis(), *id, *generation);
                }
            }
            Backend::Redis(partitions) => {
                let mut by_partition = vec![Vec::new(); partitions.len()];
                for (index, (id, generation)) in claims.iter().enumerate() {
                    by_partition[self.partition(*id)].push((index, (*id, *generation)));
                }
                for (partition, claims) in partitions.iter().zip(by_partition) {
                    for claims in claims.chunks(MAX_ACKS) {
                        let (indices, claims): (Vec<_>, Vec<_>) = claims.iter().copied().unzip();
                        for (index, answer) in indices.into_iter().zip(partition.ack(&claims).await?) {
                            all[index] = answer;
                        }
                    }
                }
            }
        }
        self.core.metrics.deleted.inc_by(all.iter().filter(|it| it.is_ok()).count() as u64);
        Ok(all)
    }

    /// Claims orphans until none are due, runs `effect` for each and acknowledges those
    /// for which it succeeded; how many that were.
    pub async fn reap<F, E>(&self, mut effect: impl FnMut(Claim) -> F) -> Result<u64>
    where
        F: Future<Output = std::result::Result<(), E>>,
        E: std::fmt::Display,
    {
        let mut reaped = 0;
        loop {
            let found = self.claim(self.core.options.batch).await?;
            let mut done = Vec::new();
            let progress = found.swept.items() + found.claims.len() as u64;
            for claim in found.claims {
                let token = (claim.id, claim.generation);
                match effect(claim).await {
                    Ok(()) => done.push(token),
                    Err(error) => tracing::warn!(session = %token.0, %error, "a side effect failed"),
                }
            }
            reaped += self.ack_many(&done).await?.iter().filter(|it| it.is_ok()).count() as u64;
            if !found.swept.is_more || progress == 0 {
                return Ok(reaped);
            }
        }
    }

    /// Deletes all orphans, without side effects.
    pub async fn cleanup(&self) -> Result<Swept> {
        let started = clock::monotonic();
        let (mut all, mut fruitless) = (Swept::default(), 0);
        loop {
            let (swept, failed) = self.sweep(self.core.options.batch, Sweep::All).await?;
            failed?;
            all += swept;
            all.is_more = false;
            // One that changes nothing would go on for ever.
            fruitless = if swept.items() == 0 { fruitless + 1 } else { 0 };
            if !swept.is_more || fruitless == MAX_FRUITLESS {
                self.core.metrics.seconds.observe(started.elapsed().as_secs_f64());
                return Ok(all);
            }
        }
    }

    /// Looks after up to `limit` sessions of each partition.
    /// What became of them, and of the partitions that could not be reached; if none could,
    /// an error.
    async fn sweep(&self, limit: usize, sweep: Sweep) -> Result<(Swept, Result<()>)> {
        let mut all = Swept::default();
        let (mut failed, mut reached) = (Ok(()), 0);
        let is_claiming = sweep == Sweep::All;
        match &self.core.backend {
            Backend::Memory { .. } => {
                all = self.in_memory(|it, now_ms| match sweep {
                    Sweep::Lapsed => it.lapse(now_ms, limit),
                    _ => it.cleanup(now_ms, limit, is_claiming),
                })?;
                reached = 1;
            }
            Backend::Redis(partitions) => {
                // One that cannot be reached does not keep the others from it.
                for partition in partitions {
                    let swept = match sweep {
                        Sweep::Lapsed => partition.lapse(limit).await,
                        _ => partition.cleanup(limit, is_claiming).await,
                    };
                    match swept {
                        Ok(swept) => {
                            all += swept;
                            reached += 1;
                        }
                        Err(error) => failed = Err(error),
                    }
                }
            }
        }
        self.note_swept(&all);
        match reached {
            0 => failed.map(|()| (all, Ok(()))),
            _ => Ok((all, failed)),
        }
    }

    fn note_swept(&self, swept: &Swept) {
        let metrics = &self.core.metrics;
        metrics.deleted.inc_by(swept.deleted);
        metrics.lapsed.inc_by(swept.lapsed);
        metrics.buried.inc_by(swept.buried);
        metrics.missing.inc_by(swept.missing);
        metrics.invalid.inc_by(swept.invalid);
        metrics.lag_seconds.set(swept.lag_ms as f64 / 1000.0);
        if swept.invalid > 0 {
            let (count, space) = (swept.invalid, self.space().as_str());
            tracing::warn!(count, space, "entries of the index that are no session ids were removed");
        }
    }

    /// One run of the background loop.
    pub(crate) async fn run(&self, batch: usize) -> Result<Progress> {
        let started = clock::monotonic();
        let sweep = match self.core.options.reap {
            Reap::Cleanup => Sweep::Unclaimed,
            Reap::Claims => Sweep::Lapsed,
        };
        let (swept, failed) = self.sweep(batch, sweep).await?;
        self.core.metrics.seconds.observe(started.elapsed().as_secs_f64());
        let is_more = swept.is_more && swept.items() > 0;
        if !is_more {
            // Those that can be reached have caught up: now is the time to say who cannot.
            failed?;
            self.counts().await?;
            // Not how late they are now, but how late they were.
            self.core.metrics.lag_seconds.set(swept.lag_ms as f64 / 1000.0);
        }
        Ok(Progress { items: swept.items() as usize, is_more })
    }

    /// A session that was claimed too often can be claimed again.
    pub async fn retry(&self, id: SessionId) -> Result<Answer<()>> {
        on_session!(self, id, retry())
    }

    /// Walks through all keys and entries and mends what is not as it should be, beside
    /// whatever else happens; takes over what an older program has written.
    pub fn mend(&self) -> Mending {
        Mending::new(self.clone(), true, 0)
    }

    /// The same without changing anything. Each step tells orphans that were left for
    /// `max_age`, as sessions say and not the index.
    pub fn examine(&self, max_age: Duration) -> Mending {
        Mending::new(self.clone(), false, max_age.as_millis().min(1 << 40) as u64)
    }

    /// One step of the mending that goes on in the background, if it is time.
    pub(crate) async fn reconcile(&self) -> Result<Progress> {
        let Backend::Redis(partitions) = &self.core.backend else {
            return Ok(Progress { items: 0, is_more: false });
        };
        let pause_ms = self.core.options.reconcile_interval.as_millis() as u64;
        let ask = Ask { is_mending: true, from: "", count: LOOKED_AT, pause_ms, age_ms: 0 };
        let (mut items, mut is_more) = (0, false);
        let mut failed = Ok(());
        for partition in partitions {
            match partition.mend(&ask).await {
                Ok(step) => {
                    self.core.metrics.scanned.inc_by(step.mended.looked_at);
                    items += step.mended.faults() as usize;
                    is_more |= !step.next.is_empty();
                }
                Err(error) => failed = Err(error),
            }
        }
        failed.map(|()| Progress { items, is_more })
    }

    fn in_memory<R>(&self, on: impl FnOnce(&mut Partition, u64) -> R) -> Result<R> {
        match &self.core.backend {
            Backend::Memory { clock, partition } => Ok(on(&mut partition.lock(), clock.now().as_millis())),
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
