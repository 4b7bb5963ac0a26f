//! A worker and its truth, on a clock that a test moves together with tokio's.

use std::time::Duration;

use tidegate::clock::{ManualClock, Timestamp};
use tidegate::random::Random;
use tokio::time::sleep;

use super::history::seen;
use super::list::Seen;
use super::origin::SimOrigin;
use crate::rule::{Rule, Terms};
use crate::worker::key::KeyHasher;
use crate::worker::truth_time::Pace;
use crate::worker::{Request, Worker, WorkerOptions};

pub(super) const START_MS: u64 = 1_000_000;

pub(super) struct Pair {
    pub(super) clock: ManualClock,
    pub(super) origin: SimOrigin,
    pub(super) worker: Worker<SimOrigin>,
}

impl Pair {
    pub(super) fn start(change: impl FnOnce(&mut WorkerOptions)) -> Self {
        let clock = ManualClock::at(Timestamp::from_millis(START_MS));
        let origin = SimOrigin::new(clock.clone(), Random::seeded(5));
        let worker = another(&origin, "w", change);
        Self { clock, origin, worker }
    }

    /// Makes a rule, or puts another version of it in its place.
    pub(super) fn put(&self, id: &str, change: impl FnOnce(&mut Terms)) {
        let mut world = self.origin.world.lock();
        world.made += 1;
        let created_at = world.made;
        let epoch = world.epoch_mut();
        let before = epoch.now().rules.iter().find(|it| it.id == id).map(|it| (**it).clone());
        let terms = Terms::new(format!("/{id}"), "/");
        let new = Rule { id: id.to_owned(), terms, clicks: 0, version: 0, created_at, updated_at: 0 };
        let mut rule = before.unwrap_or(new);
        rule.version += 1;
        rule.terms.destination = format!("https://d.example/{id}/{}", rule.version);
        change(&mut rule.terms);
        epoch.change(id, Some(rule));
    }

    pub(super) fn delete(&self, id: &str) {
        self.origin.world.lock().epoch_mut().change(id, None);
    }

    /// The worker has no rule for that path in memory, though there may be one.
    pub(super) fn forget(&self, path: &str) {
        self.worker.core.write(|state| {
            let (host, hash) = state.hash_of("*", path).unwrap();
            state.forget(hash, host, path);
        });
    }

    /// Time passes, for everybody.
    pub(super) async fn pass(&self, ms: u64) {
        self.clock.advance_ms(ms);
        sleep(Duration::from_millis(ms)).await;
    }

    /// Waits until the worker has all that the truth has.
    pub(super) async fn caught_up(&self) {
        let head = {
            let mut world = self.origin.world.lock();
            world.sent = world.epoch().head();
            world.epoch().mark(world.sent)
        };
        for _ in 0..300 {
            if self.worker.progress().applied == head {
                return;
            }
            self.pass(50).await;
        }
        panic!("{:?} and not {head:?}", self.worker.progress());
    }

    pub(super) async fn get(&self, path: &str) -> Seen {
        ask(&self.worker, path).await
    }

    /// What a path is answered as the truth is now.
    pub(super) fn truth(&self, path: &str) -> Vec<Seen> {
        let world = self.origin.world.lock();
        let now_ms = self.clock.now().as_millis();
        world.epoch().now().may_see("h.example", path, now_ms, |rule| world.is_spent(rule)).0
    }
}

/// One more worker of that truth.
pub(super) fn another(
    origin: &SimOrigin,
    name: &str,
    change: impl FnOnce(&mut WorkerOptions),
) -> Worker<SimOrigin> {
    let mut options = WorkerOptions::new(name);
    options.clock = origin.clock.clone().into();
    change(&mut options);
    Worker::with(origin.clone(), options, Pace::Manual(origin.clock.clone()), KeyHasher::seeded(1))
}

pub(super) async fn ask(worker: &Worker<SimOrigin>, path: &str) -> Seen {
    let request = Request { host: "h.example", path, query: None, is_head: false };
    worker.answer(&request, |outcome, _| seen(&outcome)).await
}

pub(super) fn to(id: &str, version: u64) -> Seen {
    Seen::Redirect(format!("https://d.example/{id}/{version}"))
}
