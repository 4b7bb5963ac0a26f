//! What this node holds for one key: blocks, what was spent of them, and what to ask
//! the store for next.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use compact_str::CompactString;
use tokio::sync::Notify;

use crate::error::Error;
use crate::limit::decision::{Admitted, Cause, Decision, Quota, Rejected, Source, Wait};
use crate::limit::lease_options::Size;

/// The first block of a key.
pub(super) const FIRST_BLOCK: u64 = 16;

/// For how long a key is taken to be dry at most.
const LONGEST_DRY: Duration = Duration::from_secs(60);

/// Blocks that a key holds at a time.
pub(super) const MAX_BLOCKS: usize = 4;

/// What this node holds for a key.
#[derive(Debug)]
pub(super) struct Spending {
    /// The oldest first.
    pub(super) blocks: VecDeque<Block>,
    /// Nothing is to be had before this; zero if that is not known.
    pub(super) dry_until: Duration,
    /// That is because the store lost something, and until `reset_at`.
    pub(super) is_held: bool,
    /// The store did not answer, or has no more leases to give: it is not asked for
    /// blocks before this.
    pub(super) failed_until: Duration,
    /// What it answered instead, if it is there.
    pub(super) failure: Option<Error>,
    /// A task is there to forget the key.
    pub(super) is_watched: bool,
    /// Somebody is asking the store, and tells when the answer is there.
    pub(super) refilling: Option<Arc<Notify>>,
    /// What to ask for next.
    pub(super) block: u64,
    /// The most that was asked for at once lately.
    pub(super) largest: u64,
    /// What was spent since the last refill, and when that was.
    pub(super) spent: u64,
    pub(super) refilled: Duration,
    /// What the store had left, and until when all of it is free.
    pub(super) store_free: u64,
    pub(super) reset_at: Duration,
    pub(super) capacity: u64,
}

#[derive(Debug)]
pub(super) struct Block {
    pub(super) id: CompactString,
    pub(super) ends: Duration,
    pub(super) granted: u64,
    pub(super) left: u64,
    /// Spent as far as the store has been told.
    pub(super) reported: u64,
    /// Returned, as told.
    pub(super) returned: u64,
}

/// What became of a block, as the store is told.
#[derive(Debug, Clone)]
pub(in crate::limit) struct Report {
    pub(in crate::limit) id: CompactString,
    pub(in crate::limit) spent: u64,
    pub(in crate::limit) returned: u64,
}

/// What the store says.
#[derive(Debug, Clone, Copy)]
pub(in crate::limit) struct Grant {
    pub(in crate::limit) granted: u64,
    pub(in crate::limit) lasting_ms: u64,
    pub(in crate::limit) capacity: u64,
    pub(in crate::limit) free: u64,
    pub(in crate::limit) reset_after_ms: u64,
    /// Until something is to be had, if nothing was.
    pub(in crate::limit) dry_ms: u64,
    /// Because the store lost something.
    pub(in crate::limit) is_held: bool,
}

/// What to tell the store and what to ask it for.
pub(super) struct Plan {
    pub(super) wanted: u64,
    pub(super) reports: Vec<Report>,
}

impl Block {
    fn spent(&self) -> u64 {
        self.granted - self.left - self.returned
    }

    /// Nothing more is spent of it.
    pub(super) fn ended(mut self) -> Self {
        self.returned += std::mem::take(&mut self.left);
        self
    }

    pub(super) fn report(&self) -> Report {
        Report { id: self.id.clone(), spent: self.spent(), returned: self.returned }
    }
}

impl Spending {
    pub(super) fn left(&self, now: Duration) -> u64 {
        self.blocks.iter().filter(|block| block.ends > now).map(|block| block.left).sum()
    }

