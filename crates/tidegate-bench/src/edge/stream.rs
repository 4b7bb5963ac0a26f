//! One who follows a server's changes over HTTP, as a worker does.

use std::collections::HashMap;
use std::net::SocketAddr;

use anyhow::{Context as _, Result, anyhow, bail, ensure};
use tidegate_edge::stream::{Event, Follower, Mark, Message, Step};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::http_client::find;

/// A stream of events, and what was made of them.
pub(super) struct Following {
    stream: TcpStream,
    /// What has come and was not looked at.
    raw: Vec<u8>,
    /// What of it is text of events, without the sizes of chunks between.
    text: Vec<u8>,
    follower: Follower,
    rules: HashMap<String, String>,
}

impl Following {
    /// Follows from a place on; when this returns the server follows along.
    pub(super) async fn begin(address: SocketAddr, from: Mark) -> Result<Self> {
        let mut stream = TcpStream::connect(address).await.with_context(|| address.to_string())?;
        let request = format!("GET /v1/rules/changes?after={from} HTTP/1.1\r\nhost: {address}\r\n\r\n");
        stream.write_all(request.as_bytes()).await?;
        let follower = Follower::at(from);
        let mut following =
            Self { stream, raw: Vec::new(), text: Vec::new(), follower, rules: HashMap::new() };
        let head = loop {
            match find(&following.raw, b"\r\n\r\n") {
                Some(at) => break following.raw.drain(..at + 4).collect::<Vec<_>>(),
                None => following.read_more().await?,
            }
        };
        ensure!(head.starts_with(b"HTTP/1.1 200"), "the answer was {:?}", String::from_utf8_lossy(&head));
        Ok(following)
    }

    async fn read_more(&mut self) -> Result<()> {
        ensure!(self.stream.read_buf(&mut self.raw).await? > 0, "the server has ended the stream");
        Ok(())
    }

    /// Waits until another change is applied: the rule as it is now.
    pub(super) async fn next(&mut self) -> Result<&str> {
        let id = loop {
            if let Some(at) = find(&self.text, b"\n\n") {
                let event: Vec<_> = self.text.drain(..at + 2).collect();
                if let Some(id) = self.apply(std::str::from_utf8(&event)?)? {
                    break id;
                }
            } else if !self.unpack()? {
                self.read_more().await?;
            }
        };
        self.rules.get(&id).map(String::as_str).context("a rule that was applied is not there")
    }

    /// Takes a whole chunk, if there is one.
    fn unpack(&mut self) -> Result<bool> {
        let Some(at) = find(&self.raw, b"\r\n") else { return Ok(false) };
        let length = usize::from_str_radix(std::str::from_utf8(&self.raw[..at])?, 16)?;
        let whole = at + 2 + length + 2;
        if self.raw.len() < whole {
            return Ok(false);
        }
        ensure!(length > 0, "the server has ended the stream");
        self.text.extend_from_slice(&self.raw[at + 2..at + 2 + length]);
        self.raw.drain(..whole);
        Ok(true)
    }

    /// Applies an event; of which rule, if there was a change.
    fn apply(&mut self, text: &str) -> Result<Option<String>> {
        let field = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
        let Some((name, data)) = field("event").zip(field("data")) else { return Ok(None) };
        let event = Event::read(name, data).map_err(|error| anyhow!(error))?;
        let mark = field("id").map(str::parse).transpose().map_err(|error: String| anyhow!(error))?;
        match self.follower.take(Message { mark, event }) {
            Step::Apply(events) => match &events[..] {
                [Event::Create { body } | Event::Update { body }] => {
                    let rule: serde_json::Value = serde_json::from_str(body)?;
                    let id = rule["id"].as_str().context("a rule has no id")?.to_owned();
                    self.rules.insert(id.clone(), body.clone());
                    Ok(Some(id))
                }
                other => bail!("only rules come, and {other:?} does"),
            },
            Step::Reload { reason, .. } => bail!("all rules are to be read again: {reason}"),
            _ => Ok(None),
        }
    }
}
