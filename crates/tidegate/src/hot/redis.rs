//! Hot pages on Redis: thin over its scripts. `docs/redis-keys.md` has the keys.

use std::sync::{Arc, LazyLock};

use compact_str::{CompactString, ToCompactString as _};
use redis::Value;

use super::edit::{Edit, EditRef, Event, EventKind, HotPage, Recorded, Stats};
use super::memory::Effects;
use super::options::{ACTIVITY_MS, Bounds, absurd_ms};
use crate::clock::Timestamp;
use crate::error::{Error, Result};
use crate::key::{Key, Name};
use crate::store::redis::{Call, RedisStore, Script, server_failure};

/// In a debug build scripts check themselves.
const CHECKED: &str = if cfg!(debug_assertions) { "local CHECKED = true" } else { "local CHECKED = false" };
const HOT: &str = include_str!("hot.lua");

static RECORD: LazyLock<Script> = LazyLock::new(|| script(include_str!("record.lua")));
static STATS: LazyLock<Script> = LazyLock::new(|| script(include_str!("stats.lua")));
static WINDOW: LazyLock<Script> = LazyLock::new(|| script(include_str!("window.lua")));
static CLEANUP: LazyLock<Script> = LazyLock::new(|| script(include_str!("cleanup.lua")));
static EVENTS: LazyLock<Script> = LazyLock::new(|| script(include_str!("events.lua")));

fn script(operation: &str) -> Script {
    Script::new(&[CHECKED, HOT, operation])
}

/// The space whose keys are those that everybody knows.
pub(super) const DEFAULT_SPACE: &str = "pages";

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
    /// What keys of pages start with, by family.
    families: [String; 4],
    common: Arc<[String]>,
    shared: Arc<[CompactString]>,
}

impl OnRedis {
    /// Partition `number` of `of` of a space.
    pub(super) fn new(store: RedisStore, space: &Name, bounds: Bounds, number: u32, of: u32) -> Self {
        let place = store.spread(space.as_str(), number);
        let space = match space.as_str() {
            DEFAULT_SPACE => String::new(),
            name => format!("spaces:{name}:"),
        };
        let prefix = format!("{}{space}", place.prefix);
        let families =
            ["activity:", "hot:window:", "hot:meta:", "hot:editors:"].map(|it| format!("{prefix}{it}"));
        let suffix = if of == 1 { String::new() } else { format!(":{number}") };
        let common = ["state", "activities", "due", "rank", "events"];
        let common = common.map(|it| format!("{prefix}hot:{it}{suffix}")).into_iter().collect();
        let slack_ms = store.clock().slack_ms();
        let numbers = [
            BUFFER_MS.max(slack_ms),
            bounds.hot_threshold,
            bounds.promotion_threshold,
            bounds.window_ms,
            bounds.max_tracked,
            bounds.max_members,
            u64::from(bounds.replaces),
        ];
        let spike = compact_str::format_compact!("{:?}", bounds.spike_ratio);
        let more = [bounds.spike_minimum, bounds.max_activity, absurd_ms(bounds.window_ms)];
        let shared = numbers
            .iter()
            .map(|n| n.to_compact_string())
            .chain([spike])
            .chain(more.iter().map(|n| n.to_compact_string()))
            .chain(families.iter().map(|family| family.to_compact_string()))
            .chain([(ACTIVITY_MS + slack_ms).to_compact_string()])
            .collect();
        Self { store, partition: place.partition, families, common, shared }
    }

    fn keys(&self, page: &str) -> [String; 4] {
        self.families.each_ref().map(|family| format!("{family}{page}"))
    }

    async fn call(&self, script: &'static Script, page: &str, own: Vec<CompactString>) -> Result<Value> {
        self.call_many(script, [page], own).await
    }

