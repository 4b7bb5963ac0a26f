//! `GET /v1/rules/snapshot`: all rules at one place of the log, as lines.

use std::io::Write as _;

use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use flate2::Compression;
use flate2::write::GzEncoder;
use futures_util::stream;
use schemars::SchemaGenerator;
use tidegate_edge::stream::{Mark, Snapshot};
use tidegate_edge::truth::Fields;

use super::open;
use crate::http::{Answer, AnswerShape, Call, FromQuery, NoPath, Parameter, Problem, Query};

/// What is read and sent at once.
const PIECE_BYTES: usize = 128 << 10;

/// Where a snapshot was made, as the id of an event there.
const POSITION: HeaderName = HeaderName::from_static("tidegate-position");

/// What of each rule.
#[derive(Debug)]
pub(crate) struct Which {
    fields: Fields,
    from: Option<Mark>,
}

impl FromQuery for Which {
    const PARAMETERS: &'static [Parameter] = &[
        Parameter::text(
            "fields",
            "^(all|keys)$",
            "all",
            "`keys`: of rules for one path only host and path, for a filter",
        ),
        Parameter::text(
            "from",
            "^[^:]{1,64}:[0-9]{1,15}:[0-9a-f]{32}$",
            "",
            "not older than this: the id of a `resync`",
        ),
    ];

    fn from_query(query: &Query) -> Result<Self, Problem> {
        let fields = query.read("fields", |text| match text {
            "all" => Ok(Fields::All),
            "keys" => Ok(Fields::Keys),
            other => Err(format!("{other:?} is not allowed: all and keys are")),
        })?;
        Ok(Self { fields: fields.unwrap_or_default(), from: query.read("from", str::parse)? })
    }
}

/// Lines of JSON: the place, then a rule each.
pub(crate) struct Lines {
    snapshot: Snapshot,
    is_gzip: bool,
}

impl Answer for Lines {
    fn into_response(self) -> Response {
        let Self { snapshot, is_gzip } = self;
        // Letters, digits and colons: always a header's value.
        let position = HeaderValue::try_from(Mark::from(snapshot.position()).to_string());
        let mut response = body(snapshot, is_gzip).into_response();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/x-ndjson"));
        headers.insert(header::VARY, HeaderValue::from_static("accept-encoding"));
        if let Ok(position) = position {
            headers.insert(POSITION, position);
        }
        if is_gzip {
            headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        }
        response
    }

    fn shapes(schemas: &mut SchemaGenerator) -> Vec<AnswerShape> {
        let body = Some(("application/x-ndjson", schemas.subschema_for::<String>()));
        let about = "lines of JSON: where the rules stood, then each of them";
        vec![AnswerShape { status: StatusCode::OK, about, body }]
    }
}

pub(super) async fn snapshot(call: Call<NoPath, Which>) -> Result<Lines, Problem> {
    let rules = open(&call.app)?;
    let snapshot = rules.snapshots.get(call.query.fields, call.query.from.as_ref()).await?;
    Ok(Lines { snapshot, is_gzip: wants_gzip(&call.headers) })
}

/// Whether gzip is named and not refused.
fn wants_gzip(headers: &HeaderMap) -> bool {
    let fields = headers.get_all(header::ACCEPT_ENCODING).into_iter().filter_map(|value| value.to_str().ok());
    fields.flat_map(|field| field.split(',')).any(|coding| {
        let (name, quality) = coding.split_once(';').unwrap_or((coding, ""));
        let is_refused = quality.trim().strip_prefix("q=").is_some_and(|it| it.parse() == Ok(0.0_f32));
        name.trim().eq_ignore_ascii_case("gzip") && !is_refused
    })
}

/// A snapshot on its way.
struct Sending {
    snapshot: Snapshot,
    at: u64,
    encoder: Option<GzEncoder<Vec<u8>>>,
}

fn body(snapshot: Snapshot, is_gzip: bool) -> Body {
    let encoder = is_gzip.then(|| GzEncoder::new(Vec::new(), Compression::fast()));
    let sending = Sending { snapshot, at: 0, encoder };
    Body::from_stream(stream::unfold(Some(sending), |sending| async {
        let mut sending = sending?;
        // It waits for the disk, and compressing takes a while.
        let next = tokio::task::spawn_blocking(move || sending.next().map(|next| (next, sending))).await;
        match next {
            Ok(Ok((Some(piece), sending))) => Some((Ok(piece), Some(sending))),
            Ok(Ok((None, _))) => None,
            // The connection ends before its body does: nobody takes it for all of it.
            Ok(Err(error)) => Some((Err(error), None)),
            Err(error) => Some((Err(std::io::Error::other(error)), None)),
        }
    }))
}

impl Sending {
    fn next(&mut self) -> std::io::Result<Option<Bytes>> {
        loop {
            let piece = self.snapshot.read(self.at, PIECE_BYTES).map_err(std::io::Error::other)?;
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
