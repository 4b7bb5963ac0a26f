//! Sessions on Redis: thin over its scripts. `docs/redis-keys.md` has the keys.

mod place;
mod replies;
mod scripts;

use std::sync::Arc;
use std::time::Duration;

use compact_str::{CompactString, ToCompactString as _};
use redis::Value;

use self::place::Place;
use self::replies::{
    items, lease, no_stamp, number, session, session_id, session_id_of, string, time, unexpected,
};
use self::scripts::{
    ACK, ACTIVATE, CLAIM, CLEANUP, CLEANUP_DRY_RUN, CONNECT, COUNTS, DELETE, DISCONNECT, GET, HEARTBEAT,
    LAPSE, LIST, RECONCILE, RENEW, RESUME, RETRY, STAMP, UPDATE,
};
use super::hold::HoldWatch;
use super::memory::Set;
use super::options::Bounds;
use super::reconcile::{Step, StepRequest};
use super::store_time::{StoreTime, reading_ms};
use super::types::{
    Activated, Answer, Claim, Claims, Counts, Disconnect, Found, Generation, Lease, List, Listed, Refusal,
    Session, SessionId, Swept,
};
use crate::clock::Timestamp;
use crate::error::{Error, ErrorKind, Result};
use crate::key::{Key, Name};
use crate::store::PartKind;
use crate::store::redis::{Call, RedisStore, Script, server_failure};

/// What scripts answer of a key that is no session: whoever wrote it, it is left alone.
const FOREIGN: i64 = 10;

/// Sessions acknowledged in one call, at most.
pub(super) const MAX_ACKS: usize = 100;

/// One partition of a space on Redis.
#[derive(Debug)]
pub(super) struct OnRedis {
    store: RedisStore,
    space: Name,
    partition: u32,
    sessions: String,
    broadcasters: String,
    shared_keys: Arc<[String]>,
    shared_args: Arc<[CompactString]>,
    time: StoreTime,
    holds: HoldWatch,
}

impl OnRedis {
    pub(super) fn new(
        store: RedisStore,
        space: &Name,
        bounds: Bounds,
        partition: u32,
        holds: HoldWatch,
    ) -> Self {
        let prefix = format!("{}{}", store.prefix(partition), PartKind::Sessions.key_prefix(space));
        let shared_keys = [
            "sessions:state",
            "active_sessions",
            "disconnected_sessions",
            "claimed_sessions",
            "dead_sessions",
        ];
        let shared_keys = shared_keys.map(|it| format!("{prefix}{it}")).into_iter().collect();
        let families = ["session:", "broadcaster:", "ref_count:"].map(|it| format!("{prefix}{it}"));
        let numbers = [
            store.clock().slack_ms(),
            bounds.grace_ms,
            bounds.lease_ms,
            bounds.ttl_ms,
            bounds.retention_ms,
            bounds.claim_ms,
            bounds.max_attempts,
            bounds.max_holders,
            bounds.max_sessions,
            bounds.migration_ms,
        ];
        let shared_args = numbers.iter().map(|n| n.to_compact_string());
        let shared_args = shared_args.chain(families.iter().map(|it| it.to_compact_string())).collect();
        let [sessions, broadcasters, _] = families;
        let time = StoreTime::default();
        Self {
            store,
            space: space.clone(),
            partition,
            sessions,
            broadcasters,
            shared_keys,
            shared_args,
            time,
            holds,
        }
    }

    /// The partition of a session or a broadcaster.
    pub(super) fn partition_of(&self, subject: &str) -> usize {
        self.store.partition(subject) as usize
    }

    async fn call(
        &self,
        script: &'static Script,
        items: usize,
        mut keys: Vec<String>,
        own: Vec<CompactString>,
    ) -> Result<Value> {
        let key = keys.remove(0);
        let call = Call {
            script,
            shared_args: self.shared_args.clone(),
            shared_keys: self.shared_keys.clone(),
            items,
            key,
            more_keys: keys,
            item_args: own,
            now_ms: self.store.set_time_ms(),
        };
        self.store.call(self.partition, call).await.map_err(|error| match error.kind() {
            ErrorKind::Corrupt => {
                Error::corrupt(format!("{error}, in the space of sessions {:?}", self.space.as_str()))
            }
            _ => error,
        })
    }

