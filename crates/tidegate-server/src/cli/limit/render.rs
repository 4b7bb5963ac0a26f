//! What was answered about limits, for people and for exit codes.

use std::time::Duration;

use axum::body::Bytes;
use axum::http::StatusCode;

use super::args::LimitCommand;
use crate::api::decision::{AllDecision, Decision, Outcome, Receipt};
use crate::api::limit::{LimitInfo, Limits, Override, Overrides, Refunded, Reservation, Reservations};
use crate::cli::render::{Rendered, problem, read};

/// What people read of an answer, be it a refusal; the detail of what there is instead of
/// one, if it is ours.
pub(super) fn render(
    command: &LimitCommand,
    status: StatusCode,
    body: &Bytes,
) -> Result<Result<Rendered, String>, Option<String>> {
    match status {
        StatusCode::OK | StatusCode::CREATED | StatusCode::NO_CONTENT => Ok(answer(command, status, body)),
        // A server in front of ours may say so too.
        StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE => match refusal(command, body) {
            Some(text) => Ok(Ok(Rendered { text, is_refusal: true })),
            None => Err(problem(body).map(|problem| problem.detail)),
        },
        StatusCode::CONFLICT | StatusCode::NOT_FOUND => {
            let problem = problem(body).ok_or(None)?;
            let known = ["conflict", "no-override", "no-reservation"];
            let name = problem.r#type.strip_prefix("urn:tidegate:problem:");
            match name.is_some_and(|name| known.contains(&name)) {
                true => Ok(Ok(Rendered { text: problem.detail, is_refusal: true })),
                false => Err(Some(problem.detail)),
            }
        }
        _ => Err(problem(body).map(|problem| problem.detail)),
    }
}

/// As it came; what has no body has a word.
pub(super) fn json(command: &LimitCommand, status: StatusCode, body: &Bytes) -> String {
    match status {
        StatusCode::NO_CONTENT => format!("{{\"{}\":true}}", done(command)),
        _ => String::from_utf8_lossy(body).into_owned(),
    }
}

fn answer(command: &LimitCommand, status: StatusCode, body: &Bytes) -> Result<Rendered, String> {
    if status == StatusCode::NO_CONTENT {
        return Ok(Rendered::yes(done(command).to_owned()));
    }
    Ok(match command {
        LimitCommand::Take { .. } | LimitCommand::Peek { .. } => {
            let decision: Decision<'_> = read(body)?;
            Rendered { is_refusal: is_refusal(&decision), text: one(&decision) }
        }
        LimitCommand::TakeAll { .. } => Rendered::yes(all(&read(body)?)),
        LimitCommand::Refund { .. } => Rendered::yes(match read::<Refunded>(body)?.refunded {
            0 => "nothing was given back: the charge no longer counts".to_owned(),
            refunded => format!("{refunded} given back"),
        }),
        LimitCommand::SetOverride { .. } | LimitCommand::GetOverride { .. } => {
            let Override { rate, lasting_ms, .. } = read(body)?;
            Rendered::yes(format!("{rate} for another {}", time(lasting_ms)))
        }
        LimitCommand::Reserve { .. }
        | LimitCommand::Commit { .. }
        | LimitCommand::Release { .. }
        | LimitCommand::Reservation { .. } => Rendered::yes(reservation(&read(body)?)),
        LimitCommand::Overrides { .. } => {
            let Overrides { overrides, next, .. } = read(body)?;
            let rows = overrides
                .iter()
                .map(|row| (&row.key, format!("{} for another {}", row.rate, time(row.lasting_ms))));
            Rendered::yes(page("overrides", rows, next))
        }
        LimitCommand::Reservations { .. } => {
            let Reservations { reservations, next, .. } = read(body)?;
            let rows = reservations.iter().map(|row| {
                let left = time(row.expires_in_ms);
                (&row.key, format!("{}, {} for another {left}", row.id, row.cost))
            });
            Rendered::yes(page("reservations", rows, next))
        }
        LimitCommand::List { .. } => {
            let Limits { limits } = read(body)?;
            Rendered::yes(limits.iter().map(limit).collect::<Vec<_>>().join("\n"))
        }
        LimitCommand::Reset { .. } | LimitCommand::ClearOverride { .. } => {
            Rendered::yes(done(command).to_owned())
        }
    })
}

/// A decision against the caller.
fn refusal(command: &LimitCommand, body: &Bytes) -> Option<String> {
    match command {
        LimitCommand::TakeAll { .. } => read(body).ok().map(|decision| all(&decision)),
        _ => read(body).ok().map(|decision| one(&decision)),
    }
}

/// What was done, where nothing else is told.
fn done(command: &LimitCommand) -> &'static str {
    match command {
        LimitCommand::ClearOverride { .. } => "cleared",
        _ => "reset",
    }
}

fn time(ms: u64) -> humantime::FormattedDuration {
    humantime::format_duration(Duration::from_millis(ms))
}

fn is_refusal(decision: &Decision<'_>) -> bool {
    match decision.chance {
        Some(chance) => !chance.is_allowed,
        None => decision.outcome == Outcome::Rejected,
    }
}

fn one(decision: &Decision<'_>) -> String {
    let Decision { cost, capacity, remaining, reset_after_ms, .. } = decision;
    let outcome = decision.outcome.as_str();
    let mut text = format!("{outcome}: {remaining} of {capacity} left");
    if let Some(chance) = decision.chance {
        let passes = if chance.is_allowed { "let through" } else { "held back" };
        let percent = chance.suppression_factor * 100.0;
        text = format!("{outcome}: {passes}, {percent:.0} % of calls are held back");
    } else if decision.outcome == Outcome::Rejected {
        text += &match decision.retry_after_ms.flatten() {
            Some(wait_ms) => format!(", {cost} will fit in {}", time(wait_ms)),
            None => format!(", {cost} will never fit"),
        };
    } else if *reset_after_ms > 0 {
        text += &format!(", all free again in {}", time(*reset_after_ms));
    }
    match &*decision.source {
        "local" => text += " (by a local share: the store is away)",
        "policy" => text += " (by policy, not knowing what was used)",
        _ => {}
    }
    if let Some(Receipt::Read(receipt)) = &decision.receipt {
        text += &format!("\nreceipt {receipt}");
    }
    text
}

fn all(decision: &AllDecision<'_>) -> String {
    let mut text = decision.outcome.as_str().to_owned();
    for decision in &decision.limits {
        text += &format!("\n{}: {}", decision.limit, one(decision).replace('\n', ", "));
    }
    text
}

fn reservation(Reservation { state, cost, expires_in_ms, .. }: &Reservation) -> String {
    let mut text = format!("{state}: {cost}");
    if *expires_in_ms > 0 {
        text += &format!(", for another {}", time(*expires_in_ms));
    }
    text
}

/// A line for each, by its key, and where it goes on.
fn page<'a>(
    what: &str,
    rows: impl Iterator<Item = (&'a Option<String>, String)>,
    next: Option<String>,
) -> String {
    let line =
        |(key, row): (&Option<String>, String)| format!("{}: {row}", key.as_deref().unwrap_or("(everyone)"));
    let mut lines: Vec<String> = rows.map(line).collect();
    match next {
        Some(next) => lines.push(format!("more: --cursor {next}")),
        None if lines.is_empty() => lines.push(format!("no {what}")),
        None => {}
    }
    lines.join("\n")
}

fn limit(it: &LimitInfo) -> String {
    let window = time(it.window_size_seconds * 1000);
    format!("{}: {}, {} per {window}", it.limit, it.algorithm, it.capacity)
}
