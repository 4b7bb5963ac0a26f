//! What a space of hot pages is bounded by.

use std::time::Duration;

use crate::bounds::WhenFull;
use crate::error::{Error, Result};
use crate::ranges::{self, Ranged};
use crate::setters::setters;

/// How a space is tracked.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct HotOptions {
    /// Edits within ten minutes that make a page hot: at most 100, unless the space only counts.
    pub hot_threshold: u32,
    /// Edits within the window that make a hot page trending.
    pub promotion_threshold: u32,
    /// For how long an edit counts.
    pub window_duration: Duration,
    /// The most hot pages at a time.
    pub max_tracked: usize,
    /// The most edits kept of a hot page: the newest. All are counted. With 0 the space only counts: no edit is kept, and
    /// it takes [counts](super::Hot::count) instead of edits.
    pub max_members_per_page: usize,
    /// Over how many slots of the window edits are counted of a page that has had more than are kept: the more there
    /// are, the shorter is what they count too long.
    pub count_slots: u32,
    /// For how long a process adds up its counts of a space on Redis that [only counts](Self::only_counts), before it sends
    /// them together: up to a minute, and 0 sends each count at once. They count when they arrive; a process that is
    /// killed loses those of one gathering.
    pub gather: Duration,
    /// How often pages whose window is empty are looked for.
    pub cleanup_interval: Duration,
    /// What happens to a page that becomes hot when as many are tracked as may be:
    /// [`Refuse`](WhenFull::Refuse) or [`ReplaceColdest`](WhenFull::ReplaceColdest).
    pub when_full: WhenFull,
    /// A hot page is spiking when its edits of the last five minutes come this many
    /// times as fast as those before; it ends at half of it.
    pub spike_ratio: f64,
    /// And when they are at least so many.
    pub spike_minimum: u32,
    /// The most pages that are not hot whose edits are remembered. Beyond it, the one
    /// whose first edit is oldest is forgotten: it needs all its edits again.
    pub max_activity: usize,
    /// Bytes that a space in this process may use. When they are used up, first
    /// activity is forgotten, then the coldest page.
    pub max_bytes: usize,
    /// Over how many partitions pages are spread; each has its part of the bounds.
    pub partitions: u32,
}

impl Default for HotOptions {
    fn default() -> Self {
        Self {
            hot_threshold: 2,
            promotion_threshold: 5,
            window_duration: Duration::from_secs(3600),
            max_tracked: 1000,
            max_members_per_page: 100,
            count_slots: 60,
            gather: Duration::ZERO,
            cleanup_interval: Duration::from_secs(300),
            when_full: WhenFull::default(),
            spike_ratio: 3.0,
            spike_minimum: 5,
            max_activity: 100_000,
            max_bytes: 256 << 20,
            partitions: 1,
        }
    }
}

setters!(HotOptions {
    hot_threshold: u32,
    promotion_threshold: u32,
    window_duration: Duration,
    max_tracked: usize,
    max_members_per_page: usize,
    count_slots: u32,
    gather: Duration,
    cleanup_interval: Duration,
    when_full: WhenFull,
    spike_ratio: f64,
    spike_minimum: u32,
    max_activity: usize,
    max_bytes: usize,
    partitions: u32,
});

/// The most edits that are kept of a page.
const MAX_MEMBERS: usize = 4000;

/// The most edits that anything can be set to happen at.
const MAX_EDITS: u64 = 1_000_000_000;

/// The most slots of a window.
const MAX_SLOTS: u64 = 128;

/// The most hot pages there can be.
pub(super) const MAX_TRACKED: usize = 1_000_000;

/// The fewest bytes of a partition: its events alone can be a third of it.
const MIN_BYTES: usize = 1 << 20;

const DAY: Duration = Duration::from_secs(86_400);

/// How many there may be of each, beside the others.
const COUNTS: [Ranged<HotOptions, u64>; 9] = [
    Ranged {
        name: "a hot_threshold",
        get: |it| it.hot_threshold.into(),
        set: |it, count| it.hot_threshold = count as u32,
        range: |it| match it.max_members_per_page as u64 {
            0 => [1, MAX_EDITS],
            members => [1, 100.min(members)],
        },
        widest: [1, MAX_EDITS],
    },
    Ranged {
        name: "a promotion_threshold",
        get: |it| it.promotion_threshold.into(),
        set: |it, count| it.promotion_threshold = count as u32,
        range: |_| [1, MAX_EDITS],
        widest: [1, MAX_EDITS],
    },
    Ranged {
        name: "a max_members_per_page",
        get: |it| it.max_members_per_page as u64,
        set: |it, count| it.max_members_per_page = count as usize,
        range: |it| match it.max_members_per_page {
            0 => [0, MAX_MEMBERS as u64],
            _ => [1.max(it.hot_threshold.into()), MAX_MEMBERS as u64],
        },
        widest: [0, MAX_MEMBERS as u64],
    },
    Ranged {
        name: "a number of count_slots",
        get: |it| it.count_slots.into(),
        set: |it, count| it.count_slots = count as u32,
        range: |_| [1, MAX_SLOTS],
        widest: [1, MAX_SLOTS],
    },
    // Each partition needs at least one page of both.
    Ranged {
        name: "a max_tracked",
        get: |it| it.max_tracked as u64,
        set: |it, count| it.max_tracked = count as usize,
        range: |it| [1.max(it.partitions.into()), MAX_TRACKED as u64],
        widest: [1, MAX_TRACKED as u64],
    },
    Ranged {
        name: "a max_activity",
        get: |it| it.max_activity as u64,
        set: |it, count| it.max_activity = count as usize,
        range: |it| [1.max(it.partitions.into()), 100_000_000],
        widest: [1, 100_000_000],
    },
    Ranged {
        name: "a max_bytes",
        get: |it| it.max_bytes as u64,
        set: |it, count| it.max_bytes = count as usize,
        range: |it| [u64::from(it.partitions) * MIN_BYTES as u64, u64::MAX],
        widest: [MIN_BYTES as u64, u64::MAX],
    },
    Ranged {
        name: "a number of partitions",
        get: |it| it.partitions.into(),
        set: |it, count| it.partitions = count as u32,
        range: |it| [1, it.max_tracked.min(it.max_activity).min(it.max_bytes / MIN_BYTES).min(64) as u64],
        widest: [1, 64],
    },
    Ranged {
        name: "a spike_minimum",
        get: |it| it.spike_minimum.into(),
        set: |it, count| it.spike_minimum = count as u32,
        range: |_| [1, MAX_EDITS],
        widest: [1, MAX_EDITS],
    },
];

