//! What a quota answers.

use super::options::QuotaKind;
use crate::clock::Timestamp;
use crate::limit::{self, AllDecision, Cause, Decision, Period};
use crate::run::Hour;

/// The answer to a charge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum QuotaCharge {
    /// Go ahead: it is charged, now or by an earlier request with the same id.
    Charged {
        /// Whether this request did it.
        is_new: bool,
        /// What is left now.
        remaining: u64,
    },
    /// It was charged by this id, and has been released, or was released before it came: nothing is charged. Use another
    /// id.
    Released,
    /// Over the quota; nothing is charged.
    Refused(QuotaRefusal),
}

impl QuotaCharge {
    /// Whether to go ahead.
    pub fn is_admitted(&self) -> bool {
        matches!(self, Self::Charged { .. })
    }
}

/// Why a charge was refused, and until when.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QuotaRefusal {
    /// What is left now: less than was asked for.
    pub remaining: u64,
    /// When the same charge fits, if nobody else charges. None if it never does: it is above the quota.
    pub retry_after_ms: Option<u64>,
    /// What refused; [`QuotaKind::Both`] if both did.
    pub by: QuotaKind,
    /// What stands in the way.
    pub cause: Cause,
}

impl QuotaRefusal {
    /// What limits say, of which the one called `aligned` counts the hours of UTC.
    pub(super) fn new(decision: &AllDecision, aligned: &str) -> Self {
        let by =
            |is_aligned: bool| decision.refusals().any(|(name, _)| (name.as_str() == aligned) == is_aligned);
        let by = match (by(true), by(false)) {
            (true, true) => QuotaKind::Both,
            (true, false) => QuotaKind::Aligned,
            _ => QuotaKind::Sliding,
        };
        let remaining = decision.decisions().map(|(_, decision)| decision.quota().remaining).min();
        let cause = decision.refusals().next().map(|(_, decision)| Decision::cause(decision));
        Self {
            remaining: remaining.unwrap_or(0),
            retry_after_ms: decision.retry_after_ms(),
            by,
            cause: cause.unwrap_or_default(),
        }
    }
}

/// Where a quota stands.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct QuotaStatus {
    /// The time that decides: the store's.
    pub at: Timestamp,
    /// What counts as an hour.
    pub kind: QuotaKind,
    /// Calls per hour, the safety buffer included.
    pub limit: u64,
    /// Calls of those that are never made.
    pub safety_buffer: u64,
    /// What is left now, by all that counts.
    pub remaining: u64,
    /// This hour of UTC.
    pub aligned: Option<QuotaUse>,
    /// The last 60 minutes.
    pub sliding: Option<QuotaUse>,
    /// The hours of the last 24 in which something was charged, the last first.
    pub hours: Vec<QuotaHour>,
}

impl QuotaStatus {
    /// The hour of the last 24 in which most was used; of those, the last.
    pub fn peak(&self) -> Option<&QuotaHour> {
        self.hours.iter().rev().max_by_key(|hour| hour.most())
    }
}

/// What is used of a quota.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QuotaUse {
    /// What is given out in an hour.
    pub capacity: u64,
    /// What counts.
    pub used: u64,
    /// What is left.
    pub remaining: u64,
    /// When all of it is free again: with the next hour of UTC, or when the last charge is 60 minutes old.
    pub resets_in_ms: u64,
}

impl QuotaUse {
    /// An hour of UTC ends, whether something was charged to it or not.
    pub(super) fn aligned(standing: &limit::Quota, at: Timestamp) -> Self {
        let hour_ms = Period::Hour.as_millis();
        Self { resets_in_ms: hour_ms - at.as_millis() % hour_ms, ..Self::sliding(standing) }
    }

    pub(super) fn sliding(standing: &limit::Quota) -> Self {
        let limit::Quota { capacity, remaining, reset_after_ms, .. } = *standing;
        Self { capacity, used: capacity.saturating_sub(remaining), remaining, resets_in_ms: reset_after_ms }
    }
}

/// An hour of UTC, and the most that was used in it: the event that it began, written once, by its first charge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct QuotaHour {
    /// Which.
    pub hour: Hour,
    /// When its first charge came.
    pub first_charge_at: Timestamp,
    /// The most that counted in this hour of UTC.
    pub most_aligned: Option<u64>,
    /// The most that counted in any 60 minutes that ended in it.
    pub most_sliding: Option<u64>,
}

impl QuotaHour {
    /// One whose first numbers are of the hour of UTC if there is a limit of that.
    pub(super) fn new(hour: &limit::Hour, kind: QuotaKind) -> Self {
        let [first, second] = [0, 1].map(|at| hour.most.get(at).copied());
        let (most_aligned, most_sliding) = match kind {
            QuotaKind::Aligned => (first, None),
            QuotaKind::Sliding => (None, first),
            QuotaKind::Both => (first, second),
        };
        Self {
            hour: Hour::of(Timestamp::from_millis(hour.number * Period::Hour.as_millis())),
            first_charge_at: hour.first_charge,
            most_aligned,
            most_sliding,
        }
    }

    /// Hours, the last first, where so much is used of that of the moment: a program that writes the counter itself
    /// notes nothing.
    pub(super) fn with_use(mut hours: Vec<Self>, at: Timestamp, used: u64) -> Vec<Self> {
        let hour = Hour::of(at);
        if used > 0 && hours.first().is_none_or(|first| first.hour != hour) {
            let begun = Self { hour, first_charge_at: at, most_aligned: None, most_sliding: None };
            hours.insert(0, begun);
        }
        if let Some(first) = hours.first_mut().filter(|_| used > 0) {
            first.most_aligned = first.most_aligned.max(Some(used));
        }
        hours
    }

    /// The most that was used by either measure.
    pub fn most(&self) -> u64 {
        self.most_aligned.max(self.most_sliding).unwrap_or(0)
    }
}
