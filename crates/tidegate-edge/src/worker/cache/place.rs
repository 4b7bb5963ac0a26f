//! Where a key belongs, by its hash.

/// The shard, and where in it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    pub(super) shard: usize,
    pub(super) tag: u32,
}

impl Place {
    /// In so many shards, as a power of two: the first bits of a hash are the shard's number, the next 32 the tag.
    #[inline]
    pub(super) fn new(hash: u64, shard_bits: u32) -> Self {
        let shifted = u128::from(hash) << shard_bits;
        Self { shard: (shifted >> 64) as usize, tag: (shifted >> 32) as u32 }
    }
}

/// The first bits of a hash, which stand in front of a record: enough to find its slot, by where the record is.
#[derive(Debug, Clone, Copy)]
pub(super) struct Prefix(u32);

impl Prefix {
    const BITS: u32 = 24;
    const BITS_PER_BYTE: u32 = 6;

    /// Bytes that it has as text.
    pub(super) const LEN: usize = (Self::BITS / Self::BITS_PER_BYTE) as usize;

    pub(super) fn new(hash: u64) -> Self {
        Self((hash >> (u64::BITS - Self::BITS)) as u32)
    }

    pub(super) fn push_to(self, text: &mut String) {
        let digit = |at: usize| (self.0 >> (at as u32 * Self::BITS_PER_BYTE)) as u8 & 0x3F;
        text.extend((0..Self::LEN).map(|at| char::from(digit(at))));
    }

    pub(super) fn read(text: &str) -> Self {
        let digits = text.bytes().rev();
        Self(digits.fold(0, |number, digit| number << Self::BITS_PER_BYTE | u32::from(digit)))
    }

    /// The shard, and the first and the last tag of what it may be.
    pub(super) fn places(self, shard_bits: u32) -> (usize, (u32, u32)) {
        let first = Place::new(u64::from(self.0) << (u64::BITS - Self::BITS), shard_bits);
        let unknown_bits = u32::BITS + shard_bits - Self::BITS;
        (first.shard, (first.tag, first.tag | ((1 << unknown_bits) - 1)))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_prefix_is_of_the_place_of_its_hash(hash in any::<u64>(), shard_bits in 0..=16_u32) {
            let mut text = String::new();
            Prefix::new(hash).push_to(&mut text);
            prop_assert!(text.is_ascii() && text.len() == Prefix::LEN);
            let place = Place::new(hash, shard_bits);
            let (shard, (first, last)) = Prefix::read(&text).places(shard_bits);
            prop_assert_eq!(shard, place.shard);
            prop_assert!((first..=last).contains(&place.tag), "{first} {} {last}", place.tag);
            prop_assert!(place.shard < 1 << shard_bits);
            prop_assert_eq!(last - first, ((1_u64 << (8 + shard_bits)) - 1) as u32);
        }
    }
}
