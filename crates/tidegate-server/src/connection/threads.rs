//! Threads of a listener's own: each has a runtime for itself and keeps the connections that it was given.
//!
//! A runtime of several threads wakes a second one whenever the first has two requests to answer, and the second goes to
//! sleep again right after: where a request takes a few microseconds that is a tenth of what it costs. What takes longer,
//! as all that has to be asked of a database, is not for these threads.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;

/// Threads, until this is dropped: then they end, with all that is still on them.
#[derive(Debug)]
pub(crate) struct Threads(Vec<Thread>);

#[derive(Debug)]
struct Thread {
    runtime: Handle,
    connections: Arc<AtomicUsize>,
    /// It ends with this.
    _until: oneshot::Sender<()>,
}

/// One connection's place on a thread, for as long as it lives.
pub(super) struct OnThread(Arc<AtomicUsize>);

impl Drop for OnThread {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Threads {
    /// None: connections are for the runtime that accepts them.
    pub(crate) fn none() -> Self {
        Self(Vec::new())
    }

    /// So many of them, as far as the system has them: with none at all connections stay where they are accepted.
    pub(crate) fn start(count: usize) -> Self {
        let started: std::io::Result<Vec<_>> = (0..count).map(|_| Thread::start()).collect();
        Self(started.unwrap_or_else(|error| {
            tracing::warn!(%error, "there are no threads for connections alone");
            Vec::new()
        }))
    }

    /// The one that has the fewest connections, with one more from now on.
    pub(super) fn next(&self) -> Option<(&Handle, OnThread)> {
        let next = self.0.iter().min_by_key(|thread| thread.connections.load(Ordering::Relaxed))?;
        next.connections.fetch_add(1, Ordering::Relaxed);
        Some((&next.runtime, OnThread(Arc::clone(&next.connections))))
    }
}

impl Thread {
    fn start() -> std::io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        let (until, ended) = oneshot::channel::<()>();
        let run = move || {
            // Nothing is ever sent: it ends when the other side is dropped.
            let _ = runtime.block_on(ended);
        };
        std::thread::Builder::new().name("tidegate-edge".to_owned()).spawn(run)?;
        Ok(Self { runtime: handle, connections: Arc::default(), _until: until })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn connections_go_to_who_has_the_fewest() {
        let threads = Threads::start(2);
        let mut open: Vec<_> = (0..4).filter_map(|_| threads.next()).collect();
        let counts =
            || threads.0.iter().map(|thread| thread.connections.load(Ordering::Relaxed)).collect::<Vec<_>>();
        assert_eq!(counts(), [2, 2]);
        open.remove(0);
        assert_eq!(counts(), [1, 2]);
        let (runtime, _place) = threads.next().unwrap();
        assert_eq!(counts(), [2, 2]);
        let name = runtime.spawn(async { std::thread::current().name().map(str::to_owned) });
        assert_eq!(name.await.unwrap().as_deref(), Some("tidegate-edge"));
        assert!(Threads::none().next().is_none());
    }
}
