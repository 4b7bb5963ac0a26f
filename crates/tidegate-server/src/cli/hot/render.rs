//! What was answered about hot pages, for people.

use crate::api::Spaces;
use crate::api::hot as api;
use crate::api::hot_counts::Counted;
use crate::cli::{Rendered, lines, moment, plural, printable, time};

pub(super) fn edited(response: api::Edited) -> Rendered {
    let rendered = match response.outcome.as_str() {
        "remembered" => "remembered: the page is not hot yet",
        "promoted" => "promoted: the page is hot now",
        "added" => "added to the window of a hot page",
        "counted" => "counted: it is older than all edits of the page that are kept",
        "rejected" => "rejected: it would be hot, and as many are tracked as may be",
        "duplicate" => "duplicate: it has been recorded before",
        "too_late" => "too late: it is older than all that counts",
        "dropped" => "dropped: the store is away",
        "unknown" => "unknown: the store did not answer; sent again it counts once",
        other => other,
    };
    let replaced = response.replaced.map(|page| format!(", in the place of {}", printable(&page)));
    let hint = response.hint.map(|hint| format!("\nhint: {hint}"));
    let is_refusal = matches!(response.outcome.as_str(), "rejected" | "too_late" | "dropped" | "unknown");
    let text = format!("{rendered}{}{}", replaced.unwrap_or_default(), hint.unwrap_or_default());
    Rendered { text, is_refusal }
}

pub(super) fn counted(response: Counted) -> Rendered {
    let rendered = match response.outcome.as_str() {
        "remembered" => "remembered: the page is not hot yet",
        "promoted" => "promoted: the page is hot now",
        "counted" => "counted",
        "gathered" => "gathered: it is sent with others",
        "rejected" => "rejected: it would be hot, and as many are tracked as may be",
        "dropped" => "dropped: the store is away",
        "unknown" => "unknown: the store did not answer; sent again it may count twice",
        other => other,
    };
    let replaced = response.replaced.map(|page| format!(", in the place of {}", printable(&page)));
    let is_refusal = matches!(response.outcome.as_str(), "rejected" | "dropped" | "unknown");
    Rendered { text: format!("{rendered}{}", replaced.unwrap_or_default()), is_refusal }
}

pub(super) fn stats(api::Page { page, stats: response, .. }: api::Page) -> Rendered {
    let page = printable(&page);
    if !response.is_hot {
        return Rendered { text: format!("{page}: not hot"), is_refusal: true };
    }
    let [first, last] =
        [response.first_seen_ms, response.last_seen_ms].map(|ms| moment(ms.unwrap_or_default()));
    format!(
        "{page}: hot{}{}\n{} in the last {}, {} of them in the last 5 minutes, by {}\n{} since {first}, \
         the latest at {last} with {:+} bytes",
        if response.is_trending { ", trending" } else { "" },
        if response.is_spiking { ", spiking" } else { "" },
        plural(response.edits_last_hour, "edit"),
        time(response.covered_ms),
        response.edits_last_5_minutes,
        plural(response.unique_editors, "editor"),
        plural(response.total_edits, "edit"),
        response.last_byte_change,
    )
    .into()
}

pub(super) fn removed(response: api::Removed) -> Rendered {
    let page = printable(&response.page);
    match response.was.as_str() {
        "hot" => format!("{page}: forgotten; it was hot").into(),
        "remembered" => format!("{page}: forgotten; it was not hot").into(),
        _ => Rendered { text: format!("{page}: nothing was known of it"), is_refusal: true },
    }
}

pub(super) fn hottest(response: api::Pages) -> String {
    let mut text = ranking(response.count, response.window_ms, &response.pages);
    if let Some(next) = response.next {
        text += &format!("\nmore: --after '{}'", printable(&next));
    }
    text
}

/// Pages with their edits and the latest of them.
pub(super) fn ranking(count: u64, window_ms: u64, pages: &[api::Ranked]) -> String {
    let mut text = format!("{} hot in the last {}", plural(count, "page"), time(window_ms));
    if !pages.is_empty() {
        text += "\nedits  latest                    page";
    }
    for api::Ranked { page, edits, last_seen_ms, .. } in pages {
        text += &format!("\n{edits:>5}  {}  {}", moment(*last_seen_ms), printable(page));
    }
    text
}

pub(super) fn window(response: api::Window) -> String {
    if response.edits.is_empty() {
        return "no edits".to_owned();
    }
    let row = |it: &api::InWindow| {
        format!(
            "{}  {:+}  {}  {}",
            moment(it.at_ms),
            it.byte_change,
            printable(&it.id),
            printable(&it.editor)
        )
    };
    lines(response.edits.iter().map(row))
}

pub(super) fn cleaned(response: api::Cleaned) -> String {
    format!("{} dropped", plural(response.expired, "page"))
}

pub(super) fn spaces(response: Spaces<api::Space>) -> String {
    let row = |it: &api::Space| {
        let kept = match it.only_counts {
            true => "only counted".to_owned(),
            false => format!("of up to {} edits", it.max_members_per_page),
        };
        format!(
            "{}: up to {} pages {kept} in {}, hot from {}, trending from {}, when full {}",
            it.space,
            it.max_tracked,
            time(it.window_ms),
            it.hot_threshold,
            it.promotion_threshold,
            it.when_full
        )
    };
    lines(response.spaces.iter().map(row))
}
