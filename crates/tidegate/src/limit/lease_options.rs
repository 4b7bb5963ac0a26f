//! How a limit is leased: for how long, and how much at a time.

use std::num::NonZeroU32;
use std::time::Duration;

use super::algorithm::Algorithm;
use crate::error::{Error, Result};
use crate::setters::setters;

/// How a limit is leased.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct LeaseOptions {
    /// How long a lease lasts: a tenth of the window unless set, at most 5 s. Longer
    /// ones survive longer outages and leave more unused when a node dies.
    pub duration: Option<Duration>,
    /// How many nodes share the limit, about. One that is too small to be shared is
    /// asked for each permit.
    pub nodes: NonZeroU32,
}

impl Default for LeaseOptions {
    fn default() -> Self {
        Self { duration: None, nodes: NonZeroU32::new(8).unwrap_or(NonZeroU32::MIN) }
    }
}

setters!(LeaseOptions {
    nodes: NonZeroU32,
    ; some
    duration: Duration,
});

/// A lease of a limit on its key: how long, and how much at a time.
#[derive(Debug, Clone, Copy)]
pub(super) struct Size {
    pub(super) duration: Duration,
    /// How far two clocks may drift apart meanwhile.
    pub(super) margin: Duration,
    pub(super) most: u64,
}

impl LeaseOptions {
    /// How long permits may be spent after they were set aside.
    pub(super) fn longest(&self, algorithm: &Algorithm) -> Result<Duration> {
        Ok(self.size(algorithm)?.map_or(Duration::ZERO, |size| size.duration))
    }

    /// None if the limit is too small to be shared.
    pub(super) fn size(&self, algorithm: &Algorithm) -> Result<Option<Size>> {
        let window_ms = match algorithm {
            Algorithm::Sliding(sliding) => sliding.window().as_millis(),
            Algorithm::Calendar(calendar) => calendar.period().as_millis(),
            Algorithm::Suppressed(_) | Algorithm::Token(_) => {
                return Err(Error::invalid(format!(
                    "a {} limit cannot be leased: sliding and calendar limits can",
                    algorithm.name()
                )));
            }
        };
        let default = Duration::from_millis((window_ms / 10).min(5000));
        let duration = self.duration.unwrap_or(default);
        let window = Duration::from_millis(window_ms);
        if !(Duration::from_millis(20)..=window).contains(&duration) {
            return Err(Error::invalid(format!(
                "a lease of {duration:?} is not allowed: 20 ms to the window, {window:?}, are"
            )));
        }
        let nodes = u64::from(self.nodes.get());
        let blocks = window_ms / (duration.as_millis() as u64).max(1);
        let least = 100 * nodes * blocks.max(1);
        let margin = duration / 100 + Duration::from_millis(1);
        let most = (algorithm.capacity() / (2 * nodes)).max(1);
        let size = Size { duration, margin, most };
        Ok((algorithm.capacity() >= least).then_some(size))
    }
}
