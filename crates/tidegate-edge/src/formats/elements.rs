//! The elements of a list in JSON, one at a time: a file that is one value need not be in memory as a whole.
//!
//! Only as much is understood here as it takes to find where an element begins and ends; what it says is parsed by
//! whoever wants it.

use std::io;

use super::MAX_RECORD_BYTES;
use super::input::Input;
use super::problem::Problem;

/// Finds elements: of the list that the file is, or of a list or object that its object has under one of some names.
#[derive(Default)]
pub(super) struct Elements {
    state: State,
    /// Whether the list is the file itself.
    pub(super) is_bare: bool,
    /// Elements that were found: a whole list may be on one line.
    pub(super) count: u64,
}

#[derive(Default, Clone, Copy, PartialEq)]
enum State {
    #[default]
    Start,
    /// In the file's object, before a name.
    Names,
    /// In the list, or in the object, whose values are elements.
    List {
        close: u8,
    },
    End,
}

/// An element as text, and where it begins.
pub(super) type Element = (u64, Vec<u8>);

impl Elements {
    /// The next element; what is no JSON ends the file.
    pub(super) fn next(
        &mut self,
        input: &mut Input,
        names: &[&str],
    ) -> io::Result<Option<Result<Element, Problem>>> {
        loop {
            let byte = spaces(input)?;
            let line = input.line();
            match (self.state, byte) {
                (State::End, _) | (State::Start, None) => return Ok(None),
                (_, None) => return Ok(self.broken(line, "the file ends inside its JSON")),
                (State::Start, Some(b'[')) => {
                    input.byte()?;
                    self.is_bare = true;
                    self.state = State::List { close: b']' };
                }
                (State::Start, Some(b'{')) => {
                    input.byte()?;
                    self.state = State::Names;
                }
                (State::Start, Some(_)) => return Ok(self.broken(line, "it is neither a list nor an object")),
                (State::Names | State::List { .. }, Some(b',')) => {
                    input.byte()?;
                }
                (State::Names, Some(b'}')) => {
                    input.byte()?;
                    self.state = State::End;
                }
                (State::List { close }, Some(byte)) if byte == close => {
                    input.byte()?;
                    self.state = if self.is_bare { State::End } else { State::Names };
                }
                (State::Names, Some(_)) => {
                    let name = match self.name(input)? {
                        Ok(name) => name,
                        Err(message) => return Ok(self.broken(line, message)),
                    };
                    match spaces(input)? {
                        Some(open @ (b'[' | b'{')) if names.contains(&&*name) => {
                            input.byte()?;
                            self.state = State::List { close: if open == b'[' { b']' } else { b'}' } };
                        }
                        _ => {
                            if let Err(message) = value(input, false)? {
                                return Ok(self.broken(line, message));
                            }
                        }
                    }
                }
                (State::List { close }, Some(_)) => {
                    if close == b'}'
                        && let Err(message) = self.name(input)?
                    {
                        return Ok(self.broken(line, message));
                    }
                    spaces(input)?;
                    self.count += 1;
                    let line = input.line();
                    return Ok(match value(input, true)? {
                        Ok(bytes) => Some(Ok((line, bytes))),
                        Err(message) => self.broken(line, message),
                    });
                }
            }
        }
    }

    fn broken(&mut self, line: u64, message: impl Into<String>) -> Option<Result<Element, Problem>> {
        self.state = State::End;
        Some(Err(Problem::new(line, message.into() + ": what follows is not read")))
    }

    /// A name and the colon behind it.
    fn name(&self, input: &mut Input) -> io::Result<Result<String, String>> {
        let bytes = match value(input, true)? {
            Ok(bytes) => bytes,
            Err(message) => return Ok(Err(message)),
        };
        let Ok(name) = serde_json::from_slice(&bytes) else {
            return Ok(Err(format!("{:?} is no name", String::from_utf8_lossy(&bytes))));
        };
        if spaces(input)? != Some(b':') {
            return Ok(Err(format!("there is no : behind {name:?}")));
        }
        input.byte()?;
        Ok(Ok(name))
    }
}

