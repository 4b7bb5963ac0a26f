//! `GET /v1/rules/snapshot`: all rules at one place of the log, as lines.

use std::io;

use axum::http::StatusCode;
use axum::response::Response;
use schemars::SchemaGenerator;
use tidegate_edge::stream::{Mark, Snapshot};
use tidegate_edge::truth::Fields;

use super::file::{self, Pieces};
use super::open;
use crate::http::{Answer, AnswerShape, Call, FromQuery, NoPath, Parameter, Query, Result, Shapes};

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

    fn from_query(query: &Query) -> Result<Self> {
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

impl Pieces for Snapshot {
    fn read(&self, at: u64, limit: usize) -> io::Result<Vec<u8>> {
        Snapshot::read(self, at, limit).map_err(io::Error::other)
    }
}

impl Answer for Lines {
    fn into_response(self) -> Response {
        let mark = Mark::from(self.snapshot.position());
        file::respond(self.snapshot, mark, "application/x-ndjson", self.is_gzip)
    }
}

impl Shapes for Lines {
    fn shapes(schemas: &mut SchemaGenerator) -> Vec<AnswerShape> {
        let body = Some(("application/x-ndjson", schemas.subschema_for::<String>()));
        let about = "lines of JSON: where the rules stood, then each of them";
        vec![AnswerShape { status: StatusCode::OK, about, body }]
    }
}

pub(super) async fn snapshot(call: Call<NoPath, Which>) -> Result<Lines> {
    let rules = open(&call.app)?;
    let snapshot = rules.snapshots.get(call.query.fields, call.query.from.as_ref()).await?;
    Ok(Lines { snapshot, is_gzip: file::wants_gzip(&call.headers) })
}
