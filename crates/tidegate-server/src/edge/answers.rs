//! What a worker has found as what is sent: once, for both ways that a request can take.

use std::io::Write as _;

use axum::body::Body;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode};
use tidegate_edge::rule::CacheControl;
use tidegate_edge::worker::Outcome;

use super::page::Page;
use crate::connection::{Output, Written, put_field};

/// Bodies of answers that send nobody on.
#[derive(Debug, Clone)]
pub(super) struct Answers {
    not_found: Page,
    gone: Page,
    invalid: Page,
    unavailable: Page,
    method: Page,
}

/// What is sent.
#[derive(Debug)]
pub(super) enum Sent<'a> {
    /// What a worker has found.
    Found(Outcome<'a>),
    /// There is a redirect, and none for that method.
    NotForMethod,
    /// Which methods there are.
    Methods,
}

/// The methods that every redirect is for.
const ALLOWED: &[u8] = b"GET, HEAD";

/// Fields of a head, as bytes or as a map.
trait Fields {
    fn put(&mut self, name: &'static str, value: &[u8]);
}

impl Fields for Vec<u8> {
    #[inline]
    fn put(&mut self, name: &'static str, value: &[u8]) {
        put_field(self, name, value);
    }
}

impl Fields for HeaderMap {
    fn put(&mut self, name: &'static str, value: &[u8]) {
        // Locations are escaped when a rule is read, and all else is written here.
        if let Ok(value) = HeaderValue::from_bytes(value) {
            self.insert(HeaderName::from_static(name), value);
        }
    }
}

impl Answers {
    pub(super) fn new(not_found: Option<Page>, gone: Option<Page>) -> Self {
        Self {
            not_found: not_found.unwrap_or_else(|| Page::line("not found\n")),
            gone: gone.unwrap_or_else(|| Page::line("gone\n")),
            invalid: Page::line("bad request\n"),
            unavailable: Page::line("unavailable, try again\n"),
            method: Page::line("method not allowed\n"),
        }
    }

    /// On the fast path.
    #[inline]
    pub(super) fn write(
        &self,
        sent: &Sent<'_>,
        is_head: bool,
        age_seconds: Option<u64>,
        output: &mut Output<'_>,
    ) -> Written {
        let (status, page) = self.status_and_page(sent);
        let body = page.filter(|_| !is_head).map_or(&[][..], |page| &page.body);
        output.parts(status, |into| put_fields(sent, page, age_seconds, into), body)
    }

    /// On the ordinary way.
    pub(super) fn response(
        &self,
        sent: &Sent<'_>,
        is_head: bool,
        age_seconds: Option<u64>,
    ) -> Response<Body> {
        let (status, page) = self.status_and_page(sent);
        // Over HTTP/2 nobody else leaves it out.
        let body = page.filter(|_| !is_head).map_or_else(Body::empty, |page| page.body.clone().into());
        let mut response = Response::new(body);
        *response.status_mut() = status;
        put_fields(sent, page, age_seconds, response.headers_mut());
        response
    }

    fn status_and_page(&self, sent: &Sent<'_>) -> (StatusCode, Option<&Page>) {
        match sent {
            Sent::Found(Outcome::Redirect(to)) => {
                // A rule has one of four.
                (StatusCode::from_u16(to.code.as_u16()).unwrap_or(StatusCode::FOUND), None)
            }
            Sent::Found(Outcome::NotFound) => (StatusCode::NOT_FOUND, Some(&self.not_found)),
            Sent::Found(Outcome::Gone) => (StatusCode::GONE, Some(&self.gone)),
            Sent::Found(Outcome::Invalid) => (StatusCode::BAD_REQUEST, Some(&self.invalid)),
            Sent::Found(_) => (StatusCode::SERVICE_UNAVAILABLE, Some(&self.unavailable)),
            Sent::NotForMethod => (StatusCode::METHOD_NOT_ALLOWED, Some(&self.method)),
            Sent::Methods => (StatusCode::NO_CONTENT, None),
        }
    }
}

#[inline]
fn put_fields(sent: &Sent<'_>, page: Option<&Page>, age_seconds: Option<u64>, into: &mut impl Fields) {
    match sent {
        Sent::Found(Outcome::Redirect(to)) => {
            into.put("location", to.location.as_bytes());
            match to.cache_control {
                CacheControl::None => {}
                CacheControl::NoStore => into.put("cache-control", b"no-store"),
                CacheControl::MaxAge(seconds) => {
                    into.put("cache-control", decimal("max-age=", seconds.into()).as_bytes());
                }
            }
            into.put("content-length", b"0");
        }
        Sent::Found(Outcome::Unavailable { retry_after }) => {
            // Rounded up, so that who waits that long is not refused again.
            let seconds = retry_after.as_millis().div_ceil(1000).max(1);
            into.put("retry-after", decimal("", seconds as u64).as_bytes());
        }
        Sent::NotForMethod | Sent::Methods => into.put("allow", ALLOWED),
        Sent::Found(_) => {}
    }
    if let Some(page) = page {
        into.put("content-type", page.media_type.as_bytes());
        // Whoever is told that there is nothing asks again: there may be by then.
        into.put("cache-control", b"no-store");
        into.put("content-length", page.length.as_bytes());
    }
    if let Some(seconds) = age_seconds {
        into.put("tidegate-age", decimal("", seconds).as_bytes());
    }
}

/// A number behind a word, without an allocation.
struct Decimal {
    bytes: [u8; 32],
    length: usize,
}

impl Decimal {
    fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

fn decimal(word: &str, number: u64) -> Decimal {
    let mut bytes = [0; 32];
    let mut rest = &mut bytes[..];
    // A word of ours and at most twenty digits: there is room.
    let _ = write!(rest, "{word}{number}");
    let length = 32 - rest.len();
    Decimal { bytes, length }
}
