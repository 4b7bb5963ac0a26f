//! `GET /v1/rules/export`: all rules with all they have, as a list that is imported as it is.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::Response;
use schemars::SchemaGenerator;
use tidegate_edge::formats::ExportFormat;
use tidegate_edge::truth::Position;

use super::file::{self, Pieces};
use super::open;
use crate::api::rule_import::EXPORT_FORMAT_NAMES;
use crate::http::{Answer, AnswerShape, Call, FromQuery, NoPath, Parameter, Problem, Query, Result, Shapes};

/// How the list is written.
#[derive(Debug)]
pub(crate) struct ExportQuery(ExportFormat);

impl FromQuery for ExportQuery {
    const PARAMETERS: &'static [Parameter] =
        &[Parameter::one_of("format", &EXPORT_FORMAT_NAMES, "how the list is written: `csv` unless given")];

    fn from_query(query: &Query) -> Result<Self> {
        let format = query.read("format", |text| match text {
            "csv" => Ok(ExportFormat::Csv),
            "jsonl" => Ok(ExportFormat::Jsonl),
            other => {
                let shown: String = other.chars().take(60).collect();
                Err(format!("{shown:?} is not allowed: {} are", EXPORT_FORMAT_NAMES.join(", ")))
            }
        })?;
        Ok(Self(format.unwrap_or_default()))
    }
}

/// A list of all rules.
pub(crate) struct List {
    position: Position,
    file: Spooled,
    format: ExportFormat,
    is_gzip: bool,
}

/// A file without a name, which ends with whoever sends it.
struct Spooled {
    file: File,
    bytes: u64,
}

impl Pieces for Spooled {
    fn read(&self, at: u64, limit: usize) -> io::Result<Vec<u8>> {
        let left = usize::try_from(self.bytes.saturating_sub(at)).unwrap_or(usize::MAX);
        let mut bytes = vec![0; left.min(limit)];
        self.file.read_exact_at(&mut bytes, at)?;
        Ok(bytes)
    }
}

const CSV: &str = "text/csv; charset=utf-8";
const JSONL: &str = "application/x-ndjson";

impl Answer for List {
    fn into_response(self) -> Response {
        let Self { position, file, format, is_gzip } = self;
        let (media_type, name) = match format {
            ExportFormat::Csv => (CSV, "attachment; filename=\"rules.csv\""),
            ExportFormat::Jsonl => (JSONL, "attachment; filename=\"rules.jsonl\""),
        };
        let bytes = file.bytes;
        let mut response = file::respond(file, &position, media_type, is_gzip);
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_DISPOSITION, HeaderValue::from_static(name));
        if !is_gzip {
            headers.insert(header::CONTENT_LENGTH, bytes.into());
        }
        response
    }
}

impl Shapes for List {
    fn shapes(schemas: &mut SchemaGenerator) -> Vec<AnswerShape> {
        let mut shape = |about, media_type| {
            let body = Some((media_type, schemas.subschema_for::<String>()));
            AnswerShape { status: StatusCode::OK, about, body }
        };
        vec![shape("values between commas, with a header", "text/csv"), shape("or a rule per line", JSONL)]
    }
}

pub(super) async fn export(call: Call<NoPath, ExportQuery>) -> Result<List> {
    let format = call.query.0;
    let (position, file) = open(&call.app)?.truth.export(format).await?;
    let bytes = file.metadata().map_err(unreadable)?.len();
    let is_gzip = file::wants_gzip(&call.headers);
    Ok(List { position, file: Spooled { file, bytes }, format, is_gzip })
}

fn unreadable(error: io::Error) -> Problem {
    let kind = tidegate_edge::ErrorKind::Unavailable;
    tidegate_edge::Error::new(kind, format!("an export cannot be read: {error}")).into()
}
