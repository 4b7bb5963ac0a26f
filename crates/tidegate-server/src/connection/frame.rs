//! HTTP/1.1 as bytes, as far as the fast path knows it: where a request ends, and how an
//! answer is written. Heads are read by what hyper reads them by, and answers are
//! written as hyper writes them.

use std::cell::Cell;
use std::mem::MaybeUninit;
use std::ops::Range;
use std::time::{Duration, UNIX_EPOCH};

use axum::body::Bytes;
use axum::http::{Response, StatusCode, header};
use httparse::Status;
use tidegate::clock::Timestamp;

use super::request_head::has_bare_lf;

/// The longest request, its head included. The longest key is 255 bytes, and programs, unlike
/// browsers, have short heads.
pub(super) const MAX_REQUEST_BYTES: usize = 4096;

/// As many fields as that.
const MAX_FIELDS: usize = 32;

/// What bytes are.
pub(super) enum Framed<T> {
    /// The beginning of anything.
    Begun,
    /// A request; at least its head is complete. Where its body is, and what it was recognised as.
    Request(Range<usize>, T),
    /// Something else, or a request in another form.
    Other,
}

/// A head in the plainest form: HTTP/1.1, one plain host, nothing that says what becomes of the
/// connection or that the body is in another form than it is read in, no credentials.
pub(crate) struct PlainHead<'a> {
    pub(crate) method: &'a str,
    pub(crate) target: &'a str,
    pub(crate) media_type: Option<&'a str>,
    /// The length of the body, if one is announced.
    pub(crate) length: Option<usize>,
}

impl PlainHead<'_> {
    /// The target without its query.
    pub(crate) fn path(&self) -> &str {
        self.target.split_once('?').map_or(self.target, |(path, _)| path)
    }
}

/// What `bytes`, at most [`MAX_REQUEST_BYTES`], begin with.
pub(super) fn frame<T>(bytes: &[u8], recognise: impl FnOnce(&PlainHead<'_>) -> Option<T>) -> Framed<T> {
    let mut fields = [const { MaybeUninit::uninit() }; MAX_FIELDS];
    let mut request = httparse::Request::new(&mut []);
    match request.parse_with_uninit_headers(bytes, &mut fields) {
        Ok(Status::Complete(head)) if !has_bare_lf(&bytes[..head]) => {
            let framed = plain_head(&request).and_then(|plain| {
                let end = Some(head + plain.length.unwrap_or(0)).filter(|end| *end <= MAX_REQUEST_BYTES)?;
                Some(Framed::Request(head..end, recognise(&plain)?))
            });
            framed.unwrap_or(Framed::Other)
        }
        Ok(Status::Partial) if bytes.len() < MAX_REQUEST_BYTES => Framed::Begun,
        _ => Framed::Other,
    }
}

fn plain_head<'a>(request: &httparse::Request<'_, 'a>) -> Option<PlainHead<'a>> {
    let (Some(method), Some(target), Some(1)) = (request.method, request.path, request.version) else {
        return None;
    };
    let (mut length, mut media_type, mut hosts) = (None, None, 0);
    for field in &*request.headers {
        let is = |name: header::HeaderName| field.name.eq_ignore_ascii_case(name.as_str());
        // Whatever says where a body ends or what becomes of the connection must be known
        // here; anything else changes no answer.
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
            // Credentials are looked at on the ordinary way.
            || is(header::AUTHORIZATION)
            || is(header::COOKIE)
            || is(header::CONTENT_ENCODING)
        {
            return None;
        }
    }
    (hosts == 1).then_some(PlainHead { method, target, media_type, length })
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
pub(super) fn is_last(response: &Response<Bytes>) -> bool {
    response.headers().contains_key(header::CONNECTION)
}

/// Writes `response`; with `last` it says that none follows.
pub(super) fn write(response: &Response<Bytes>, last: bool, now: Timestamp, into: &mut Vec<u8>) {
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
    use super::*;

    #[test]
    fn requests_with_credentials_go_the_ordinary_way() {
        let take = |field: &str| {
            format!("POST /v1/limits/api/take HTTP/1.1\r\nhost: t\r\n{field}content-length: 2\r\n\r\n{{}}")
        };
        let is_fast = |field: &str| {
            let recognised = frame(take(field).as_bytes(), |head| Some(head.length));
            matches!(recognised, Framed::Request(_, Some(2)))
        };
        assert!(is_fast(""));
        assert!(is_fast("x-request-id: 7\r\n"));
        for field in ["authorization: Bearer x\r\n", "Cookie: a=b\r\n"] {
            assert!(!is_fast(field), "{field}");
        }
    }
}
