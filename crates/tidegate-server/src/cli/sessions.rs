//! `tidegate sessions`: questions to a server or straight to a store; what walks through a
//! whole store is in [`walk`](super::walk).

use std::process::ExitCode;

use axum::body::Bytes;
use axum::http::{Method, StatusCode};
use serde::Deserialize;
use tidegate::store::PartKind;

use super::args::Target;
use super::ask::Asking;
use super::hot::print;
use super::hot_told::detail;
use super::request::{Asked, encoded};
use super::sessions_args::{SessionSpace, SessionsCommand};
use super::{REFUSED, sessions_cleanup, sessions_told, walk};

pub(super) fn run(command: &SessionsCommand) -> Result<ExitCode, String> {
    super::runtime()?.block_on(async {
        match command {
            SessionsCommand::Migrate { dry_run, walk } => walk::migrate(walk, *dry_run).await,
            SessionsCommand::Reconcile { walk } => walk::reconcile(walk).await,
            SessionsCommand::Compare { max_age, walk } => walk::compare(walk, *max_age).await,
            SessionsCommand::Cleanup { dry_run: true, of, .. } => {
                let asked = Asked::new(Method::POST, format!("{}/cleanup?dry_run=true", path_of(of)), None);
                let asking = Asking::open_read_only(&of.target, &[(PartKind::Sessions, &of.space)]).await?;
                ask_one(asking, &of.target, asked, sessions_told::foreseen).await
            }
            SessionsCommand::Cleanup { no_wait, of, .. } => {
                sessions_cleanup::run(of, &format!("{}/cleanup", path_of(of)), *no_wait).await
            }
            SessionsCommand::Claim { limit, of } => {
                let body = serde_json::json!({ "limit": limit });
                let asked = Asked::new(Method::POST, format!("{}/claims", path_of(of)), Some(body));
                one(&of.target, Some(&of.space), asked, sessions_told::claimed).await
            }
            SessionsCommand::Renew { id, generation, attempt, of } => {
                let numbers = format!("generation={generation}&attempt={attempt}");
                let path = format!("{}/claims/{}?{numbers}", path_of(of), encoded(id));
                one(&of.target, Some(&of.space), Asked::new(Method::PUT, path, None), sessions_told::renewed)
                    .await
            }
            SessionsCommand::Ack { id, generation, of } => {
                let body = serde_json::json!({"acks": [{"id": id, "generation": generation}]});
                let asked = Asked::new(Method::POST, format!("{}/acks", path_of(of)), Some(body));
                ack(of, asked).await
            }
            SessionsCommand::Counts { of } => {
                one(
                    &of.target,
                    Some(&of.space),
                    Asked::get(format!("{}/counts", path_of(of))),
                    sessions_told::counted,
                )
                .await
            }
            SessionsCommand::List { state, max_age, limit, after, of } => {
                let which = match max_age {
                    Some(age) => format!("max_age={}", encoded(age)),
                    None => format!("state={}", state.as_str()),
                };
                let after = after.as_ref().map(|it| format!("&after={}", encoded(it))).unwrap_or_default();
                let asked = Asked::get(format!("{}?{which}&limit={limit}{after}", path_of(of)));
                one(&of.target, Some(&of.space), asked, sessions_told::listed).await
            }
            SessionsCommand::Show { id, broadcaster, of } => {
                let path = match broadcaster {
                    Some(broadcaster) => format!("{}/broadcasters/{}", path_of(of), encoded(broadcaster)),
                    None => session_of(of, id.as_deref().unwrap_or_default()),
                };
                one(&of.target, Some(&of.space), Asked::get(path), sessions_told::session).await
            }
            SessionsCommand::Delete { id, of } => {
                let asked = Asked::new(Method::DELETE, session_of(of, id), None);
                one(&of.target, Some(&of.space), asked, |_| Ok("deleted".to_owned())).await
            }
            SessionsCommand::Retry { id, of } => {
                let path = format!("{}/dead/{}/retry", path_of(of), encoded(id));
                let said = |_: &[u8]| Ok("it can be claimed again".to_owned());
                one(&of.target, Some(&of.space), Asked::new(Method::POST, path, None), said).await
            }
            SessionsCommand::Spaces { target } => {
                one(target, None, Asked::get("/v1/sessions".to_owned()), sessions_told::spaces).await
            }
        }
    })
}

fn path_of(of: &SessionSpace) -> String {
    format!("/v1/sessions/{}", encoded(&of.space))
}

fn session_of(of: &SessionSpace, id: &str) -> String {
    format!("{}/{}", path_of(of), encoded(id))
}

/// One question. A refusal is an answer.
async fn one(
    target: &Target,
    space: Option<&str>,
    asked: Asked,
    said: impl FnOnce(&[u8]) -> Result<String, String>,
) -> Result<ExitCode, String> {
    let asking =
        Asking::open(target, &space.map(|space| (PartKind::Sessions, space)).into_iter().collect::<Vec<_>>())
            .await?;
    ask_one(asking, target, asked, said).await
}

async fn ask_one(
    asking: Asking,
    target: &Target,
    asked: Asked,
    said: impl FnOnce(&[u8]) -> Result<String, String>,
) -> Result<ExitCode, String> {
    let answered = asking.send(asked).await;
    asking.close().await;
    let (status, answer) = answered?;
    let is_refusal = is_refusal(&answer);
    if !status.is_success() && !is_refusal {
        return Err(asking.failure(status, detail(&answer)));
    }
    print(&match (target.json, is_refusal) {
        (true, _) => machine(status, &answer),
        (false, true) => detail(&answer).unwrap_or_default(),
        (false, false) => said(&answer)?,
    })?;
    Ok(if is_refusal { ExitCode::from(REFUSED) } else { ExitCode::SUCCESS })
}

/// One acknowledgement: what became of it is in the answer.
async fn ack(of: &SessionSpace, asked: Asked) -> Result<ExitCode, String> {
    let asking = Asking::open(&of.target, &[(PartKind::Sessions, &of.space)]).await?;
    let answered = asking.send(asked).await;
    asking.close().await;
    let (status, answer) = answered?;
    if !status.is_success() {
        return Err(asking.failure(status, detail(&answer)));
    }
    let outcome = sessions_told::acked(&answer)?;
    print(&if of.target.json { machine(status, &answer) } else { outcome.clone() })?;
    Ok(if outcome == "deleted" { ExitCode::SUCCESS } else { ExitCode::from(REFUSED) })
}

/// As it came; what has no body has a word.
fn machine(status: StatusCode, answer: &Bytes) -> String {
    match status {
        StatusCode::NO_CONTENT => "{\"deleted\":true}".to_owned(),
        _ => String::from_utf8_lossy(answer).into_owned(),
    }
}

fn is_refusal(answer: &[u8]) -> bool {
    #[derive(Deserialize)]
    struct Problem {
        refusal: Option<String>,
    }
    serde_json::from_slice::<Problem>(answer).is_ok_and(|it| it.refusal.is_some())
}
