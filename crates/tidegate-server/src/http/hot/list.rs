//! The hottest pages, and the spaces.

use tidegate::bounds::MAX_COUNT;
use tidegate::clock::Timestamp;
use tidegate::hot::HotPage;
use tidegate::{ErrorKind, Key};

use crate::api::Spaces;
use crate::api::hot::{Pages, Ranked, Space};
use crate::http::{Call, FromQuery, Json, OfSpace, Parameter, Query, Result, place};

/// How many are listed unless requested otherwise.
const LIMIT: u64 = 20;

/// The most that are listed at once: the store is one for all.
const MAX_LIMIT: u64 = 1000;

/// The most whose stats are listed with them.
const MAX_STATS: u64 = 100;

/// A place in a list: edits, last seen, page.
const PLACE: &str = r"^[0-9]{1,15}:[0-9]{1,15}:[\s\S]{1,255}$";

/// How many, behind which, and whether with their stats.
#[derive(Debug)]
pub(crate) struct ListQuery {
    limit: usize,
    after: Option<HotPage>,
    with_stats: bool,
}

impl FromQuery for ListQuery {
    const PARAMETERS: &'static [Parameter] = &[
        Parameter::integer("limit", 0..=MAX_LIMIT, Some(LIMIT), "how many at most; 100 beside stats"),
        Parameter::text("after", PLACE, "", "where to go on: `next` of the page before"),
        Parameter::flag("stats", "with what is known of each"),
    ];

    fn from_query(query: &Query) -> Result<Self> {
        let with_stats = query.flag("stats")?;
        let most = with_stats.then_some((MAX_STATS, " beside stats"));
        let limit = query.integer_in("limit", most)?.unwrap_or_default() as usize;
        let after = query.read("after", after)?;
        Ok(Self { limit, after, with_stats })
    }
}

pub(super) async fn list(call: Call<OfSpace, ListQuery>) -> Result<Json<Pages>> {
    let ListQuery { limit, after, with_stats } = call.query;
    let hot = call.app.parts().hot.get(&call.path.space)?;
    let hottest = hot.list_after(after.as_ref(), limit).await?;
    // One that is not full is the last.
    let next = hottest
        .last()
        .filter(|_| hottest.len() == limit)
        .map(|last| format!("{}:{}:{}", last.edits, last.last_seen.as_millis(), last.page));
    let mut pages = Vec::with_capacity(hottest.len());
    if with_stats {
        // Requested at once, they travel together.
        let requests = hottest.iter().map(|page| async { hot.stats(Key::new(&page.page)?).await });
        let stats = futures_util::future::join_all(requests).await;
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
    Ok(Json(Pages::new(hot, hot.tracked().await?, pages, next)))
}

/// A place in a list, as `next` has it.
fn after(text: &str) -> Result<HotPage, String> {
    place(text, || {
        let (edits, rest) = text.split_once(':')?;
        let (last_seen, page) = rest.split_once(':')?;
        let number = |text: &str| text.parse().ok().filter(|number| *number <= MAX_COUNT);
        let page = Key::new(page).ok()?;
        Some(HotPage::new(page.as_str(), number(edits)?, Timestamp::from_millis(number(last_seen)?)))
    })
}

pub(super) async fn spaces(call: Call) -> Result<Json<Spaces<Space>>> {
    let spaces = call.app.parts().hot.iter().map(|(name, options)| Space::new(name, options));
    Ok(Json(Spaces { spaces: spaces.collect() }))
}
