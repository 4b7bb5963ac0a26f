//! Leases: a node takes a block of permits from the store and spends it without
//! asking, and over all nodes the limit still holds.
//!
//! The store counts a block as if it were spent when the lease ends. A lease ends
//! here no later than there: its time is counted from before it was asked for, on a
//! clock that goes on while the machine sleeps, less a margin for its drift. So
//! whatever happens to this process, nothing is spent that is no longer counted.
//! Reports of what was spent let it count from then on as of the report; what is
//! left over goes back, when the key falls idle, when the lease ends and on shutdown.
//!
//! Blocks grow and shrink with the demand. The next one is asked for in the
//! background while there is still something left. When there is nothing to be had,
//! the store says until when, and it is not asked before.

mod spending;

use std::collections::VecDeque;
use std::hash::BuildHasher as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use compact_str::{CompactString, format_compact};
use futures_util::StreamExt as _;
use hashbrown::HashMap;
use parking_lot::Mutex;
use tokio::sync::Notify;

use self::spending::{Block, FIRST_BLOCK, MAX_BLOCKS, Plan, Spending};
pub(super) use self::spending::{Grant, Report};
use super::algorithm::Algorithm;
use super::decision::Decision;
use super::lease_options::{LeaseOptions, Size};
use super::redis::OnRedis;
use super::tally::Tally;
use crate::error::{Error, Result};
use crate::key::Key;
use crate::log;
use crate::random::Random;

/// The most keys that are leased at a time; others are asked for each permit.
const MAX_KEYS: usize = 100_000;

/// How long the store is left alone after it did not answer.
const PAUSE: Duration = Duration::from_millis(100);

/// What this node holds of a limit.
#[derive(Debug)]
pub(super) struct Leases {
    size: Size,
    algorithm: Algorithm,
    window_size_seconds: u64,
    store: Arc<OnRedis>,
    shards: Box<[Mutex<Shard>]>,
    hasher: foldhash::fast::RandomState,
    random: Random,
    counts: Counts,
}

#[derive(Debug, Default)]
struct Shard {
    keys: HashMap<CompactString, Spending, foldhash::fast::RandomState>,
    tally: Tally,
}

/// What became of leases so far.
#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) leases: AtomicU64,
    pub(super) granted: AtomicU64,
    pub(super) returned: AtomicU64,
    /// Permits of the block granted last.
    pub(super) size: AtomicU64,
}

/// How long a key's task has to look after it.
enum Until {
    /// A block, and how much was in it.
    Ended(Duration, u64),
    /// Nothing, unless somebody asks for the key.
    Idle,
}

/// What a call finds.
enum Found {
    /// And whether the next block is to be asked for.
    Decided(Decision, bool),
    /// The store is being asked.
    Wait(Arc<Notify>),
    /// The store is to be asked.
    Refill(Arc<Notify>),
    /// Nothing can be held.
    Nothing,
    /// The store did not answer.
    Away,
    /// It did, and that it cannot: that is no outage.
    Failed(Error),
}

/// Who decides about a take.
pub(super) enum Taken {
    /// This node did.
    Decided(Decision),
    /// The store has to: there is nothing to hold, or not enough at once.
    NotLeased,
    /// Nobody: the store has been waited for.
    Away,
    /// Nobody: the store is there and cannot.
    Failed(Error),
}

impl Leases {
    /// None if the limit is too small to be shared.
    pub(super) fn new(
        options: LeaseOptions,
        algorithm: Algorithm,
        store: Arc<OnRedis>,
        random: Random,
    ) -> Result<Option<Arc<Self>>> {
        let Some(size) = options.size(&algorithm)? else {
            log::info!(
                capacity = algorithm.capacity(),
                "limit is too small to be leased: each take asks the store"
            );
            return Ok(None);
        };
        let cores = std::thread::available_parallelism().map_or(4, usize::from);
        let shards = (0..(cores * 16).next_power_of_two()).map(|_| Mutex::default()).collect();
        let window_size_seconds = algorithm.window_size_seconds();
        let (hasher, counts) = (foldhash::fast::RandomState::default(), Counts::default());
        Ok(Some(Arc::new(Self {
            size,
            algorithm,
            window_size_seconds,
            store,
            shards,
            hasher,
            random,
            counts,
        })))
    }

