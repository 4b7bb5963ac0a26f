//! Hot pages on Redis: thin over its scripts. `docs/redis-keys.md` has the keys.

mod codes;
mod joined;
mod record;
mod reply;
mod scripts;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use compact_str::{CompactString, ToCompactString as _};
use parking_lot::{Mutex, RwLock};
use redis::Value;

use self::codes::{IMPOSSIBLE, KNOWN, LATER, MISSED, NO_MORE, NOT_KNOWN, REPEATED, WAS_HOT, WAS_REMEMBERED};
use self::joined::{COUNTS, EDITS};
pub(super) use self::record::OfPage;
use self::record::Record;
use self::reply::{REPLIES, digits, event_counts, happened, recorded, unreadable, utf8};
pub(super) use self::scripts::LOOK;
use self::scripts::{PIN, Scripts, numbers, scripts};
use super::edit::{Count, Edit, EditRef, HotPage, MAX_RANKED, Recorded, Removed, Stats};
use super::memory::{Cleaned, Effects};
use super::options::Bounds;
use super::position::{News, Position, PositionStatus};
use crate::clock::{Timestamp, monotonic};
use crate::error::{Error, ErrorKind, Result};
use crate::key::{Key, Name};
use crate::log;
use crate::outage::OutageReason;
use crate::store::PartKind;
use crate::store::redis::{Call, RedisStore, Script, server_failure};

/// For how long the last batch of a node is known by its number: far longer than anybody sends one again.
const FLUSH_KNOWN_MS: u64 = 3_600_000;

/// Pages of one call, at most. How many of them a script does depends on what there is to do, see `ENOUGH_WORK` in `hot.lua`; the
/// others are sent again. The longest scripts of many took, in ms: 128 pages that become hot at once 1.5, in nine scripts (in one
/// 5.3), or find no room 1.0; four edits each of 128 full pages 1.9 in two; 512 edits of one page of 4000 members 1.9, or 1.5 if
/// they come late; pages of 4000 members of which nearly all have left the window 1.9; and of spaces that count, 512 pages whose
/// slots are there 1.9 in one, are new 1.1, have to be wider 1.7, or that become hot 1.1.
pub(super) const MAX_PAGES: usize = 128;

/// What became of counts of a page, and what they did; or why they failed.
pub(super) type Counted = Result<(Recorded, Effects)>;

/// Of several items, one that failed is answered with the error's text.
fn succeeded(value: &Value) -> Result<()> {
    match value {
        Value::BulkString(text) => Err(server_failure(&String::from_utf8_lossy(text))),
        _ => Ok(()),
    }
}

/// One partition of a space on Redis.
#[derive(Debug)]
pub(super) struct OnRedis {
    store: RedisStore,
    /// Of the store.
    partition: u32,
    /// Of the space.
    number: u32,
    /// What keys of activity start with.
    family: String,
    /// What keys of nodes that gather start with.
    flushes: String,
    space: Name,
    shared_keys: Arc<[String]>,
    bounds: Bounds,
    families: [String; 4],
    /// For the longest window that anybody has, and that.
    scripts: RwLock<(&'static Scripts, u64)>,
    /// The last note of keys that were repaired that was logged here, until the store knows.
    logged_note: Mutex<CompactString>,
}

impl OnRedis {
    /// Partition `number` of `of` of a space.
    pub(super) fn new(store: RedisStore, space: &Name, bounds: Bounds, number: u32, of: u32) -> Self {
        let place = store.spread(PartKind::Hot.stored_name(space.as_str()), number);
        let prefix = format!("{}{}", place.prefix, PartKind::Hot.key_prefix(space));
        // A space that only counts has keys of its own, so that it may have the name of one that keeps edits.
        let (families, shared) = match bounds.max_members {
            0 => (["hot:count:"; 4], "hot:counting:"),
            _ => (["activity:", "hot:window:", "hot:meta:", "hot:editors:"], "hot:"),
        };
        let families = families.map(|it| format!("{prefix}{it}"));
        let suffix = if of == 1 { String::new() } else { format!(":{number}") };
        let shared_keys = ["state", "activities", "due", "rank", "events"];
        let shared_keys = shared_keys.map(|it| format!("{prefix}{shared}{it}{suffix}")).into_iter().collect();
        let kept_ms = bounds.window_ms;
        let numbers = numbers(&bounds, kept_ms, store.clock().slack_ms(), &families);
        let scripts = scripts(numbers, bounds.max_members == 0);
        Self {
            store,
            partition: place.partition,
            number,
            family: families[0].clone(),
            flushes: format!("{prefix}hot:counting:flushes:"),
            space: space.clone(),
            shared_keys,
            bounds,
            families,
            scripts: RwLock::new((scripts, kept_ms)),
            logged_note: Mutex::default(),
        }
    }

