//! HTTP/1.1 as bytes, as far as the fast path knows it: where a request ends. Heads are read by
//! what hyper reads them by.

use std::mem::MaybeUninit;
use std::ops::Range;

use axum::http::header;
use httparse::Status;

use super::request_head::has_bare_lf;

/// The longest request, its head included. The longest key is 255 bytes, and programs, unlike
/// browsers, have short heads.
pub(super) const MAX_REQUEST_BYTES: usize = 4096;

/// As many fields as that.
const MAX_FIELDS: usize = 32;

/// Where a proxy says which host it was asked for.
pub(crate) const FORWARDED_HOST: &str = "x-forwarded-host";

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
/// connection or that the body is in another form than it is read in; no credentials, unless they
/// decide nothing.
pub(crate) struct PlainHead<'a> {
    pub(crate) method: &'a str,
    pub(crate) target: &'a str,
    /// A name or an IPv4 address, perhaps with a port; or nothing.
    pub(crate) host: &'a str,
    /// The last `X-Forwarded-Host`, where credentials decide nothing.
    pub(crate) forwarded_host: Option<&'a [u8]>,
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

/// What `bytes`, at most [`MAX_REQUEST_BYTES`], begin with. `is_public` says that credentials decide nothing.
pub(super) fn frame<T>(
    bytes: &[u8],
    is_public: bool,
    recognise: impl FnOnce(&PlainHead<'_>) -> Option<T>,
) -> Framed<T> {
    let mut fields = [const { MaybeUninit::uninit() }; MAX_FIELDS];
    let mut request = httparse::Request::new(&mut []);
    match request.parse_with_uninit_headers(bytes, &mut fields) {
        Ok(Status::Complete(head)) if !has_bare_lf(&bytes[..head]) => {
            let framed = plain_head(&request, is_public).and_then(|plain| {
                let end = Some(head + plain.length.unwrap_or(0)).filter(|end| *end <= MAX_REQUEST_BYTES)?;
                Some(Framed::Request(head..end, recognise(&plain)?))
            });
            framed.unwrap_or(Framed::Other)
        }
        Ok(Status::Partial) if bytes.len() < MAX_REQUEST_BYTES => Framed::Begun,
        _ => Framed::Other,
    }
}

fn plain_head<'a>(request: &httparse::Request<'_, 'a>, is_public: bool) -> Option<PlainHead<'a>> {
    let (Some(method), Some(target), Some(1)) = (request.method, request.path, request.version) else {
        return None;
    };
    let (mut length, mut media_type, mut host, mut forwarded_host) = (None, None, None, None);
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
            if host.replace(plain_host(field.value)?).is_some() {
                return None;
            }
        } else if is(header::CONNECTION) {
            if !field.value.eq_ignore_ascii_case(b"keep-alive") {
                return None;
            }
        } else if is(header::TRANSFER_ENCODING)
            || is(header::EXPECT)
            || is(header::UPGRADE)
            || is(header::CONTENT_ENCODING)
        {
            return None;
        } else if is_public {
            if field.name.eq_ignore_ascii_case(FORWARDED_HOST) {
                forwarded_host = Some(field.value);
            }
        // Credentials are looked at on the ordinary way.
        } else if is(header::ORIGIN) || is(header::AUTHORIZATION) || is(header::COOKIE) {
            return None;
        }
    }
    Some(PlainHead { method, target, host: host?, forwarded_host, media_type, length })
}

/// A name or an address and perhaps a port: whoever has another is judged elsewhere.
fn plain_host(value: &[u8]) -> Option<&str> {
    let (host, port) = match value.iter().position(|byte| *byte == b':') {
        Some(at) => (&value[..at], &value[at + 1..]),
        None => (value, &[][..]),
    };
    let is_plain = host.iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-'))
        && port.iter().all(u8::is_ascii_digit);
    std::str::from_utf8(value).ok().filter(|_| is_plain)
}

/// A length in digits, and no more of them than a length that we read has.
fn announced(value: &[u8]) -> Option<usize> {
    let digits =
        Some(value).filter(|value| matches!(value.len(), 1..=6) && value.iter().all(u8::is_ascii_digit));
    Some(digits?.iter().fold(0, |length, digit| length * 10 + usize::from(digit - b'0')))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_with_credentials_go_the_ordinary_way_unless_they_decide_nothing() {
        let take = |field: &str| {
            format!("POST /v1/limits/api/take HTTP/1.1\r\nhost: t\r\n{field}content-length: 2\r\n\r\n{{}}")
        };
        let is_fast = |field: &str, is_public: bool| {
            let recognised = frame(take(field).as_bytes(), is_public, |head| Some(head.length));
            matches!(recognised, Framed::Request(_, Some(2)))
        };
        for is_public in [false, true] {
            assert!(is_fast("", is_public));
            assert!(is_fast("x-request-id: 7\r\n", is_public));
            for field in ["authorization: Bearer x\r\n", "Cookie: a=b\r\n", "origin: https://a.example\r\n"] {
                assert_eq!(is_fast(field, is_public), is_public, "{field}");
            }
        }
    }
}
