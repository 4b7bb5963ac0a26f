//! Sessions in this process: synchronous, bounded in number.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

use super::hold::{HoldLog, HoldWatch};
use super::memory::{DryRunPlace, Partition, Set, Sweep};
use super::metrics::SessionMetrics;
use super::options::{MAX_BATCH, SessionOptions};
use super::reaped::{Claiming, Cleanup};
use super::types::{
    Activated, Answer, Claims, Counts, Disconnect, Generation, Holder, Lease, List, Listed, Session,
    SessionId, State, Swept, check_text,
};
use crate::clock::{self, Clock, Timestamp};
use crate::error::Result;
use crate::key::Key;
use crate::metrics::Metrics;
use crate::store::Spread;

/// A space of sessions in this process. Clones share it.
///
/// Nothing runs in the background. Somebody has to call [`cleanup`](Self::cleanup) or
/// [`claim`](Self::claim), or sessions that nobody holds stay until there is no room; and
/// [`stamp`](Self::stamp) every sixth of a lease where no other call may come for half of one:
/// after so long a silence the process counts as stopped, and for the length of a lease nothing
/// is reaped.
///
/// ```
/// use tidegate::Key;
/// use tidegate::session::{Answer, InProcess, Refusal, SessionOptions};
///
/// let sessions = InProcess::new(SessionOptions::new())?;
/// let (channel, browser) = (Key::new("channel_7")?, Key::new("browser-1")?);
/// let Answer::Done(activated) = sessions.activate(channel, "", Some(browser))? else {
///     panic!("there is room for a million");
/// };
/// assert_eq!(sessions.delete(activated.id), Answer::Refused(Refusal::Active));
/// assert!(sessions.disconnect(activated.id, browser).is_done());
/// assert_eq!(sessions.counts().disconnected, 1);
/// # Ok::<(), tidegate::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct InProcess {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    options: SessionOptions,
    clock: Clock,
    /// Of ids and broadcasters.
    spread: Spread,
    partitions: Box<[(Mutex<Partition>, HoldWatch)]>,
    metrics: SessionMetrics,
    /// The partition that the next claim begins with.
    hand: AtomicUsize,
}

impl InProcess {
    /// A space on the system's clock.
    pub fn new(options: SessionOptions) -> Result<Self> {
        Self::with_clock(options, Clock::system())
    }

    /// A space on `clock`.
    pub fn with_clock(options: SessionOptions, clock: Clock) -> Result<Self> {
        options.check()?;
        let metrics = SessionMetrics::new(&Metrics::default(), "");
        let log = Arc::new(HoldLog::new("", &metrics));
        Ok(Self::noted(options, clock, Spread::ONE, &log, metrics))
    }

    /// One whose options were checked.
    pub(super) fn noted(
        options: SessionOptions,
        clock: Clock,
        spread: Spread,
        log: &Arc<HoldLog>,
        metrics: SessionMetrics,
    ) -> Self {
        let bounds = options.bounds(spread.partitions());
        let partition = |number| {
            let partition = Partition::new(bounds, clock.slack_ms());
            (Mutex::new(partition), HoldWatch::new(log.clone(), number))
        };
        let partitions = (0..spread.partitions()).map(partition).collect();
        let hand = AtomicUsize::new(0);
        Self { shared: Arc::new(Shared { options, clock, spread, partitions, metrics, hand }) }
    }

    /// How its sessions live.
    pub fn options(&self) -> &SessionOptions {
        &self.shared.options
    }

    /// The partition of a session or a broadcaster.
    fn partition(&self, subject: impl ToString) -> usize {
        match self.shared.spread.partitions() {
            1 => 0,
            _ => self.shared.spread.partition(&subject.to_string()) as usize,
        }
    }

    /// Does something with the partition of a session or a broadcaster.
    fn on<R>(&self, subject: impl ToString, act: impl FnOnce(&mut Partition, u64) -> R) -> R {
        let (partition, _) = &self.shared.partitions[self.partition(subject)];
        act(&mut partition.lock(), self.shared.clock.now().as_millis())
    }

    /// The same with a partition by its number, looking whether a hold runs.
    fn on_all<R>(&self, number: usize, act: impl FnOnce(&mut Partition, u64) -> R) -> R {
        let (partition, holds) = &self.shared.partitions[number];
        let (mut partition, now_ms) = (partition.lock(), self.shared.clock.now().as_millis());
        let answer = act(&mut partition, now_ms);
        holds.note(now_ms, partition.held_until(), None);
        answer
    }

