//! `POST …/counts`: counts of one page. Those of many are in [`bulk`](super::bulk).

use crate::api::hot_counts::{Count, Counted};
use crate::http::{Json, Result, Sent};

pub(super) async fn record(call: Sent<Count<'static>>) -> Result<Json<Counted>> {
    let hot = call.app.parts().hot.get(&call.path.space)?;
    let sent = call.body.parse()?;
    let count = sent.count()?;
    let recorded = hot.count(count.page, count.count).await?;
    Ok(Json(Counted::new(hot.space().as_str(), &count, &recorded)))
}
