//! A name and some small numbers in one place: most pages that are only counted need no allocation.

/// A number in so many bytes; what does not fit is the highest that does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Small<const BYTES: usize>([u8; BYTES]);

/// A moment, or all counts that a page ever had.
pub(super) type U48 = Small<6>;

/// Counts of a window.
pub(super) type U40 = Small<5>;

impl<const BYTES: usize> Default for Small<BYTES> {
    fn default() -> Self {
        Self([0; BYTES])
    }
}

impl<const BYTES: usize> Small<BYTES> {
    #[inline]
    pub(super) fn new(number: u64) -> Self {
        let (mut bytes, all) = ([0; BYTES], number.min((1 << (8 * BYTES)) - 1).to_le_bytes());
        bytes.copy_from_slice(&all[..BYTES]);
        Self(bytes)
    }

    #[inline]
    pub(super) fn get(self) -> u64 {
        let mut all = [0; 8];
        all[..BYTES].copy_from_slice(&self.0);
        u64::from_le_bytes(all)
    }
}

/// What fits in without an allocation.
const HERE: usize = 55;

/// Bytes: few of them inside, more of them elsewhere.
#[derive(Debug)]
pub(super) enum Bytes {
    Here([u8; HERE]),
    Elsewhere(Box<[u8]>),
}

impl Bytes {
    pub(super) fn new(parts: [&[u8]; 3]) -> Self {
        let length: usize = parts.iter().map(|part| part.len()).sum();
        if length > HERE {
            return Self::Elsewhere(parts.concat().into());
        }
        let (mut here, mut end) = ([0; HERE], 0);
        for part in parts {
            here[end..end + part.len()].copy_from_slice(part);
            end += part.len();
        }
        Self::Here(here)
    }

    /// All of them, and some more that mean nothing.
    #[inline]
    pub(super) fn get(&self) -> &[u8] {
        match self {
            Self::Here(bytes) => bytes,
            Self::Elsewhere(bytes) => bytes,
        }
    }

    /// Bytes outside of it.
    #[inline]
    pub(super) fn heap(&self) -> usize {
        match self {
            Self::Here(_) => 0,
            Self::Elsewhere(bytes) => bytes.len() + super::ALLOCATION,
        }
    }
}

/// Counts of stretches of time, which are numbered: (which, how many).
pub(super) type Slot = (u64, u64);

/// Seven bits a byte, the lowest first; all but the last have the eighth set.
fn push(bytes: &mut Vec<u8>, mut number: u64) {
    while number > 0x7f {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

#[inline]
fn pop(bytes: &mut &[u8]) -> Option<u64> {
    let (mut number, mut shift) = (0, 0);
    loop {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
        shift += 7;
    }
}

/// Slots before the one numbered `newest`, the newest first. Of each its count, twice; one more, and how many are missing in
/// between, if it is not right before the last.
pub(super) fn pack(newest: u64, slots: impl Iterator<Item = Slot>) -> Vec<u8> {
    let (mut bytes, mut last) = (Vec::new(), newest);
    for (number, count) in slots {
        let missing = last - number - 1;
        push(&mut bytes, count << 1 | u64::from(missing > 0));
        if missing > 0 {
            push(&mut bytes, missing);
        }
        last = number;
    }
    bytes
}

/// The same slots again.
#[inline]
pub(super) fn unpack(newest: u64, mut bytes: &[u8]) -> impl Iterator<Item = Slot> {
    let mut last = newest;
    std::iter::from_fn(move || {
        let twice = pop(&mut bytes)?;
        let missing = if twice & 1 == 1 { pop(&mut bytes)? } else { 0 };
        last -= missing + 1;
        Some((last, twice >> 1))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_come_out_as_they_went_in() {
        let slots = [(999, 1), (990, 63), (989, 64), (988, 0), (1, (1 << 40) - 1), (0, 300)];
        let packed = pack(1000, slots.into_iter());
        assert_eq!(unpack(1000, &packed).collect::<Vec<_>>(), slots);
        assert_eq!(unpack(7, &[]).count(), 0);
    }

    #[test]
    fn few_bytes_have_what_is_counted_and_moments() {
        for number in [0, 1, 65_535, 65_536, 1_700_000_000_000, (1 << 40) - 1, (1 << 48) - 1] {
            assert_eq!(U48::new(number).get(), number);
            assert_eq!(U40::new(number).get(), number.min((1 << 40) - 1));
        }
        assert_eq!(U48::new(u64::MAX).get(), (1 << 48) - 1);
    }
}
