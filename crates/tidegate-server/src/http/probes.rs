//! What is asked about the server itself.

use axum::http::StatusCode;
use axum::response::Response;

use super::extract::Call;
use super::problem::Problem;
use super::reply::json;

const INDEX: &str = "\
tidegate

POST   /v1/limits/{limit}/take         {\"key\":\"user_123\",\"cost\":1}
POST   /v1/limits/take                 {\"key\":\"user_123\",\"limits\":[{\"limit\":\"api\",\"cost\":1}]}
GET    /v1/limits/{limit}/keys/{key}
POST   /v1/limits/{limit}/refund       {\"key\":\"user_123\",\"receipt\":\"...\"}
DELETE /v1/limits/{limit}/keys/{key}
PUT    /v1/limits/{limit}/keys/{key}/override              {\"rate\":\"50/s\",\"lasting\":\"1h\"}
GET    /v1/limits/{limit}/keys/{key}/override
DELETE /v1/limits/{limit}/keys/{key}/override
PUT    /v1/limits/{limit}/keys/{key}/reservations/{id}     {\"cost\":3,\"lasting\":\"30s\"}
GET    /v1/limits/{limit}/keys/{key}/reservations/{id}
POST   /v1/limits/{limit}/keys/{key}/reservations/{id}/commit
DELETE /v1/limits/{limit}/keys/{key}/reservations/{id}
GET    /v1/limits/{limit}/overrides?limit=100
GET    /v1/limits/{limit}/reservations?limit=100
GET    /v1/limits
GET    /v1/limits/{limit}
POST   /v1/hot/{space}/edits           {\"page\":\"en:Tide gate\",\"id\":\"4711\",\"editor\":\"alice\",\"byte_change\":12}
GET    /v1/hot/{space}?limit=20
GET    /v1/hot/{space}/pages/{page}
DELETE /v1/hot/{space}/pages/{page}
GET    /v1/hot/{space}/pages/{page}/window?from=&to=
GET    /v1/hot/{space}/events
POST   /v1/hot/{space}/cleanup
GET    /v1/hot
POST   /v1/sessions/{space}            {\"broadcaster\":\"channel_7\",\"config\":{\"theme\":\"dark\"},\"holder\":\"browser-1\"}
GET    /v1/sessions/{space}?state=disconnected&limit=100
GET    /v1/sessions/{space}/counts
GET    /v1/sessions/{space}/{id}
DELETE /v1/sessions/{space}/{id}
PUT    /v1/sessions/{space}/{id}/value                     {\"value\":{\"score\":7}}
PUT    /v1/sessions/{space}/{id}/holders/{holder}?resume=true
POST   /v1/sessions/{space}/{id}/holders/{holder}/heartbeat
DELETE /v1/sessions/{space}/{id}/holders/{holder}
GET    /v1/sessions/{space}/broadcasters/{broadcaster}
POST   /v1/sessions/{space}/claims     {\"limit\":100}
PUT    /v1/sessions/{space}/claims/{id}?generation=1&attempt=1
POST   /v1/sessions/{space}/acks       {\"acks\":[{\"id\":\"...\",\"generation\":1}]}
POST   /v1/sessions/{space}/cleanup
GET    /v1/sessions/{space}/dead
POST   /v1/sessions/{space}/dead/{id}/retry
GET    /v1/sessions
GET    /metrics
GET    /healthz
GET    /readyz

Without a subject: \"everyone\" instead of \"keys/{key}\", no \"key\" in a body.
";

pub(super) async fn index(_: Call) -> &'static str {
    INDEX
}

/// The process lives: whether the store does is another question.
pub(super) async fn healthz(_: Call) -> &'static str {
    "ok"
}

/// Whether requests should be sent here, and what is away.
pub(super) async fn readyz(call: Call) -> Response {
    let report = call.app.readiness();
    match report.ready {
        true => json(StatusCode::OK, &report),
        false => Problem::not_ready(&report).respond_with(&report),
    }
}
