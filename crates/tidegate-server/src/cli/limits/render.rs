//! What was answered about limits, for people and for exit codes.

use axum::http::StatusCode;

use crate::api::charge::{Charge, ChargedLimit};
use crate::api::decision::{AllDecision, Decision, Outcome, Receipt};
use crate::api::limit::{LimitInfo, Limits, Override, Overrides, Refunded, Reservation, Reservations};
use crate::cli::{Rendered, lines, page, printable, problem, read, time};

/// A decision against the caller, or that there is nothing to be had.
pub(super) fn refusal(status: StatusCode, body: &[u8]) -> Option<String> {
    match status {
        // A server in front of ours may say so too.
        StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE => {
            let several = read(body).ok().map(all);
            several.or_else(|| read(body).ok().map(|decision| one(&decision)))
        }
        StatusCode::CONFLICT | StatusCode::NOT_FOUND => {
            let known = ["conflict", "no-override", "no-reservation", "no-charge"];
            let is_known = |kind: &str| {
                kind.strip_prefix("urn:tidegate:problem:").is_some_and(|name| known.contains(&name))
            };
            problem(body).filter(|problem| is_known(&problem.r#type)).map(|problem| problem.detail)
        }
        _ => None,
    }
}

pub(super) fn decision(decision: Decision<'_>) -> Rendered {
    Rendered { is_refusal: is_refusal(&decision), text: one(&decision) }
}

pub(super) fn charge(Charge { state, limits, .. }: Charge) -> String {
    let line = |it: &ChargedLimit| format!("\n{}: {} of {} left", it.limit, it.remaining, it.capacity);
    format!("{state}{}", limits.iter().map(line).collect::<String>())
}

pub(super) fn refunded(it: Refunded) -> String {
    match it.refunded {
        0 => "nothing was given back: the charge no longer counts".to_owned(),
        refunded => format!("{refunded} given back"),
    }
}

pub(super) fn own_rate(Override { rate, lasting_ms, .. }: Override) -> String {
    format!("{rate} for another {}", time(lasting_ms))
}

pub(super) fn reservation(Reservation { state, cost, expires_in_ms, .. }: Reservation) -> String {
    let left = match expires_in_ms {
        0 => String::new(),
        left_ms => format!(", for another {}", time(left_ms)),
    };
    format!("{state}: {cost}{left}")
}

pub(super) fn overrides(Overrides { overrides, next, .. }: Overrides) -> String {
    let rows =
        overrides.iter().map(|row| (&row.key, format!("{} for another {}", row.rate, time(row.lasting_ms))));
    page(rows.map(by_key).collect(), "no overrides", next)
}

pub(super) fn reservations(Reservations { reservations, next, .. }: Reservations) -> String {
    let rows = reservations.iter().map(|row| {
        let left = time(row.expires_in_ms);
        (&row.key, format!("{}, {} for another {left}", printable(&row.id), row.cost))
    });
    page(rows.map(by_key).collect(), "no reservations", next)
}

pub(super) fn limits(Limits { limits }: Limits) -> String {
    let row = |it: &LimitInfo| {
        let window = time(it.window_size_seconds * 1000);
        format!("{}: {}, {} per {window}", it.limit, it.algorithm, it.capacity)
    };
    lines(limits.iter().map(row))
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

pub(super) fn all(decision: AllDecision<'_>) -> String {
    let mut text = decision.outcome.as_str().to_owned();
    for decision in &decision.limits {
        text += &format!("\n{}: {}", decision.limit, one(decision).replace('\n', ", "));
    }
    text
}

/// A line, by its key.
fn by_key((key, row): (&Option<String>, String)) -> String {
    match key {
        Some(key) => format!("{}: {row}", printable(key)),
        None => format!("(everyone): {row}"),
    }
}
