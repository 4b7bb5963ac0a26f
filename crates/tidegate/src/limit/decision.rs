//! What a limit answers.

use std::time::Duration;

use super::receipt::Receipt;

/// The answer to a take or a peek.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Decision {
    /// Go ahead; a take has been charged.
    Admitted(Admitted),
    /// Over the limit; nothing has been charged.
    Rejected(Rejected),
    /// Over a limit that lets some through: chance decided.
    Suppressed(Suppression),
}

/// A decision by chance. The call is recorded either way.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Suppression {
    /// The share of calls that is declined now, 0 to 1.
    pub suppression_factor: f64,
    /// Whether this one may go ahead.
    pub is_allowed: bool,
    /// Where the key stands after this.
    pub quota: Quota,
    /// Who decided.
    pub source: Source,
}

/// An admission.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Admitted {
    /// What a refund needs. Absent where nothing was charged that could be
    /// given back: a peek, or an answer that did not come from the store.
    pub receipt: Option<Receipt>,
    /// Where the key stands after this.
    pub quota: Quota,
    /// Who decided.
    pub source: Source,
    /// When it was decided, by the clock that a lease ends by: time since the machine
    /// was started, sleep included. Only a lease tells.
    pub read_at: Option<Duration>,
}

/// A refusal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rejected {
    /// When to come back. Absent if waiting cannot help: the cost is above the
    /// capacity.
    pub wait: Option<Wait>,
    /// Where the key stands.
    pub quota: Quota,
    /// Who decided.
    pub source: Source,
    /// What stands in the way.
    pub cause: Cause,
}

/// What stands in the way of a refused take.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Cause {
    /// What the key has used, or a cost above the capacity.
    #[default]
    Usage,
    /// The store is away, and the limit refuses meanwhile.
    StoreAway,
    /// The store lost writes, and the limit refuses until they would no longer count.
    StoreLoss,
    /// This process holds as many keys as it may.
    TooManyKeys,
}

/// How long until the same cost fits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wait {
    /// At this instant a take of the same cost is admitted, one millisecond
    /// earlier it is refused, if nobody else takes meanwhile.
    pub retry_after_ms: u64,
    /// What is free at that instant, before the cost.
    pub remaining_after_waiting: u64,
}

/// Where a key stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Quota {
    /// Permits per window.
    pub capacity: u64,
    /// Permits left now.
    pub remaining: u64,
    /// When all of the capacity is free again, if nobody takes meanwhile.
    pub reset_after_ms: u64,
    /// The window; of a token bucket, how long an empty one takes to fill at the rate
    /// that the key is judged by, rounded up.
    pub window_size_seconds: u64,
}

/// Who decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Source {
    /// The store, in one atomic step.
    Store,
    /// This process, out of permits that the store has set aside for it.
    Lease,
    /// An in-process limit, while the store is away.
    Local,
    /// A policy, without knowing the key's usage: an outage, a hold after a
    /// loss, or the cap on keys.
    Policy,
}

impl Source {
    /// The name in answers and metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Store => "store",
            Self::Lease => "lease",
            Self::Local => "local",
            Self::Policy => "policy",
        }
    }
}

impl Decision {
    /// Whether to go ahead.
    #[inline]
    pub fn is_admitted(&self) -> bool {
        match self {
            Self::Admitted(_) => true,
            Self::Rejected(_) => false,
            Self::Suppressed(suppression) => suppression.is_allowed,
        }
    }

    /// Where the key stands.
    pub fn quota(&self) -> &Quota {
        match self {
            Self::Admitted(admitted) => &admitted.quota,
            Self::Rejected(rejected) => &rejected.quota,
            Self::Suppressed(suppression) => &suppression.quota,
        }
    }

    /// Who decided.
    pub fn source(&self) -> Source {
        match self {
            Self::Admitted(admitted) => admitted.source,
            Self::Rejected(rejected) => rejected.source,
            Self::Suppressed(suppression) => suppression.source,
        }
    }

    /// The receipt of an admitted take.
    pub fn receipt(&self) -> Option<Receipt> {
        match self {
            Self::Admitted(admitted) => admitted.receipt,
            Self::Rejected(_) | Self::Suppressed(_) => None,
        }
    }

    /// The same, decided elsewhere than by the key's own window in the store:
    /// without a receipt, since there is no charge that it could name.
    pub(super) fn decided_by(self, source: Source) -> Self {
        match self {
            Self::Admitted(admitted) => Self::Admitted(Admitted { receipt: None, source, ..admitted }),
            Self::Rejected(rejected) => Self::Rejected(Rejected { source, ..rejected }),
            Self::Suppressed(suppression) => Self::Suppressed(Suppression { source, ..suppression }),
        }
    }

    /// What stands in the way of a refused take.
    pub fn cause(&self) -> Cause {
        match self {
            Self::Rejected(rejected) => rejected.cause,
            Self::Admitted(_) | Self::Suppressed(_) => Cause::Usage,
        }
    }

    /// When to come back, for a refusal that waiting can help.
    pub fn wait(&self) -> Option<Wait> {
        match self {
            Self::Admitted(_) | Self::Suppressed(_) => None,
            Self::Rejected(rejected) => rejected.wait,
        }
    }
}
