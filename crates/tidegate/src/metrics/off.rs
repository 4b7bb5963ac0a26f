//! Without `prometheus-client`: the same calls, and nothing behind them.

use std::time::Duration;

use super::{Buckets, Labels};

/// A counter that nobody sees.
#[derive(Debug, Clone)]
pub(crate) struct Counter;

impl Counter {
    pub(crate) fn inc(&self) -> u64 {
        0
    }

    pub(crate) fn inc_by(&self, _: u64) -> u64 {
        0
    }
}

/// A gauge that nobody sees.
#[derive(Debug, Clone)]
pub(crate) struct Gauge;

impl Gauge {
    pub(crate) fn inc(&self) -> i64 {
        0
    }

    pub(crate) fn dec(&self) -> i64 {
        0
    }

    pub(crate) fn set(&self, _: i64) -> i64 {
        0
    }
}

/// A gauge of fractions that nobody sees.
#[derive(Debug, Clone)]
pub(crate) struct FloatGauge;

impl FloatGauge {
    pub(crate) fn set(&self, _: f64) -> f64 {
        0.0
    }
}

/// A histogram that nobody sees.
#[derive(Debug, Clone)]
pub(crate) struct Histogram;

impl Histogram {
    pub(crate) fn observe(&self, _: f64) {}
}

/// What nobody asks for.
#[derive(Debug)]
pub(crate) struct Reading;

impl Reading {
    pub(crate) fn counter(&mut self, _: &'static str, _: &'static str, _: Labels<'_>, _: u64) {}

    pub(crate) fn gauge(&mut self, _: &'static str, _: &'static str, _: Labels<'_>, _: u64) {}

    pub(crate) fn seconds(&mut self, _: &'static str, _: &'static str, _: Labels<'_>, _: Duration) {}
}

/// What is declared, for nobody.
#[derive(Debug, Clone, Default)]
pub(crate) struct Metrics(());

impl Metrics {
    pub(crate) fn counter(&self, _: &'static str, _: &'static str, _: Labels<'_>) -> Counter {
        Counter
    }

    pub(crate) fn gauge(&self, _: &'static str, _: &'static str, _: Labels<'_>) -> Gauge {
        Gauge
    }

    pub(crate) fn float_gauge(&self, _: &'static str, _: &'static str, _: Labels<'_>) -> FloatGauge {
        FloatGauge
    }

    pub(crate) fn histogram(&self, _: &'static str, _: &'static str, _: Labels<'_>, _: Buckets) -> Histogram {
        Histogram
    }

    pub(crate) fn read(&self, _: impl Fn(&mut Reading) + Send + Sync + 'static) {}
}
