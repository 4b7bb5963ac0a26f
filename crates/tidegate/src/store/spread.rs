//! Whose is what: how subjects are spread over partitions.

use std::hash::Hasher as _;

use siphasher::sip::SipHasher24;

use crate::error::{Error, Result};

/// The most partitions there may be.
const MAX_PARTITIONS: u32 = 1024;

/// How subjects are spread over partitions: the same on every node and in every release.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Spread {
    partitions: u32,
    hash_key: [u8; 16],
}

impl Spread {
    /// Over one partition: nothing is spread.
    pub(crate) const ONE: Self = Self { partitions: 1, hash_key: [0; 16] };

    pub(crate) fn new(partitions: u32, hash_key: [u8; 16]) -> Result<Self> {
        match partitions {
            1..=MAX_PARTITIONS => Ok(Self { partitions, hash_key }),
            _ => Err(Error::config(format!(
                "{partitions} partitions are not allowed: 1 to {MAX_PARTITIONS} are"
            ))),
        }
    }

    /// How many partitions there are.
    pub(crate) fn partitions(&self) -> u32 {
        self.partitions
    }

    /// The partition of a subject.
    #[inline]
    pub(crate) fn partition(&self, subject: &str) -> u32 {
        if self.partitions == 1 {
            return 0;
        }
        (self.hash(subject) % u64::from(self.partitions)) as u32
    }

    pub(super) fn hash(&self, text: &str) -> u64 {
        let mut hasher = SipHasher24::new_with_key(&self.hash_key);
        hasher.write(text.as_bytes());
        hasher.finish()
    }
}
