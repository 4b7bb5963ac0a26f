//! A body for somebody who reads it on a thread of its own and may block there: a few pieces ahead, and no more. That it
//! has ended is said: what stops coming without that has broken off, whoever it was that stopped.

use std::io::{self, Read};

use axum::body::Bytes;
use tokio::sync::mpsc;

/// Pieces that wait to be read.
const AHEAD: usize = 4;

enum Piece {
    Data(Bytes),
    End,
}

/// Where pieces go in.
pub(super) struct Feed(mpsc::Sender<Piece>);

/// Where they come out.
pub(super) struct Fed {
    pieces: mpsc::Receiver<Piece>,
    piece: Bytes,
    is_over: bool,
}

pub(super) fn feed() -> (Feed, Fed) {
    let (sender, pieces) = mpsc::channel(AHEAD);
    (Feed(sender), Fed { pieces, piece: Bytes::new(), is_over: false })
}

impl Feed {
    /// Hands a piece over, as soon as there is room. Who has ceased to read needs none.
    pub(super) async fn push(&self, data: Bytes) {
        let _ = self.0.send(Piece::Data(data)).await;
    }

    /// That was all.
    pub(super) async fn end(&self) {
        let _ = self.0.send(Piece::End).await;
    }
}

impl Read for Fed {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        while self.piece.is_empty() && !self.is_over {
            match self.pieces.blocking_recv() {
                Some(Piece::Data(data)) => self.piece = data,
                Some(Piece::End) => self.is_over = true,
                None => return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "it ended early")),
            }
        }
        let count = self.piece.len().min(into.len());
        into[..count].copy_from_slice(&self.piece.split_to(count));
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(mut fed: Fed) -> io::Result<String> {
        let mut text = String::new();
        fed.read_to_string(&mut text).map(|_| text)
    }

    #[tokio::test]
    async fn what_has_not_ended_has_broken_off() {
        for (is_ended, expected) in [(true, Ok("abc")), (false, Err(io::ErrorKind::UnexpectedEof))] {
            let (feed, fed) = feed();
            let reading = tokio::task::spawn_blocking(|| read(fed));
            for piece in ["a", "", "bc"] {
                feed.push(piece.into()).await;
            }
            if is_ended {
                feed.end().await;
            }
            drop(feed);
            let read = reading.await.unwrap();
            assert_eq!(read.as_deref().map_err(io::Error::kind), expected);
        }
    }

    #[tokio::test]
    async fn so_many_pieces_are_ahead_and_no_more() {
        let (feed, fed) = feed();
        for _ in 0..AHEAD {
            feed.push("a".into()).await;
        }
        let mut next = std::pin::pin!(feed.push("b".into()));
        assert_eq!(futures_util::future::poll_immediate(next.as_mut()).await, None);
        // Who has ceased to read keeps nobody waiting.
        drop(fed);
        next.await;
        feed.end().await;
    }
}
