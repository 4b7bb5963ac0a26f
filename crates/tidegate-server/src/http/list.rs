//! The limits and their numbers.

use axum::http::StatusCode;
use axum::response::Response;
use serde::Serialize;
use tidegate::limit::{Algorithm, Sliding};

use super::extract::Call;
use super::limits::Answered;
use super::metrics::Operation;
use super::reply::json;

/// A limit, with the numbers of its algorithm.
#[derive(Serialize)]
struct Row<'a> {
    limit: &'a str,
    algorithm: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    rate: Option<String>,
    window_size_seconds: u64,
    capacity: u64,
    #[serde(flatten)]
    own: Own,
}

/// What only some have.
#[derive(Serialize)]
#[serde(untagged)]
enum Own {
    Sliding { coalesce_ms: u64 },
    Suppressed { coalesce_ms: u64, hard_capacity: u64 },
    Token { burst: u64, refill_ms: u64 },
    Calendar { period: &'static str, limit_per_period: u64, safety_buffer: u64, counter_ttl_ms: u64 },
    Another {},
}

pub(super) async fn list(call: Call) -> Response {
    #[derive(Serialize)]
    struct All<'a> {
        limits: Vec<Row<'a>>,
    }
    let _timed = call.timed(Operation::List);
    let rows = call.app.inner.limits.iter().map(|(name, served)| row(name, served.limit.algorithm()));
    json(StatusCode::OK, &All { limits: rows.collect() })
}

pub(super) async fn one(call: Call<String>) -> Answered {
    let _timed = call.timed(Operation::List);
    let limit = &call.app.limit(&call.path)?.limit;
    Ok(json(StatusCode::OK, &row(&call.path, limit.algorithm())))
}

fn row<'a>(limit: &'a str, algorithm: &Algorithm) -> Row<'a> {
    // A window has at most 2,678,400,000 ms.
    let coalesce_ms = |sliding: &Sliding| sliding.coalesce().as_millis() as u64;
    let (rate, own) = match algorithm {
        Algorithm::Sliding(sliding) => {
            (Some(sliding.rate()), Own::Sliding { coalesce_ms: coalesce_ms(sliding) })
        }
        Algorithm::Suppressed(suppressed) => {
            let sliding = suppressed.sliding();
            let coalesce_ms = coalesce_ms(sliding);
            let own = match suppressed.hard_capacity() {
                Some(hard_capacity) => Own::Suppressed { coalesce_ms, hard_capacity },
                None => Own::Sliding { coalesce_ms },
            };
            (Some(sliding.rate()), own)
        }
        Algorithm::Token(token) => {
            (Some(token.rate()), Own::Token { burst: token.burst(), refill_ms: token.refill_ms() })
        }
        Algorithm::Calendar(calendar) => {
            let own = Own::Calendar {
                period: calendar.period().as_str(),
                limit_per_period: calendar.limit(),
                safety_buffer: calendar.safety_buffer(),
                // At most 31 days.
                counter_ttl_ms: calendar.counter_ttl().as_millis() as u64,
            };
            (None, own)
        }
        _ => (None, Own::Another {}),
    };
    Row {
        limit,
        algorithm: algorithm.name(),
        rate: rate.map(|rate| rate.to_string()),
        window_size_seconds: algorithm.window_size_seconds(),
        capacity: algorithm.capacity(),
        own,
    }
}
