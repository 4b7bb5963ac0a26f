//! Lines out of pieces, in bounded memory: a line that is too long is skipped, and
//! reported as such, without having been kept.

/// A line, or that it was too long for one.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Line<'a> {
    /// Without its end.
    Whole(&'a [u8]),
    /// It had more bytes than are allowed.
    TooLong,
}

/// What has come of a line whose end has not.
#[derive(Debug)]
pub(crate) struct Lines {
    rest: Vec<u8>,
    max_bytes: usize,
    is_too_long: bool,
    /// `rest` has been given out, and is over.
    is_over: bool,
}

impl Lines {
    pub(crate) fn new(max_bytes: usize) -> Self {
        Self { rest: Vec::new(), max_bytes, is_too_long: false, is_over: false }
    }

    /// The next line that ends in `piece`, which is cut to what comes after it; none
    /// if no line does, and then all of it has been kept.
    pub(crate) fn next<'l, 'p: 'l>(&'l mut self, piece: &mut &'p [u8]) -> Option<Line<'l>> {
        self.clear_if_over();
        let bytes = *piece;
        let Some(end) = bytes.iter().position(|byte| *byte == b'\n') else {
            self.keep(bytes);
            *piece = &[];
            return None;
        };
        *piece = &bytes[end + 1..];
        let start = &bytes[..end];
        if self.rest.is_empty() && !self.is_too_long {
            return Some(if end > self.max_bytes { Line::TooLong } else { Line::Whole(start) });
        }
        self.keep(start);
        Some(self.give())
    }

    /// The last line, if it has no end.
    pub(crate) fn last(&mut self) -> Option<Line<'_>> {
        self.clear_if_over();
        let is_there = self.is_too_long || !self.rest.is_empty();
        is_there.then(|| self.give())
    }

    fn clear_if_over(&mut self) {
        if std::mem::take(&mut self.is_over) {
            self.rest.clear();
        }
    }

    fn keep(&mut self, bytes: &[u8]) {
        self.is_too_long |= self.rest.len() + bytes.len() > self.max_bytes;
        match self.is_too_long {
            true => self.rest.clear(),
            false => self.rest.extend_from_slice(bytes),
        }
    }

    fn give(&mut self) -> Line<'_> {
        self.is_over = true;
        match std::mem::take(&mut self.is_too_long) {
            true => Line::TooLong,
            false => Line::Whole(&self.rest),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The lines of `text`, given in pieces of `size` bytes; none for one too long.
    fn lines(text: &str, size: usize, max_bytes: usize) -> Vec<Option<String>> {
        let own = |line: Line<'_>| match line {
            Line::Whole(line) => Some(String::from_utf8(line.to_vec()).unwrap()),
            Line::TooLong => None,
        };
        let (mut lines, mut seen) = (Lines::new(max_bytes), Vec::new());
        for piece in text.as_bytes().chunks(size) {
            let mut piece = piece;
            while let Some(line) = lines.next(&mut piece) {
                seen.push(own(line));
            }
        }
        seen.extend(lines.last().map(own));
        seen
    }

    #[test]
    fn pieces_of_any_size_make_the_same_lines() {
        let text = "a\n\nbcd\nefghi\nj\nklmnop\nq";
        for size in 1..=text.len() {
            let expected = ["a", "", "bcd", "-", "j", "-", "q"].map(|it| (it != "-").then(|| it.to_owned()));
            assert_eq!(lines(text, size, 4), expected, "{size}");
            let whole: Vec<_> = text.split('\n').map(|it| Some(it.to_owned())).collect();
            assert_eq!(lines(text, size, 6), whole, "{size}");
        }
        assert_eq!(lines("a\n", 1, 4), [Some("a".to_owned())], "an end is not another line");
        assert_eq!(lines("abcdefgh", 3, 4), [None], "too long, and without an end");
        assert_eq!(lines("", 3, 4), []);
    }

    #[test]
    fn what_is_too_long_is_not_kept() {
        let mut lines = Lines::new(10);
        for _ in 0..1000 {
            assert_eq!(lines.next(&mut &[b'x'; 100][..]), None);
            assert!(lines.rest.capacity() <= 10);
        }
    }
}
