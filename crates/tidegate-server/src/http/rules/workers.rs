//! Those who serve redirects elsewhere: who they are and how far, their permits, and what they have counted.

use schemars::JsonSchema;
use serde::Deserialize;
use tidegate::bounds::MAX_COUNT;
use tidegate_edge::rule::MAX_ID_BYTES;
use tidegate_edge::truth::{self, Grant, Refusal, Returned, Seq};

use super::open;
use super::path::OfRule;
use super::refusal::of_change;
use crate::api::rule_worker::{
    Applied, Ask, Block, Clicked, Clicks, ClicksCounted, MAX_CLICKS, Report, Return, Workers,
};
use crate::http::{Call, Json, Kind, NoContent, Problem, Result, Sent};

pub(super) const UNKNOWN_BLOCK: Kind = Kind::new(404, "block-unknown", "No such block");
pub(super) const TOO_MANY: Kind = Kind::new(409, "block-too-many", "More than was granted");

/// Rules in a report, at most.
const MAX_REPORTED: usize = 10_000;

/// What a worker may call itself.
pub(super) fn worker_name(name: &str) -> Result<&str, String> {
    let is_allowed = (1..=128).contains(&name.len()) && name.bytes().all(|byte| byte.is_ascii_graphic());
    is_allowed
        .then_some(name)
        .ok_or_else(|| "a worker's name is 1 to 128 visible ASCII characters".to_owned())
}

/// `/v1/workers/{worker}/…`.
#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct OfWorker {
    #[schemars(extend("pattern" = "^[!-~]{1,128}$"))]
    worker: String,
}

impl OfWorker {
    fn name(&self) -> Result<&str> {
        worker_name(&self.worker).map_err(Problem::invalid)
    }
}

/// `/v1/workers/{worker}/blocks/{number}` and what else has a number.
#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct OfNumber {
    #[schemars(extend("pattern" = "^[!-~]{1,128}$"))]
    worker: String,
    #[schemars(extend("pattern" = "^[0-9]{1,15}$"))]
    number: String,
}

impl OfNumber {
    fn read(&self) -> Result<(String, u64)> {
        let worker = worker_name(&self.worker).map_err(Problem::invalid)?;
        let is_digits = self.number.bytes().all(|byte| byte.is_ascii_digit());
        let number = is_digits.then(|| self.number.parse().ok()).flatten().filter(|it| *it <= MAX_COUNT);
        let number = number.ok_or_else(|| {
            let shown: String = self.number.chars().take(40).collect();
            Problem::invalid(format!("{shown:?} is no number: 0 to {MAX_COUNT} are allowed"))
        })?;
        Ok((worker.to_owned(), number))
    }
}

pub(super) async fn list(call: Call) -> Result<Json<Workers>> {
    let rules = open(&call.app)?;
    let seq = rules.truth.position().await?.seq;
    Ok(Json(Workers::new(seq.0, rules.workers.list(seq, rules.clock.now().as_millis()))))
}

pub(super) async fn applied(call: Sent<Applied, OfWorker>) -> Result<NoContent> {
    let rules = open(&call.app)?;
    let seq = call.body.parse()?.seq;
    if seq > MAX_COUNT {
        return Err(Problem::invalid(format!("`seq`: {seq} is not allowed: 0 to {MAX_COUNT} are")));
    }
    rules.workers.applied(call.path.name()?, Seq(seq), rules.clock.now().as_millis());
    Ok(NoContent)
}

