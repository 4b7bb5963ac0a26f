//! Several short texts in one place.

use std::ops::Range;

/// `N` texts of at most 255 bytes each, one after the other. Together up to `ROOM`
/// bytes they need no allocation.
#[derive(Debug, Clone)]
pub(super) enum Texts<const N: usize, const ROOM: usize> {
    Here { ends: [u8; N], bytes: [u8; ROOM] },
    Elsewhere { ends: [u16; N], bytes: Box<[u8]> },
}

impl<const N: usize, const ROOM: usize> Texts<N, ROOM> {
    /// Empty ones.
    pub(super) const EMPTY: Self = Self::Here { ends: [0; N], bytes: [0; ROOM] };

    #[inline]
    pub(super) fn new(texts: [&str; N]) -> Self {
        let mut new = Self::EMPTY;
        new.set(texts);
        new
    }

    /// Puts others in their place. Texts that are written where they stay are not moved, which would have to wait for
    /// all of them to be written.
    #[inline]
    pub(super) fn set(&mut self, texts: [&str; N]) {
        let total: usize = texts.iter().map(|text| text.len()).sum();
        if total > ROOM.min(usize::from(u8::MAX)) {
            *self = Self::elsewhere(texts);
            return;
        }
        if matches!(self, Self::Elsewhere { .. }) {
            *self = Self::EMPTY;
        }
        let Self::Here { ends, bytes } = self else { return };
        let mut end = 0;
        for (text, at) in texts.iter().zip(ends) {
            bytes[end..end + text.len()].copy_from_slice(text.as_bytes());
            end += text.len();
            *at = end as u8;
        }
    }

    #[cold]
    fn elsewhere(texts: [&str; N]) -> Self {
        let mut end = 0;
        let ends = texts.map(|text| {
            end += text.len() as u16;
            end
        });
        Self::Elsewhere { ends, bytes: texts.concat().into_bytes().into() }
    }

    /// One of them.
    #[inline]
    pub(super) fn get(&self, number: usize) -> &[u8] {
        fn range<T: Copy + Into<usize>>(ends: &[T], number: usize) -> Range<usize> {
            let start = if number == 0 { 0 } else { ends[number - 1].into() };
            start..ends[number].into()
        }
        match self {
            Self::Here { ends, bytes } => &bytes[range(ends, number)],
            Self::Elsewhere { ends, bytes } => &bytes[range(ends, number)],
        }
    }

    /// One of them, as it came.
    pub(super) fn text(&self, number: usize) -> &str {
        // They were made of texts, each as a whole.
        std::str::from_utf8(self.get(number)).unwrap_or_default()
    }

    /// Bytes outside of it.
    #[inline]
    pub(super) fn heap(&self) -> usize {
        match self {
            Self::Here { .. } => 0,
            Self::Elsewhere { bytes, .. } => bytes.len() + super::ALLOCATION,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_come_out_as_they_went_in() {
        let long = "x".repeat(255);
        for [a, b] in [["", ""], ["a", ""], ["", "é"], ["0123456789", "0123456789012345678"], [&long, &long]]
        {
            let texts = Texts::<2, 29>::new([a, b]);
            assert_eq!([texts.text(0), texts.text(1)], [a, b]);
            assert_eq!(texts.heap() > 0, a.len() + b.len() > 29, "{a} {b}");
            for mut other in [Texts::<2, 29>::new(["before", "it"]), Texts::new([&long, "x"])] {
                other.set([a, b]);
                assert_eq!([other.text(0), other.text(1)], [a, b]);
                assert_eq!(other.heap(), texts.heap(), "{a} {b}");
            }
        }
    }
}
