//! What is said about the quota of runs.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tidegate::Cost;
use tidegate::run::{QuotaHour, QuotaStatus, QuotaUse};

use crate::api::limit::WholeCost;
use crate::api::{RequestBody, response};

/// The body of a charge.
#[derive(Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "an object with cost")]
#[schemars(rename = "RunCharge")]
pub(crate) struct Charge {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) cost: Option<WholeCost>,
}

impl RequestBody for Charge {
    type Read<'a> = Self;
}

response! {
    /// Calls that are charged to the quota.
    #[schemars(rename = "RunCharged")]
    struct Charged of(space, id) from(cost: Cost, is_new: bool, remaining: u64) {
        cost: u64 = cost.get(),
        /// Whether this request did it; if not it was charged by the same id before.
        is_new: bool = is_new,
        remaining: u64 = remaining,
    }

    /// A charge that is given back.
    #[schemars(rename = "RunChargeReleased")]
    struct Released of(space, id) from(is_new: bool) {
        /// Whether this request did it.
        is_new: bool = is_new,
    }

    /// Where the quota of a family of runs stands.
    #[schemars(rename = "RunQuota")]
    struct Quota of(space) from(prefix: &str, it: &QuotaStatus) {
        /// What its keys start with: who has the same shares it.
        prefix: String = prefix.to_owned(),
        /// What counts as an hour: `aligned`, `sliding` or `both`.
        kind: String = it.kind.as_str().to_owned(),
        /// By the store's clock.
        at_ms: u64 = it.at.as_millis(),
        limit: u64 = it.limit,
        safety_buffer: u64 = it.safety_buffer,
        /// What is left now, by all that counts.
        remaining: u64 = it.remaining,
        /// This hour of UTC.
        aligned: Option<Use> = it.aligned.as_ref().map(Use::new),
        /// The last 60 minutes.
        sliding: Option<Use> = it.sliding.as_ref().map(Use::new),
        /// The hours of the last 24 in which something was charged, the last first.
        hours: Vec<Hour> = it.hours.iter().map(Hour::new).collect(),
        /// The one of them in which most was used.
        peak_hour: Option<String> = it.peak().map(|it| it.hour.to_string()),
    }

    #[schemars(rename = "RunQuotaUse")]
    struct Use from(it: &QuotaUse) {
        capacity: u64 = it.capacity,
        used: u64 = it.used,
        remaining: u64 = it.remaining,
        /// When all of it is free again.
        resets_in_ms: u64 = it.resets_in_ms,
    }

    #[schemars(rename = "RunQuotaHour")]
    struct Hour from(it: &QuotaHour) {
        /// As keys name it, like 2024-09-17_14.
        hour: String = it.hour.to_string(),
        first_charge_at_ms: u64 = it.first_charge_at.as_millis(),
        /// The most that counted in this hour of UTC.
        most_aligned: Option<u64> = it.most_aligned,
        /// The most that counted in any 60 minutes that ended in it.
        most_sliding: Option<u64> = it.most_sliding,
    }
}
