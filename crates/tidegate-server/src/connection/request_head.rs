//! A request's head, judged before anybody acts on it: what RFC 9112 has a server refuse is
//! refused here, whoever reads the request then.

use std::mem::MaybeUninit;

use axum::http::{Method, Uri, header};
use httparse::Status;

use crate::http::{Kind, Problem};

/// The most a connection may have us keep of a request's head.
pub(crate) const MAX_HEAD_BYTES: usize = 16 * 1024;

/// As many fields as hyper reads.
const MAX_FIELDS: usize = 100;

/// What bytes begin with.
#[derive(Debug)]
pub(crate) enum Head {
    /// The beginning of a head, as far as it is known.
    Begun,
    /// A head of so many bytes, and what follows it.
    Whole(usize, BodyLength),
    Refused(Problem),
}

/// How the end of a body is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BodyLength {
    Known(u64),
    Chunked,
}

impl Head {
    pub(crate) fn read(bytes: &[u8]) -> Self {
        let mut fields = [const { MaybeUninit::uninit() }; MAX_FIELDS];
        let mut request = httparse::Request::new(&mut []);
        let read = match request.parse_with_uninit_headers(bytes, &mut fields) {
            Ok(Status::Complete(length)) if length <= MAX_HEAD_BYTES => {
                crlf(&bytes[..length]).and_then(|()| Ok(Self::Whole(length, check(&request)?)))
            }
            Ok(Status::Partial) if bytes.len() < MAX_HEAD_BYTES => crlf(bytes).map(|()| Self::Begun),
            Ok(_) | Err(httparse::Error::TooManyHeaders) => Err(too_large()),
            Err(httparse::Error::Version) => Err(Problem::refused_head(
                Kind::HTTP_VERSION,
                "the version of HTTP is not known: 1.1 and 1.0 are".to_owned(),
            )),
            Err(error) => Err(malformed(format!("the request's head is malformed: {}", reason(error)))),
        };
        read.unwrap_or_else(Self::Refused)
    }
}

/// Whether all lines end in CR LF. One that ends in LF alone is two lines to some and one to
/// others, and so is what it says of the body.
pub(crate) fn has_bare_lf(bytes: &[u8]) -> bool {
    let mut before = 0;
    bytes.iter().any(|byte| {
        *byte == b'\n' && before != b'\r' || {
            before = *byte;
            false
        }
    })
}

/// A host and perhaps a port, in the characters that they have (RFC 3986); or nothing.
pub(crate) fn is_host(value: &[u8]) -> bool {
    let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=%:[]".contains(byte);
    let port = value.rsplit(|byte| *byte == b':').next().filter(|_| !value.ends_with(b"]"));
    let has_port = value.contains(&b':') && !value.ends_with(b"]");
    value.iter().all(is_part) && (!has_port || port.is_some_and(|port| port.iter().all(u8::is_ascii_digit)))
}

fn crlf(bytes: &[u8]) -> Result<(), Problem> {
    match has_bare_lf(bytes) {
        true => Err(malformed("a line of the request's head ends in LF alone: CR LF ends one".to_owned())),
        false => Ok(()),
    }
}

