//! Operations about the server itself: metrics, probes, the index and the description.

use std::fmt::Write as _;

use axum::http::StatusCode;
use axum::response::Response;
use schemars::SchemaGenerator;

use super::answer::{Answer, Html, Json, Text};
use super::{AnswerShape, Call, Kind, Operation, Problem, get, json};
use super::{docs_page, health, metrics_text, openapi as description, table};
use crate::readiness::Report;

/// The operations.
pub(super) fn operations() -> Vec<Operation> {
    vec![
        get("/metrics", "metrics", metrics_text::metrics).summary("Metrics, as Prometheus reads them"),
        get("/healthz", "healthz", healthz).summary("Whether the process lives"),
        get("/readyz", "readyz", readyz)
            .summary("Whether requests should be sent here, and what is away")
            .refuses(&[Kind::NOT_READY]),
        get("/v1/health/store", "store_health", health::store)
            .summary("How the store has been doing: connections, operations, response times, memory"),
        get("/", "index", index).summary("All operations, as text"),
        get("/openapi.json", "openapi", openapi).summary("All operations, as OpenAPI 3.1 describes them"),
        get("/docs", "docs", docs).summary("All operations, as a page for people"),
    ]
}

/// All operations, as text.
async fn index(_: Call) -> Result<Text, Problem> {
    let mut text = "tidegate\n\n".to_owned();
    for operation in table::with_an_address(&table::operations()) {
        let (method, example) = (operation.method.as_str(), operation.example);
        let line = match example.starts_with('?') {
            true => format!("{method:<6} {}{example}", operation.path),
            false => format!("{method:<6} {:<31} {example}", operation.path),
        };
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{}", line.trim_end());
    }
    text += "\nWithout a subject: \"everyone\" instead of \"keys/{key}\", no \"key\" in a body.\n";
    Ok(Text(text))
}

/// The process lives: whether the store does is another question.
async fn healthz(_: Call) -> Result<Text, Problem> {
    Ok(Text("ok".to_owned()))
}

/// What is away; a problem if requests should not be sent here.
struct Ready(Report);

impl Answer for Ready {
    fn into_response(self) -> Response {
        match self.0.ready {
            true => json(StatusCode::OK, &self.0),
            false => Problem::not_ready(&self.0).respond_with(&self.0),
        }
    }

    fn shapes(schemas: &mut SchemaGenerator) -> Vec<AnswerShape> {
        Json::<Report>::shapes(schemas)
    }
}

/// Whether requests should be sent here, and what is away.
async fn readyz(call: Call) -> Result<Ready, Problem> {
    Ok(Ready(call.app.readiness()))
}

/// The description, as it is.
async fn openapi(_: Call) -> Result<Json<serde_json::Value>, Problem> {
    Ok(Json(description::document(&table::operations())))
}

async fn docs(_: Call) -> Result<Html, Problem> {
    Ok(Html(docs_page::page(&description::document(&table::operations()))))
}
