//! What is asked of hot pages: the hottest, one of them, its window; and a cleanup.

use axum::http::StatusCode;
use serde::Deserialize;
use tidegate::bounds::MAX_COUNT;
use tidegate::clock::Timestamp;
use tidegate::hot::HotPage;
use tidegate::{ErrorKind, Key};

use super::told;
use crate::http::extract::{Call, Sent};
use crate::http::limits::Answered;
use crate::http::metrics::Operation;
use crate::http::problem::Problem;
use crate::http::query::{FromQuery, Query};
use crate::http::reply::json;
use crate::moment;

/// How many are told unless asked otherwise.
const LIMIT: usize = 20;

/// The most that are told at once: the store is one for all.
const MAX_LIMIT: usize = 1000;

/// The most whose stats are told with them.
const MAX_STATS: usize = 100;

/// A page in a path.
#[derive(Debug, Deserialize)]
pub(super) struct Page {
    space: String,
    page: String,
}

impl Page {
    fn key(&self) -> Result<Key<'_>, Problem> {
        Ok(Key::new(&self.page)?)
    }
}

/// How many, behind which, and whether with their stats.
#[derive(Debug)]
pub(super) struct ListQuery {
    limit: usize,
    after: Option<HotPage>,
    with_stats: bool,
}

impl FromQuery for ListQuery {
    const NAMES: &'static [&'static str] = &["limit", "after", "stats"];

    fn from_query(query: &Query) -> Result<Self, Problem> {
        let with_stats = query.flag("stats")?;
        let most = if with_stats { MAX_STATS } else { MAX_LIMIT };
        let limit = query.read("limit", |text| {
            let limit = text.parse().ok().filter(|limit| *limit <= most);
            let beside = if with_stats { " beside stats" } else { "" };
            limit
                .ok_or_else(|| format!("{text:?} is not allowed{beside}: whole numbers from 0 to {most} are"))
        })?;
        let after = query.read("after", after)?;
        Ok(Self { limit: limit.unwrap_or(LIMIT), after, with_stats })
    }
}

pub(super) async fn list(call: Call<String, ListQuery>) -> Answered {
    let _timed = call.timed(Operation::HotList);
    let ListQuery { limit, after, with_stats } = &call.query;
    let hot = call.app.space(&call.path)?;
    let hottest = hot.list_after(after.as_ref(), *limit).await?;
    // One that is not full is the last.
    let next = hottest.last().filter(|_| hottest.len() == *limit).map(told::next);
    let mut pages = Vec::with_capacity(hottest.len());
    if *with_stats {
        // Asked at once, they travel together.
        let asked = hottest.iter().map(|page| async { hot.stats(Key::new(&page.page)?).await });
        let stats = futures_util::future::join_all(asked).await;
        for (page, stats) in hottest.into_iter().zip(stats) {
            // One that cannot be read stops no other.
            let stats = match stats {
                Err(error) if error.kind() == ErrorKind::Corrupt => {
                    tracing::error!(%error, "a page is listed without its stats");
                    None
                }
                stats => Some(stats?),
            };
            pages.push(told::Ranked::new(page, stats.as_ref()));
        }
    } else {
        pages.extend(hottest.into_iter().map(|page| told::Ranked::new(page, None)));
    }
    let count = hot.count().await?;
    let (space, window_ms) = (hot.space().as_str(), told::window_ms(hot));
    Ok(json(StatusCode::OK, &told::Hottest { space, count, window_ms, pages, next }))
}

/// A place in a list, as `next` told it.
fn after(text: &str) -> Result<HotPage, String> {
    let place = || {
        let (edits, rest) = text.split_once(':')?;
        let (last_seen, page) = rest.split_once(':')?;
        let number = |text: &str| text.parse().ok().filter(|number| *number <= MAX_COUNT);
        let page = Key::new(page).ok()?;
        Some(HotPage::new(page.as_str(), number(edits)?, Timestamp::from_millis(number(last_seen)?)))
    };
    place().ok_or_else(|| {
        let shown: String = text.chars().take(60).collect();
        format!("{shown:?} is not a place in a list: the `next` of a page is")
    })
}

pub(super) async fn stats(call: Call<Page>) -> Answered {
    let _timed = call.timed(Operation::HotStats);
    let asked = &call.path;
    let hot = call.app.space(&asked.space)?;
    let stats = hot.stats(asked.key()?).await?;
    let told = told::OnePage { space: hot.space().as_str(), page: &asked.page, stats: (&stats).into() };
    Ok(json(StatusCode::OK, &told))
}

pub(super) async fn remove(call: Call<Page>) -> Answered {
    let _timed = call.timed(Operation::HotRemove);
    let asked = &call.path;
    let hot = call.app.space(&asked.space)?;
    let was = hot.remove(asked.key()?).await?.as_str();
    let told = told::RemovedPage { space: hot.space().as_str(), page: &asked.page, was };
    Ok(json(StatusCode::OK, &told))
}

/// From when to when, both included.
#[derive(Debug, Clone, Copy)]
pub(super) struct Span {
    from: Timestamp,
    to: Timestamp,
}

impl FromQuery for Span {
    const NAMES: &'static [&'static str] = &["from", "to"];

    fn from_query(query: &Query) -> Result<Self, Problem> {
        let from = query.read("from", moment::parse)?.unwrap_or(Timestamp::from_millis(0));
        let to = query.read("to", moment::parse)?.unwrap_or(Timestamp::from_millis(MAX_COUNT));
        if from > to {
            return Err(Problem::invalid(format!(
                "`from` is {} ms after `to`: it must not be",
                from.as_millis() - to.as_millis()
            )));
        }
        Ok(Self { from, to })
    }
}

pub(super) async fn window(call: Call<Page, Span>) -> Answered {
    let _timed = call.timed(Operation::HotWindow);
    let (asked, Span { from, to }) = (&call.path, call.query);
    let hot = call.app.space(&asked.space)?;
    let edits = hot.window(asked.key()?, from..=to).await?;
    let edits = edits.into_iter().map(Into::into).collect();
    let told = told::Window { space: hot.space().as_str(), page: &asked.page, edits };
    Ok(json(StatusCode::OK, &told))
}

pub(super) async fn cleanup(call: Call<String>, sent: Sent) -> Answered {
    let _timed = call.timed(Operation::HotCleanup);
    let hot = call.app.space(&call.path)?;
    sent.check_empty()?;
    let expired = hot.cleanup().await?;
    Ok(json(StatusCode::OK, &told::Cleaned { space: hot.space().as_str(), expired }))
}
