//! What was answered about sessions, for people.

use std::time::Duration;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::hot_told::{moment, plural, printable, read, time};

#[derive(Deserialize)]
struct Session {
    id: String,
    broadcaster: String,
    config: Box<RawValue>,
    value: Box<RawValue>,
    state: String,
    generation: u64,
    ref_count: u64,
    holders: Vec<Hold>,
    held_until_ms: Option<u64>,
    last_disconnect_ms: Option<u64>,
    last_update_ms: u64,
    last_seen_ms: u64,
    attempts: u64,
}

#[derive(Deserialize)]
struct Hold {
    holder: String,
    until_ms: u64,
}

pub(super) fn session(answer: &[u8]) -> Result<String, String> {
    let it: Session = read(answer)?;
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
    Ok(text)
}

pub(super) fn claimed(answer: &[u8]) -> Result<String, String> {
    #[derive(Deserialize)]
    struct Claims {
        claims: Vec<Claim>,
        is_more: bool,
    }
    #[derive(Deserialize)]
    struct Claim {
        id: String,
        generation: u64,
        broadcaster: String,
        config: Box<RawValue>,
        value: Box<RawValue>,
        since_ms: u64,
        attempt: u64,
        until_ms: u64,
    }
    let told: Claims = read(answer)?;
    let row = |it: &Claim| {
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
    let mut lines: Vec<_> = told.claims.iter().map(row).collect();
    if lines.is_empty() {
        lines.push("none".to_owned());
    }
    if told.is_more {
        lines.push("more are due".to_owned());
    }
    Ok(lines.join("\n"))
}

pub(super) fn renewed(answer: &[u8]) -> Result<String, String> {
    #[derive(Deserialize)]
    struct Renewed {
        until_ms: u64,
    }
    let it: Renewed = read(answer)?;
    Ok(format!("claimed until {}", moment(it.until_ms)))
}

/// What became of one acknowledgement, as a word.
pub(super) fn acked(answer: &[u8]) -> Result<String, String> {
    #[derive(Deserialize)]
    struct Acks {
        acks: Vec<Ack>,
    }
    #[derive(Deserialize)]
    struct Ack {
        outcome: String,
    }
    let mut told: Acks = read(answer)?;
    Ok(told.acks.pop().map(|it| it.outcome).unwrap_or_default())
}

pub(super) fn foreseen(answer: &[u8]) -> Result<String, String> {
    #[derive(Deserialize)]
    struct Foreseen {
        deleted: u64,
        claimed: u64,
    }
    let it: Foreseen = read(answer)?;
    let claimed = match it.claimed {
        0 => String::new(),
        count => format!(", and of {count} claimed those whose claim has ended"),
    };
    Ok(format!("dry run: {} would be deleted{claimed}", plural(it.deleted, "session")))
}

/// A string as its text, nothing as nothing, anything else as it was written.
fn shown(value: &RawValue) -> String {
    let text: Option<Option<String>> = serde_json::from_str(value.get()).ok();
    match text {
        Some(text) => printable(&text.unwrap_or_default()).to_string(),
        None => printable(value.get()).to_string(),
    }
}

pub(super) fn listed(answer: &[u8]) -> Result<String, String> {
    #[derive(Deserialize)]
    struct Page {
        state: String,
        sessions: Vec<Row>,
        invalid: u64,
        next: Option<String>,
    }
    #[derive(Deserialize)]
    struct Row {
        id: String,
        at_ms: u64,
    }
    let told: Page = read(answer)?;
    let what = match told.state.as_str() {
        "active" => "held until",
        "claimed" => "claimed until",
        "dead" => "put aside at",
        _ => "left at",
    };
    let mut lines: Vec<_> =
        told.sessions.iter().map(|it| format!("{}  {what} {}", it.id, moment(it.at_ms))).collect();
    if lines.is_empty() {
        lines.push("none".to_owned());
    }
    if told.invalid > 0 {
        lines.push(format!("besides {} in the index that are no session ids", told.invalid));
    }
    lines.extend(told.next.map(|next| format!("more: --after {next}")));
    Ok(lines.join("\n"))
}

pub(super) fn counted(answer: &[u8]) -> Result<String, String> {
    #[derive(Deserialize)]
    struct Counts {
        active: u64,
        disconnected: u64,
        orphans: u64,
        claimed: u64,
        dead: u64,
        lag_ms: u64,
        #[serde(default)]
        held_until_ms: Option<u64>,
    }
    let it: Counts = read(answer)?;
    let hold = it.held_until_ms.map(|at| format!("\nno lease ends before {}: a hold runs", moment(at)));
    let lag = if it.orphans > 0 { format!(", the first due for {}", time(it.lag_ms)) } else { String::new() };
    Ok(format!(
        "{} active\n{} disconnected, {} of them orphans{lag}\n{} claimed\n{} dead{}",
        it.active,
        it.disconnected,
        it.orphans,
        it.claimed,
        it.dead,
        hold.unwrap_or_default()
    ))
}

pub(super) fn spaces(answer: &[u8]) -> Result<String, String> {
    #[derive(Deserialize)]
    struct Spaces {
        spaces: Vec<Space>,
    }
    #[derive(Deserialize)]
    struct Space {
        space: String,
        grace_ms: u64,
        holder_lease_ms: u64,
        session_ttl_ms: u64,
        reap: String,
        max_sessions: u64,
        max_holders: u64,
    }
    let told: Spaces = read(answer)?;
    let lasts = |ms: u64| humantime::format_duration(Duration::from_millis(ms));
    let row = |it: &Space| {
        format!(
            "{}: up to {} sessions of up to {} holders, leases of {}, orphans after {}, resumed within {}, \
             reaped by {}",
            it.space,
            it.max_sessions,
            it.max_holders,
            lasts(it.holder_lease_ms),
            lasts(it.grace_ms),
            lasts(it.session_ttl_ms),
            it.reap
        )
    };
    Ok(told.spaces.iter().map(row).collect::<Vec<_>>().join("\n"))
}
