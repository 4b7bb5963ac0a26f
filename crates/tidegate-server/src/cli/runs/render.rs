//! What was answered about runs, for people.

use crate::api::{Spaces, run as api, run_items as items, run_quota as quota};
use crate::cli::{lines, moment, page, plural, printable, time};

pub(super) fn started(it: api::Changed) -> String {
    let how = if it.is_new { "started" } else { "under way" };
    format!("{how}: {}, attempt {}", it.state, it.attempt)
}

pub(super) fn finished(it: api::Changed) -> String {
    let before = if it.is_new { "" } else { ", as before" };
    format!("{}, attempt {}{before}", it.state, it.attempt)
}

pub(super) fn status(it: api::One) -> String {
    it.state
}

pub(super) fn updated(it: api::Updated) -> String {
    format!("{}, attempt {}, kept until {}", it.state, it.attempt, moment(it.ends_at_ms))
}

pub(super) fn expires(it: api::Expires) -> String {
    format!("kept until {}", moment(it.ends_at_ms))
}

pub(super) fn cleaned(it: api::Cleaned) -> String {
    format!("{} removed", plural(it.removed, "run"))
}

pub(super) fn task_started(it: items::TaskStarted) -> String {
    let how = if it.is_new { "started" } else { "under way since" };
    format!("{how} {}", moment(it.started_at_ms))
}

pub(super) fn task_finished(it: items::TaskFinished) -> String {
    format!("took {}", time(it.duration_ms))
}

pub(super) fn listed(it: api::Page) -> String {
    let row = |it: &api::InList| {
        let attempt = if it.attempt > 1 { format!(", attempt {}", it.attempt) } else { String::new() };
        let ended = it.finished_at_ms.map(|at| format!(", ended {}", moment(at))).unwrap_or_default();
        format!("{}  {}{attempt}, started {}{ended}", printable(&it.run), it.state, moment(it.started_at_ms))
    };
    page(it.runs.iter().map(row).collect(), "none", it.next)
}

pub(super) fn failures(it: items::Failures) -> String {
    page(it.failures.iter().map(failure).collect(), "none", it.next)
}

/// A line about an item that failed.
pub(super) fn failure(it: &items::Failure) -> String {
    let since = if it.to_retry { "" } else { ", processed since" };
    let times = if it.count > 1 { format!(", {} times", it.count) } else { String::new() };
    format!("{}  {}{times}{since}  {}", printable(&it.item), moment(it.last_at_ms), printable(&it.reason))
}

pub(super) fn quota(it: quota::Quota) -> String {
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
    lines.join("\n")
}

pub(super) fn charged(it: quota::Charged) -> String {
    let before = if it.is_new { "" } else { " before" };
    format!("charged{before}, {} left", it.remaining)
}

pub(super) fn released(it: quota::Released) -> String {
    if it.is_new { "released" } else { "released before" }.to_owned()
}

pub(super) fn spaces(response: Spaces<api::Space>) -> String {
    let row = |it: &api::Space| {
        format!(
            "{}: up to {} runs of up to {} items, kept for {} after the last update, keys under {}",
            it.space,
            it.max_runs,
            it.max_processed,
            time(it.state_ttl_ms),
            printable(&it.prefix)
        )
    };
    lines(response.spaces.iter().map(row))
}