    async fn call_many<'a>(
        &self,
        script: &'static Script,
        pages: impl IntoIterator<Item = &'a str>,
        own: Vec<CompactString>,
    ) -> Result<Value> {
        let mut more_keys = Vec::new();
        let mut items = 0;
        for page in pages {
            more_keys.extend(self.keys(page));
            items += 1;
        }
        let call = Call {
            script,
            shared: self.shared.clone(),
            common: self.common.clone(),
            items,
            key: more_keys.remove(0),
            more_keys,
            own,
            now_ms: self.store.set_time_ms(),
        };
        self.store.call(self.partition, call).await
    }

    /// Records up to [`MAX_EDITS`] in one round trip.
    pub(super) async fn record(&self, edits: &[Edit<'_>]) -> Result<Vec<(Recorded, Effects)>> {
        let own = edits.iter().flat_map(|edit| {
            [
                edit.id.into(),
                edit.editor.into(),
                edit.byte_change.to_compact_string(),
                edit.at.map(|at| at.as_millis().to_compact_string()).unwrap_or_default(),
            ]
        });
        let pages = edits.iter().map(|edit| edit.page.as_str());
        let value = self.call_many(&RECORD, pages, own.collect()).await?;
        match (value, edits.len()) {
            (value, 1) => Ok(vec![recorded(&value)?]),
            (Value::Array(values), count) if values.len() == count => values.iter().map(recorded).collect(),
            (value, _) => Err(unexpected(&value)),
        }
    }

    pub(super) async fn stats(&self, page: Key<'_>) -> Result<(Stats, u64)> {
        let value = self.call(&STATS, page.as_str(), vec![page.as_str().into()]).await?;
        let Value::Array(items) = &value else { return Err(unexpected(&value)) };
        let numbers: Vec<i64> = items
            .iter()
            .map(|item| match item {
                Value::Int(number) => Ok(*number),
                _ => Err(unexpected(&value)),
            })
            .collect::<Result<_>>()?;
        match numbers[..] {
            [0, expired] => Ok((Stats::default(), expired as u64)),
            [1, expired, trending, spiking, hour, five, covered, editors, change, total, first, last] => {
                let stats = Stats {
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
                };
                Ok((stats, expired as u64))
            }
            _ => Err(unexpected(&value)),
        }
    }

    pub(super) async fn window(&self, page: Key<'_>, from_ms: u64, to_ms: u64) -> Result<Vec<EditRef>> {
        let own = vec![page.as_str().into(), from_ms.to_compact_string(), to_ms.to_compact_string()];
        let value = self.call(&WINDOW, page.as_str(), own).await?;
        let texts = texts(&value)?;
        let edit = |fields: &[String]| match fields {
            [id, at, editor, change] => Ok(EditRef {
                id: id.clone(),
                at: Timestamp::from_millis(number(at, &value)?),
                editor: editor.clone(),
                byte_change: change.parse().map_err(|_| unexpected(&value))?,
            }),
            _ => Err(unexpected(&value)),
        };
        texts.chunks(4).map(edit).collect()
    }

    /// Looks after up to `limit` pages, and tells the `told` hottest.
    pub(super) async fn cleanup(&self, limit: usize, told: usize) -> Result<Cleaned> {
        let own = vec![limit.to_compact_string(), told.to_compact_string()];
        let value = self.call(&CLEANUP, "", own).await?;
        let Value::Array(items) = &value else { return Err(unexpected(&value)) };
        let [
            Value::Int(expired),
            Value::Int(more),
            Value::Int(more_activity),
            Value::Int(tracked),
            Value::Int(activities),
            hottest @ ..,
        ] = &items[..]
        else {
            return Err(unexpected(&value));
        };
        let hottest = texts(&Value::Array(hottest.to_vec()))?;
        let page = |fields: &[String]| match fields {
            [page, rank] => {
                // As Redis writes a score: a whole number, perhaps with an exponent.
                let rank = rank.parse::<f64>().map_err(|_| unexpected(&value))? as u64;
                let last_seen = Timestamp::from_millis(rank & ((1 << 41) - 1));
                Ok(HotPage { page: page.clone(), edits: rank >> 41, last_seen })
            }
            _ => Err(unexpected(&value)),
        };
        Ok(Cleaned {
            expired: *expired as u64,
            is_more: *more > 0,
            is_more_activity: *more_activity > 0,
            tracked: *tracked as u64,
            activities: *activities as u64,
            hottest: hottest.chunks(2).map(page).collect::<Result<_>>()?,
        })
    }

    pub(super) async fn events(&self, cursor: Option<&str>, limit: usize) -> Result<(Vec<Event>, String)> {
        let own = vec![cursor.unwrap_or_default().into(), limit.to_compact_string()];
        let value = self.call(&EVENTS, "", own).await?;
        let texts = texts(&value)?;
        let Some((cursor, fields)) = texts.split_first() else { return Err(unexpected(&value)) };
        let event = |fields: &[String]| match fields {
            [id, kind, page, edits, at] => Ok(Event {
                cursor: id.clone(),
                kind: EventKind::named(kind).ok_or_else(|| unexpected(&value))?,
                page: page.clone(),
                edits: number(edits, &value)?,
                at: Timestamp::from_millis(number(at, &value)?),
            }),
            _ => Err(unexpected(&value)),
        };
        Ok((fields.chunks(5).map(event).collect::<Result<_>>()?, cursor.clone()))
    }
}

/// What a cleanup did and found.
#[derive(Debug)]
pub(super) struct Cleaned {
    pub(super) expired: u64,
    /// Pages are left to look after.
    pub(super) is_more: bool,
    /// More activity may be over.
    pub(super) is_more_activity: bool,
    pub(super) tracked: u64,
    pub(super) activities: u64,
    pub(super) hottest: Vec<HotPage>,
}

fn recorded(value: &Value) -> Result<(Recorded, Effects)> {
    let (answer, replaced) = match value {
        Value::Int(answer) => (*answer, None),
        Value::Array(items) => match &items[..] {
            [Value::Int(answer), Value::BulkString(page)] => (*answer, Some(page)),
            _ => return Err(unexpected(value)),
        },
        // One of several that failed.
        Value::BulkString(text) => return Err(server_failure(&String::from_utf8_lossy(text))),
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
    };
    Ok((recorded, effects))
}

fn texts(value: &Value) -> Result<Vec<String>> {
    let Value::Array(items) = value else { return Err(unexpected(value)) };
    let text = |item: &Value| match item {
        Value::BulkString(text) => String::from_utf8(text.clone()).map_err(|_| unexpected(value)),
        Value::SimpleString(text) => Ok(text.clone()),
        _ => Err(unexpected(value)),
    };
    items.iter().map(text).collect()
}

fn number(text: &str, value: &Value) -> Result<u64> {
    text.parse().map_err(|_| unexpected(value))
}

fn unexpected(reply: &(impl std::fmt::Debug + ?Sized)) -> Error {
    Error::internal(format!("a script of hot pages answered {reply:?}"))
}
