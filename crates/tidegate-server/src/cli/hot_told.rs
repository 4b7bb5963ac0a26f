//! What was answered about hot pages, for people.

use std::time::Duration;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use tidegate::clock::Timestamp;

use crate::moment;

/// A text, and whether the answer is no.
pub(super) struct Said {
    pub(super) text: String,
    pub(super) is_no: bool,
}

impl Said {
    fn yes(text: String) -> Self {
        Self { text, is_no: false }
    }
}

/// What is wrong, if it is a problem of ours.
pub(super) fn detail(answer: &[u8]) -> Option<String> {
    #[derive(Deserialize)]
    struct Problem {
        detail: String,
    }
    serde_json::from_slice::<Problem>(answer).ok().map(|problem| problem.detail)
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

pub(super) fn edited(answer: &[u8]) -> Result<Said, String> {
    #[derive(Deserialize)]
    struct Edited {
        outcome: String,
        replaced: Option<String>,
        hint: Option<String>,
    }
    let told: Edited = read(answer)?;
    let said = match told.outcome.as_str() {
        "remembered" => "remembered: the page is not hot yet",
        "promoted" => "promoted: the page is hot now",
        "added" => "added to the window of a hot page",
        "rejected" => "rejected: it would be hot, and as many are tracked as may be",
        "duplicate" => "duplicate: it has been recorded before",
        "too_late" => "too late: it is older than all that counts",
        "dropped" => "dropped: the store is away",
        "unknown" => "unknown: the store did not answer; sent again it counts once",
        other => other,
    };
    let replaced = told.replaced.map(|page| format!(", in the place of {}", printable(&page)));
    let hint = told.hint.map(|hint| format!("\nhint: {hint}"));
    let is_no = matches!(told.outcome.as_str(), "rejected" | "too_late" | "dropped" | "unknown");
    Ok(Said { text: format!("{said}{}{}", replaced.unwrap_or_default(), hint.unwrap_or_default()), is_no })
}

/// What is known of a page.
#[derive(Deserialize)]
pub(super) struct Stats {
    #[serde(default)]
    page: String,
    is_hot: bool,
    pub(super) is_trending: bool,
    pub(super) is_spiking: bool,
    edits_last_hour: u64,
    pub(super) edits_last_5_minutes: u64,
    covered_ms: u64,
    pub(super) unique_editors: u64,
    last_byte_change: i64,
    total_edits: u64,
    first_seen_ms: Option<u64>,
    last_seen_ms: Option<u64>,
}

pub(super) fn stats(answer: &[u8]) -> Result<Said, String> {
    let told: Stats = read(answer)?;
    let page = printable(&told.page);
    if !told.is_hot {
        return Ok(Said { text: format!("{page}: not hot"), is_no: true });
    }
    let [first, last] = [told.first_seen_ms, told.last_seen_ms].map(|ms| moment(ms.unwrap_or_default()));
    Ok(Said::yes(format!(
        "{page}: hot{}{}\n{} in the last {}, {} of them in the last 5 minutes, by {}\n{} since {first}, \
         the latest at {last} with {:+} bytes",
        if told.is_trending { ", trending" } else { "" },
        if told.is_spiking { ", spiking" } else { "" },
        plural(told.edits_last_hour, "edit"),
        time(told.covered_ms),
        told.edits_last_5_minutes,
        plural(told.unique_editors, "editor"),
        plural(told.total_edits, "edit"),
        told.last_byte_change,
    )))
}

pub(super) fn removed(answer: &[u8]) -> Result<Said, String> {
    #[derive(Deserialize)]
    struct Removed {
        page: String,
        was: String,
    }
    let told: Removed = read(answer)?;
    let page = printable(&told.page);
    Ok(match told.was.as_str() {
        "hot" => Said::yes(format!("{page}: forgotten; it was hot")),
        "remembered" => Said::yes(format!("{page}: forgotten; it was not hot")),
        _ => Said { text: format!("{page}: nothing was known of it"), is_no: true },
    })
}

/// The hottest pages.
#[derive(Deserialize)]
pub(super) struct Hottest {
    pub(super) space: String,
    pub(super) count: u64,
    pub(super) window_ms: u64,
    pub(super) pages: Vec<Ranked>,
    next: Option<String>,
}

#[derive(Deserialize)]
pub(super) struct Ranked {
    pub(super) page: String,
    pub(super) edits: u64,
    pub(super) last_seen_ms: u64,
    pub(super) stats: Option<Stats>,
}

pub(super) fn hottest(answer: &[u8]) -> Result<Said, String> {
    let told: Hottest = read(answer)?;
    let rows = told.pages.iter().map(|it| (it.page.as_str(), it.edits, it.last_seen_ms));
    let mut text = ranking(told.count, told.window_ms, rows);
    if let Some(next) = told.next {
        text += &format!("\nmore: --after '{}'", printable(&next));
    }
    Ok(Said::yes(text))
}

/// Pages with their edits and the latest of them.
pub(super) fn ranking<'a>(
    count: u64,
    window_ms: u64,
    rows: impl Iterator<Item = (&'a str, u64, u64)>,
) -> String {
    let mut text = format!("{} hot in the last {}", plural(count, "page"), time(window_ms));
    for (index, (page, edits, last_ms)) in rows.enumerate() {
        if index == 0 {
            text += "\nedits  latest                    page";
        }
        text += &format!("\n{edits:>5}  {}  {}", moment(last_ms), printable(page));
    }
    text
}

pub(super) fn window(answer: &[u8]) -> Result<Said, String> {
    #[derive(Deserialize)]
    struct Window {
        edits: Vec<Edit>,
    }
    #[derive(Deserialize)]
    struct Edit {
        id: String,
        at_ms: u64,
        editor: String,
        byte_change: i64,
    }
    let told: Window = read(answer)?;
    if told.edits.is_empty() {
        return Ok(Said::yes("no edits".to_owned()));
    }
    let row = |it: &Edit| {
        format!(
            "{}  {:+}  {}  {}",
            moment(it.at_ms),
            it.byte_change,
            printable(&it.id),
            printable(&it.editor)
        )
    };
    Ok(Said::yes(told.edits.iter().map(row).collect::<Vec<_>>().join("\n")))
}

pub(super) fn cleaned(answer: &[u8]) -> Result<Said, String> {
    #[derive(Deserialize)]
    struct Cleaned {
        expired: u64,
    }
    let told: Cleaned = read(answer)?;
    Ok(Said::yes(format!("{} dropped", plural(told.expired, "page"))))
}

/// A space and what it is bounded by.
#[derive(Deserialize)]
pub(super) struct SpaceRow {
    pub(super) space: String,
    pub(super) max_tracked: u64,
    window_ms: u64,
    hot_threshold: u64,
    promotion_threshold: u64,
    max_members_per_page: u64,
    when_full: String,
}

#[derive(Deserialize)]
pub(super) struct Spaces {
    pub(super) spaces: Vec<SpaceRow>,
}

pub(super) fn spaces(answer: &[u8]) -> Result<Said, String> {
    let told: Spaces = read(answer)?;
    let row = |it: &SpaceRow| {
        format!(
            "{}: up to {} pages of up to {} edits in {}, hot from {}, trending from {}, when full {}",
            it.space,
            it.max_tracked,
            it.max_members_per_page,
            time(it.window_ms),
            it.hot_threshold,
            it.promotion_threshold,
            it.when_full
        )
    };
    Ok(Said::yes(told.spaces.iter().map(row).collect::<Vec<_>>().join("\n")))
}
