//! The settings of one space of hot pages.

use std::time::Duration;

use tidegate::Name;
use tidegate::hot::HotOptions;

use super::raw::RawHot;
use super::{HotSettings, SettingsError};

/// Below this a space in this process would forget what it was just told.
const LEAST_BYTES: usize = 1 << 20;

pub(super) fn hot(name: String, raw: RawHot, is_implied: bool) -> Result<HotSettings, SettingsError> {
    let checked = Name::new(&name).map_err(|error| SettingsError(format!("`hot`: {error}")))?;
    let options = options(&name, raw)?;
    options.check().map_err(|error| SettingsError(format!("`hot.{name}`: {error}")))?;
    Ok(HotSettings { name: checked, options, is_implied })
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
    let count = |given: Option<std::num::NonZeroUsize>, default: usize| given.map_or(default, Into::into);
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
    let number = |given: Option<std::num::NonZeroU32>, default: u32| given.map_or(default, Into::into);
    options.hot_threshold = number(raw.hot_threshold.0, options.hot_threshold);
    options.promotion_threshold = number(raw.promotion_threshold.0, options.promotion_threshold);
    options.spike_minimum = number(raw.spike_minimum.0, options.spike_minimum);
    options.partitions = number(raw.partitions.0, options.partitions);
    options.when_full = raw.when_full.0.map_or(options.when_full, |it| it.0);
    options.spike_ratio = raw.spike_ratio.0.map_or(options.spike_ratio, |ratio| ratio.0);
    Ok(options)
}
