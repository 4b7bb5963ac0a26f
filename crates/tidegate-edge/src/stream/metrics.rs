//! What is counted of the stream.

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _};
use prometheus_client::metrics::gauge::ConstGauge;

use super::tail::Tail;

/// Who follows, counted when somebody looks.
#[derive(Debug)]
pub(super) struct Readers(pub(super) Tail);

impl Collector for Readers {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let readers = ConstGauge::new(self.0.followers() as i64);
        let help = "Streams of changes of rules that are read from this process now";
        readers.encode(encoder.encode_descriptor(
            "tidegate_rules_readers",
            help,
            None,
            readers.metric_type(),
        )?)
    }
}
