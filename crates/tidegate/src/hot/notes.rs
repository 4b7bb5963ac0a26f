//! What is counted and said of what edits and cleanups do, wherever the space is.

use super::full::Refusals;
use super::memory::Effects;
use super::metrics::HotMetrics;
use super::options::HotOptions;
use crate::error::Result;
use crate::store::Spread;

/// The metrics of a space, and what the log is told of it.
#[derive(Debug)]
pub(super) struct Notes {
    pub(super) options: HotOptions,
    /// The same on every node and every store.
    pub(super) spread: Spread,
    pub(super) metrics: HotMetrics,
    refusals: Refusals,
}

/// How pages are spread over the partitions of a space.
pub(super) fn spread(partitions: u32) -> Result<Spread> {
    Spread::new(partitions, *b"tidegate-hotpage")
}

impl Notes {
    pub(super) fn new(space: &str, options: HotOptions, metrics: HotMetrics) -> Result<Self> {
        let refusals = Refusals::new(space, options.max_tracked, options.when_full);
        let spread = spread(options.partitions)?;
        Ok(Self { options, spread, metrics, refusals })
    }

    /// `now_ms` is only asked for when somebody is to be told.
    #[inline]
    pub(super) fn note(&self, effects: &Effects, now_ms: impl FnOnce() -> u64) {
        let metrics = &self.metrics;
        // Most are zero, and to add nothing costs as much as to add something.
        for (count, metric) in [
            (effects.activity, &metrics.activity),
            (effects.promoted, &metrics.promoted),
            (effects.rejected, &metrics.rejected),
            (effects.expired, &metrics.expired),
        ] {
            if count > 0 {
                metric.inc_by(count);
            }
        }
        if let Some(counts) = &effects.events {
            for (count, metric) in counts.iter().zip(&metrics.events) {
                metric.inc_by((*count).into());
            }
        }
        if effects.rejected > 0 {
            self.refusals.add(effects.rejected, now_ms());
        }
    }

    /// Hot pages and activities of each partition; how many hot pages that are.
    pub(super) fn counted(&self, counts: impl Iterator<Item = (u64, u64)>) -> u64 {
        let (tracked, activities) = counts.fold((0, 0), |sum, it| (sum.0 + it.0, sum.1 + it.1));
        self.metrics.tracked.set(tracked as i64);
        self.metrics.activities.set(activities as i64);
        tracked
    }

    /// Tells of refusals that nobody has been told of, if it is time to.
    pub(super) fn tell(&self, now_ms: u64) {
        self.refusals.tell(now_ms);
    }
}
