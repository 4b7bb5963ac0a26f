//! What was answered about sessions, for people.

use serde_json::value::RawValue;

use crate::api::Spaces;
use crate::api::session as api;
use crate::api::session_reap as reap;
use crate::cli::{Rendered, lines, moment, plural, printable, time};

pub(super) fn session(it: api::One) -> String {
    let left = it.last_disconnect_ms.map(|at| format!(", left at {}", moment(at))).unwrap_or_default();
    let claims = if it.attempts > 0 { format!(", {}", plural(it.attempts, "claim")) } else { String::new() };
    let mut text = format!(
        "{}: {}, generation {}, {}{left}{claims}\nbroadcaster {}\nlast seen {}\nlast update {}\nconfig {}\nvalue {}",
        it.id,
        it.state,
        it.generation,
        plural(it.ref_count, "holder"),
        printable(&it.broadcaster),
        moment(it.last_seen_ms),
        moment(it.last_update_ms),
        shown(&it.config),
        shown(&it.value),
    );
    for hold in &it.holders {
        text += &format!("\nholder {} until {}", printable(&hold.holder), moment(hold.until_ms));
    }
    text += &it.held_until_ms.map(|at| format!("\nheld until {}", moment(at))).unwrap_or_default();
    text
}

pub(super) fn claimed(response: reap::Claimed) -> String {
    let row = |it: &reap::InClaim| {
        format!(
            "{}: generation {}, attempt {}, left at {}, claimed until {}\nbroadcaster {}\nconfig {}\nvalue {}",
            it.id,
            it.generation,
            it.attempt,
            moment(it.since_ms),
            moment(it.until_ms),
            printable(&it.broadcaster),
            shown(&it.config),
            shown(&it.value),
        )
    };
    let mut lines: Vec<_> = response.claims.iter().map(row).collect();
    if lines.is_empty() {
        lines.push("none".to_owned());
    }
    if response.is_more {
        lines.push("more are due".to_owned());
    }
    lines.join("\n")
}

pub(super) fn renewed(it: reap::Renewed) -> String {
    format!("claimed until {}", moment(it.until_ms))
}

/// What became of one acknowledgement, as a word.
pub(super) fn acked(mut response: reap::Acked) -> Rendered {
    let text = response.acks.pop().map(|it| it.outcome).unwrap_or_default();
    Rendered { is_refusal: text != "deleted", text }
}

/// A string as its text, nothing as nothing, anything else as it was written.
fn shown(value: &RawValue) -> String {
    let text: Option<Option<String>> = serde_json::from_str(value.get()).ok();
    match text {
        Some(text) => printable(&text.unwrap_or_default()),
        None => printable(value.get()),
    }
}

pub(super) fn listed(response: api::Page) -> String {
    let what = match response.state.as_str() {
        "active" => "held until",
        "claimed" => "claimed until",
        "dead" => "put aside at",
        _ => "left at",
    };
    let mut lines: Vec<_> =
        response.sessions.iter().map(|it| format!("{}  {what} {}", it.id, moment(it.at_ms))).collect();
    if lines.is_empty() {
        lines.push("none".to_owned());
    }
    if response.invalid > 0 {
        lines.push(format!("besides {} in the index that are no session ids", response.invalid));
    }
    lines.extend(response.next.map(|next| format!("more: --after {next}")));
    lines.join("\n")
}

pub(super) fn counted(it: api::Counted) -> String {
    let hold = it.held_until_ms.map(|at| format!("\nno lease ends before {}: a hold runs", moment(at)));
    let lag = if it.orphans > 0 { format!(", the first due for {}", time(it.lag_ms)) } else { String::new() };
    format!(
        "{} active\n{} disconnected, {} of them orphans{lag}\n{} claimed\n{} dead{}",
        it.active,
        it.disconnected,
        it.orphans,
        it.claimed,
        it.dead,
        hold.unwrap_or_default()
    )
}

pub(super) fn spaces(response: Spaces<api::Space>) -> String {
    let row = |it: &api::Space| {
        format!(
            "{}: up to {} sessions of up to {} holders, leases of {}, orphans after {}, resumed within {}, \
             reaped by {}",
            it.space,
            it.max_sessions,
            it.max_holders,
            time(it.holder_lease_ms),
            time(it.grace_ms),
            time(it.session_ttl_ms),
            it.reap
        )
    };
    lines(response.spaces.iter().map(row))
}
