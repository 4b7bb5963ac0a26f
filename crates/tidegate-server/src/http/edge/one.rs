//! The worker, and what it does about one address.

use axum::http::{HeaderName, HeaderValue};
use axum::response::Response;
use schemars::SchemaGenerator;
use tidegate_edge::worker::Request;
use tidegate_edge::worker::owner::owner_hash;

use super::open;
use super::path::OfUrl;
use crate::api::edge::{Cache, EdgeAnswer, Explained, Owners};
use crate::http::{Answer, AnswerShape, Call, Json, NoPath, Problem, Result, Shapes};

pub(super) async fn cache(call: Call) -> Result<Json<Cache>> {
    let edge = open(&call.app)?;
    let worker = edge.worker();
    Ok(Json(Cache::new(edge.name(), worker.report(), worker.progress())))
}

pub(super) async fn explain(call: Call<NoPath, OfUrl>) -> Result<Json<Explained>> {
    let worker = open(&call.app)?.worker();
    let OfUrl { host, path, query } = &call.query;
    let none = || Problem::invalid("there is no such address".to_owned());
    let explanation = worker.explain(host, path).ok_or_else(none)?;
    // As if only asked what would be: that spends nothing and counts nothing.
    let request = Request { host, path, query: query.as_deref(), is_head: true };
    let (answer, source) =
        worker.answer(&request, |outcome, source| (EdgeAnswer::new(outcome), source.as_str())).await;
    let rule = match &explanation.rule {
        Some(rule) => Some(rule.clone()),
        // What was asked for is in memory now, or soon.
        None => worker.explain(host, path).and_then(|it| it.rule),
    };
    Ok(Json(Explained::new(explanation, source, rule, answer)))
}

/// Where a load balancer finds the worker to send a request to.
const OWNER: HeaderName = HeaderName::from_static("tidegate-owner");

/// Owners, the first of them in a header too.
pub(crate) struct Owned(Owners);

impl Answer for Owned {
    fn into_response(self) -> Response {
        let first = self.0.owners.first().and_then(|name| HeaderValue::try_from(name).ok());
        let mut response = Json(self.0).into_response();
        if let Some(first) = first {
            response.headers_mut().insert(OWNER, first);
        }
        response
    }
}

impl Shapes for Owned {
    fn shapes(schemas: &mut SchemaGenerator) -> Vec<AnswerShape> {
        Json::<Owners>::shapes(schemas)
    }
}

pub(super) async fn owner(call: Call<NoPath, OfUrl>) -> Result<Owned> {
    let edge = open(&call.app)?;
    let OfUrl { host, path, .. } = call.query;
    let (owners, is_own) = match edge.owners() {
        Some(owners) => {
            // Whichever host the rule is for: who sends requests here cannot know.
            let key = owner_hash("*", &path);
            (owners.of(key).map(str::to_owned).collect(), owners.is_owner(edge.name(), key))
        }
        None => (vec![edge.name().to_owned()], true),
    };
    Ok(Owned(Owners::new(host, path, owners, is_own)))
}
