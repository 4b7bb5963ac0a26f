//! Spaces of hot pages.

use std::num::{NonZeroU32, NonZeroUsize};
use std::time::Duration;

use tidegate::hot::{Hot, HotOptions};
use tidegate::store::{DEFAULT_SPACE, Part, PartKind};
use tidegate::{Name, Tidegate};

use super::{About, PartOptions};
use crate::settings::SettingsError;
use crate::settings::parse::{PageWhenFull, SpikeRatio};
use crate::settings::raw::{Leaf, group};

group!(RawHot {
    /// most hot pages at a time (1000)
    max_tracked: Leaf<NonZeroUsize>,
    /// edits within the window that make a hot page trending (5)
    promotion_threshold: Leaf<NonZeroU32>,
    /// for how long an edit counts, whole seconds (1h)
    window_duration: Leaf<Duration>,
    /// most edits kept of a hot page, up to 4000: the newest (100)
    max_members_per_page: Leaf<NonZeroUsize>,
    /// edits within ten minutes that make a page hot, up to 100 (2)
    hot_threshold: Leaf<NonZeroU32>,
    /// how often pages whose window is empty are looked for (5m)
    cleanup_interval: Leaf<Duration>,
    /// what a page beyond max_tracked meets: reject or replace_coldest (reject)
    when_full: Leaf<PageWhenFull>,
    /// how many times faster than before makes a page spiking, 1 to 1000 (3)
    spike_ratio: Leaf<SpikeRatio>,
    /// edits within five minutes below which no page is spiking (5)
    spike_minimum: Leaf<NonZeroU32>,
    /// most pages that are not hot whose edits are remembered (100000)
    max_activity: Leaf<NonZeroUsize>,
    /// most bytes that a space in this process uses (268435456)
    max_bytes: Leaf<NonZeroUsize>,
    /// over how many partitions pages are spread, up to 64; each has its part of the bounds (1)
    partitions: Leaf<NonZeroU32>,
});

/// Below this a space in this process would forget what was just recorded.
const LEAST_BYTES: usize = 1 << 20;

impl PartOptions for HotOptions {
    const ABOUT: &About = &About {
        kind: PartKind::Hot,
        group: "hot",
        noun: "space",
        full_noun: "space of hot pages",
        implied: DEFAULT_SPACE,
        example: "window_duration=1h",
        opens_by_use: false,
    };

    type Raw = RawHot;
    type Open = Hot;

    fn read(name: &str, raw: RawHot) -> Result<Self, SettingsError> {
        let options = options(name, raw)?;
        options.check().map_err(|error| SettingsError(format!("`hot.{name}`: {error}")))?;
        Ok(options)
    }

    fn declared(&self, name: &Name) -> Part {
        self.declared(name)
    }

    fn open(&self, gate: &Tidegate, name: &str) -> tidegate::Result<Hot> {
        gate.hot(name, self.clone())
    }
}

fn options(space: &str, raw: RawHot) -> Result<HotOptions, SettingsError> {
    let mut options = HotOptions::default();
    let whole = |setting: &str, given: Option<Duration>, default: Duration| match given {
        None => Ok(default),
        Some(given) if given.subsec_nanos() == 0 => Ok(given),
        Some(given) => Err(SettingsError(format!(
            "`hot.{space}.{setting}`: {} is not allowed: whole seconds are",
            humantime::format_duration(given)
        ))),
    };
    options.window_duration = whole("window_duration", raw.window_duration.0, options.window_duration)?;
    options.cleanup_interval = whole("cleanup_interval", raw.cleanup_interval.0, options.cleanup_interval)?;
    let count = |given: Option<NonZeroUsize>, default: usize| given.map_or(default, Into::into);
    options.max_tracked = count(raw.max_tracked.0, options.max_tracked);
    options.max_members_per_page = count(raw.max_members_per_page.0, options.max_members_per_page);
    options.max_activity = count(raw.max_activity.0, options.max_activity);
    options.max_bytes = count(raw.max_bytes.0, options.max_bytes);
    if options.max_bytes < LEAST_BYTES {
        return Err(SettingsError(format!(
            "`hot.{space}.max_bytes`: {} is not allowed: at least {LEAST_BYTES} are needed",
            options.max_bytes
        )));
    }
    let number = |given: Option<NonZeroU32>, default: u32| given.map_or(default, Into::into);
    options.hot_threshold = number(raw.hot_threshold.0, options.hot_threshold);
    options.promotion_threshold = number(raw.promotion_threshold.0, options.promotion_threshold);
    options.spike_minimum = number(raw.spike_minimum.0, options.spike_minimum);
    options.partitions = number(raw.partitions.0, options.partitions);
    options.when_full = raw.when_full.0.map_or(options.when_full, |it| it.0);
    options.spike_ratio = raw.spike_ratio.0.map_or(options.spike_ratio, |ratio| ratio.0);
    Ok(options)
}
