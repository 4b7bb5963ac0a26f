//! Charges by an id: several limits at once or none, and once however often they are sent; and given back by the
//! same id.
//!
//! To each limit a charge is a reservation that was committed when it was made, under the same ids and the same
//! bound. Of several limits all know the id, and which of them were charged together.

use std::hash::Hasher as _;

use siphasher::sip::SipHasher24;

use super::decision::{Decision, Quota};
use super::reservation::remembered_ms;
use crate::error::{Error, Result};

/// The answer to a charge of one limit by an id.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Charge {
    /// It is charged, now or by an earlier request with the same id.
    Charged {
        /// Whether this request did it.
        is_new: bool,
        /// Where the key stands now.
        quota: Quota,
    },
    /// It was charged by this id, and has been released, or was released before it came: nothing is charged.
    Released,
    /// Over the limit; nothing is charged.
    Refused(Decision),
}

/// What became of a charge that was to be given back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Release {
    /// It is given back, where it still counted.
    Released {
        /// Whether this request did it, and not an earlier one.
        is_new: bool,
    },
    /// Nothing is known of the id, or no longer. A charge by it that is still on its way will not be made: the id is
    /// remembered as released, if there is room for it.
    Unknown,
}

/// What became of a charge, of each limit by its place in the list.
#[derive(Debug)]
pub(super) enum Outcome {
    Charged {
        is_new: bool,
        quotas: Vec<Quota>,
    },
    Released,
    /// What all of them say, or only the one that refuses for all.
    Refused(Vec<(usize, Decision)>),
}

impl Outcome {
    /// That of one limit.
    pub(super) fn into_charge(self) -> Result<Charge> {
        let of_one = match self {
            Self::Charged { is_new, quotas } => {
                quotas.first().map(|quota| Charge::Charged { is_new, quota: *quota })
            }
            Self::Released => Some(Charge::Released),
            Self::Refused(decisions) => decisions.first().map(|(_, decision)| Charge::Refused(*decision)),
        };
        of_one.ok_or_else(|| Error::internal("a charge was answered by no limit"))
    }
}

/// What a charge is known by.
#[derive(Debug, Clone, Copy)]
pub(super) struct Identity<'a> {
    /// None for a charge that nobody will send again or give back.
    pub(super) id: Option<&'a str>,
    /// Which limits are charged together: the same number for the same limits.
    pub(super) together: u64,
    pub(super) remembered_ms: u64,
}

impl<'a> Identity<'a> {
    /// A charge to limits of these names and windows.
    pub(super) fn new(id: Option<&'a str>, limits: &[(&str, u64)]) -> Result<Self> {
        if let Some(id) = id {
            super::reservation::check_id(id)?;
        }
        let longest_ms = limits.iter().map(|(_, window_ms)| *window_ms).max().unwrap_or(0);
        let mut names: Vec<&str> = limits.iter().map(|(name, _)| *name).collect();
        names.sort_unstable();
        let together = match names[..] {
            // One alone knows that it is, whatever it is called.
            [_] => 0,
            _ => {
                let mut hasher = SipHasher24::new_with_key(b"tidegate-charges");
                names.iter().for_each(|name| {
                    hasher.write(name.as_bytes());
                    // No name has it.
                    hasher.write_u8(0);
                });
                // A double holds 53 bits.
                hasher.finish() >> 12
            }
        };
        Ok(Self { id, together, remembered_ms: remembered_ms(longest_ms) })
    }
}

/// The id is of something else.
pub(super) fn is_something_else(id: &str) -> Error {
    let id: String = id.chars().take(64).collect();
    Error::conflict(format!(
        "the id {id:?} is of a reservation, or of a charge to other limits: use another id, or name those limits"
    ))
}