    /// Takes from what this node holds, without waiting: most takes end here.
    #[inline]
    pub(super) fn try_take(self: &Arc<Self>, key: Key<'_>, cost: u64) -> Option<Decision> {
        let mut guard = self.shard(key.as_str()).lock();
        let shard = &mut *guard;
        let now = self.now();
        let spending = shard.keys.get_mut(key.as_str())?;
        let (decision, is_due) = spending.take(now, cost, self.window_size_seconds)?;
        shard.tally.count(true);
        if is_due {
            drop(guard);
            self.request_more(key);
        }
        Some(decision)
    }

    /// Gets something to hold, and takes from it.
    pub(super) async fn take(self: &Arc<Self>, key: Key<'_>, cost: u64) -> Taken {
        if cost > self.size.most {
            return Taken::NotLeased;
        }
        for has_waited in [false, true] {
            let answered = match self.look(key, cost, has_waited) {
                Found::Decided(decision, is_due) => {
                    if is_due {
                        self.request_more(key);
                    }
                    return Taken::Decided(decision);
                }
                Found::Wait(answered) => answered,
                Found::Refill(answered) => {
                    self.request_more(key);
                    answered
                }
                Found::Nothing => return Taken::NotLeased,
                // Whoever has waited has waited for as long as a call may take.
                Found::Away if has_waited => return Taken::Away,
                Found::Away => return Taken::NotLeased,
                Found::Failed(error) => return Taken::Failed(error),
            };
            let waiting = answered.notified();
            tokio::pin!(waiting);
            // It may have been answered before we began to wait.
            waiting.as_mut().enable();
            if self.is_refilling(key, &answered) {
                waiting.await;
            }
        }
        Taken::NotLeased
    }

    /// Forgets that a key is dry, or cannot be read: something has been done that may have changed it.
    pub(super) fn refresh(&self, key: Key<'_>) {
        if let Some(spending) = self.shard(key.as_str()).lock().keys.get_mut(key.as_str()) {
            spending.dry_until = Duration::ZERO;
            if spending.failure.take().is_some() {
                spending.failed_until = Duration::ZERO;
            }
        }
    }

    /// In the background: a caller that gives up must not take the answer with it.
    fn request_more(self: &Arc<Self>, key: Key<'_>) {
        let (leases, key) = (self.clone(), CompactString::from(key.as_str()));
        tokio::spawn(leases.refill(key));
    }

    fn shard(&self, key: &str) -> &Mutex<Shard> {
        &self.shards[self.hasher.hash_one(key) as usize & (self.shards.len() - 1)]
    }

    fn is_refilling(&self, key: Key<'_>, answered: &Arc<Notify>) -> bool {
        let shard = self.shard(key.as_str()).lock();
        let spending = shard.keys.get(key.as_str());
        spending.and_then(|it| it.refilling.as_ref()).is_some_and(|it| Arc::ptr_eq(it, answered))
    }

    fn now(&self) -> Duration {
        self.store.since_boot()
    }

