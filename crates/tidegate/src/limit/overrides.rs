//! Other terms for one key, for a while.

use std::time::Duration;

use super::algorithm::Terms;
use crate::bounds::Rate;
use crate::clock::Timestamp;
use crate::error::{Error, Result};
use crate::store::memory::Entry;

/// A key's own rate, and how long it has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Override {
    /// What the key is judged by instead of the limit's own rate.
    pub rate: Rate,
    /// How much longer.
    pub lasting: Duration,
}

impl Override {
    /// As long as a marker lives without being renewed.
    const LONGEST: Duration = Duration::from_secs(90 * 86_400);

    pub(super) fn new(rate: Rate, lasting: Duration) -> Result<Self> {
        if !(Duration::from_millis(1)..=Self::LONGEST).contains(&lasting) {
            return Err(Error::invalid(format!(
                "an override of {lasting:?} is not allowed: 1 ms to 90 days are"
            )));
        }
        Ok(Self { rate, lasting })
    }

    pub(super) fn lasting_ms(&self) -> u64 {
        // At most 90 days.
        self.lasting.as_millis() as u64
    }

    /// The process holds as many as it may.
    pub(super) fn too_many() -> Error {
        Error::unavailable("there are as many overrides as keys are allowed")
    }
}

/// An override in this process.
#[derive(Debug, Default)]
pub(super) struct Overridden {
    until_ms: u64,
    terms: Terms,
    rate: Option<Rate>,
}

impl Overridden {
    pub(super) fn from_now(now: Timestamp, terms: Terms, new: Override) -> Self {
        Self { until_ms: now.as_millis() + new.lasting_ms(), terms, rate: Some(new.rate) }
    }

    /// When it ends; 0 for none.
    pub(super) fn until_ms(&self) -> u64 {
        self.until_ms
    }

    pub(super) fn terms_at(&self, now: Timestamp) -> Option<Terms> {
        (self.until_ms > now.as_millis()).then_some(self.terms)
    }

    pub(super) fn at(&self, now: Timestamp) -> Option<Override> {
        let left_ms = self.until_ms.checked_sub(now.as_millis()).filter(|left| *left > 0)?;
        Some(Override { rate: self.rate?, lasting: Duration::from_millis(left_ms) })
    }
}

impl Entry for Overridden {
    type Context = ();

    fn end_ms(&self, (): &()) -> u64 {
        self.until_ms
    }

    /// One from a clock that was far ahead ends by itself.
    fn is_absurd(&self, (): &(), _: u64) -> bool {
        false
    }
}
