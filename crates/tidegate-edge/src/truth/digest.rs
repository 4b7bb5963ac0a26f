//! A number for all rules together, by which two who should have the same find out whether they do.

use std::fmt;
use std::hash::Hasher as _;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use siphasher::sip128::{Hasher128 as _, SipHasher24};

/// Of the schema: whoever changes what is hashed changes this.
const KEY: &[u8; 16] = b"tidegate-rules-1";

/// The sum of the hashes of all rules modulo 2^128: the order in which they came does not matter, and a change needs
/// only what left and what came.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Digest(u128);

impl Digest {
    /// That of one rule alone.
    pub fn of(id: &str, version: u64, body: &str) -> Self {
        let mut hasher = SipHasher24::new_with_key(KEY);
        // With its length in front, no id runs into what follows.
        hasher.write(&(id.len() as u64).to_le_bytes());
        hasher.write(id.as_bytes());
        hasher.write(&version.to_le_bytes());
        hasher.write(body.as_bytes());
        Self(hasher.finish128().into())
    }

    /// With that of a rule that came.
    #[must_use]
    pub fn with(self, other: Self) -> Self {
        Self(self.0.wrapping_add(other.0))
    }

    /// Without that of a rule that left.
    #[must_use]
    pub fn without(self, other: Self) -> Self {
        Self(self.0.wrapping_sub(other.0))
    }

    /// Enough of it to tell versions of one rule apart.
    pub fn first_half(self) -> u64 {
        (self.0 >> 64) as u64
    }

    /// As a database keeps it.
    pub(crate) fn to_bytes(self) -> [u8; 16] {
        self.0.to_be_bytes()
    }

    /// What a database has kept.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        Some(Self(u128::from_be_bytes(bytes.try_into().ok()?)))
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl From<Digest> for String {
    fn from(digest: Digest) -> Self {
        digest.to_string()
    }
}

impl TryFrom<String> for Digest {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl FromStr for Digest {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let is_hex = text.len() == 32 && text.bytes().all(|it| it.is_ascii_hexdigit());
        let number = is_hex.then(|| u128::from_str_radix(text, 16).ok()).flatten();
        number.map(Self).ok_or_else(|| format!("{text:?} is no digest: 32 hexadecimal digits"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_depends_on_every_rule_and_not_on_their_order() {
        let (a, b) = (Digest::of("a", 1, "{}"), Digest::of("b", 1, "{}"));
        let both = Digest::default().with(a).with(b);
        assert_eq!(both, Digest::default().with(b).with(a));
        assert_eq!(both.without(a), b);
        assert_eq!(both.without(b).without(a), Digest::default());
        for other in [Digest::of("a", 2, "{}"), Digest::of("a", 1, "{ }"), Digest::of("a{", 1, "}")] {
            assert_ne!(other, a);
        }
    }

    #[test]
    fn it_is_the_same_for_ever() {
        let text = "4cee44c0e40a732809f6c7d6c2366700";
        let digest = Digest::of("my-link", 1, "{}");
        assert_eq!(digest.to_string(), text, "those who are connected would all begin anew");
        assert_eq!(text.parse(), Ok(digest));
        assert_eq!(Digest::from_bytes(&digest.to_bytes()), Some(digest));
        for text in ["", "a", "+cee44c0e40a732809f6c7d6c2366700", &format!("{text}0")] {
            assert!(text.parse::<Digest>().is_err(), "{text:?}");
        }
    }
}
