//! As little of an HTTP client as will do: it should cost less than what it asks.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::arrival;

/// A POST of JSON, ready to be sent again and again.
pub(crate) fn request(host: SocketAddr, path: &str, body: &str) -> Vec<u8> {
    request_by("POST", host, path, body)
}

/// The same by another method.
pub(crate) fn request_by(method: &str, host: SocketAddr, path: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    let head = format!("{method} {path} HTTP/1.1\r\nhost: {host}\r\ncontent-type: application/json\r\n");
    format!("{head}content-length: {length}\r\n\r\n{body}").into_bytes()
}

/// A connection that is kept.
pub(crate) struct Connection {
    stream: TcpStream,
    /// Filled up to `filled`.
    buffer: Vec<u8>,
    filled: usize,
    /// When the system had the last of what was read, by the time of day, if that is asked for.
    arrived: Option<Duration>,
    notes_arrivals: bool,
}

/// The longest answer, its head included.
const MAX_ANSWER_BYTES: usize = 128 * 1024;

impl Connection {
    pub(crate) async fn open(address: SocketAddr) -> Result<Self> {
        let stream = TcpStream::connect(address).await.with_context(|| address.to_string())?;
        stream.set_nodelay(true)?;
        Ok(Self {
            stream,
            buffer: vec![0; MAX_ANSWER_BYTES],
            filled: 0,
            arrived: None,
            notes_arrivals: false,
        })
    }

    /// From now on it is known when an answer has come, whenever this process comes to read it.
    pub(crate) fn note_arrivals(&mut self) -> Result<()> {
        arrival::enable(&self.stream).context("the system does not say when something has come")?;
        self.notes_arrivals = true;
        Ok(())
    }

    /// When the last answer had come, by the time of day.
    pub(crate) fn arrived(&self) -> Result<Duration> {
        self.arrived.context("it is not known when an answer has come")
    }

    /// Sends a request for a decision; whether it was to admit. Ours says so by its
    /// status, throttlecrab-server in the body of a 200.
    pub(crate) async fn is_admitted(&mut self, request: &[u8]) -> Result<bool> {
        let (head, body) = self.answer(request).await?;
        match head.get(9..12) {
            Some(b"200") => Ok(find(body, br#""allowed":false"#).is_none()),
            Some(b"429") => Ok(false),
            _ => bail!("the answer was {:?}", String::from_utf8_lossy(&self.buffer[..self.filled])),
        }
    }

    /// Sends a request that is to be answered with a 200; the body.
    pub(crate) async fn ok(&mut self, request: &[u8]) -> Result<&[u8]> {
        let (head, body) = self.answer(request).await?;
        let is_ok = head.get(9..12) == Some(b"200");
        ensure!(is_ok, "the answer was {:?}", String::from_utf8_lossy(&[head, body].concat()));
        Ok(body)
    }

    /// Sends a request; status and head of its answer, whatever they are.
    pub(crate) async fn status(&mut self, request: &[u8]) -> Result<(u16, &[u8])> {
        let (head, _) = self.answer(request).await?;
        let status = head.get(9..12).and_then(|digits| std::str::from_utf8(digits).ok()?.parse().ok());
        Ok((status.context("an answer has no status")?, head))
    }

    /// Sends a request; head and body of its answer.
    async fn answer(&mut self, request: &[u8]) -> Result<(&[u8], &[u8])> {
        self.stream.write_all(request).await?;
        self.filled = 0;
        let head = loop {
            self.read_more().await?;
            if let Some(at) = find(&self.buffer[..self.filled], b"\r\n\r\n") {
                break at + 4;
            }
        };
        let length = content_length(&self.buffer[..head])?;
        while self.filled < head + length {
            self.read_more().await?;
        }
        ensure!(self.filled == head + length, "an answer was followed by something else");
        Ok(self.buffer[..self.filled].split_at(head))
    }

    async fn read_more(&mut self) -> Result<()> {
        let room = &mut self.buffer[self.filled..];
        ensure!(!room.is_empty(), "an answer is longer than {MAX_ANSWER_BYTES} bytes");
        let read = if self.notes_arrivals {
            let (read, arrived) = arrival::read(&self.stream, room).await?;
            self.arrived = arrived;
            read
        } else {
            self.stream.read(room).await?
        };
        ensure!(read > 0, "the server closed the connection");
        self.filled += read;
        Ok(())
    }
}

pub(crate) fn find(text: &[u8], what: &[u8]) -> Option<usize> {
    text.windows(what.len()).position(|window| window == what)
}

fn content_length(head: &[u8]) -> Result<usize> {
    const NAME: &[u8] = b"content-length:";
    let mut lines = head.split(|byte| *byte == b'\n');
    let line = lines.find(|line| line.get(..NAME.len()).is_some_and(|name| name.eq_ignore_ascii_case(NAME)));
    let value = line.and_then(|line| std::str::from_utf8(&line[NAME.len()..]).ok());
    let length = value.and_then(|value| value.trim().parse().ok());
    length.with_context(|| format!("no length in {:?}", String::from_utf8_lossy(head)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_length_is_found_however_it_is_written() {
        let head = b"HTTP/1.1 200 OK\r\nx: 1\r\nContent-Length: 17\r\n\r\n";
        assert_eq!(content_length(head).unwrap(), 17);
        assert!(content_length(b"HTTP/1.1 200 OK\r\n\r\n").is_err());
    }
}
