//! What is said about the quota of runs.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tidegate::Cost;
use tidegate::clock::Timestamp;
use tidegate::run::{QuotaHour, QuotaStatus, QuotaUse};

use crate::api::RequestBody;
use crate::api::limit::WholeCost;

/// The body of a charge.
#[derive(Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "an object with cost")]
#[schemars(rename = "RunCharge")]
pub(crate) struct Charge {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) cost: Option<WholeCost>,
}

impl Charge {
    pub(crate) fn cost(&self) -> Cost {
        WholeCost::or_one(self.cost.as_ref())
    }
}

impl RequestBody for Charge {
    type Read<'a> = Self;
}

/// Calls that are charged to the quota.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "RunCharged")]
pub(crate) struct Charged {
    pub(crate) space: String,
    pub(crate) id: String,
    pub(crate) cost: u64,
    /// Whether this request did it; if not it was charged by the same id before.
    pub(crate) is_new: bool,
    pub(crate) remaining: u64,
}

/// A charge that is given back.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "RunChargeReleased")]
pub(crate) struct Released {
    pub(crate) space: String,
    pub(crate) id: String,
    /// Whether this request did it.
    pub(crate) is_new: bool,
}

/// Where the quota of a family of runs stands.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "RunQuota")]
pub(crate) struct Quota {
    pub(crate) space: String,
    /// What its keys start with: who has the same shares it.
    pub(crate) prefix: String,
    /// What counts as an hour: `aligned`, `sliding` or `both`.
    pub(crate) kind: String,
    /// By the store's clock.
    pub(crate) at_ms: u64,
    pub(crate) limit: u64,
    pub(crate) safety_buffer: u64,
    /// What is left now, by all that counts.
    pub(crate) remaining: u64,
    /// This hour of UTC.
    pub(crate) aligned: Option<Use>,
    /// The last 60 minutes.
    pub(crate) sliding: Option<Use>,
    /// The hours of the last 24 in which something was charged, the last first.
    pub(crate) hours: Vec<Hour>,
    /// The one of them in which most was used.
    pub(crate) peak_hour: Option<String>,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "RunQuotaUse")]
pub(crate) struct Use {
    pub(crate) capacity: u64,
    pub(crate) used: u64,
    pub(crate) remaining: u64,
    /// When all of it is free again.
    pub(crate) resets_in_ms: u64,
}

impl Use {
    fn new(it: &QuotaUse) -> Self {
        let QuotaUse { capacity, used, remaining, resets_in_ms, .. } = *it;
        Self { capacity, used, remaining, resets_in_ms }
    }
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "RunQuotaHour")]
pub(crate) struct Hour {
    /// As keys name it, like 2024-09-17_14.
    pub(crate) hour: String,
    pub(crate) first_charge_at_ms: u64,
    /// The most that counted in this hour of UTC.
    pub(crate) most_aligned: Option<u64>,
    /// The most that counted in any 60 minutes that ended in it.
    pub(crate) most_sliding: Option<u64>,
}

impl Hour {
    fn new(it: &QuotaHour) -> Self {
        Self {
            hour: it.hour.to_string(),
            first_charge_at_ms: it.first_charge_at.as_millis(),
            most_aligned: it.most_aligned,
            most_sliding: it.most_sliding,
        }
    }
}

impl Quota {
    pub(crate) fn new(space: &str, prefix: &str, it: &QuotaStatus) -> Self {
        Self {
            space: space.to_owned(),
            prefix: prefix.to_owned(),
            kind: it.kind.as_str().to_owned(),
            at_ms: Timestamp::as_millis(it.at),
            limit: it.limit,
            safety_buffer: it.safety_buffer,
            remaining: it.remaining,
            aligned: it.aligned.as_ref().map(Use::new),
            sliding: it.sliding.as_ref().map(Use::new),
            hours: it.hours.iter().map(Hour::new).collect(),
            peak_hour: it.peak().map(|it| it.hour.to_string()),
        }
    }
}
