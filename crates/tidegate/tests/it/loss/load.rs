//! Takes that go on while something happens to the store.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tidegate::limit::{Limit, Source};
use tidegate::{Cost, Key};

use crate::outage::until;

/// Takes from many tasks until it is stopped; counts what the store admitted.
pub(super) struct Load {
    stop: Arc<AtomicBool>,
    admitted: Arc<AtomicU64>,
    decided: Arc<AtomicU64>,
    tasks: Vec<tokio::task::JoinHandle<()>>,
}

impl Load {
    pub(super) fn start(limits: &[Limit], keys: usize) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let (admitted, decided) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let tasks = limits
            .iter()
            .flat_map(|limit| std::iter::repeat_n(limit.clone(), 8))
            .enumerate()
            .map(|(task, limit)| {
                let (stop, admitted, decided) = (stop.clone(), admitted.clone(), decided.clone());
                tokio::spawn(async move {
                    let mut turn = task;
                    while !stop.load(Ordering::Relaxed) {
                        turn += 1;
                        let key = format!("user_{}", turn % keys);
                        let decision = limit.take(Key::new(&key).unwrap(), Cost::ONE).await.unwrap();
                        if decision.source() == Source::Store {
                            decided.fetch_add(1, Ordering::Relaxed);
                            admitted.fetch_add(u64::from(decision.is_admitted()), Ordering::Relaxed);
                        }
                        tokio::task::yield_now().await;
                    }
                })
            })
            .collect();
        Self { stop, admitted, decided, tasks }
    }

    /// Waits until the store has decided `more` further takes.
    pub(super) async fn decided(&self, more: u64) {
        let goal = self.decided.load(Ordering::Relaxed) + more;
        until("the store decides", async || (self.decided.load(Ordering::Relaxed) >= goal).then_some(()))
            .await;
    }

    pub(super) async fn stop(self) -> u64 {
        self.stop.store(true, Ordering::Relaxed);
        for task in self.tasks {
            task.await.unwrap();
        }
        self.admitted.load(Ordering::Relaxed)
    }
}
