//! A take from several limits at once.

use axum::http::{StatusCode, header};
use axum::response::Response;
use schemars::SchemaGenerator;
use tidegate::limit::{self, Limit};
use tidegate::{Cost, Key};

use crate::api::decision::AllDecision;
use crate::api::limit::TakeAll;
use crate::http::answer::Answer;
use crate::http::call::{Call, JsonBody, NoPath};
use crate::http::parameter::NoQuery;
use crate::http::problem::{PROBLEM_JSON, Problem};
use crate::http::response::{Fields, JSON, respond, status};
use crate::http::shape::AnswerShape;

/// A decision about a take from several; a refusal is a problem too.
pub(crate) struct AllTaken(pub(super) Response);

impl Answer for AllTaken {
    fn into_response(self) -> Response {
        self.0
    }

    fn shapes(schemas: &mut SchemaGenerator) -> Vec<AnswerShape> {
        vec![
            AnswerShape::json::<AllDecision<'_>>(schemas, StatusCode::OK, "admitted"),
            AnswerShape::problem::<AllDecision<'_>>(schemas, StatusCode::TOO_MANY_REQUESTS, "refused"),
            AnswerShape::problem::<AllDecision<'_>>(
                schemas,
                StatusCode::SERVICE_UNAVAILABLE,
                "refused while the store is away, by limits with `closed_status: 503`",
            ),
        ]
    }
}

pub(super) async fn take_all(
    call: Call<NoPath, NoQuery, JsonBody<TakeAll<'static>>>,
) -> Result<AllTaken, Problem> {
    let sent = call.body.parse()?;
    let named = sent.limits.iter().map(|one| Ok((call.limit(&one.limit)?.limit, one.cost())));
    let limits: Vec<_> = named.collect::<Result<_, Problem>>()?;
    let key = sent.key.key()?;
    let decision = call.app.gate().take_all(key, &limits).await?;
    Ok(AllTaken(response(key, &decision, &limits)))
}

pub(super) fn response(key: Key<'_>, decision: &limit::AllDecision, limits: &[(&Limit, Cost)]) -> Response {
    let answer = AllDecision::new(key, decision, limits);
    let (status, body) = (status(answer.status()), answer.to_json());
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
