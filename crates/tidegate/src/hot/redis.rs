//! Hot pages on Redis: thin over its scripts. `docs/redis-keys.md` has the keys.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use compact_str::{CompactString, ToCompactString as _};
use parking_lot::{Mutex, RwLock};
use redis::Value;

use super::edit::{Edit, EditRef, EventCounts, EventKind, HotPage, Recorded, Removed, Stats};
use super::memory::{Cleaned, Effects};
use super::options::{ACTIVITY_MS, Bounds};
use super::position::{Happened, News, Position, PositionStatus};
use crate::clock::{Timestamp, absurd_ms};
use crate::error::{Error, ErrorKind, Result};
use crate::key::{Key, Name};
use crate::log;
use crate::store::PartKind;
use crate::store::redis::{Call, RedisStore, Script, server_failure};

/// In a debug build scripts check themselves.
const CHECKED: &str = if cfg!(debug_assertions) { "local CHECKED = true" } else { "local CHECKED = false" };
const HOT: &str = include_str!("hot.lua");

static PIN: LazyLock<Script> = LazyLock::new(|| Script::new(&[include_str!("pin.lua")]));

/// The operations of one kind of space: its numbers are part of each script.
#[derive(Debug)]
struct Scripts {
    record: Script,
    stats: Script,
    window: Script,
    cleanup: Script,
    count: Script,
    list: Script,
    is_hot: Script,
    events: Script,
    remove: Script,
}

/// Of all kinds of spaces in this process, by their numbers. There are as many as a
/// process opens with other settings, which is a few, so they are never dropped.
static SCRIPTS: Mutex<BTreeMap<String, &'static Scripts>> = Mutex::new(BTreeMap::new());

fn scripts(numbers: String) -> &'static Scripts {
    let mut all = SCRIPTS.lock();
    if let Some(scripts) = all.get(&numbers) {
        return scripts;
    }
    let with = |kind: &str, more: &str, operation: &str| {
        Script::new(&[CHECKED, kind, &numbers, HOT, more, operation])
    };
    let (reads, writes) = ("local READS, REPAIRS = true, false", "local READS, REPAIRS = false, false");
    let reading = |operation: &str| with(reads, include_str!("read.lua"), operation);
    let repairing =
        |operation: &str| with("local READS, REPAIRS = false, true", include_str!("repair.lua"), operation);
    let scripts: &'static Scripts = Box::leak(Box::new(Scripts {
        record: with(writes, "", include_str!("record.lua")),
        stats: reading(include_str!("stats.lua")),
        window: reading(include_str!("window.lua")),
        cleanup: repairing(include_str!("cleanup.lua")),
        count: reading(include_str!("count.lua")),
        list: reading(include_str!("list.lua")),
        is_hot: with(reads, "", include_str!("is_hot.lua")),
        events: with(reads, "", include_str!("events.lua")),
        remove: repairing(include_str!("remove.lua")),
    }));
    all.insert(numbers, scripts);
    scripts
}

/// What stands in front of `hot.lua`.
fn numbers(bounds: &Bounds, kept_ms: u64, slack_ms: u64, families: &[String; 4]) -> String {
    let numbers = [
        ("buffer_ms", BUFFER_MS.max(slack_ms)),
        ("hot_threshold", bounds.hot_threshold),
        ("promotion_threshold", bounds.promotion_threshold),
        ("window_ms", bounds.window_ms),
        ("kept_ms", kept_ms),
        ("max_tracked", bounds.max_tracked),
        ("max_members", bounds.max_members),
        ("spike_minimum", bounds.spike_minimum),
        ("max_activity", bounds.max_activity),
        ("absurd_ms", absurd_ms(kept_ms)),
        ("activity_ttl_ms", ACTIVITY_MS + slack_ms),
    ];
    let (names, values): (Vec<_>, Vec<_>) =
        numbers.into_iter().map(|(name, value)| (name, value.to_string())).unzip();
    let mut text = format!("local {} = {}\n", names.join(", "), values.join(", "));
    text += &format!("local replaces, spike_ratio = {}, {:?}\n", bounds.replaces, bounds.spike_ratio);
    // Of names, colons and braces: nothing in them has to be escaped.
    text + &format!("local FAMILIES = {{ '{}' }}", families.join("', '"))
}

