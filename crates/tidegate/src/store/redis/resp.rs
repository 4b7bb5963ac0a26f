//! What servers answer, out of bytes as they come.
//!
//! Version 2 of the protocol, which every server speaks. A reply may come in any number
//! of pieces; what was read of it is not read again.

use bytes::{Buf as _, BytesMut};
use redis::Value;

/// The deepest nesting that is read; scripts answer lists of lists.
const MAX_DEPTH: usize = 16;

/// The longest line that is waited for: errors are lines.
const MAX_LINE_BYTES: usize = 64 * 1024;

/// The longest text; a server sends no longer one either.
const MAX_TEXT_BYTES: usize = 512 << 20;

/// A whole reply: a value, or the text of an error.
pub(super) type Reply = Result<Value, String>;

/// It is no Redis: what it said, in short.
#[derive(Debug)]
pub(super) struct NotRedis(pub(super) String);

/// Reads replies.
#[derive(Debug, Default)]
pub(super) struct Parser {
    /// Lists whose items have not all come, the outermost first.
    open: Vec<List>,
}

#[derive(Debug)]
struct List {
    left: usize,
    items: Vec<Value>,
}

impl Parser {
    /// The next reply in `bytes`, which is cut to what comes after it; none if its end
    /// has not come yet.
    pub(super) fn next(&mut self, bytes: &mut BytesMut) -> Result<Option<Reply>, NotRedis> {
        loop {
            let Some(reply) = self.element(bytes)? else { return Ok(None) };
            let mut value = match reply {
                Element::Value(value) => value,
                Element::Error(text) if self.open.is_empty() => return Ok(Some(Err(text))),
                // Inside a list it is for whoever knows the list.
                Element::Error(text) => Value::SimpleString(text),
                Element::List(left) => {
                    if self.open.len() == MAX_DEPTH {
                        return Err(NotRedis(format!("lists nested deeper than {MAX_DEPTH}")));
                    }
                    self.open.push(List { left, items: Vec::with_capacity(left.min(1024)) });
                    continue;
                }
            };
            // A value may be the last of its list, and that of its own.
            loop {
                let Some(list) = self.open.last_mut() else { return Ok(Some(Ok(value))) };
                list.items.push(value);
                list.left -= 1;
                if list.left > 0 {
                    break;
                }
                value = Value::Array(self.open.pop().map(|list| list.items).unwrap_or_default());
            }
        }
    }

    /// One line, and the text that it announces.
    fn element(&mut self, bytes: &mut BytesMut) -> Result<Option<Element>, NotRedis> {
        let Some(first) = bytes.first().copied() else { return Ok(None) };
        if !b"+-:$*".contains(&first) {
            return Err(not_redis(bytes));
        }
        let Some(end) = bytes.iter().position(|byte| *byte == b'\n') else {
            return if bytes.len() > MAX_LINE_BYTES { Err(not_redis(bytes)) } else { Ok(None) };
        };
        let line = bytes[1..end].strip_suffix(b"\r").ok_or_else(|| not_redis(bytes))?;
        let text = || String::from_utf8_lossy(line).into_owned();
        let number = || -> Result<i64, NotRedis> {
            let number = std::str::from_utf8(line).ok().and_then(|line| line.parse().ok());
            number.ok_or_else(|| not_redis(bytes))
        };
        let element = match first {
            b'+' if line == b"OK" => Element::Value(Value::Okay),
            b'+' => Element::Value(Value::SimpleString(text())),
            b'-' => Element::Error(text()),
            b':' => Element::Value(Value::Int(number()?)),
            b'*' => match number()? {
                -1 => Element::Value(Value::Nil),
                0 => Element::Value(Value::Array(Vec::new())),
                count => Element::List(usize::try_from(count).map_err(|_| not_redis(bytes))?),
            },
            _ => match number()? {
                -1 => Element::Value(Value::Nil),
                length => {
                    let length = usize::try_from(length).ok().filter(|length| *length <= MAX_TEXT_BYTES);
                    let length = length.ok_or_else(|| not_redis(bytes))?;
                    let Some(text) = bytes.get(end + 1..end + 1 + length + 2) else { return Ok(None) };
                    let text = Value::BulkString(text[..length].to_vec());
                    bytes.advance(end + 1 + length + 2);
                    return Ok(Some(Element::Value(text)));
                }
            },
        };
        bytes.advance(end + 1);
        Ok(Some(element))
    }
}

enum Element {
    Value(Value),
    Error(String),
    List(usize),
}

fn not_redis(bytes: &BytesMut) -> NotRedis {
    let start = String::from_utf8_lossy(&bytes[..bytes.len().min(40)]);
    NotRedis(format!("it answers {start:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str, piece: usize) -> Vec<Reply> {
        let (mut parser, mut bytes, mut replies) = (Parser::default(), BytesMut::new(), Vec::new());
        for piece in text.as_bytes().chunks(piece) {
            bytes.extend_from_slice(piece);
            while let Some(reply) = parser.next(&mut bytes).unwrap() {
                replies.push(reply);
            }
        }
        assert!(bytes.is_empty());
        replies
    }

    #[test]
    fn pieces_of_any_size_make_the_same_replies() {
        let text = "+OK\r\n:-12\r\n$-1\r\n$5\r\na\r\nbc\r\n$0\r\n\r\n*0\r\n*-1\r\n-OOM no\r\n+PONG\r\n\
                    *3\r\n*2\r\n:1\r\n$1\r\nx\r\n-ERR inner\r\n*1\r\n*1\r\n:2\r\n:3\r\n";
        let bulk = |text: &str| Value::BulkString(text.as_bytes().to_vec());
        let expected = [
            Ok(Value::Okay),
            Ok(Value::Int(-12)),
            Ok(Value::Nil),
            Ok(bulk("a\r\nbc")),
            Ok(bulk("")),
            Ok(Value::Array(Vec::new())),
            Ok(Value::Nil),
            Err("OOM no".to_owned()),
            Ok(Value::SimpleString("PONG".to_owned())),
            Ok(Value::Array(vec![
                Value::Array(vec![Value::Int(1), bulk("x")]),
                Value::SimpleString("ERR inner".to_owned()),
                Value::Array(vec![Value::Array(vec![Value::Int(2)])]),
            ])),
            Ok(Value::Int(3)),
        ];
        for piece in 1..=text.len() {
            assert_eq!(parsed(text, piece), expected, "{piece}");
        }
    }

    #[test]
    fn what_is_not_redis_is_told_at_once() {
        let deep = "*1\r\n".repeat(MAX_DEPTH + 1);
        for text in ["HTTP/1.1 400", "$x\r\n", "*-2\r\n", ":1\n", "$99999999999\r\n", &deep] {
            let mut bytes = BytesMut::from(text);
            assert!(Parser::default().next(&mut bytes).is_err(), "{text:?}");
        }
    }
}
