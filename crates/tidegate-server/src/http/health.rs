//! How the store has been doing, as this server has seen it. Nothing is asked of the store, so it
//! is answered at once, whether the store is there or not.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tidegate::store::{PartHealth, ResponseTimes, ServerMemory, StoreHealth, success_rate};

use super::{Call, Json, Result, process};

/// What `/v1/health/store` says.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "StoreHealth")]
pub(crate) struct Health {
    /// Whether there were fewer failures in a row than `unhealthy_after`.
    pub(crate) healthy: bool,
    pub(crate) consecutive_failures: u32,
    pub(crate) unhealthy_after: u32,
    pub(crate) connection_attempts: u64,
    pub(crate) connection_failures: u64,
    /// Of connections, 0 to 1.
    pub(crate) success_rate: Option<f64>,
    pub(crate) operations: u64,
    pub(crate) operation_failures: u64,
    pub(crate) operation_success_rate: Option<f64>,
    /// Of the last five to ten minutes.
    pub(crate) average_response_ms: Option<f64>,
    /// What 99 of 100 operations did not exceed; at most an eighth too long.
    pub(crate) p99_response_ms: Option<f64>,
    pub(crate) parts: Vec<Part>,
    /// What all servers of the store use; of one in this process, what the process does.
    pub(crate) memory_bytes: Option<u64>,
    pub(crate) servers: Vec<Server>,
    /// The hour of the last 24 with the most operations, of UTC, like `2026-11-16_14`.
    pub(crate) peak_hour: Option<String>,
    pub(crate) peak_hour_operations: Option<u64>,
}

/// How one part fared.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "PartHealth")]
pub(crate) struct Part {
    pub(crate) part: String,
    pub(crate) operations: u64,
    pub(crate) operation_failures: u64,
    pub(crate) operation_success_rate: Option<f64>,
    pub(crate) average_response_ms: Option<f64>,
    pub(crate) p99_response_ms: Option<f64>,
}

/// A server of the store.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "StoreServer")]
pub(crate) struct Server {
    pub(crate) server: String,
    pub(crate) memory_bytes: u64,
    /// What it may use; none if that is not bounded.
    pub(crate) max_memory_bytes: Option<u64>,
}

pub(super) async fn store(call: Call) -> Result<Json<Health>> {
    let store = call.app.gate().store();
    let mut health = Health::from(store.health());
    if store.is_in_process() {
        health.memory_bytes = process::resident_bytes();
    }
    Ok(Json(health))
}

fn average_ms(times: ResponseTimes) -> Option<f64> {
    times.average.map(|average| average.as_secs_f64() * 1000.0)
}

fn p99_ms(times: ResponseTimes) -> Option<f64> {
    times.p99.map(|p99| p99.as_secs_f64() * 1000.0)
}

impl From<StoreHealth> for Health {
    fn from(health: StoreHealth) -> Self {
        Self {
            healthy: health.is_healthy(),
            consecutive_failures: health.consecutive_failures,
            unhealthy_after: health.unhealthy_after,
            connection_attempts: health.connection_attempts,
            connection_failures: health.connection_failures,
            success_rate: success_rate(health.connection_attempts, health.connection_failures),
            operations: health.operations,
            operation_failures: health.failures,
            operation_success_rate: success_rate(health.operations, health.failures),
            average_response_ms: average_ms(health.response_times),
            p99_response_ms: p99_ms(health.response_times),
            memory_bytes: health.memory_bytes(),
            parts: health.parts.into_iter().map(Part::from).collect(),
            servers: health.memory.into_iter().map(Server::from).collect(),
            peak_hour: health.peak_hour.map(|peak| peak.hour.to_string()),
            peak_hour_operations: health.peak_hour.map(|peak| peak.operations),
        }
    }
}

impl From<PartHealth> for Part {
    fn from(part: PartHealth) -> Self {
        Self {
            part: part.part.as_str().to_owned(),
            operations: part.operations,
            operation_failures: part.failures,
            operation_success_rate: success_rate(part.operations, part.failures),
            average_response_ms: average_ms(part.response_times),
            p99_response_ms: p99_ms(part.response_times),
        }
    }
}

impl From<ServerMemory> for Server {
    fn from(memory: ServerMemory) -> Self {
        let ServerMemory { server, used_bytes, max_bytes, .. } = memory;
        Self { server, memory_bytes: used_bytes, max_memory_bytes: max_bytes }
    }
}
