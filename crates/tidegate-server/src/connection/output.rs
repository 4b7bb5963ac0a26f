//! How answers of the fast path are written: as hyper writes them.

use std::cell::Cell;
use std::time::{Duration, UNIX_EPOCH};

use axum::body::Bytes;
use axum::http::{Response, StatusCode, header};
use tidegate::clock::SystemClock;
use tokio::sync::watch;

/// Where an answer goes.
pub(crate) struct Output<'a> {
    pub(super) into: &'a mut Vec<u8>,
    pub(super) stopping: &'a watch::Receiver<()>,
    pub(super) clock: &'a SystemClock,
}

/// An answer that is in the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Written {
    pub(crate) status: StatusCode,
    /// It says that none follows it.
    pub(super) is_last: bool,
}

impl Output<'_> {
    /// Writes a response whose length is among its fields.
    pub(crate) fn response(&mut self, response: &Response<Bytes>) -> Written {
        let is_last = response.headers().contains_key(header::CONNECTION);
        let fields = |into: &mut Vec<u8>| {
            for (name, value) in response.headers() {
                put_field(into, name.as_str(), value.as_bytes());
            }
        };
        self.put(response.status(), is_last, fields, response.body())
    }

    /// Writes an answer by its parts. Its length is among the `fields`, and nothing is of what becomes of the connection.
    pub(crate) fn parts(
        &mut self,
        status: StatusCode,
        fields: impl FnOnce(&mut Vec<u8>),
        body: &[u8],
    ) -> Written {
        self.put(status, false, fields, body)
    }

    fn put(
        &mut self,
        status: StatusCode,
        is_last: bool,
        fields: impl FnOnce(&mut Vec<u8>),
        body: &[u8],
    ) -> Written {
        // A server that is gone has stopped too.
        let is_stopping = self.stopping.has_changed().unwrap_or(true);
        let into = &mut *self.into;
        match status {
            StatusCode::OK => into.extend_from_slice(b"HTTP/1.1 200 OK\r\n"),
            StatusCode::FOUND => into.extend_from_slice(b"HTTP/1.1 302 Found\r\n"),
            _ => {
                into.extend_from_slice(b"HTTP/1.1 ");
                into.extend_from_slice(status.as_str().as_bytes());
                into.push(b' ');
                into.extend_from_slice(status.canonical_reason().unwrap_or_default().as_bytes());
                into.extend_from_slice(b"\r\n");
            }
        }
        fields(into);
        if is_stopping && !is_last {
            into.extend_from_slice(b"connection: close\r\n");
        }
        into.extend_from_slice(b"date: ");
        into.extend_from_slice(&date(self.clock.now().as_millis() / 1000));
        into.extend_from_slice(b"\r\n\r\n");
        into.extend_from_slice(body);
        Written { status, is_last: is_last || is_stopping }
    }
}

/// Writes a field of a head.
pub(crate) fn put_field(into: &mut Vec<u8>, name: &str, value: &[u8]) {
    into.extend_from_slice(name.as_bytes());
    into.extend_from_slice(b": ");
    into.extend_from_slice(value);
    into.extend_from_slice(b"\r\n");
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
