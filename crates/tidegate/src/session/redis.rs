//! Sessions on Redis: thin over its scripts. `docs/redis-keys.md` has the keys.

mod codes;
mod place;
mod reply;
mod scripts;

use std::sync::Arc;
use std::time::Duration;

use compact_str::{CompactString, ToCompactString as _};
use redis::Value;

use self::codes::{A_DISCONNECTED, AN_ACTIVE, FOREIGN, NOBODY, NOTHING, OTHERS, listed, refusal};
use self::place::Place;
use self::reply::{REPLIES, lease, no_stamp, session, session_id};
pub(super) use self::scripts::LOOK;
use self::scripts::{
    ACK, ACTIVATE, CLAIM, CLEANUP, CLEANUP_DRY_RUN, CONNECT, COUNTS, DELETE, DISCONNECT, GET, HEARTBEAT,
    LAPSE, LIST, RECONCILE, RENEW, RESUME, RETRY, STAMP, UPDATE,
};
use super::hold::HoldWatch;
use super::memory::Set;
use super::options::Bounds;
use super::reconcile::{Reconciled, Step, StepRequest};
use super::store_time::{StoreTime, reading_ms};
use super::types::{
    Activated, Claims, Counts, Disconnect, Found, Generation, Granted, Lease, List, Listed, Refusal, Session,
    SessionId, Swept,
};
use crate::clock::Timestamp;
use crate::error::{Error, ErrorKind, Result};
use crate::key::{Key, Name};
use crate::log;
use crate::store::PartKind;
use crate::store::redis::{Call, Fields, RedisStore, Script, server_failure};

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

    /// A call whose items are yet to be said.
    fn call(&self, script: &'static Script) -> Call {
        Call::new(script).shared_keys(self.shared_keys.clone()).shared_args(self.shared_args.clone())
    }

    /// A call on one session.
    fn on(&self, script: &'static Script, id: SessionId) -> Call {
        self.call(script).key(self.key(id)).arg(id)
    }

    /// A call on the whole partition. Each has one key, so that it is sent to its slot.
    fn on_all(&self, script: &'static Script) -> Call {
        self.call(script).key(self.sessions.clone())
    }

    async fn send(&self, call: Call) -> Result<Value> {
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
        read: impl FnOnce(&mut Fields<'_>) -> Result<T>,
    ) -> Result<Granted<T>> {
        match value {
            Value::Int(FOREIGN) => {
                let space = self.space.as_str();
                log::warn!(space, key, "what is under the name of a session is none, and is left alone");
                Ok(Err(Refusal::Gone))
            }
            Value::Int(code) => refusal(*code).map(Err).ok_or_else(|| REPLIES.unexpected(value)),
            // One of several that failed.
            Value::BulkString(text) => Err(server_failure(&String::from_utf8_lossy(text))),
            value => read(&mut REPLIES.list(value)?).map(Ok),
        }
    }

    /// What a call on one session was answered.
    fn answer_of<T>(
        &self,
        id: SessionId,
        value: &Value,
        read: impl FnOnce(&mut Fields<'_>) -> Result<T>,
    ) -> Result<Granted<T>> {
        self.answer(&self.key(id), value, read)
    }

    /// A session, if there is one.
    fn session(&self, key: &str, value: &Value) -> Result<Option<Session>> {
        match self.answer(key, value, session)? {
            Ok(session) => Ok(Some(session)),
            Err(Refusal::Gone) => Ok(None),
            Err(_) => Err(REPLIES.unexpected(value)),
        }
    }

    fn broadcaster_key(&self, broadcaster: Key<'_>) -> String {
        format!("{}{}", self.broadcasters, broadcaster.as_str())
    }

    fn key(&self, id: SessionId) -> String {
        format!("{}{id}", self.sessions)
    }

    /// Whether a script is to write nothing.
    fn only_read(&self) -> CompactString {
        u8::from(self.store.is_read_only()).to_compact_string()
    }

    /// A call that reaps: only good for as long as it is waited for. One that comes too late
    /// does nothing and tells the store's time, and is made once more.
    async fn reap(&self, call: Call) -> Result<(Value, u64)> {
        for _ in 0..2 {
            let requested_ms = reading_ms();
            let valid_until = self.time.valid_until(self.store.clock(), requested_ms, self.store.deadline());
            match self.send(call.clone().arg(valid_until)).await? {
                late @ Value::Int(_) => self.time.note(REPLIES.number(&late)?, requested_ms),
                value => return Ok((value, requested_ms)),
            }
        }
        Err(Error::unavailable("the store came to a call only after its deadline"))
    }

    /// Reads until when a hold runs, the store's time, and why it took no stamp, as a call that was
    /// made at `requested_ms` was answered.
    fn note_hold(&self, fields: &mut Fields<'_>, requested_ms: u64) -> Result<(Option<u64>, u64)> {
        let (held_ms, store_ms) = (fields.number()?, fields.number()?);
        let held_until_ms = (held_ms > 0).then_some(held_ms);
        self.time.note(store_ms, requested_ms);
        self.holds.note(store_ms, held_until_ms, no_stamp(fields)?);
        Ok((held_until_ms, store_ms))
    }

    /// Says that somebody is there, unless that was said within `lately`; until when a hold runs.
    pub(super) async fn stamp(&self, lately: Duration) -> Result<Option<Timestamp>> {
        let requested_ms = reading_ms();
        if self.time.is_recent(requested_ms, lately) {
            return Ok(None);
        }
        let value = self.send(self.on_all(&STAMP)).await?;
        let (held_until_ms, _) = self.note_hold(&mut REPLIES.list(&value)?, requested_ms)?;
        Ok(held_until_ms.map(Timestamp::from_millis))
    }

    pub(super) async fn activate(
        &self,
        new: SessionId,
        broadcaster: Key<'_>,
        config: &str,
        holder: &str,
    ) -> Result<Granted<Activated>> {
        let call = self.call(&ACTIVATE).key(self.broadcaster_key(broadcaster)).key(self.key(new));
        let call = call.arg(new).arg(broadcaster.as_str()).arg(config).arg(holder);
        let value = self.send(call).await?;
        self.answer_of(new, &value, |fields| {
            let found = match fields.integer()? {
                NOTHING => Found::Nothing,
                A_DISCONNECTED => Found::Disconnected,
                AN_ACTIVE => Found::Active,
                _ => return Err(fields.unexpected()),
            };
            Ok(Activated { id: session_id(fields)?, lease: lease(fields)?, found })
        })
    }

    async fn hold(
        &self,
        script: &'static Script,
        id: SessionId,
        holder: &str,
        generation: Option<Generation>,
    ) -> Result<Granted<Lease>> {
        let value = self.send(self.on(script, id).arg(holder).arg(text(generation))).await?;
        self.answer_of(id, &value, lease)
    }

    pub(super) async fn connect(
        &self,
        id: SessionId,
        holder: &str,
        generation: Option<Generation>,
    ) -> Result<Granted<Lease>> {
        self.hold(&CONNECT, id, holder, generation).await
    }

    pub(super) async fn resume(
        &self,
        id: SessionId,
        holder: &str,
        generation: Option<Generation>,
    ) -> Result<Granted<Lease>> {
        self.hold(&RESUME, id, holder, generation).await
    }

    pub(super) async fn heartbeat(
        &self,
        id: SessionId,
        holder: &str,
        generation: Option<Generation>,
    ) -> Result<Granted<Lease>> {
        self.hold(&HEARTBEAT, id, holder, generation).await
    }

    pub(super) async fn disconnect(
        &self,
        id: SessionId,
        holder: &str,
        generation: Option<Generation>,
    ) -> Result<Granted<Disconnect>> {
        let value = self.send(self.on(&DISCONNECT, id).arg(holder).arg(text(generation))).await?;
        self.answer_of(id, &value, |fields| match fields.integer()? {
            NOBODY => Ok(Disconnect::Disconnected),
            OTHERS => Ok(Disconnect::Held),
            _ => Err(fields.unexpected()),
        })
    }

    pub(super) async fn get(&self, id: SessionId) -> Result<Option<Session>> {
        let value = self.send(self.on(&GET, id).arg("")).await?;
        self.session(&self.key(id), &value)
    }

    pub(super) async fn find(&self, broadcaster: Key<'_>) -> Result<Option<Session>> {
        let key = self.broadcaster_key(broadcaster);
        let value = self.send(self.call(&GET).key(key.clone()).arg("").arg(broadcaster.as_str())).await?;
        self.session(&key, &value)
    }

    pub(super) async fn update(
        &self,
        id: SessionId,
        new: &str,
        generation: Option<Generation>,
    ) -> Result<Granted<Generation>> {
        let value = self.send(self.on(&UPDATE, id).arg(new).arg(text(generation))).await?;
        self.answer_of(id, &value, reply::generation)
    }

    pub(super) async fn delete(&self, id: SessionId) -> Result<Granted<()>> {
        self.answer_of(id, &self.send(self.on(&DELETE, id)).await?, |_| Ok(()))
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
            let call = self.on_all(&LIST).arg(listed(set)).arg(age_ms).arg(limit).arg(self.only_read());
            let call = call.args(places.into_iter().flat_map(|it| [it.score, it.entry]));
            let value = self.send(call).await?;
            let mut fields = REPLIES.list(&value)?;
            all.invalid += fields.number()?;
            places = [Place::read(&mut fields)?, Place::read(&mut fields)?];
            all.sessions.extend(fields.each(|it| Ok(Listed { id: session_id(it)?, at: it.time()? }))?);
            if places.iter().all(Place::is_end) {
                return Ok(all);
            }
        }
    }

    pub(super) async fn counts(&self) -> Result<Counts> {
        let requested_ms = reading_ms();
        let value = self.send(self.on_all(&COUNTS).arg(self.only_read())).await?;
        let mut fields = REPLIES.list(&value)?;
        let [active, disconnected, orphans, claimed, dead, lag_ms] = fields.numbers()?;
        let (held_until_ms, _) = self.note_hold(&mut fields, requested_ms)?;
        let held_until = held_until_ms.map(Timestamp::from_millis);
        Ok(Counts { active, disconnected, orphans, claimed, dead, lag_ms, held_until })
    }

    /// Claims up to `limit` orphans, and finds out up to `silent` that have fallen silent.
    pub(super) async fn claim(&self, limit: usize, silent: usize) -> Result<Claims> {
        let (value, requested_ms) = self.reap(self.on_all(&CLAIM).arg(limit).arg(silent)).await?;
        let mut fields = REPLIES.list(&value)?;
        let swept = self.swept(&mut fields, requested_ms)?;
        Ok(Claims { claims: fields.each(reply::claim)?, swept })
    }

    /// Acknowledges up to [`MAX_ACKS`] in one round trip.
    pub(super) async fn ack(&self, claims: &[(SessionId, Generation)]) -> Result<Vec<Granted<()>>> {
        let call = self.call(&ACK).items(claims.len()).keys(claims.iter().map(|(id, _)| self.key(*id)));
        let args = claims.iter().flat_map(|(id, it)| [id.to_compact_string(), it.0.to_compact_string()]);
        let value = self.send(call.args(args)).await?;
        let answers = REPLIES.items(&value, claims.len())?;
        claims.iter().zip(answers).map(|((id, _), item)| self.answer_of(*id, item, |_| Ok(()))).collect()
    }

    pub(super) async fn renew(
        &self,
        id: SessionId,
        generation: Generation,
        attempt: u64,
    ) -> Result<Granted<Timestamp>> {
        let value = self.send(self.on(&RENEW, id).arg(generation.0).arg(attempt)).await?;
        self.answer_of(id, &value, |fields| fields.time())
    }

    pub(super) async fn cleanup(&self, limit: usize, is_claiming: bool) -> Result<Swept> {
        // Two that travel together would keep the store for twice as long at a time.
        let call = self.on_all(&CLEANUP).alone().arg(limit).arg(u8::from(is_claiming));
        let (value, requested_ms) = self.reap(call).await?;
        self.swept(&mut REPLIES.list(&value)?, requested_ms)
    }

    /// What a cleanup would do, looked at in steps of up to `limit` entries.
    pub(super) async fn cleanup_dry_run(&self, limit: usize) -> Result<Swept> {
        let (mut all, mut from) = (Swept::default(), "1 0".to_owned());
        while !from.is_empty() {
            let requested_ms = reading_ms();
            let value = self.send(self.on_all(&CLEANUP_DRY_RUN).arg(limit).arg(from)).await?;
            let mut fields = REPLIES.list(&value)?;
            all += self.swept(&mut fields, requested_ms)?;
            from = fields.text()?;
        }
        Ok(all)
    }

    pub(super) async fn lapse(&self, limit: usize) -> Result<Swept> {
        let (value, requested_ms) = self.reap(self.on_all(&LAPSE).arg(limit)).await?;
        self.swept(&mut REPLIES.list(&value)?, requested_ms)
    }

    /// What a call that reaps has done.
    fn swept(&self, fields: &mut Fields<'_>, requested_ms: u64) -> Result<Swept> {
        let [lapsed, deleted, buried, missing, invalid, lag_ms] = fields.numbers()?;
        let is_more = fields.flag()?;
        let (held_until_ms, store_ms) = self.note_hold(fields, requested_ms)?;
        let entries = fields.list()?.each(Fields::text)?;
        if !entries.is_empty() {
            let space = self.space.as_str();
            log::warn!(
                space,
                count = invalid,
                ?entries,
                "entries of the index that are no sessions were removed"
            );
        }
        Ok(Swept {
            lapsed,
            deleted,
            buried,
            missing,
            invalid,
            lag_ms,
            is_more,
            held_until: held_until_ms.map(Timestamp::from_millis),
            retry_after_ms: held_until_ms.map(|until_ms| until_ms.saturating_sub(store_ms)),
        })
    }

    pub(super) async fn retry(&self, id: SessionId) -> Result<Granted<()>> {
        self.answer_of(id, &self.send(self.on(&RETRY, id)).await?, |_| Ok(()))
    }

    pub(super) async fn reconcile(&self, request: &StepRequest<'_>) -> Result<Step> {
        let call = self.on_all(&RECONCILE).arg(u8::from(request.is_dry_run)).arg(request.from);
        let call = call.arg(request.count).arg(request.pause_ms).arg(request.age_ms);
        let value = self.send(call).await?;
        let mut fields = REPLIES.list(&value)?;
        let mut step = Step { next: fields.text()?, ..Step::default() };
        [step.keys, step.scanned] = fields.numbers()?;
        step.reconciled = Reconciled::numbered(fields.numbers()?);
        while !fields.is_empty() {
            let word = fields.text()?;
            match &*word {
                "orphan" => step.orphans.push(Listed { id: session_id(&mut fields)?, at: fields.time()? }),
                _ => step.findings.push((word, fields.text()?)),
            }
        }
        Ok(step)
    }
}

fn text(generation: Option<Generation>) -> CompactString {
    generation.map(|it| it.0.to_compact_string()).unwrap_or_default()
}
