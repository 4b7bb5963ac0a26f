//! Runs on Redis: thin over its scripts. `docs/redis-keys.md` has the keys.

mod codes;
mod reply;
mod scripts;

use std::sync::Arc;
use std::time::Duration;

use compact_str::{CompactString, ToCompactString as _};
use redis::Value;

use self::codes::{attempt, granted, state};
use self::reply::{REPLIES, failure, listed, number_if_any, part, run, task};
pub(super) use self::scripts::LOOK;
use self::scripts::{
    CLEANUP, DELETE, EXPIRE, FAILED, FAILURES, FAILURES_IN_HOUR, FINISH, GET, IS_PROCESSED, LIST, PROCESSED,
    PROGRESS, RETRY, START, TASK_FINISHED, TASK_STARTED, TASKS, UPDATE,
};
use super::options::{Bounds, RunOptions};
use super::progress::{Measured, Progress};
use super::types::{
    Attempt, Failure, FailureNoted, Finished, Granted, Listed, Processed, Refusal, Run, RunFailure, RunState,
    Started, Task, TaskStarted, Update, Updated, duration,
};
use crate::clock::Timestamp;
use crate::error::{Error, ErrorKind, Result};
use crate::hour::Hour;
use crate::key::{Key, Name, escape};
use crate::page::{Cursor, Part, member};
use crate::store::PartKind;
use crate::store::redis::{Call, Fields, RedisStore, Script};

/// Items of one script, at most: half a millisecond of the server's time or so.
const MAX_ITEMS: usize = 1000;

/// One partition of a space on Redis.
#[derive(Debug)]
pub(super) struct OnRedis {
    store: RedisStore,
    space: Name,
    partition: u32,
    /// What all keys of the partition start with.
    root: String,
    shared_keys: Arc<[String]>,
    shared_args: Arc<[CompactString]>,
}

/// What a cleanup did in one step.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Step {
    pub(super) removed: usize,
    /// Whether it has not looked at all that were due.
    pub(super) is_more: bool,
    /// Runs by state.
    pub(super) counts: [u64; RunState::ALL.len()],
}

impl OnRedis {
    pub(super) fn new(
        store: RedisStore,
        space: &Name,
        options: &RunOptions,
        bounds: Bounds,
        partition: u32,
    ) -> Self {
        let space_prefix = PartKind::Runs.key_prefix(space);
        let root = format!("{}{space_prefix}{}:", store.prefix(partition), escape(&options.prefix));
        let started = RunState::ALL.map(|state| format!("{root}runs:{state}"));
        let shared_keys = [format!("{root}runs_due")].into_iter().chain(started).collect();
        let numbers = [
            store.clock().slack_ms(),
            bounds.ttl_ms,
            bounds.absurd_ms,
            bounds.max_runs,
            bounds.max_fields,
            bounds.max_processed,
            bounds.max_failures,
            bounds.max_tasks,
        ];
        let shared_args = numbers.iter().map(|n| n.to_compact_string());
        let shared_args = shared_args.chain([root.to_compact_string()]).collect();
        Self { store, space: space.clone(), partition, root, shared_keys, shared_args }
    }

    /// A call with a key of the partition, so that it is sent to its slot.
    fn call(&self, script: &'static Script, key: String) -> Call {
        Call::new(script).shared_keys(self.shared_keys.clone()).shared_args(self.shared_args.clone()).key(key)
    }

    /// A call on one run.
    fn on(&self, script: &'static Script, run: Key<'_>) -> Call {
        self.call(script, format!("{}pipeline:{}", self.root, run.as_str())).arg(run.as_str())
    }

    /// A call on the whole partition.
    fn on_all(&self, script: &'static Script) -> Call {
        self.call(script, format!("{}pipeline:", self.root))
    }

    async fn send(&self, call: Call) -> Result<Value> {
        self.store.call(self.partition, call).await.map_err(|error| match error.kind() {
            ErrorKind::Corrupt => {
                Error::corrupt(format!("{error}, in the space of runs {:?}", self.space.as_str()))
            }
            _ => error,
        })
    }

