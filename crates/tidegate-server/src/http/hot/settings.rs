//! What can be set of a space of hot pages.

use std::num::{NonZeroU32, NonZeroUsize};
use std::time::Duration;

use tidegate::hot::{Hot, HotOptions, WhenFull};
use tidegate::store::{Part, PartKind};
use tidegate::{Name, Tidegate};

use crate::parts::{About, PartOptions};
use crate::settings::SettingsError;
use crate::settings::parse::{choice, read_by};
use crate::settings::raw::{Leaf, group};

group!(RawHot for HotOptions {
    /// most hot pages at a time (1000)
    max_tracked: Leaf<NonZeroUsize>,
    /// edits within the window that make a hot page trending (5)
    promotion_threshold: Leaf<NonZeroU32>,
    /// for how long an edit counts, whole seconds (1h)
    window_duration: Leaf<Duration>,
    /// most edits kept of a hot page, up to 4000: the newest; 0 for a space that only counts (100)
    max_members_per_page: Leaf<usize>,
    /// into how many slots a window is split to count edits beyond those, up to 128 (60)
    count_slots: Leaf<NonZeroU32>,
    /// for how long counts are added up before they are sent to Redis, up to 60s; 0s sends each at once (0s)
    gather: Leaf<Duration>,
    /// edits within ten minutes that make a page hot, up to 100 (2)
    hot_threshold: Leaf<NonZeroU32>,
    /// how often pages whose window is empty are looked for (5m)
    cleanup_interval: Leaf<Duration>,
    /// what a page beyond max_tracked meets: reject or replace_coldest (reject)
    when_full: Leaf<PageWhenFull>,
    /// how many times faster than before makes a page spiking, 1 to 1000 (3)
    spike_ratio: Leaf<f64>,
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
    const ABOUT: &About = &About::spaces(PartKind::Hot, "hot", "space of hot pages", "window_duration=1h");

    type Raw = RawHot;
    type Open = Hot;

    fn read(name: &str, raw: RawHot) -> Result<Self, SettingsError> {
        let options = raw.over(Self::default());
        check(&options).map_err(|(setting, why)| SettingsError(format!("`hot.{name}.{setting}`: {why}")))?;
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

/// What only a server demands of them: the setting that is wrong, and why.
fn check(options: &HotOptions) -> Result<(), (&'static str, String)> {
    let lengths =
        [("window_duration", options.window_duration), ("cleanup_interval", options.cleanup_interval)];
    for (setting, given) in lengths {
        if given.subsec_nanos() != 0 {
            let given = humantime::format_duration(given);
            return Err((setting, format!("{given} is not allowed: whole seconds are")));
        }
    }
    let bytes = options.max_bytes;
    match bytes < LEAST_BYTES {
        true => Err(("max_bytes", format!("{bytes} is not allowed: at least {LEAST_BYTES} are needed"))),
        false => Ok(()),
    }
}

/// What a page meets for which there is no room.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PageWhenFull(WhenFull);

read_by! {
    PageWhenFull: |text| {
        let choices = [("reject", WhenFull::Refuse), ("replace_coldest", WhenFull::ReplaceColdest)];
        choice(text, &choices).map(PageWhenFull)
    };
}

impl From<PageWhenFull> for WhenFull {
    fn from(PageWhenFull(when_full): PageWhenFull) -> Self {
        when_full
    }
}