    /// A refusal is a number, anything else a list.
    fn answer<T>(
        &self,
        key: &str,
        value: &Value,
        read: impl FnOnce(&[Value]) -> Result<T>,
    ) -> Result<Answer<T>> {
        match value {
            Value::Int(FOREIGN) => {
                let space = self.space.as_str();
                tracing::warn!(space, key, "what is under the name of a session is none, and is left alone");
                Ok(Err(Refusal::Gone))
            }
            Value::Int(refusal) => {
                Refusal::numbered(*refusal).map(|it| Ok(Err(it))).unwrap_or_else(|| Err(unexpected(value)))
            }
            // One of several that failed.
            Value::BulkString(text) => Err(server_failure(&String::from_utf8_lossy(text))),
            value => Ok(Ok(read(items(value)?)?)),
        }
    }

    /// What a call on one session was answered.
    fn answer_of<T>(
        &self,
        id: SessionId,
        value: &Value,
        read: impl FnOnce(&[Value]) -> Result<T>,
    ) -> Result<Answer<T>> {
        self.answer(&self.key(id), value, read)
    }

    /// A session, if there is one.
    fn session(&self, key: &str, value: &Value) -> Result<Option<Session>> {
        match self.answer(key, value, session)? {
            Ok(session) => Ok(Some(session)),
            Err(Refusal::Gone) => Ok(None),
            Err(_) => Err(unexpected(value)),
        }
    }

    fn key(&self, id: SessionId) -> String {
        format!("{}{id}", self.sessions)
    }

    /// Whether a script is to write nothing.
    fn only_read(&self) -> CompactString {
        u8::from(self.store.is_read_only()).to_compact_string()
    }

    /// A call on one session.
    async fn on(&self, script: &'static Script, id: SessionId, more: Vec<CompactString>) -> Result<Value> {
        let own = [id.to_compact_string()].into_iter().chain(more).collect();
        self.call(script, 1, vec![self.key(id)], own).await
    }

    /// A call on the whole partition. Each has one key, so that it is sent to its slot.
    async fn on_all(&self, script: &'static Script, own: Vec<CompactString>) -> Result<Value> {
        self.call(script, 1, vec![self.sessions.clone()], own).await
    }

    /// A call that reaps: only good for as long as it is waited for. One that comes too late
    /// does nothing and tells the store's time, and is made once more.
    async fn reap(&self, script: &'static Script, own: &[CompactString]) -> Result<(Value, u64)> {
        for _ in 0..2 {
            let requested_ms = reading_ms();
            let valid_until = self.time.valid_until(self.store.clock(), requested_ms, self.store.deadline());
            let own = own.iter().cloned().chain([valid_until.to_compact_string()]).collect();
            match self.on_all(script, own).await? {
                Value::Int(store_ms) => self.time.note(number(&Value::Int(store_ms))?, requested_ms),
                value => return Ok((value, requested_ms)),
            }
        }
        Err(Error::unavailable("the store came to a call only after its deadline"))
    }

    /// What a call that was made at `requested_ms` was told of the time and of a hold.
    fn note_hold(
        &self,
        [held, store, refusal]: [&Value; 3],
        requested_ms: u64,
    ) -> Result<(Option<u64>, u64)> {
        let (held_ms, store_ms) = (number(held)?, number(store)?);
        let held_until_ms = (held_ms > 0).then_some(held_ms);
        self.time.note(store_ms, requested_ms);
        self.holds.note(store_ms, held_until_ms, no_stamp(refusal)?);
        Ok((held_until_ms, store_ms))
    }

    /// Says that somebody is there, unless that was said within `lately`; until when a hold runs.
    pub(super) async fn stamp(&self, lately: Duration) -> Result<Option<Timestamp>> {
        let requested_ms = reading_ms();
        if self.time.is_recent(requested_ms, lately) {
            return Ok(None);
        }
        let value = self.on_all(&STAMP, Vec::new()).await?;
        let [held, store, refusal] = items(&value)? else { return Err(unexpected(&value)) };
        Ok(self.note_hold([held, store, refusal], requested_ms)?.0.map(Timestamp::from_millis))
    }

