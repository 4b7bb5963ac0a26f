//! A key's own rate, for a while.

use super::path::{OfKey, OfLimit, whose};
use crate::api::lasting;
use crate::api::limit::{Override, Overrides, SetOverride};
use crate::http::{Call, Json, Kind, NoContent, PageQuery, Problem, Result, Sent};

pub(super) const NO_OVERRIDE: Kind = Kind::new(404, "no-override", "No override");

pub(super) async fn set(call: Sent<SetOverride<'static>, OfKey>) -> Result<Json<Override>> {
    let limit = call.app.limit(&call.path.limit)?.limit;
    let key = call.path.key.get()?;
    let sent = call.body.parse()?;
    let lasting = lasting(sent.lasting_ms, sent.lasting.as_deref())?;
    let set = limit.set_override(key, sent.rate.parse()?, lasting).await?;
    Ok(Json(Override::new(call.path.limit.clone(), key, &set)))
}

pub(super) async fn get(call: Call<OfKey>) -> Result<Json<Override>> {
    let limit = call.app.limit(&call.path.limit)?.limit;
    let key = call.path.key.get()?;
    match limit.get_override(key).await? {
        Some(found) => Ok(Json(Override::new(call.path.limit.clone(), key, &found))),
        None => {
            let (whose, limit) = (whose(key), &call.path.limit);
            let detail = format!("{whose} has no override of the limit {limit:?}, or it has ended");
            Err(Problem::new(NO_OVERRIDE, detail))
        }
    }
}

pub(super) async fn clear(call: Call<OfKey>) -> Result<NoContent> {
    call.app.limit(&call.path.limit)?.limit.clear_override(call.path.key.get()?).await?;
    Ok(NoContent)
}

pub(super) async fn list(call: Call<OfLimit, PageQuery>) -> Result<Json<Overrides>> {
    let PageQuery { after, limit: count } = &call.query;
    let page = call.app.limit(&call.path.limit)?.limit.overrides(after.as_ref(), *count).await?;
    Ok(Json(Overrides::new(call.path.limit, page)))
}
