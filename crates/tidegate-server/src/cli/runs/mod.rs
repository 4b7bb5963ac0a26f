//! `tidegate run`: requests to a server or straight to a store, for shells and cron.

pub(super) mod args;
mod card;
mod items;
mod render;
mod watch;

use std::process::ExitCode;

use tidegate::store::PartKind;

use self::args::{InAttempt, OfRun, RunCommand, TaskArgs};
use super::send::{self, in_space};
use super::{REFUSED, Request, SpaceArgs, Target, encoded, read};
use crate::api::Invalid;
use crate::api::limit::WholeCost;
use crate::api::run::{Expire, Finish, One, Retry, Update};
use crate::api::run_quota::Charge;
use crate::parts::Access;

const RUNS: PartKind = PartKind::Runs;

pub(super) fn run(command: &RunCommand) -> Result<ExitCode, String> {
    let runtime = super::runtime()?;
    let ran = runtime.block_on(async {
        match command {
            RunCommand::Start { run, total, fields } => start(run, *total, fields).await,
            RunCommand::Status { run, is } => {
                let request = Request::get(path_of(&run.id));
                match is {
                    None => in_space(RUNS, &run.of, request, render::status).await,
                    Some(state) => is_in(run, request, state).await,
                }
            }
            RunCommand::Update { run, state, fields, remove, total } => {
                let set = fields.iter().map(|(name, value)| (name.clone(), Some(value.clone())));
                let removed = remove.iter().map(|name| (name.clone(), None));
                let body = Update { state: *state, fields: set.chain(removed).collect(), total: *total };
                let request = Request::post(change(run, "/update")).json(&body);
                in_space(RUNS, &run.of, request, render::updated).await
            }
            RunCommand::Processed { run, items } => items::processed(run, items).await,
            RunCommand::SkipDone { run, null } => items::skip_done(run, *null).await,
            RunCommand::Failed { run, items, reason, call } => {
                items::failed(run, items, reason, call.as_deref()).await
            }
            RunCommand::Failures { run, page } => {
                let request = page_of(Request::get(path_of(&run.id) + "/failures"), page);
                in_space(RUNS, &run.of, request, render::failures).await
            }
            RunCommand::RetryList { run, null } => items::retry_list(run, *null).await,
            RunCommand::TaskStarted(TaskArgs { run, task }) => {
                let path = change(run, &format!("/tasks/{}", encoded(task)));
                in_space(RUNS, &run.of, Request::put(path), render::task_started).await
            }
            RunCommand::TaskFinished(TaskArgs { run, task }) => {
                let path = change(run, &format!("/tasks/{}/finish", encoded(task)));
                let request = Request::post(path);
                in_space(RUNS, &run.of, request, render::task_finished).await
            }
            RunCommand::Finish { run, state } => {
                let body = Finish { state: state.clone() };
                let request = Request::post(change(run, "/finish")).json(&body);
                in_space(RUNS, &run.of, request, render::finished).await
            }
            RunCommand::Retry { run, from_attempt } => retry(run, *from_attempt).await,
            RunCommand::Show(run) => card::show(run).await,
            RunCommand::Watch { run, interval } => watch::run(run, *interval).await,
            RunCommand::List { state, page, of } => {
                let request = page_of(Request::get("").with("state", state.as_ref()), page);
                in_space(RUNS, of, request, render::listed).await
            }
            RunCommand::Expire { run, after } => {
                let body = Expire { lasting_ms: None, lasting: Some(after.into()) };
                let request = Request::post(change(run, "/expire")).json(&body);
                in_space(RUNS, &run.of, request, render::expires).await
            }
            RunCommand::Delete(run) => {
                let request = Request::delete(change(run, ""));
                in_space(RUNS, &run.of, request, |()| "deleted".to_owned()).await
            }
            RunCommand::Quota(of) => {
                let request = Request::get("/quota");
                in_space(RUNS, of, request, render::quota).await
            }
            RunCommand::Charge { id, cost, of } => {
                let cost = Some(WholeCost::new(*cost).map_err(|Invalid(why)| why)?);
                let request = Request::put(charge_of(id)).json(&Charge { cost });
                in_space(RUNS, of, request, render::charged).await
            }
            RunCommand::Release { id, of } => {
                let request = Request::delete(charge_of(id));
                in_space(RUNS, of, request, render::released).await
            }
            RunCommand::Cleanup(of) => {
                let request = Request::post("/cleanup");
                in_space(RUNS, of, request, render::cleaned).await
            }
            RunCommand::Spaces(target) => {
                send::send(target, &[], Request::get("/v1/runs"), render::spaces).await
            }
        }
    });
    // A thread that waits for a key does not hold the process.
    runtime.shutdown_background();
    ran
}

