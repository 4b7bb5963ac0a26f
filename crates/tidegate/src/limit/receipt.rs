//! Receipts: proof of one charge to one key.
//!
//! In this process a receipt is a value that nobody can make up. As text it leaves the
//! process and comes back from whoever had it, so the text carries a check that only
//! those who share the store can make: over the limit, the key, the bucket with the
//! key's life, the offset and the cost. It is made when a receipt becomes text and looked
//! at when text is read; a take pays nothing for it.

use std::fmt;

use crate::bounds::MAX_COUNT;
use crate::error::{Error, Result};
use crate::store::Secret;

/// Proof of one charge to one key: refunding it gives back that charge, once,
/// and never another. [`Limit::receipt_text`](super::Limit::receipt_text) makes it text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Receipt {
    /// The bucket, and which of the key's lives it was charged in.
    pub(super) bucket: u64,
    /// How much had been charged to the bucket before: no two charges share it.
    pub(super) offset: u64,
    pub(super) cost: u64,
    /// A hash of whom it was charged to.
    pub(super) subject: u32,
}

impl Receipt {
    /// What was charged.
    pub fn cost(&self) -> u64 {
        self.cost
    }

    /// As text, of a key of the limit with this id.
    pub(super) fn to_text(self, secret: Secret, limit: &str, key: &str) -> ReceiptText {
        let Self { bucket, offset, cost, .. } = self;
        let check = secret.check([limit, key], [bucket, offset, cost]);
        ReceiptText { bucket, offset, cost, check }
    }
}

/// A receipt as text, opaque to whoever gets it: keep it, send it back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReceiptText {
    bucket: u64,
    offset: u64,
    cost: u64,
    check: u64,
}

impl ReceiptText {
    /// The receipt of `key`, if it is one; `subject` is the key's hash.
    pub(super) fn read(text: &str, secret: Secret, limit: &str, key: &str, subject: u32) -> Result<Receipt> {
        Self::parse(text)
            .map(|it| (it, Receipt { bucket: it.bucket, offset: it.offset, cost: it.cost, subject }))
            .filter(|(it, receipt)| receipt.to_text(secret, limit, key) == *it)
            .map(|(_, receipt)| receipt)
            .ok_or_else(|| {
                let shown: String = text.chars().take(80).collect();
                Error::invalid(format!(
                    "{shown:?} is not a receipt of this key and limit: send back the one a take answered"
                ))
            })
    }

    fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split('-');
        // One number has one text: a receipt that was changed is none.
        let is_whole = |part: &&str| part.bytes().all(|byte| byte.is_ascii_digit());
        let is_short = |part: &&str| *part == "0" || !part.starts_with('0');
        let mut number = || {
            let digits = parts.next().filter(is_whole).filter(is_short)?;
            digits.parse::<u64>().ok().filter(|number| *number <= MAX_COUNT)
        };
        let (bucket, offset, cost) = (number()?, number()?, number()?);
        let is_hex = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        let check = parts.next().filter(|part| part.len() == 16 && part.bytes().all(is_hex))?;
        let check = u64::from_str_radix(check, 16).ok()?;
        (parts.next().is_none() && cost > 0).then_some(Self { bucket, offset, cost, check })
    }
}

impl fmt::Display for ReceiptText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}-{}-{:016x}", self.bucket, self.offset, self.cost, self.check)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn receipts_survive_being_text_and_nothing_else_does() {
        let secret = Secret::random();
        let receipt = Receipt { bucket: 12, offset: 0, cost: 7, subject: u32::MAX };
        let text = receipt.to_text(secret, "api", "user").to_string();
        let read = |text: &str| ReceiptText::read(text, secret, "api", "user", u32::MAX);
        assert_eq!(read(&text).unwrap(), receipt);
        let check = text.rsplit_once('-').unwrap().1;
        let bad = [
            "",
            "12-0-7",
            // As they were before they had a check.
            "12-0-7-4294967295",
            &format!("12-0-6-{check}"),
            &format!("12-1-7-{check}"),
            &format!("13-0-7-{check}"),
            &format!("12-0-0-{check}"),
            &format!("+12-0-7-{check}"),
            &format!("12-00-7-{check}-1"),
            &format!("012-0-7-{check}"),
            &format!("12-00-7-{check}"),
            &format!("12-0-07-{check}"),
            &format!("12--7-{check}"),
            &format!("12-0-7-{}", check.to_uppercase() + "0"),
            &format!("12-0-9007199254740992-{check}"),
            "12-0-7-0000000000000000",
            "a-b-c-d",
        ];
        for bad in bad {
            assert_eq!(read(bad).unwrap_err().kind(), crate::ErrorKind::Invalid, "{bad}");
        }
        assert!(ReceiptText::read(&text, secret, "api", "other", 1).is_err());
        assert!(ReceiptText::read(&text, secret, "other", "user", 1).is_err());
        assert!(ReceiptText::read(&text, Secret::random(), "api", "user", 1).is_err());
    }
}
