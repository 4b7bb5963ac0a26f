//! A decision as JSON: the same for one limit and for several.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use tidegate::limit::headers;
use tidegate::limit::{self, Limit, ReceiptText};
use tidegate::{ClosedStatus, Cost, Key};

use crate::api::subject;

/// What a take or a peek answers.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Decision<'a> {
    #[serde(flatten)]
    pub(crate) problem: Option<Refusal<'a>>,
    pub(crate) outcome: Outcome,
    pub(crate) limit: Cow<'a, str>,
    /// `null` is no subject at all.
    pub(crate) key: Option<Cow<'a, str>>,
    pub(crate) cost: u64,
    pub(crate) capacity: u64,
    pub(crate) remaining: u64,
    pub(crate) reset_after_ms: u64,
    pub(crate) window_size_seconds: u64,
    /// Absent from an admission, `null` in a refusal that waiting cannot help.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) retry_after_ms: Option<Option<u64>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) remaining_after_waiting: Option<Option<u64>>,
    #[serde(flatten)]
    pub(crate) chance: Option<Chance>,
    /// `null` if nothing was charged.
    pub(crate) receipt: Option<Receipt>,
    pub(crate) source: Cow<'a, str>,
}

/// What was decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Outcome {
    Admitted,
    Rejected,
    Suppressed,
}

impl Outcome {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Admitted => "admitted",
            Self::Rejected => "rejected",
            Self::Suppressed => "suppressed",
        }
    }
}

/// What makes a refusal a problem in the sense of RFC 9457.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Refusal<'a> {
    pub(crate) r#type: Cow<'a, str>,
    pub(crate) title: Cow<'a, str>,
    pub(crate) status: u16,
    pub(crate) detail: String,
    #[serde(rename = "violated-policies")]
    pub(crate) violated_policies: Vec<Cow<'a, str>>,
}

/// What a decision by chance has beside.
#[derive(Debug, Clone, Copy, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "DecisionByChance")]
pub(crate) struct Chance {
    pub(crate) suppression_factor: f64,
    pub(crate) is_allowed: bool,
}

/// A receipt, as it is made and as it is read.
#[derive(Debug)]
pub(crate) enum Receipt {
    Made(ReceiptText),
    Read(String),
}

impl Serialize for Receipt {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Made(receipt) => serializer.collect_str(receipt),
            Self::Read(text) => serializer.serialize_str(text),
        }
    }
}

impl<'de> Deserialize<'de> for Receipt {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(Self::Read)
    }
}

impl JsonSchema for Receipt {
    fn schema_name() -> Cow<'static, str> {
        Cow::Borrowed("Receipt")
    }

    fn json_schema(schemas: &mut SchemaGenerator) -> Schema {
        String::json_schema(schemas)
    }
}

