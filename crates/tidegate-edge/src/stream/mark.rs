//! Where a follower is.

use std::fmt;
use std::str::FromStr;

use crate::truth::{Digest, Position, Seq};

/// A place in the stream: the last change that was applied, and what all rules were then. As text `EPOCH:SEQ:DIGEST`, the
/// id of each event.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Mark {
    /// Of which time between two goings back of the database.
    pub epoch: String,
    /// The last change.
    pub seq: Seq,
    /// Of all rules after it.
    pub digest: Digest,
}

impl From<&Position> for Mark {
    fn from(position: &Position) -> Self {
        Self { epoch: position.epoch.clone(), seq: position.seq, digest: position.digest }
    }
}

impl fmt::Display for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.epoch, self.seq, self.digest)
    }
}

impl FromStr for Mark {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts: Vec<_> = text.split(':').collect();
        let [epoch, seq, digest] = parts[..] else {
            return Err(format!("{text:?} is no position: EPOCH:SEQ:DIGEST is"));
        };
        let is_number = !seq.is_empty() && seq.bytes().all(|it| it.is_ascii_digit());
        let seq = is_number.then(|| seq.parse().ok()).flatten();
        let seq = seq.ok_or_else(|| format!("{text:?} is no position: it has no number in the middle"))?;
        Ok(Self { epoch: epoch.to_owned(), seq: Seq(seq), digest: digest.parse()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_comes_back_as_it_went_out() {
        let mark = Mark { epoch: "e-1".to_owned(), seq: Seq(42), digest: Digest::of("a", 1, "{}") };
        assert_eq!(mark.to_string().parse(), Ok(mark.clone()));
        let digest = mark.digest.to_string();
        for wrong in
            ["", "e", "e:1", "e:x:0", "e:+1:0", "e:1:0", &format!("e::{digest}"), &format!("e:1:{digest}:")]
        {
            assert!(wrong.parse::<Mark>().is_err(), "{wrong:?}");
        }
    }
}
