//! Which rule answers a request, and where the rules stand.

use tidegate_edge::path::normalised_host;

use super::list::rule_path;
use super::open;
use crate::api::pattern;
use crate::api::rule::{Position, Resolved, Sent};
use crate::http::{Call, EmptyBody, FromQuery, Json, NoPath, NoQuery, Parameter, Problem, Query, Result};

/// A request, as a worker would see it: its host and path normalised.
#[derive(Debug)]
pub(crate) struct Request {
    host: String,
    path: String,
    query: Option<String>,
}

impl FromQuery for Request {
    const PARAMETERS: &'static [Parameter] = &[
        Parameter::text("host", pattern::ANY, "www.example.com", "the host of the request").required(),
        Parameter::text("path", "^/[^?#]*$", "/docs/start", "its path, without a query").required(),
        Parameter::text("query", pattern::ANY, "a=1", "what it has behind its `?`"),
    ];

    fn from_query(query: &Query) -> Result<Self> {
        let missing = |name: &str| Problem::invalid(format!("the parameter `{name}` is missing"));
        let host = query.read("host", request_host)?.ok_or_else(|| missing("host"))?;
        let path = query.read("path", request_path)?.ok_or_else(|| missing("path"))?;
        Ok(Self { host, path, query: query.get("query").map(str::to_owned) })
    }
}

pub(super) async fn resolve(call: Call<NoPath, Request>) -> Result<Json<Resolved>> {
    let truth = &open(&call.app)?.truth;
    let Request { host, path, query } = call.query;
    let resolution = truth.fetch(&host, &path).await?;
    let time_ms = resolution.position.time_ms;
    let answer = resolution.rule.as_ref().map(|rule| rule.answer(&path, query.as_deref(), time_ms));
    Ok(Json(Resolved::new(host, path, resolution, answer.and_then(Sent::of))))
}

pub(super) async fn position(call: Call) -> Result<Json<Position>> {
    Ok(Json(Position::new(open(&call.app)?.truth.position().await?)))
}

pub(super) async fn new_epoch(call: Call<NoPath, NoQuery, EmptyBody>) -> Result<Json<Position>> {
    let truth = &open(&call.app)?.truth;
    call.body.parse()?;
    truth.new_epoch().await?;
    Ok(Json(Position::new(truth.position().await?)))
}

fn request_host(text: &str) -> Result<String, String> {
    let host = normalised_host(text).ok_or_else(|| {
        let shown: String = text.chars().take(60).collect();
        format!("{shown:?} is no host: one like www.example.com is")
    })?;
    Ok(host.into_owned())
}

fn request_path(text: &str) -> Result<String, String> {
    match text.chars().find(|c| matches!(c, '?' | '#')) {
        Some(c) => Err(format!("{c:?} ends a path: what is behind it is the parameter `query`")),
        None => rule_path(text),
    }
}
