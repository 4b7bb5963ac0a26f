//! Random histories of calls, clock moves included: a space must answer exactly as the model does,
//! field by field.
//!
//! Over several partitions each has its part of the bound on runs, which is out of reach there.

use std::time::Duration;

use proptest::test_runner::{TestCaseError, TestCaseResult};
use proptest::{prop_assert, prop_assert_eq};

use super::op::{Of, Op, TTL_MS, ops, spaces};
use super::{Face, Kit, ODD_TEXTS, RunModel, START_MS, all_failures, all_in_hour, all_runs, all_to_retry};
use crate::clock::Timestamp;
use crate::run::{Attempt, Hour, RunOptions, Update};
use crate::testkit::history;

/// A space, and the model beside it.
struct Pair<'a, F> {
    face: &'a F,
    max_fields: usize,
    model: RunModel,
}

/// A text that something on the way might read as something else.
fn odd(number: u8) -> String {
    match ODD_TEXTS.get(usize::from(number)) {
        Some(text) => (*text).to_owned(),
        None => format!("text {number}"),
    }
}

impl<F: Face> Pair<'_, F> {
    fn now(&self) -> u64 {
        self.face.clock().now().as_millis()
    }

    fn set(&self, at_ms: u64) {
        // Before the first hour nothing happens, and a history does not last for years.
        let at_ms = at_ms.clamp(START_MS - TTL_MS, START_MS + 100 * TTL_MS);
        self.face.clock().set(Timestamp::from_millis(at_ms));
    }

    fn attempt(&self, run: &str, of: Of) -> Option<Attempt> {
        let right = self.model.attempt(run).unwrap_or(1);
        match of {
            Of::Any => None,
            Of::Right => Some(Attempt::new(right)),
            Of::Before => Some(Attempt::new((right - 1).max(1))),
            Of::After => Some(Attempt::new(right + 1)),
        }
    }

    async fn start(&mut self, run: &str) -> TestCaseResult {
        let (now, started) = (self.now(), self.face.start(run).await.unwrap());
        prop_assert_eq!(started, self.model.start(now, run));
        Ok(())
    }

    /// Everything that can be asked about one run.
    async fn look(&mut self, run: &str) -> TestCaseResult {
        let (now, face) = (self.now(), self.face);
        prop_assert_eq!(face.get(run).await.unwrap(), self.model.get(now, run));
        prop_assert_eq!(face.progress(run).await.unwrap(), self.model.progress(now, run));
        prop_assert_eq!(face.tasks(run).await.unwrap(), self.model.tasks(now, run));
        prop_assert_eq!(all_failures(face, run, 1000).await, self.model.failures(now, run));
        prop_assert_eq!(all_to_retry(face, run, 1000).await, self.model.retry_list(now, run));
        let items: Vec<_> = (0..16).map(odd).collect();
        let items: Vec<_> = items.iter().map(String::as_str).collect();
        let answer = face.is_processed(run, &items).await.unwrap();
        prop_assert_eq!(answer, self.model.is_processed(now, run, &items));
        Ok(())
    }

    async fn step(&mut self, op: &Op) -> TestCaseResult {
        let (now, face) = (self.now(), self.face);
        match op {
            Op::Start { run } => self.start(&odd(*run)).await?,
            Op::Get { run } => {
                let run = odd(*run);
                prop_assert_eq!(face.get(&run).await.unwrap(), self.model.get(now, &run));
            }
            Op::List { state, limit } => {
                prop_assert_eq!(all_runs(face, *state, *limit).await, self.model.list(now, *state));
            }
            Op::Update { run, of, state, fields, total } => {
                let run = odd(*run);
                let attempt = self.attempt(&run, *of);
                let mut update = Update::new();
                (update.state, update.total) = (*state, *total);
                for (name, value) in fields {
                    update.fields.insert(odd(*name), value.map(odd));
                }
                match face.update(&run, attempt, &update).await {
                    Ok(updated) => {
                        prop_assert_eq!(updated, self.model.update(now, &run, attempt, &update));
                    }
                    // More at once than a run may ever have.
                    Err(error) => {
                        prop_assert_eq!(error.kind(), crate::ErrorKind::Invalid);
                        prop_assert!(update.fields.values().flatten().count() > self.max_fields);
                    }
                }
            }
            Op::Finish { run, of, state } => {
                let run = odd(*run);
                let attempt = self.attempt(&run, *of);
                let finished = face.finish(&run, attempt, *state).await.unwrap();
                prop_assert_eq!(finished, self.model.finish(now, &run, attempt, *state));
            }
            Op::Retry { run, of } => {
                let run = odd(*run);
                // None is before the first.
                let from = Attempt::new(self.attempt(&run, *of).map_or(1, |it| it.get().max(1)));
                let retried = face.retry(&run, from).await.unwrap();
                prop_assert_eq!(retried, self.model.retry(now, &run, from));
            }
            Op::Expire { run, of, after_ms } => {
                let (run, after) = (odd(*run), Duration::from_millis(*after_ms));
                let attempt = self.attempt(&run, *of);
                let expired = face.expire(&run, attempt, after).await.unwrap();
                prop_assert_eq!(expired, self.model.expire(now, &run, attempt, after));
            }
            Op::Delete { run, of } => {
                let run = odd(*run);
                let attempt = self.attempt(&run, *of);
                let deleted = face.delete(&run, attempt).await.unwrap();
                prop_assert_eq!(deleted, self.model.delete(now, &run, attempt));
            }
            Op::Processed { run, of, items } => {
                let run = odd(*run);
                let attempt = self.attempt(&run, *of);
                let items: Vec<_> = items.iter().copied().map(odd).collect();
                let items: Vec<_> = items.iter().map(String::as_str).collect();
                let processed = face.processed(&run, attempt, &items).await.unwrap();
                prop_assert_eq!(processed, self.model.processed(now, &run, attempt, &items));
            }
            Op::IsProcessed { run, items } => {
                let run = odd(*run);
                let items: Vec<_> = items.iter().copied().map(odd).collect();
                let items: Vec<_> = items.iter().map(String::as_str).collect();
                let answer = face.is_processed(&run, &items).await.unwrap();
                prop_assert_eq!(answer, self.model.is_processed(now, &run, &items));
            }
            Op::Progress { run } => {
                let run = odd(*run);
                prop_assert_eq!(face.progress(&run).await.unwrap(), self.model.progress(now, &run));
            }
            Op::TaskStarted { run, of, task } => {
                let (run, task) = (odd(*run), odd(*task));
                let attempt = self.attempt(&run, *of);
                let started = face.task_started(&run, attempt, &task).await.unwrap();
                prop_assert_eq!(started, self.model.task_started(now, &run, attempt, &task));
            }
            Op::TaskFinished { run, of, task } => {
                let (run, task) = (odd(*run), odd(*task));
                let attempt = self.attempt(&run, *of);
                let finished = face.task_finished(&run, attempt, &task).await.unwrap();
                prop_assert_eq!(finished, self.model.task_finished(now, &run, attempt, &task));
            }
            Op::Tasks { run } => {
                let run = odd(*run);
                prop_assert_eq!(face.tasks(&run).await.unwrap(), self.model.tasks(now, &run));
            }
            Op::Failed { run, of, item, reason, id } => {
                let (run, item, reason, id) = (odd(*run), odd(*item), odd(*reason), odd(*id));
                let attempt = self.attempt(&run, *of);
                let failed = face.failed(&run, attempt, &item, &reason, &id).await.unwrap();
                prop_assert_eq!(failed, self.model.failed(now, &run, attempt, &item, &reason, &id));
            }
            Op::Failures { run, limit } => {
                let run = odd(*run);
                let failures = all_failures(face, &run, *limit).await;
                prop_assert_eq!(failures, self.model.failures(now, &run));
            }
            Op::RetryList { run, limit } => {
                let run = odd(*run);
                let failures = all_to_retry(face, &run, *limit).await;
                prop_assert_eq!(failures, self.model.retry_list(now, &run));
            }
            Op::FailuresInHour { back, limit } => {
                let hour = Hour::of(Timestamp::from_millis(now - back * 3_600_000));
                let failures = all_in_hour(face, hour, *limit).await;
                prop_assert_eq!(failures, self.model.failures_in_hour(now, hour));
            }
            Op::Cleanup => {
                face.cleanup().await.unwrap();
                self.model.cleanup(now);
            }
            Op::Move { by_ms } => self.set(now.strict_add_signed(*by_ms)),
            Op::MoveTo { edge, off_ms } => {
                let edges: Vec<_> = self.model.edges().into_iter().filter(|at| *at + 1 >= now).collect();
                let Some(at) = edges.get(usize::from(*edge) % edges.len().max(1)) else { return Ok(()) };
                self.set(at.strict_add_signed(*off_ms));
            }
            Op::Absurd { run } => {
                self.set(now + 3 * TTL_MS);
                self.start(&odd(*run)).await?;
                self.set(now);
            }
        }
        Ok(())
    }
}

async fn agree(kit: &impl Kit, mut options: RunOptions, history: &[Op]) -> TestCaseResult {
    if kit.is_partitioned() {
        options.max_runs = 10_000;
    }
    let face = kit.fresh(options.clone()).await;
    let mut pair = Pair { face: &face, max_fields: options.max_fields, model: RunModel::new(options) };
    for (step, op) in history.iter().enumerate() {
        let agreed = pair.step(op).await;
        agreed.map_err(|error| TestCaseError::fail(format!("step {step}, {op:?}: {error}")))?;
    }
    // Whatever was not asked for is also as it should be.
    for run in 0..6 {
        pair.look(&odd(run)).await?;
    }
    let now = pair.now();
    prop_assert_eq!(all_runs(&face, None, 1000).await, pair.model.list(now, None));
    kit.look_below(&face);
    Ok(())
}

/// Runs so many random operations on spaces of `kit` and on the model.
pub fn check(kit: &impl Kit, operations: usize) {
    // Histories have 60 operations in the mean.
    history::run(operations / 60, &(spaces(), ops()), async |(options, history)| {
        agree(kit, options, &history).await
    });
}
