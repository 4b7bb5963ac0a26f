//! `GET …/events`: what happens, as server-sent events.

use axum::http::HeaderMap;
use tidegate::hot::Watch;
use tidegate::{ErrorKind, Result};

use super::told::Happened;
use crate::http::extract::Call;
use crate::http::limits::Answered;
use crate::http::problem::Problem;
use crate::http::query::{FromQuery, Query};
use crate::http::sse::{self, Message, Source};

/// Where to begin.
#[derive(Debug)]
pub(super) struct After(Option<String>);

impl FromQuery for After {
    const NAMES: &'static [&'static str] = &["after"];

    fn from_query(query: &Query) -> std::result::Result<Self, Problem> {
        Ok(Self(query.get("after").map(str::to_owned)))
    }
}

pub(super) async fn watch(call: Call<String, After>, headers: HeaderMap) -> Answered {
    let hot = call.app.space(&call.path)?;
    let asked = sse::asked(&headers, call.query.0.as_deref());
    let watch = hot.watch(asked.map(|(_, position)| position)).await;
    let watch = watch.map_err(|error| match (error.kind(), asked) {
        (ErrorKind::Invalid, Some((name, _))) => Problem::invalid(format!("{name}: {error}")),
        _ => error.into(),
    })?;
    let stopping = call.app.stopping().clone();
    Ok(sse::respond(Events { space: hot.space().as_str().to_owned(), watch }, stopping))
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
