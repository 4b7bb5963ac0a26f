//! What was answered about runs, for people.

use std::time::Duration;

use crate::api::{run as api, run_items as items, run_quota as quota};
use crate::cli::render::{Rendered, moment, plural, printable, read, time};

pub(super) fn started(answer: &[u8]) -> Result<Rendered, String> {
    let it: api::Changed = read(answer)?;
    let how = if it.is_new { "started" } else { "under way" };
    Ok(Rendered::yes(format!("{how}: {}, attempt {}", it.state, it.attempt)))
}

pub(super) fn finished(answer: &[u8]) -> Result<Rendered, String> {
    let it: api::Changed = read(answer)?;
    let before = if it.is_new { "" } else { ", as before" };
    Ok(Rendered::yes(format!("{}, attempt {}{before}", it.state, it.attempt)))
}

pub(super) fn status(answer: &[u8]) -> Result<Rendered, String> {
    let it: api::One = read(answer)?;
    Ok(Rendered::yes(it.state))
}

pub(super) fn updated(answer: &[u8]) -> Result<Rendered, String> {
    let it: api::Updated = read(answer)?;
    Ok(Rendered::yes(format!("{}, attempt {}, kept until {}", it.state, it.attempt, moment(it.ends_at_ms))))
}

pub(super) fn expires(answer: &[u8]) -> Result<Rendered, String> {
    let it: api::Expires = read(answer)?;
    Ok(Rendered::yes(format!("kept until {}", moment(it.ends_at_ms))))
}

pub(super) fn cleaned(answer: &[u8]) -> Result<Rendered, String> {
    let it: api::Cleaned = read(answer)?;
    Ok(Rendered::yes(format!("{} removed", plural(it.removed, "run"))))
}

pub(super) fn task_started(answer: &[u8]) -> Result<Rendered, String> {
    let it: items::TaskStarted = read(answer)?;
    let how = if it.is_new { "started" } else { "under way since" };
    Ok(Rendered::yes(format!("{how} {}", moment(it.started_at_ms))))
}

pub(super) fn task_finished(answer: &[u8]) -> Result<Rendered, String> {
    let it: items::TaskFinished = read(answer)?;
    Ok(Rendered::yes(format!("took {}", time(it.duration_ms))))
}

pub(super) fn listed(answer: &[u8]) -> Result<Rendered, String> {
    let page: api::Page = read(answer)?;
    let row = |it: &api::InList| {
        let attempt = if it.attempt > 1 { format!(", attempt {}", it.attempt) } else { String::new() };
        let ended = it.finished_at_ms.map(|at| format!(", ended {}", moment(at))).unwrap_or_default();
        format!("{}  {}{attempt}, started {}{ended}", printable(&it.run), it.state, moment(it.started_at_ms))
    };
    Ok(paged(page.runs.iter().map(row).collect(), page.next))
}

pub(super) fn failures(answer: &[u8]) -> Result<Rendered, String> {
    let page: items::Failures = read(answer)?;
    Ok(paged(page.failures.iter().map(failure).collect(), page.next))
}

/// A line about an item that failed.
pub(super) fn failure(it: &items::Failure) -> String {
    let since = if it.to_retry { "" } else { ", processed since" };
    let times = if it.count > 1 { format!(", {} times", it.count) } else { String::new() };
    format!("{}  {}{times}{since}  {}", printable(&it.item), moment(it.last_at_ms), printable(&it.reason))
}

fn paged(mut lines: Vec<String>, next: Option<String>) -> Rendered {
    if lines.is_empty() && next.is_none() {
        lines.push("none".to_owned());
    }
    lines.extend(next.map(|next| format!("more: --cursor {next}")));
    Rendered::yes(lines.join("\n"))
}

pub(super) fn quota(answer: &[u8]) -> Result<Rendered, String> {
    let it: quota::Quota = read(answer)?;
    let mut lines = vec![format!(
        "{}: {} left of {} per hour ({} are never used), counted {}",
        printable(&it.prefix),
        it.remaining,
        it.limit,
        it.safety_buffer,
        it.kind
    )];
    let uses =
        [("this hour", &it.aligned, "the next in"), ("the last 60 minutes", &it.sliding, "all free in")];
    for (what, used, when) in uses {
        lines.extend(used.as_ref().map(|used| {
            let left = time(used.resets_in_ms.next_multiple_of(1000));
            format!("{what}: {} of {} used, {when} {left}", used.used, used.capacity)
        }));
    }
    for hour in &it.hours {
        let most = hour.most_aligned.max(hour.most_sliding).unwrap_or_default();
        let mark = if it.peak_hour.as_ref() == Some(&hour.hour) { "  most" } else { "" };
        lines.push(format!("  {}  {most}{mark}", hour.hour));
    }
    Ok(Rendered::yes(lines.join("\n")))
}

pub(super) fn charged(answer: &[u8]) -> Result<Rendered, String> {
    let it: quota::Charged = read(answer)?;
    let before = if it.is_new { "" } else { " before" };
    Ok(Rendered::yes(format!("charged{before}, {} left", it.remaining)))
}

pub(super) fn released(answer: &[u8]) -> Result<Rendered, String> {
    let it: quota::Released = read(answer)?;
    Ok(Rendered::yes(if it.is_new { "released" } else { "released before" }.to_owned()))
}

pub(super) fn spaces(answer: &[u8]) -> Result<Rendered, String> {
    let response: api::Spaces = read(answer)?;
    let lasts = |ms: u64| humantime::format_duration(Duration::from_millis(ms));
    let row = |it: &api::Space| {
        format!(
            "{}: up to {} runs of up to {} items, kept for {} after the last update, keys under {}",
            it.space,
            it.max_runs,
            it.max_processed,
            lasts(it.state_ttl_ms),
            printable(&it.prefix)
        )
    };
    Ok(Rendered::yes(response.spaces.iter().map(row).collect::<Vec<_>>().join("\n")))
}