    /// Spends from one block: permits of two may end at different times, and none may be
    /// spent in part. With it, whether the store is to be asked; that is noted then.
    #[inline]
    pub(super) fn take(
        &mut self,
        now: Duration,
        cost: u64,
        window_size_seconds: u64,
    ) -> Option<(Decision, bool)> {
        let block = self.blocks.iter_mut().find(|block| block.ends > now && block.left >= cost)?;
        block.left -= cost;
        let is_spent = block.left == 0;
        self.spent += cost;
        self.largest = self.largest.max(cost);
        let left = self.left(now);
        let is_low = left <= self.block / 2 && self.dry_until <= now;
        let is_due = (is_low || is_spent) && self.refilling.is_none() && self.failed_until <= now;
        if is_due {
            self.refilling = Some(Arc::default());
        }
        let quota = self.quota(now, left, window_size_seconds);
        let (source, read_at) = (Source::Lease, Some(now));
        Some((Decision::Admitted(Admitted { receipt: None, quota, source, read_at }), is_due))
    }

    pub(super) fn refuse(&self, now: Duration, cost: u64, window_size_seconds: u64) -> Decision {
        // After a loss it is known until when, and that is told as without a lease.
        let (until, remaining_after_waiting, source, cause) = match self.is_held {
            true => (self.reset_at, self.capacity, Source::Policy, Cause::StoreLoss),
            false => (self.dry_until, cost.min(self.capacity), Source::Lease, Cause::Usage),
        };
        let retry_after_ms = until.saturating_sub(now).as_nanos().div_ceil(1_000_000) as u64;
        let wait = Wait { retry_after_ms, remaining_after_waiting };
        let quota = self.quota(now, self.left(now), window_size_seconds);
        let wait = (cost <= self.capacity).then_some(wait);
        Decision::Rejected(Rejected { wait, quota, source, cause })
    }

    /// As of the last time the store was asked.
    #[inline]
    fn quota(&self, now: Duration, left: u64, window_size_seconds: u64) -> Quota {
        Quota {
            capacity: self.capacity,
            remaining: self.store_free + left,
            reset_after_ms: self.reset_at.saturating_sub(now).as_millis() as u64,
            window_size_seconds,
        }
    }

    pub(super) fn plan(&mut self, now: Duration, size: Size) -> Plan {
        // What is over is told first, then what is nearest to it.
        let mut reports = Vec::new();
        for block in &mut self.blocks {
            if block.ends <= now {
                block.returned += std::mem::take(&mut block.left);
            }
            if reports.len() < 2 && (block.spent() > block.reported || block.left == 0) {
                reports.push(block.report());
            }
        }
        let is_dry = self.dry_until > now;
        // A block shall last for a sixteenth of a lease: what it holds counts as spent
        // that much too late at most, once it is reported.
        let elapsed = now.saturating_sub(self.refilled).as_secs_f64().max(1e-6);
        let rate = self.spent as f64 / elapsed;
        let lasting = rate * size.duration.as_secs_f64() / 16.0;
        self.block = (lasting as u64)
            .clamp(self.block / 2, self.block * 4)
            .clamp(FIRST_BLOCK.min(size.most), size.most);
        (self.spent, self.refilled) = (0, now);
        // Enough for a few of the largest, so that a block is not all rest.
        let least = self.largest.saturating_mul(4).min(size.most);
        self.largest = self.largest.div_ceil(2);
        let wanted = if is_dry || self.blocks.len() >= MAX_BLOCKS { 0 } else { self.block.max(least) };
        Plan { wanted, reports }
    }

    /// The store has heard this; what was returned by it.
    pub(super) fn note_reported(&mut self, reports: &[Report]) -> u64 {
        let mut returned = 0;
        for report in reports {
            if let Some(block) = self.blocks.iter_mut().find(|block| block.id == report.id) {
                block.reported = report.spent;
                returned += report.returned;
            }
        }
        self.blocks.retain(|block| block.left > 0 || block.spent() > block.reported);
        returned
    }

    pub(super) fn learn(&mut self, requested_at: Duration, grant: &Grant) {
        self.capacity = grant.capacity;
        self.is_held = grant.is_held;
        self.failure = None;
        self.store_free = grant.free;
        self.reset_at = requested_at + Duration::from_millis(grant.reset_after_ms);
        // No longer than that: a reset or an override elsewhere is seen after it.
        self.dry_until = match Duration::from_millis(grant.dry_ms) {
            Duration::ZERO => Duration::ZERO,
            dry => requested_at + dry.min(LONGEST_DRY),
        };
    }
}
