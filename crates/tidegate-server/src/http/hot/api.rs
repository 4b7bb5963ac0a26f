//! What is said about hot pages. An edit that was read is checked by its method: nothing
//! behind it checks again.

use std::borrow::Cow;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tidegate::hot::{self, EditRef, Hot, HotOptions, HotPage, MAX_BYTE_CHANGE, Recorded, WhenFull};
use tidegate::{Key, Result};

use crate::api::{RequestBody, ms, pattern, response, whole};
use crate::moment::{self, Moment};
use crate::outcomes::Outcomes;

/// One edit, in a body of its own or a line of many.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "an object with page, id, editor, byte_change and at")]
pub(crate) struct Edit<'a> {
    #[serde(borrow)]
    #[schemars(length(min = 1, max = 255))]
    pub(crate) page: Cow<'a, str>,
    /// Sent again it counts once.
    #[serde(borrow)]
    #[schemars(length(min = 1, max = 255), extend("pattern" = pattern::NO_NUL))]
    pub(crate) id: Cow<'a, str>,
    #[serde(default, borrow, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 255), extend("pattern" = pattern::NO_NUL))]
    pub(crate) editor: Option<Cow<'a, str>>,
    #[serde(default, deserialize_with = "whole::optional", skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = -MAX_BYTE_CHANGE, max = MAX_BYTE_CHANGE))]
    pub(crate) byte_change: Option<i64>,
    /// When it was made; now unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) at: Option<Moment>,
}

impl RequestBody for Edit<'static> {
    type Read<'a> = Edit<'a>;
    const TYPES: &'static str = "application/json is, and application/x-ndjson for an edit per line";
}

impl<'a> Edit<'a> {
    pub(crate) fn edit(&self) -> Result<hot::Edit<'_>> {
        let edit = hot::Edit {
            page: Key::new(&self.page)?,
            id: &self.id,
            editor: self.editor.as_deref().unwrap_or_default(),
            byte_change: self.byte_change.unwrap_or_default(),
            at: self.at.map(|at| at.0),
        };
        edit.check()?;
        Ok(edit)
    }

    /// The same, on its own.
    pub(crate) fn into_owned(self) -> Edit<'static> {
        let own = |text: Cow<'a, str>| Cow::Owned(text.into_owned());
        Edit {
            page: own(self.page),
            id: own(self.id),
            editor: self.editor.map(own),
            byte_change: self.byte_change,
            at: self.at,
        }
    }
}

/// What became of edits or counts in bulk.
#[derive(Debug, Default, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "HotBulkRecorded")]
pub(crate) struct Bulk {
    pub(crate) space: String,
    pub(crate) lines: u64,
    pub(crate) good: u64,
    pub(crate) bad: u64,
    pub(crate) outcomes: Outcomes,
    /// The first few.
    pub(crate) bad_lines: Vec<BadLine>,
    /// What may be wrong with edits that were too late.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) hint: Option<String>,
}

/// A line that cannot be read, and why.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct BadLine {
    pub(crate) line: u64,
    pub(crate) detail: String,
}

/// What may be wrong with an edit that was too late.
pub(crate) fn late_hint(edit: &hot::Edit<'_>, recorded: &Recorded) -> Option<String> {
    let at = edit.at.filter(|_| *recorded == Recorded::TooLate);
    at.and_then(moment::seconds_hint).map(|hint| format!("`at`: {hint}"))
}

