//! A take from several limits at once.

use axum::http::header;
use axum::response::Response;
use tidegate::limit::{self, Limit};
use tidegate::{Cost, Key};

use super::take::Taken;
use crate::api::decision::AllDecision;
use crate::api::limit::TakeAll;
use crate::http::call::{Call, JsonBody, NoPath};
use crate::http::parameter::NoQuery;
use crate::http::problem::{PROBLEM_JSON, Problem};
use crate::http::response::{Fields, JSON, respond, status};

pub(super) async fn take_all(
    call: Call<NoPath, NoQuery, JsonBody<TakeAll<'static>>>,
) -> Result<Taken<AllDecision<'static>>, Problem> {
    let sent = call.body.parse()?;
    let named = sent.limits.iter().map(|one| Ok((call.limit(&one.limit)?.limit, one.cost())));
    let limits: Vec<_> = named.collect::<Result<_, Problem>>()?;
    let key = sent.key.key()?;
    let decision = call.app.gate().take_all(key, &limits).await?;
    Ok(Taken::new(response(key, &decision, &limits)))
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
