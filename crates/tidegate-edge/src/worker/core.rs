//! What all of a worker's tasks stand on.

use std::sync::Arc;

use parking_lot::{Mutex, RwLock};
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::blocks::Blocks;
use super::cache::Cache;
use super::clicks::Clicks;
use super::fetch::Fetches;
use super::key::KeyHasher;
use super::memory::resident_bytes;
use super::metrics::WorkerMetrics;
use super::options::WorkerOptions;
use super::reserved::ReservedBytes;
use super::state::{Bounds, Ownership, State};
use super::truth_time::Pace;
use crate::stream::Mark;

/// Of all bytes, the part that rules for folders may take unless said otherwise.
const FOLDERS_PART: usize = 4;

/// Of all bytes, the part that a filter may take.
const FILTER_PART: usize = 2;

/// A worker's memory, and where it has it from.
#[derive(Debug)]
pub(crate) struct Core<O> {
    pub(super) origin: O,
    pub(super) options: WorkerOptions,
    state: RwLock<State>,
    pub(super) pace: Pace,
    /// Where the truth is asked, whoever needs it: not on a thread that only has connections.
    runtime: Handle,
    pub(super) blocks: Blocks,
    pub(super) clicks: Clicks,
    pub(super) fetches: Fetches,
    /// Room for what is being read.
    pub(super) reserved: ReservedBytes,
    /// Changes whenever more was applied.
    pub(super) moved: watch::Sender<u64>,
    /// Somebody has heard of another time of the database.
    pub(super) other_epoch: watch::Sender<()>,
    pub(super) following: Mutex<Following>,
    /// What the process had in memory when this began.
    pub(super) resident_before: usize,
    pub(super) metrics: WorkerMetrics,
}

/// How following is going.
#[derive(Debug, Clone, Default)]
pub(crate) struct Following {
    pub(crate) is_connected: bool,
    /// When it was last known what the truth has, of the worker's time.
    pub(crate) heard_ms: Option<u64>,
    /// Since when it is not connected.
    pub(crate) away_since_ms: Option<u64>,
    /// Why.
    pub(crate) reason: Option<String>,
    /// The truth's last change that was heard of.
    pub(crate) head: Option<Mark>,
    /// When rules for folders were last read anew because they did not fit.
    pub(crate) tried_ms: u64,
}

impl<O> Core<O> {
    /// Needs a tokio runtime: the truth is asked there.
    pub(super) fn new(origin: O, options: WorkerOptions, pace: Pace, hasher: KeyHasher) -> Arc<Self> {
        let bounds = Bounds {
            all: options.max_bytes,
            trees: options.max_folder_bytes.unwrap_or(options.max_bytes / FOLDERS_PART),
            filter: options.max_bytes / FILTER_PART,
            beside: 0,
        };
        let cache = || Cache::new(options.max_bytes, options.eviction_batch);
        let foreign =
            options.owners.clone().map(|owners| (Ownership { owners, name: options.name.clone() }, cache()));
        // Numbers grow by one for each block or report, far slower than this.
        let first = options.clock.now().as_millis().saturating_mul(1000);
        Arc::new(Self {
            state: RwLock::new(State::new(hasher, cache(), foreign, bounds)),
            blocks: Blocks::new(options.name.clone(), first),
            clicks: Clicks::new(options.name.clone(), first),
            fetches: Fetches::default(),
            reserved: ReservedBytes::default(),
            moved: watch::Sender::new(0),
            other_epoch: watch::Sender::default(),
            following: Mutex::default(),
            resident_before: resident_bytes().unwrap_or(0),
            metrics: WorkerMetrics::default(),
            pace,
            runtime: Handle::current(),
            origin,
            options,
        })
    }

    /// Works where the worker was started.
    pub(super) fn spawn<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> JoinHandle<T> {
        self.runtime.spawn(work)
    }

    /// Reads what is in memory.
    #[inline]
    pub(super) fn read<R>(&self, read: impl FnOnce(&State) -> R) -> R {
        read(&self.state.read())
    }

    /// Changes what is in memory. Clicks of rules that leave by it are gathered, and evictions counted.
    pub(super) fn write<R>(&self, change: impl FnOnce(&mut State) -> R) -> R {
        let beside = self.blocks.bytes() + self.clicks.bytes() + self.fetches.bytes();
        let mut state = self.state.write();
        // What is set aside becomes part of what is here by who has the lock.
        state.bounds.beside = beside + self.reserved.get();
        let evicted_before = state.evicted();
        let result = change(&mut state);
        // Who replaces what is here sets aside less by it.
        state.bounds.beside = beside + self.reserved.get();
        let left = std::mem::take(&mut state.left_clicks);
        let (evicted, items, bytes, max_bytes) =
            (state.evicted() - evicted_before, state.cache.len(), state.bytes(), state.bounds.all);
        state.peak_bytes = state.peak_bytes.max(bytes);
        drop(state);
        if evicted > 0 && self.options.log_evictions {
            let worker = &self.options.name;
            tracing::info!(
                worker,
                evicted,
                items,
                bytes,
                max_bytes,
                "rules have left to make room for others"
            );
        }
        if !left.is_empty() {
            self.clicks.add(&left);
        }
        result
    }

    /// What was applied.
    pub(super) fn applied(&self) -> Option<Mark> {
        self.read(|state| state.applied.clone())
    }

    /// The truth's time.
    pub(super) fn now_ms(&self) -> u64 {
        let elapsed_ms = self.pace.elapsed_ms();
        self.read(|state| state.time.now_ms(elapsed_ms))
    }
}