    /// What a call was answered, if it was done.
    async fn answered<T>(
        &self,
        call: Call,
        read: impl FnOnce(&mut Fields<'_>) -> Result<T>,
    ) -> Result<Granted<T>> {
        let value = self.send(call).await?;
        let mut fields = REPLIES.list(&value)?;
        match granted(&mut fields)? {
            Ok(()) => read(&mut fields).map(Ok),
            Err(refusal) => Ok(Err(refusal)),
        }
    }

    pub(super) async fn start(&self, run: Key<'_>) -> Result<Granted<Started>> {
        self.answered(self.on(&START, run), started).await
    }

    pub(super) async fn get(&self, id: Key<'_>) -> Result<Option<Run>> {
        Ok(self.answered(self.on(&GET, id), |fields| run(id.as_str(), fields)).await?.ok())
    }

    pub(super) async fn list(
        &self,
        state: Option<RunState>,
        after: Option<&Cursor>,
        limit: usize,
    ) -> Result<Part<Listed>> {
        let call = self.on_all(&LIST).arg(state.map_or("", RunState::as_str)).args(place(after)).arg(limit);
        part(&mut REPLIES.list(&self.send(call).await?)?, listed)
    }

    pub(super) async fn update(
        &self,
        run: Key<'_>,
        of: Option<Attempt>,
        update: &Update,
    ) -> Result<Granted<Updated>> {
        let set = || update.fields.iter().filter_map(|(name, value)| Some((name, value.as_ref()?)));
        let removed = update.fields.iter().filter(|(_, value)| value.is_none()).map(|(name, _)| name);
        let call = self.on(&UPDATE, run).alone().arg(text(of)).arg(update.state.map_or("", RunState::as_str));
        let call = call.arg(update.total.map(|it| it.to_compact_string()).unwrap_or_default());
        let call = call.arg(set().count()).args(set().flat_map(|(name, value)| [name.into(), value.into()]));
        self.answered(call.args(removed.map(CompactString::from)), |fields| {
            Ok(Updated { attempt: attempt(fields)?, state: state(fields)?, ends_at: fields.time()? })
        })
        .await
    }

    pub(super) async fn finish(
        &self,
        run: Key<'_>,
        of: Option<Attempt>,
        state: RunState,
    ) -> Result<Granted<Finished>> {
        let call = self.on(&FINISH, run).arg(text(of)).arg(state);
        self.answered(call, |fields| {
            Ok(Finished { attempt: attempt(fields)?, state, is_new: fields.flag()? })
        })
        .await
    }

    pub(super) async fn retry(&self, run: Key<'_>, from: Attempt) -> Result<Granted<Started>> {
        self.answered(self.on(&RETRY, run).arg(from), started).await
    }

    pub(super) async fn expire(
        &self,
        run: Key<'_>,
        of: Option<Attempt>,
        after: Duration,
    ) -> Result<Granted<Timestamp>> {
        let call = self.on(&EXPIRE, run).arg(text(of)).arg(super::age_ms(after));
        self.answered(call, |fields| fields.time()).await
    }

    pub(super) async fn delete(&self, run: Key<'_>, of: Option<Attempt>) -> Result<Granted<()>> {
        self.answered(self.on(&DELETE, run).arg(text(of)), |_| Ok(())).await
    }

    /// One script after the other: each knows what those before it have added.
    pub(super) async fn processed(
        &self,
        run: Key<'_>,
        of: Option<Attempt>,
        items: &[Key<'_>],
    ) -> Result<Granted<Processed>> {
        let (mut new, mut count, mut is_full) = (0, 0, false);
        // With no items it is one call as well: it may be refused.
        let steps = items.chunks(MAX_ITEMS).chain(items.is_empty().then_some(items));
        for (step, some) in steps.enumerate() {
            let call = self.on(&PROCESSED, run).alone().arg(text(of)).args(some.iter().map(as_arg));
            match self.answered(call, |fields| Ok((fields.number()?, fields.number()?))).await? {
                Ok((more, processed)) => (new, count) = (new + more, processed),
                // What is left may be known already.
                Err(Refusal::Full { taken }) => (new, is_full) = (new + taken, true),
                Err(refusal) if step == 0 => return Ok(Err(refusal)),
                // It came to its end between two scripts.
                Err(refusal) => return Ok(Err(refusal.after(new))),
            }
        }
        Ok(if is_full { Err(Refusal::Full { taken: new }) } else { Ok(Processed { new, processed: count }) })
    }

    pub(super) async fn is_processed(&self, run: Key<'_>, items: &[Key<'_>]) -> Result<Granted<Vec<bool>>> {
        let mut all = Vec::with_capacity(items.len());
        for some in items.chunks(MAX_ITEMS).chain(items.is_empty().then_some(items)) {
            let call = self.on(&IS_PROCESSED, run).alone().args(some.iter().map(as_arg));
            match self.answered(call, |fields| fields.each(Fields::flag)).await? {
                Ok(flags) if flags.len() == some.len() => all.extend(flags),
                Ok(flags) => return Err(REPLIES.unexpected(&flags)),
                Err(refusal) => return Ok(Err(refusal)),
            }
        }
        Ok(Ok(all))
    }

    pub(super) async fn progress(&self, run: Key<'_>) -> Result<Granted<Progress>> {
        self.answered(self.on(&PROGRESS, run), |fields| {
            let state = state(fields)?;
            let [processed, processed_before, failed, to_retry] = fields.numbers()?;
            let (total, since_ms, until_ms) = (number_if_any(fields)?, fields.number()?, fields.number()?);
            let lost_ms = number_if_any(fields)?;
            Ok(Measured {
                state,
                processed,
                processed_before,
                failed,
                to_retry,
                total,
                since_ms,
                until_ms,
                lost_ms,
            }
            .into())
        })
        .await
    }

    pub(super) async fn task_started(
        &self,
        run: Key<'_>,
        of: Option<Attempt>,
        task: Key<'_>,
    ) -> Result<Granted<TaskStarted>> {
        let call = self.on(&TASK_STARTED, run).arg(text(of)).arg(task.as_str());
        self.answered(call, |fields| Ok(TaskStarted { started_at: fields.time()?, is_new: fields.flag()? }))
            .await
    }

    pub(super) async fn task_finished(
        &self,
        run: Key<'_>,
        of: Option<Attempt>,
        task: Key<'_>,
    ) -> Result<Granted<Duration>> {
        let call = self.on(&TASK_FINISHED, run).arg(text(of)).arg(task.as_str());
        self.answered(call, |fields| Ok(duration(fields.number()?, fields.number()?))).await
    }

    pub(super) async fn tasks(&self, run: Key<'_>) -> Result<Granted<Vec<Task>>> {
        self.answered(self.on(&TASKS, run), |fields| fields.each(task)).await
    }

    pub(super) async fn failed(
        &self,
        run: Key<'_>,
        of: Option<Attempt>,
        item: Key<'_>,
        reason: &str,
        id: Key<'_>,
    ) -> Result<Granted<FailureNoted>> {
        let call = self.on(&FAILED, run).arg(text(of)).arg(item.as_str()).arg(reason).arg(id.as_str());
        self.answered(call, |fields| {
            let (count, is_new) = (fields.number()?, fields.flag()?);
            let dropped = if fields.is_empty() { None } else { Some(fields.text()?) };
            Ok(FailureNoted { count, is_new, dropped })
        })
        .await
    }

    /// Failures of a run: all, the latest first, or those to retry, the longest ago first.
    pub(super) async fn failures(
        &self,
        run: Key<'_>,
        is_retry: bool,
        after: Option<&Cursor>,
        limit: usize,
    ) -> Result<Granted<Part<Failure>>> {
        let call = self.on(&FAILURES, run).arg(u8::from(is_retry)).args(place(after)).arg(limit);
        self.answered(call, |fields| part(fields, failure)).await
    }

    pub(super) async fn failures_in_hour(
        &self,
        hour: Hour,
        after: Option<&Cursor>,
        limit: usize,
    ) -> Result<Part<RunFailure>> {
        let call = self.call(&FAILURES_IN_HOUR, format!("{}failed:{hour}", self.root));
        let call = call.arg(hour.starts_at().as_millis()).args(place(after)).arg(limit);
        part(&mut REPLIES.list(&self.send(call).await?)?, |fields| {
            let (run, (place, failure)) = (fields.text()?, failure(fields)?);
            let member = member(Key::raw(&run), &failure.item);
            Ok((Cursor { member, ..place }, RunFailure { run, failure }))
        })
    }

    pub(super) async fn cleanup(&self, limit: usize) -> Result<Step> {
        let value = self.send(self.on_all(&CLEANUP).arg(limit)).await?;
        let mut fields = REPLIES.list(&value)?;
        let removed = fields.number()? as usize;
        Ok(Step { removed, is_more: fields.flag()?, counts: fields.numbers()? })
    }
}

fn started(fields: &mut Fields<'_>) -> Result<Started> {
    Ok(Started { attempt: attempt(fields)?, state: state(fields)?, is_new: fields.flag()? })
}

/// The attempt that is meant; empty for any.
fn text(attempt: Option<Attempt>) -> CompactString {
    attempt.map(|it| it.0.to_compact_string()).unwrap_or_default()
}

fn as_arg(item: &Key<'_>) -> CompactString {
    item.as_str().into()
}

/// Where a list goes on; empty at its beginning.
fn place(after: Option<&Cursor>) -> [CompactString; 2] {
    after.map(|it| [it.at_ms.to_compact_string(), it.member.clone()]).unwrap_or_default()
}