impl<'a> Refusal<'a> {
    fn new(refusal: headers::Refusal, detail: String, violated: Vec<&'a str>) -> Self {
        let headers::Refusal { r#type, title, status, .. } = refusal;
        let violated_policies = violated.into_iter().map(Cow::Borrowed).collect();
        Self { r#type: r#type.into(), title: title.into(), status, detail, violated_policies }
    }

    /// The status to answer with.
    pub(crate) fn status(refusal: Option<&Self>) -> u16 {
        refusal.map_or(200, |refusal| refusal.status)
    }
}

impl<'a> Decision<'a> {
    /// The answer to a peek, or to a take that was admitted.
    pub(crate) fn plain(limit: &'a Limit, key: Key<'a>, cost: Cost, decision: &limit::Decision) -> Self {
        let quota = decision.quota();
        let wait = decision.wait();
        let (outcome, rejected, chance) = match decision {
            limit::Decision::Admitted(_) => (Outcome::Admitted, false, None),
            limit::Decision::Rejected(_) => (Outcome::Rejected, true, None),
            limit::Decision::Suppressed(suppression) => {
                let suppression_factor = suppression.suppression_factor;
                let chance = Chance { suppression_factor, is_allowed: suppression.is_allowed };
                (Outcome::Suppressed, false, Some(chance))
            }
        };
        Self {
            problem: None,
            outcome,
            limit: limit.name().as_str().into(),
            key: subject(key).map(Cow::Borrowed),
            cost: cost.get(),
            capacity: quota.capacity,
            remaining: quota.remaining,
            reset_after_ms: quota.reset_after_ms,
            window_size_seconds: quota.window_size_seconds,
            retry_after_ms: rejected.then(|| wait.map(|wait| wait.retry_after_ms)),
            remaining_after_waiting: rejected.then(|| wait.map(|wait| wait.remaining_after_waiting)),
            chance,
            receipt: decision
                .receipt()
                .and_then(|receipt| limit.receipt_text(key, receipt))
                .map(Receipt::Made),
            source: decision.source().as_str().into(),
        }
    }

    /// The answer to a take: a problem if it was refused.
    pub(crate) fn to_take(limit: &'a Limit, key: Key<'a>, cost: Cost, decision: &limit::Decision) -> Self {
        let plain = Self::plain(limit, key, cost, decision);
        if decision.is_admitted() {
            return plain;
        }
        let (name, closed_status) = (limit.name().as_str(), limit.options().closed_status);
        let detail = headers::detail(name, cost.get(), decision);
        let refusal = headers::Refusal::new(decision, closed_status);
        Self { problem: Some(Refusal::new(refusal, detail, vec![name])), ..plain }
    }

    /// As text.
    pub(crate) fn to_json(&self) -> Vec<u8> {
        // Mostly it is not longer, and does not move while it grows.
        let mut text = Vec::with_capacity(384);
        // Strings and numbers alone: there is nothing that JSON cannot write.
        let _ = serde_json::to_writer(&mut text, self);
        text
    }
}

/// What a take from several limits answers.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "DecisionOfAll")]
pub(crate) struct AllDecision<'a> {
    #[serde(flatten)]
    pub(crate) problem: Option<Refusal<'a>>,
    pub(crate) outcome: Outcome,
    /// `null` is no subject at all.
    pub(crate) key: Option<Cow<'a, str>>,
    /// Absent from an admission, `null` in a refusal that waiting cannot help.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) retry_after_ms: Option<Option<u64>>,
    pub(crate) limits: Vec<Decision<'a>>,
}

impl<'a> AllDecision<'a> {
    /// The answer: a problem if one refused. `charges` is the cost under each limit.
    pub(crate) fn new(key: Key<'a>, decision: &'a limit::AllDecision, charges: &[(&'a Limit, Cost)]) -> Self {
        let charged = |name: &tidegate::Name| charges.iter().find(|(limit, _)| limit.name() == name);
        let plain = |(name, it): (&'a tidegate::Name, &limit::Decision)| {
            charged(name).map(|(limit, cost)| Decision::plain(limit, key, *cost, it))
        };
        let plain = Self {
            problem: None,
            outcome: Outcome::Admitted,
            key: subject(key).map(Cow::Borrowed),
            retry_after_ms: None,
            limits: decision.decisions().filter_map(plain).collect(),
        };
        if decision.is_admitted() {
            return plain;
        }
        let (mut violated, mut details, mut problem) = (Vec::new(), Vec::new(), None);
        for (name, it) in decision.refusals() {
            let (closed_status, cost) = charged(name)
                .map_or((ClosedStatus::default(), Cost::ONE), |(limit, cost)| {
                    (limit.options().closed_status, *cost)
                });
            violated.push(name.as_str());
            details.push(headers::detail(name.as_str(), cost.get(), it));
            let refusal = headers::Refusal::new(it, closed_status);
            problem = Some(problem.map_or(refusal, |before: headers::Refusal| before.and(refusal)));
        }
        Self {
            problem: problem.map(|problem| Refusal::new(problem, details.join("; "), violated)),
            outcome: Outcome::Rejected,
            retry_after_ms: Some(decision.retry_after_ms()),
            ..plain
        }
    }
}
