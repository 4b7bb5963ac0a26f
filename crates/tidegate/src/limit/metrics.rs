//! What is counted of limits: read from their own counters when asked, so that counting costs a
//! decision nothing.

use super::handle::{LeaseCounts, Limit};
use crate::metrics::Reading;

/// A name, what it is, and how it is read.
type LeaseMetric = (&'static str, &'static str, fn(&LeaseCounts) -> u64);

const LEASE_COUNTERS: [LeaseMetric; 3] = [
    ("tidegate_limit_leases", "Blocks of permits taken from the store", |it| it.leases),
    ("tidegate_limit_leased_permits", "Permits in them", |it| it.granted),
    ("tidegate_limit_lease_returned_permits", "Permits given back unspent", |it| it.returned),
];

const LEASE_GAUGES: [LeaseMetric; 2] = [
    ("tidegate_limit_lease_size_permits", "Permits in the last block", |it| it.size),
    ("tidegate_limit_lease_held_permits", "Permits held now", |it| it.held),
];

/// The rows of a limit, by what it is called here.
pub(crate) fn read(name: &str, limit: &Limit, reading: &mut Reading) {
    for (outcome, source, count) in limit.tallies() {
        let labels = [("limit", name), ("outcome", outcome), ("source", source.as_str())];
        let help = "Decisions by outcome and by who decided";
        reading.counter("tidegate_limit_decisions", help, &labels, count);
    }
    let labels = [("limit", name)];
    let keys = limit.keys_in_process() as u64;
    reading.gauge("tidegate_limit_keys", "Keys held in this process", &labels, keys);
    let Some(counts) = limit.lease_counts() else { return };
    for (name, help, count) in LEASE_COUNTERS {
        reading.counter(name, help, &labels, count(&counts));
    }
    for (name, help, value) in LEASE_GAUGES {
        reading.gauge(name, help, &labels, value(&counts));
    }
}