/// Refuses a head that is complete, or says what follows it.
fn check(request: &httparse::Request<'_, '_>) -> Result<BodyLength, Problem> {
    let (method, target) = (request.method.unwrap_or_default(), request.path.unwrap_or_default());
    if Method::from_bytes(method.as_bytes()).is_err() {
        return Err(malformed("the method is malformed".to_owned()));
    }
    if target.contains('#') || Uri::try_from(target).is_err() {
        return Err(malformed(format!("{:?} is not the target of a request", shown(target.as_bytes()))));
    }
    let is_http_11 = request.version == Some(1);
    let (mut hosts, mut length, mut codings) = (0, None, 0);
    for field in &*request.headers {
        let is = |name: header::HeaderName| field.name.eq_ignore_ascii_case(name.as_str());
        if is(header::HOST) {
            hosts += 1;
            if !is_host(field.value) {
                return Err(malformed(format!("{:?} is not a host", shown(field.value))));
            }
        } else if is(header::CONTENT_LENGTH) {
            let known = content_length(field.value)?;
            if length.replace(known).is_some_and(|before| before != known) {
                return Err(malformed("two Content-Length fields differ: one is allowed".to_owned()));
            }
        } else if is(header::TRANSFER_ENCODING) {
            codings += 1;
            if codings > 1 || !field.value.eq_ignore_ascii_case(b"chunked") {
                return Err(Problem::refused_head(
                    Kind::TRANSFER_CODING,
                    format!("the transfer coding {:?} is not known: chunked is", shown(field.value)),
                ));
            }
        } else if is(header::EXPECT)
            && !field.value.is_empty()
            && !field.value.eq_ignore_ascii_case(b"100-continue")
        {
            return Err(Problem::refused_head(
                Kind::EXPECTATION,
                format!("{:?} is not an expectation that can be met: 100-continue is", shown(field.value)),
            ));
        }
    }
    match hosts {
        0 if is_http_11 => return Err(malformed("the Host field is missing: HTTP/1.1 needs one".to_owned())),
        0 | 1 => {}
        _ => return Err(malformed(format!("there are {hosts} Host fields: one is allowed"))),
    }
    match (codings, length) {
        (0, length) => Ok(BodyLength::Known(length.unwrap_or(0))),
        (_, Some(_)) => Err(malformed(
            "Content-Length and Transfer-Encoding tell two lengths: one of them is allowed".to_owned(),
        )),
        (_, None) if !is_http_11 => Err(malformed("HTTP/1.0 has no Transfer-Encoding".to_owned())),
        (_, None) => Ok(BodyLength::Chunked),
    }
}

fn content_length(value: &[u8]) -> Result<u64, Problem> {
    let digits = Some(value).filter(|value| !value.is_empty() && value.iter().all(u8::is_ascii_digit));
    // What hyper takes for the mark of another length is none.
    let length = digits.and_then(|digits| std::str::from_utf8(digits).ok()?.parse().ok());
    let length = length.filter(|length| *length <= u64::MAX - 2);
    length.ok_or_else(|| malformed(format!("a Content-Length of {:?} is not a number", shown(value))))
}

fn malformed(detail: String) -> Problem {
    Problem::refused_head(Kind::MALFORMED, detail)
}

fn too_large() -> Problem {
    Problem::refused_head(
        Kind::HEAD_TOO_LARGE,
        format!(
            "the request's head is too large: at most {MAX_HEAD_BYTES} bytes and {MAX_FIELDS} fields are allowed"
        ),
    )
}

fn reason(error: httparse::Error) -> &'static str {
    match error {
        httparse::Error::HeaderName => "the name of a field has a character that is not allowed",
        httparse::Error::HeaderValue => "the value of a field has a character that is not allowed",
        httparse::Error::NewLine => "a line does not end in CR LF",
        _ => "its first line is not a method, a target and a version",
    }
}

/// Somebody else's bytes, as much as there is room for.
fn shown(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).chars().take(60).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_distinguished_from_what_is_none() {
        for good in ["", "t", "localhost:8080", "127.0.0.1:1", "[::1]", "[::1]:8080", "a_b.example", "t:"] {
            assert!(is_host(good.as_bytes()), "{good}");
        }
        for bad in ["a b", "a/b", "user@t", "t:x", "t:80:y", "ä", "a\\b", "a?b", "t\t", "[::1]:x"] {
            assert!(!is_host(bad.as_bytes()), "{bad}");
        }
    }

    #[test]
    fn a_bare_lf_is_found_wherever_it_is() {
        for good in ["", "\r\n", "a\r\nb\r\n\r\n", "\r", "a\rb"] {
            assert!(!has_bare_lf(good.as_bytes()), "{good:?}");
        }
        for bad in ["\n", "a\n", "a\r\n\n", "a\n\r\n", "\r\n\r\na\n"] {
            assert!(has_bare_lf(bad.as_bytes()), "{bad:?}");
        }
    }
}
