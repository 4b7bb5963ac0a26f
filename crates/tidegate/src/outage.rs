//! What to answer while the store is away, and after it lost something.
//!
//! An absent Redis is an answer, not a hang: every call has a deadline, and
//! every part declares what it says instead.

use std::fmt;
use std::num::NonZeroU32;

use crate::error::{Error, Result};

/// What a limit answers while its store is away. Every such answer is marked
/// with its [source](crate::limit::Source).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Outage {
    /// Admit.
    #[default]
    Open,
    /// Refuse, with a time to come back. The only policy under which a limit
    /// stays exact.
    Closed,
    /// Decide in this process, by a share of the limit. Starts empty, and what
    /// it admits is not charged to the store later.
    Local(Share),
}

/// What a limit answers after its store lost acknowledged charges: a restart, a
/// failover, a flush.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum AfterLoss {
    /// Go on from what is left: at most one further capacity per key.
    #[default]
    Admit,
    /// Refuse for one window, so that what was forgotten no longer counts.
    Hold,
}

impl Outage {
    /// As the settings name it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Closed => "closed",
            Self::Local(_) => "local",
        }
    }
}

/// With which status HTTP says that a limit refuses because of its store: it is away
/// and the policy is `closed`, or it lost writes and the limit holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum ClosedStatus {
    /// 429, like any other refusal.
    #[default]
    TooManyRequests,
    /// 503: it is not the caller's doing.
    ServiceUnavailable,
}

impl ClosedStatus {
    /// The status.
    pub fn as_u16(self) -> u16 {
        match self {
            Self::TooManyRequests => 429,
            Self::ServiceUnavailable => 503,
        }
    }
}

/// Why a store is away, or a call to it has no answer: a word for logs, metrics and
/// `/readyz`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum OutageReason {
    /// Nothing listens there.
    Refused,
    /// No address is known for it, or no way leads there.
    Unreachable,
    /// It did not answer in time.
    Timeout,
    /// The connection ended while it was asked: it may have done it, or not.
    Cut,
    /// Its certificate is not to be trusted, or it speaks no TLS.
    Tls,
    /// It refuses our user, password or commands.
    Auth,
    /// Whatever answers there does not speak Redis.
    NotRedis,
    /// It is a replica.
    ReadOnly,
    /// Its memory is full.
    OutOfMemory,
    /// It is loading its data.
    Loading,
    /// Somebody's script keeps it busy.
    Busy,
    /// It cannot save to disk, and so takes no writes.
    Misconf,
    /// It has too few replicas to take writes.
    NoReplicas,
    /// It has as many clients as it may.
    TooManyClients,
    /// Nobody in the cluster serves the slot.
    ClusterDown,
    /// As many calls as may wait for it do.
    Overloaded,
    /// It is not what the settings say.
    Config,
    /// This process is ending.
    Stopping,
}

impl OutageReason {
    /// All of them, in order.
    pub(crate) const ALL: [Self; 18] = [
        Self::Refused,
        Self::Unreachable,
        Self::Timeout,
        Self::Cut,
        Self::Tls,
        Self::Auth,
        Self::NotRedis,
        Self::ReadOnly,
        Self::OutOfMemory,
        Self::Loading,
        Self::Busy,
        Self::Misconf,
        Self::NoReplicas,
        Self::TooManyClients,
        Self::ClusterDown,
        Self::Overloaded,
        Self::Config,
        Self::Stopping,
    ];

    /// In a word.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Refused => "refused",
            Self::Unreachable => "unreachable",
            Self::Timeout => "timeout",
            Self::Cut => "cut",
            Self::Tls => "tls",
            Self::Auth => "auth",
            Self::NotRedis => "not_redis",
            Self::ReadOnly => "readonly",
            Self::OutOfMemory => "oom",
            Self::Loading => "loading",
            Self::Busy => "busy",
            Self::Misconf => "misconf",
            Self::NoReplicas => "no_replicas",
            Self::TooManyClients => "too_many_clients",
            Self::ClusterDown => "cluster_down",
            Self::Overloaded => "overloaded",
            Self::Config => "config",
            Self::Stopping => "stopping",
        }
    }
}

impl fmt::Display for OutageReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A part of a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Share(Part);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    OneOf(NonZeroU32),
    Millionths(u32),
}

impl Share {
    /// An equal share for each of `nodes`.
    pub fn one_of(nodes: NonZeroU32) -> Self {
        Self(Part::OneOf(nodes))
    }

    /// A fraction above 0, up to 1, exact to a millionth.
    pub fn fraction(fraction: f64) -> Result<Self> {
        let millionths = (fraction * 1e6).round();
        if !(1.0..=1e6).contains(&millionths) {
            return Err(Error::invalid(format!("a share of {fraction} is not allowed: 0.000001 to 1 are")));
        }
        Ok(Self(Part::Millionths(millionths as u32)))
    }

    /// This share of `capacity`, rounded down: all shares together never exceed it.
    pub fn of(self, capacity: u64) -> u64 {
        match self.0 {
            Part::OneOf(nodes) => capacity / u64::from(nodes.get()),
            Part::Millionths(millionths) => {
                (u128::from(capacity) * u128::from(millionths) / 1_000_000) as u64
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_told_apart_and_in_the_order_of_their_numbers() {
        let mut names = std::collections::BTreeSet::new();
        for (number, reason) in OutageReason::ALL.into_iter().enumerate() {
            assert_eq!(reason as usize, number);
            assert!(names.insert(reason.as_str()), "{reason}");
        }
    }

    #[test]
    fn shares_never_add_up_to_more_than_the_whole() {
        for (capacity, nodes) in [(300, 7), (5, 8), (1, 1), ((1 << 53) - 1, 3)] {
            let share = Share::one_of(NonZeroU32::new(nodes).unwrap()).of(capacity);
            assert!(share * u64::from(nodes) <= capacity);
        }
        assert_eq!(Share::fraction(0.29).unwrap().of(100), 29);
        assert!(
            Share::fraction(0.0).is_err()
                && Share::fraction(1.1).is_err()
                && Share::fraction(f64::NAN).is_err()
        );
    }
}
