//! What a space of hot pages is, as the store is told, and what becomes of those who disagree.

use super::options::HotOptions;
use crate::bounds::WhenFull;
use crate::key::Name;
use crate::store::{DeclaredSettings, Part, PartKind, duration_of, duration_text};

impl HotOptions {
    /// The space `name` with these options, as it is declared in the store: what all who
    /// share it must agree about. How often it is cleaned up and what it may use in this
    /// process are everybody's own.
    pub fn declared(&self, name: &Name) -> Part {
        let when_full = match self.when_full {
            WhenFull::ReplaceColdest => "replace_coldest",
            _ => "reject",
        };
        let settings = [
            ("hot_threshold", self.hot_threshold.to_string()),
            ("promotion_threshold", self.promotion_threshold.to_string()),
            (WINDOW, duration_text(self.window_duration)),
            ("max_tracked", self.max_tracked.to_string()),
            (MEMBERS, self.max_members_per_page.to_string()),
            ("when_full", when_full.to_owned()),
            ("spike_ratio", self.spike_ratio.to_string()),
            ("spike_minimum", self.spike_minimum.to_string()),
            ("max_activity", self.max_activity.to_string()),
            ("partitions", self.partitions.to_string()),
        ];
        let mut part = Part::new(PartKind::Hot, name, settings);
        // Servers that do not know it agree with those who have not set it.
        if self.count_slots != Self::default().count_slots {
            part.settings.insert("count_slots".to_owned(), self.count_slots.to_string());
        }
        part
    }
}

const WINDOW: &str = "window_duration";
const MEMBERS: &str = "max_members_per_page";

/// The longest window of those who have these settings and keep edits, or only count, as is said: the keys of others are
/// not shared.
pub(super) fn longest_window_ms(settings: &[DeclaredSettings], only_counts: bool) -> u64 {
    let counts = |it: &DeclaredSettings| it.get(MEMBERS).is_some_and(|members| members == "0");
    let alike = settings.iter().filter(|it| counts(it) == only_counts);
    let windows = alike.filter_map(|it| duration_of(it.get(WINDOW)?));
    windows.max().map_or(0, |longest| longest.as_millis() as u64)
}