    pub(super) async fn activate(
        &self,
        new: SessionId,
        broadcaster: Key<'_>,
        config: &str,
        holder: &str,
    ) -> Result<Answer<Activated>> {
        let keys = vec![format!("{}{}", self.broadcasters, broadcaster.as_str()), self.key(new)];
        let own = vec![new.to_compact_string(), broadcaster.as_str().into(), config.into(), holder.into()];
        let value = self.call(&ACTIVATE, 1, keys, own).await?;
        self.answer_of(new, &value, |items| {
            let [found, id, generation, until] = items else { return Err(unexpected(&value)) };
            let found = match number(found)? {
                1 => Found::Nothing,
                2 => Found::Disconnected,
                3 => Found::Active,
                _ => return Err(unexpected(&value)),
            };
            Ok(Activated { id: session_id(id)?, lease: lease(generation, until)?, found })
        })
    }

    async fn hold(
        &self,
        script: &'static Script,
        id: SessionId,
        holder: &str,
        generation: Option<Generation>,
    ) -> Result<Answer<Lease>> {
        let value = self.on(script, id, vec![holder.into(), text(generation)]).await?;
        self.answer_of(id, &value, |items| match items {
            [generation, until] => lease(generation, until),
            _ => Err(unexpected(&value)),
        })
    }

    pub(super) async fn connect(
        &self,
        id: SessionId,
        holder: &str,
        generation: Option<Generation>,
    ) -> Result<Answer<Lease>> {
        self.hold(&CONNECT, id, holder, generation).await
    }

    pub(super) async fn resume(
        &self,
        id: SessionId,
        holder: &str,
        generation: Option<Generation>,
    ) -> Result<Answer<Lease>> {
        self.hold(&RESUME, id, holder, generation).await
    }

    pub(super) async fn heartbeat(
        &self,
        id: SessionId,
        holder: &str,
        generation: Option<Generation>,
    ) -> Result<Answer<Lease>> {
        self.hold(&HEARTBEAT, id, holder, generation).await
    }

    pub(super) async fn disconnect(
        &self,
        id: SessionId,
        holder: &str,
        generation: Option<Generation>,
    ) -> Result<Answer<Disconnect>> {
        let value = self.on(&DISCONNECT, id, vec![holder.into(), text(generation)]).await?;
        self.answer_of(id, &value, |items| match items {
            [Value::Int(0)] => Ok(Disconnect::Disconnected),
            [Value::Int(1)] => Ok(Disconnect::Held),
            _ => Err(unexpected(&value)),
        })
    }

    pub(super) async fn get(&self, id: SessionId) -> Result<Option<Session>> {
        let value = self.on(&GET, id, vec![CompactString::default()]).await?;
        self.session(&self.key(id), &value)
    }

    pub(super) async fn find(&self, broadcaster: Key<'_>) -> Result<Option<Session>> {
        let key = format!("{}{}", self.broadcasters, broadcaster.as_str());
        let own = vec![CompactString::default(), broadcaster.as_str().into()];
        let value = self.call(&GET, 1, vec![key.clone()], own).await?;
        self.session(&key, &value)
    }

    pub(super) async fn update(
        &self,
        id: SessionId,
        new: &str,
        generation: Option<Generation>,
    ) -> Result<Answer<Generation>> {
        let value = self.on(&UPDATE, id, vec![new.into(), text(generation)]).await?;
        self.answer_of(id, &value, |items| match items {
            [generation] => Ok(Generation(number(generation)?)),
            _ => Err(unexpected(&value)),
        })
    }

    pub(super) async fn delete(&self, id: SessionId) -> Result<Answer<()>> {
        self.answer_of(id, &self.on(&DELETE, id, Vec::new()).await?, |_| Ok(()))
    }

