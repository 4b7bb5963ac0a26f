//! The newest bucket of a key, and what is short enough to be packed beside its number.

use super::LIVES;

/// The number of the newest bucket, and four things that are short.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Newest(u64);

impl Newest {
    /// There is an older bucket.
    pub(super) const HAS_OLDER: u64 = 1 << 8;
    /// There is a remembered capacity, something was refunded from the newest
    /// bucket, or there is one ahead of it.
    pub(super) const HAS_QUIRKS: u64 = 1 << 9;
    /// Where the life stands, see [`LIVES`].
    const LIFE: u32 = 10;

    /// A number of 48 bits: that of the year 10889, in milliseconds.
    #[inline]
    pub(super) fn number(self) -> u64 {
        self.0 >> 16
    }

    /// The oldest of the older buckets, whose number has these low bits.
    #[inline]
    pub(super) fn oldest(self) -> u64 {
        number(self.0 as u8, self.number())
    }

    #[inline]
    pub(super) fn has(self, flag: u64) -> bool {
        self.0 & flag != 0
    }

    pub(super) fn set(&mut self, flag: u64, on: bool) {
        self.0 = if on { self.0 | flag } else { self.0 & !flag };
    }

    pub(super) fn set_number(&mut self, number: u64) {
        self.0 = number << 16 | self.0 & 0xFFFF;
    }

    pub(super) fn set_oldest(&mut self, low_bits: Option<u8>) {
        self.0 = self.0 & !0xFF | u64::from(low_bits.unwrap_or_default());
        self.set(Self::HAS_OLDER, low_bits.is_some());
    }

    /// Which of the key's lives this is.
    #[inline]
    pub(super) fn life(self) -> u64 {
        self.0 >> Self::LIFE & (LIVES - 1)
    }

    /// The same in the next life.
    pub(super) fn reborn(self) -> Self {
        Self(self.number() << 16 | ((self.life() + 1) % LIVES) << Self::LIFE)
    }
}

/// The number of a bucket by its low bits: the last such one up to the newest.
#[inline]
pub(super) fn number(low_bits: u8, newest: u64) -> u64 {
    newest - u64::from((newest as u8).wrapping_sub(low_bits))
}