    /// One short critical section: the clock is read inside it, and that reading is
    /// the decision's time.
    fn look(&self, key: Key<'_>, cost: u64, has_waited: bool) -> Found {
        let mut guard = self.shard(key.as_str()).lock();
        let shard = &mut *guard;
        let now = self.now();
        let Some(spending) = shard.keys.get_mut(key.as_str()) else {
            return self.first(shard, key, now, cost);
        };
        if let Some((decision, is_due)) = spending.take(now, cost, self.window_size_seconds) {
            shard.tally.count(true);
            return Found::Decided(decision, is_due);
        }
        spending.largest = spending.largest.max(cost);
        if spending.dry_until > now {
            shard.tally.count(false);
            return Found::Decided(spending.refuse(now, cost, self.window_size_seconds), false);
        }
        match &spending.refilling {
            Some(answered) => Found::Wait(answered.clone()),
            // The store has not answered: it is asked directly for a while, which it
            // answers at once or not at all.
            None if spending.failed_until > now => match &spending.failure {
                Some(error) => Found::Failed(error.clone()),
                None => Found::Away,
            },
            // It has been asked, and there was not enough.
            None if has_waited => Found::Nothing,
            None => Found::Refill(spending.refilling.insert(Arc::default()).clone()),
        }
    }

    fn first(&self, shard: &mut Shard, key: Key<'_>, now: Duration, cost: u64) -> Found {
        if shard.keys.len() >= MAX_KEYS / self.shards.len() {
            return Found::Nothing;
        }
        let answered = Arc::<Notify>::default();
        let spending = Spending {
            blocks: VecDeque::new(),
            dry_until: Duration::ZERO,
            failed_until: Duration::ZERO,
            is_held: false,
            failure: None,
            is_watched: false,
            refilling: Some(answered.clone()),
            block: FIRST_BLOCK.max(cost).min(self.size.most),
            largest: cost,
            spent: 0,
            refilled: now,
            store_free: 0,
            reset_at: now,
            capacity: self.algorithm.capacity(),
        };
        shard.keys.insert(key.as_str().into(), spending);
        Found::Refill(answered)
    }

    /// Tells the store what was spent, and asks for the next block unless there is
    /// nothing to be had. Whoever calls this has set `refilling`.
    async fn refill(self: Arc<Self>, key: CompactString) {
        let plan = {
            let mut shard = self.shard(&key).lock();
            let now = self.now();
            let Some(spending) = shard.keys.get_mut(&key) else { return };
            spending.plan(now, self.size)
        };
        let id = format_compact!("{:016x}", self.random.bits());
        // The lease's time is counted from before it is asked for.
        let requested_at = self.now();
        let Plan { wanted, reports } = plan;
        let answer = self.store.lease(Key::raw(&key), &id, wanted, self.size.duration, &reports).await;
        let (answered, until) = {
            let mut shard = self.shard(&key).lock();
            let Some(spending) = shard.keys.get_mut(&key) else { return };
            let until = match answer {
                Ok(grant) => {
                    let returned = spending.note_reported(&reports);
                    self.counts.returned.fetch_add(returned, Ordering::Relaxed);
                    spending.learn(requested_at, &grant);
                    self.hold(spending, id.clone(), requested_at, wanted, &grant)
                }
                Err(error) => {
                    spending.failed_until = self.now() + PAUSE;
                    spending.failure = (!error.is_transient()).then_some(error);
                    Until::Idle
                }
            };
            let until = match until {
                // One that forgets it is enough.
                Until::Idle if std::mem::replace(&mut spending.is_watched, true) => None,
                until => Some(until),
            };
            (spending.refilling.take(), until)
        };
        answered.inspect(|answered| answered.notify_waiters());
        tokio::spawn(async move {
            match until {
                Some(Until::Ended(ends, granted)) => self.tend(&key, &id, ends, granted).await,
                Some(Until::Idle) => self.forget_when_idle(&key).await,
                None => {}
            }
        });
    }

    /// Waits until nothing is known of a key any more, and forgets it.
    async fn forget_when_idle(&self, key: &str) {
        loop {
            let rest = {
                let shard = self.shard(key).lock();
                let Some(spending) = shard.keys.get(key) else { return };
                spending.dry_until.max(spending.failed_until).saturating_sub(self.now())
            };
            tokio::time::sleep(rest.max(self.size.duration)).await;
            if self.forget(key) {
                return;
            }
        }
    }

