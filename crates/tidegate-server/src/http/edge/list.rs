//! Links that are hot.

use super::open;
use crate::api::edge::HotLinks;
use crate::http::{Call, FromQuery, Json, NoPath, Parameter, Query, Result};

/// How many are listed unless requested otherwise, and at most.
const LIMIT: u64 = 20;
const MAX_LIMIT: u64 = 1000;

/// How many.
#[derive(Debug)]
pub(crate) struct ListQuery {
    limit: usize,
}

impl FromQuery for ListQuery {
    const PARAMETERS: &'static [Parameter] =
        &[Parameter::integer("limit", 1..=MAX_LIMIT, Some(LIMIT), "how many at most")];

    fn from_query(query: &Query) -> Result<Self> {
        Ok(Self { limit: query.integer("limit")?.unwrap_or(LIMIT) as usize })
    }
}

pub(super) async fn hot(call: Call<NoPath, ListQuery>) -> Result<Json<HotLinks>> {
    Ok(Json(HotLinks::new(open(&call.app)?.hot().list(call.query.limit))))
}
