//! `POST …/edits`: one edit. Many are in [`bulk`](super::bulk).

use crate::api::hot::{Edit, Edited};
use crate::http::{Call, Json, JsonBody, NoQuery, OfSpace, Problem};

pub(super) async fn record(
    call: Call<OfSpace, NoQuery, JsonBody<Edit<'static>>>,
) -> Result<Json<Edited>, Problem> {
    let hot = call.app.parts().hot.get(&call.path.space)?;
    let sent = call.body.parse()?;
    let edit = sent.edit()?;
    let recorded = hot.record(&edit).await?;
    Ok(Json(Edited::new(hot.space().as_str(), &edit, &recorded)))
}
