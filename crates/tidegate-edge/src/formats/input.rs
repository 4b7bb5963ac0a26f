//! A file's bytes, with the line that they are on.

use std::io::{self, Read};

use super::MAX_RECORD_BYTES;

const BUFFER: usize = 64 << 10;

/// What some editors put in front.
const MARK: &[u8] = "\u{feff}".as_bytes();

/// A file, as far as it was read.
pub(super) struct Input {
    from: Box<dyn Read + Send>,
    buffer: Box<[u8]>,
    at: usize,
    end: usize,
    /// Lines that have ended.
    ended: u64,
    is_inside: bool,
    bytes: u64,
    is_begun: bool,
}

/// A line that was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Line {
    /// It is all there, without its end.
    Whole,
    /// It is longer than any rule: only its start is there.
    TooLong,
}

impl Input {
    pub(super) fn new(from: Box<dyn Read + Send>) -> Self {
        Self {
            from,
            buffer: vec![0; BUFFER].into_boxed_slice(),
            at: 0,
            end: 0,
            ended: 0,
            is_inside: false,
            bytes: 0,
            is_begun: false,
        }
    }

    /// Lines that were begun.
    pub(super) fn lines(&self) -> u64 {
        self.ended + u64::from(self.is_inside)
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The line that the next byte is on, from 1 on.
    pub(super) fn line(&self) -> u64 {
        self.ended + 1
    }

    /// Has something to read, unless the file has ended.
    fn fill(&mut self) -> io::Result<bool> {
        if self.at < self.end {
            return Ok(true);
        }
        (self.at, self.end) = (0, 0);
        self.read()?;
        if !self.is_begun {
            self.is_begun = true;
            // It may come in pieces.
            while self.end < MARK.len() && MARK.starts_with(&self.buffer[..self.end]) && self.read()? {}
            if self.buffer[..self.end].starts_with(MARK) {
                (self.at, self.bytes) = (MARK.len(), MARK.len() as u64);
                return self.fill();
            }
        }
        Ok(self.end > 0)
    }

    /// Reads something behind what is there; whether the file has not ended.
    fn read(&mut self) -> io::Result<bool> {
        loop {
            match self.from.read(&mut self.buffer[self.end..]) {
                Ok(count) => {
                    self.end += count;
                    return Ok(count > 0);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// The next byte, which stays.
    pub(super) fn peek(&mut self) -> io::Result<Option<u8>> {
        Ok(self.fill()?.then(|| self.buffer[self.at]))
    }

    /// The next byte.
    pub(super) fn byte(&mut self) -> io::Result<Option<u8>> {
        if !self.fill()? {
            return Ok(None);
        }
        let byte = self.buffer[self.at];
        self.at += 1;
        self.bytes += 1;
        self.is_inside = byte != b'\n';
        self.ended += u64::from(byte == b'\n');
        Ok(Some(byte))
    }

    /// Appends the next line, without its end; none if there is none.
    pub(super) fn read_line(&mut self, into: &mut Vec<u8>) -> io::Result<Option<Line>> {
        if !self.fill()? {
            return Ok(None);
        }
        let mut line = Line::Whole;
        let start = into.len();
        while self.fill()? {
            let rest = &self.buffer[self.at..self.end];
            let found = rest.iter().position(|byte| *byte == b'\n');
            let taken = &rest[..found.unwrap_or(rest.len())];
            let room = MAX_RECORD_BYTES.saturating_sub(into.len());
            if taken.len() > room {
                line = Line::TooLong;
            }
            into.extend_from_slice(&taken[..taken.len().min(room)]);
            let count = taken.len() + usize::from(found.is_some());
            self.at += count;
            self.bytes += count as u64;
            self.is_inside = found.is_none();
            if found.is_some() {
                self.ended += 1;
                break;
            }
        }
        if into.len() > start && into.ends_with(b"\r") {
            into.pop();
        }
        Ok(Some(line))
    }

    /// Reads what is left, which is nobody's: whether the file breaks off is known only then.
    pub(super) fn finish(&mut self) -> io::Result<()> {
        while self.fill()? {
            let rest = &self.buffer[self.at..self.end];
            self.bytes += rest.len() as u64;
            self.ended += rest.iter().filter(|byte| **byte == b'\n').count() as u64;
            self.is_inside = rest.last() != Some(&b'\n');
            self.at = self.end;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn input(bytes: impl Into<Vec<u8>>) -> Input {
        Input::new(Box::new(io::Cursor::new(bytes.into())))
    }

    #[test]
    fn lines_end_in_any_way() {
        let mut input = input("\u{feff}a\r\n\nb");
        let mut lines = Vec::new();
        let mut line = Vec::new();
        while let Some(how) = input.read_line(&mut line).unwrap() {
            lines.push((String::from_utf8(std::mem::take(&mut line)).unwrap(), how, input.lines()));
        }
        let whole = |text: &str, number| (text.to_owned(), Line::Whole, number);
        assert_eq!(lines, [whole("a", 1), whole("", 2), whole("b", 3)]);
        assert_eq!(input.bytes(), 8);
    }

    #[test]
    fn a_mark_in_front_may_come_in_pieces() {
        for (text, expected) in [
            ("\u{feff}a,b", "a,b"),
            ("\u{feff}", ""),
            ("\u{feff}\u{feff}", "\u{feff}"),
            ("\u{fec0}a", "\u{fec0}a"),
            ("a", "a"),
            ("", ""),
        ] {
            for first in 0..=text.len().min(4) {
                let (front, rest) = text.as_bytes().split_at(first);
                let (front, rest) = (front.to_vec(), rest.to_vec());
                let mut input = Input::new(Box::new(io::Cursor::new(front).chain(io::Cursor::new(rest))));
                let mut line = Vec::new();
                input.read_line(&mut line).unwrap();
                assert_eq!(String::from_utf8_lossy(&line), expected, "{text:?} in pieces of {first}");
                assert_eq!(input.bytes(), text.len() as u64);
            }
        }
    }

    #[test]
    fn a_long_line_is_cut_and_the_next_is_whole() {
        let mut input = input(format!("{}\nb", "a".repeat(MAX_RECORD_BYTES + 1)));
        let mut line = Vec::new();
        assert_eq!(input.read_line(&mut line).unwrap(), Some(Line::TooLong));
        assert_eq!(line.len(), MAX_RECORD_BYTES);
        line.clear();
        assert_eq!(input.read_line(&mut line).unwrap(), Some(Line::Whole));
        assert_eq!((&*line, input.lines()), (&b"b"[..], 2));
        assert_eq!(input.read_line(&mut line).unwrap(), None);
    }

    #[test]
    fn what_is_left_is_counted() {
        for text in ["a\nb\nc", "a\nb\nc\n"] {
            let mut input = input(text);
            input.read_line(&mut Vec::new()).unwrap();
            input.finish().unwrap();
            assert_eq!((input.lines(), input.bytes()), (3, text.len() as u64));
        }
    }

    #[test]
    fn bytes_know_their_line() {
        let mut input = input("a\nb");
        let mut seen = Vec::new();
        while let Some(byte) = input.peek().unwrap() {
            seen.push((byte, input.line()));
            assert_eq!(input.byte().unwrap(), Some(byte));
        }
        assert_eq!(seen, [(b'a', 1), (b'\n', 1), (b'b', 2)]);
        assert_eq!((input.lines(), input.bytes()), (2, 3));
    }
}
