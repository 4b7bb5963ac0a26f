//! Entries that have ended leave, without those that have not being looked at.
//!
//! Each shard knows a time before which none of its slots ends; that is the index. What is due is found shard by shard, and
//! only in those that may have some the slots are looked at, some hundreds. What has left otherwise may have been the
//! earliest: then a shard is looked at once for nothing, and knows better.

use super::Cache;
use super::clicks::Clicked;

/// Slots that a sweep looks at before it lets others go first: a millisecond or two.
const MAX_LOOKED_AT: usize = 16 << 10;

/// What a sweep did.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[must_use = "it has clicks that nobody else has"]
pub struct Swept {
    /// How many have left.
    pub removed: usize,
    /// How many were looked at for that.
    pub looked_at: usize,
    /// Of those who left, if they had any.
    pub clicks: Vec<Clicked>,
    /// Whether there are no more; else it should be asked again.
    pub is_done: bool,
}

impl Cache {
    /// Forgets what has ended before `now_ms`, at most `limit` of them at once.
    pub fn sweep(&mut self, now_ms: u64, limit: usize) -> Swept {
        let mut swept = Swept { is_done: true, ..Swept::default() };
        for shard in 0..self.shards.len() {
            // Live at the very millisecond.
            if self.shards[shard].ends_at < now_ms
                && (swept.looked_at >= MAX_LOOKED_AT || !self.sweep_shard(shard, now_ms, limit, &mut swept))
            {
                swept.is_done = false;
                break;
            }
        }
        self.compact();
        self.stats.expired += swept.removed as u64;
        swept
    }

    /// Whether all of it was looked at.
    fn sweep_shard(&mut self, shard: usize, now_ms: u64, limit: usize, swept: &mut Swept) -> bool {
        let mut earliest = u64::MAX;
        let mut at = 0;
        while at < self.shards[shard].slots.len() {
            swept.looked_at += 1;
            let slot = self.shards[shard].slots.at(at);
            let ends_at = if slot.marks.ends() { self.log.view(slot.location).expires_at() } else { None };
            match ends_at {
                Some(ends_at) if ends_at < now_ms => {
                    if swept.removed >= limit {
                        return false;
                    }
                    swept.removed += 1;
                    swept.clicks.extend(self.take_out(shard, at));
                }
                ends_at => {
                    earliest = earliest.min(ends_at.unwrap_or(u64::MAX));
                    at += 1;
                }
            }
        }
        self.shards[shard].ends_at = earliest;
        true
    }
}
