//! `GET …/events`: what happens, as server-sent events.

use axum::extract::State;
use axum::http::{HeaderMap, Uri};
use tidegate::hot::Watch;
use tidegate::{ErrorKind, Result};

use super::told::Happened;
use crate::http::App;
use crate::http::limits::Answered;
use crate::http::path::{Found, decoded};
use crate::http::problem::Problem;
use crate::http::query::Query;
use crate::http::sse::{self, Message, Source};

pub(super) async fn watch(
    State(app): State<App>,
    path: Found<String>,
    headers: HeaderMap,
    uri: Uri,
) -> Answered {
    let space = decoded(path)?;
    let hot = app.space(&space)?;
    let query = Query::parse(uri.query(), &["after"])?;
    let asked = sse::asked(&headers, query.get("after"));
    let watch = hot.watch(asked.map(|(_, position)| position)).await;
    let watch = watch.map_err(|error| match (error.kind(), asked) {
        (ErrorKind::Invalid, Some((name, _))) => Problem::invalid(format!("{name}: {error}")),
        _ => error.into(),
    })?;
    Ok(sse::respond(Events { space, watch }, app.stopping().clone()))
}

/// The events of a space.
struct Events {
    space: String,
    watch: Watch,
}

impl Source for Events {
    fn position(&self) -> String {
        self.watch.cursor()
    }

    async fn next(&mut self) -> Result<Message> {
        let event = self.watch.next().await?;
        // Strings and numbers: there is nothing that JSON cannot write.
        let data = serde_json::to_string(&Happened::new(&self.space, &event)).unwrap_or_default();
        Ok(Message { event: event.kind.as_str(), data, id: event.cursor })
    }
}
