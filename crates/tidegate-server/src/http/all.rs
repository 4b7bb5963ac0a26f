//! Several limits at once.

use axum::http::header;
use axum::response::Response;
use tidegate::limit::{AllDecision, Limit};
use tidegate::{Cost, Key};

use super::ask::TakeAll;
use super::extract::{Call, Sent};
use super::limits::Answered;
use super::metrics::Operation;
use super::problem::{PROBLEM_JSON, Problem};
use super::reply::{Fields, JSON, respond, status};
use crate::answer::AllAnswer;

pub(super) async fn take_all(call: Call, sent: Sent) -> Answered {
    let _timed = call.timed(Operation::TakeAll);
    let app = &call.app;
    let ask: TakeAll<'_> = sent.parse()?;
    let named = ask.limits.iter().map(|one| Ok((&app.limit(&one.limit)?.limit, one.cost())));
    let limits: Vec<_> = named.collect::<Result<_, Problem>>()?;
    let key = ask.key()?;
    let decision = app.gate().take_all(key, &limits).await?;
    Ok(answer(key, &decision, &limits))
}

fn answer(key: Key<'_>, decision: &AllDecision, limits: &[(&Limit, Cost)]) -> Response {
    let answer = AllAnswer::new(key, decision, limits);
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
