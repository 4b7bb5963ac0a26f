//! What is said about hot pages. An edit that was read is checked by its method: nothing
//! behind it checks again.

use std::borrow::Cow;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tidegate::hot::{self, EditRef, HotOptions, HotPage, MAX_BYTE_CHANGE, Recorded, WhenFull};
use tidegate::{Key, Result};

use crate::api::{borrowing, pattern, whole};
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

borrowing!(Edit);

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

/// What became of edits in bulk.
#[derive(Debug, Default, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "EditsRecorded")]
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

/// A line that is no edit, and why.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct BadLine {
    pub(crate) line: u64,
    pub(crate) detail: String,
}

/// What became of one edit.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "EditRecorded")]
pub(crate) struct Edited {
    pub(crate) space: String,
    pub(crate) page: String,
    pub(crate) id: String,
    pub(crate) outcome: String,
    /// The page that had to leave, if one had to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) replaced: Option<String>,
    /// What may be wrong with one that was too late.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) hint: Option<String>,
}

impl Edited {
    pub(crate) fn new(space: &str, edit: &hot::Edit<'_>, recorded: &Recorded) -> Self {
        let replaced = match recorded {
            Recorded::Promoted { replaced } => replaced.as_deref().map(str::to_owned),
            _ => None,
        };
        let is_late = *recorded == Recorded::TooLate;
        let hint = edit.at.filter(|_| is_late).and_then(moment::seconds_hint);
        let hint = hint.map(|hint| format!("`at`: {hint}"));
        let (page, id) = (edit.page.as_str().to_owned(), edit.id.to_owned());
        Self { space: space.to_owned(), page, id, outcome: recorded.as_str().to_owned(), replaced, hint }
    }
}

/// What is known of a page.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "HotPageStats")]
pub(crate) struct PageStats {
    pub(crate) is_hot: bool,
    pub(crate) is_trending: bool,
    pub(crate) is_spiking: bool,
    pub(crate) edits_last_hour: u64,
    pub(crate) edits_last_5_minutes: u64,
    pub(crate) covered_ms: u64,
    pub(crate) unique_editors: u64,
    pub(crate) last_byte_change: i64,
    pub(crate) total_edits: u64,
    /// `null` if it is not hot.
    pub(crate) first_seen_ms: Option<u64>,
    pub(crate) last_seen_ms: Option<u64>,
}

impl From<&hot::Stats> for PageStats {
    fn from(stats: &hot::Stats) -> Self {
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
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "HotPage")]
pub(crate) struct Page {
    pub(crate) space: String,
    pub(crate) page: String,
    #[serde(flatten)]
    pub(crate) stats: PageStats,
}

/// A page that is forgotten.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "HotRemoved")]
pub(crate) struct Removed {
    pub(crate) space: String,
    pub(crate) page: String,
    /// What it had been.
    pub(crate) was: String,
}

/// The hottest pages.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "HotPages")]
pub(crate) struct Pages {
    pub(crate) space: String,
    /// How many are hot, listed or not.
    pub(crate) count: u64,
    pub(crate) window_ms: u64,
    pub(crate) pages: Vec<Ranked>,
    /// Where the next page begins; `null` if there is none.
    pub(crate) next: Option<String>,
}

/// The place behind `page`.
pub(crate) fn next(page: &HotPage) -> String {
    format!("{}:{}:{}", page.edits, page.last_seen.as_millis(), page.page)
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "HotPageInList")]
pub(crate) struct Ranked {
    pub(crate) page: String,
    pub(crate) edits: u64,
    pub(crate) last_seen_ms: u64,
    /// If they were requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) stats: Option<PageStats>,
}

impl Ranked {
    pub(crate) fn new(page: HotPage, stats: Option<&hot::Stats>) -> Self {
        let HotPage { page, edits, last_seen } = page;
        Self { page, edits, last_seen_ms: last_seen.as_millis(), stats: stats.map(Into::into) }
    }
}

/// The edits in a window.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "HotWindow")]
pub(crate) struct Window {
    pub(crate) space: String,
    pub(crate) page: String,
    pub(crate) edits: Vec<InWindow>,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "EditInWindow")]
pub(crate) struct InWindow {
    pub(crate) id: String,
    pub(crate) at_ms: u64,
    pub(crate) editor: String,
    pub(crate) byte_change: i64,
}

impl From<EditRef> for InWindow {
    fn from(edit: EditRef) -> Self {
        let EditRef { id, at, editor, byte_change } = edit;
        Self { id, at_ms: at.as_millis(), editor, byte_change }
    }
}

/// What a cleanup did.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "HotCleaned")]
pub(crate) struct Cleaned {
    pub(crate) space: String,
    pub(crate) expired: u64,
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

/// A space and what it is bounded by.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "HotSpace")]
pub(crate) struct Space {
    pub(crate) space: String,
    pub(crate) max_tracked: usize,
    pub(crate) promotion_threshold: u32,
    pub(crate) window_ms: u64,
    pub(crate) max_members_per_page: usize,
    pub(crate) hot_threshold: u32,
    pub(crate) cleanup_interval_ms: u64,
    pub(crate) when_full: String,
    pub(crate) spike_ratio: f64,
    pub(crate) spike_minimum: u32,
    pub(crate) max_activity: usize,
    pub(crate) max_bytes: usize,
    pub(crate) partitions: u32,
}

impl Space {
    pub(crate) fn new(space: &str, options: &HotOptions) -> Self {
        Self {
            space: space.to_owned(),
            max_tracked: options.max_tracked,
            promotion_threshold: options.promotion_threshold,
            window_ms: window_ms(options),
            max_members_per_page: options.max_members_per_page,
            hot_threshold: options.hot_threshold,
            cleanup_interval_ms: options.cleanup_interval.as_secs() * 1000,
            when_full: match options.when_full {
                WhenFull::ReplaceColdest => "replace_coldest",
                _ => "reject",
            }
            .to_owned(),
            spike_ratio: options.spike_ratio,
            spike_minimum: options.spike_minimum,
            max_activity: options.max_activity,
            max_bytes: options.max_bytes,
            partitions: options.partitions,
        }
    }
}

pub(crate) fn window_ms(options: &HotOptions) -> u64 {
    // At most seven days of them.
    options.window_duration.as_millis() as u64
}
