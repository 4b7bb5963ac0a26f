//! What a body was encoded by on its way: nothing, or gzip. It is decoded as it comes, a little at
//! a time, so that a small body which grows large is stopped where a large one would be.

use std::io::{self, Write as _};

use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, header};
use flate2::write::MultiGzDecoder;
use futures_util::stream;
use http_body_util::BodyExt as _;

use super::{Kind, Problem, Result};

/// As much of it is decoded at once: at most a thousand times as much comes out.
const PIECE_BYTES: usize = 256;

/// `body` as it was before it was encoded.
pub(super) fn decoded(headers: &HeaderMap, body: Body) -> Result<Body> {
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
    let gunzip = Gunzip::new(body);
    Ok(match is_gzip {
        true => Body::from_stream(stream::try_unfold(gunzip, async |mut gunzip| {
            gunzip.next().await.map(|decoded| decoded.map(|decoded| (decoded, gunzip)))
        })),
        false => gunzip.body,
    })
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

    /// What comes next; none at its end.
    async fn next(&mut self) -> Result<Option<Bytes>, axum::Error> {
        while !self.is_over {
            if self.piece.is_empty() {
                match self.body.frame().await.transpose()? {
                    Some(frame) => self.piece = frame.into_data().unwrap_or_default(),
                    None => self.end().map_err(not_gzip)?,
                }
            } else {
                self.step().map_err(not_gzip)?;
            }
            let decoded = std::mem::take(self.decoder.get_mut());
            if !decoded.is_empty() {
                return Ok(Some(decoded.into()));
            }
        }
        Ok(None)
    }

    /// Decodes a little.
    fn step(&mut self) -> io::Result<()> {
        let next = self.piece.split_to(self.piece.len().min(PIECE_BYTES));
        self.is_begun = true;
        self.decoder.write_all(&next)?;
        // The next may be long in coming.
        if self.piece.is_empty() { self.decoder.flush() } else { Ok(()) }
    }

    fn end(&mut self) -> io::Result<()> {
        self.is_over = true;
        // No body is no gzip either, and yet nobody's mistake.
        if self.is_begun { self.decoder.try_finish() } else { Ok(()) }
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

fn not_gzip(error: io::Error) -> axum::Error {
    axum::Error::new(NotGzip(error))
}

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
