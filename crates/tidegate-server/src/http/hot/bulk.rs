//! Edits or counts in bulk: a line each, read as they come and recorded in batches, full ones at once
//! and others within [`LATEST`]. However many there are, no more than a batch and a line of
//! them is in memory, and the sender is slowed to what the store takes: a store that is busy
//! is waited for, and only one that is absent drops.
//!
//! A bad line is counted and the first few are explained; the others count. An edit
//! that is sent again counts once, so a request that broke may be sent again. Counts have no id: those that
//! count are told, and only the rest may be sent again.

use std::time::{Duration, Instant};

use axum::body::Body;
use axum::http::{HeaderMap, StatusCode};
use http_body_util::BodyExt as _;
use schemars::SchemaGenerator;
use tidegate::clock::monotonic;
use tidegate::hot::{Hot, Recorded};

use crate::api::RequestBody;
use crate::api::hot::{BadLine, Bulk, Edit, late_hint};
use crate::api::hot_counts::Count;
use crate::http::encoding::{broken, decoded};
use crate::http::{
    AnswerShape, BodyShape, Call, Described, FromBody, Kind, NoQuery, OfSpace, Problem, Result, Shapes, json,
};
use crate::lines::{Line, Lines};
use crate::settings::HttpSettings;

/// The longest edit, with every byte of its three texts escaped, is shorter.
const MAX_LINE_BYTES: usize = 8192;

/// Edits that are recorded together.
const BATCH: usize = 512;

/// How long an edit waits for others.
const LATEST: Duration = Duration::from_millis(50);

/// How long a batch may wait for a busy store, within the time of the whole.
const BATCH_DEADLINE: Duration = Duration::from_secs(10);

/// Bad lines that are explained.
const EXPLAINED: usize = 10;

/// What a line has.
pub(super) trait Item: Send + Sync + Sized + 'static {
    /// What becomes of one that is sent again.
    const SENT_AGAIN: &'static str;

    /// Reads a line, and whether it is allowed.
    fn read(line: &[u8]) -> Result<Self, String>;

    /// What became of each, and what may be wrong with them.
    fn record(
        hot: &Hot,
        batch: &[Self],
        deadline: Duration,
    ) -> impl Future<Output = tidegate::Result<(Vec<Recorded>, Option<String>)>> + Send;
}

impl Item for Edit<'static> {
    const SENT_AGAIN: &'static str = "an edit that is sent again counts once";

    fn read(line: &[u8]) -> Result<Self, String> {
        let edit = parse::<Self>(line)?;
        edit.edit().map_err(|error| error.to_string())?;
        Ok(edit.into_owned())
    }

    async fn record(
        hot: &Hot,
        batch: &[Self],
        deadline: Duration,
    ) -> tidegate::Result<(Vec<Recorded>, Option<String>)> {
        let edits: Vec<_> = batch.iter().map(Edit::edit).collect::<Result<_, _>>()?;
        let recorded = hot.record_many_within(&edits, deadline).await?;
        let hint = edits.iter().zip(&recorded).find_map(|(edit, recorded)| late_hint(edit, recorded));
        Ok((recorded, hint))
    }
}

impl Item for Count<'static> {
    const SENT_AGAIN: &'static str = "counts that are sent again count again";

    fn read(line: &[u8]) -> Result<Self, String> {
        let count = parse::<Self>(line)?;
        count.count().map_err(|error| error.to_string())?;
        Ok(count.into_owned())
    }

    async fn record(
        hot: &Hot,
        batch: &[Self],
        deadline: Duration,
    ) -> tidegate::Result<(Vec<Recorded>, Option<String>)> {
        let counts: Vec<_> = batch.iter().map(Count::count).collect::<Result<_, _>>()?;
        Ok((hot.count_many_within(&counts, deadline).await?, None))
    }
}

/// What becomes of all of them.
struct Tally<T> {
    response: Bulk,
    batch: Vec<T>,
    /// Since when the first of them waits.
    waiting_since: Option<Instant>,
    /// When all of it has to be done.
    until: Instant,
}

/// What became of all of them: 207 if the store did not take them all.
pub(crate) struct BulkRecorded;

impl Shapes for BulkRecorded {
    fn shapes(schemas: &mut SchemaGenerator) -> Vec<AnswerShape> {
        let about = "some may not have been recorded: the store was away";
        vec![
            AnswerShape::json::<Bulk>(schemas, StatusCode::OK, "all were read"),
            AnswerShape::json::<Bulk>(schemas, StatusCode::MULTI_STATUS, about),
        ]
    }
}

/// A line for each, as they come.
pub(crate) struct LinesBody(Body);

impl FromBody for LinesBody {
    async fn read(headers: &HeaderMap, sent: Body, _: usize) -> Result<Self> {
        Ok(Self(decoded(headers, sent)?))
    }

    fn shape(schemas: &mut SchemaGenerator) -> Option<BodyShape> {
        let schema = schemas.subschema_for::<String>();
        Some(BodyShape { media_type: "application/x-ndjson", schema, is_required: true })
    }
}

