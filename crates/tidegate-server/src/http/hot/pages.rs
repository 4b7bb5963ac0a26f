//! A page: what is known of it, its window, its end; and a cleanup of all.

use tidegate::bounds::MAX_COUNT;
use tidegate::clock::Timestamp;

use super::path::OfPage;
use crate::api::hot::{Cleaned, Page, Removed, Window};
use crate::http::{Call, EmptyBody, FromQuery, Json, NoQuery, OfSpace, Parameter, Problem, Query, Result};
use crate::moment;

pub(super) async fn stats(call: Call<OfPage>) -> Result<Json<Page>> {
    let hot = call.app.parts().hot.get(&call.path.space)?;
    let stats = hot.stats(call.path.key()?).await?;
    Ok(Json(Page::new(hot.space().as_str(), call.path.page, &stats)))
}

pub(super) async fn remove(call: Call<OfPage>) -> Result<Json<Removed>> {
    let hot = call.app.parts().hot.get(&call.path.space)?;
    let was = hot.remove(call.path.key()?).await?;
    Ok(Json(Removed::new(hot.space().as_str(), call.path.page, was)))
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

    fn from_query(query: &Query) -> Result<Self> {
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

pub(super) async fn window(call: Call<OfPage, Span>) -> Result<Json<Window>> {
    let Span { from, to } = call.query;
    let hot = call.app.parts().hot.get(&call.path.space)?;
    let edits = hot.window(call.path.key()?, from..=to).await?;
    Ok(Json(Window::new(hot.space().as_str(), call.path.page, edits)))
}

pub(super) async fn cleanup(call: Call<OfSpace, NoQuery, EmptyBody>) -> Result<Json<Cleaned>> {
    let hot = call.app.parts().hot.get(&call.path.space)?;
    call.body.parse()?;
    Ok(Json(Cleaned::new(hot.space().as_str(), hot.cleanup().await?)))
}