impl HotOptions {
    /// Whether the space only counts: no edit is kept.
    pub fn only_counts(&self) -> bool {
        self.max_members_per_page == 0
    }

    /// Whether all of it is allowed; a space is only made if it is.
    pub fn check(&self) -> Result<()> {
        let lasting = |what: &str, value: Duration, days: u32| {
            if (Duration::from_secs(1)..=DAY * days).contains(&value) {
                return Ok(());
            }
            let most = if days == 1 { "1 day".to_owned() } else { format!("{days} days") };
            Err(Error::invalid(format!("{what} of {value:?} is not allowed: 1s to {most} are")))
        };
        lasting("a window_duration", self.window_duration, 7)?;
        lasting("a cleanup_interval", self.cleanup_interval, 1)?;
        self.check_gather()?;
        self.when_full.check("hot pages", [WhenFull::Refuse, WhenFull::ReplaceColdest])?;
        ranges::check(self, &COUNTS, |[least, most]| match most {
            u64::MAX => format!("at least {least} is, {MIN_BYTES} for each partition"),
            _ => format!("{least} to {most} are"),
        })?;
        if !(1.0..=1000.0).contains(&self.spike_ratio) {
            return Err(Error::invalid(format!(
                "a spike_ratio of {} is not allowed: 1 to 1000 are",
                self.spike_ratio
            )));
        }
        Ok(())
    }

    fn check_gather(&self) -> Result<()> {
        let gather = self.gather;
        if gather > Duration::from_secs(60) {
            return Err(Error::invalid(format!("a gather of {gather:?} is not allowed: 0s to 60s are")));
        }
        if !gather.is_zero() && !self.only_counts() {
            return Err(Error::invalid(format!(
                "a gather of {gather:?} is not allowed: edits are not gathered, only counts are, with a max_members_per_page of 0"
            )));
        }
        Ok(())
    }

    /// What each partition is bounded by: together no more than the whole.
    pub(super) fn bounds(&self) -> Bounds {
        let share = |whole: usize| (whole as u64 / u64::from(self.partitions)).max(1);
        Bounds {
            hot_threshold: self.hot_threshold.into(),
            promotion_threshold: self.promotion_threshold.into(),
            window_ms: self.window_duration.as_millis() as u64,
            max_tracked: share(self.max_tracked),
            max_members: self.max_members_per_page as u64,
            count_slots: self.count_slots.into(),
            replaces: self.when_full == WhenFull::ReplaceColdest,
            spike_ratio: self.spike_ratio,
            spike_minimum: self.spike_minimum.into(),
            max_activity: share(self.max_activity),
            max_bytes: share(self.max_bytes) as usize,
        }
    }
}

/// Edits of a page that is not hot are remembered for so long after the first.
pub(super) const ACTIVITY_MS: u64 = 600_000;

/// What "lately" is to a spike.
pub(super) const SPIKE_MS: u64 = 300_000;

/// The longest stretch that is reported.
pub(super) const HOUR_MS: u64 = 3_600_000;

/// The same in numbers, for one partition.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds {
    pub(super) hot_threshold: u64,
    pub(super) promotion_threshold: u64,
    pub(super) window_ms: u64,
    pub(super) max_tracked: u64,
    pub(super) max_members: u64,
    pub(super) count_slots: u64,
    pub(super) replaces: bool,
    pub(super) spike_ratio: f64,
    pub(super) spike_minimum: u64,
    pub(super) max_activity: u64,
    pub(super) max_bytes: usize,
}

impl Bounds {
    /// Whether `lately` of `edits`, over a window that covers more than the last five minutes, are a spike; one that is
    /// there ends at half of what it began at.
    #[inline]
    pub(super) fn is_spike(&self, is_spiking: bool, edits: u64, lately: u64, covered_ms: u64) -> bool {
        if lately < self.spike_minimum {
            return false;
        }
        let ratio = if is_spiking { self.spike_ratio / 2.0 } else { self.spike_ratio };
        let rate = lately as f64 / SPIKE_MS as f64;
        let base = (edits - lately) as f64 / (covered_ms - SPIKE_MS) as f64;
        rate >= ratio * base
    }
}

/// What edits are counted in as powers of two, in ms: a slot of the window at least, and so long that no more than
/// [`MAX_SLOTS`] are in the longest window that anybody has. Those of other windows are nested in it.
pub(super) fn ring_exponent(bounds: &Bounds, kept_ms: u64) -> u64 {
    let grain_ms = bounds.window_ms.div_ceil(bounds.count_slots).max(kept_ms.div_ceil(MAX_SLOTS));
    grain_ms.next_power_of_two().trailing_zeros().into()
}

/// What edits of the last five minutes are counted in; `ring.lua` has the same.
pub(super) const LATELY_GRAIN_MS: u64 = 30_000;
