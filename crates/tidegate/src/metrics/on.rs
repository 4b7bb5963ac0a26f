//! With `prometheus-client`.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use parking_lot::Mutex;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, MetricEncoder};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
pub(crate) use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::ConstGauge;
pub(crate) use prometheus_client::metrics::gauge::Gauge;
pub(crate) use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::metrics::histogram::exponential_buckets;
use prometheus_client::registry::Registry;

use super::{Buckets, Labels};

/// A gauge of fractions.
pub(crate) type FloatGauge = Gauge<f64, AtomicU64>;

/// What was declared, by name. Clones share it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Metrics(Arc<Declared>);

#[derive(Default)]
struct Declared {
    families: Mutex<BTreeMap<&'static str, Family>>,
    readers: Mutex<Vec<Reader>>,
}

type Reader = Box<dyn Fn(&mut Reading) + Send + Sync>;

impl fmt::Debug for Declared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Declared").field("families", &self.families).finish_non_exhaustive()
    }
}

/// One name, with a row for each set of labels.
#[derive(Debug, Clone)]
struct Family {
    help: &'static str,
    rows: BTreeMap<Vec<(&'static str, String)>, Row>,
}

#[derive(Debug, Clone)]
enum Row {
    Counter(Counter),
    Gauge(Gauge),
    FloatGauge(FloatGauge),
    Histogram(Histogram),
    Counted(u64),
    Measured(i64),
    Seconds(f64),
}

impl Row {
    fn encode(&self, encoder: MetricEncoder<'_>) -> fmt::Result {
        match self {
            Self::Counter(row) => row.encode(encoder),
            Self::Gauge(row) => row.encode(encoder),
            Self::FloatGauge(row) => row.encode(encoder),
            Self::Histogram(row) => row.encode(encoder),
            Self::Counted(count) => ConstCounter::new(*count).encode(encoder),
            Self::Measured(value) => ConstGauge::new(*value).encode(encoder),
            Self::Seconds(value) => ConstGauge::new(*value).encode(encoder),
        }
    }

    fn kind(&self) -> MetricType {
        match self {
            Self::Counter(_) | Self::Counted(_) => MetricType::Counter,
            Self::Gauge(_) | Self::FloatGauge(_) | Self::Measured(_) | Self::Seconds(_) => MetricType::Gauge,
            Self::Histogram(_) => MetricType::Histogram,
        }
    }
}

fn owned(labels: Labels<'_>) -> Vec<(&'static str, String)> {
    labels.iter().map(|(label, value)| (*label, (*value).to_owned())).collect()
}

/// Rows that are only known when they are asked for.
#[derive(Debug)]
pub(crate) struct Reading(BTreeMap<&'static str, Family>);

impl Reading {
    fn add(&mut self, name: &'static str, help: &'static str, labels: Labels<'_>, row: Row) {
        let family = self.0.entry(name).or_insert_with(|| Family { help, rows: BTreeMap::new() });
        family.rows.insert(owned(labels), row);
    }

    /// A row of a counter.
    pub(crate) fn counter(&mut self, name: &'static str, help: &'static str, labels: Labels<'_>, count: u64) {
        self.add(name, help, labels, Row::Counted(count));
    }

    /// A row of a gauge.
    pub(crate) fn gauge(&mut self, name: &'static str, help: &'static str, labels: Labels<'_>, value: u64) {
        self.add(name, help, labels, Row::Measured(value as i64));
    }

    /// A row of a gauge of seconds.
    pub(crate) fn seconds(
        &mut self,
        name: &'static str,
        help: &'static str,
        labels: Labels<'_>,
        value: Duration,
    ) {
        self.add(name, help, labels, Row::Seconds(value.as_secs_f64()));
    }
}

impl Metrics {
    /// The row of these labels, made if it is not there.
    fn row(
        &self,
        name: &'static str,
        help: &'static str,
        labels: Labels<'_>,
        new: impl FnOnce() -> Row,
    ) -> Row {
        let mut families = self.0.families.lock();
        let family = families.entry(name).or_insert_with(|| Family { help, rows: BTreeMap::new() });
        family.rows.entry(owned(labels)).or_insert_with(new).clone()
    }

    /// A counter. Asked for again it is the same.
    pub(crate) fn counter(&self, name: &'static str, help: &'static str, labels: Labels<'_>) -> Counter {
        match self.row(name, help, labels, || Row::Counter(Counter::default())) {
            Row::Counter(row) => row,
            _ => Counter::default(),
        }
    }

    /// A gauge.
    pub(crate) fn gauge(&self, name: &'static str, help: &'static str, labels: Labels<'_>) -> Gauge {
        match self.row(name, help, labels, || Row::Gauge(Gauge::default())) {
            Row::Gauge(row) => row,
            _ => Gauge::default(),
        }
    }

    /// A gauge of fractions.
    pub(crate) fn float_gauge(
        &self,
        name: &'static str,
        help: &'static str,
        labels: Labels<'_>,
    ) -> FloatGauge {
        match self.row(name, help, labels, || Row::FloatGauge(FloatGauge::default())) {
            Row::FloatGauge(row) => row,
            _ => FloatGauge::default(),
        }
    }

    /// A histogram.
    pub(crate) fn histogram(
        &self,
        name: &'static str,
        help: &'static str,
        labels: Labels<'_>,
        Buckets { first, factor, count }: Buckets,
    ) -> Histogram {
        let new = || Histogram::new(exponential_buckets(first, factor, count));
        match self.row(name, help, labels, || Row::Histogram(new())) {
            Row::Histogram(row) => row,
            _ => new(),
        }
    }

    /// Calls `read` whenever somebody looks: for what is counted elsewhere.
    pub(crate) fn read(&self, read: impl Fn(&mut Reading) + Send + Sync + 'static) {
        self.0.readers.lock().push(Box::new(read));
    }

    /// Puts all of it into a registry, with what is declared later.
    pub(crate) fn register(&self, registry: &mut Registry) {
        registry.register_collector(Box::new(self.clone()));
    }
}

impl Collector for Metrics {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut all = Reading(self.0.families.lock().clone());
        self.0.readers.lock().iter().for_each(|read| read(&mut all));
        for (name, Family { help, rows }) in &all.0 {
            let Some(kind) = rows.values().next().map(Row::kind) else { continue };
            let mut family = encoder.encode_descriptor(name, help, None, kind)?;
            // Only alone can a row be without labels.
            if let Some(row) = rows.get(&[][..]) {
                row.encode(family)?;
                continue;
            }
            for (labels, row) in rows {
                row.encode(family.encode_family(labels)?)?;
            }
        }
        Ok(())
    }
}
