//! What is asked of hot pages: the hottest, one of them, its window; and a cleanup.

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, Uri};
use serde::Deserialize;
use tidegate::Key;
use tidegate::bounds::MAX_COUNT;
use tidegate::clock::Timestamp;

use super::told;
use crate::http::App;
use crate::http::limits::Answered;
use crate::http::metrics::Operation;
use crate::http::path::{Found, decoded};
use crate::http::problem::Problem;
use crate::http::query::Query;
use crate::http::reply::json;
use crate::http::{ask, body};
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

pub(super) async fn list(State(app): State<App>, path: Found<String>, uri: Uri) -> Answered {
    let _timed = app.metrics().timed(Operation::HotList);
    let space = decoded(path)?;
    let hot = app.space(&space)?;
    let query = Query::parse(uri.query(), &["limit", "stats"])?;
    let with_stats = query.flag("stats")?;
    let most = if with_stats { MAX_STATS } else { MAX_LIMIT };
    let limit = query.read("limit", |text| {
        let limit = text.parse().ok().filter(|limit| *limit <= most);
        let beside = if with_stats { " beside stats" } else { "" };
        limit.ok_or_else(|| format!("{text:?} is not allowed{beside}: whole numbers from 0 to {most} are"))
    })?;
    let hottest = hot.list(limit.unwrap_or(LIMIT)).await?;
    let mut pages = Vec::with_capacity(hottest.len());
    if with_stats {
        // Asked at once, they travel together.
        let asked = hottest.iter().map(|page| async { hot.stats(Key::new(&page.page)?).await });
        let stats = futures_util::future::try_join_all(asked).await?;
        pages.extend(hottest.into_iter().zip(&stats).map(|(page, it)| told::Ranked::new(page, Some(it))));
    } else {
        pages.extend(hottest.into_iter().map(|page| told::Ranked::new(page, None)));
    }
    let count = hot.count().await?;
    Ok(json(StatusCode::OK, &told::Hottest { space: &space, count, window_ms: told::window_ms(hot), pages }))
}

pub(super) async fn stats(State(app): State<App>, path: Found<Page>, uri: Uri) -> Answered {
    let _timed = app.metrics().timed(Operation::HotStats);
    let asked = decoded(path)?;
    let hot = app.space(&asked.space)?;
    Query::parse(uri.query(), &[])?;
    let stats = hot.stats(asked.key()?).await?;
    let told = told::OnePage { space: &asked.space, page: &asked.page, stats: (&stats).into() };
    Ok(json(StatusCode::OK, &told))
}

pub(super) async fn window(State(app): State<App>, path: Found<Page>, uri: Uri) -> Answered {
    let _timed = app.metrics().timed(Operation::HotWindow);
    let asked = decoded(path)?;
    let hot = app.space(&asked.space)?;
    let query = Query::parse(uri.query(), &["from", "to"])?;
    let from = query.read("from", moment::parse)?.unwrap_or(Timestamp::from_millis(0));
    let to = query.read("to", moment::parse)?.unwrap_or(Timestamp::from_millis(MAX_COUNT));
    if from > to {
        return Err(Problem::invalid(format!(
            "`from` is {} ms after `to`: it must not be",
            from.as_millis() - to.as_millis()
        )));
    }
    let edits = hot.window(asked.key()?, from..=to).await?;
    let edits = edits.into_iter().map(Into::into).collect();
    Ok(json(StatusCode::OK, &told::Window { space: &asked.space, page: &asked.page, edits }))
}

pub(super) async fn cleanup(
    State(app): State<App>,
    path: Found<String>,
    headers: HeaderMap,
    body: Body,
) -> Answered {
    let _timed = app.metrics().timed(Operation::HotCleanup);
    let space = decoded(path)?;
    let hot = app.space(&space)?;
    // There is nothing to say; but who sends it must be allowed to.
    let bytes = body::read(&headers, body, app.bounds().max_body_bytes).await?;
    if !bytes.is_empty() {
        body::parse::<ask::Nothing>(&bytes)?;
    }
    let expired = hot.cleanup().await?;
    Ok(json(StatusCode::OK, &told::Cleaned { space: &space, expired }))
}