/// Starts a run, then says what is known of it beforehand.
async fn start(run: &OfRun, total: Option<u64>, fields: &[(String, String)]) -> Result<ExitCode, String> {
    let request = Request::put(path_of(&run.id));
    if total.is_none() && fields.is_empty() {
        return in_space(RUNS, &run.of, request, render::started).await;
    }
    let target = open(&run.of).await?;
    let (status, answer) = target.send(request).await?;
    if status.is_success() {
        let attempt = read::<crate::api::run::Changed>(&answer)?.attempt;
        let fields = fields.iter().map(|(name, value)| (name.clone(), Some(value.clone()))).collect();
        let path = format!("{}/update?attempt={attempt}", path_of(&run.id));
        let request = Request::post(path).json(&Update { state: None, fields, total });
        let (status, answer) = target.send(request).await?;
        if !status.is_success() {
            target.close().await;
            return Err(format!("it is started, but {}", target.failure(status, &answer)));
        }
    }
    target.close().await;
    send::finish(&target, run.of.target.json, status, &answer, render::started, send::refusal)
}

/// Retries the attempt that is named, or the one that it is in.
async fn retry(run: &OfRun, from_attempt: Option<u64>) -> Result<ExitCode, String> {
    let path = path_of(&run.id);
    let target = open(&run.of).await?;
    let from_attempt = match from_attempt {
        Some(attempt) => attempt,
        None => {
            let (status, answer) = target.send(Request::get(path.clone())).await?;
            if !status.is_success() {
                target.close().await;
                return send::finish(
                    &target,
                    run.of.target.json,
                    status,
                    &answer,
                    render::started,
                    send::refusal,
                );
            }
            read::<One>(&answer)?.attempt
        }
    };
    let request = Request::post(format!("{path}/retry")).json(&Retry { from_attempt });
    send::send_to(target, run.of.target.json, request, render::started, send::refusal).await
}

/// Whether a run is in a state, by the exit code alone.
async fn is_in(run: &OfRun, request: Request, state: &str) -> Result<ExitCode, String> {
    let target = open(&run.of).await?;
    let answered = target.send(request).await;
    target.close().await;
    let (status, answer) = answered?;
    let is_so = match status.is_success() {
        true => read::<One>(&answer)?.state == state,
        false if send::refusal(status, &answer).is_some() => false,
        false => return Err(target.failure(status, &answer)),
    };
    Ok(if is_so { ExitCode::SUCCESS } else { ExitCode::from(REFUSED) })
}

async fn open(of: &SpaceArgs) -> Result<Target, String> {
    Target::of_space(RUNS, of, Access::Write).await
}

fn path_of(id: &str) -> String {
    format!("/runs/{}", encoded(id))
}

fn charge_of(id: &str) -> String {
    format!("/quota/charges/{}", encoded(id))
}

/// What is below a run, for who means an attempt.
fn change(run: &InAttempt, what: &str) -> String {
    let attempt = run.attempt.map(|attempt| format!("?attempt={attempt}")).unwrap_or_default();
    format!("{}{what}{attempt}", path_of(&run.id))
}

fn page_of(request: Request, page: &args::PageArgs) -> Request {
    request.with("limit", Some(page.limit)).with("cursor", page.cursor.as_ref())
}