pub(super) async fn ask(call: Sent<Ask, OfNumber>) -> Result<Json<Block>> {
    let truth = &open(&call.app)?.truth;
    let (worker, number) = call.path.read()?;
    let Ask { rule, wanted } = call.body.parse()?;
    if wanted == 0 || wanted > MAX_COUNT {
        return Err(Problem::invalid(format!("`wanted`: {wanted} is not allowed: 1 to {MAX_COUNT} are")));
    }
    if rule.is_empty() || rule.len() > MAX_ID_BYTES {
        let detail = format!("`rule`: an id has {} bytes: 1 to {MAX_ID_BYTES} are allowed", rule.len());
        return Err(Problem::invalid(detail));
    }
    let granted = truth.grant(truth::Ask { rule, worker, number, wanted }).await.map_err(of_change)?;
    let created_at = granted.created_at;
    Ok(Json(match granted.grant {
        Grant::Block { permits, life, epoch } => {
            Block::Granted { permits, life_ms: life.as_millis() as u64, epoch, created_at }
        }
        Grant::Wait { retry_after } => {
            Block::Wait { retry_after_ms: retry_after.as_millis() as u64, created_at }
        }
        Grant::Spent => Block::Spent { created_at },
        Grant::Unbounded => Block::Unbounded,
        // Whatever else there will be is nothing to spend.
        _ => return Err(Refusal::Unknown.into()),
    }))
}

pub(super) async fn give_back(call: Sent<Return, OfNumber>) -> Result<NoContent> {
    let truth = &open(&call.app)?.truth;
    let (worker, number) = call.path.read()?;
    let spent = call.body.parse()?.spent;
    if spent > MAX_COUNT {
        return Err(Problem::invalid(format!("`spent`: {spent} is not allowed: 0 to {MAX_COUNT} are")));
    }
    match truth.give_back(truth::Return { worker, number, spent }).await.map_err(of_change)? {
        Returned::Counted | Returned::Known => Ok(NoContent),
        Returned::TooMany => {
            let detail = format!("the block {number} did not have {spent} permits: nothing was counted");
            Err(Problem::refused(TOO_MANY, "too_many", detail))
        }
        _ => {
            let detail = format!("there is no block {number} of this worker, or its rule was deleted");
            Err(Problem::refused(UNKNOWN_BLOCK, "unknown", detail))
        }
    }
}

pub(super) async fn report(call: Sent<Report, OfNumber>) -> Result<Json<ClicksCounted>> {
    let truth = &open(&call.app)?.truth;
    let (worker, number) = call.path.read()?;
    let Report { clicks, created_at } = call.body.parse()?;
    if created_at.len() > MAX_REPORTED {
        let detail =
            format!("`createdAt` has {} rules: at most {MAX_REPORTED} are allowed", created_at.len());
        return Err(Problem::invalid(detail));
    }
    if clicks.len() > MAX_REPORTED {
        let detail = format!("`clicks` has {} rules: at most {MAX_REPORTED} are allowed", clicks.len());
        return Err(Problem::invalid(detail));
    }
    if let Some(id) = clicks.keys().find(|id| id.is_empty() || id.len() > MAX_ID_BYTES) {
        let detail = format!("`clicks`: a rule's id has {} bytes: 1 to {MAX_ID_BYTES} are allowed", id.len());
        return Err(Problem::invalid(detail));
    }
    if let Some((id, clicks)) = clicks.iter().find(|(_, clicks)| clicks.0 > MAX_CLICKS) {
        let detail = format!("`clicks`: {} of {id:?} are not allowed: 0 to {MAX_CLICKS} are", clicks.0);
        return Err(Problem::invalid(detail));
    }
    let counted = |(id, clicks): (String, Clicks)| truth::Counted {
        created_at: created_at.get(&id).map(|it| it.0),
        clicks: clicks.0,
        id,
    };
    let clicks = clicks.into_iter().map(counted).collect();
    let is_new = truth.report(truth::Report { worker, number, clicks }).await.map_err(of_change)?;
    Ok(Json(ClicksCounted::new(is_new)))
}

pub(super) async fn clicks(call: Call<OfRule>) -> Result<Json<Clicked>> {
    let truth = &open(&call.app)?.truth;
    let id = call.path.id()?;
    let clicked = truth.clicks(id).await?.ok_or(Refusal::Unknown)?;
    Ok(Json(Clicked::new(id, clicked)))
}
