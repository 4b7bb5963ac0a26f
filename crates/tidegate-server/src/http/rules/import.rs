//! `POST /v1/rules/import`: a list of redirects of any size, as one change or not at all.
//!
//! The list is handed on as it comes, and no faster than it is read: a few pieces of it are in memory. Nothing is written
//! before all of it has come, so one that breaks off, whyever it does, has changed nothing. From then on nobody who waits
//! can stop it.

use std::pin::pin;
use std::time::Instant;

use axum::body::Body;
use axum::http::{HeaderMap, header};
use http_body_util::BodyExt as _;
use schemars::SchemaGenerator;
use tidegate::clock::monotonic;
use tidegate_edge::formats::{Format, Reader};
use tidegate_edge::truth::{ImportMode, ImportOptions, ImportOutcome, ImportReport};

use super::feed::{Feed, feed};
use super::list::rule_host;
use super::open;
use super::refusal::{of_import, refused_import};
use crate::api::pattern;
use crate::api::rule_import::{FORMAT_NAMES, MODE_NAMES, Report};
use crate::http::encoding::{broken, decoded};
use crate::http::{
    App, BodyShape, Call, FromBody, FromQuery, Json, Kind, NoPath, Parameter, Problem, Query, Result,
};

/// How a list is written, and what becomes of it.
#[derive(Debug)]
pub(crate) struct ImportQuery {
    format: Format,
    host: Option<String>,
    options: ImportOptions,
}

impl FromQuery for ImportQuery {
    const PARAMETERS: &'static [Parameter] = &[
        Parameter::one_of("format", &FORMAT_NAMES, "how the list is written").required(),
        Parameter::one_of(
            "mode",
            &MODE_NAMES,
            "what becomes of rules that the list does not have: they stay (`merge`, unless given), or are deleted",
        ),
        Parameter::flag("partial", "whether what is good is written though something is not"),
        Parameter::flag("dry_run", "whether only to say what would be"),
        Parameter::text("host", pattern::ANY, "www.example.com", "the host of rules that name none"),
    ];

    fn from_query(query: &Query) -> Result<Self> {
        let format = query.read("format", str::parse)?;
        let format = format.ok_or_else(|| {
            let all = FORMAT_NAMES.join(", ");
            Problem::invalid(format!("the parameter `format` is missing: {all} are allowed"))
        })?;
        let mut options = ImportOptions::default();
        options.mode = query.read("mode", mode)?.unwrap_or_default();
        options.partial = query.flag("partial")?;
        options.dry_run = query.flag("dry_run")?;
        if options.partial && options.mode == ImportMode::Replace {
            let why = "it would delete the rules of bad lines";
            return Err(Problem::invalid(format!("`partial` with `mode=replace` is not allowed: {why}")));
        }
        Ok(Self { format, host: query.read("host", rule_host)?, options })
    }
}

fn mode(text: &str) -> Result<ImportMode, String> {
    match text {
        "merge" => Ok(ImportMode::Merge),
        "replace" => Ok(ImportMode::Replace),
        other => {
            let shown: String = other.chars().take(60).collect();
            Err(format!("{shown:?} is not allowed: {} are", MODE_NAMES.join(", ")))
        }
    }
}

/// A list, as it comes.
pub(crate) struct ListBody(Body);

impl FromBody for ListBody {
    async fn read(headers: &HeaderMap, sent: Body, _: usize) -> Result<Self> {
        check_type(headers)?;
        Ok(Self(decoded(headers, sent)?))
    }

    fn shape(schemas: &mut SchemaGenerator) -> Option<BodyShape> {
        let schema = schemas.subschema_for::<String>();
        Some(BodyShape { media_type: "*/*", schema, is_required: true })
    }
}

/// Lists have many types, and often none that says anything. What is a form is no list, and what a browser sends for any
/// page, without having asked us, may be no user's doing.
fn check_type(headers: &HeaderMap) -> Result<()> {
    let given = headers.get(header::CONTENT_TYPE).map_or("", |given| given.to_str().unwrap_or("?"));
    let essence = given.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let allowed = match &*essence {
        "multipart/form-data" => "the list itself is, of any type, as curl --data-binary @FILE sends it",
        "" | "text/plain" | "application/x-www-form-urlencoded" if headers.contains_key(header::ORIGIN) => {
            "text/csv and application/octet-stream are, from a page"
        }
        _ => return Ok(()),
    };
    let given: String = given.chars().take(100).collect();
    Err(Problem::new(Kind::MEDIA_TYPE, format!("a body of type {given:?} is not allowed: {allowed}")))
}

