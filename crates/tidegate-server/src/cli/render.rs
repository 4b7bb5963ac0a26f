//! Answers as text for people: what the commands of all parts have in common.

use std::io::{ErrorKind, Write as _};
use std::time::Duration;

use serde::de::DeserializeOwned;
use tidegate::clock::Timestamp;

use crate::http::ProblemBody;
use crate::moment;

/// A text, and whether the answer is no.
pub(super) struct Rendered {
    pub(super) text: String,
    pub(super) is_refusal: bool,
}

impl From<String> for Rendered {
    fn from(text: String) -> Self {
        Self { text, is_refusal: false }
    }
}

/// A line for each.
pub(super) fn lines(rows: impl Iterator<Item = String>) -> String {
    rows.collect::<Vec<_>>().join("\n")
}

/// The lines of a page, or that there are none, and where it goes on.
pub(super) fn page(mut lines: Vec<String>, none: &str, next: Option<String>) -> String {
    if lines.is_empty() && next.is_none() {
        lines.push(none.to_owned());
    }
    lines.extend(next.map(|next| format!("more: --cursor {next}")));
    lines.join("\n")
}

pub(super) fn print(text: &str) -> Result<(), String> {
    let mut out = std::io::stdout().lock();
    match writeln!(out, "{text}").and_then(|()| out.flush()) {
        // Whoever reads it has read enough.
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        printed => printed.map_err(|error| format!("cannot write the answer: {error}")),
    }
}

/// A problem of ours.
pub(super) fn problem(answer: &[u8]) -> Option<ProblemBody> {
    serde_json::from_slice(answer).ok()
}

pub(super) fn read<T: DeserializeOwned>(answer: &[u8]) -> Result<T, String> {
    serde_json::from_slice(answer).map_err(|error| format!("an answer that is none of ours: {error}"))
}

/// Somebody else's text must not move the cursor of a terminal, nor turn the direction of
/// what is written: such characters are escaped, and can still be told apart.
pub(super) fn printable(text: &str) -> String {
    let is_hidden = |c: char| {
        c.is_control()
            || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
    };
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        match is_hidden(c) {
            true => shown.extend(c.escape_debug()),
            false => shown.push(c),
        }
    }
    shown
}

pub(super) fn moment(ms: u64) -> String {
    moment::shown(Timestamp::from_millis(ms))
}

pub(super) fn time(ms: u64) -> humantime::FormattedDuration {
    humantime::format_duration(Duration::from_millis(ms))
}

pub(super) fn plural(count: u64, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

pub(super) fn bytes(bytes: u64) -> String {
    let units = [(30, "GiB"), (20, "MiB"), (10, "KiB")];
    match units.into_iter().find(|(bits, _)| bytes >> bits > 0) {
        Some((bits, unit)) => format!("{:.1} {unit}", bytes as f64 / (1_u64 << bits) as f64),
        None => format!("{bytes} B"),
    }
}
