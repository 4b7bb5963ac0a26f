//! The change stream of another server: server-sent events, read as they come.

use std::collections::VecDeque;

use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use tidegate_edge::stream::{Event, Message, Next};
use tidegate_edge::worker::OriginChanges;
use tidegate_edge::{Error, ErrorKind, Result};

use crate::address::Connected;

/// The longest line, which is a rule.
const MAX_LINE_BYTES: usize = 1 << 20;

/// Changes that come over a connection of their own.
#[derive(Debug)]
pub(crate) struct RemoteChanges {
    body: Incoming,
    parser: Parser,
    /// What was read and not taken.
    waiting: VecDeque<Message>,
    _connected: Connected,
}

impl RemoteChanges {
    pub(super) fn new(body: Incoming, connected: Connected) -> Self {
        Self { body, parser: Parser::default(), waiting: VecDeque::new(), _connected: connected }
    }
}

impl OriginChanges for RemoteChanges {
    async fn next(&mut self) -> Result<Next> {
        loop {
            if let Some(message) = self.waiting.pop_front() {
                return Ok(Next::Message(message));
            }
            let broken = |error: String| Error::new(ErrorKind::Unavailable, error);
            match self.body.frame().await {
                Some(Ok(frame)) => {
                    if let Ok(bytes) = frame.into_data() {
                        self.parser.read(&bytes, &mut self.waiting).map_err(broken)?;
                    }
                }
                Some(Err(error)) => return Err(broken(format!("the change stream broke: {error}"))),
                None => {
                    let why = Some(&self.parser.comment).filter(|comment| !comment.is_empty());
                    let why = why.map_or("the change stream ended", String::as_str);
                    return Ok(Next::Cut(why.to_owned()));
                }
            }
        }
    }
}

/// Lines on their way to be messages.
#[derive(Debug, Default)]
struct Parser {
    line: Vec<u8>,
    id: Option<String>,
    event: String,
    data: String,
    /// What was last said to nobody: why the stream ends, if it does then.
    comment: String,
}

impl Parser {
    fn read(&mut self, mut bytes: &[u8], into: &mut VecDeque<Message>) -> Result<(), String> {
        while let Some(end) = bytes.iter().position(|byte| *byte == b'\n') {
            self.line.extend_from_slice(&bytes[..end]);
            bytes = &bytes[end + 1..];
            let line = std::mem::take(&mut self.line);
            let line = String::from_utf8(line).map_err(|_| "the change stream is no text".to_owned())?;
            into.extend(self.line(line.strip_suffix('\r').unwrap_or(&line))?);
        }
        self.line.extend_from_slice(bytes);
        match self.line.len() {
            0..=MAX_LINE_BYTES => Ok(()),
            _ => Err(format!("a line of the change stream is longer than {MAX_LINE_BYTES} bytes")),
        }
    }

    /// One line; the message that it ends, if any.
    fn line(&mut self, line: &str) -> Result<Option<Message>, String> {
        let (name, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match name {
            "" if line.is_empty() => return self.message(),
            "" => value.clone_into(&mut self.comment),
            "id" => self.id = Some(value.to_owned()),
            "event" => value.clone_into(&mut self.event),
            "data" => value.clone_into(&mut self.data),
            _ => {}
        }
        Ok(None)
    }

    fn message(&mut self) -> Result<Option<Message>, String> {
        let (id, event) = (self.id.take(), std::mem::take(&mut self.event));
        let data = std::mem::take(&mut self.data);
        // Where it begins is said without an event.
        if event.is_empty() {
            return Ok(None);
        }
        let mark = id.map(|id| id.parse()).transpose()?;
        Ok(Some(Message { mark, event: Event::read(&event, &data)? }))
    }
}

#[cfg(test)]
mod tests {
    use tidegate_edge::stream::Mark;
    use tidegate_edge::truth::{Digest, Seq};

    use super::*;

    /// However it comes in pieces.
    #[test]
    fn messages_are_read_from_any_pieces() {
        let mark = Mark { epoch: "e".to_owned(), seq: Seq(7), digest: Digest::of("a", 1, "{}") };
        let text = format!(
            "retry: 1000\nid: {mark}\n\n:\n\nevent: delete\ndata: {{\"id\":\"a\",\"host\":\"*\",\"path\":\"/ä\"}}\n\n\
             id: {mark}\r\nevent: create\r\ndata: {{\"x\": \"y: z\"}}\r\n\r\n: too far behind\n\n"
        );
        for size in 1..text.len() {
            let (mut parser, mut messages) = (Parser::default(), VecDeque::new());
            text.as_bytes().chunks(size).for_each(|piece| parser.read(piece, &mut messages).unwrap());
            let told: Vec<_> = messages.iter().map(|it| (it.mark.clone(), it.event.name())).collect();
            assert_eq!(told, [(None, "delete"), (Some(mark.clone()), "create")], "pieces of {size}");
            assert_eq!(messages[1].event.data(), "{\"x\": \"y: z\"}");
            assert_eq!(parser.comment, "too far behind");
        }
    }

    #[test]
    fn what_cannot_be_read_is_an_error() {
        let read = |bytes: &[u8]| Parser::default().read(bytes, &mut VecDeque::new());
        for wrong in
            [&b"event: what\ndata: {}\n\n"[..], b"id: 7\nevent: delete\ndata: {}\n\n", b"data: \xff\n"]
        {
            assert!(read(wrong).is_err(), "{wrong:?}");
        }
        assert!(read(&vec![b'x'; MAX_LINE_BYTES + 1]).is_err());
    }
}
