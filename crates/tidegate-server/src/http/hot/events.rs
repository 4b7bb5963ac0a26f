//! `GET …/events`: what happens, as server-sent events.

use axum::http::StatusCode;
use schemars::SchemaGenerator;
use tidegate::ErrorKind;
use tidegate::hot::Watch;

use crate::api::hot::Event;
use crate::http::sse::{self, End, Message, Source};
use crate::http::{AnswerShape, Call, Described, OfSpace, Parameter, Problem, Result, Shapes, query};

const AFTER: Parameter =
    Parameter::text("after", "^.*$", "", "where to go on: the id of an event, or the cursor of one");

query! {
    /// Where to begin.
    struct After from(query) {
        AFTER => after: Option<String> = query.get("after").map(str::to_owned),
    }
}

/// Events without an end.
pub(crate) struct EventStream;

impl Shapes for EventStream {
    fn shapes(schemas: &mut SchemaGenerator) -> Vec<AnswerShape> {
        let body = Some(("text/event-stream", schemas.subschema_for::<Event<'_>>()));
        vec![AnswerShape { status: StatusCode::OK, about: "events; the data of each is this", body }]
    }
}

pub(super) async fn watch(call: Call<OfSpace, After>) -> Result<Described<EventStream>> {
    let hot = call.app.parts().hot.get(&call.path.space)?;
    let requested = sse::requested_position(&call.headers, call.query.after.as_deref());
    let watch = hot.watch(requested.map(|(_, position)| position)).await;
    let watch = watch.map_err(|error| match (error.kind(), requested) {
        (ErrorKind::Invalid, Some((name, _))) => Problem::invalid(format!("{name}: {error}")),
        _ => error.into(),
    })?;
    let stopping = call.app.stopping().clone();
    Ok(Described::new(sse::respond(Events { space: hot.space().as_str().to_owned(), watch }, stopping)))
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

    async fn next(&mut self) -> Result<Message, End> {
        let event = self.watch.next().await?;
        // Strings and numbers: there is nothing that JSON cannot write.
        let data = serde_json::to_string(&Event::new(&self.space, &event)).unwrap_or_default();
        Ok(Message::new(event.cursor, event.kind.as_str(), data))
    }
}