/// Passes over spaces; what is behind them.
fn spaces(input: &mut Input) -> io::Result<Option<u8>> {
    loop {
        match input.peek()? {
            Some(b' ' | b'\t' | b'\r' | b'\n') => input.byte()?,
            other => return Ok(other),
        };
    }
}

/// One value, however deep, up to what is behind it. It is only kept if it is wanted, and bounded then.
fn value(input: &mut Input, is_kept: bool) -> io::Result<Result<Vec<u8>, String>> {
    let mut bytes = Vec::new();
    let (mut depth, mut is_string, mut is_escaped) = (0_usize, false, false);
    let start = input.bytes();
    while let Some(byte) = input.peek()? {
        let is_between = !is_string && depth == 0;
        if is_between && matches!(byte, b',' | b']' | b'}' | b':' | b' ' | b'\t' | b'\r' | b'\n') {
            break;
        }
        input.byte()?;
        if is_kept {
            bytes.push(byte);
            if bytes.len() > MAX_RECORD_BYTES {
                return Ok(Err(format!("it is too long for a rule ({MAX_RECORD_BYTES} bytes)")));
            }
        }
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if is_string => is_escaped = true,
            b'"' => is_string = !is_string,
            b'[' | b'{' if !is_string => depth += 1,
            b']' | b'}' if !is_string => depth -= 1,
            _ => {}
        }
        let is_closed = !is_string && depth == 0 && matches!(byte, b'"' | b']' | b'}');
        if is_closed {
            break;
        }
    }
    if is_string || depth > 0 {
        return Ok(Err("the file ends inside its JSON".to_owned()));
    }
    if input.bytes() == start {
        return Ok(Err("a value is missing in its JSON".to_owned()));
    }
    Ok(Ok(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(text: &str) -> Vec<String> {
        let mut input = Input::new(Box::new(io::Cursor::new(text.to_owned().into_bytes())));
        let mut elements = Elements::default();
        let mut found = Vec::new();
        while let Some(element) = elements.next(&mut input, &["list"]).unwrap() {
            found.push(match element {
                Ok((line, bytes)) => format!("{line} {}", String::from_utf8(bytes).unwrap()),
                Err(problem) => format!("{}! {}", problem.line, problem.message),
            });
        }
        found
    }

    #[test]
    fn elements_are_found_wherever_they_are() {
        assert_eq!(all(""), [] as [&str; 0]);
        assert_eq!(all("[]"), [] as [&str; 0]);
        assert_eq!(all("[1, {\"a\": [\"]}\\\"\"]},\n\"x\"]"), ["1 1", "1 {\"a\": [\"]}\\\"\"]}", "2 \"x\""]);
        assert_eq!(
            all("{\"other\": [1], \"list\":\n[\n{}], \"list\" : {\"a\": {}, \"b\":2}}"),
            ["3 {}", "3 {}", "3 2"]
        );
        assert_eq!(all("{\"list\": 5, \"x\": \"}\"}"), [] as [&str; 0]);
    }

    #[test]
    fn what_is_no_json_ends_the_file() {
        for text in
            ["x", "[1", "[{", "{\"list\" 1}", "{\"list\": [\"", "{1", "{[]: 1}", "[:", "[}", "{\"list\": }"]
        {
            let found = all(text);
            assert!(found.last().is_some_and(|it| it.contains("! ")), "{text}: {found:?}");
        }
        let long = format!("[\"{}\", 1]", "a".repeat(MAX_RECORD_BYTES));
        assert_eq!(all(&long), ["1! it is too long for a rule (131072 bytes): what follows is not read"]);
        let passed = format!("{{\"x\": \"{}\", \"list\": [1]}}", "a".repeat(MAX_RECORD_BYTES));
        assert_eq!(all(&passed), ["1 1"], "what is not wanted may be long");
    }
}
