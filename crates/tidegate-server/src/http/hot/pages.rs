//! What is asked of hot pages: the hottest, one of them, its window; and a cleanup.

use schemars::JsonSchema;
use serde::Deserialize;
use tidegate::bounds::MAX_COUNT;
use tidegate::clock::Timestamp;
use tidegate::hot::HotPage;
use tidegate::{ErrorKind, Key};

use super::OfSpace;
use crate::api::hot::{self as api, Cleaned, Pages, Ranked, Removed, Window};
use crate::api::pattern;
use crate::http::answer::Json;
use crate::http::call::{Call, EmptyBody};
use crate::http::parameter::{FromQuery, NoQuery, Parameter, Query};
use crate::http::problem::Problem;
use crate::moment;

/// How many are told unless asked otherwise.
const LIMIT: u64 = 20;

/// The most that are told at once: the store is one for all.
const MAX_LIMIT: u64 = 1000;

/// The most whose stats are told with them.
const MAX_STATS: u64 = 100;

/// A place in a list: edits, last seen, page.
const PLACE: &str = r"^[0-9]{1,15}:[0-9]{1,15}:[\s\S]{1,255}$";

/// A page in a path.
#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct OfPage {
    #[schemars(extend("pattern" = pattern::NAME))]
    space: String,
    #[schemars(length(min = 1, max = 255))]
    page: String,
}

impl OfPage {
    fn key(&self) -> Result<Key<'_>, Problem> {
        Ok(Key::new(&self.page)?)
    }
}

/// How many, behind which, and whether with their stats.
#[derive(Debug)]
pub(crate) struct ListQuery {
    limit: usize,
    after: Option<HotPage>,
    with_stats: bool,
}

impl FromQuery for ListQuery {
    const PARAMETERS: &'static [Parameter] = &[
        Parameter::integer_or("limit", 0..=MAX_LIMIT, LIMIT, "how many at most; 100 beside stats"),
        Parameter::text("after", PLACE, "", "where to go on: `next` of the page before"),
        Parameter::flag("stats", "with what is known of each"),
    ];

    fn from_query(query: &Query) -> Result<Self, Problem> {
        let with_stats = query.flag("stats")?;
        let most = with_stats.then_some((MAX_STATS, " beside stats"));
        let limit = query.integer_in("limit", most)?.unwrap_or_default() as usize;
        let after = query.read("after", after)?;
        Ok(Self { limit, after, with_stats })
    }
}

pub(super) async fn list(call: Call<OfSpace, ListQuery>) -> Result<Json<Pages>, Problem> {
    let ListQuery { limit, after, with_stats } = call.query;
    let hot = call.app.space(&call.path.space)?;
    let hottest = hot.list_after(after.as_ref(), limit).await?;
    // One that is not full is the last.
    let next = hottest.last().filter(|_| hottest.len() == limit).map(api::next);
    let mut pages = Vec::with_capacity(hottest.len());
    if with_stats {
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
            pages.push(Ranked::new(page, stats.as_ref()));
        }
    } else {
        pages.extend(hottest.into_iter().map(|page| Ranked::new(page, None)));
    }
    let (count, window_ms) = (hot.count().await?, api::window_ms(hot));
    let space = hot.space().as_str().to_owned();
    Ok(Json(Pages { space, count, window_ms, pages, next }))
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

pub(super) async fn stats(call: Call<OfPage>) -> Result<Json<api::Page>, Problem> {
    let hot = call.app.space(&call.path.space)?;
    let stats = hot.stats(call.path.key()?).await?;
    let (space, page) = (hot.space().as_str().to_owned(), call.path.page);
    Ok(Json(api::Page { space, page, stats: (&stats).into() }))
}

pub(super) async fn remove(call: Call<OfPage>) -> Result<Json<Removed>, Problem> {
    let hot = call.app.space(&call.path.space)?;
    let was = hot.remove(call.path.key()?).await?.as_str().to_owned();
    let (space, page) = (hot.space().as_str().to_owned(), call.path.page);
    Ok(Json(Removed { space, page, was }))
}

/// From when to when, both included.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Span {
    from: Timestamp,
    to: Timestamp,
}

impl FromQuery for Span {
    const PARAMETERS: &'static [Parameter] = &[
        Parameter::text("from", moment::PARAMETER, "2026-11-15T12:30:00Z", "from when on"),
        Parameter::text("to", moment::PARAMETER, "2026-11-15T12:30:00Z", "until when, itself included"),
    ];

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

pub(super) async fn window(call: Call<OfPage, Span>) -> Result<Json<Window>, Problem> {
    let Span { from, to } = call.query;
    let hot = call.app.space(&call.path.space)?;
    let edits = hot.window(call.path.key()?, from..=to).await?;
    let (space, page) = (hot.space().as_str().to_owned(), call.path.page);
    Ok(Json(Window { space, page, edits: edits.into_iter().map(Into::into).collect() }))
}

pub(super) async fn cleanup(call: Call<OfSpace, NoQuery, EmptyBody>) -> Result<Json<Cleaned>, Problem> {
    let hot = call.app.space(&call.path.space)?;
    call.body.parse()?;
    let expired = hot.cleanup().await?;
    Ok(Json(Cleaned { space: hot.space().as_str().to_owned(), expired }))
}
