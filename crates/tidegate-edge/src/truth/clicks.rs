//! Clicks that were counted elsewhere: they make no version of a rule, no row of the log and no event.

use serde::Serialize;
use tidegate::clock::Timestamp;

use crate::rule::Rule;

/// Days of clicks that are kept of a rule.
pub const MAX_DAYS: u64 = 90;

/// Milliseconds of a day.
const DAY_MS: u64 = 86_400_000;

/// For how long the last report of a worker is remembered: whatever is sent twice is sent by then.
pub(super) const REMEMBERED_MS: u64 = 3_600_000;

/// What a worker has counted since its last report, of rules that need no permits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// Whose.
    pub worker: String,
    /// Higher than that of the report before: sent again, it counts once.
    pub number: u64,
    /// How often rules have redirected.
    pub clicks: Vec<Counted>,
}

/// How often a rule has redirected since the last report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Counted {
    /// Its id.
    pub id: String,
    /// When it was made, in milliseconds of the database's time: another one of that id is not meant. None if who counts
    /// does not know, and whichever has the id is.
    pub created_at: Option<u64>,
    /// How often.
    pub clicks: u64,
}

impl Counted {
    /// Whether it is that rule which is meant.
    pub(super) fn is_of(&self, rule: &Rule) -> bool {
        self.id == rule.id && self.created_at.is_none_or(|created_at| created_at == rule.created_at)
    }
}

/// How often a rule has redirected.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Clicked {
    /// In all.
    pub clicks: u64,
    /// When the last were told of, in milliseconds of the database's time.
    pub last_click_at: Option<u64>,
    /// Per day of UTC on which they were told of, the last [`MAX_DAYS`] on which there were some, the latest first.
    pub days: Vec<DayClicks>,
}

/// How often a rule has redirected on a day.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct DayClicks {
    /// `2026-11-16`.
    pub day: String,
    /// How often.
    pub clicks: u64,
}

impl DayClicks {
    pub(super) fn new(day: u64, clicks: u64) -> Self {
        let at = Timestamp::from_millis(day * DAY_MS).to_string();
        Self { day: at.chars().take_while(|it| *it != 'T').collect(), clicks }
    }
}

/// The day of a time, counted from 1970.
pub(super) fn day_of(at_ms: u64) -> u64 {
    at_ms / DAY_MS
}
