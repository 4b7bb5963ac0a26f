//! What is asked about the server itself.

use axum::extract::State;
use axum::http::header;
use axum::response::IntoResponse;

use super::App;
use super::problem::Problem;

const METRICS_TEXT: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

const INDEX: &str = "\
tidegate

POST   /v1/limits/{limit}/take         {\"key\":\"user_123\",\"cost\":1}
GET    /v1/limits/{limit}/keys/{key}
POST   /v1/limits/{limit}/refund       {\"key\":\"user_123\",\"receipt\":\"...\"}
DELETE /v1/limits/{limit}/keys/{key}
GET    /v1/limits
GET    /metrics
GET    /healthz
GET    /readyz
";

pub(super) async fn index() -> &'static str {
    INDEX
}

/// The process lives: whether the store does is another question.
pub(super) async fn healthz() -> &'static str {
    "ok"
}

pub(super) async fn readyz(State(app): State<App>) -> Result<&'static str, Problem> {
    app.gate().store().check().map_err(|reason| Problem::not_ready(&reason))?;
    Ok("ready")
}

pub(super) async fn metrics(State(app): State<App>) -> impl IntoResponse {
    let text = app.gate().metrics();
    ([(header::CONTENT_TYPE, METRICS_TEXT)], text)
}
