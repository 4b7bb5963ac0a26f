//! How much a family of runs may do in an hour.

use std::time::Duration;

use crate::error::{Error, Result};
use crate::limit::{Algorithm, Calendar, LimitOptions, Period, Sliding};
use crate::setters::setters;

/// What counts as an hour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum QuotaKind {
    /// The hours of UTC, as many services count them. Around the full hour it lets twice the quota through within
    /// minutes.
    #[default]
    Aligned,
    /// Any 60 minutes, wherever they start.
    Sliding,
    /// Both: what does not fit into either is refused, and charged to neither.
    Both,
}

impl QuotaKind {
    /// The name in settings and answers.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Aligned => "aligned",
            Self::Sliding => "sliding",
            Self::Both => "both",
        }
    }
}

/// The quota of a family of runs.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct QuotaOptions {
    /// What its Redis keys start with; which family it is.
    pub prefix: String,
    /// What counts as an hour.
    pub kind: QuotaKind,
    /// Calls per hour that the other side allows.
    pub limit: u64,
    /// Calls of those that are never made.
    pub safety_buffer: u64,
    /// How long the counter of an hour of UTC is kept from its first charge; never shorter than the rest of its hour.
    pub counter_ttl: Duration,
    /// The most ids of charges that are remembered. Beyond it the oldest is forgotten, and a charge that is sent again
    /// with its id would be charged again.
    pub max_charges: usize,
}

impl Default for QuotaOptions {
    fn default() -> Self {
        Self {
            prefix: DEFAULT_FAMILY.to_owned(),
            kind: QuotaKind::default(),
            limit: 5000,
            safety_buffer: 25,
            counter_ttl: Duration::from_secs(2 * 3600),
            max_charges: LimitOptions::default().max_reservations,
        }
    }
}

setters!(QuotaOptions {
    prefix: String,
    kind: QuotaKind,
    limit: u64,
    safety_buffer: u64,
    counter_ttl: Duration,
    max_charges: usize,
});

/// What calendar limits start with, so that those and a quota share a counter.
pub(crate) const DEFAULT_FAMILY: &str = "courtlistener";

/// The limits that a quota stands on: an hour of UTC, and any 60 minutes.
pub(super) const ALIGNED: &str = "rate_limit";
pub(super) const SLIDING: &str = "rate_limit_sliding";

/// Both of them.
pub(crate) const LIMITS: [&str; 2] = [ALIGNED, SLIDING];

const MAX_CHARGES: usize = 1_000_000;

impl QuotaOptions {
    /// Whether all of it is allowed; a quota is only made if it is.
    pub fn check(&self) -> Result<()> {
        self.calendar()?;
        match self.max_charges {
            1..=MAX_CHARGES => Ok(()),
            other => Err(Error::invalid(format!(
                "a quota that remembers {other} charges is not allowed: 1 to {MAX_CHARGES} are"
            ))),
        }
    }

    /// Calls per hour that are made at most.
    pub fn capacity(&self) -> u64 {
        self.limit.saturating_sub(self.safety_buffer)
    }

    fn calendar(&self) -> Result<Calendar> {
        Calendar::new(self.limit, Period::Hour)?
            .with_safety_buffer(self.safety_buffer)?
            .with_counter_ttl(self.counter_ttl)
    }

    /// The limit of the hours of UTC, if there is one.
    pub(super) fn aligned(&self) -> Result<Option<Algorithm>> {
        let is_wanted = self.kind != QuotaKind::Sliding;
        is_wanted.then(|| self.calendar().map(Into::into)).transpose()
    }

    /// The limit of any 60 minutes, if there is one.
    pub(super) fn sliding(&self) -> Result<Option<Algorithm>> {
        let is_wanted = self.kind != QuotaKind::Aligned;
        let sliding = || {
            let rate = format!("{}/h", self.calendar()?.capacity()).parse()?;
            Sliding::new(rate, Duration::from_millis(Period::Hour.as_millis())).map(Into::into)
        };
        is_wanted.then(sliding).transpose()
    }

    /// What its limits do beside counting.
    pub(super) fn of_limits(&self) -> LimitOptions {
        LimitOptions::new().prefix(self.prefix.clone()).max_reservations(self.max_charges)
    }
}
