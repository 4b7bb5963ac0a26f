//! `GET /v1/rules/changes`: every change of the rules, as server-sent events.

use axum::http::StatusCode;
use axum::response::Response;
use schemars::SchemaGenerator;
use tidegate_edge::stream::{Changes, Following, Mark, Next};

use super::open;
use super::workers::worker_name;
use crate::http::sse::{self, End, Message, Source};
use crate::http::{Answer, AnswerShape, Call, FromQuery, NoPath, Parameter, Problem, Query, Result, Shapes};

/// From where on, and who follows.
#[derive(Debug)]
pub(crate) struct From {
    after: Option<String>,
    worker: Option<String>,
}

impl FromQuery for From {
    const PARAMETERS: &'static [Parameter] = &[
        Parameter::text(
            "after",
            "^[^:]{1,64}:[0-9]{1,15}:[0-9a-f]{32}$",
            "",
            "where to go on: the id of an event, or where a snapshot was made",
        ),
        Parameter::text("worker", "^[!-~]{1,128}$", "edge-1", "who follows, for `GET /v1/workers`"),
    ];

    fn from_query(query: &Query) -> Result<Self> {
        let worker = query.read("worker", |name| worker_name(name).map(str::to_owned))?;
        Ok(Self { after: query.get("after").map(str::to_owned), worker })
    }
}

/// Events without an end.
pub(crate) struct ChangeStream(Response);

impl Answer for ChangeStream {
    fn into_response(self) -> Response {
        self.0
    }
}

impl Shapes for ChangeStream {
    fn shapes(schemas: &mut SchemaGenerator) -> Vec<AnswerShape> {
        let body = Some(("text/event-stream", schemas.subschema_for::<String>()));
        let about =
            "events `create`, `update`, `delete`, `sync` and `resync`; the data of each is JSON in one line";
        vec![AnswerShape { status: StatusCode::OK, about, body }]
    }
}

pub(super) async fn changes(call: Call<NoPath, From>) -> Result<ChangeStream> {
    let rules = open(&call.app)?;
    let requested = sse::requested_position(&call.headers, call.query.after.as_deref());
    let after = match requested {
        None => None,
        Some((name, text)) => {
            Some(text.parse::<Mark>().map_err(|error| Problem::invalid(format!("{name}: {error}")))?)
        }
    };
    let changes = rules.tail.follow(after).await?;
    let following = call.query.worker.map(|worker| rules.workers.follows(&worker, &rules.clock));
    Ok(ChangeStream(sse::respond(Events { changes, _following: following }, call.app.stopping().clone())))
}

struct Events {
    changes: Changes,
    /// Who is told of as connected as long as this lives.
    _following: Option<Following>,
}

impl Source for Events {
    fn position(&self) -> String {
        self.changes.mark().to_string()
    }

    async fn next(&mut self) -> Result<Message, End> {
        let next = self.changes.next().await.map_err(|error| End::Failed(error.to_string()))?;
        match next {
            Next::Cut(reason) => Err(End::CutOff(reason)),
            Next::Message(message) => {
                let (name, data) = (message.event.name(), message.event.data());
                Ok(match message.mark {
                    Some(mark) => Message::new(mark.to_string(), name, data),
                    None => Message::part(name, data),
                })
            }
        }
    }
}