    pub(super) async fn list(
        &self,
        set: Set,
        age_ms: u64,
        after: Option<Listed>,
        limit: usize,
    ) -> Result<List> {
        let mut places = Place::behind(set, after);
        let mut all = List::default();
        // What is no session is skipped, some at a time: no call takes long for it.
        loop {
            let [which, age, most] = [set as u64, age_ms, limit as u64].map(|n| n.to_compact_string());
            let mut own = vec![which, age, most, self.only_read()];
            own.extend(places.into_iter().flat_map(|it| [it.score, it.entry]));
            let value = self.on_all(&LIST, own).await?;
            let [invalid, one, one_entry, other, other_entry, entries @ ..] = items(&value)? else {
                return Err(unexpected(&value));
            };
            let listed = |entry: &[Value]| match entry {
                [id, at] => Ok(Listed { at: time(at)?, id: session_id(id)? }),
                _ => Err(unexpected(&value)),
            };
            for entry in entries.chunks(2) {
                all.sessions.push(listed(entry)?);
            }
            all.invalid += number(invalid)?;
            places = [Place::read(one, one_entry)?, Place::read(other, other_entry)?];
            if places.iter().all(Place::is_end) {
                return Ok(all);
            }
        }
    }

    pub(super) async fn counts(&self) -> Result<Counts> {
        let requested_ms = reading_ms();
        let value = self.on_all(&COUNTS, vec![self.only_read()]).await?;
        let [active, disconnected, orphans, claimed, dead, lag_ms, held, store, refusal] = items(&value)?
        else {
            return Err(unexpected(&value));
        };
        let (held_until_ms, _) = self.note_hold([held, store, refusal], requested_ms)?;
        Ok(Counts {
            active: number(active)?,
            disconnected: number(disconnected)?,
            orphans: number(orphans)?,
            claimed: number(claimed)?,
            dead: number(dead)?,
            lag_ms: number(lag_ms)?,
            held_until: held_until_ms.map(Timestamp::from_millis),
        })
    }

    /// Claims up to `limit` orphans, and finds out up to `silent` that have fallen silent.
    pub(super) async fn claim(&self, limit: usize, silent: usize) -> Result<Claims> {
        let (value, requested_ms) =
            self.reap(&CLAIM, &[limit, silent].map(|it| it.to_compact_string())).await?;
        let Some((head, claims)) = items(&value)?.split_at_checked(11) else {
            return Err(unexpected(&value));
        };
        let claim = |fields: &[Value]| match fields {
            [id, generation, broadcaster, since, attempt, until, config, value] => Ok(Claim {
                id: session_id(id)?,
                generation: Generation(number(generation)?),
                broadcaster: string(broadcaster)?,
                config: string(config)?,
                value: string(value)?,
                since: time(since)?,
                attempt: number(attempt)?,
                until: time(until)?,
            }),
            _ => Err(unexpected(&value)),
        };
        Ok(Claims {
            claims: claims.chunks(8).map(claim).collect::<Result<_>>()?,
            swept: self.swept(head, requested_ms)?,
        })
    }

    /// Acknowledges up to [`MAX_ACKS`] in one round trip.
    pub(super) async fn ack(&self, claims: &[(SessionId, Generation)]) -> Result<Vec<Answer<()>>> {
        let keys = claims.iter().map(|(id, _)| self.key(*id)).collect();
        let own = claims.iter().flat_map(|(id, it)| [id.to_compact_string(), it.0.to_compact_string()]);
        let value = self.call(&ACK, claims.len(), keys, own.collect()).await?;
        let answers = if claims.len() == 1 { std::slice::from_ref(&value) } else { items(&value)? };
        claims.iter().zip(answers).map(|((id, _), item)| self.answer_of(*id, item, |_| Ok(()))).collect()
    }

    pub(super) async fn renew(
        &self,
        id: SessionId,
        generation: Generation,
        attempt: u64,
    ) -> Result<Answer<Timestamp>> {
        let own = vec![generation.0.to_compact_string(), attempt.to_compact_string()];
        let value = self.on(&RENEW, id, own).await?;
        self.answer_of(id, &value, |items| match items {
            [until] => time(until),
            _ => Err(unexpected(&value)),
        })
    }

