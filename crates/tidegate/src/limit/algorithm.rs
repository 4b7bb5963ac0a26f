//! Which rule a limit counts by, and what all of them have in common.

use super::calendar::{Calendar, Period};
use super::sliding::Sliding;
use super::suppressed::Suppressed;
use super::token::Token;
use crate::bounds::Rate;
use crate::error::{Error, Result};
use crate::outage::Share;

/// The rule of a limit, with its numbers.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum Algorithm {
    /// Never more than the capacity in any window.
    Sliding(Sliding),
    /// Thinned out by chance above the capacity, instead of cut off.
    Suppressed(Suppressed),
    /// A burst, refilled at a rate.
    Token(Token),
    /// So many per UTC minute, hour or day.
    Calendar(Calendar),
}

/// What a key is judged by, in numbers that the algorithm alone understands.
pub(super) type Terms = [u64; 2];

/// What a take is judged by.
#[derive(Debug, Clone, Copy)]
pub(super) struct Request {
    pub(super) cost: u64,
    pub(super) terms: Terms,
    /// Whether a later peek shall judge by these terms.
    pub(super) remember: bool,
    /// A random number of [0, 1), where chance decides.
    pub(super) draw: f64,
}

impl Algorithm {
    /// The name in settings and answers.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Sliding(_) => "sliding",
            Self::Suppressed(suppressed) if suppressed.is_smooth() => "smooth",
            Self::Suppressed(_) => "suppressed",
            Self::Token(_) => "token",
            Self::Calendar(_) => "calendar",
        }
    }

    /// The most permits a key can have at once.
    pub fn capacity(&self) -> u64 {
        match self {
            Self::Sliding(sliding) => sliding.capacity(),
            Self::Suppressed(suppressed) => suppressed.sliding().capacity(),
            Self::Token(token) => token.burst(),
            Self::Calendar(calendar) => calendar.capacity(),
        }
    }

    /// The window, or how long an empty bucket takes to fill, rounded up.
    pub fn window_size_seconds(&self) -> u64 {
        match self {
            Self::Sliding(sliding) => sliding.window().as_seconds(),
            Self::Suppressed(suppressed) => suppressed.sliding().window().as_seconds(),
            Self::Token(token) => token.refill_ms().div_ceil(1000),
            Self::Calendar(calendar) => calendar.period().as_millis() / 1000,
        }
    }

    /// The same for a key that is judged by such terms.
    #[inline]
    pub(super) fn window_seconds_of(&self, terms: Terms) -> u64 {
        match self {
            Self::Token(token) => token.refill_seconds_of(terms),
            _ => self.window_size_seconds(),
        }
    }

    /// How long something can be held, for algorithms that hold: the window.
    pub(super) fn holding_ms(&self) -> Result<u64> {
        match self {
            Self::Sliding(sliding) => Ok(sliding.window().as_millis()),
            Self::Calendar(calendar) => Ok(calendar.period().as_millis()),
            Self::Suppressed(_) | Self::Token(_) => Err(no_reservations(self)),
        }
    }

    /// Whether what counts without a subject is noted hour by hour; scripts go by the same.
    pub(super) fn is_by_the_hour(&self) -> bool {
        self.holding_ms().is_ok_and(|ms| ms == Period::Hour.as_millis())
    }

    /// What a key is judged by unless something else is asked for.
    #[inline]
    pub(super) fn terms(&self) -> Terms {
        match self {
            Self::Sliding(sliding) => [sliding.capacity(), 0],
            Self::Suppressed(suppressed) => suppressed.terms(),
            Self::Token(token) => token.terms(),
            Self::Calendar(calendar) => [calendar.capacity(), 0],
        }
    }

    /// The same for another rate.
    pub(super) fn terms_of(&self, rate: Rate) -> Result<Terms> {
        match self {
            Self::Sliding(sliding) => Ok([rate.capacity(sliding.window())?, 0]),
            Self::Suppressed(suppressed) => suppressed.terms_of(rate),
            Self::Token(token) => token.terms_of(rate),
            Self::Calendar(calendar) => Ok([calendar.capacity_of(rate)?, 0]),
        }
    }

    /// The most permits under such terms.
    pub(super) fn capacity_of(&self, terms: Terms) -> u64 {
        match self {
            Self::Token(token) => token.burst(),
            _ => terms[0],
        }
    }

    /// What counts by a share of the terms it is asked for.
    pub(super) fn share(&self, share: Share) -> Option<Self> {
        match self {
            Self::Token(token) => token.share(share).map(Self::Token),
            other => Some(*other),
        }
    }

    /// A share of such terms; none if nothing is left of them.
    pub(super) fn share_of(&self, terms: Terms, share: Share) -> Option<Terms> {
        let shared = match self {
            Self::Sliding(_) | Self::Calendar(_) => [share.of(terms[0]), 0],
            Self::Suppressed(_) => [share.of(terms[0]), share.of(terms[1])],
            Self::Token(token) => return token.share_of(terms, share),
        };
        (shared[0] > 0).then_some(shared)
    }

    /// What keys start with unless something else is asked for.
    pub(crate) fn prefix(&self) -> &'static str {
        match self {
            Self::Sliding(_) | Self::Suppressed(_) => "trypema",
            Self::Token(_) => "tidegate",
            Self::Calendar(_) => "courtlistener",
        }
    }

    /// Whether chance decides.
    #[inline]
    pub(super) fn draws(&self) -> bool {
        matches!(self, Self::Suppressed(_))
    }
}

macro_rules! from {
    ($($kind:ident),*) => {$(
        impl From<$kind> for Algorithm {
            fn from(numbers: $kind) -> Self {
                Self::$kind(numbers)
            }
        }
    )*};
}

from!(Sliding, Suppressed, Token, Calendar);

/// Says that such a limit holds none.
pub(super) fn no_reservations(algorithm: &Algorithm) -> Error {
    Error::invalid(format!(
        "a {} limit holds no reservations: sliding and calendar limits do",
        algorithm.name()
    ))
}
