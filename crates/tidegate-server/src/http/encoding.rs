//! What a body was encoded by on its way: nothing, or gzip. It is decoded as it comes, a little at
//! a time, so that a small body which grows large is stopped where a large one would be.

use std::io::{self, Write as _};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use axum::body::{Body, Bytes, HttpBody};
use axum::http::{HeaderMap, header};
use flate2::write::MultiGzDecoder;

use super::{Kind, Problem};

/// As much of it is decoded at once: at most a thousand times as much comes out.
const PIECE_BYTES: usize = 256;

/// `body` as it was before it was encoded.
pub(super) fn decoded(headers: &HeaderMap, body: Body) -> Result<Body, Problem> {
    let mut is_gzip = false;
    for value in headers.get_all(header::CONTENT_ENCODING) {
        for coding in value.to_str().unwrap_or("?").split(',').map(str::trim) {
            let is = |name: &str| coding.eq_ignore_ascii_case(name);
            match coding {
                _ if coding.is_empty() || is("identity") => {}
                _ if (is("gzip") || is("x-gzip")) && !is_gzip => is_gzip = true,
                _ => {
                    let given: String = coding.chars().take(40).collect();
                    let why =
                        format!("a body encoded as {given:?} is not allowed: gzip is, once, and identity");
                    return Err(Problem::new(Kind::ENCODING, why));
                }
            }
        }
    }
    Ok(if is_gzip { Body::new(Gunzip::new(body)) } else { body })
}

/// A body that is gzip.
struct Gunzip {
    body: Body,
    /// What has come and is not decoded.
    piece: Bytes,
    decoder: MultiGzDecoder<Vec<u8>>,
    is_begun: bool,
    is_over: bool,
}

impl Gunzip {
    fn new(body: Body) -> Self {
        let decoder = MultiGzDecoder::new(Vec::new());
        Self { body, piece: Bytes::new(), decoder, is_begun: false, is_over: false }
    }

    /// Decodes a little; whether anything came out.
    fn step(&mut self) -> io::Result<bool> {
        let next = self.piece.split_to(self.piece.len().min(PIECE_BYTES));
        self.is_begun = true;
        self.decoder.write_all(&next)?;
        if self.piece.is_empty() {
            // The next may be long in coming.
            self.decoder.flush()?;
        }
        Ok(!self.decoder.get_ref().is_empty())
    }

    fn end(&mut self) -> io::Result<()> {
        self.is_over = true;
        // No body is no gzip either, and yet nobody's mistake.
        if self.is_begun { self.decoder.try_finish() } else { Ok(()) }
    }
}

impl HttpBody for Gunzip {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<hyper::body::Frame<Bytes>, axum::Error>>> {
        let this = &mut *self;
        let wrong = |error: io::Error| axum::Error::new(NotGzip(error));
        while !this.is_over {
            if !this.piece.is_empty() {
                match this.step() {
                    Ok(true) => {
                        let decoded = std::mem::take(this.decoder.get_mut());
                        return Poll::Ready(Some(Ok(hyper::body::Frame::data(decoded.into()))));
                    }
                    Ok(false) => continue,
                    Err(error) => {
                        this.is_over = true;
                        return Poll::Ready(Some(Err(wrong(error))));
                    }
                }
            }
            match ready!(Pin::new(&mut this.body).poll_frame(cx)) {
                Some(Ok(frame)) => this.piece = frame.into_data().unwrap_or_default(),
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                None => {
                    let ended = this.end();
                    let decoded = std::mem::take(this.decoder.get_mut());
                    if let Err(error) = ended {
                        return Poll::Ready(Some(Err(wrong(error))));
                    }
                    if !decoded.is_empty() {
                        return Poll::Ready(Some(Ok(hyper::body::Frame::data(decoded.into()))));
                    }
                }
            }
        }
        Poll::Ready(None)
    }
}

/// A body that says it is gzip, and is not.
#[derive(Debug)]
struct NotGzip(io::Error);

impl std::fmt::Display for NotGzip {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "the body is not gzip: {}", self.0)
    }
}

impl std::error::Error for NotGzip {}

/// What is wrong with a body that cannot be read to its end.
pub(super) fn broken(error: &axum::Error) -> String {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(error) = cause {
        if let Some(not_gzip) = error.downcast_ref::<NotGzip>() {
            return not_gzip.to_string();
        }
        cause = error.source();
    }
    "the body ended early".to_owned()
}
