//! `POST …/edits`: one edit. Many are in [`bulk`](super::bulk).

use crate::api::hot::{Edit, Edited};
use crate::http::{Json, Result, Sent};

pub(super) async fn record(call: Sent<Edit<'static>>) -> Result<Json<Edited>> {
    let hot = call.app.parts().hot.get(&call.path.space)?;
    let sent = call.body.parse()?;
    let edit = sent.edit()?;
    let recorded = hot.record(&edit).await?;
    Ok(Json(Edited::new(hot.space().as_str(), &edit, &recorded)))
}
