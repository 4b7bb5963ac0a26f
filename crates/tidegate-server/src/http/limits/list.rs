//! The limits and their numbers.

use super::path::OfLimit;
use crate::api::limit::{LimitInfo, Limits};
use crate::http::{Call, Json, Result};

pub(super) async fn list(call: Call) -> Result<Json<Limits>> {
    let limits = call.app.parts().limits.iter();
    let limits = limits.map(|(name, limit)| LimitInfo::new(name, &limit.algorithm)).collect();
    Ok(Json(Limits { limits }))
}

pub(super) async fn one(call: Call<OfLimit>) -> Result<Json<LimitInfo>> {
    let limit = call.app.limit(&call.path.limit)?.limit;
    Ok(Json(LimitInfo::new(&call.path.limit, limit.algorithm())))
}
