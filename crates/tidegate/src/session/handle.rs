//! A space of sessions on a store: the same calls wherever that is.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::age_ms;
use super::hold::{HoldLog, HoldWatch};
use super::in_process::InProcess;
use super::memory::Set;
use super::metrics::SessionMetrics;
use super::options::{MAX_BATCH, SessionOptions};
use super::reconcile::{LOOKED_AT, Reconciliation, Step, StepRequest};
use super::redis::OnRedis;
use super::types::{
    Activated, Answer, Counts, Disconnect, Generation, Holder, Lease, List, Listed, Session, SessionId,
    State, check_text,
};
use crate::clock::Timestamp;
use crate::error::Result;
use crate::key::{Key, Name};
use crate::metrics::Metrics;
use crate::reaper::{Progress, Reaper, ReaperMetrics, Rhythm};
use crate::registry::OpenPart;
use crate::store::{self, MemoryStore, Part, PartKind, Spread, Store, partitions};
use crate::{Background, Tidegate};

/// How often it is asked at least whether sessions are to be compared with their index.
const RECONCILE: Duration = Duration::from_secs(600);

/// A space of sessions on a store. Clones share it.
#[derive(Debug, Clone)]
pub struct Sessions {
    pub(super) core: Arc<Core>,
    /// What runs in the background for it, for as long as somebody holds it.
    _background: Option<Arc<Background>>,
}

#[derive(Debug)]
pub(super) struct Core {
    space: Name,
    pub(super) options: SessionOptions,
    /// Of ids and broadcasters.
    spread: Spread,
    pub(super) backend: Backend,
    pub(super) metrics: SessionMetrics,
    /// The partition that the next claim begins with.
    pub(super) hand: AtomicUsize,
    /// When the cleanup that is under way in the background began.
    pub(super) cleaning_since: Mutex<Option<Instant>>,
}

#[derive(Debug)]
pub(super) enum Backend {
    Memory(InProcess),
    Redis(Box<[OnRedis]>),
}

impl OpenPart for Sessions {
    const KIND: PartKind = PartKind::Sessions;
    type Options = SessionOptions;

    fn open(store: &Store, name: Name, options: &SessionOptions, metrics: &Metrics) -> Result<Self> {
        let metrics = SessionMetrics::new(metrics, name.as_str());
        Self::new(store, name, options, metrics)
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
        let asked = RECONCILE.min(options.reconcile_interval / 20);
        let of_space = |name| ReaperMetrics::new(metrics, name).in_space(space.as_str());
        let (cleanup, stamp) = (rhythm(options.cleanup_interval, options.batch), self.stamp_interval());
        let stamping = ReaperMetrics::new(metrics, "session_stamp");
        vec![
            Reaper::of(self, cleanup, of_space("session"), async |it, batch| it.run(batch).await),
            Reaper::of(self, rhythm(asked, 1), of_space("session_reconcile"), async |it, _| {
                it.reconcile_due().await
            }),
            Reaper::of(self, rhythm(stamp, 1), stamping, async |it, _| it.keep_stamped().await),
        ]
    }

    fn with(&self, background: &Arc<Background>) -> Self {
        Self { core: self.core.clone(), _background: Some(background.clone()) }
    }
}

impl Tidegate {
    /// The space of sessions called `name`. Asked again with the same options it is the
    /// same space; with others it is an error. [`DEFAULT_SPACE`](store::DEFAULT_SPACE)
    /// and `sessions` are two names of one space: that whose keys have no name in them.
    pub fn sessions(&self, name: &str, options: SessionOptions) -> Result<Sessions> {
        self.open_space(name, &options)
    }
}

