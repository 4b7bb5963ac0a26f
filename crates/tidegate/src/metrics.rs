//! Handles that parts count by, and where all of them are found when somebody looks.
//!
//! Each room declares its own in its `metrics.rs`. Labels are bounded: the name of a limit, a
//! space or a reaper, never a user's key. Without the feature `metrics` the handles are empty and
//! count nothing.

#[cfg(not(feature = "metrics"))]
#[path = "metrics/off.rs"]
mod backend;
#[cfg(feature = "metrics")]
#[path = "metrics/on.rs"]
mod backend;

pub(crate) use self::backend::{Counter, FloatGauge, Gauge, Histogram, Metrics, Reading};

/// The labels of one row.
pub(crate) type Labels<'a> = &'a [(&'static str, &'a str)];

/// What a time in seconds is counted by: from 100 us to 1.6 s.
pub(crate) const SECONDS: Buckets = Buckets { first: 0.000_1, factor: 4.0, count: 8 };

/// The upper bounds of a histogram, each so many times the one before.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Buckets {
    pub(crate) first: f64,
    pub(crate) factor: f64,
    pub(crate) count: u16,
}
