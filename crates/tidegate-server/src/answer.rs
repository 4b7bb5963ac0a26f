//! A decision as JSON: the same for one limit and for several.

use serde::{Serialize, Serializer};
use tidegate::limit::headers::{self, Refusal};
use tidegate::limit::{AllDecision, Decision, Limit, ReceiptText};
use tidegate::{ClosedStatus, Cost, Key};

/// What a take or a peek answers.
#[derive(Debug, Serialize)]
pub struct Answer<'a> {
    #[serde(flatten)]
    problem: Option<Problem<'a>>,
    outcome: &'static str,
    limit: &'a str,
    key: Option<&'a str>,
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
    #[serde(flatten)]
    chance: Option<Chance>,
    #[serde(serialize_with = "as_text")]
    receipt: Option<ReceiptText>,
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
    violated_policies: Vec<&'a str>,
}

/// What is told of a decision by chance.
#[derive(Debug, Serialize)]
struct Chance {
    suppression_factor: f64,
    is_allowed: bool,
}

fn as_text<S: Serializer>(receipt: &Option<ReceiptText>, serializer: S) -> Result<S::Ok, S::Error> {
    match receipt {
        Some(receipt) => serializer.collect_str(receipt),
        None => serializer.serialize_none(),
    }
}

/// How a key is told: `null` is no subject at all.
pub(crate) fn subject(key: Key<'_>) -> Option<&str> {
    Some(key.as_str()).filter(|_| key != Key::EVERYONE)
}

impl<'a> Problem<'a> {
    fn new(refusal: Refusal, detail: String, violated_policies: Vec<&'a str>) -> Self {
        let Refusal { r#type, title, status, .. } = refusal;
        Self { r#type, title, status, detail, violated_policies }
    }
}

impl<'a> Answer<'a> {
    /// The answer to a peek, or to a take that was admitted.
    pub fn plain(limit: &'a Limit, key: Key<'a>, cost: Cost, decision: &Decision) -> Self {
        let quota = decision.quota();
        let wait = decision.wait();
        let (outcome, rejected, chance) = match decision {
            Decision::Admitted(_) => ("admitted", false, None),
            Decision::Rejected(_) => ("rejected", true, None),
            Decision::Suppressed(suppression) => {
                let suppression_factor = suppression.suppression_factor;
                ("suppressed", false, Some(Chance { suppression_factor, is_allowed: suppression.is_allowed }))
            }
        };
        Self {
            problem: None,
            outcome,
            limit: limit.name().as_str(),
            key: subject(key),
            cost: cost.get(),
            capacity: quota.capacity,
            remaining: quota.remaining,
            reset_after_ms: quota.reset_after_ms,
            window_size_seconds: quota.window_size_seconds,
            retry_after_ms: rejected.then(|| wait.map(|wait| wait.retry_after_ms)),
            remaining_after_waiting: rejected.then(|| wait.map(|wait| wait.remaining_after_waiting)),
            chance,
            receipt: decision.receipt().and_then(|receipt| limit.receipt_text(key, receipt)),
            source: decision.source().as_str(),
        }
    }

    /// The answer to a take: a problem if it was refused.
    pub fn to_take(limit: &'a Limit, key: Key<'a>, cost: Cost, decision: &Decision) -> Self {
        let plain = Self::plain(limit, key, cost, decision);
        if decision.is_admitted() {
            return plain;
        }
        let (name, closed_status) = (limit.name().as_str(), limit.options().closed_status);
        let detail = headers::detail(name, cost.get(), decision);
        let refusal = Refusal::new(decision, closed_status);
        Self { problem: Some(Problem::new(refusal, detail, vec![name])), ..plain }
    }

    /// The status to answer with.
    pub fn status(&self) -> u16 {
        self.problem.as_ref().map_or(200, |problem| problem.status)
    }

    /// As text.
    pub fn to_json(&self) -> Vec<u8> {
        // Mostly it is not longer, and does not move while it grows.
        let mut text = Vec::with_capacity(384);
        // Strings and numbers alone: there is nothing that JSON cannot write.
        let _ = serde_json::to_writer(&mut text, self);
        text
    }
}

/// What a take from several limits answers.
#[derive(Debug, Serialize)]
pub struct AllAnswer<'a> {
    #[serde(flatten)]
    problem: Option<Problem<'a>>,
    outcome: &'static str,
    key: Option<&'a str>,
    /// Absent from an admission, `null` in a refusal that waiting cannot help.
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_after_ms: Option<Option<u64>>,
    limits: Vec<Answer<'a>>,
}

impl<'a> AllAnswer<'a> {
    /// The answer: a problem if one refused. `asked` is what was asked of each limit.
    pub fn new(key: Key<'a>, decision: &'a AllDecision, asked: &[(&'a Limit, Cost)]) -> Self {
        let of = |name: &str| asked.iter().find(|(limit, _)| limit.name().as_str() == name);
        let cost = |name: &str| of(name).map_or(Cost::ONE, |(_, cost)| *cost);
        let closed_status =
            |name: &str| of(name).map_or(ClosedStatus::default(), |(limit, _)| limit.options().closed_status);
        let said = |(name, decision): (&'a tidegate::Name, &Decision)| {
            of(name.as_str()).map(|(limit, cost)| Answer::plain(limit, key, *cost, decision))
        };
        let limits = decision.decisions().filter_map(said).collect();
        let plain =
            Self { problem: None, outcome: "admitted", key: subject(key), retry_after_ms: None, limits };
        if decision.is_admitted() {
            return plain;
        }
        let (violated, details): (Vec<_>, Vec<_>) = decision
            .refusals()
            .map(|(name, refusal)| {
                let name = name.as_str();
                (name, headers::detail(name, cost(name).get(), refusal))
            })
            .unzip();
        let problems = decision.refusals().map(|(name, it)| Refusal::new(it, closed_status(name.as_str())));
        let problem = problems.reduce(Refusal::and);
        Self {
            problem: problem.map(|problem| Problem::new(problem, details.join("; "), violated)),
            outcome: "rejected",
            retry_after_ms: Some(decision.retry_after_ms()),
            ..plain
        }
    }

    /// The status to answer with.
    pub fn status(&self) -> u16 {
        self.problem.as_ref().map_or(200, |problem| problem.status)
    }

    /// As text.
    pub fn to_json(&self) -> Vec<u8> {
        // Strings and numbers alone: there is nothing that JSON cannot write.
        serde_json::to_vec(self).unwrap_or_default()
    }
}
