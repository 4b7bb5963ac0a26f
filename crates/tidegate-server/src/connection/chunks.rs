//! Where a body in chunks ends. It is read elsewhere: here only its end is looked for, so that
//! the head behind it can be judged before it is read.
//!
//! Nothing is taken for chunks here that hyper would not take for the same: what is between
//! them must be found alike by both.

/// The largest size of a chunk line, and of all that follows the last chunk.
const MAX_LINE_BYTES: usize = 8 * 1024;

/// What is expected next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// The first digit of a chunk's size.
    Start,
    Size,
    /// Whatever is behind the size, up to its CR.
    Extension,
    SizeLf,
    Data,
    DataCr,
    DataLf,
    /// The start of a line behind the last chunk: of a trailer, or the last.
    Line,
    Trailer,
    TrailerLf,
    LastLf,
}

/// How far a body in chunks has come.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Chunks {
    state: State,
    /// Bytes of data that are still to come.
    left: u64,
    /// Bytes of lines so far that are neither sizes nor data.
    line_bytes: usize,
}

/// What became of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Chunked {
    /// All of them are of the body.
    More,
    /// The body ends after so many of them.
    End(usize),
    /// They are not chunks, from here on.
    Broken(usize),
}

impl Chunks {
    pub(crate) fn new() -> Self {
        Self { state: State::Start, left: 0, line_bytes: 0 }
    }

    pub(crate) fn read(&mut self, bytes: &[u8]) -> Chunked {
        let mut at = 0;
        while at < bytes.len() {
            if self.state == State::Data {
                // As many as are here.
                let skipped = self.left.min((bytes.len() - at) as u64);
                self.left -= skipped;
                at += skipped as usize;
                if self.left == 0 {
                    self.state = State::DataCr;
                }
                continue;
            }
            let was_last = self.state == State::LastLf;
            let Some(next) = self.step(bytes[at]) else { return Chunked::Broken(at + 1) };
            at += 1;
            if was_last {
                return Chunked::End(at);
            }
            self.state = next;
        }
        Chunked::More
    }

    /// What is expected behind `byte`; none if it should not be here.
    fn step(&mut self, byte: u8) -> Option<State> {
        let digit = || char::from(byte).to_digit(16).map(u64::from);
        match (self.state, byte) {
            (State::Start, _) => {
                self.left = digit()?;
                Some(State::Size)
            }
            (State::Size | State::Extension, b'\r') => Some(State::SizeLf),
            (State::Size, b';' | b' ' | b'\t') => Some(State::Extension),
            (State::Size, _) => {
                self.left = self.left.checked_mul(16)?.checked_add(digit()?)?;
                Some(State::Size)
            }
            (State::Extension | State::Trailer | State::Line, b'\n') => None,
            (State::Extension, _) => self.counted(State::Extension),
            (State::SizeLf, b'\n') if self.left == 0 => Some(State::Line),
            (State::SizeLf, b'\n') => Some(State::Data),
            (State::DataCr, b'\r') => Some(State::DataLf),
            (State::DataLf, b'\n') => Some(State::Start),
            (State::Line, b'\r') => Some(State::LastLf),
            (State::Trailer, b'\r') => Some(State::TrailerLf),
            (State::Line | State::Trailer, _) => self.counted(State::Trailer),
            (State::TrailerLf, b'\n') => Some(State::Line),
            (State::LastLf, b'\n') => Some(State::Start),
            _ => None,
        }
    }

    fn counted(&mut self, next: State) -> Option<State> {
        self.line_bytes += 1;
        (self.line_bytes < MAX_LINE_BYTES).then_some(next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is said of `text`, given in pieces of `size` bytes; positions are of the whole.
    fn read(text: &str, size: usize) -> Chunked {
        let mut chunks = Chunks::new();
        for (at, piece) in text.as_bytes().chunks(size).enumerate() {
            match chunks.read(piece) {
                Chunked::More => {}
                Chunked::End(end) => return Chunked::End(at * size + end),
                Chunked::Broken(end) => return Chunked::Broken(at * size + end),
            }
        }
        Chunked::More
    }

    #[test]
    fn the_end_is_found_in_pieces_of_any_size() {
        for (text, expected) in [
            ("0\r\n\r\nGET", Chunked::End(5)),
            ("b\r\n{\"key\":\"a\"}\r\n0\r\n\r\nGET", Chunked::End(21)),
            ("1\r\na\r\n00A;x=\"y\"\r\n0123456789\r\n0 ;z\r\nx: y\r\nz: y\r\n\r\n", Chunked::End(49)),
            ("1\r\na\r\n", Chunked::More),
            ("5\r\nabc", Chunked::More),
            ("0\r\n\r", Chunked::More),
            ("z\r\n", Chunked::Broken(1)),
            ("\r\n", Chunked::Broken(1)),
            ("1\n", Chunked::Broken(2)),
            ("1;a\n", Chunked::Broken(4)),
            ("1\r\nab\r\n", Chunked::Broken(5)),
            ("0\r\n\n", Chunked::Broken(4)),
            ("0\r\na: b\n\r\n", Chunked::Broken(8)),
            ("11111111111111111\r\n", Chunked::Broken(17)),
        ] {
            for size in 1..=text.len() {
                assert_eq!(read(text, size), expected, "{text:?} in pieces of {size}");
            }
        }
    }

    #[test]
    fn what_is_around_the_chunks_has_a_bound() {
        assert_eq!(read(&format!("1;{}", "x".repeat(9000)), 512), Chunked::Broken(2 + MAX_LINE_BYTES));
        assert_eq!(read(&format!("0\r\n{}", "x".repeat(9000)), 512), Chunked::Broken(3 + MAX_LINE_BYTES));
    }
}