pub(super) async fn import(call: Call<NoPath, ImportQuery, ListBody>) -> Result<Json<Report>> {
    let truth = open(&call.app)?.truth.clone();
    let ImportQuery { format, host, options } = call.query;
    let (feed, fed) = feed();
    let reader = Reader::new(format, fed);
    let reader = host.into_iter().fold(reader, Reader::host);
    // Who ceases to wait is not the end of it: it is counted all the same.
    let mut importing = tokio::spawn(async move { truth.import(reader, options, |_| ()).await });
    let mut feeding = pin!(feed_all(&call.app, call.body.0, feed));
    let imported = tokio::select! {
        biased;
        fed = &mut feeding => {
            fed?;
            importing.await
        }
        imported = &mut importing => {
            // It has failed. Who is still sending reads its answer when all is sent.
            let _ = feeding.await;
            imported
        }
    };
    let report = imported.map_err(|_| Problem::new(Kind::INTERNAL, "an import ended".to_owned()))?;
    let report = report.map_err(of_import)?;
    log(format, &report);
    match report.outcome {
        ImportOutcome::Refused => Err(refused_import(report)),
        _ => Ok(Json(Report::new(report))),
    }
}

/// Hands on a body to its end. With an error that is not said, and nothing is written.
async fn feed_all(app: &App, mut body: Body, feed: Feed) -> Result<()> {
    let (settings, mut stopping) = (app.settings(), app.stopping().clone());
    let until = monotonic() + settings.bulk_timeout;
    let late = |is_silent: bool| {
        let (what, after) = match is_silent {
            true => ("nothing has come for", settings.request_timeout),
            false => ("the request was not complete after", settings.bulk_timeout),
        };
        let detail = format!("{what} {}, {NOTHING}", humantime::format_duration(after));
        Problem::new(Kind::TIMEOUT, detail)
    };
    let by = |at: Instant| tokio::time::Instant::from(at);
    loop {
        let silent_until = until.min(monotonic() + settings.request_timeout);
        let frame = tokio::select! {
            biased;
            _ = stopping.changed() => return Err(Problem::stopping(NOTHING.to_owned())),
            frame = tokio::time::timeout_at(by(silent_until), body.frame()) => frame,
        };
        let Some(frame) = frame.map_err(|_| late(silent_until < until))? else { break };
        let frame = frame.map_err(|error| Problem::invalid(format!("{}, {NOTHING}", broken(&error))))?;
        // Trailers are nothing to us.
        let Ok(data) = frame.into_data() else { continue };
        // While it waits for its turn nobody listens.
        tokio::select! {
            biased;
            _ = stopping.changed() => return Err(Problem::stopping(NOTHING.to_owned())),
            pushed = tokio::time::timeout_at(by(until), feed.push(data)) => pushed.map_err(|_| late(false))?,
        }
    }
    feed.end().await;
    Ok(())
}

const NOTHING: &str = "and nothing was written";

fn log(format: Format, report: &ImportReport) {
    if let Some(seq) = report.seq {
        let ImportReport { created, changed, deleted, .. } = report;
        tracing::info!(%format, %seq, created, changed, deleted, "rules were imported");
    }
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    #[test]
    fn a_list_is_of_any_type_unless_a_page_may_have_sent_it() {
        for (given, from_a_page, is_allowed) in [
            (None, false, true),
            (None, true, false),
            (Some("text/csv; charset=utf-8"), true, true),
            (Some("application/octet-stream"), true, true),
            (Some("Text/Plain; charset=utf-8"), false, true),
            (Some("Text/Plain; charset=utf-8"), true, false),
            (Some("application/x-www-form-urlencoded"), false, true),
            (Some("application/x-www-form-urlencoded"), true, false),
            (Some("multipart/form-data; boundary=x"), false, false),
        ] {
            let mut headers = HeaderMap::new();
            headers.extend(given.map(|it| (header::CONTENT_TYPE, HeaderValue::from_static(it))));
            headers
                .extend(from_a_page.then(|| (header::ORIGIN, HeaderValue::from_static("https://e.example"))));
            assert_eq!(check_type(&headers).is_ok(), is_allowed, "{given:?} {from_a_page}");
        }
    }
}
