//! One rule: made, read, replaced, changed, deleted.

use tidegate_edge::truth::{Change, Condition, Refusal, Truth, Written};

use super::condition::{conditions, if_match, tag};
use super::open;
use super::path::OfRule;
use super::refusal::{of_change, unmet};
use crate::api::rule::{Changed, Draft, Patch, Replacement, Rule};
use crate::http::{Call, Json, Made, NoContent, NoPath, Problem, Result, Sent, Tagged};

/// A rule that was made or replaced.
type Put = Tagged<Made<Changed>>;

pub(super) async fn create(call: Sent<Draft, NoPath>) -> Result<Put> {
    let truth = &open(&call.app)?.truth;
    let draft = call.body.parse()?.draft()?;
    Ok(made(change(truth, Change::Create(draft)).await??))
}

pub(super) async fn get(call: Call<OfRule>) -> Result<Tagged<Json<Rule>>> {
    let truth = &open(&call.app)?.truth;
    let rule = truth.get(call.path.id()?).await?.ok_or(Refusal::Unknown)?;
    Ok(Tagged { tag: tag(rule.version), answer: Json(rule.into()) })
}

pub(super) async fn replace(call: Sent<Replacement, OfRule>) -> Result<Put> {
    let truth = &open(&call.app)?.truth;
    let id = call.path.id()?.to_owned();
    let condition = conditions(&call.headers)?;
    let terms = call.body.parse()?.0.terms_of(&id)?;
    let replaced = change(truth, Change::Replace { id: id.clone(), terms, condition }).await?;
    match replaced {
        Ok(written) => Ok(made(written)),
        // It is the condition that is not so: without it there would be nothing against it.
        Err(refusal @ (Refusal::Unknown | Refusal::Exists)) => {
            Err(unmet(&refusal, truth.get(&id).await?.map(|rule| rule.version)))
        }
        Err(refusal) => Err(refusal.into()),
    }
}

pub(super) async fn patch(call: Sent<Patch, OfRule>) -> Result<Tagged<Json<Changed>>> {
    let truth = &open(&call.app)?.truth;
    let id = call.path.id()?.to_owned();
    let condition = if_match(&call.headers)?;
    let patch = call.body.parse()?.patch()?;
    let written = change(truth, Change::Patch { id, patch, condition }).await?.map_err(absent(condition))?;
    Ok(Tagged { tag: tag(written.rule.version), answer: Json(Changed::new(written)) })
}

pub(super) async fn delete(call: Call<OfRule>) -> Result<NoContent> {
    let truth = &open(&call.app)?.truth;
    let id = call.path.id()?.to_owned();
    let condition = if_match(&call.headers)?;
    change(truth, Change::Delete { id, condition }).await?.map_err(absent(condition))?;
    Ok(NoContent)
}

/// Whoever expects a rule to be there is told as much, and not only that it is not.
fn absent(condition: Condition) -> impl FnOnce(Refusal) -> Problem {
    move |refusal| match refusal {
        Refusal::Unknown if condition != Condition::None => unmet(&refusal, None),
        refusal => refusal.into(),
    }
}

/// Makes a change; who does not know whether it was made is told so.
async fn change(truth: &Truth, change: Change) -> Result<Result<Written, Refusal>> {
    truth.change(change).await.map_err(of_change)
}

fn made(written: Written) -> Put {
    let (tag, is_new) = (tag(written.rule.version), written.is_new);
    Tagged { tag, answer: Made { is_new, value: Changed::new(written) } }
}