pub(super) async fn record<T: Item>(
    call: Call<OfSpace, NoQuery, LinesBody>,
) -> Result<Described<BulkRecorded>> {
    let (settings, mut stopping) = (call.app.settings().clone(), call.app.stopping().clone());
    let hot = call.app.parts().hot.get(&call.path.space)?;
    let mut body = call.body.0;
    let mut lines = Lines::new(MAX_LINE_BYTES);
    let mut tally = Tally::<T>::new(hot.space().as_str(), monotonic() + settings.bulk_timeout);
    let mut heard_at = monotonic();
    loop {
        let silent_until = tally.until.min(heard_at + settings.request_timeout);
        let wake_at = tally.due_at().map_or(silent_until, |due_at| due_at.min(silent_until));
        let frame = tokio::select! {
            biased;
            _ = stopping.changed() => {
                tally.flush(hot).await?;
                return Err(Problem::stopping(tally.so_far()).with_counts(&tally.response));
            }
            frame = tokio::time::timeout_at(wake_at.into(), body.frame()) => frame,
        };
        let frame = match frame {
            Ok(None) => break,
            Ok(Some(Ok(frame))) => frame,
            Ok(Some(Err(error))) => {
                tally.flush(hot).await?;
                let ended = format!("{}, {}", broken(&error), tally.so_far());
                return Err(Problem::invalid(ended).with_counts(&tally.response));
            }
            Err(_) => {
                let is_silent = silent_until <= monotonic();
                tally.flush(hot).await?;
                if !is_silent {
                    heard_at += monotonic().saturating_duration_since(wake_at);
                    continue;
                }
                return Err(Problem::new(Kind::TIMEOUT, tally.late(&settings)).with_counts(&tally.response));
            }
        };
        heard_at = monotonic();
        // Trailers are nothing to us.
        let Ok(data) = frame.into_data() else { continue };
        let mut rest = &data[..];
        while let Some(line) = lines.next(&mut rest) {
            tally.read(&line);
            if tally.batch.len() >= BATCH {
                tally.flush(hot).await?;
            }
        }
        if tally.due_at().is_some_and(|due_at| due_at <= monotonic()) {
            tally.flush(hot).await?;
        }
        // While it was recorded nobody listened.
        heard_at = monotonic();
    }
    if let Some(line) = lines.last() {
        tally.read(&line);
    }
    tally.flush(hot).await?;
    let is_whole = tally.response.outcomes.lost() == 0;
    let status = if is_whole { StatusCode::OK } else { StatusCode::MULTI_STATUS };
    Ok(Described::new(json(status, &tally.response)))
}

impl<T: Item> Tally<T> {
    fn new(space: &str, until: Instant) -> Self {
        let response = Bulk { space: space.to_owned(), ..Bulk::default() };
        Self { response, batch: Vec::with_capacity(BATCH), waiting_since: None, until }
    }

    /// When what waits has to be recorded.
    fn due_at(&self) -> Option<Instant> {
        self.waiting_since.map(|since| since + LATEST)
    }

    fn read(&mut self, line: &Line<'_>) {
        self.response.lines += 1;
        let item = match line {
            Line::Whole(bytes) if bytes.trim_ascii().is_empty() => return,
            Line::Whole(bytes) => T::read(bytes),
            Line::TooLong => Err(format!("it has more than {MAX_LINE_BYTES} bytes")),
        };
        match item {
            Ok(item) => {
                self.response.good += 1;
                self.waiting_since.get_or_insert_with(monotonic);
                self.batch.push(item);
            }
            Err(detail) => {
                self.response.bad += 1;
                if self.response.bad_lines.len() < EXPLAINED {
                    self.response.bad_lines.push(BadLine { line: self.response.lines, detail });
                }
            }
        }
    }

    async fn flush(&mut self, hot: &Hot) -> Result<()> {
        self.waiting_since = None;
        if self.batch.is_empty() {
            return Ok(());
        }
        // Also at the very end there is a moment to record what was read.
        let left = self.until.saturating_duration_since(monotonic()).max(Duration::from_secs(1));
        let recorded = T::record(hot, &self.batch, left.min(BATCH_DEADLINE)).await;
        let (recorded, hint) = recorded.map_err(|error| Problem::from(error).with_counts(&self.response))?;
        recorded.iter().for_each(|it| self.response.outcomes.count(it));
        self.response.hint = self.response.hint.take().or(hint);
        self.batch.clear();
        Ok(())
    }

    fn so_far(&self) -> String {
        let read = format!("after {} good and {} bad lines", self.response.good, self.response.bad);
        let sent_again = T::SENT_AGAIN;
        match self.response.outcomes.lost() {
            0 => format!("{read}, which count: {sent_again}"),
            lost => {
                let corrupt = if self.response.outcomes.corrupt() > 0 {
                    ", or has keys that cannot be read"
                } else {
                    ""
                };
                format!(
                    "{read}, of which {lost} may not count since the store was away{corrupt}: {sent_again}"
                )
            }
        }
    }

    fn late(&self, settings: &HttpSettings) -> String {
        let is_over = self.until <= monotonic();
        let (what, after) = match is_over {
            true => ("the request was not complete", settings.bulk_timeout),
            false => ("nothing has come", settings.request_timeout),
        };
        let for_so_long = if is_over { "after" } else { "for" };
        format!("{what} {for_so_long} {}, {}", humantime::format_duration(after), self.so_far())
    }
}

fn parse<T: RequestBody>(line: &[u8]) -> Result<T::Read<'_>, String> {
    // A struct could be read from an array, by position: nobody should rely on it.
    if line.trim_ascii_start().first() == Some(&b'[') {
        return Err("it is an array: an object is expected".to_owned());
    }
    serde_json::from_slice(line).map_err(|error| {
        let message = error.to_string();
        // It is always the first line to who reads only one.
        let what = message.rsplit_once(" at line ").map_or(message.as_str(), |(what, _)| what);
        format!("{what} at column {}", error.column())
    })
}
