//! What was answered about redirects, for people.

use console::measure_text_width;

use crate::api::edge::{Cache, Explained};
use crate::cli::render::bytes;
use crate::cli::{Rendered, printable};

/// The cache's report, in a box.
pub(super) fn report(it: &Cache) -> String {
    let progress = &it.progress;
    let mut state = vec![
        ("items", grouped(it.items)),
        ("of folders", grouped(it.folders)),
        ("memory", format!("{} of {}", bytes(it.bytes), bytes(it.max_bytes))),
        ("usage", format!("{:.1} %", it.usage * 100.0)),
        ("rules", grouped(progress.rules)),
        ("lag", grouped(progress.lag)),
    ];
    let is_there = if progress.connected { "connected" } else { "away" };
    let age =
        progress.age_ms.map_or_else(String::new, |ms| format!(", heard of {:.1} s ago", ms as f64 / 1000.0));
    let loaded = if progress.loaded { "" } else { ", not all read yet" };
    state.push(("origin", format!("{is_there}{age}{loaded}")));
    if let Some(reason) = &progress.reason {
        state.push(("because", printable(reason)));
    }
    let evictions = vec![
        ("rounds", grouped(it.evictions)),
        ("items", grouped(it.items_evicted)),
        ("peak", bytes(it.peak_bytes)),
        ("last", it.last_eviction.as_deref().map_or("never".to_owned(), printable)),
    ];
    let title = format!("cache of {}", printable(&it.worker));
    boxed(&title, &[("state", state), ("evictions", evictions)])
}

/// Groups of rows in a box.
fn boxed(title: &str, groups: &[(&str, Vec<(&str, String)>)]) -> String {
    let rows: Vec<Vec<String>> = groups
        .iter()
        .map(|(group, rows)| {
            let row = |(number, (name, value)): (usize, &(&str, String))| {
                let group = if number == 0 { group } else { "" };
                format!("{group:<10} {name:<11} {value}")
            };
            rows.iter().enumerate().map(row).collect()
        })
        .collect();
    let widest = rows.iter().flatten().map(|row| measure_text_width(row)).max().unwrap_or_default();
    let width = widest.max(measure_text_width(title) + 1);
    let line = |row: &String| {
        let missing = width.saturating_sub(measure_text_width(row));
        format!("│ {row}{} │", " ".repeat(missing))
    };
    let top = "─".repeat(width.saturating_sub(measure_text_width(title) + 1));
    let mut lines = vec![format!("┌─ {title} {top}┐")];
    for (number, rows) in rows.iter().enumerate() {
        if number > 0 {
            lines.push(format!("├{}┤", "─".repeat(width + 2)));
        }
        lines.extend(rows.iter().map(line));
    }
    lines.push(format!("└{}┘", "─".repeat(width + 2)));
    lines.join("\n")
}

/// `142,567`.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut grouped = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

pub(super) fn explained(it: &Explained) -> Rendered {
    let answer = &it.answer;
    let sent = match &answer.location {
        Some(location) => format!("{} to {}", answer.status, printable(location)),
        None => answer.status.to_string(),
    };
    let of = it.rule.as_ref().map_or_else(String::new, |rule| format!(" by {}", printable(rule)));
    let mut lines = vec![format!("{}{}: {sent}{of}", printable(&it.host), printable(&it.path))];
    if let Some(value) = &answer.cache_control {
        lines.push(format!("cache-control: {}", printable(value)));
    }
    lines.extend(it.steps.iter().map(|step| format!("- {}", printable(step))));
    lines.push(format!("from: {}", printable(&it.source)));
    Rendered { text: lines.join("\n"), is_refusal: answer.location.is_none() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped() {
        for (number, expected) in
            [(0, "0"), (999, "999"), (1000, "1,000"), (142_567, "142,567"), (1_000_000, "1,000,000")]
        {
            assert_eq!(grouped(number), expected);
        }
    }

    #[test]
    fn a_box_fits_what_is_in_it() {
        let text = boxed(
            "ä",
            &[
                ("state", vec![("items", "1".to_owned()), ("of folders", "0".to_owned())]),
                ("x", vec![("y", "z".to_owned())]),
            ],
        );
        assert_eq!(
            text,
            "┌─ ä ──────────────────────┐\n\
             │ state      items       1 │\n\
             │            of folders  0 │\n\
             ├──────────────────────────┤\n\
             │ x          y           z │\n\
             └──────────────────────────┘"
        );
    }
}