    /// Deletes nothing that is in a window of so many milliseconds.
    pub(super) fn keep(&self, longest_ms: u64) {
        let kept_ms = longest_ms.max(self.bounds.window_ms);
        if self.scripts.read().1 != kept_ms {
            let slack_ms = self.store.clock().slack_ms();
            let numbers = numbers(&self.bounds, kept_ms, slack_ms, &self.families);
            *self.scripts.write() = (scripts(numbers, self.bounds.max_members == 0), kept_ms);
        }
    }

    fn scripts(&self) -> &'static Scripts {
        self.scripts.read().0
    }

    /// Within which a call is answered.
    pub(super) fn deadline(&self) -> Duration {
        self.store.deadline()
    }

    /// What this process takes for the time.
    pub(super) fn client_now(&self) -> Timestamp {
        self.store.client_clock().now()
    }

    /// A call on a page, or with no page on the whole partition.
    fn call(&self, script: &'static Script, page: &str) -> Call {
        Call::new(script).shared_keys(self.shared_keys.clone()).key(format!("{}{page}", self.family))
    }

    async fn send(&self, call: Call) -> Result<Value> {
        self.store.call(self.partition, call).await.map_err(|error| self.named(error))
    }

    /// An error that is about a key says in which space.
    fn named(&self, error: Error) -> Error {
        match error.kind() {
            ErrorKind::Corrupt => Error::corrupt(format!("{error}, in the space {}", self.space.as_str())),
            _ => error,
        }
    }

    /// The same of one page.
    fn of_page(&self, error: Error, page: Key<'_>) -> Error {
        match error.kind() {
            ErrorKind::Corrupt => {
                let key = format!("{}{}", self.family, page.as_str());
                self.named(Error::corrupt(format!("{error} (of the call on {key:?})")))
            }
            _ => error,
        }
    }

    /// Refuses a space that is spread over another number of partitions than `of`: its
    /// pages would not be found. Asked of its first partition, which is the same for all. Whether it is written
    /// down now: a server may take no writes.
    pub(super) async fn pin(&self, space: &Name, of: u32) -> Result<bool> {
        let stored = PartKind::Hot.stored_name(space.as_str());
        let call = Call::new(&PIN).key(self.shared_keys[0].clone()).arg(format_args!("hot:{stored}")).arg(of);
        match REPLIES.number(&self.store.call(self.partition, call).await?)? {
            0 => Ok(false),
            pinned if pinned == u64::from(of) => Ok(true),
            pinned => Err(Error::config(format!(
                "the space {} was written with {pinned} partitions, this is set to {of}: use the same, or \
                 another space or namespace",
                space.as_str()
            ))),
        }
    }

