//! What a limit does beside counting.

use super::lease_options::LeaseOptions;
use super::memory::InProcess;
use super::reservation::OnLapse;
use crate::bounds::WhenFull;
use crate::error::Result;
use crate::outage::{AfterLoss, ClosedStatus, Outage};
use crate::setters::setters;

/// What a limit does beside counting.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LimitOptions {
    /// What to answer while the store is away.
    pub outage: Outage,
    /// With which status HTTP says that the limit refuses because of the store.
    pub closed_status: ClosedStatus,
    /// What to answer after the store lost charges.
    pub after_loss: AfterLoss,
    /// What Redis keys start with; each algorithm has its own unless set.
    pub prefix: Option<String>,
    /// The most keys held in this process at a time.
    pub max_keys: usize,
    /// What a key beyond that gets: [`Refuse`](WhenFull::Refuse) or [`Share`](WhenFull::Share).
    pub when_full: WhenFull,
    /// What becomes of a reservation at its deadline.
    pub on_lapse: OnLapse,
    /// The most ids of reservations that a key remembers. Beyond it the one that
    /// would be forgotten first is; only pending ones never are.
    pub max_reservations: usize,
    /// Whether this node takes permits from the store in blocks and spends them
    /// without asking. A store in this process needs none and ignores it.
    pub lease: Option<LeaseOptions>,
}

impl Default for LimitOptions {
    fn default() -> Self {
        Self {
            outage: Outage::default(),
            closed_status: ClosedStatus::default(),
            after_loss: AfterLoss::default(),
            prefix: None,
            max_keys: InProcess::DEFAULT_MAX_KEYS,
            when_full: WhenFull::default(),
            on_lapse: OnLapse::default(),
            max_reservations: 10_000,
            lease: None,
        }
    }
}

setters!(LimitOptions {
    outage: Outage,
    closed_status: ClosedStatus,
    after_loss: AfterLoss,
    max_keys: usize,
    when_full: WhenFull,
    on_lapse: OnLapse,
    max_reservations: usize,
    ; some
    prefix: String,
    lease: LeaseOptions,
});

impl LimitOptions {
    /// Whether all of it is allowed; a limit is only made if it is.
    pub fn check(&self) -> Result<()> {
        self.when_full.check("a limit", [WhenFull::Refuse, WhenFull::Share])
    }
}
