//! The limits and their numbers, and the pages of what they have.

use tidegate::limit::{Cursor, MAX_PAGE};

use super::path::OfLimit;
use crate::api::limit::{LimitInfo, Limits};
use crate::api::pattern;
use crate::http::answer::Json;
use crate::http::call::Call;
use crate::http::parameter::{FromQuery, Parameter, Query};
use crate::http::problem::Problem;

pub(super) async fn list(call: Call) -> Result<Json<Limits>, Problem> {
    let limits = call.app.parts().limits.iter();
    let limits = limits.map(|(name, limit)| LimitInfo::new(name, &limit.algorithm)).collect();
    Ok(Json(Limits { limits }))
}

pub(super) async fn one(call: Call<OfLimit>) -> Result<Json<LimitInfo>, Problem> {
    let limit = call.limit(&call.path.limit)?.limit;
    Ok(Json(LimitInfo::new(&call.path.limit, limit.algorithm())))
}

/// Where a page begins, and how many it may have.
#[derive(Debug)]
pub(crate) struct PageQuery {
    pub(super) after: Option<Cursor>,
    pub(super) count: usize,
}

impl FromQuery for PageQuery {
    const PARAMETERS: &'static [Parameter] = &[
        Parameter::integer("limit", 1..=MAX_PAGE as u64, Some(100), "how many at most"),
        Parameter::text("cursor", pattern::CURSOR, "", "where to go on: `next` of the page before"),
    ];

    fn from_query(query: &Query) -> Result<Self, Problem> {
        let count = query.integer("limit")?.unwrap_or_default() as usize;
        let read = |text: &str| text.parse().map_err(|error: tidegate::Error| error.to_string());
        Ok(Self { after: query.read("cursor", read)?, count })
    }
}
