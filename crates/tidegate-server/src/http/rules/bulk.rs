//! Many rules at once, as an array or as lines: each is made, replaced or deleted by itself, and a refused one fails no
//! other. Those that are about different rules are written together; another change of the same rule comes after.

use std::collections::HashSet;

use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, StatusCode};
use axum::response::Response;
use schemars::SchemaGenerator;
use serde_json::value::RawValue;
use tidegate_edge::truth::{Change, Truth};

use super::open;
use super::refusal::of_change;
use crate::api::rule_bulk::{Bulk, Line, Lines, MAX_CHANGES};
use crate::http::body::{check_type, is_ndjson, read_whole};
use crate::http::{
    Answer, AnswerShape, BodyShape, Call, FromBody, NoPath, NoQuery, Problem, Result, Shapes, json,
};

/// What a thousand changes have room in, and most that anybody writes: the longest rule has 14 kB.
const MAX_BYTES: usize = 4 << 20;

/// Changes in one transaction: others wait for it.
const TOGETHER: usize = 500;

/// Changes, as an array or a line each.
pub(crate) struct ChangesBody {
    bytes: Bytes,
    is_lines: bool,
}

impl FromBody for ChangesBody {
    async fn read(headers: &HeaderMap, sent: Body, max_bytes: usize) -> Result<Self> {
        let is_lines = is_ndjson(headers);
        if !is_lines {
            check_type(headers, "application/json and application/x-ndjson are")?;
        }
        Ok(Self { bytes: read_whole(headers, sent, max_bytes.max(MAX_BYTES)).await?, is_lines })
    }

    fn shape(schemas: &mut SchemaGenerator) -> Option<BodyShape> {
        let schema = schemas.subschema_for::<Lines>();
        Some(BodyShape { media_type: "application/json", schema, is_required: true })
    }
}

/// A change by its number, or why it cannot be read.
type Numbered = (usize, Result<Change, String>);

impl ChangesBody {
    fn parse(&self) -> Result<Vec<Numbered>> {
        let texts: Vec<(usize, &[u8])> = match self.is_lines {
            true => {
                let lines = self.bytes.split(|byte| *byte == b'\n').zip(1..);
                lines.filter(|(line, _)| !line.trim_ascii().is_empty()).map(|(line, at)| (at, line)).collect()
            }
            false => {
                let read = serde_json::from_slice::<Vec<&RawValue>>(&self.bytes);
                let all = read.map_err(|error| {
                    let expected = "an array of changes is expected, like [{\"delete\":\"a\"}]";
                    Problem::invalid(format!("the body is not what is expected: {error}: {expected}"))
                })?;
                (1..).zip(all.into_iter().map(|value| value.get().as_bytes())).collect()
            }
        };
        match texts.len() {
            0..=MAX_CHANGES => Ok(texts.into_iter().map(|(at, text)| (at, Line::read(text))).collect()),
            count => {
                let detail = format!("{count} changes at once are not allowed: up to {MAX_CHANGES} are");
                Err(Problem::invalid(detail))
            }
        }
    }
}

/// What became of all of them: 207 if some were refused.
pub(crate) struct Changed(Bulk);

impl Answer for Changed {
    fn into_response(self) -> Response {
        json(if self.0.refused == 0 { StatusCode::OK } else { StatusCode::MULTI_STATUS }, &self.0)
    }
}

impl Shapes for Changed {
    fn shapes(schemas: &mut SchemaGenerator) -> Vec<AnswerShape> {
        vec![
            AnswerShape::json::<Bulk>(schemas, StatusCode::OK, "all are as asked for"),
            AnswerShape::json::<Bulk>(schemas, StatusCode::MULTI_STATUS, "some were refused"),
        ]
    }
}

pub(super) async fn bulk(call: Call<NoPath, NoQuery, ChangesBody>) -> Result<Changed> {
    let truth = &open(&call.app)?.truth;
    let mut batch = Batch { truth, waiting: Vec::new(), ids: HashSet::new(), done: Bulk::default() };
    for (line, change) in call.body.parse()? {
        match change {
            Ok(change) => batch.add(line, change).await?,
            Err(why) => batch.done.unreadable(line, why),
        }
    }
    batch.flush().await?;
    let mut done = batch.done;
    // Those that cannot be read did not wait for others.
    done.outcomes.sort_by_key(|outcome| outcome.line);
    Ok(Changed(done))
}

/// Changes that go together, no two of one rule.
struct Batch<'a> {
    truth: &'a Truth,
    waiting: Vec<(usize, Change)>,
    ids: HashSet<String>,
    done: Bulk,
}

impl Batch<'_> {
    async fn add(&mut self, line: usize, change: Change) -> Result<()> {
        let is_again = change.id().is_some_and(|id| self.ids.contains(id));
        if is_again || self.waiting.len() == TOGETHER {
            self.flush().await?;
        }
        self.ids.extend(change.id().map(str::to_owned));
        self.waiting.push((line, change));
        Ok(())
    }

    async fn flush(&mut self) -> Result<()> {
        self.ids.clear();
        if self.waiting.is_empty() {
            return Ok(());
        }
        let about = |(line, change): &(usize, Change)| {
            (*line, change.id().map(str::to_owned), matches!(change, Change::Delete { .. }))
        };
        let asked: Vec<_> = self.waiting.iter().map(about).collect();
        let changes = self.waiting.drain(..).map(|(_, change)| change).collect();
        // What was done before counts, and is found so when all of it is sent again.
        let outcomes = self.truth.change_all(changes).await;
        let outcomes = outcomes.map_err(|error| of_change(error).with_counts(&self.done))?;
        for ((line, id, is_deletion), outcome) in asked.into_iter().zip(outcomes) {
            self.done.add(line, id, is_deletion, outcome);
        }
        Ok(())
    }
}