impl Sessions {
    fn new(store: &Store, space: Name, options: &SessionOptions, metrics: SessionMetrics) -> Result<Self> {
        options.check()?;
        let log = Arc::new(HoldLog::new(space.as_str(), &metrics));
        let (backend, spread) = match store.backend() {
            store::Backend::Memory(MemoryStore { clock, spread, .. }) => {
                let options = options.clone();
                let space = InProcess::noted(options, clock.clone(), *spread, &log, metrics.clone());
                (Backend::Memory(space), *spread)
            }
            store::Backend::Redis(store) => {
                let spread = store.subjects();
                let bounds = options.bounds(spread.partitions());
                let holds = |number| HoldWatch::new(log.clone(), number);
                let partition = |it| OnRedis::new(store.clone(), &space, bounds, it, holds(it));
                (Backend::Redis((0..spread.partitions()).map(partition).collect()), spread)
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
        match &self.core.backend {
            Backend::Memory(space) => space.activate(broadcaster, config, holder),
            Backend::Redis(partitions) => {
                check_text("config", config)?;
                let holder = holder.map_or("", Key::as_str);
                // A session is found by its id, and must be where its broadcaster is.
                let number = self.partition(broadcaster.as_str());
                let new = SessionId::random_where(|id| self.partition(id) == number);
                partitions[number].activate(new, broadcaster, config, holder).await.map(Answer::from)
            }
        }
    }

    /// One more holder of an active session.
    pub async fn connect(&self, id: SessionId, holder: impl Into<Holder<'_>>) -> Result<Answer<Lease>> {
        let holder = holder.into();
        match &self.core.backend {
            Backend::Memory(space) => Ok(space.connect(id, holder)),
            Backend::Redis(partitions) => {
                let Holder { name, generation } = holder;
                let answer = partitions[self.partition(id)].connect(id, name.as_str(), generation).await;
                answer.map(Answer::from)
            }
        }
    }

    /// A holder of a session that may have been disconnected: if so, it is active again.
    pub async fn resume(&self, id: SessionId, holder: impl Into<Holder<'_>>) -> Result<Answer<Lease>> {
        let holder = holder.into();
        match &self.core.backend {
            Backend::Memory(space) => Ok(space.resume(id, holder)),
            Backend::Redis(partitions) => {
                let Holder { name, generation } = holder;
                let answer = partitions[self.partition(id)].resume(id, name.as_str(), generation).await;
                answer.map(Answer::from)
            }
        }
    }

    /// A holder is still there: its lease begins anew.
    pub async fn heartbeat(&self, id: SessionId, holder: impl Into<Holder<'_>>) -> Result<Answer<Lease>> {
        let holder = holder.into();
        match &self.core.backend {
            Backend::Memory(space) => Ok(space.heartbeat(id, holder)),
            Backend::Redis(partitions) => {
                let Holder { name, generation } = holder;
                let answer = partitions[self.partition(id)].heartbeat(id, name.as_str(), generation).await;
                answer.map(Answer::from)
            }
        }
    }

    /// A holder leaves. One that does not hold the session changes nothing.
    pub async fn disconnect(
        &self,
        id: SessionId,
        holder: impl Into<Holder<'_>>,
    ) -> Result<Answer<Disconnect>> {
        let holder = holder.into();
        match &self.core.backend {
            Backend::Memory(space) => Ok(space.disconnect(id, holder)),
            Backend::Redis(partitions) => {
                let Holder { name, generation } = holder;
                let answer = partitions[self.partition(id)].disconnect(id, name.as_str(), generation).await;
                answer.map(Answer::from)
            }
        }
    }

    /// A session as it is.
    pub async fn get(&self, id: SessionId) -> Result<Option<Session>> {
        match &self.core.backend {
            Backend::Memory(space) => Ok(space.get(id)),
            Backend::Redis(partitions) => partitions[self.partition(id)].get(id).await,
        }
    }

    /// The session that `broadcaster` last activated.
    pub async fn find(&self, broadcaster: Key<'_>) -> Result<Option<Session>> {
        match &self.core.backend {
            Backend::Memory(space) => Ok(space.find(broadcaster)),
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
        match &self.core.backend {
            Backend::Memory(space) => space.update(id, value, generation),
            Backend::Redis(partitions) => {
                check_text("value", value)?;
                partitions[self.partition(id)].update(id, value, generation).await.map(Answer::from)
            }
        }
    }

    /// Deletes a session that nobody holds and nobody is reaping, without side effects.
    pub async fn delete(&self, id: SessionId) -> Result<Answer<()>> {
        match &self.core.backend {
            Backend::Memory(space) => Ok(space.delete(id)),
            Backend::Redis(partitions) => {
                let deleted = partitions[self.partition(id)].delete(id).await?;
                self.core.metrics.deleted.inc_by(deleted.is_ok().into());
                Ok(deleted.into())
            }
        }
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
        self.list_set(Set::Disconnected, max_age, after, limit).await
    }

    /// Up to `limit` sessions that are in `state`.
    pub async fn list(&self, state: State, limit: usize) -> Result<List> {
        self.list_after(state, None, limit).await
    }

    /// The next of them: those behind `after`, the last of a page.
    pub async fn list_after(&self, state: State, after: Option<Listed>, limit: usize) -> Result<List> {
        let (set, age) = Set::listing(state, &self.core.options);
        self.list_set(set, age, after, limit).await
    }

    async fn list_set(&self, set: Set, age: Duration, after: Option<Listed>, limit: usize) -> Result<List> {
        let partitions = match &self.core.backend {
            Backend::Memory(space) => return Ok(space.list_set(set, age, after, limit)),
            Backend::Redis(partitions) => partitions,
        };
        let (age_ms, limit) = (age_ms(age), limit.min(MAX_BATCH));
        let lists = partitions.iter().map(|it| it.list(set, age_ms, after, limit));
        Ok(List::merged(partitions::all(lists).await?, limit))
    }

    /// Sessions that nobody holds.
    pub async fn disconnected_count(&self) -> Result<u64> {
        Ok(self.counts().await?.disconnected)
    }

    /// How many sessions there are.
    pub async fn counts(&self) -> Result<Counts> {
        let partitions = match &self.core.backend {
            Backend::Memory(space) => return Ok(space.counts()),
            Backend::Redis(partitions) => partitions,
        };
        let mut all = Counts::default();
        for counts in partitions::all(partitions.iter().map(OnRedis::counts)).await? {
            all += counts;
        }
        self.core.metrics.counted(&all);
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
            Backend::Memory(space) => Ok(space.stamp()),
            Backend::Redis(partitions) => {
                let held_until = partitions::all(partitions.iter().map(|it| it.stamp(lately))).await?;
                Ok(held_until.into_iter().flatten().max())
            }
        }
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

    /// A session that was claimed too often can be claimed again.
    pub async fn retry(&self, id: SessionId) -> Result<Answer<()>> {
        match &self.core.backend {
            Backend::Memory(space) => Ok(space.retry(id)),
            Backend::Redis(partitions) => partitions[self.partition(id)].retry(id).await.map(Answer::from),
        }
    }

    /// Goes through all keys and entries and corrects what is not as it should be, beside
    /// whatever else happens; takes over what an older program has written.
    pub fn reconcile(&self) -> Reconciliation {
        Reconciliation::new(self.clone(), false, 0)
    }

    /// The same without changing anything. Each step reports orphans that were left for
    /// `max_age`, as sessions say and not the index.
    pub fn reconcile_dry_run(&self, max_age: Duration) -> Reconciliation {
        Reconciliation::new(self.clone(), true, age_ms(max_age))
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

    pub(super) fn note_step(&self, step: &Step) {
        self.core.metrics.scanned.inc_by(step.scanned);
        self.core.metrics.unrecognised.inc_by(step.reconciled.unrecognised);
    }

    /// The space in this process, if that is where it is: its calls need no `await`.
    pub fn in_process(&self) -> Option<&InProcess> {
        match &self.core.backend {
            Backend::Memory(space) => Some(space),
            Backend::Redis(_) => None,
        }
    }

    /// The partition of a session or a broadcaster.
    pub(super) fn partition(&self, subject: impl ToString) -> usize {
        match self.core.spread.partitions() {
            1 => 0,
            _ => self.core.spread.partition(&subject.to_string()) as usize,
        }
    }
}