/// Keys live at least so much longer than what is in them.
const BUFFER_MS: u64 = 600_000;

/// Edits of one call, at most: half a millisecond of the server's time or so.
pub(super) const MAX_EDITS: usize = 128;

/// One partition of a space on Redis.
#[derive(Debug)]
pub(super) struct OnRedis {
    store: RedisStore,
    /// Of the store.
    partition: u32,
    /// What keys of activity start with.
    family: String,
    space: Name,
    shared_keys: Arc<[String]>,
    shared_args: Arc<[CompactString]>,
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
        let families =
            ["activity:", "hot:window:", "hot:meta:", "hot:editors:"].map(|it| format!("{prefix}{it}"));
        let suffix = if of == 1 { String::new() } else { format!(":{number}") };
        let shared_keys = ["state", "activities", "due", "rank", "events"];
        let shared_keys = shared_keys.map(|it| format!("{prefix}hot:{it}{suffix}")).into_iter().collect();
        let kept_ms = bounds.window_ms;
        let scripts = scripts(numbers(&bounds, kept_ms, store.clock().slack_ms(), &families));
        Self {
            store,
            partition: place.partition,
            family: families[0].clone(),
            space: space.clone(),
            shared_keys,
            shared_args: Arc::new([]),
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
            *self.scripts.write() =
                (scripts(numbers(&self.bounds, kept_ms, slack_ms, &self.families)), kept_ms);
        }
    }

    fn scripts(&self) -> &'static Scripts {
        self.scripts.read().0
    }

    /// What this process takes for the time.
    pub(super) fn client_now(&self) -> Timestamp {
        self.store.client_clock().now()
    }

    async fn call(&self, script: &'static Script, page: &str, own: Vec<CompactString>) -> Result<Value> {
        let key = format!("{}{page}", self.family);
        self.send(script, 1, key, Vec::new(), own, None).await
    }

    async fn send(
        &self,
        script: &'static Script,
        items: usize,
        key: String,
        more_keys: Vec<String>,
        own: Vec<CompactString>,
        deadline: Option<Duration>,
    ) -> Result<Value> {
        let call = Call {
            script,
            shared_args: self.shared_args.clone(),
            shared_keys: self.shared_keys.clone(),
            items,
            key,
            more_keys,
            item_args: own,
            now_ms: self.store.set_time_ms(),
        };
        let answer = match deadline {
            None => self.store.call(self.partition, call).await,
            Some(deadline) => self.store.call_within(self.partition, call, deadline).await,
        };
        answer.map_err(|error| self.named(error))
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
        let own = vec![compact_str::format_compact!("hot:{stored}"), of.to_compact_string()];
        let call = Call {
            script: &PIN,
            shared_args: Arc::new([]),
            shared_keys: Arc::new([]),
            items: 1,
            key: self.shared_keys[0].clone(),
            more_keys: Vec::new(),
            item_args: own,
            now_ms: self.store.set_time_ms(),
        };
        match self.store.call(self.partition, call).await? {
            Value::Int(0) => Ok(false),
            Value::Int(pinned) if pinned == i64::from(of) => Ok(true),
            Value::Int(pinned) => Err(Error::config(format!(
                "the space {} was written with {pinned} partitions, this is set to {of}: use the same, or \
                 another space or namespace",
                space.as_str()
            ))),
            value => Err(unexpected(&value)),
        }
    }

    /// Records up to [`MAX_EDITS`] in one round trip; what became of each, or that it failed.
    pub(super) async fn record(
        &self,
        edits: &[Edit<'_>],
        deadline: Option<Duration>,
    ) -> Result<Vec<Result<(Recorded, Effects)>>> {
        let mut keys = edits.iter().map(|edit| format!("{}{}", self.family, edit.page.as_str()));
        let Some(key) = keys.next() else { return Ok(Vec::new()) };
        let own = edits.iter().map(|edit| {
            let at = edit.at.map(|at| at.as_millis().to_compact_string()).unwrap_or_default();
            compact_str::format_compact!("{at}\0{}\0{}\0{}\0", edit.byte_change, edit.id, edit.editor)
        });
        let (keys, own) = (keys.collect(), own.collect());
        let value = self.send(&self.scripts().record, edits.len(), key, keys, own, deadline).await?;
        let one = |(value, edit): (&Value, &Edit<'_>)| match value {
            Value::BulkString(text) => {
                Err(self.of_page(server_failure(&String::from_utf8_lossy(text)), edit.page))
            }
            value => recorded(value),
        };
        match (value, edits.len()) {
            (value, 1) => Ok(vec![recorded(&value)]),
            (Value::Array(values), count) if values.len() == count => {
                Ok(values.iter().zip(edits).map(one).collect())
            }
            (value, _) => Err(unexpected(&value)),
        }
    }

    pub(super) async fn stats(&self, page: Key<'_>) -> Result<Stats> {
        let value = self.call(&self.scripts().stats, page.as_str(), Vec::new()).await?;
        match integers(&value)?[..] {
            [0] => Ok(Stats::default()),
            [1, trending, spiking, hour, five, covered, editors, change, total, first, last] => Ok(Stats {
                is_hot: true,
                is_trending: trending == 1,
                is_spiking: spiking == 1,
                edits_last_hour: hour as u64,
                edits_last_5_minutes: five as u64,
                covered_ms: covered as u64,
                unique_editors: editors as u64,
                last_byte_change: change,
                total_edits: total as u64,
                first_seen: Timestamp::from_millis(first as u64),
                last_seen: Timestamp::from_millis(last as u64),
            }),
            _ => Err(unexpected(&value)),
        }
    }

    pub(super) async fn window(&self, page: Key<'_>, from_ms: u64, to_ms: u64) -> Result<Vec<EditRef>> {
        let own = vec![from_ms.to_compact_string(), to_ms.to_compact_string()];
        let value = self.call(&self.scripts().window, page.as_str(), own).await?;
        let texts = texts(&value).map_err(|error| self.of_page(error, page))?;
        let edit = |fields: &[String]| match fields {
            [id, at, editor, change] => Ok(EditRef {
                id: id.clone(),
                at: Timestamp::from_millis(number(at, &value)?),
                editor: editor.clone(),
                byte_change: change.parse().map_err(|_| unreadable(change))?,
            }),
            _ => Err(unexpected(&value)),
        };
        let edits: Result<_> = texts.chunks(4).map(edit).collect();
        edits.map_err(|error| self.of_page(error, page))
    }

    /// Looks after up to `limit` pages.
    pub(super) async fn cleanup(&self, limit: usize) -> Result<Cleaned> {
        let own = vec![limit.to_compact_string(), self.logged_note.lock().clone()];
        let mut value = self.call(&self.scripts().cleanup, "", own).await?;
        if let Value::Array(items) = &mut value
            && let (Some(Value::BulkString(note)), Some(Value::BulkString(keys))) = (items.pop(), items.pop())
        {
            self.log_repaired(&String::from_utf8_lossy(&note), &String::from_utf8_lossy(&keys));
        }
        let integers = integers(&value)?;
        let [expired, more, more_activity, tracked, activities, ref counts @ ..] = integers[..] else {
            return Err(unexpected(&value));
        };
        let events = event_counts(counts, &value)?;
        Ok(Cleaned {
            effects: Effects { expired: expired as u64, events, ..Effects::default() },
            is_more: more > 0,
            is_more_activity: more_activity > 0,
            tracked: tracked as u64,
            activities: activities as u64,
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
        let value = self.call(&self.scripts().remove, page.as_str(), Vec::new()).await?;
        let integers = integers(&value)?;
        let [was, expired, ref counts @ ..] = integers[..] else { return Err(unexpected(&value)) };
        let removed = match was {
            0 => Removed::Unknown,
            1 => Removed::Remembered,
            2 => Removed::Hot,
            _ => return Err(unexpected(&value)),
        };
        let events = event_counts(counts, &value)?;
        Ok((removed, Effects { expired: expired as u64, events, ..Effects::default() }))
    }

    /// How many pages are hot, and activities: of the pages whose window has changed `most` are
    /// asked for at a time.
    pub(super) async fn count(&self, most: usize) -> Result<(u64, u64)> {
        let (mut from, mut all_over) = (0, 0);
        loop {
            let own = vec![most.to_compact_string(), from.to_compact_string()];
            let value = self.call(&self.scripts().count, "", own).await?;
            let [next, tracked, over, activities] = integers(&value)?[..] else {
                return Err(unexpected(&value));
            };
            all_over += over;
            match next {
                // Some may be dropped meanwhile.
                -1 => return Ok(((tracked - all_over).max(0) as u64, activities as u64)),
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
        let (rank, name) = after.map_or_else(Default::default, |after| {
            (after.rank().to_compact_string(), after.page.to_compact_string())
        });
        let mut pages: BTreeMap<String, u64> = BTreeMap::new();
        let mut from = -1;
        loop {
            let mut ranks: Vec<_> = pages.values().copied().collect();
            ranks.sort_unstable_by(|a, b| b.cmp(a));
            let floor = ranks.get(limit - 1).copied().unwrap_or_default();
            let [limit, most] = [limit, most].map(|n| n.to_compact_string());
            let (from_text, floor) = (from.to_compact_string(), floor.to_compact_string());
            let own = vec![limit, most, rank.clone(), name.clone(), from_text, floor];
            let value = self.call(&self.scripts().list, "", own).await?;
            let Value::Array(items) = &value else { return Err(unexpected(&value)) };
            let [Value::Int(next), ranked @ ..] = &items[..] else { return Err(unexpected(&value)) };
            for page in ranked.chunks(2) {
                let [Value::BulkString(page), Value::BulkString(rank)] = page else {
                    return Err(unexpected(&value));
                };
                // A page of ours has a name.
                let Ok(page) = std::str::from_utf8(page) else { continue };
                pages.insert(page.to_owned(), number(&String::from_utf8_lossy(rank), &value)?);
            }
            if *next < 0 {
                break;
            }
            from = *next;
        }
        let page = |(page, rank): (String, u64)| {
            let last_seen = Timestamp::from_millis(rank & ((1 << 41) - 1));
            HotPage { page, edits: rank >> 41, last_seen }
        };
        Ok(pages.into_iter().map(page).collect())
    }

    pub(super) async fn is_hot(&self, page: Key<'_>) -> Result<bool> {
        match self.call(&self.scripts().is_hot, page.as_str(), Vec::new()).await? {
            Value::Int(is_hot) => Ok(is_hot == 1),
            value => Err(unexpected(&value)),
        }
    }

    pub(super) async fn events(&self, after: Option<Position>, limit: usize) -> Result<News> {
        let (position, life) = match after {
            Some(Position { life, ms, number }) => {
                (compact_str::format_compact!("{ms}-{number}"), life.to_compact_string())
            }
            None => Default::default(),
        };
        let own = vec![position, life, limit.to_compact_string()];
        let value = self.call(&self.scripts().events, "", own).await?;
        let texts = texts(&value)?;
        let [life, status, from, fields @ ..] = &texts[..] else { return Err(unexpected(&value)) };
        let life = number(life, &value)?;
        let position = |id: &str| {
            let position = Position::parse(id).ok_or_else(|| unexpected(&value))?;
            Ok::<_, Error>(Position { life, ..position })
        };
        let status = match status.as_str() {
            "0" => PositionStatus::Known,
            "1" => PositionStatus::Missed,
            "2" => PositionStatus::Impossible,
            _ => return Err(unexpected(&value)),
        };
        let happened = |fields: &[String]| match fields {
            [id, kind, page, edits, at] => {
                let (position, at) = (position(id)?, at.parse().ok().map(Timestamp::from_millis));
                let (kind, edits) = (EventKind::named(kind), edits.parse().ok());
                Ok(match (kind, edits, at) {
                    (Some(kind), Some(edits), Some(at)) => {
                        Happened { position, kind, page: page.clone(), edits, at }
                    }
                    // Not ours, or of a program that knows more than this: who reads on misses it.
                    _ => Happened::missed(position, 1, at.unwrap_or_default()),
                })
            }
            _ => Err(unexpected(&value)),
        };
        let events = fields.chunks(5).map(happened).collect::<Result<_>>()?;
        Ok(News { status, from: position(from)?, events })
    }
}

fn recorded(value: &Value) -> Result<(Recorded, Effects)> {
    let (answer, replaced, events) = match value {
        Value::Int(answer) => (*answer, None, None),
        Value::Array(items) => match &items[..] {
            [Value::Int(answer), Value::BulkString(page), counts @ ..] => {
                let counts = counts.iter().map(|it| integer(it, value)).collect::<Result<Vec<_>>>()?;
                let replaced = (!page.is_empty()).then_some(page);
                (*answer, replaced, event_counts(&counts, value)?)
            }
            _ => return Err(unexpected(value)),
        },
        _ => return Err(unexpected(value)),
    };
    let (code, is_activity, expired) = (answer & 7, answer & 8 != 0, answer >> 4);
    let recorded = match code {
        0 => Recorded::Remembered,
        1 => Recorded::Promoted { replaced: replaced.map(|page| String::from_utf8_lossy(page).into_owned()) },
        2 => Recorded::Added,
        3 => Recorded::Rejected,
        4 => Recorded::Duplicate,
        5 => Recorded::TooLate,
        _ => return Err(unexpected(value)),
    };
    let effects = Effects {
        activity: u64::from(is_activity),
        promoted: u64::from(code == 1),
        rejected: u64::from(code == 3),
        expired: expired as u64,
        events,
    };
    Ok((recorded, effects))
}

/// How many events of each kind a script says there were.
fn event_counts(counts: &[i64], value: &Value) -> Result<Option<Box<EventCounts>>> {
    let counts: Vec<u32> = counts.iter().map(|count| *count as u32).collect();
    counts.try_into().map(|counts| Some(Box::new(counts))).map_err(|_| unexpected(value))
}

fn integers(value: &Value) -> Result<Vec<i64>> {
    let Value::Array(items) = value else { return Err(unexpected(value)) };
    items.iter().map(|item| integer(item, value)).collect()
}

fn integer(item: &Value, value: &Value) -> Result<i64> {
    match item {
        Value::Int(number) => Ok(*number),
        _ => Err(unexpected(value)),
    }
}

fn texts(value: &Value) -> Result<Vec<String>> {
    let Value::Array(items) = value else { return Err(unexpected(value)) };
    let text = |item: &Value| match item {
        Value::BulkString(text) => std::str::from_utf8(text)
            .map(str::to_owned)
            .map_err(|_| unreadable(&String::from_utf8_lossy(text))),
        Value::SimpleString(text) => Ok(text.clone()),
        _ => Err(unexpected(value)),
    };
    items.iter().map(text).collect()
}

fn number(text: &str, value: &Value) -> Result<u64> {
    text.parse().map_err(|_| unexpected(value))
}

/// Of something that nobody of ours has written.
fn unreadable(text: &str) -> Error {
    let shown: String = text.chars().take(60).collect();
    Error::corrupt(format!("{shown:?} cannot be read"))
}

fn unexpected(reply: &(impl std::fmt::Debug + ?Sized)) -> Error {
    Error::internal(format!("a script of hot pages answered {reply:?}"))
}
