//! What is answered about hot pages.

use std::collections::BTreeMap;

use serde::Serialize;
use tidegate::hot::{Edit, EditRef, Event, Hot, HotPage, Recorded, Stats, WhenFull};

use crate::moment;

/// What became of one edit.
#[derive(Debug, Serialize)]
pub(super) struct Edited<'a> {
    space: &'a str,
    page: &'a str,
    id: &'a str,
    outcome: &'static str,
    /// The page that had to leave, if one had to.
    #[serde(skip_serializing_if = "Option::is_none")]
    replaced: Option<&'a str>,
    /// What may be wrong with one that was too late.
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<String>,
}

impl<'a> Edited<'a> {
    pub(super) fn new(space: &'a str, edit: &Edit<'a>, recorded: &'a Recorded) -> Self {
        let replaced = match recorded {
            Recorded::Promoted { replaced } => replaced.as_deref(),
            _ => None,
        };
        let is_late = *recorded == Recorded::TooLate;
        let hint = edit.at.filter(|_| is_late).and_then(moment::seconds_hint);
        let hint = hint.map(|hint| format!("`at`: {hint}"));
        Self { space, page: edit.page.as_str(), id: edit.id, outcome: recorded.as_str(), replaced, hint }
    }
}

/// What is known of a page.
#[derive(Debug, Serialize)]
pub(super) struct PageStats {
    is_hot: bool,
    is_trending: bool,
    is_spiking: bool,
    edits_last_hour: u64,
    edits_last_5_minutes: u64,
    covered_ms: u64,
    unique_editors: u64,
    last_byte_change: i64,
    total_edits: u64,
    /// `null` if it is not hot.
    first_seen_ms: Option<u64>,
    last_seen_ms: Option<u64>,
}

impl From<&Stats> for PageStats {
    fn from(stats: &Stats) -> Self {
        Self {
            is_hot: stats.is_hot,
            is_trending: stats.is_trending,
            is_spiking: stats.is_spiking,
            edits_last_hour: stats.edits_last_hour,
            edits_last_5_minutes: stats.edits_last_5_minutes,
            covered_ms: stats.covered_ms,
            unique_editors: stats.unique_editors,
            last_byte_change: stats.last_byte_change,
            total_edits: stats.total_edits,
            first_seen_ms: stats.is_hot.then(|| stats.first_seen.as_millis()),
            last_seen_ms: stats.is_hot.then(|| stats.last_seen.as_millis()),
        }
    }
}

/// The same, with whose.
#[derive(Debug, Serialize)]
pub(super) struct OnePage<'a> {
    pub(super) space: &'a str,
    pub(super) page: &'a str,
    #[serde(flatten)]
    pub(super) stats: PageStats,
}

/// A page that is forgotten.
#[derive(Debug, Serialize)]
pub(super) struct RemovedPage<'a> {
    pub(super) space: &'a str,
    pub(super) page: &'a str,
    /// What it had been.
    pub(super) was: &'static str,
}

/// The hottest pages.
#[derive(Debug, Serialize)]
pub(super) struct Hottest<'a> {
    pub(super) space: &'a str,
    /// How many are hot, told or not.
    pub(super) count: u64,
    pub(super) window_ms: u64,
    pub(super) pages: Vec<Ranked>,
    /// Where the next page begins; `null` if there is none.
    pub(super) next: Option<String>,
}

/// The place behind `page`.
pub(super) fn next(page: &HotPage) -> String {
    format!("{}:{}:{}", page.edits, page.last_seen.as_millis(), page.page)
}

#[derive(Debug, Serialize)]
pub(super) struct Ranked {
    page: String,
    edits: u64,
    last_seen_ms: u64,
    /// If they were asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    stats: Option<PageStats>,
}

impl Ranked {
    pub(super) fn new(page: HotPage, stats: Option<&Stats>) -> Self {
        let HotPage { page, edits, last_seen } = page;
        Self { page, edits, last_seen_ms: last_seen.as_millis(), stats: stats.map(Into::into) }
    }
}

/// The edits in a window.
#[derive(Debug, Serialize)]
pub(super) struct Window<'a> {
    pub(super) space: &'a str,
    pub(super) page: &'a str,
    pub(super) edits: Vec<InWindow>,
}

#[derive(Debug, Serialize)]
pub(super) struct InWindow {
    id: String,
    at_ms: u64,
    editor: String,
    byte_change: i64,
}

impl From<EditRef> for InWindow {
    fn from(edit: EditRef) -> Self {
        let EditRef { id, at, editor, byte_change } = edit;
        Self { id, at_ms: at.as_millis(), editor, byte_change }
    }
}

/// What a cleanup did.
#[derive(Debug, Serialize)]
pub(super) struct Cleaned<'a> {
    pub(super) space: &'a str,
    pub(super) expired: u64,
}

/// What happened, as the data of an event.
#[derive(Debug, Serialize)]
pub(super) struct Happened<'a> {
    space: &'a str,
    kind: &'static str,
    page: &'a str,
    edits: u64,
    at_ms: u64,
    cursor: &'a str,
}

impl<'a> Happened<'a> {
    pub(super) fn new(space: &'a str, event: &'a Event) -> Self {
        let Event { cursor, kind, page, edits, at } = event;
        Self { space, kind: kind.as_str(), page, edits: *edits, at_ms: at.as_millis(), cursor }
    }
}

/// The spaces and what they are bounded by.
#[derive(Debug, Serialize)]
pub(super) struct Spaces<'a> {
    spaces: Vec<Space<'a>>,
}

#[derive(Debug, Serialize)]
struct Space<'a> {
    space: &'a str,
    max_tracked: usize,
    promotion_threshold: u32,
    window_ms: u64,
    max_members_per_page: usize,
    hot_threshold: u32,
    cleanup_interval_ms: u64,
    when_full: &'static str,
    spike_ratio: f64,
    spike_minimum: u32,
    max_activity: usize,
    max_bytes: usize,
    partitions: u32,
}

impl<'a> Spaces<'a> {
    pub(super) fn of(spaces: &'a BTreeMap<String, Hot>) -> Self {
        Self { spaces: spaces.iter().map(|(name, hot)| Space::new(name, hot)).collect() }
    }
}

impl<'a> Space<'a> {
    fn new(space: &'a str, hot: &Hot) -> Self {
        let options = hot.options();
        Self {
            space,
            max_tracked: options.max_tracked,
            promotion_threshold: options.promotion_threshold,
            window_ms: window_ms(hot),
            max_members_per_page: options.max_members_per_page,
            hot_threshold: options.hot_threshold,
            cleanup_interval_ms: options.cleanup_interval.as_secs() * 1000,
            when_full: match options.when_full {
                WhenFull::ReplaceColdest => "replace_coldest",
                _ => "reject",
            },
            spike_ratio: options.spike_ratio,
            spike_minimum: options.spike_minimum,
            max_activity: options.max_activity,
            max_bytes: options.max_bytes,
            partitions: options.partitions,
        }
    }
}

pub(super) fn window_ms(hot: &Hot) -> u64 {
    // At most seven days of them.
    hot.options().window_duration.as_millis() as u64
}
