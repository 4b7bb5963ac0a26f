//! What was answered, for people and for exit codes.

use std::borrow::Cow;
use std::time::Duration;

use axum::body::Bytes;
use axum::http::StatusCode;
use serde::Deserialize;

use super::limit_args::LimitCommand;

/// An answer, be it a refusal.
#[derive(Debug)]
pub(super) struct Told {
    status: StatusCode,
    body: Bytes,
}

/// What is told, as far as people are told it.
#[derive(Debug, Deserialize)]
struct Members {
    r#type: Option<String>,
    detail: Option<String>,
    outcome: Option<String>,
    source: Option<String>,
    limit: Option<String>,
    cost: Option<u64>,
    capacity: Option<u64>,
    remaining: Option<u64>,
    reset_after_ms: Option<u64>,
    retry_after_ms: Option<u64>,
    suppression_factor: Option<f64>,
    is_allowed: Option<bool>,
    receipt: Option<String>,
    refunded: Option<u64>,
    rate: Option<String>,
    lasting_ms: Option<u64>,
    state: Option<String>,
    expires_in_ms: Option<u64>,
    algorithm: Option<String>,
    window_size_seconds: Option<u64>,
    #[serde(default)]
    limits: Vec<Members>,
    key: Option<String>,
    id: Option<String>,
    #[serde(default)]
    overrides: Vec<Members>,
    #[serde(default)]
    reservations: Vec<Members>,
    next: Option<String>,
}

impl Told {
    /// An answer, or the detail of what there is instead of one, if it is ours.
    pub(super) fn new(status: StatusCode, body: Bytes) -> Result<Self, Option<String>> {
        let told = Self { status, body };
        let is_answer = match status {
            StatusCode::OK | StatusCode::CREATED | StatusCode::NO_CONTENT => true,
            // A server in front of ours may say so too.
            StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE => {
                told.members().is_ok_and(|told| told.outcome.is_some())
            }
            StatusCode::CONFLICT | StatusCode::NOT_FOUND => {
                let kind = told.members().ok().and_then(|told| told.r#type).unwrap_or_default();
                ["conflict", "no-override", "no-reservation"]
                    .iter()
                    .any(|known| kind.strip_prefix("urn:tidegate:problem:") == Some(known))
            }
            _ => false,
        };
        match is_answer {
            true => Ok(told),
            false => Err(told.members().ok().and_then(|told| told.detail)),
        }
    }

    fn members(&self) -> Result<Members, String> {
        serde_json::from_slice(&self.body).map_err(|error| format!("an answer that is none of ours: {error}"))
    }

    /// As it came; what has no body has a word.
    pub(super) fn json(&self, command: &LimitCommand) -> Cow<'_, str> {
        match self.status {
            StatusCode::NO_CONTENT => Cow::Owned(format!("{{\"{}\":true}}", done(command))),
            _ => String::from_utf8_lossy(&self.body),
        }
    }

    /// Whether the answer is no.
    pub(super) fn is_refusal(&self) -> bool {
        let is_no = |told: Members| match told.is_allowed {
            Some(is_allowed) => !is_allowed,
            None => told.outcome.as_deref() == Some("rejected"),
        };
        !self.status.is_success() || self.members().is_ok_and(is_no)
    }