    pub(super) async fn cleanup(&self, limit: usize, is_claiming: bool) -> Result<Swept> {
        let own = [limit.to_compact_string(), u8::from(is_claiming).to_compact_string()];
        let (value, requested_ms) = self.reap(&CLEANUP, &own).await?;
        self.swept(items(&value)?, requested_ms)
    }

    /// What a cleanup would do, looked at in steps of up to `limit` entries.
    pub(super) async fn cleanup_dry_run(&self, limit: usize) -> Result<Swept> {
        let (mut all, mut from) = (Swept::default(), "1 0".to_owned());
        while !from.is_empty() {
            let requested_ms = reading_ms();
            let value = self.on_all(&CLEANUP_DRY_RUN, vec![limit.to_compact_string(), from.into()]).await?;
            let Some((next, head)) = items(&value)?.split_last() else { return Err(unexpected(&value)) };
            all += self.swept(head, requested_ms)?;
            from = string(next)?;
        }
        Ok(all)
    }

    pub(super) async fn lapse(&self, limit: usize) -> Result<Swept> {
        let (value, requested_ms) = self.reap(&LAPSE, &[limit.to_compact_string()]).await?;
        self.swept(items(&value)?, requested_ms)
    }

    /// What a call that reaps has done.
    fn swept(&self, head: &[Value], requested_ms: u64) -> Result<Swept> {
        let [lapsed, deleted, buried, missing, invalid, lag_ms, is_more, held, store, refusal, named] = head
        else {
            return Err(unexpected(head));
        };
        let entries: Vec<_> = items(named)?.iter().map(string).collect::<Result<_>>()?;
        if !entries.is_empty() {
            let (space, count) = (self.space.as_str(), number(invalid)?);
            tracing::warn!(space, count, ?entries, "entries of the index that are no sessions were removed");
        }
        let (held_until_ms, store_ms) = self.note_hold([held, store, refusal], requested_ms)?;
        Ok(Swept {
            lapsed: number(lapsed)?,
            deleted: number(deleted)?,
            buried: number(buried)?,
            missing: number(missing)?,
            invalid: number(invalid)?,
            lag_ms: number(lag_ms)?,
            is_more: number(is_more)? == 1,
            held_until: held_until_ms.map(Timestamp::from_millis),
            retry_after_ms: held_until_ms.map(|until_ms| until_ms.saturating_sub(store_ms)),
        })
    }

    pub(super) async fn retry(&self, id: SessionId) -> Result<Answer<()>> {
        self.answer_of(id, &self.on(&RETRY, id, Vec::new()).await?, |_| Ok(()))
    }

    pub(super) async fn reconcile(&self, request: &StepRequest<'_>) -> Result<Step> {
        let own = vec![
            u8::from(request.is_dry_run).to_compact_string(),
            request.from.into(),
            request.count.to_compact_string(),
            request.pause_ms.to_compact_string(),
            request.age_ms.to_compact_string(),
        ];
        let value = self.on_all(&RECONCILE, own).await?;
        let Some((head, findings)) = items(&value)?.split_at_checked(13) else {
            return Err(unexpected(&value));
        };
        let [next, keys, scanned, counts @ ..] = head else { return Err(unexpected(&value)) };
        let counts: Vec<u64> = counts.iter().map(number).collect::<Result<_>>()?;
        let mut findings = findings.iter();
        let mut words = Vec::new();
        let mut orphans = Vec::new();
        while let (Some(word), Some(id)) = (findings.next(), findings.next()) {
            let (word, id) = (string(word)?, string(id)?);
            match (&*word, findings.as_slice()) {
                ("orphan", [at, ..]) => {
                    orphans.push(Listed { at: time(at)?, id: session_id_of(&id)? });
                    findings.next();
                }
                _ => words.push((word, id)),
            }
        }
        Ok(Step::new(string(next)?, [number(keys)?, number(scanned)?], &counts, words, orphans))
    }
}

fn text(generation: Option<Generation>) -> CompactString {
    generation.map(|it| it.0.to_compact_string()).unwrap_or_default()
}
