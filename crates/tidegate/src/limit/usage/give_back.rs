//! Taking a charge out of its bucket again.

use super::{Age, Live, Usage};
use crate::limit::sliding::Grid;

impl Usage {
    /// Whether a bucket still counts and has `cost`. One after the newest is none of a charge.
    pub(super) fn holds(&self, grid: &Grid, live: Live, bucket: u64, cost: u64) -> bool {
        let newest = self.newest.number();
        if live.age == Age::StartedOver || bucket > newest || grid.end_of_life_ms(bucket) <= live.instant {
            return false;
        }
        match bucket == newest {
            true => self.charged >= cost,
            false => self.buckets().any(|(number, count)| number == bucket && count >= cost),
        }
    }

    /// Takes `cost` out of a bucket that holds it.
    pub(super) fn lower(&mut self, bucket: u64, cost: u64) {
        let newest = self.newest.number();
        let more = self.more.get_or_insert_default();
        if bucket == newest {
            self.charged -= cost;
            // No receipt is for what was taken out.
            more.refunded += cost;
        } else if let Some(packed) = more.find(bucket, newest) {
            // The count is in the low bits: the number stays as it is.
            *packed -= cost;
            self.others -= cost;
        }
        self.note_quirks();
    }

    /// Takes a charge out of its bucket again, if it still counts.
    pub(in crate::limit) fn give_back(&mut self, grid: &Grid, now_ms: u64, bucket: u64, cost: u64) {
        let live = self.live(grid, now_ms);
        if self.holds(grid, live, bucket, cost) {
            self.forget(grid, live);
            self.lower(bucket, cost);
        }
    }
}