    /// Puts what was granted where it can be spent.
    fn hold(
        &self,
        spending: &mut Spending,
        id: CompactString,
        requested_at: Duration,
        wanted: u64,
        grant: &Grant,
    ) -> Until {
        let Grant { granted, lasting_ms, .. } = *grant;
        if granted == 0 {
            if grant.dry_ms == 0 && grant.free > 0 && spending.blocks.len() < MAX_BLOCKS && wanted > 0 {
                // There is something, and too many hold some of it already.
                spending.failed_until = requested_at + self.size.duration / 4;
            }
            return Until::Idle;
        }
        let ends = requested_at + Duration::from_millis(lasting_ms).saturating_sub(self.size.margin);
        spending.blocks.push_back(Block { id, ends, granted, left: granted, reported: 0, returned: 0 });
        self.counts.leases.fetch_add(1, Ordering::Relaxed);
        self.counts.granted.fetch_add(granted, Ordering::Relaxed);
        self.counts.size.store(granted, Ordering::Relaxed);
        Until::Ended(ends, granted)
    }

    /// Looks after a block until it ends: what nobody spends for a quarter of its
    /// time goes back early.
    async fn tend(&self, key: &str, id: &str, ends: Duration, granted: u64) {
        let mut seen = granted;
        while let now = self.now()
            && now < ends
        {
            tokio::time::sleep((ends - now).min(self.size.duration / 4)).await;
            let shard = self.shard(key).lock();
            let Some(spending) = shard.keys.get(key) else { return };
            let Some(block) = spending.blocks.iter().find(|block| block.id == id) else { return };
            if block.left == seen {
                break;
            }
            seen = block.left;
        }
        self.give_back(key, Some(id)).await;
        self.forget(key);
    }

    /// Forgets a key that holds nothing and knows nothing; whether it is gone.
    fn forget(&self, key: &str) -> bool {
        let mut shard = self.shard(key).lock();
        let now = self.now();
        let is_idle = |it: &Spending| {
            it.blocks.is_empty() && it.refilling.is_none() && it.dry_until <= now && it.failed_until <= now
        };
        if !shard.keys.get(key).is_none_or(is_idle) {
            return false;
        }
        shard.keys.remove(key);
        true
    }

    /// Returns what is left of a block, or of all of them.
    async fn give_back(&self, key: &str, id: Option<&str>) {
        let reports: Vec<_> = {
            let mut shard = self.shard(key).lock();
            let Some(spending) = shard.keys.get_mut(key) else { return };
            let blocks = std::mem::take(&mut spending.blocks);
            let (back, kept) = blocks.into_iter().partition(|block| id.is_none_or(|id| block.id == id));
            spending.blocks = kept;
            let back: VecDeque<Block> = back;
            back.into_iter().map(Block::ended).map(|block| block.report()).collect()
        };
        for report in reports {
            let returned = report.returned;
            // Whatever is not heard of ends by itself.
            if self.store.lease(Key::raw(key), "", 0, self.size.duration, &[report]).await.is_ok() {
                self.counts.returned.fetch_add(returned, Ordering::Relaxed);
            }
        }
    }

    /// Returns everything, many keys at a time.
    pub(super) async fn end(&self) {
        let keys = self.shards.iter().flat_map(|shard| shard.lock().keys.keys().cloned().collect::<Vec<_>>());
        let back = keys.collect::<Vec<_>>().into_iter().map(|key| async move {
            self.give_back(&key, None).await;
            self.forget(&key);
        });
        futures_util::stream::iter(back).for_each_concurrent(64, |it| it).await;
    }

    pub(super) fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Permits held now.
    pub(super) fn held(&self) -> u64 {
        let now = self.now();
        let held = |shard: &Mutex<Shard>| shard.lock().keys.values().map(|key| key.left(now)).sum::<u64>();
        self.shards.iter().map(held).sum()
    }

    /// Decisions so far.
    pub(super) fn tally(&self) -> Tally {
        self.shards.iter().fold(Tally::default(), |sum, shard| sum + shard.lock().tally)
    }
}
