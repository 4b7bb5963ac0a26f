//! The seed's own tracker, from its document: an activity counter that gates a
//! window. Once as commands on a Redis, once as rules in this process.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use redis::AsyncConnectionConfig;
use redis::aio::MultiplexedConnection;
use tidegate::clock::monotonic;
use tokio::sync::Mutex;

use super::recorders::Recorder;
use super::trace::Line;

/// What the seed calls the counter's life, and how much longer than the window the
/// keys of a page live.
const ACTIVITY_S: i64 = 600;
const BUFFER_S: i64 = 600;

/// For how long a count of hot pages is believed.
const COUNT_CACHED: Duration = Duration::from_secs(10);

/// The settings that matter to it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Settings {
    pub(super) hot_threshold: i64,
    pub(super) window_s: i64,
    pub(super) max_tracked: usize,
    pub(super) max_members: isize,
}

/// Its sequence of commands, one awaited after the other.
#[derive(Clone)]
pub(super) struct Seed {
    /// All share one, or each task has its own.
    connections: Arc<[MultiplexedConnection]>,
    settings: Settings,
    count: Arc<Mutex<Counted>>,
}

#[derive(Debug, Default)]
struct Counted {
    pages: usize,
    /// How long it has been believed, in turns of the seed's own.
    age: Duration,
    since: Option<std::time::Instant>,
    is_known: bool,
}

impl Seed {
    /// Over `connections` connections to a server.
    pub(super) async fn open(url: &str, connections: usize, settings: Settings) -> Result<Self> {
        let client = redis::Client::open(url)?;
        // A machine that is busy with something else is no failure of the seed's.
        let patient = AsyncConnectionConfig::new().set_response_timeout(Some(Duration::from_secs(10)));
        let mut opened = Vec::new();
        for _ in 0..connections {
            opened.push(client.get_multiplexed_async_connection_with_config(&patient).await?);
        }
        Ok(Self { connections: opened.into(), settings, count: Arc::default() })
    }

    /// Forgets everything: its keyspace is never larger than a turn makes it.
    pub(super) async fn flush(&self) -> Result<()> {
        let mut connection = self.connections[0].clone();
        Ok(redis::cmd("FLUSHALL").query_async(&mut connection).await?)
    }

    /// Between its turns the cached count does not age: others run, not it.
    pub(super) async fn pause(&self) {
        let mut count = self.count.lock().await;
        if let Some(since) = count.since.take() {
            count.age += since.elapsed();
        }
    }

    /// GetHotPagesCount: a SCAN, whose result is believed for a while. One scans at a
    /// time, and those who come meanwhile wait for its result; a hundred keys at a
    /// time. Both are kinder than the document asks for.
    async fn count(&self, connection: &mut MultiplexedConnection) -> Result<usize> {
        let mut count = self.count.lock().await;
        let since = *count.since.get_or_insert_with(monotonic);
        if count.is_known && count.age + since.elapsed() < COUNT_CACHED {
            return Ok(count.pages);
        }
        let (mut cursor, mut pages) = (0_u64, 0);
        loop {
            let (next, found): (u64, Vec<String>) = redis::cmd("SCAN")
                .arg(cursor)
                .arg("MATCH")
                .arg("hot:window:*")
                .arg("COUNT")
                .arg(100)
                .query_async(connection)
                .await?;
            pages += found.len();
            cursor = next;
            if cursor == 0 {
                break;
            }
        }
        *count = Counted { pages, age: Duration::ZERO, since: Some(monotonic()), is_known: true };
        Ok(pages)
    }

    /// ProcessEdit.
    async fn process(&self, line: &Line, task: usize) -> Result<()> {
        let mut connection = self.connections[task % self.connections.len()].clone();
        let activity = format!("activity:{}", line.page);
        let edits: i64 = redis::cmd("INCR").arg(&activity).query_async(&mut connection).await?;
        if edits == 1 {
            let () = redis::cmd("EXPIRE").arg(&activity).arg(ACTIVITY_S).query_async(&mut connection).await?;
        }
        if edits < self.settings.hot_threshold {
            return Ok(());
        }
        self.promote(line, &mut connection).await
    }

    /// promoteToHot.
    async fn promote(&self, line: &Line, connection: &mut MultiplexedConnection) -> Result<()> {
        // Edits of pages that are hot come this way too: there is no other.
        if self.count(connection).await? >= self.settings.max_tracked {
            return Ok(());
        }
        let window = format!("hot:window:{}", line.page);
        let meta = format!("hot:meta:{}", line.page);
        let (at, ttl) = (line.at_ms / 1000, self.settings.window_s + BUFFER_S);
        let mut pipeline = redis::pipe();
        pipeline
            .atomic()
            .zadd(&window, format!("{at}:{}", line.id), at)
            .zrembyscore(&window, "-inf", at as i64 - self.settings.window_s)
            .zremrangebyrank(&window, 0, -self.settings.max_members - 1)
            .hincr(&meta, "edit_count", 1)
            .hset(&meta, "last_edit", at)
            .expire(&window, ttl)
            .expire(&meta, ttl);
        let () = pipeline.query_async(connection).await?;
        Ok(())
    }
}

impl Recorder for Seed {
    async fn record(&self, line: &Line, task: usize) -> Result<()> {
        self.process(line, task).await
    }
}

/// What its rules lose of a day of edits.
#[derive(Debug, Default)]
pub(super) struct Loss {
    /// Edits of pages that were hot.
    pub(super) to_hot_pages: usize,
    /// Of them, those that did not reach the window.
    pub(super) lost: usize,
    /// Edits before a promotion, which do not either.
    pub(super) before_promotion: usize,
}

/// The seed's rules, edit by edit.
pub(super) fn replay(lines: &[Line], settings: Settings) -> Loss {
    let mut loss = Loss::default();
    // When each counter ends and where it stands; when each window ends.
    let mut activity: HashMap<&str, (u64, i64)> = HashMap::new();
    let mut windows: HashMap<&str, u64> = HashMap::new();
    let window_ms = settings.window_s as u64 * 1000;
    for line in lines {
        let counter = activity.entry(&line.page).or_default();
        if counter.0 <= line.at_ms {
            *counter = (line.at_ms + ACTIVITY_S as u64 * 1000, 0);
        }
        counter.1 += 1;
        // Hot by what a window is for, not by how long its key stays around.
        let is_hot = windows.get(&*line.page).is_some_and(|end_ms| *end_ms > line.at_ms);
        loss.to_hot_pages += usize::from(is_hot);
        if counter.1 < settings.hot_threshold {
            loss.lost += usize::from(is_hot);
            continue;
        }
        if !is_hot {
            loss.before_promotion += settings.hot_threshold as usize - 1;
            let tracked = windows.values().filter(|end_ms| **end_ms > line.at_ms).count();
            if tracked >= settings.max_tracked {
                continue;
            }
        }
        windows.insert(&line.page, line.at_ms + window_ms);
    }
    loss
}
