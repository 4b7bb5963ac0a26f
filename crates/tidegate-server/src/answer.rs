//! A decision as JSON: the same from the server and from the command line.

use serde::{Serialize, Serializer};
use tidegate::limit::{Decision, Receipt, Source};

/// The type of problem that a refusal is, as the draft on `RateLimit` header
/// fields registers it.
const QUOTA_EXCEEDED: &str = "https://iana.org/assignments/http-problem-types#quota-exceeded";

/// What a take or a peek answers.
#[derive(Debug, Serialize)]
pub struct Answer<'a> {
    #[serde(flatten)]
    problem: Option<Problem<'a>>,
    outcome: &'static str,
    limit: &'a str,
    key: &'a str,
    cost: u64,
    capacity: u64,
    remaining: u64,
    reset_after_ms: u64,
    window_size_seconds: u64,
    /// Absent from an admission, `null` in a refusal that waiting cannot help.
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_after_ms: Option<Option<u64>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    remaining_after_waiting: Option<Option<u64>>,
    #[serde(serialize_with = "as_text")]
    receipt: Option<Receipt>,
    source: &'static str,
}

/// What makes a refusal a problem in the sense of RFC 9457.
#[derive(Debug, Serialize)]
struct Problem<'a> {
    r#type: &'static str,
    title: &'static str,
    status: u16,
    detail: String,
    #[serde(rename = "violated-policies")]
    violated_policies: [&'a str; 1],
}

fn as_text<S: Serializer>(receipt: &Option<Receipt>, serializer: S) -> Result<S::Ok, S::Error> {
    match receipt {
        Some(receipt) => serializer.collect_str(receipt),
        None => serializer.serialize_none(),
    }
}

impl<'a> Answer<'a> {
    /// The answer to a peek, or to a take that was admitted.
    pub fn plain(limit: &'a str, key: &'a str, cost: u64, decision: &Decision) -> Self {
        let quota = decision.quota();
        let wait = decision.wait();
        let rejected = !decision.is_admitted();
        Self {
            problem: None,
            outcome: if rejected { "rejected" } else { "admitted" },
            limit,
            key,
            cost,
            capacity: quota.capacity,
            remaining: quota.remaining,
            reset_after_ms: quota.reset_after_ms,
            window_size_seconds: quota.window_size_seconds,
            retry_after_ms: rejected.then(|| wait.map(|wait| wait.retry_after_ms)),
            remaining_after_waiting: rejected.then(|| wait.map(|wait| wait.remaining_after_waiting)),
            receipt: decision.receipt(),
            source: decision.source().as_str(),
        }
    }

    /// The answer to a take: a problem if it was refused.
    pub fn to_take(limit: &'a str, key: &'a str, cost: u64, decision: &Decision) -> Self {
        let plain = Self::plain(limit, key, cost, decision);
        if decision.is_admitted() {
            return plain;
        }
        let problem = Problem {
            r#type: QUOTA_EXCEEDED,
            title: "Quota exceeded",
            status: 429,
            detail: detail(limit, cost, decision),
            violated_policies: [limit],
        };
        Self { problem: Some(problem), ..plain }
    }

    /// As text.
    pub fn to_json(&self) -> Vec<u8> {
        // Strings and numbers alone: there is nothing that JSON cannot write.
        serde_json::to_vec(self).unwrap_or_default()
    }
}

/// Why a take was refused, and what helps.
fn detail(limit: &str, cost: u64, decision: &Decision) -> String {
    let quota = decision.quota();
    let Some(wait) = decision.wait() else {
        return format!(
            "a cost of {cost} never fits the limit {limit:?}, whose capacity is {}: waiting cannot help",
            quota.capacity
        );
    };
    if decision.source() == Source::Policy {
        return format!(
            "the limit {limit:?} refuses by policy, without knowing what was used: try again in {} ms",
            wait.retry_after_ms
        );
    }
    format!(
        "{} of {} permits per {} s of the limit {limit:?} are left: a cost of {cost} fits in {} ms",
        quota.remaining, quota.capacity, quota.window_size_seconds, wait.retry_after_ms
    )
}