    /// Records up to [`MAX_EDITS`](super::batch::MAX_EDITS), those of a page together, as [`grouped`](super::batch::grouped) has them: in one round
    /// trip, or in several if one would keep the server for too long. What became of those of each page.
    pub(super) async fn record(
        &self,
        pages: &[&[Edit<'_>]],
        deadline: Option<Duration>,
    ) -> Result<Vec<OfPage>> {
        if pages.is_empty() {
            return Ok(Vec::new());
        }
        let mut records: Vec<_> = pages.iter().map(|edits| Record::new(edits)).collect();
        let until = monotonic() + self.deadline();
        let mut is_rest = false;
        loop {
            let mut left: Vec<_> = records.iter_mut().filter(|it| it.len() > 0).collect();
            if left.is_empty() {
                return Ok(records.into_iter().map(Record::into_page).collect());
            }
            let keys = left.iter().map(|it| format!("{}{}", self.family, it.page().as_str()));
            let args = left.iter().map(|it| it.written());
            let call = Call::new(&self.scripts().record).shared_keys(self.shared_keys.clone());
            let call = call.items(left.len()).keys(keys).args(args);
            // Those that wait for the same page travel together.
            let call = if left.len() == 1 && left[0].len() == 1 { call.joining(&EDITS) } else { call };
            match self.answer(call, deadline, is_rest.then_some(until)).await {
                Ok(value) => {
                    for (value, record) in REPLIES.items(&value, left.len())?.iter().zip(&mut left) {
                        let answered = succeeded(value).and_then(|()| record.answered(value));
                        if let Err(error) = answered {
                            record.fail(&self.of_page(error, record.page()));
                        }
                    }
                }
                Err(error) if is_rest => left.iter_mut().for_each(|it| it.fail(&error)),
                Err(error) => return Err(error),
            }
            is_rest = true;
        }
    }

    /// Makes a call within the store's deadline, or within one of its own; `until` a moment, if it is the rest of one.
    async fn answer(&self, call: Call, deadline: Option<Duration>, until: Option<Instant>) -> Result<Value> {
        let value = match (deadline, until) {
            (Some(deadline), _) => self.store.call_within(self.partition, call, deadline).await,
            (None, None) => self.store.call(self.partition, call).await,
            (None, Some(until)) => {
                let call = self.store.call(self.partition, call);
                let late =
                    || Error::away(OutageReason::Timeout, "the store did not answer within the deadline");
                tokio::time::timeout_at(until.into(), call).await.unwrap_or_else(|_| Err(late().in_doubt()))
            }
        };
        value.map_err(|error| self.named(error))
    }

    /// Counts of different pages, up to [`MAX_EDITS`](super::batch::MAX_EDITS), as [`record`](Self::record) does; what became of each, or that it
    /// failed.
    pub(super) async fn count(
        &self,
        counts: &[Count<'_>],
        deadline: Option<Duration>,
    ) -> Result<Vec<Counted>> {
        let until = monotonic() + self.deadline();
        let mut done = Vec::with_capacity(counts.len());
        while done.len() < counts.len() {
            // What was left for later comes last.
            let left = &counts[done.len()..];
            let call = Call::new(&self.scripts().record).shared_keys(self.shared_keys.clone());
            let call = self.with_counts(call, left);
            let call = if left.len() == 1 { call.joining(&COUNTS) } else { call };
            let is_rest = !done.is_empty();
            match self.answer(call, deadline, is_rest.then_some(until)).await {
                Ok(value) => done.extend(self.counted(&value, left)?.into_iter().flatten()),
                Err(error) if is_rest => done.resize(counts.len(), Err(error)),
                Err(error) => return Err(error),
            }
        }
        Ok(done)
    }

    /// The same of what `node` has gathered, by the number of the batch, in one call: nothing of counts that were counted
    /// before. Fewer if there are some left: those are counted when all of the batch is sent again.
    pub(super) async fn flush(
        &self,
        node: &str,
        batch: u64,
        counts: &[Count<'_>],
        deadline: Duration,
    ) -> Result<Vec<Option<Counted>>> {
        let Some(script) = &self.scripts().flush else {
            return Err(Error::internal("the space keeps edits: nothing is gathered"));
        };
        let key = format!("{}{node}-{}", self.flushes, self.number);
        let shared_keys = self.shared_keys.iter().cloned().chain([key]).collect();
        let call = Call::new(script).shared_keys(shared_keys);
        let call =
            call.shared_args([batch, FLUSH_KNOWN_MS].iter().map(|it| it.to_compact_string()).collect());
        let call = self.with_counts(call, counts).alone();
        let value = self.answer(call, Some(deadline), None).await?;
        self.counted(&value, counts)
    }

    fn with_counts(&self, call: Call, counts: &[Count<'_>]) -> Call {
        let keys = counts.iter().map(|it| format!("{}{}", self.family, it.page.as_str()));
        call.items(counts.len()).keys(keys).args(counts.iter().map(|it| it.count.to_compact_string()))
    }

    /// What became of counts, as far as they were not left for later; nothing of those that were counted before.
    fn counted(&self, value: &Value, counts: &[Count<'_>]) -> Result<Vec<Option<Counted>>> {
        let one = |(value, count): (&Value, &Count<'_>)| match value {
            Value::Int(REPEATED) => None,
            value => {
                let counted = succeeded(value).and_then(|()| recorded(value));
                Some(counted.map_err(|error| self.of_page(error, count.page)))
            }
        };
        let known =
            REPLIES.items(value, counts.len())?.iter().take_while(|it| !matches!(it, Value::Int(LATER)));
        Ok(known.zip(counts).map(one).collect())
    }

    pub(super) async fn stats(&self, page: Key<'_>) -> Result<Stats> {
        let value = self.send(self.call(&self.scripts().stats, page.as_str())).await?;
        let mut fields = REPLIES.list(&value)?;
        if !fields.flag()? {
            return Ok(Stats::default());
        }
        Ok(Stats {
            is_hot: true,
            is_trending: fields.flag()?,
            is_spiking: fields.flag()?,
            edits_last_hour: fields.number()?,
            edits_last_5_minutes: fields.number()?,
            covered_ms: fields.number()?,
            grain_ms: fields.number()?,
            unique_editors: fields.number()?,
            members: fields.number()?,
            last_byte_change: fields.integer()?,
            total_edits: fields.number()?,
            first_seen: fields.time()?,
            last_seen: fields.time()?,
        })
    }

    pub(super) async fn window(&self, page: Key<'_>, from_ms: u64, to_ms: u64) -> Result<Vec<EditRef>> {
        let call = self.call(&self.scripts().window, page.as_str()).arg(from_ms).arg(to_ms);
        let value = self.send(call).await?;
        let edits = REPLIES.list(&value)?.each(|it| {
            let (id, at, editor, change) = (utf8(it)?, digits(it)?, utf8(it)?, utf8(it)?);
            let byte_change = change.parse().map_err(|_| unreadable(&change))?;
            Ok(EditRef { id, at: Timestamp::from_millis(at), editor, byte_change })
        });
        edits.map_err(|error| self.of_page(error, page))
    }

    /// Looks after up to `limit` pages.
    pub(super) async fn cleanup(&self, limit: usize) -> Result<Cleaned> {
        let received = self.logged_note.lock().clone();
        let call = self.call(&self.scripts().cleanup, "").arg(limit).arg(received);
        let value = self.send(call).await?;
        let mut fields = REPLIES.list(&value)?;
        let (note, keys) = (fields.text()?, fields.text()?);
        self.log_repaired(&note, &keys);
        let [expired, more, more_activity, tracked, activities] = fields.numbers()?;
        Ok(Cleaned {
            effects: Effects { expired, events: event_counts(fields)?, ..Effects::default() },
            is_more: more > 0,
            is_more_activity: more_activity > 0,
            tracked,
            activities,
        })
    }

    /// Logs the keys of a note, once: it is answered until a later call says that it came.
    fn log_repaired(&self, note: &str, keys: &str) {
        let before = std::mem::replace(&mut *self.logged_note.lock(), note.into());
        if before == note {
            return;
        }
        for key in keys.lines() {
            let space = self.space.as_str();
            log::warn!(
                space,
                key,
                "a key of hot pages was of another type or could not be read, and was mended: somebody else \
                 has written there"
            );
        }
    }

    pub(super) async fn remove(&self, page: Key<'_>) -> Result<(Removed, Effects)> {
        let value = self.send(self.call(&self.scripts().remove, page.as_str())).await?;
        let mut fields = REPLIES.list(&value)?;
        let removed = match fields.integer()? {
            NOT_KNOWN => Removed::Unknown,
            WAS_REMEMBERED => Removed::Remembered,
            WAS_HOT => Removed::Hot,
            _ => return Err(fields.unexpected()),
        };
        let expired = fields.number()?;
        Ok((removed, Effects { expired, events: event_counts(fields)?, ..Effects::default() }))
    }

    /// How many pages are hot, and activities: of the pages whose window has changed `most` are
    /// asked for at a time.
    pub(super) async fn tracked(&self, most: usize) -> Result<(u64, u64)> {
        let (mut from, mut all_over) = (0, 0);
        loop {
            let call = self.call(&self.scripts().tracked, "").arg(most).arg(from);
            let value = self.send(call).await?;
            let mut fields = REPLIES.list(&value)?;
            let next = fields.integer()?;
            let [tracked, over, activities] = fields.numbers()?;
            all_over += over;
            match next {
                // Some may be dropped meanwhile.
                NO_MORE => return Ok((tracked.saturating_sub(all_over), activities)),
                next => from = next,
            }
        }
    }

    /// The `limit` hottest pages, not in order, and perhaps more: at most `most` are counted
    /// anew at a time.
    pub(super) async fn list(
        &self,
        after: Option<&HotPage>,
        limit: usize,
        most: usize,
    ) -> Result<Vec<HotPage>> {
        let place = after.map_or_else(Default::default, |after| {
            let edits = after.edits.min(MAX_RANKED).to_compact_string();
            [edits, after.last_seen.as_millis().to_compact_string(), after.page.to_compact_string()]
        });
        let mut pages: BTreeMap<String, HotPage> = BTreeMap::new();
        let mut from = -1;
        loop {
            let mut ranked: Vec<_> = pages.values().map(|it| (it.rank(), it.edits, it.last_seen)).collect();
            ranked.sort_unstable_by(|a, b| b.cmp(a));
            let (_, edits, last_seen) = ranked.get(limit - 1).copied().unwrap_or_default();
            let call = self.call(&self.scripts().list, "").arg(limit).arg(most);
            let call = call.args(place.clone()).arg(from).arg(edits).arg(last_seen.as_millis());
            let value = self.send(call).await?;
            let mut fields = REPLIES.list(&value)?;
            let next = fields.integer()?;
            for (page, edits, last_ms) in fields.each(|it| Ok((it.bytes()?, digits(it)?, digits(it)?)))? {
                // A page of ours has a name.
                let Ok(page) = std::str::from_utf8(page) else { continue };
                pages.insert(page.to_owned(), HotPage::new(page, edits, Timestamp::from_millis(last_ms)));
            }
            if next == NO_MORE {
                break;
            }
            from = next;
        }
        Ok(pages.into_values().collect())
    }

    pub(super) async fn is_hot(&self, page: Key<'_>) -> Result<bool> {
        let value = self.send(self.call(&self.scripts().is_hot, page.as_str())).await?;
        Ok(REPLIES.number(&value)? == 1)
    }

    pub(super) async fn events(&self, after: Option<Position>, limit: usize) -> Result<News> {
        let (position, life) = match after {
            Some(Position { life, ms, number }) => {
                (compact_str::format_compact!("{ms}-{number}"), life.to_compact_string())
            }
            None => Default::default(),
        };
        let call = self.call(&self.scripts().events, "").args([position, life]).arg(limit);
        let value = self.send(call).await?;
        let mut fields = REPLIES.list(&value)?;
        let life = digits(&mut fields)?;
        let status = match fields.integer()? {
            KNOWN => PositionStatus::Known,
            MISSED => PositionStatus::Missed,
            IMPOSSIBLE => PositionStatus::Impossible,
            _ => return Err(fields.unexpected()),
        };
        let from = reply::position(&mut fields, life)?;
        Ok(News { status, from, events: fields.each(|it| happened(it, life))? })
    }
}
