//! What was answered about rules, for people.

use console::measure_text_width;
use serde::Deserialize;
use tidegate::clock::SystemClock;
use tidegate_edge::rule::{Query, Rule};

use crate::api::rule::{Changed, Position, Resolved};
use crate::api::rule_import::Report;
use crate::cli::{Rendered, moment, page, plural, printable};

/// A page, with rules that know how they are doing.
#[derive(Debug, Deserialize)]
pub(super) struct Listed {
    pub(super) rules: Vec<Rule>,
    pub(super) next: Option<String>,
}

fn now_ms() -> u64 {
    SystemClock::new().now().as_millis()
}

/// A rule that was added.
pub(super) fn made(it: Changed) -> String {
    told(if it.seq.is_some() { "made" } else { "as before" }, it)
}

/// A rule that was there.
pub(super) fn changed(it: Changed) -> String {
    told(if it.seq.is_some() { "changed" } else { "as before" }, it)
}

fn told(how: &str, it: Changed) -> String {
    let rule = &it.rule;
    let from = printable(&format!("{}{}", rule.host, rule.path));
    let (id, to) = (printable(&rule.id), printable(&rule.destination));
    let mut lines = vec![format!("{how}: {id}, version {}: {from} to {to}", rule.version)];
    lines.extend(it.warnings.iter().map(|warning| format!("warning: {warning}")));
    lines.join("\n")
}

pub(super) fn card(it: Rule) -> String {
    let state = it.state(now_ms()).as_str();
    let terms = &it.terms;
    let mut lines = vec![format!("{}: {state}, version {}", printable(&it.id), it.version)];
    let mut row = |name: &str, value: String| lines.push(format!("{name:<9} {}", printable(&value)));
    row("for", format!("{}{}", terms.host, terms.path));
    row("to", terms.destination.clone());
    row("as", as_what(&it));
    if let Some(at) = terms.starts_at {
        row("from", moment(at));
    }
    if let Some(at) = terms.expires_at {
        row("until", moment(at));
    }
    row("clicks", terms.max_clicks.map_or(it.clicks.to_string(), |most| format!("{} of {most}", it.clicks)));
    if let Some(fallback) = &terms.fallback {
        row("then to", fallback.clone());
    }
    if !terms.tags.is_empty() {
        row("tags", terms.tags.join(", "));
    }
    if !terms.note.is_empty() {
        row("note", terms.note.clone());
    }
    row("made", moment(it.created_at));
    row("changed", moment(it.updated_at));
    lines.join("\n")
}

/// How it redirects.
fn as_what(it: &Rule) -> String {
    let terms = &it.terms;
    let sent = if terms.can_end() { terms.code.temporary() } else { terms.code };
    let mut what = vec![sent.as_u16().to_string()];
    what.extend(terms.append_rest.then(|| "the rest appended".to_owned()));
    match terms.query {
        Query::Off => {}
        Query::Append => what.push("the query appended".to_owned()),
        Query::Merge => what.push("the query merged".to_owned()),
    }
    what.extend(terms.max_age.map(|seconds| format!("remembered for {seconds} s")));
    what.join(", ")
}

pub(super) fn listed(it: Listed) -> String {
    let now_ms = now_ms();
    let row = |rule: &Rule| {
        let terms = &rule.terms;
        let from = format!("{}{}", terms.host, terms.path);
        let state = rule.state(now_ms).as_str().to_owned();
        [printable(&rule.id), state, printable(&from), printable(&terms.destination)]
    };
    page(table(it.rules.iter().map(row).collect()), "none", it.next)
}

/// Rows whose columns stand below each other, with their names above.
fn table(rows: Vec<[String; 4]>) -> Vec<String> {
    if rows.is_empty() {
        return Vec::new();
    }
    let head = ["ID", "STATE", "FOR", "TO"].map(str::to_owned);
    let rows: Vec<_> = std::iter::once(head).chain(rows).collect();
    let widths: Vec<usize> = (0..3)
        .map(|column| rows.iter().map(|row| measure_text_width(&row[column])).max().unwrap_or_default())
        .collect();
    let line = |row: &[String; 4]| {
        let [first @ .., last] = row;
        let padded = first.iter().zip(&widths).map(|(text, width)| {
            let missing = width.saturating_sub(measure_text_width(text));
            format!("{text}{}  ", " ".repeat(missing))
        });
        padded.chain([last.clone()]).collect::<String>()
    };
    rows.iter().map(line).collect()
}

pub(super) fn resolved(it: Resolved) -> Rendered {
    let Some((rule, answer)) = it.rule.zip(it.answer) else {
        let text = format!("no rule is for {}{}", printable(&it.host), printable(&it.path));
        return Rendered { text, is_refusal: true };
    };
    let to = match answer.location {
        Some(location) => format!("{} to {}", answer.status, printable(&location)),
        None => format!("{}, it has ended", answer.status),
    };
    let from = printable(&format!("{}{}", rule.host, rule.path));
    format!("{}, version {}, for {from}: {to}", printable(&rule.id), rule.version).into()
}

pub(super) fn begun(it: Position) -> String {
    format!("a new epoch: {} at change {}, {}", printable(&it.epoch), it.seq, plural(it.count, "rule"))
}

/// What became of an import, and whether that is, or would be, nothing.
pub(super) fn imported(it: &Report, is_partial: bool) -> Rendered {
    let Report { created, changed, unchanged, deleted, .. } = it;
    let counts = format!("{created} created, {changed} changed, {unchanged} unchanged, {deleted} deleted");
    let problems = plural(it.problems.count, "problem");
    let has_problems = it.problems.count > 0;
    let left_out = if has_problems { format!(", {problems} left out") } else { String::new() };
    let is_refusal = has_problems && !is_partial;
    let text = match (&*it.outcome, it.seq) {
        ("written", Some(seq)) => format!("imported as change {seq}: {counts}{left_out}"),
        ("unchanged", _) => format!("nothing to change: {unchanged} unchanged{left_out}"),
        ("dry_run", _) if is_refusal => format!("it would be refused: {problems} in {}", lines_of(it)),
        ("dry_run", _) => format!("it would be: {counts}{left_out}"),
        _ => format!("refused, and nothing was written: {problems} in {}", lines_of(it)),
    };
    Rendered { text, is_refusal }
}

fn lines_of(it: &Report) -> String {
    plural(it.lines, "line")
}