    pub(super) fn for_people(&self, command: &LimitCommand) -> Result<String, String> {
        if self.status == StatusCode::NO_CONTENT {
            return Ok(done(command).to_owned());
        }
        let told = self.members()?;
        Ok(match command {
            LimitCommand::List { .. } => told.limits.iter().map(row).collect::<Vec<_>>().join("\n"),
            LimitCommand::Overrides { .. } => page(&told, "overrides", &told.overrides, |row| {
                format!("{} for another {}", row.rate.as_deref().unwrap_or_default(), time(row.lasting_ms))
            }),
            LimitCommand::Reservations { .. } => page(&told, "reservations", &told.reservations, |row| {
                let (id, cost) = (row.id.as_deref().unwrap_or_default(), row.cost.unwrap_or_default());
                format!("{id}, {cost} for another {}", time(row.expires_in_ms))
            }),
            LimitCommand::Refund { .. } => match told.refunded.unwrap_or_default() {
                0 => "nothing was given back: the charge no longer counts".to_owned(),
                refunded => format!("{refunded} given back"),
            },
            _ => match (&told.outcome, &told.state, &told.rate) {
                (Some(outcome), ..) if !told.limits.is_empty() => all(outcome, &told),
                (Some(outcome), ..) => decision(outcome, &told),
                (_, Some(state), _) => reservation(state, &told),
                (_, _, Some(rate)) => format!("{rate} for another {}", time(told.lasting_ms)),
                _ => told.detail.unwrap_or_default(),
            },
        })
    }
}

/// What was done, where nothing else is told.
fn done(command: &LimitCommand) -> &'static str {
    match command {
        LimitCommand::ClearOverride { .. } => "cleared",
        _ => "reset",
    }
}

fn time(ms: Option<u64>) -> humantime::FormattedDuration {
    humantime::format_duration(Duration::from_millis(ms.unwrap_or_default()))
}

fn decision(outcome: &str, told: &Members) -> String {
    let [cost, capacity, remaining, reset] =
        [told.cost, told.capacity, told.remaining, told.reset_after_ms].map(Option::unwrap_or_default);
    let mut text = format!("{outcome}: {remaining} of {capacity} left");
    if let (Some(is_allowed), Some(factor)) = (told.is_allowed, told.suppression_factor) {
        let passes = if is_allowed { "let through" } else { "held back" };
        text = format!("{outcome}: {passes}, {:.0} % of calls are held back", factor * 100.0);
    } else if outcome == "rejected" {
        text += &match told.retry_after_ms {
            Some(_) => format!(", {cost} will fit in {}", time(told.retry_after_ms)),
            None => format!(", {cost} will never fit"),
        };
    } else if reset > 0 {
        text += &format!(", all free again in {}", time(told.reset_after_ms));
    }
    match told.source.as_deref() {
        Some("local") => text += " (by a local share: the store is away)",
        Some("policy") => text += " (by policy, not knowing what was used)",
        _ => {}
    }
    if let Some(receipt) = &told.receipt {
        text += &format!("\nreceipt {receipt}");
    }
    text
}

fn all(outcome: &str, told: &Members) -> String {
    let mut text = outcome.to_owned();
    for told in &told.limits {
        let limit = told.limit.as_deref().unwrap_or_default();
        let said = decision(told.outcome.as_deref().unwrap_or_default(), told);
        text += &format!("\n{limit}: {}", said.replace('\n', ", "));
    }
    text
}

fn reservation(state: &str, told: &Members) -> String {
    let mut text = format!("{state}: {}", told.cost.unwrap_or_default());
    if told.expires_in_ms.is_some_and(|ms| ms > 0) {
        text += &format!(", for another {}", time(told.expires_in_ms));
    }
    text
}

/// A line for each, by its key, and where it goes on.
fn page(told: &Members, what: &str, rows: &[Members], row: impl Fn(&Members) -> String) -> String {
    let line = |it: &Members| format!("{}: {}", it.key.as_deref().unwrap_or("(everyone)"), row(it));
    let mut lines: Vec<String> = rows.iter().map(line).collect();
    match &told.next {
        Some(next) => lines.push(format!("more: --cursor {next}")),
        None if lines.is_empty() => lines.push(format!("no {what}")),
        None => {}
    }
    lines.join("\n")
}

fn row(told: &Members) -> String {
    let [limit, algorithm] = [&told.limit, &told.algorithm].map(|text| text.as_deref().unwrap_or_default());
    let (capacity, window) = (told.capacity.unwrap_or_default(), told.window_size_seconds);
    let window = time(window.map(|seconds| seconds * 1000));
    format!("{limit}: {algorithm}, {capacity} per {window}")
}
