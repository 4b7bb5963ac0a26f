//! What a run in this process has done: items, tasks, failures.

use std::time::Duration;

use compact_str::CompactString;

use super::Partition;
use super::entry::{FailedItem, TaskEntry};
use crate::clock::Timestamp;
use crate::key::Key;
use crate::page::{Cursor, member};
use crate::run::progress::{Measured, Progress};
use crate::run::types::{Attempt, FailureNoted, Granted, Processed, Refusal, Task, TaskStarted, duration};

impl Partition {
    pub(in crate::run) fn processed(
        &mut self,
        clock_ms: u64,
        run: Key<'_>,
        attempt: Option<Attempt>,
        items: &[Key<'_>],
    ) -> Granted<Processed> {
        let (new, is_full, processed) = self.change(clock_ms, run, attempt, |entry, _, bounds| {
            let (mut new, mut is_full) = (0, false);
            for item in items.iter().map(|item| item.as_str()) {
                if !entry.processed.contains(item) {
                    if entry.processed.len() as u64 >= bounds.max_processed {
                        is_full = true;
                        continue;
                    }
                    entry.processed.insert(item.into());
                    new += 1;
                }
                entry.settle(item);
            }
            Ok(((new, is_full, entry.processed.len() as u64), true))
        })?;
        if is_full { Err(Refusal::Full { taken: new }) } else { Ok(Processed { new, processed }) }
    }

    pub(in crate::run) fn is_processed(
        &self,
        clock_ms: u64,
        run: Key<'_>,
        items: &[Key<'_>],
    ) -> Granted<Vec<bool>> {
        let (entry, _) = self.read(clock_ms, run)?;
        Ok(items.iter().map(|item| entry.processed.contains(item.as_str())).collect())
    }

    pub(in crate::run) fn progress(&self, clock_ms: u64, run: Key<'_>) -> Granted<Progress> {
        let (entry, at) = self.read(clock_ms, run)?;
        let measured = Measured {
            state: entry.meant(None)?,
            processed: entry.processed.len() as u64,
            processed_before: entry.processed_before,
            failed: entry.failures.len() as u64,
            to_retry: entry.to_retry.len() as u64,
            total: entry.total,
            since_ms: entry.attempt_started_ms,
            until_ms: entry.finished_ms.unwrap_or(at.now_ms),
            // With this process all of it is gone.
            lost_ms: None,
        };
        Ok(measured.into())
    }

    pub(in crate::run) fn task_started(
        &mut self,
        clock_ms: u64,
        run: Key<'_>,
        attempt: Option<Attempt>,
        task: Key<'_>,
    ) -> Granted<TaskStarted> {
        self.change(clock_ms, run, attempt, |entry, at, bounds| {
            match entry.tasks.get(task.as_str()) {
                // Finished or not: a call may come twice, and late.
                Some(known) if known.attempt == entry.attempt => {
                    let started_at = Timestamp::from_millis(known.started_ms);
                    return Ok((TaskStarted { started_at, is_new: false }, false));
                }
                None if entry.tasks.len() as u64 >= bounds.max_tasks => return Err(Refusal::TooManyTasks),
                _ => {}
            }
            let started = TaskEntry { attempt: entry.attempt, started_ms: at.now_ms, finished_ms: None };
            entry.tasks.insert(task.as_str().into(), started);
            let started_at = Timestamp::from_millis(at.now_ms);
            Ok((TaskStarted { started_at, is_new: true }, true))
        })
    }

    pub(in crate::run) fn task_finished(
        &mut self,
        clock_ms: u64,
        run: Key<'_>,
        attempt: Option<Attempt>,
        task: Key<'_>,
    ) -> Granted<Duration> {
        self.change(clock_ms, run, attempt, |entry, at, _| {
            let task = entry.tasks.get_mut(task.as_str()).ok_or(Refusal::UnknownTask)?;
            let is_new = task.finished_ms.is_none();
            let finished_ms = *task.finished_ms.get_or_insert(at.now_ms);
            Ok((duration(task.started_ms, finished_ms), is_new))
        })
    }

    pub(in crate::run) fn tasks(&self, clock_ms: u64, run: Key<'_>) -> Granted<Vec<Task>> {
        let (entry, _) = self.read(clock_ms, run)?;
        let task = |(name, task): (&CompactString, &TaskEntry)| Task {
            name: name.to_string(),
            attempt: Attempt(task.attempt),
            started_at: Timestamp::from_millis(task.started_ms),
            finished_at: task.finished_ms.map(Timestamp::from_millis),
        };
        Ok(entry.tasks.iter().map(task).collect())
    }

    pub(in crate::run) fn failed(
        &mut self,
        clock_ms: u64,
        run: Key<'_>,
        attempt: Option<Attempt>,
        item: Key<'_>,
        reason: &str,
        id: Key<'_>,
    ) -> Granted<FailureNoted> {
        let (noted, moved) = self.change(clock_ms, run, attempt, |entry, at, bounds| {
            let known = entry.failures.get(item.as_str());
            if let Some(known) = known.filter(|known| known.id == id.as_str()) {
                let noted = FailureNoted { count: known.count, is_new: false, dropped: None };
                return Ok(((noted, Vec::new()), false));
            }
            let before = known.map(|known| (known.count, known.first_ms, known.last_ms));
            let (count, first_ms) =
                before.map_or((1, at.now_ms), |(count, first_ms, _)| (count + 1, first_ms));
            let mut moved = Vec::new();
            if let Some((_, _, last_ms)) = before {
                entry.failed_at.remove(&(last_ms, item.as_str().into()));
                entry.to_retry.remove(&(last_ms, item.as_str().into()));
                moved.push((last_ms, CompactString::from(item.as_str())));
            }
            let oldest = match entry.failures.len() as u64 >= bounds.max_failures && before.is_none() {
                true => entry.failed_at.pop_first(),
                false => None,
            };
            if let Some(oldest) = &oldest {
                entry.failures.remove(&oldest.1);
                entry.to_retry.remove(oldest);
                moved.push(oldest.clone());
            }
            let failed = FailedItem {
                reason: reason.into(),
                id: id.as_str().into(),
                count,
                first_ms,
                last_ms: at.now_ms,
            };
            entry.failures.insert(item.as_str().into(), failed);
            entry.failed_at.insert((at.now_ms, item.as_str().into()));
            entry.to_retry.insert((at.now_ms, item.as_str().into()));
            let dropped = oldest.map(|(_, item)| item.to_string());
            Ok(((FailureNoted { count, is_new: true, dropped }, moved), true))
        })?;
        if noted.is_new {
            for (at_ms, item) in moved {
                self.failed.remove(&Cursor { at_ms, member: member(run, &item) });
            }
            if let Some(entry) = self.runs.get(run.as_str()) {
                let at_ms = entry.updated_ms;
                self.failed.insert(Cursor { at_ms, member: member(run, item.as_str()) });
            }
        }
        Ok(noted)
    }
}
