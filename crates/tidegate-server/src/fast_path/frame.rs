//! HTTP/1.1 as bytes, as far as the fast path knows it: where a take ends, and how an
//! answer is written. Heads are read by what hyper reads them by, and answers are
//! written as hyper writes them.

use std::cell::Cell;
use std::mem::MaybeUninit;
use std::time::{Duration, UNIX_EPOCH};

use axum::body::Bytes;
use axum::http::{Method, Response, StatusCode, header};
use httparse::Status;
use tidegate::clock::Timestamp;

use crate::http::{App, Served, is_type_allowed};
use crate::request_head::has_bare_lf;

/// The longest request, its head included. The longest key is 255 bytes, and browsers,
/// whose heads are long, are not who asks.
pub(crate) const MAX_REQUEST_BYTES: usize = 4096;

/// As many fields as that.
const MAX_FIELDS: usize = 32;

/// What bytes are.
pub(crate) enum Framed<'a> {
    /// The beginning of anything.
    Begun,
    /// A take; at least its head is complete.
    Take(Take<'a>),
    /// Something else, or a take in another form.
    Other,
}

/// A take from a limit, with where its body begins and ends.
pub(crate) struct Take<'a> {
    pub(crate) served: &'a Served,
    pub(crate) body: usize,
    pub(crate) end: usize,
}

/// What `bytes`, at most [`MAX_REQUEST_BYTES`], begin with.
pub(crate) fn frame<'a>(app: &'a App, bytes: &[u8]) -> Framed<'a> {
    let mut fields = [const { MaybeUninit::uninit() }; MAX_FIELDS];
    let mut request = httparse::Request::new(&mut []);
    match request.parse_with_uninit_headers(bytes, &mut fields) {
        Ok(Status::Complete(head)) if !has_bare_lf(&bytes[..head]) => {
            take(app, &request, head).map_or(Framed::Other, Framed::Take)
        }
        Ok(Status::Partial) if bytes.len() < MAX_REQUEST_BYTES => Framed::Begun,
        _ => Framed::Other,
    }
}

fn take<'a>(app: &'a App, request: &httparse::Request<'_, '_>, head: usize) -> Option<Take<'a>> {
    let (Some("POST"), Some(path), Some(1)) = (request.method, request.path, request.version) else {
        return None;
    };
    let served = app.taken_from(&Method::POST, path)?;
    let (mut length, mut media_type, mut hosts) = (None, None, 0);
    for field in &*request.headers {
        let is = |name: header::HeaderName| field.name.eq_ignore_ascii_case(name.as_str());
        // Whatever says where a body ends or what becomes of the connection must be known
        // here; anything else is nothing to a take.
        if is(header::CONTENT_LENGTH) {
            if length.replace(announced(field.value)?).is_some() {
                return None;
            }
        } else if is(header::CONTENT_TYPE) {
            let text = std::str::from_utf8(field.value).ok().filter(|text| text.is_ascii())?;
            if media_type.replace(text).is_some() {
                return None;
            }
        } else if is(header::HOST) {
            hosts += 1;
            if !is_plain_host(field.value) {
                return None;
            }
        } else if is(header::CONNECTION) {
            if !field.value.eq_ignore_ascii_case(b"keep-alive") {
                return None;
            }
        } else if is(header::TRANSFER_ENCODING)
            || is(header::EXPECT)
            || is(header::UPGRADE)
            || is(header::ORIGIN)
            // Who may do what is decided on the ordinary way.
            || is(header::AUTHORIZATION)
            || is(header::COOKIE)
            || is(header::CONTENT_ENCODING)
        {
            return None;
        }
    }
    let length = length.filter(|length| *length <= app.bounds().max_body_bytes)?;
    let end = head + length;
    let is_known = hosts == 1 && end <= MAX_REQUEST_BYTES && is_type_allowed(media_type, false);
    is_known.then_some(Take { served, body: head, end })
}

/// A name or an address and perhaps a port: whoever has another is judged elsewhere.
fn is_plain_host(value: &[u8]) -> bool {
    let (host, port) = match value.iter().position(|byte| *byte == b':') {
        Some(at) => (&value[..at], &value[at + 1..]),
        None => (value, &[][..]),
    };
    host.iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-'))
        && port.iter().all(u8::is_ascii_digit)
}

/// A length in digits, and no more of them than a length that we read has.
fn announced(value: &[u8]) -> Option<usize> {
    let digits =
        Some(value).filter(|value| matches!(value.len(), 1..=6) && value.iter().all(u8::is_ascii_digit));
    Some(digits?.iter().fold(0, |length, digit| length * 10 + usize::from(digit - b'0')))
}

/// Whether an answer says itself that none follows it.
pub(crate) fn is_last(response: &Response<Bytes>) -> bool {
    response.headers().contains_key(header::CONNECTION)
}

/// Writes `response`; with `last` it says that none follows.
pub(crate) fn write(response: &Response<Bytes>, last: bool, now: Timestamp, into: &mut Vec<u8>) {
    let status = response.status();
    let mut put = |text: &[u8]| into.extend_from_slice(text);
    match status {
        StatusCode::OK => put(b"HTTP/1.1 200 OK\r\n"),
        _ => {
            put(b"HTTP/1.1 ");
            put(status.as_str().as_bytes());
            put(b" ");
            put(status.canonical_reason().unwrap_or_default().as_bytes());
            put(b"\r\n");
        }
    }
    for (name, value) in response.headers() {
        put(name.as_str().as_bytes());
        put(b": ");
        put(value.as_bytes());
        put(b"\r\n");
    }
    if last && !is_last(response) {
        put(b"connection: close\r\n");
    }
    put(b"date: ");
    put(&date(now.as_millis() / 1000));
    put(b"\r\n\r\n");
    put(response.body());
}

/// "Sun, 06 Nov 1994 08:49:37 GMT".
type Date = [u8; 29];

thread_local! {
    /// The second that was last written by this thread, and how.
    static LAST: Cell<(u64, Date)> = const { Cell::new((u64::MAX, [b' '; 29])) };
}

fn date(second: u64) -> Date {
    let (last, date) = LAST.get();
    if last == second {
        return date;
    }
    let text = httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_secs(second));
    // It is as long as any, up to the year 9999.
    let date = Date::try_from(text.as_bytes()).unwrap_or(date);
    LAST.set((second, date));
    date
}

#[cfg(test)]
mod tests {
    use tidegate::Tidegate;
    use tidegate::limit::LimitOptions;
    use tidegate::testkit::limit::sliding;

    use super::*;

    #[tokio::test]
    async fn who_shows_who_it_is_goes_the_ordinary_way() {
        let gate = Tidegate::open("memory:").await.unwrap();
        let limit = gate.limit("api", sliding(5, 60, 600), LimitOptions::default()).unwrap();
        let app = App::new(gate, [limit]);
        let take = |field: &str| {
            format!("POST /v1/limits/api/take HTTP/1.1\r\nhost: t\r\n{field}content-length: 2\r\n\r\n{{}}")
        };
        let is_fast = |field: &str| matches!(frame(&app, take(field).as_bytes()), Framed::Take(_));
        assert!(is_fast(""));
        assert!(is_fast("x-request-id: 7\r\n"));
        for field in ["authorization: Bearer x\r\n", "Cookie: a=b\r\n"] {
            assert!(!is_fast(field), "{field}");
        }
    }
}
