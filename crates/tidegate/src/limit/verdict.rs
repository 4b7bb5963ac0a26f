//! An answer before it becomes a decision.

use super::decision::{Admitted, Cause, Decision, Quota, Rejected, Source, Suppression, Wait};
use super::receipt::Receipt;
use crate::error::Result;

/// Flat, so that it stays in registers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Verdict {
    pub(super) outcome: Outcome,
    pub(super) capacity: u64,
    /// What is left, the charge taken off.
    pub(super) remaining: u64,
    pub(super) reset_after_ms: u64,
    /// By outcome: the charge's bucket and life, when to come back, or the bits of
    /// the suppression factor.
    pub(super) a: u64,
    /// By outcome: the charge's offset, or what is free then.
    pub(super) b: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    Admitted,
    /// Would be, or is without a receipt.
    Fits,
    Rejected,
    /// The cost is above the capacity.
    NeverFits,
    /// Passes by chance.
    LetThrough,
    /// Does not, by chance.
    HeldBack,
}

impl Verdict {
    #[inline]
    pub(super) fn is_admitted(&self) -> bool {
        matches!(self.outcome, Outcome::Admitted | Outcome::Fits | Outcome::LetThrough)
    }

    /// The same as [`into_decision`](Self::into_decision), made where it is wanted: a decision takes
    /// about as long to move as to make.
    #[inline(always)]
    pub(super) fn into_result(self, cost: u64, subject: u32, window_size_seconds: u64) -> Result<Decision> {
        let Self { outcome, capacity, remaining, reset_after_ms, a, b } = self;
        match outcome {
            Outcome::Admitted => Ok(Decision::Admitted(Admitted {
                receipt: Some(Receipt { bucket: a, offset: b, cost, subject }),
                quota: Quota { capacity, remaining, reset_after_ms, window_size_seconds },
                source: Source::Store,
                read_at: None,
            })),
            Outcome::Rejected => Ok(Decision::Rejected(Rejected {
                wait: Some(Wait { retry_after_ms: a, remaining_after_waiting: b }),
                quota: Quota { capacity, remaining, reset_after_ms, window_size_seconds },
                source: Source::Store,
                cause: Cause::Usage,
            })),
            _ => Ok(self.into_decision(cost, subject, window_size_seconds)),
        }
    }

    /// The decision about a take of `cost` by `subject`.
    #[inline(never)]
    pub(super) fn into_decision(self, cost: u64, subject: u32, window_size_seconds: u64) -> Decision {
        let Self { outcome, capacity, remaining, reset_after_ms, a, b } = self;
        let quota = Quota { capacity, remaining, reset_after_ms, window_size_seconds };
        let source = Source::Store;
        match outcome {
            Outcome::Admitted => {
                let receipt = Receipt { bucket: a, offset: b, cost, subject };
                Decision::Admitted(Admitted { receipt: Some(receipt), quota, source, read_at: None })
            }
            Outcome::Fits => Decision::Admitted(Admitted { receipt: None, quota, source, read_at: None }),
            Outcome::Rejected => {
                let wait = Wait { retry_after_ms: a, remaining_after_waiting: b };
                Decision::Rejected(Rejected { wait: Some(wait), quota, source, cause: Cause::Usage })
            }
            Outcome::NeverFits => {
                Decision::Rejected(Rejected { wait: None, quota, source, cause: Cause::Usage })
            }
            Outcome::LetThrough | Outcome::HeldBack => {
                let is_allowed = outcome == Outcome::LetThrough;
                let suppression_factor = f64::from_bits(a);
                Decision::Suppressed(Suppression { suppression_factor, is_allowed, quota, source })
            }
        }
    }
}
