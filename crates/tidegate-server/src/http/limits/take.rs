//! A take from one limit, on both ways that it can take, the router and the fast path, and one from several
//! at once.

use std::marker::PhantomData;
use std::time::Instant;

use axum::body::{Body, Bytes};
use axum::http::{StatusCode, header};
use axum::response::Response;
use schemars::{JsonSchema, SchemaGenerator};
use tidegate::limit::{self, Limit};
use tidegate::{Cost, Key};

use super::path::OfLimit;
use crate::api::decision::{AllDecision, Decision, Refusal};
use crate::api::limit::{Take, TakeAll, WholeCost};
use crate::http::metrics::Timed;
use crate::http::{
    AnswerShape, App, Described, Fields, JSON, NoPath, PROBLEM_JSON, Problem, Result, Sent, Served, Shapes,
    body, respond, status,
};

/// A decision about a take, in a body of this type; a refusal is a problem too.
pub(crate) struct Decided<D>(PhantomData<D>);

pub(crate) type Taken<D> = Described<Decided<D>>;

impl<D: JsonSchema> Shapes for Decided<D> {
    fn shapes(schemas: &mut SchemaGenerator) -> Vec<AnswerShape> {
        let when_away = "refused while the store is away, by a limit with `closed_status: 503`";
        vec![
            AnswerShape::json::<D>(schemas, StatusCode::OK, "admitted"),
            AnswerShape::problem::<D>(schemas, StatusCode::TOO_MANY_REQUESTS, "refused"),
            AnswerShape::problem::<D>(schemas, StatusCode::SERVICE_UNAVAILABLE, when_away),
        ]
    }
}

pub(super) async fn take(call: Sent<Take<'static>, OfLimit>) -> Result<Taken<Decision<'static>>> {
    let served = call.app.limit(&call.path.limit)?;
    Ok(Taken::new(take_from(served, call.body.parse()?).await?.map(Body::from)))
}

/// A take from one limit, however it was found and its body was read.
async fn take_from(served: Served<'_>, sent: Take<'_>) -> Result<Response<Bytes>> {
    let (key, cost) = (sent.key.key()?, WholeCost::or_one(&sent.cost));
    let decision = match sent.rate.as_ref().map(|rate| rate.parse()).transpose()? {
        None => served.limit.take(key, cost).await?,
        Some(rate) => served.limit.take_with(key, rate, cost).await?,
    };
    Ok(served.to_take(key, cost, &decision))
}

pub(super) async fn take_all(call: Sent<TakeAll<'static>, NoPath>) -> Result<Taken<AllDecision<'static>>> {
    let sent = call.body.parse()?;
    let named =
        sent.limits.iter().map(|one| Ok((call.app.limit(&one.limit)?.limit, WholeCost::or_one(&one.cost))));
    let limits: Vec<_> = named.collect::<Result<_>>()?;
    let key = sent.key.key()?;
    let decision = call.app.gate().take_all(key, &limits).await?;
    Ok(Taken::new(response(key, &decision, &limits)))
}

/// The answer, with the fields of all limits.
pub(super) fn response(key: Key<'_>, decision: &limit::AllDecision, limits: &[(&Limit, Cost)]) -> Response {
    let answer = AllDecision::new(key, decision, limits);
    let status = status(Refusal::status(answer.problem.as_ref()));
    // Strings and numbers alone: there is nothing that JSON cannot write.
    let body = serde_json::to_vec(&answer).unwrap_or_default();
    let media_type = if decision.is_admitted() { JSON } else { PROBLEM_JSON };
    let mut fields = Fields::default();
    for (name, decision) in decision.decisions() {
        fields.add(name.as_str(), decision.quota());
    }
    let mut response = respond(status, media_type, body);
    let headers = response.headers_mut();
    fields.insert_into(headers);
    if let Some(retry_after_ms) = decision.retry_after_ms() {
        // Rounded up, so that who waits that long is not refused again.
        headers.insert(header::RETRY_AFTER, retry_after_ms.div_ceil(1000).max(1).into());
    }
    response
}

impl App {
    /// The limit that is taken from, if it is written as it is called. Names are letters,
    /// digits, `_` and `-`: what is percent-encoded or has a slash is none of them.
    pub(in crate::http) fn taken_from(&self, path: &str) -> Option<Served<'_>> {
        let name = path.strip_prefix("/v1/limits/")?.strip_suffix("/take")?;
        self.served(self.parts().limits.position(name)?).ok()
    }

    /// What the route answers to a body that has been read, and is of a type and a size that
    /// are allowed; its head was complete at `since`.
    pub(in crate::http) async fn take_read(
        &self,
        served: Served<'_>,
        body: &[u8],
        since: Instant,
    ) -> Response<Bytes> {
        let _timed = Timed { since, seconds: self.metrics().take_seconds() };
        let taken = match body::parse(body) {
            Ok(sent) => take_from(served, sent).await,
            Err(problem) => Err(problem),
        };
        taken.unwrap_or_else(Problem::whole)
    }
}
