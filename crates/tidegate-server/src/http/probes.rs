//! Operations about the server itself: metrics, probes, the index and the description.

use std::fmt::Write as _;

use axum::http::StatusCode;
use axum::response::IntoResponse as _;

use super::answer::{Html, Json, Text};
use super::{Call, Described, Kind, Operation, Problem, Result, get, json};
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
async fn index(_: Call) -> Result<Text> {
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
async fn healthz(_: Call) -> Result<Text> {
    Ok(Text("ok".to_owned()))
}

/// Whether requests should be sent here, and what is away; a problem if they should not.
async fn readyz(call: Call) -> Result<Described<Json<Report>>> {
    let report = call.app.readiness();
    Ok(Described::new(match report.ready {
        true => json(StatusCode::OK, &report),
        false => Problem::not_ready(&report).into_response(),
    }))
}

/// The description, as it is.
async fn openapi(_: Call) -> Result<Json<serde_json::Value>> {
    Ok(Json(description::document(&table::operations())))
}

async fn docs(_: Call) -> Result<Html> {
    Ok(Html(docs_page::page(&description::document(&table::operations()))))
}