response! {
    /// What became of one edit.
    #[schemars(rename = "EditRecorded")]
    struct Edited of(space) from(edit: &hot::Edit<'_>, recorded: &Recorded) {
        page: String = edit.page.as_str().to_owned(),
        id: String = edit.id.to_owned(),
        outcome: String = recorded.as_str().to_owned(),
        /// The page that had to leave, if one had to.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        replaced: Option<String> = recorded.replaced().map(str::to_owned),
        /// What may be wrong with one that was too late.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        hint: Option<String> = late_hint(edit, recorded),
    }

    /// What is known of a page.
    #[schemars(rename = "HotPageStats")]
    struct PageStats from(it: &hot::Stats) {
        is_hot: bool = it.is_hot,
        is_trending: bool = it.is_trending,
        is_spiking: bool = it.is_spiking,
        edits_last_hour: u64 = it.edits_last_hour,
        edits_last_5_minutes: u64 = it.edits_last_5_minutes,
        covered_ms: u64 = it.covered_ms,
        /// By how much edits may count too long: 0 while all of them are kept. An older server does not say.
        #[serde(default)]
        grain_ms: u64 = it.grain_ms,
        unique_editors: u64 = it.unique_editors,
        /// The edits that editors are counted among.
        #[serde(default)]
        members: u64 = it.members,
        last_byte_change: i64 = it.last_byte_change,
        total_edits: u64 = it.total_edits,
        /// `null` if it is not hot.
        first_seen_ms: Option<u64> = it.is_hot.then(|| it.first_seen.as_millis()),
        last_seen_ms: Option<u64> = it.is_hot.then(|| it.last_seen.as_millis()),
    }

    /// The same, with whose.
    #[schemars(rename = "HotPage")]
    struct Page of(space, page) from(it: &hot::Stats) {
        #[serde(flatten)]
        stats: PageStats = PageStats::new(it),
    }

    /// A page that is forgotten.
    #[schemars(rename = "HotRemoved")]
    struct Removed of(space, page) from(was: hot::Removed) {
        /// What it had been.
        was: String = was.as_str().to_owned(),
    }

    /// The hottest pages.
    #[schemars(rename = "HotPages")]
    struct Pages from(hot: &Hot, count: u64, pages: Vec<Ranked>, next: Option<String>) {
        space: String = hot.space().as_str().to_owned(),
        /// How many are hot, listed or not.
        count: u64 = count,
        window_ms: u64 = ms(hot.options().window_duration),
        pages: Vec<Ranked> = pages,
        /// Where the next page begins; `null` if there is none.
        next: Option<String> = next,
    }

    #[schemars(rename = "HotPageInList")]
    struct Ranked from(it: HotPage, stats: Option<&hot::Stats>) {
        page: String = it.page,
        edits: u64 = it.edits,
        last_seen_ms: u64 = it.last_seen.as_millis(),
        /// If they were requested.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        stats: Option<PageStats> = stats.map(PageStats::new),
    }

    /// The edits in a window.
    #[schemars(rename = "HotWindow")]
    struct Window of(space, page) from(edits: Vec<EditRef>) {
        edits: Vec<InWindow> = edits.into_iter().map(InWindow::new).collect(),
    }

    #[schemars(rename = "EditInWindow")]
    struct InWindow from(it: EditRef) {
        id: String = it.id,
        at_ms: u64 = it.at.as_millis(),
        editor: String = it.editor,
        byte_change: i64 = it.byte_change,
    }

    /// What a cleanup did.
    #[schemars(rename = "HotCleaned")]
    struct Cleaned of(space) from(expired: u64) {
        expired: u64 = expired,
    }

    /// A space and what it is bounded by.
    #[schemars(rename = "HotSpace")]
    struct Space of(space) from(options: &HotOptions) {
        max_tracked: usize = options.max_tracked,
        promotion_threshold: u32 = options.promotion_threshold,
        window_ms: u64 = ms(options.window_duration),
        max_members_per_page: usize = options.max_members_per_page,
        /// Whether it takes counts, and no edits. An older server does not say.
        #[serde(default)]
        only_counts: bool = options.only_counts(),
        #[serde(default)]
        count_slots: u32 = options.count_slots,
        #[serde(default)]
        gather_ms: u64 = ms(options.gather),
        hot_threshold: u32 = options.hot_threshold,
        cleanup_interval_ms: u64 = ms(options.cleanup_interval),
        when_full: String = match options.when_full {
            WhenFull::ReplaceColdest => "replace_coldest",
            _ => "reject",
        }
        .to_owned(),
        spike_ratio: f64 = options.spike_ratio,
        spike_minimum: u32 = options.spike_minimum,
        max_activity: usize = options.max_activity,
        max_bytes: usize = options.max_bytes,
        partitions: u32 = options.partitions,
    }
}

/// What happened, as the data of an event.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Event<'a> {
    pub(crate) space: Cow<'a, str>,
    pub(crate) kind: Cow<'a, str>,
    pub(crate) page: Cow<'a, str>,
    pub(crate) edits: u64,
    pub(crate) at_ms: u64,
    pub(crate) cursor: Cow<'a, str>,
}

impl<'a> Event<'a> {
    pub(crate) fn new(space: &'a str, event: &'a hot::Event) -> Self {
        let hot::Event { cursor, kind, page, edits, at } = event;
        Self {
            space: space.into(),
            kind: kind.as_str().into(),
            page: page.into(),
            edits: *edits,
            at_ms: at.as_millis(),
            cursor: cursor.into(),
        }
    }
}
