//! A secret that all who share a store know, and nobody who only talks to them.

use std::fmt;
use std::hash::Hasher as _;

use siphasher::sip::SipHasher24;

/// What checks are made with. On Redis it is in the marker of the first partition, in
/// this process it is gone with it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Secret(u128);

impl Secret {
    /// One that nobody can guess.
    pub(crate) fn random() -> Self {
        Self(uuid::Uuid::new_v4().as_u128())
    }

    /// One as it is stored.
    pub(crate) fn read(text: &str) -> Option<Self> {
        u128::from_str_radix(text, 16).ok().map(Self)
    }

    /// As it is stored.
    pub(crate) fn to_text(self) -> String {
        format!("{:032x}", self.0)
    }

    /// What only who knows the secret can tell of these texts and numbers.
    pub(crate) fn check(self, texts: [&str; 2], numbers: [u64; 3]) -> u64 {
        let mut hasher = SipHasher24::new_with_key(&self.0.to_le_bytes());
        for text in texts {
            // With its length, so that no two pairs of texts are told alike.
            hasher.write(&(text.len() as u64).to_le_bytes());
            hasher.write(text.as_bytes());
        }
        for number in numbers {
            hasher.write(&number.to_le_bytes());
        }
        hasher.finish()
    }
}

/// It is in no log.
impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_check_depends_on_all_of_it() {
        let (secret, other) = (Secret::random(), Secret::random());
        assert_eq!(Secret::read(&secret.to_text()), Some(secret));
        let check = secret.check(["a", "bc"], [1, 2, 3]);
        assert_eq!(check, secret.check(["a", "bc"], [1, 2, 3]));
        assert_ne!(check, other.check(["a", "bc"], [1, 2, 3]));
        for (texts, numbers) in [
            (["ab", "c"], [1, 2, 3]),
            (["a", "bd"], [1, 2, 3]),
            (["a", "bc"], [2, 2, 3]),
            (["a", "bc"], [1, 3, 2]),
            (["a", "bc"], [1, 2, 4]),
        ] {
            assert_ne!(check, secret.check(texts, numbers), "{texts:?} {numbers:?}");
        }
        assert_eq!(format!("{secret:?}"), "Secret");
    }
}
