//! The worker side of redirects: answers from memory, kept true by the change stream.
//!
//! A worker has a filter over every rule for one path that there is in the database, all rules for folders, and as many of
//! the others as fit. What the filter does not know is not there, without asking anybody; what it knows and is not in
//! memory is asked for once, however many wait.

mod answer;
mod apply;
mod blocks;
pub mod cache;
mod clicks;
mod core;
pub mod entry;
mod fetch;
pub mod filter;
mod follow;
mod hosts;
pub mod key;
mod keys;
mod load;
mod looks;
mod memory;
mod metrics;
mod negatives;
mod options;
mod origin;
pub mod owner;
mod recent;
mod report;
mod reserved;
mod size_class;
mod state;
mod trace;
pub mod tree;
mod truth_time;
mod upkeep;

use std::sync::Arc;

use prometheus_client::registry::Registry;
use tokio::task::JoinHandle;

use self::answer::Needed;
pub use self::answer::{Outcome, Request, Source};
use self::core::Core;
use self::key::KeyHasher;
pub use self::options::{Hydrate, WorkerOptions};
pub use self::origin::{Local, LocalChanges, LocalSnapshot, Origin, OriginChanges, OriginSnapshot};
pub use self::report::{CacheReport, Explanation, Progress};
use self::truth_time::Pace;

/// A worker. Clones are one; it works until the last is dropped or it is [stopped](Self::stop).
#[derive(Debug)]
pub struct Worker<O: Origin> {
    core: Arc<Core<O>>,
    tasks: Arc<Tasks>,
}

impl<O: Origin> Clone for Worker<O> {
    fn clone(&self) -> Self {
        Self { core: Arc::clone(&self.core), tasks: Arc::clone(&self.tasks) }
    }
}

#[derive(Debug)]
struct Tasks(Vec<JoinHandle<()>>);

impl Tasks {
    fn end(&self) {
        self.0.iter().for_each(JoinHandle::abort);
    }
}

impl Drop for Tasks {
    fn drop(&mut self) {
        self.end();
    }
}

/// An answer that has to be waited for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pending(());

impl<O: Origin> Worker<O> {
    /// Begins to follow. Needs a tokio runtime.
    pub fn start(origin: O, options: WorkerOptions) -> Self {
        Self::with(origin, options, Pace::new(), KeyHasher::random())
    }

    fn with(origin: O, options: WorkerOptions, pace: Pace, hasher: KeyHasher) -> Self {
        let core = Core::new(origin, options, pace, hasher);
        let following = tokio::spawn(follow::follow(Arc::clone(&core)));
        let upkeep = tokio::spawn(upkeep::upkeep(Arc::clone(&core)));
        Self { core, tasks: Arc::new(Tasks(vec![following, upkeep])) }
    }

    /// Answers from memory, without waiting: what is answered is handed to `write`. If more is needed than memory has,
    /// it has to be [waited for](Self::answer).
    #[inline]
    pub fn try_answer<R>(
        &self,
        request: &Request<'_>,
        mut write: impl FnMut(Outcome<'_>, Source) -> R,
    ) -> Result<R, Pending> {
        self.core.try_answer(request, &mut write).map_err(|_: Needed| Pending(()))
    }

    /// Answers from memory, or asks the truth, within the deadline.
    pub async fn answer<R>(&self, request: &Request<'_>, write: impl FnMut(Outcome<'_>, Source) -> R) -> R {
        self.core.answer(request, write).await
    }

    /// How long a request waits for what has to be asked of the truth.
    pub fn deadline(&self) -> std::time::Duration {
        self.core.options.deadline
    }

    /// Puts what is counted here into a registry.
    pub fn register_metrics(&self, registry: &mut Registry) {
        self.core.metrics.register(registry);
        report::register(&self.core, registry);
    }

    /// Ends: gives all permits back and tells of all clicks, once. Whether the truth has heard of all.
    pub async fn stop(&self) -> bool {
        self.core.blocks.close();
        self.tasks.end();
        let mut is_all = self.core.tell_all_clicks().await;
        while self.core.blocks.has_returns() && is_all {
            is_all = self.core.give_back(None).await.is_some();
        }
        is_all
    }
}

#[cfg(test)]
mod tests;