    /// The same with each.
    fn each<R>(&self, act: impl Fn(&mut Partition, u64) -> R) -> impl Iterator<Item = R> {
        (0..self.shared.partitions.len()).map(move |number| self.on_all(number, &act))
    }

    /// The session of `broadcaster`: the one it has, resumed if it was disconnected, or a
    /// new one. Held by `holder`, or for the length of a lease by whoever will connect.
    pub fn activate(
        &self,
        broadcaster: Key<'_>,
        config: &str,
        holder: Option<Key<'_>>,
    ) -> Result<Answer<Activated>> {
        check_text("config", config)?;
        let (number, holder) = (self.partition(broadcaster.as_str()), holder.map_or("", Key::as_str));
        let new = SessionId::random_where(|id| self.partition(id) == number);
        Ok(self
            .on(broadcaster.as_str(), |it, now_ms| {
                it.activate(now_ms, new, broadcaster.as_str(), config, holder)
            })
            .into())
    }

    /// One more holder of an active session.
    pub fn connect<'a>(&self, id: SessionId, holder: impl Into<Holder<'a>>) -> Answer<Lease> {
        let Holder { name, generation } = holder.into();
        self.on(id, |it, now_ms| it.connect(now_ms, id, name.as_str(), generation)).into()
    }

    /// A holder of a session that may have been disconnected: if so, it is active again.
    pub fn resume<'a>(&self, id: SessionId, holder: impl Into<Holder<'a>>) -> Answer<Lease> {
        let Holder { name, generation } = holder.into();
        self.on(id, |it, now_ms| it.resume(now_ms, id, name.as_str(), generation)).into()
    }

    /// A holder is still there: its lease begins anew.
    pub fn heartbeat<'a>(&self, id: SessionId, holder: impl Into<Holder<'a>>) -> Answer<Lease> {
        let Holder { name, generation } = holder.into();
        self.on(id, |it, now_ms| it.heartbeat(now_ms, id, name.as_str(), generation)).into()
    }

    /// A holder leaves. One that does not hold the session changes nothing.
    pub fn disconnect<'a>(&self, id: SessionId, holder: impl Into<Holder<'a>>) -> Answer<Disconnect> {
        let Holder { name, generation } = holder.into();
        self.on(id, |it, now_ms| it.disconnect(now_ms, id, name.as_str(), generation)).into()
    }

    /// A session as it is.
    pub fn get(&self, id: SessionId) -> Option<Session> {
        self.on(id, |it, now_ms| it.get(now_ms, id))
    }

    /// The session that `broadcaster` last activated.
    pub fn find(&self, broadcaster: Key<'_>) -> Option<Session> {
        self.on(broadcaster.as_str(), |it, now_ms| it.find(now_ms, broadcaster.as_str()))
    }

    /// Sets the value of a session, in the life of `generation` if that is given.
    pub fn update(
        &self,
        id: SessionId,
        value: &str,
        generation: Option<Generation>,
    ) -> Result<Answer<Generation>> {
        check_text("value", value)?;
        Ok(self.on(id, |it, now_ms| it.update(now_ms, id, value, generation)).into())
    }

    /// Deletes a session that nobody holds and nobody is reaping, without side effects.
    pub fn delete(&self, id: SessionId) -> Answer<()> {
        let deleted: Answer<()> = self.on(id, |it, now_ms| it.delete(now_ms, id)).into();
        self.shared.metrics.deleted.inc_by(deleted.is_done().into());
        deleted
    }

    /// Up to `limit` sessions that nobody has held for `max_age`, longest first; those behind
    /// `after`, the last of a page, if there is one.
    pub fn orphans(&self, max_age: Duration, after: Option<Listed>, limit: usize) -> List {
        self.list_set(Set::Disconnected, max_age, after, limit)
    }

    /// Up to `limit` sessions that are in `state`; those behind `after`, the last of a page, if
    /// there is one.
    pub fn list(&self, state: State, after: Option<Listed>, limit: usize) -> List {
        let (set, age) = Set::listing(state, &self.shared.options);
        self.list_set(set, age, after, limit)
    }

    pub(super) fn list_set(&self, set: Set, age: Duration, after: Option<Listed>, limit: usize) -> List {
        let (age_ms, limit) = (super::age_ms(age), limit.min(MAX_BATCH));
        List::merged(self.each(|it, now_ms| it.list(now_ms, set, age_ms, after, limit)).collect(), limit)
    }

    /// How many sessions there are.
    pub fn counts(&self) -> Counts {
        let mut counts = Counts::default();
        self.each(Partition::counts).for_each(|it| counts += it);
        self.shared.metrics.counted(&counts);
        counts
    }

    /// Says that somebody is there; until when a hold runs, if one does.
    pub fn stamp(&self) -> Option<Timestamp> {
        self.each(|it, now_ms| it.stamp(now_ms, Duration::ZERO)).flatten().max()
    }

    /// Claims up to `limit` orphans for the length of a claim. Side effects run at least
    /// once for each, with its id and generation as their token; then
    /// [`ack`](Self::ack). What is not acknowledged in time can be claimed again.
    pub fn claim(&self, limit: usize) -> Claims {
        let limit = limit.min(MAX_BATCH);
        let first = self.shared.hand.fetch_add(1, Ordering::Relaxed);
        let mut claiming = Claiming::new(limit, self.shared.partitions.len(), first);
        let claim =
            |(part, number)| (part, number, self.on_all(number, |it, now_ms| it.claim(now_ms, part, limit)));
        while claiming.goes_on_after(claiming.next().into_iter().map(claim).collect()) {}
        let claims = claiming.claims();
        self.shared.metrics.swept(&claims.swept);
        self.shared.metrics.lagged(&claims.swept);
        claims
    }

    /// A claim whose side effects are not done yet holds for longer, unless somebody has
    /// claimed its session since; until when. `attempt` is the claim's.
    pub fn renew(&self, id: SessionId, generation: Generation, attempt: u64) -> Answer<Timestamp> {
        self.on(id, |it, now_ms| it.renew(now_ms, id, generation, attempt)).into()
    }

    /// The side effects of a claim have run: deletes its session, once.
    pub fn ack(&self, id: SessionId, generation: Generation) -> Answer<()> {
        let acked: Answer<()> = self.on(id, |it, now_ms| it.ack(now_ms, id, generation)).into();
        self.shared.metrics.deleted.inc_by(acked.is_done().into());
        acked
    }

    /// Deletes all orphans, without side effects.
    pub fn cleanup(&self) -> Swept {
        let (started, batch) = (clock::monotonic(), self.shared.options.batch);
        let clean = |number| {
            let mut cleanup = Cleanup::default();
            while cleanup.goes_on_after(self.sweep_one(number, batch, Sweep::All)) {}
            cleanup.swept()
        };
        let swept = self.sum_up((0..self.shared.partitions.len()).map(clean));
        self.shared.metrics.seconds.observe(started.elapsed().as_secs_f64());
        swept
    }

    /// What a [`cleanup`](Self::cleanup) would do, by the same judgement, in steps of as many sessions.
    /// Nothing is changed.
    pub fn cleanup_dry_run(&self) -> Swept {
        let mut all = Swept::default();
        for number in 0..self.shared.partitions.len() {
            let mut from = Some(DryRunPlace::default());
            while let Some(place) = from {
                let (swept, next) = self.on_all(number, |it, now_ms| {
                    it.cleanup_dry_run(now_ms, place, self.shared.options.batch)
                });
                all += swept;
                from = next;
            }
        }
        all
    }

    /// Looks after up to `limit` sessions of each partition.
    pub(super) fn sweep(&self, limit: usize, sweep: Sweep) -> Swept {
        let numbers = 0..self.shared.partitions.len();
        self.sum_up(numbers.map(|number| self.sweep_one(number, limit, sweep)))
    }

    fn sweep_one(&self, number: usize, limit: usize, sweep: Sweep) -> Swept {
        let swept = self.on_all(number, |it, now_ms| it.sweep(now_ms, limit, sweep));
        self.shared.metrics.swept(&swept);
        swept
    }

    fn sum_up(&self, swept: impl Iterator<Item = Swept>) -> Swept {
        let mut all = Swept::default();
        swept.for_each(|swept| all += swept);
        self.shared.metrics.lagged(&all);
        all
    }

    /// A session that was claimed too often can be claimed again.
    pub fn retry(&self, id: SessionId) -> Answer<()> {
        self.on(id, |it, now_ms| it.retry(now_ms, id)).into()
    }
}
