//! Edits in bulk: a line each, read as they come and recorded in batches. However
//! many there are, no more than a batch and a line of them is in memory, and the
//! sender is slowed to what the store takes.
//!
//! A bad line is counted and the first few are explained; the others count. An edit
//! that is sent again counts once, so a request that broke may be sent again.

use std::time::{Duration, Instant};

use axum::body::Body;
use axum::http::{HeaderMap, Method, Request, header};
use http_body_util::BodyExt as _;
use serde::Serialize;
use tidegate::clock::monotonic;
use tidegate::hot::{Hot, Recorded};

use super::ask::AskedEdit;
use crate::http::App;
use crate::http::encoding::broken;
use crate::http::problem::Problem;
use crate::lines::{Line, Lines};
use crate::outcomes::Outcomes;

/// The longest edit, with every byte of its three texts escaped, is shorter.
const MAX_LINE_BYTES: usize = 8192;

/// Edits that are recorded together.
const BATCH: usize = 512;

/// Bad lines that are explained.
const EXPLAINED: usize = 10;

/// Whether this is a request that has its own time.
pub(crate) fn is_bulk<B>(request: &Request<B>) -> bool {
    request.method() == Method::POST
        && request.uri().path().starts_with("/v1/hot/")
        && request.uri().path().ends_with("/edits")
        && is_ndjson(request.headers())
}

pub(super) fn is_ndjson(headers: &HeaderMap) -> bool {
    let given = headers.get(header::CONTENT_TYPE).and_then(|given| given.to_str().ok()).unwrap_or_default();
    let essence = given.split(';').next().unwrap_or_default().trim();
    ["application/x-ndjson", "application/ndjson", "application/jsonl"]
        .iter()
        .any(|known| essence.eq_ignore_ascii_case(known))
}

/// What became of all of them.
#[derive(Debug, Serialize)]
pub(super) struct Tally {
    space: String,
    lines: u64,
    good: u64,
    bad: u64,
    outcomes: Outcomes,
    bad_lines: Vec<BadLine>,
    #[serde(skip)]
    batch: Vec<AskedEdit<'static>>,
}

#[derive(Debug, Serialize)]
struct BadLine {
    line: u64,
    detail: String,
}

pub(super) async fn record(app: &App, hot: &Hot, mut body: Body) -> Result<Tally, Problem> {
    let until = monotonic() + app.bounds().bulk_timeout;
    let mut lines = Lines::new(MAX_LINE_BYTES);
    let mut tally = Tally::new(hot.space().as_str());
    loop {
        let frame = match tokio::time::timeout(patience(app, until), body.frame()).await {
            Ok(None) => break,
            Ok(Some(Ok(frame))) => frame,
            Ok(Some(Err(error))) => {
                tally.flush(hot).await?;
                return Err(Problem::invalid(format!("{}, {}", broken(&error), tally.so_far())));
            }
            Err(_) => {
                tally.flush(hot).await?;
                return Err(Problem::late(tally.late(app, until)));
            }
        };
        // Trailers tell nothing.
        let Ok(data) = frame.into_data() else { continue };
        let mut rest = &data[..];
        while let Some(line) = lines.next(&mut rest) {
            tally.read(&line);
            if tally.batch.len() >= BATCH {
                tally.flush(hot).await?;
            }
        }
    }
    if let Some(line) = lines.last() {
        tally.read(&line);
    }
    tally.flush(hot).await?;
    Ok(tally)
}

/// For how long the next piece may keep us waiting.
fn patience(app: &App, until: Instant) -> Duration {
    until.saturating_duration_since(monotonic()).min(app.bounds().request_timeout)
}

impl Tally {
    fn new(space: &str) -> Self {
        Self {
            space: space.to_owned(),
            lines: 0,
            good: 0,
            bad: 0,
            outcomes: Outcomes::default(),
            bad_lines: Vec::new(),
            batch: Vec::with_capacity(BATCH),
        }
    }

    fn read(&mut self, line: &Line<'_>) {
        self.lines += 1;
        let edit = match line {
            Line::Whole(bytes) if bytes.trim_ascii().is_empty() => return,
            Line::Whole(bytes) => read(bytes),
            Line::TooLong => Err(format!("it has more than {MAX_LINE_BYTES} bytes")),
        };
        match edit {
            Ok(edit) => {
                self.good += 1;
                self.batch.push(edit);
            }
            Err(detail) => {
                self.bad += 1;
                if self.bad_lines.len() < EXPLAINED {
                    self.bad_lines.push(BadLine { line: self.lines, detail });
                }
            }
        }
    }

    async fn flush(&mut self, hot: &Hot) -> Result<(), Problem> {
        if self.batch.is_empty() {
            return Ok(());
        }
        let edits: Vec<_> = self.batch.iter().map(AskedEdit::edit).collect::<Result<_, _>>()?;
        let recorded: Vec<Recorded> = hot.record_many(&edits).await?;
        drop(edits);
        self.batch.clear();
        recorded.iter().for_each(|recorded| self.outcomes.count(recorded));
        Ok(())
    }

    fn so_far(&self) -> String {
        format!(
            "after {} good and {} bad lines, which count: an edit that is sent again counts once",
            self.good, self.bad
        )
    }

    fn late(&self, app: &App, until: Instant) -> String {
        let is_over = until <= monotonic();
        let bounds = app.bounds();
        let (what, after) = match is_over {
            true => ("the request was not complete", bounds.bulk_timeout),
            false => ("nothing has come", bounds.request_timeout),
        };
        let for_so_long = if is_over { "after" } else { "for" };
        format!("{what} {for_so_long} {}, {}", humantime::format_duration(after), self.so_far())
    }
}

fn read(line: &[u8]) -> Result<AskedEdit<'static>, String> {
    // A struct could be read from an array, by position: nobody should rely on it.
    if line.trim_ascii_start().first() == Some(&b'[') {
        return Err("it is an array: an object is expected".to_owned());
    }
    let asked: AskedEdit<'_> = serde_json::from_slice(line).map_err(|error| {
        let told = error.to_string();
        // It is always the first line to who reads only one.
        let what = told.rsplit_once(" at line ").map_or(told.as_str(), |(what, _)| what);
        format!("{what} at column {}", error.column())
    })?;
    asked.edit().map_err(|error| error.to_string())?;
    Ok(asked.into_owned())
}
