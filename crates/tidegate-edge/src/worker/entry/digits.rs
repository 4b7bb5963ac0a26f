//! Numbers in a text: six bits a byte from the lowest on, each byte but the last with a mark. All are ASCII.

const MORE: u8 = 0x40;

/// Bytes that the largest number has.
pub(super) const MAX_LEN: usize = 11;

pub(super) fn push(text: &mut String, mut number: u64) {
    while number >= u64::from(MORE) {
        text.push(char::from(MORE | (number as u8 & (MORE - 1))));
        number >>= 6;
    }
    text.push(char::from(number as u8));
}

/// Reads one number after the other.
pub(super) struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { bytes: text.as_bytes(), at: 0 }
    }

    #[inline]
    pub(super) fn number(&mut self) -> u64 {
        let mut number = 0;
        let mut shift = 0;
        loop {
            let byte = self.bytes[self.at];
            self.at += 1;
            number |= u64::from(byte & (MORE - 1)) << shift;
            if byte & MORE == 0 {
                return number;
            }
            shift += 6;
        }
    }

    /// Where the next one starts.
    #[inline]
    pub(super) fn at(&self) -> usize {
        self.at
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn numbers_come_back_as_they_went_in(numbers in prop::collection::vec((any::<u64>(), 0..64_u32), 1..8)) {
            let numbers: Vec<u64> = numbers.into_iter().map(|(number, shift)| number >> shift).collect();
            let mut text = String::new();
            numbers.iter().for_each(|&it| push(&mut text, it));
            prop_assert!(text.is_ascii() && text.len() <= numbers.len() * MAX_LEN);
            let mut reader = Reader::new(&text);
            let read: Vec<u64> = numbers.iter().map(|_| reader.number()).collect();
            prop_assert_eq!(read, numbers);
            prop_assert_eq!(reader.at(), text.len());
        }
    }
}
