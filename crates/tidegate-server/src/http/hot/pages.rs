//! A page: what is known of it, its window, its end; and a cleanup of all.

use tidegate::bounds::MAX_COUNT;
use tidegate::clock::Timestamp;

use super::path::OfPage;
use crate::api::hot::{Cleaned, Page, Removed, Window};
use crate::http::answer::Json;
use crate::http::call::{Call, EmptyBody, OfSpace};
use crate::http::parameter::{FromQuery, NoQuery, Parameter, Query};
use crate::http::problem::Problem;
use crate::moment;

pub(super) async fn stats(call: Call<OfPage>) -> Result<Json<Page>, Problem> {
    let hot = call.app.parts().hot.get(&call.path.space)?;
    let stats = hot.stats(call.path.key()?).await?;
    let (space, page) = (hot.space().as_str().to_owned(), call.path.page);
    Ok(Json(Page { space, page, stats: (&stats).into() }))
}

pub(super) async fn remove(call: Call<OfPage>) -> Result<Json<Removed>, Problem> {
    let hot = call.app.parts().hot.get(&call.path.space)?;
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
    let hot = call.app.parts().hot.get(&call.path.space)?;
    let edits = hot.window(call.path.key()?, from..=to).await?;
    let (space, page) = (hot.space().as_str().to_owned(), call.path.page);
    Ok(Json(Window { space, page, edits: edits.into_iter().map(Into::into).collect() }))
}

pub(super) async fn cleanup(call: Call<OfSpace, NoQuery, EmptyBody>) -> Result<Json<Cleaned>, Problem> {
    let hot = call.app.parts().hot.get(&call.path.space)?;
    call.body.parse()?;
    let expired = hot.cleanup().await?;
    Ok(Json(Cleaned { space: hot.space().as_str().to_owned(), expired }))
}
