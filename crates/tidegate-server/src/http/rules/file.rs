//! A file on its way to a client: read piece by piece, compressed if that is wanted, and never in memory as a whole.

use std::io::{self, Write as _};

use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, HeaderName, HeaderValue, header};
use axum::response::{IntoResponse as _, Response};
use flate2::Compression;
use flate2::write::GzEncoder;
use futures_util::stream;
use tidegate_edge::stream::Mark;

use crate::http::Streamed;

/// What is read and sent at once.
const PIECE_BYTES: usize = 128 << 10;

/// Where the rules stood that are in the file, as the id of an event there.
const POSITION: HeaderName = HeaderName::from_static("tidegate-position");

/// A file that can be read from any place on; it waits for the disk.
pub(super) trait Pieces: Send + 'static {
    /// What stands there and behind it, at most so much; nothing at the end.
    fn read(&self, at: u64, limit: usize) -> io::Result<Vec<u8>>;
}

/// What is sent with every file of rules.
pub(super) fn respond(
    file: impl Pieces,
    position: impl Into<Mark>,
    media_type: &'static str,
    is_gzip: bool,
) -> Response {
    let mut response = body(file, is_gzip).into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(media_type));
    headers.insert(header::VARY, HeaderValue::from_static("accept-encoding"));
    // Letters, digits and colons: always a header's value.
    if let Ok(position) = HeaderValue::try_from(position.into().to_string()) {
        headers.insert(POSITION, position);
    }
    if is_gzip {
        headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    }
    response.extensions_mut().insert(Streamed);
    response
}

/// Whether gzip is named and not refused.
pub(super) fn wants_gzip(headers: &HeaderMap) -> bool {
    let fields = headers.get_all(header::ACCEPT_ENCODING).into_iter().filter_map(|value| value.to_str().ok());
    fields.flat_map(|field| field.split(',')).any(|coding| {
        let (name, quality) = coding.split_once(';').unwrap_or((coding, ""));
        let is_refused = quality.trim().strip_prefix("q=").is_some_and(|it| it.parse() == Ok(0.0_f32));
        name.trim().eq_ignore_ascii_case("gzip") && !is_refused
    })
}

/// As far as it was sent.
struct Sending<F> {
    file: F,
    at: u64,
    encoder: Option<GzEncoder<Vec<u8>>>,
}

fn body(file: impl Pieces, is_gzip: bool) -> Body {
    let encoder = is_gzip.then(|| GzEncoder::new(Vec::new(), Compression::fast()));
    let sending = Sending { file, at: 0, encoder };
    Body::from_stream(stream::unfold(Some(sending), |sending| async {
        let mut sending = sending?;
        // It waits for the disk, and compressing takes a while.
        let next = tokio::task::spawn_blocking(move || sending.next().map(|next| (next, sending))).await;
        match next {
            Ok(Ok((Some(piece), sending))) => Some((Ok(piece), Some(sending))),
            Ok(Ok((None, _))) => None,
            // The connection ends before its body does: nobody takes it for all of it.
            Ok(Err(error)) => Some((Err(error), None)),
            Err(error) => Some((Err(io::Error::other(error)), None)),
        }
    }))
}

impl<F: Pieces> Sending<F> {
    fn next(&mut self) -> io::Result<Option<Bytes>> {
        loop {
            let piece = self.file.read(self.at, PIECE_BYTES)?;
            self.at += piece.len() as u64;
            let Some(encoder) = &mut self.encoder else {
                return Ok((!piece.is_empty()).then(|| piece.into()));
            };
            if piece.is_empty() {
                let rest = self.encoder.take().map(GzEncoder::finish).transpose()?;
                return Ok(rest.filter(|it| !it.is_empty()).map(Into::into));
            }
            encoder.write_all(&piece)?;
            let packed = std::mem::take(encoder.get_mut());
            // A little may stay in the encoder.
            if !packed.is_empty() {
                return Ok(Some(packed.into()));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gzip_is_sent_to_who_takes_it() {
        for (accepted, expected) in [
            ("gzip", true),
            ("deflate, GZIP;q=0.5", true),
            ("br", false),
            ("gzip;q=0", false),
            ("gzip; q=0.0, br", false),
            ("", false),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static(accepted));
            assert_eq!(wants_gzip(&headers), expected, "{accepted:?}");
        }
    }
}
